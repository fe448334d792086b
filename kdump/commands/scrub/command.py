"""``kdump scrub``: reads everything once in a while, and remembers what it read.

It is a scrub as of ZFS or btrfs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import NOTHING_READ
from kdump.ui.options.rate import rate_option
from kdump.ui.options.reports import fail_on_option, format_option, info_option, quiet_option
from kdump.ui.options.state import DEFAULT_AGE, max_age_option, state_option
from kdump.ui.options.targets import (
    TargetOptions,
    find_scope,
    located,
    optional_path_options,
    say_wrong_paths,
)
from kdump.ui.options.values import read_duration
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Every night by cron: reads a share, all within a month.",
    epilog="Exit codes: 0 no finding as severe as --fail-on, also where --max-duration ended the "
    "run; 2 wrong usage; 4 problems found, records lost, or records that a stopped broker's next "
    "start loses; 5 something could not be read or checked, or the state could not be used, which "
    "comes before 4; 6 refused, nothing read: another scrub uses the state, or other users can "
    "redirect its path or have put its files there; 130, 143 ended by a signal, after a report of "
    "what was done; 141 the reader of the output went away.",
)
@state_option()
@max_age_option(default=DEFAULT_AGE)
@click.option(
    "--max-duration",
    "max_duration_s",
    metavar="TIME",
    callback=read_duration,
    help="End after this time, such as 3h or 90m; the next run goes on. Default: no limit.",
)
@rate_option("Default: 50MB.")
@click.option(
    "--fast",
    is_flag=True,
    help="If all brokers are stopped, read at full speed with several processes.",
)
@click.option(
    "--prometheus",
    "metrics",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write metrics into this file, for the textfile collector of node_exporter: of the "
    "runs, the bytes of each topic, those that outlive their retention, and when disks are full.",
)
@click.option(
    "--status",
    is_flag=True,
    help="Read nothing; show the state of all its log directories.",
)
@format_option(
    "Print a report for people, or JSON Lines: a header, a line a finding, a line with the "
    "forecast of each partition and its cures, a line with the state of each log directory, a line "
    "a step of the plan, a summary."
)
@progress_option
@fail_on_option
@info_option
@quiet_option
@optional_path_options
def scrub(
    targets: TargetOptions,
    state_file: Path | None,
    max_age_s: int,
    max_duration_s: int | None,
    limit_rate: int | None,
    fast: bool,
    metrics: Path | None,
    status: bool,
    form: Literal["text", "json"],
    progress: Mode,
    fail_on: Literal["error", "warning"],
    info: bool,
    quiet: bool,
) -> int:
    """Read the segments that are due, so that each is read within --max-age.

    PATH is a log directory or a partition directory. A quick check of everything comes first, as
    with verify --quick. Then scrub reads the segments that are due, as verify reads them: new
    segments, sealed segments that have changed, corrupt segments, and segments that were read too
    long ago. The last segment of a partition is due when it is sealed, or was read too long ago.
    scrub records each segment as soon as it was read: after a run that is interrupted, or that
    --max-duration ends, the next run continues there.

    A sealed segment does not change. If it holds other bytes than the last time, scrub reports it,
    even if no checksum covers them. Findings stay in the report until the segment is read again.

    scrub always reads as if a broker were running: one process, 50 MB a second, when disks and CPUs
    are idle, past the page cache. It writes only its state, and the file of --prometheus. It
    compares no producers and transactions of whole partitions, and reads no records: verify --deep
    does.
    """
    from kdump.audit.finding_code import Severity
    from kdump.commands.scrub.run import ScrubOptions, run_scrub, show_status
    from kdump.format.lines.shell import operand
    from kdump.output.files import default_state, make_parent

    path = state_file or default_state()
    if status:
        return show_status(path, form)
    targets = located(targets)
    options = ScrubOptions(
        max_age_s=max_age_s,
        max_duration_s=max_duration_s,
        limit_rate=limit_rate,
        fast=fast,
        metrics=metrics,
        form=form,
        progress=progress,
        fail_on=Severity(fail_on),
        info=info,
        quiet=quiet,
        words=(*(() if state_file is None else ("--state", operand(state_file))), *targets.words),
    )
    scope = find_scope(targets, stores=False)
    all_wrong = say_wrong_paths(scope.roots)
    if all_wrong and not os.path.lexists(path):  # no run has found anything there
        return NOTHING_READ.exit_code
    if state_file is None:
        make_parent(path)
    return run_scrub(options, scope, path, all_wrong=all_wrong)
