"""``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.

Spec: ``LogSegment.recover``; KOD 1, 2, 4.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kdump.ui.command import Command
from kdump.ui.options.targets import TargetOptions
from kdump.ui.repairs.repairing import EXIT_CODES, RepairOptions, repair, repair_options
from kdump.ui.units import LARGEST_INT

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.repair.transaction.plan import Plan


@click.command(
    cls=Command,
    short_help="Rebuild indexes, snapshots and leader epochs from logs.",
    epilog=EXIT_CODES,
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Replace every index that differs from a rebuilt index, even if it works.",
)
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0, max=LARGEST_INT),
    metavar="N",
    help=(
        "Build with this index.interval.bytes. Default: the topic's config if it is known, else "
        "4096."
    ),
)
@click.option(
    "--segment-index-bytes",
    type=click.IntRange(min=12, max=LARGEST_INT),
    metavar="N",
    help="Build with this segment.index.bytes. Default: the topic's config if it is known, else "
    "10485760.",
)
@repair_options("reindex")
def reindex(
    targets: TargetOptions,
    every: bool,
    index_interval_bytes: int | None,
    segment_index_bytes: int | None,
    choice: RepairOptions,
) -> int:
    """Rebuild the indexes of stopped partitions from their logs, as log recovery does.

    PATH is a partition directory or a log directory. Offset and time indexes are rebuilt where they
    are missing, malformed or padded, or mislead a lookup. Transaction indexes and producer
    snapshots are rebuilt too, as far as the log determines their content. An unreadable
    leader-epoch-checkpoint gets the epochs of the batches. A missing or unreadable
    partition.metadata gets the topic id from the metadata log. An unreadable checkpoint file of the
    log directory is rewritten with its readable lines. A log start offset beyond the log end offset
    is removed from log-start-offset-checkpoint. All other files stay.

    If the marker of a transaction is lost and no file shows the outcome, the transaction indexes
    and producer snapshots that depend on it stay as they are, and reindex reports it
    (transaction-end-lost).

    reindex never changes logs or the clean shutdown file, so that the next startup need not read a
    log. After rm *.index, the next startup reads every log whose index was removed. The replaced
    files go into a backup, and kdump undo restores them.
    """
    from kdump.audit.facts.settings import Overrides
    from kdump.repair.side_files.checkpoints import hosts
    from kdump.repair.side_files.plan import plan_reindex
    from kdump.storage.paths import as_local
    from kdump.ui.options.targets import find_scope

    scope = find_scope(targets, stores=False)
    wanted = Overrides(index_interval_bytes, segment_index_bytes)
    scope = replace(scope, context=replace(scope.context, wanted=wanted))
    choice = choice.with_arguments(
        ("--all", every),
        ("--index-interval-bytes", index_interval_bytes),
        ("--segment-index-bytes", segment_index_bytes),
        ("--config", targets.config),
    )
    directories = hosts(scope.targets)

    def planner(verdict: Verdict, _: Callable[[int], None]) -> Plan:
        return plan_reindex(
            verdict,
            every=every,
            settings=scope.context.settings(verdict.target),
            node=scope.context.node(verdict.target),
            checkpoints=directories.get(as_local(verdict.target.path)),
            arguments=choice.arguments,
        )

    return repair(scope, choice, planner, rebuild=True)
