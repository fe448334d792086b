"""``kdump heal``: damaged and missing parts of a log, taken from copies of it.

Spec: ``LeaderEpochFileCache`` (KIP-101); KOD 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.targets import LogPath, TargetOptions
from kdump.ui.repairs.repairing import RepairOptions, repair, repair_options

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Verdict
    from kdump.repair.transaction.plan import Plan
    from kdump.storage.paths import AnyPath


@click.command(
    "heal",
    cls=Command,
    short_help="Restore corrupt or lost records --from a replica's copy.",
    epilog="Exit codes: 0 nothing to do, or done; 2 wrong usage; 4 there is a plan, which --apply "
    "carries out, or something stays corrupt or missing; 5 something could not be read, or a "
    "repair was interrupted: the last line on standard error is then the command that continues "
    "it; 6 refused, nothing changed; 130, 143 ended by a signal; 141 the reader of the output went "
    "away.",
)
@click.option(
    "--from",
    "copies",
    metavar="COPY",
    multiple=True,
    type=LogPath(),
    help="Take from this replica: a partition directory, a log directory with a partition of the "
    "same name, or an address in an object store. Repeatable: the first that has a stretch gives "
    "it. Replicas are only read; their brokers may be running.",
)
@repair_options("heal")
def heal(targets: TargetOptions, copies: tuple[AnyPath, ...], choice: RepairOptions) -> int:
    """Replace corrupt and missing parts of stopped partitions by the same bytes of a replica.

    PATH is a partition directory or a log directory. heal replaces a corrupt stretch if a replica
    has the same batches before and after it, with the same offsets, leader epoch and checksum, and
    valid batches of exactly that size between them. It takes a torn or missing end, and missing
    segments, as far as the leader epochs of both logs agree. From a replica whose broker is
    running, it takes only records below the high watermark. A log that was compacted only gets
    stretches of the same size.

    heal never takes records of another lineage, and never changes the log that it takes from. Parts
    that no replica has stay as they are, and the plan says so. Indexes, transaction indexes,
    producer snapshots and leader epochs follow the log. The replaced files go into a backup, and
    kdump undo restores them.
    """
    from kdump.repair.healing.plan import plan_heal
    from kdump.storage.logdir import open_path
    from kdump.storage.paths import typed_text
    from kdump.ui.options.targets import find_scope, refuse_manifests

    scope = find_scope(targets, stores=False)
    refuse_manifests(copies)
    for copy in copies:
        open_path(copy)  # a wrong path is one error, not one for each partition
    choice = choice.with_arguments(
        *(("--from", typed_text(copy)) for copy in copies), ("--config", targets.config)
    )
    ends: dict[str, Ending] = {}

    def planner(verdict: Verdict, report: Callable[[int], None]) -> Plan:
        made = plan_heal(
            verdict,
            copies,
            settings=scope.context.settings(verdict.target),
            node=scope.context.node(verdict.target),
            arguments=choice.arguments,
            report=report,
        )
        if not made.complete:
            ends[made.plan.id] = Ending(unread=bool(made.unread), problems=True)
        return made.plan

    return repair(scope, choice, planner, rebuild=True, ends=ends)
