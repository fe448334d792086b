"""``kdump verify``: what is on disk, what is wrong there, and how much of it was looked at.

Spec: none of Kafka's; the checks are in ``kdump.audit``. It must never write anything but its
report, and that holds no keys or values.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.cli.exits import INTERRUPTED, OK, TERMINATED

if TYPE_CHECKING:
    from kdump.cli.progress import Mode


@click.command(
    short_help="Check batches, checksums, offsets and indexes.",
    epilog="Exit codes: 0 nothing found that --fail-on asks for; 2 wrong usage; 4 problems found; "
    "5 something could not be read or judged, which comes before 4; 130, 143 ended by a signal, "
    "after a report of what was done; 141 the reader of the output went away.",
)
@click.option("--deep", is_flag=True, help="Also decompress and read every record.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print a report for people, or JSON Lines: a header, a line a finding, a summary.",
)
@click.option(
    "--progress",
    type=click.Choice(["auto", "bar", "line", "none"]),
    default="auto",
    show_default=True,
    help="Show progress on standard error: a bar, or a line a minute; auto takes a bar on a "
    "terminal. SIGUSR1 prints a line at once, except with none.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Read with N processes at a time. Default: the CPUs that this process may use.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 4.",
)
@click.option("--info", is_flag=True, help="List notes too: oddities of normal running.")
@click.option("--quiet", is_flag=True, help="Print nothing if the exit code is 0.")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
def verify(
    paths: tuple[Path, ...],
    deep: bool,
    form: Literal["text", "json"],
    progress: Mode,
    jobs: int | None,
    fail_on: Literal["error", "warning"],
    info: bool,
    quiet: bool,
) -> int:
    """Check every batch header and checksum, offsets within and across segments, and the indexes.

    PATH is a log directory, a partition directory or a segment. Nothing is changed, and a broker
    may be running: what it may still be writing is not taken for damage.
    """
    from kdump.audit.codes import Severity
    from kdump.audit.verify import Judged, assign, open_roots
    from kdump.audit.verify import verify as judge
    from kdump.cli.progress import Progress
    from kdump.cli.verify_json import JsonReport
    from kdump.cli.verify_summary import Run, summarize
    from kdump.cli.verify_text import TextReport
    from kdump.storage.workers import default_jobs

    started = time.monotonic()
    jobs = jobs or default_jobs()
    held: list[str] = []
    emit = held.append if quiet else click.echo
    judged: list[Judged] = []
    stopped_by = None
    with Progress("none" if quiet and progress == "auto" else progress) as shown:
        roots = list(open_roots(paths))
        assigned = [assign(root) for root in roots]
        groups = [group for part in assigned for group in part]
        total_bytes = sum(group.size for group in groups)
        shown.expect(total_bytes)
        report: JsonReport | TextReport
        if form == "json":
            report = JsonReport(emit, roots, deep=deep)
        else:
            report = TextReport(emit, roots, [len(part) for part in assigned], info=info)
        results = judge(groups, deep=deep, jobs=jobs, on_progress=shown.advance)
        try:
            with closing(results):
                for one in results:
                    judged.append(one)
                    report.add(one)
        except KeyboardInterrupt:
            stopped_by = INTERRUPTED
        except SystemExit:  # raised at SIGTERM
            stopped_by = TERMINATED
    summary = summarize(
        Run(
            deep=deep,
            jobs=jobs,
            fail_on=Severity(fail_on),
            total=len(groups),
            total_bytes=total_bytes,
            seconds=time.monotonic() - started,
            stopped_by=stopped_by,
        ),
        judged,
    )
    report.finish(summary)
    if summary.exit_code != OK:
        for line in held:
            click.echo(line)
    return summary.exit_code
