"""``kdump verify``: what is on disk, what is wrong, what the next start does.

The checks are in ``kdump.audit``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from signal import SIGINT, SIGTERM
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import OK
from kdump.ui.options.jobs import jobs_option
from kdump.ui.options.rate import rate_option
from kdump.ui.options.reports import fail_on_option, format_option, info_option, quiet_option
from kdump.ui.options.spark import SparkOptions, spark_options
from kdump.ui.options.state import MemoryOptions, memory_options
from kdump.ui.options.targets import LogPath, TargetOptions, target_options
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.commands.verify.engine import VerifyRequest
    from kdump.commands.verify.run_tables import RunTables
    from kdump.storage.paths import AnyPath
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Find corruption and loss; forecast the next startup.",
    epilog="Exit codes: 0 no finding as severe as --fail-on; 2 wrong usage; 4 problems found, "
    "records lost, or records that a stopped broker's next start loses; 5 something could "
    "not be read or checked, or the state of runs on Spark could not be used, which comes before "
    "4; 6 refused, nothing read: other users can redirect the path of a state or of --to, or have "
    "put the files of a state there; 130, 143 ended by a signal, after a report of what was done; "
    "141 the reader of the output went away.",
)
@click.option(
    "--quick",
    "depth",
    flag_value="quick",
    help="Check only names, sizes, small files and the ends of logs and indexes: seconds for "
    "thousands of partitions, but no corruption in logs is found.",
)
@click.option("--deep", "depth", flag_value="deep", help="Also decompress and read every record.")
@format_option(
    "Print a report for people, or JSON Lines: a header, a line a finding, a line with the "
    "forecast of each partition and its cures, a line a step of the plan, a summary; html is the "
    "report as one file, with pictures.",
    "html",
)
@progress_option
@jobs_option()
@rate_option("Default: 50MB while a broker runs, else none. On Spark only none.")
@fail_on_option
@info_option
@quiet_option
@memory_options
@click.option(
    "--to",
    metavar="DIR",
    type=LogPath(),
    help="Append the results to the Parquet tables findings, forecasts, ledger, statistics and "
    "runs below this directory, or below an address such as s3://BUCKET/PREFIX.",
)
@spark_options
@target_options
def verify(
    targets: TargetOptions,
    depth: Literal["quick", "deep"] | None,
    form: Literal["text", "json", "html"],
    progress: Mode,
    jobs: int | None,
    limit_rate: int | None,
    fail_on: Literal["error", "warning"],
    info: bool,
    quiet: bool,
    memory: MemoryOptions,
    to: AnyPath | None,
    spark: SparkOptions,
) -> int:
    """Check every file of a log directory, and forecast a broker's next startup.

    PATH is a log directory, a partition directory or a segment, the address of a copy, such as
    s3://BUCKET/PREFIX, or a manifest. A quick check of everything comes first. Then verify reads
    every batch header, checks every checksum, and compares them with indexes, producer snapshots,
    leader epochs and checkpoints. Nothing is changed, and a broker may be running. The broker keeps
    its page cache and has priority at the disks. verify does not report bytes as corrupt that the
    broker may still be writing.

    With --to, each run also adds a Parquet file to each of five tables. A run that is killed or
    fails is not in the table runs. A run that a signal ends is in it, with the partitions that were
    checked. Without --deep, the compression ratio is unknown. As root, kdump writes with the rights
    of the owner of DIR. --to needs the extra parquet.

    On Spark with --state, the state keeps the evidence of sealed segments, by the rules of kdump
    scrub: a second run reads segments that are new or due, and checks each partition with the
    evidence of all its segments. A run that is killed continues where it was. verify reports a
    sealed segment that holds other bytes than the last time.
    """
    from kdump.commands.verify.engine import VerifyRequest, changed_state
    from kdump.commands.verify.run_tables import open_run_tables
    from kdump.ui.options.targets import named_paths

    run_depth = depth or "default"
    memory.check(spark=spark.given, quick=depth == "quick")
    request = VerifyRequest(
        targets,
        run_depth,
        jobs,
        limit_rate,
        spark,
        changed_state(memory, fits=depth is None and not spark.given),
        memory.state if spark.given else None,
        memory.age_s,
        statistics=to is not None,
    )
    read = () if to is None else named_paths(targets)[0]
    with open_run_tables(to, read) as tables:
        return _run(
            request,
            tables,
            form=form,
            progress=progress,
            fail_on=fail_on,
            info=info,
            quiet=quiet,
        )


def _nothing(_: str) -> None:
    """Print nothing."""


def _run(
    request: VerifyRequest,
    tables: RunTables | None,
    *,
    form: Literal["text", "json", "html"],
    progress: Mode,
    fail_on: Literal["error", "warning"],
    info: bool,
    quiet: bool,
) -> int:
    from kdump.audit.finding_code import Severity
    from kdump.audit.run.reconcile import requested_findings
    from kdump.audit.verdicts.directory_start import Starts
    from kdump.audit.verdicts.next_start import Conclusion
    from kdump.audit.verdicts.packs import PackedVerdicts
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.commands.verify.engine import start_engine
    from kdump.format.lines.text import printable
    from kdump.storage.logdir import LogDirectory
    from kdump.ui.options.targets import say_wrong_paths
    from kdump.ui.progress import Progress
    from kdump.ui.verdicts.json_lines import JsonReport
    from kdump.ui.verdicts.summary import VerdictRun, summarize
    from kdump.ui.verdicts.text import TextReport

    started = time.monotonic()
    lines: list[str] = []
    emit: Callable[[str], None] = lines.append if quiet else click.echo
    verdicts, read_bytes = PackedVerdicts(), 0
    stopped_by = None
    run_depth = request.depth
    with (
        Progress("none" if quiet and progress == "auto" else progress) as meter,
        start_engine(request, meter) as engine,
    ):
        scope = engine.scope
        if say_wrong_paths(scope.roots) and form != "json":
            emit = _nothing
        page = None
        if form == "html" and emit is not _nothing:
            from kdump.ui.html.page import HtmlPage

            page = HtmlPage("kdump verify")
        say = emit if page is None else page.emit
        starts = Starts(scope.roots, scope.context.config)
        report: JsonReport | TextReport
        counts = [len(part) for part in scope.parts]
        if form == "json":
            report = JsonReport(emit, scope.roots, counts, verdicts, starts, depth=run_depth)
        else:
            report = TextReport(
                say,
                meter.note,
                scope.roots,
                counts,
                verdicts,
                starts,
                options=request.targets.words,
                info=info,
            )
        found = requested_findings(engine.directories(), scope)
        report.directories(found)
        # A log directory may have thousands of partitions, whose verdicts stay in memory.
        spelled_out = frozenset(
            target.path
            for root, part in zip(scope.roots, scope.parts, strict=True)
            if page is not None or not isinstance(root.content, LogDirectory)
            for target in part
        )
        conclude = Conclusion(spelled_out, statistics=tables is not None)
        if tables is not None:
            tables.start(scope.roots, found)
        try:
            with closing(engine.verify(conclude, report.preview)) as verified:
                compared: Iterable[Verdict] = verified
                if run_depth != "quick" and len(scope.roots) > 1:
                    from kdump.commands.verify.divergence import compare_metadata_logs

                    compared = compare_metadata_logs(
                        verified, scope.roots, jobs=engine.jobs, pace=engine.pace
                    )
                for verdict in compared if tables is None else map(tables.add, compared):
                    verdicts.append(verdict)
                    read_bytes += verdict.covered.read_bytes
                    report.add(verdict)
        except KeyboardInterrupt:
            stopped_by = SIGINT
        except SystemExit:  # raised at SIGTERM
            stopped_by = SIGTERM
        full = tuple(starts.space_findings())
        report.directories(full)
        found += full
    summary = summarize(
        VerdictRun(
            depth=run_depth,
            jobs=engine.jobs,
            limit_rate=engine.limit_rate,
            fail_on=Severity(fail_on),
            total=scope.count,
            # A log may have grown since it was listed.
            total_bytes=max(engine.total_bytes, read_bytes),
            seconds=time.monotonic() - started,
            stopped_by=stopped_by,
            left_out=engine.left_out,
            remembers=request.state is not None,
        ),
        found,
        verdicts,
        starts,
    )
    report.finish(summary)
    if tables is not None:
        run_id = tables.finish(summary)
        if form != "json":
            say(f"Appended to the tables below {printable(str(tables.to))} as run {run_id}.")
    if page is not None:
        from kdump.ui.verdicts.pictures import draw_verdicts

        draw_verdicts(page, verdicts, scope.roots)
        emit(page.html())
    if summary.exit_code != OK:
        for line in lines:
            click.echo(line)
    return summary.exit_code
