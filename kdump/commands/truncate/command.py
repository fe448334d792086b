"""``kdump truncate-to-valid``: a log cut where recovery would cut it.

Spec: ``LogSegment.recover``, ``UnifiedLog.truncateTo``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kdump.ui.options.targets import TargetOptions
from kdump.ui.repairs.repairing import EXIT_CODES, RepairOptions, repair, repair_options
from kdump.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.repair.transaction.plan import Plan


@click.command(
    "truncate-to-valid",
    short_help="Cut logs where a broker's recovery would, with a plan and a way to undo it.",
    epilog=EXIT_CODES,
)
@click.option(
    "--at",
    type=click.IntRange(min=0, max=LARGEST_LONG),
    metavar="OFFSET",
    help="Cut at this offset instead: every batch with an offset from there on is removed.",
)
@repair_options("truncate-to-valid")
def truncate_to_valid(
    targets: TargetOptions,
    at: int | None,
    choice: RepairOptions,
) -> int:
    """Cut stopped partitions at the first batch that a broker's recovery does not accept.

    PATH is a partition directory or a log directory. The plan shows what is lost, including sound
    records after the damage, and which command loses less. A plan that loses records needs
    --confirm, or its id typed on the terminal. The result equals that of a broker's recovery: later
    segments are gone; indexes, producer snapshots, leader epochs and checkpoint lines fit. An
    existing clean shutdown marker stays, so that the next start scans no other partition.
    Everything that is cut off stays in a backup, and kdump undo restores it.

    A transaction without a marker before the cut stays open, and the plan names it
    (transaction-end-lost). Consumers with read_committed stop there until its coordinator ends it,
    or an operator aborts it. Where a marker before the cut is lost and no file shows the outcome,
    the entries of the transaction index stay as they are.
    """
    from kdump.commands.truncate.plan import plan_truncate
    from kdump.ui.options.targets import find_scope

    scope = find_scope(targets, stores=False)
    choice = choice.with_arguments(("--at", at), ("--config", targets.config))

    def planner(verdict: Verdict, _: Callable[[int], None]) -> Plan:
        return plan_truncate(verdict, at=at, arguments=choice.arguments)

    return repair(scope, choice, planner)
