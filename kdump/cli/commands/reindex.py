"""``kdump reindex``: indexes, snapshots, epochs and checkpoints from the logs.

Spec: ``LogSegment.recover``; KOD 1, 2, 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.cli.commands.repairing import EXIT_CODES, Choice, given, repair, repairing
from kdump.cli.ui.units import LARGEST_INT

if TYPE_CHECKING:
    from kdump.audit.verdicts.verdict import Judged
    from kdump.cli.ui.progress import Mode
    from kdump.repair.transaction.plan import Plan


@click.command(
    short_help="Build the files beside the logs anew that are missing or wrong, and no others.",
    epilog=EXIT_CODES,
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Replace every index that differs from a new one, also those that work.",
)
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(min=0, max=LARGEST_INT),
    metavar="N",
    help="Build by this index.interval.bytes. Default: the topic's where it is known, else 4096.",
)
@click.option(
    "--segment-index-bytes",
    type=click.IntRange(min=12, max=LARGEST_INT),
    metavar="N",
    help="Build by this segment.index.bytes. Default: the topic's where it is known, else "
    "10485760.",
)
@repairing
def reindex(
    paths: tuple[Path, ...],
    config: Path | None,
    topics: Sequence[str],
    excluded: Sequence[str],
    every: bool,
    index_interval_bytes: int | None,
    segment_index_bytes: int | None,
    apply: bool,
    confirm: tuple[str, ...],
    assume_stopped: bool,
    full_proof: bool,
    form: Literal["text", "json"],
    progress: Mode,
    jobs: int | None,
) -> int:
    """Build the indexes of stopped partitions anew from their logs, as a broker's recovery does.

    PATH is a partition directory or a log directory. Offset and time indexes are built where they
    are missing, malformed or padded, or lead a lookup astray; transaction indexes and producer
    snapshots too, as far as the log tells what they held. A garbled leader-epoch-checkpoint gets
    the epochs of the batches, a missing or garbled partition.metadata the id that the metadata log
    has; a checkpoint file of the log directory that cannot be read is written from the lines that
    can be. All others stay. Logs and the clean
    shutdown marker are never touched, so that the next start need not read a log; it reads every
    one whose index was removed by rm *.index. What is replaced goes into a backup, and kdump undo
    brings it back.
    """
    from kdump.audit.facts.settings import Wanted
    from kdump.cli.options.targets import find_targets
    from kdump.repair.reindex.checkpoints import hosts
    from kdump.repair.reindex.plan import plan_reindex

    targets = find_targets(paths, config, topics, excluded, stores=False)
    wanted = Wanted(index_interval_bytes, segment_index_bytes)
    targets = replace(targets, context=replace(targets.context, wanted=wanted))
    arguments = given(
        (
            ("--all", every),
            ("--index-interval-bytes", index_interval_bytes),
            ("--segment-index-bytes", segment_index_bytes),
            ("--config", config),
        )
    )
    choice = Choice(
        "reindex", arguments, apply, confirm, assume_stopped, full_proof, form, progress, jobs
    )

    directories = hosts(targets.groups)

    def planner(judged: Judged, _: Callable[[int], None]) -> Plan:
        return plan_reindex(
            judged,
            every=every,
            settings=targets.context.settings(judged.group),
            node=targets.context.node(judged.group),
            checkpoints=directories.get(judged.group.path),
            arguments=arguments,
        )

    return repair(targets, choice, planner, rebuild=True)
