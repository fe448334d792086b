"""``kdump next-start``: what a broker does at its next start.

Spec: ``LogManager.loadLogs``, ``LogLoader`` of 3.9 to 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import NOTHING_READ
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import TargetOptions, target_options
from kdump.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.audit.verdicts.next_start import Assumptions


@click.command(
    "next-start",
    cls=Command,
    short_help="Forecast the next startup: reasons to fail, cost, loss.",
    epilog="Exit codes: 0 the broker starts and loses no valid record, as far as was read; 2 "
    "wrong usage; 4 the broker does not start, a log directory goes offline or is missing, the "
    "only replica of a partition is missing, valid records are lost or no longer served, or "
    "records are lost already, as far as was read; 5 something could not be read, which comes "
    "before 4; 130, 143 ended by a signal; 141 the reader of the output went away.",
)
@format_option(
    "Print a report for people, or JSON Lines: a header, a line a partition with its cures, a "
    "summary; html is the report as one file, with pictures.",
    "html",
)
@click.option(
    "--scan",
    is_flag=True,
    help="Also read the segments that recovery would read, to find where it truncates. "
    "Without it, only their ends are read.",
)
@click.option(
    "--clean/--unclean",
    default=None,
    help="Assume that the last shutdown was clean, or unclean.",
)
@click.option(
    "--recovery-point",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Assume this recovery point for all partitions, whatever the checkpoint holds.",
)
@click.option(
    "--log-start",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Assume this log start offset for all partitions, whatever the checkpoint holds.",
)
@target_options
def next_start(
    targets: TargetOptions,
    form: Literal["text", "json", "html"],
    scan: bool,
    clean: bool | None,
    recovery_point: int | None,
    log_start: int | None,
) -> int:
    """Forecast what a broker of 3.9 to 4.4 does with log directories at its next startup.

    PATH is a log directory or a partition directory, the address of a copy, such as
    s3://BUCKET/PREFIX, or a manifest. For a partition outside of a log directory, kdump assumes an
    unclean shutdown, and that no record was flushed.
    """
    from kdump.audit.run.prescan import quick_pass
    from kdump.audit.run.reconcile import reconcile_directories, requested_findings
    from kdump.audit.verdicts.next_start import (
        Assumptions,
        add_forecast,
        read_recovered,
        with_forecast,
    )
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.commands.next_start.reports import JsonStarts, TextStarts
    from kdump.storage.workers import default_jobs
    from kdump.ui.options.targets import find_scope, note_manifests, say_wrong_paths

    scope = find_scope(targets, manifests=True)
    note_manifests(scope)
    if say_wrong_paths(scope.roots) and form != "json":
        return NOTHING_READ.exit_code
    assumptions = Assumptions(clean, recovery_point, log_start)
    report: TextStarts | JsonStarts
    page = None
    if form == "html":
        from kdump.ui.html.page import HtmlPage

        page = HtmlPage("kdump next-start")
    if form == "json":
        report = JsonStarts(click.echo, scope.roots, scope.context.config)
    else:
        options = (*_words(assumptions), *targets.words)
        emit = click.echo if page is None else page.emit
        report = TextStarts(emit, scope.roots, scope.context.config, options)
    report.directories(requested_findings(reconcile_directories(scope.context), scope))

    def conclude(verdict: Verdict) -> Verdict:
        verdict = assumptions.apply(verdict)
        return with_forecast(verdict) if scan else add_forecast(verdict, segments=page is not None)

    jobs = default_jobs()
    with closing(
        quick_pass(scope.targets, scope.context, jobs=jobs, conclude=conclude)
    ) as verdicts:
        known = list(verdicts)
    if scan:
        known = read_recovered(known, jobs=jobs)
    for verdict in known:
        report.add(verdict, verdict.forecast)
    report.directories(report.starts.space_findings())
    exit_code = report.finish()
    if page is not None:
        from kdump.ui.verdicts.pictures import draw_verdicts

        draw_verdicts(page, known, scope.roots)
        click.echo(page.html())
    return exit_code


def _words(assumptions: Assumptions) -> Iterator[str]:
    """Yield the options that make ``assumptions``."""
    if assumptions.clean is not None:
        yield "--clean" if assumptions.clean else "--unclean"
    if assumptions.recovery_point is not None:
        yield f"--recovery-point={assumptions.recovery_point}"
    if assumptions.log_start is not None:
        yield f"--log-start={assumptions.log_start}"
