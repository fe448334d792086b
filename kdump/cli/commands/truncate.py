"""``kdump truncate-to-valid``: a log cut where recovery would cut it.

Spec: ``LogSegment.recover``, ``UnifiedLog.truncateTo``; KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.cli.commands.repairing import EXIT_CODES, Choice, argv_of, repair, repair_options
from kdump.cli.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.cli.ui.progress import Mode
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
@repair_options
def truncate_to_valid(
    paths: tuple[Path, ...],
    config: Path | None,
    topics: Sequence[str],
    excluded: Sequence[str],
    at: int | None,
    apply: bool,
    confirm: tuple[str, ...],
    assume_stopped: bool,
    full_proof: bool,
    form: Literal["text", "json"],
    progress: Mode,
    jobs: int | None,
) -> int:
    """Cut stopped partitions at the first batch that a broker's recovery does not accept.

    PATH is a partition directory or a log directory. The plan shows what is lost, including sound
    records after the damage, and which command loses less. A plan that loses records needs
    --confirm, or its id typed on the terminal. The result equals that of a broker's recovery: later
    segments are gone; indexes, producer snapshots, leader epochs and checkpoint lines fit. An
    existing clean shutdown marker stays, so that the next start scans no other partition.
    Everything that is cut off stays in a backup, and kdump undo restores it.
    """
    from kdump.cli.options.targets import find_scope
    from kdump.repair.truncate.plan import plan_truncate

    scope = find_scope(paths, config, topics, excluded, stores=False)
    arguments = argv_of((("--at", at), ("--config", config)))
    choice = Choice(
        "truncate-to-valid",
        arguments,
        apply,
        confirm,
        assume_stopped,
        full_proof,
        form,
        progress,
        jobs,
    )

    def planner(verdict: Verdict, _: Callable[[int], None]) -> Plan:
        return plan_truncate(verdict, at=at, arguments=arguments)

    return repair(scope, choice, planner)
