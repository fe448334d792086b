"""``kdump transactions``: transactions of coordinators and in logs, from the disk of a broker.

Spec: ``TransactionsCommand`` (KIP-664), ``TransactionStateManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.jobs import jobs_option, reading_jobs
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.targets import TargetOptions, find_read_scope, path_options
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.ui.progress import Mode


@click.command(
    cls=Command,
    short_help="Show transactions, and which of them hang.",
    epilog="Exit codes: 0 shown; 2 wrong usage; 4 a transaction hangs, or the logs of "
    "__transaction_state are corrupt; 5 something could not be read, which comes before 4; "
    "130, 143 ended by a signal; 141 the reader of the output went away.",
)
@click.option("--hanging", is_flag=True, help="Show only hanging transactions.")
@click.option(
    "--transactional-id",
    "patterns",
    metavar="GLOB",
    multiple=True,
    help="Show only transactions whose transactional id matches this pattern; repeatable.",
)
@format_option("Tables for people, or JSON Lines.")
@wide_option
@jobs_option()
@progress_option
@path_options
def transactions(
    targets: TargetOptions,
    hanging: bool,
    patterns: tuple[str, ...],
    form: Literal["text", "json"],
    wide: bool,
    jobs: int | None,
    progress: Mode,
) -> int:
    """Show the transactions of coordinators at PATH, and the open transactions of the logs there.

    PATH is a log directory; several PATHs may be the log directories of all brokers. For each
    transactional id in __transaction_state, kdump shows the producer, the state, the timeout and
    the partitions. For each open transaction in a log, it shows the first offset, and the number of
    offsets between the last stable offset and the log end offset, which consumers with
    read_committed do not get.

    A transaction is ongoing while its coordinator may wait for its producer, and late after its
    timeout: a running coordinator aborts it. If only a marker is missing, the coordinator has
    decided, and writes the marker once it runs. A transaction hangs if it is open in a log and no
    coordinator has to end it: it holds the last stable offset until the printed command aborts it.
    kdump knows whether a transaction hangs only with all of __transaction_state.

    Like a broker that starts, kdump takes the open transactions of a log from its newest producer
    snapshot and the segments after it. The age of a transaction ends with the last write of a
    stopped broker. kdump changes nothing, and can run while a broker is running.
    """
    from kdump.commands.transactions.report import emit_transactions, print_transactions
    from kdump.commands.transactions.selection import Shown
    from kdump.commands.transactions.transactions import find_transactions
    from kdump.ui.progress import Progress

    scope = find_read_scope(targets)
    with Progress(progress) as meter:
        meter.expect(len(scope.targets), "partitions")
        jobs = reading_jobs(jobs, scope.targets)
        found = find_transactions(scope, jobs=jobs, on_progress=meter.advance)
    shown = Shown(found, patterns, hanging)
    if form == "json":
        return emit_transactions(shown, [root.path for root in scope.roots], click.echo)
    return print_transactions(shown, click.echo, wide=wide)
