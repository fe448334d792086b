"""The partitions of an export: their copies, and what of each log is exported.

If the export of a log depends on the other logs of its partition, all logs are read once before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.run.spread import Spread
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.commands.export.task import Share, Trouble, missing_result
from kdump.storage.paths import AnyPath
from kdump.storage.selection import LOWEST, Selection
from kdump.tables.committed.batches import CommittedFilter, CopyTransactions
from kdump.tables.committed.plan import LogPlan, PlanTask, combine_logs, plan_log
from kdump.tables.committed.replicas import MergedCopies, Taken, merge
from kdump.tables.logs import Log, known_end
from kdump.values import frozen


@dataclass(slots=True)
class ExportPart:
    """The copies of one partition, or one of them, and the decisions about it.

    The logs in ``wanted`` are exported, the others are only read for the decisions.
    ``compacted`` has the setting of each copy, ``coordinators`` the one of its node. ``log_start``
    is the log start offset if records may lie below it.
    """

    topic: str | None
    partition: int | None
    copies: list[list[Share]]
    wanted: set[AnyPath]
    compacted: list[bool | None]
    coordinators: list[Coordinator | None]
    log_start: int | None = None
    committed: CommittedFilter | None = None
    merged: MergedCopies | None = None

    @property
    def shares(self) -> list[Share]:
        """What is exported of each log, copy by copy."""
        return [share for copy in self.copies for share in copy]


@frozen
class ExportRequest:
    """What is exported, and what it depends on.

    With ``committed`` transactions decide, so that all logs of a partition are read. With
    ``merged`` all copies of a partition are one part.
    """

    selection: Selection
    committed: bool
    merged: bool


def make_parts(
    targets: Sequence[Target],
    starts: Sequence[int | None],
    choice: ExportRequest,
    sizes: Mapping[AnyPath, int],
    context: Context,
) -> list[ExportPart]:
    """Return the parts of an export, by topic and partition.

    ``starts`` are the log start offsets of ``targets``, ``sizes`` the bytes of their logs.
    """
    parts: list[ExportPart] = []
    part_by_key: dict[tuple[str | None, int | None], ExportPart] = {}
    for target, start in zip(targets, starts, strict=True):
        wanted = {segment.log for segment in choice.selection.segments(target.segments)}
        compacted = context.settings(target).compacted
        # Earlier logs decide over transactions too.
        shares = [
            share
            for share in _shares(target, start, choice.selection, sizes, compacted)
            if choice.committed or share.log.path in wanted
        ]
        if not shares:
            continue
        coordinator = context.node(target).coordinator
        origin = shares[0].log.origin
        key = (origin.topic, origin.partition)
        if choice.merged and None not in key and key in part_by_key:
            part = part_by_key[key]
            part.copies.append(shares)
            part.compacted.append(compacted)
            part.coordinators.append(coordinator)
            part.wanted |= wanted
            known = [offset for offset in (part.log_start, start) if offset is not None]
            part.log_start = max(known, default=None)
        else:
            part = ExportPart(*key, [shares], wanted, [compacted], [coordinator], start)
            part_by_key.setdefault(key, part)
            parts.append(part)
    for part in parts:
        if False in part.compacted:
            _decide_compaction(part)
    return sorted(parts, key=_place)


def _decide_compaction(part: ExportPart) -> None:
    """Take the configs that one node has for those of all: they are of the topic."""
    part.compacted = [False if compacted is None else compacted for compacted in part.compacted]
    for copy in part.copies:
        copy[:] = [
            replace(share, log=replace(share.log, compacted=False))
            if share.log.compacted is None
            else share
            for share in copy
        ]


def _place(part: ExportPart) -> tuple[bool, str, int]:
    return part.topic is None, part.topic or "", -1 if part.partition is None else part.partition


def _shares(
    target: Target,
    start: int | None,
    selection: Selection,
    sizes: Mapping[AnyPath, int],
    compacted: bool | None,
) -> Iterable[Share]:
    bases = [segment.base_offset for segment in target.segments]
    for segment, following in zip(target.segments, [*bases[1:], target.next_base], strict=False):
        log = Log(
            segment.log,
            segment.base_offset,
            target.is_sealed(segment),
            sizes.get(segment.log, 0),
            segment.index,
            selection,
            following,
            known_end(target),
            compacted,
            target.stopped,
        )
        yield Share(log, start if start is not None and start > segment.base_offset else None)


def plan(
    parts: Sequence[ExportPart], choice: ExportRequest, spread: Spread, troubles: list[Trouble]
) -> None:
    """Decide which offsets of each log are exported, and which transactions are committed."""
    tasks = [
        PlanTask(share.log, choice.merged, following, compacted)
        for part in parts
        for copy, compacted in zip(part.copies, part.compacted, strict=True)
        for share, following in zip(
            copy, [*(share.log.base_offset for share in copy[1:]), None], strict=True
        )
    ]
    sizes = [task.log.size for task in tasks]
    results = dict(spread(plan_log, tasks, sizes))
    number = 0
    for part in parts:
        plans: list[list[LogPlan]] = []
        for copy in part.copies:
            plans.append([])
            for share in copy:
                result = results.pop(number, None)
                if not isinstance(result, LogPlan):
                    troubles.append(missing_result(share.log, result))
                    result = LogPlan.unread(share.log.base_offset)
                plans[-1].append(result)
                number += 1
        _decide(part, plans, choice, spread)


def _decide(
    part: ExportPart, plans: Sequence[Sequence[LogPlan]], choice: ExportRequest, spread: Spread
) -> None:
    if choice.committed:
        bases = [[share.log.base_offset for share in copy] for copy in part.copies]
        transactions = [
            combine_logs(list(zip(*pair, strict=True)), compacted=compacted)
            for *pair, compacted in zip(bases, plans, part.compacted, strict=True)
        ]
        part.committed = CommittedFilter.from_copies(transactions)
        if part.committed.undecided:
            part.committed = CommittedFilter.from_copies(
                _add_coordinators(part, transactions, spread)
            )
    # Offsets that a broker has appended since then are left out: they were not read.
    ranges: Taken = tuple(tuple(((LOWEST, plan.last),) for plan in copy) for copy in plans)
    if choice.merged:
        part.merged = merge([[plan.stretches for plan in copy] for copy in plans])
        ranges = part.merged.ranges
    for copy, taken in zip(part.copies, ranges, strict=True):
        copy[:] = [
            replace(share, committed=part.committed, ranges=of_share)
            for share, of_share in zip(copy, taken, strict=True)
            if share.log.path in part.wanted
        ]


def _add_coordinators(
    part: ExportPart, copies: Sequence[CopyTransactions], spread: Spread
) -> list[CopyTransactions]:
    """Return ``copies`` with the evidence of the coordinators on their nodes."""
    if part.topic is None or part.partition is None:
        return list(copies)
    topic_partition = part.topic, part.partition
    producers = frozenset(mark.producer for copy in copies for mark in copy.marks)
    result = []
    for copy, coordinator in zip(copies, part.coordinators, strict=True):
        if coordinator is not None:
            ((_, answer),) = spread(
                partial(_read_histories, producers=producers), [coordinator], [0]
            )
            if isinstance(answer, Coordinator):
                copy = copy.with_coordinator(answer, topic_partition)
        result.append(copy)
    return result


def _read_histories(coordinator: Coordinator, producers: frozenset[int]) -> Coordinator:
    """Return ``coordinator`` with the histories of ``producers`` loaded. Runs in a task."""
    coordinator.histories(producers)
    return coordinator
