"""``kdump truncate-to-valid``: a log cut where recovery would cut it.

Spec: ``LogSegment.recover``, ``UnifiedLog.truncateTo``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kdump.ui.command import Command
from kdump.ui.options.targets import TargetOptions
from kdump.ui.repairs.repairing import EXIT_CODES, RepairOptions, repair, repair_options
from kdump.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.repair.transaction.plan import Plan


@click.command(
    "truncate-to-valid",
    cls=Command,
    short_help="Truncate logs at what is corrupt, as log recovery does.",
    epilog=EXIT_CODES,
)
@click.option(
    "--at",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Truncate here instead: remove every batch with an offset from OFFSET on.",
)
@repair_options("truncate-to-valid")
def truncate_to_valid(
    targets: TargetOptions,
    at: int | None,
    choice: RepairOptions,
) -> int:
    """Truncate stopped partitions at the first batch that log recovery does not accept.

    PATH is a partition directory or a log directory. The plan shows the lost records, including
    valid records after the corruption, and the command that loses fewer. A plan that loses records
    needs --confirm, or its id typed on the terminal. The result equals the result of log recovery:
    later segments are gone; indexes, producer snapshots, leader epochs and checkpoint lines fit. An
    existing clean shutdown file stays, so that the next startup scans no other partition. All
    removed bytes stay in a backup, and kdump undo restores them.

    A transaction without a marker in the remaining log stays open, and the plan names it
    (transaction-end-lost). Consumers with read_committed stop there until its coordinator ends it,
    or an operator aborts it. If a marker of the remaining log is lost and no file shows the
    outcome, the entries of the transaction index stay as they are.
    """
    from kdump.repair.truncation.plan import plan_truncate
    from kdump.ui.options.targets import find_scope

    scope = find_scope(targets, stores=False)
    choice = choice.with_arguments(("--at", at), ("--config", targets.config))

    def planner(verdict: Verdict, _: Callable[[int], None]) -> Plan:
        return plan_truncate(verdict, at=at, arguments=choice.arguments)

    return repair(scope, choice, planner)
