"""``kdump next-start``: what a broker does at its next start.

Spec: ``LogManager.loadLogs``, ``LogLoader`` of 3.9 to 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

import click

from kdump.cli.options.targets import selecting
from kdump.cli.ui.units import LARGEST_LONG


@click.command(
    "next-start",
    short_help="Say what a broker's next start will do, and what it costs.",
    epilog="Exit codes: 0 the broker starts and, as far as was read, loses no sound record; 2 "
    "wrong usage; 4 it does not start, a log directory goes offline, sound records are lost or "
    "not served any more, or records are lost already, as far as was read; 5 something could not "
    "be read, which comes before 4; 130, 143 ended by a signal; 141 the reader of the output went "
    "away.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Print a report for people, or JSON Lines: a header, a line a partition, a summary.",
)
@click.option(
    "--scan",
    is_flag=True,
    help="Also read the segments that recovery would read, to say what it would cut. Without it "
    "only their ends are known.",
)
@click.option(
    "--clean/--unclean",
    default=None,
    help="Take the last stop for clean or not, whatever the marker says.",
)
@click.option(
    "--recovery-point",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Take this recovery point for all partitions, whatever the checkpoint says.",
)
@click.option(
    "--log-start",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Take this log start offset for all partitions, whatever the checkpoint says.",
)
@selecting
def next_start(
    paths: tuple[Path, ...],
    config: Path | None,
    topics: Sequence[str],
    excluded: Sequence[str],
    form: Literal["text", "json"],
    scan: bool,
    clean: bool | None,
    recovery_point: int | None,
    log_start: int | None,
) -> int:
    """Say what a broker of 3.9 to 4.3 will do with log directories when it starts next.

    PATH is a log directory or a partition directory, or an address such as s3://BUCKET/PREFIX where
    one was copied to. A partition that stands in no log directory is taken for one that was stopped
    uncleanly, with nothing known to be flushed.
    """
    from kdump.audit.run.prescan import quick_pass
    from kdump.audit.run.reconcile import settled_directories
    from kdump.audit.targets.target import Group
    from kdump.audit.verdicts.next_start import Assumed, concluded, scanned
    from kdump.audit.verdicts.verdict import Judged
    from kdump.cli.options.targets import find_targets
    from kdump.cli.views.verify.next_start import JsonStarts, TextStarts
    from kdump.storage.workers import default_jobs

    targets = find_targets(paths, config, topics, excluded)
    groups: list[Group] = targets.groups
    assumed = Assumed(clean, recovery_point, log_start)
    report = (JsonStarts if form == "json" else TextStarts)(
        click.echo, targets.roots, targets.context.config
    )
    report.directories(settled_directories(targets.context))

    def foresee(one: Judged) -> Judged:
        return concluded(one, segments=False)

    def conclude(one: Judged) -> Judged:
        one = assumed.apply(one)
        return one if scan else foresee(one)

    jobs = default_jobs()
    with closing(quick_pass(groups, targets.context, jobs=jobs, conclude=conclude)) as looked:
        known = list(looked)
    if scan:
        known = list(map(foresee, scanned(known, jobs=jobs)))
    for one in known:
        report.add(one, one.forecast)
    return report.finish()
