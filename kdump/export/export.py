"""export(): the stages of an export.

If the export of a log depends on the other logs of its partition, a first stage reads all logs and
plans. Tasks write files into a folder that readers ignore. The driver has exactly one result of
each task, after any number of attempts, and gives these files their final names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, without_nested
from kdump.export.committed import CommittedFilter, CopyTransactions
from kdump.export.destination import Destination
from kdump.export.manifest import FileEntry, Manifest, PartitionEntry, partition_entry
from kdump.export.output import Form
from kdump.export.plan import LogPlan, PlanTask, combine_logs, plan_log
from kdump.export.ranges import overlap
from kdump.export.replicas import MergedCopies, Taken, merge
from kdump.export.spread import Spread
from kdump.export.task import (
    ExportResult,
    ExportTask,
    Ledger,
    Share,
    Trouble,
    export_logs,
)
from kdump.storage.logdir import directory_name
from kdump.storage.objects.address import AnyPath
from kdump.storage.selection import HIGHEST, LOWEST, Selection
from kdump.storage.workers import progress_counter
from kdump.tables.logs import Log, utf8
from kdump.values import frozen

#: The maximum size of the logs of a file, unless it holds only one.
_FILE_BYTES: Final = 256 << 20


@frozen
class Order:
    """The format, the selection and the options of an export."""

    form: Form
    selection: Selection
    read_committed: bool = False
    dedupe_replicas: bool = False


@dataclass(slots=True)
class _Part:
    """The copies of one partition, or one of them, and the decisions about it.

    The logs in ``wanted`` are exported, the others are only read for the decisions.
    ``compacted`` has the setting of each copy, ``coordinators`` the one of its node. Below
    ``log_start`` a broker serves nothing; it is None if no checkpoint names it.
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


def export(
    targets: Iterable[Target],
    order: Order,
    destination: Destination,
    spread: Spread,
    sizes: Mapping[AnyPath, int],
    *,
    context: Context | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Export the records of ``targets``, which are listed; ``sizes`` are the bytes of their logs.

    ``context`` describes their nodes. A log that several targets hold is exported once.
    ``on_progress`` gets counts of bytes of logs that were exported since its last call.

    Raise UsageError, SourceError; the creator of ``destination`` then removes it.
    """
    troubles: list[Trouble] = []
    known_context = context or Context(now_ms=0)
    parts = _parts(without_nested(targets), order, sizes, known_context, troubles)
    if order.read_committed or order.dedupe_replicas:
        _plan(parts, order, spread, troubles)
    tasks = list(_tasks(parts, order, destination))
    files: list[FileEntry] = []
    ledgers: list[Ledger] = []
    done = dict(_run_tasks(tasks, order.selection.limit, spread, on_progress))
    for number, result in sorted(done.items()):
        task = tasks[number]
        if not isinstance(result, ExportResult):
            troubles.extend(_task_troubles(task, result))
            continue
        ledgers.extend(result.ledgers)
        troubles.extend(result.troubles)
        if result.file is not None:
            file, topic = result.file, result.ledgers[0].topic
            name = destination.take(file.path, topic, number, task.form.value)
            files.append(FileEntry(name, file.bytes, file.sha256, result.ledgers))
    entries = tuple(_entries(parts, files, ledgers))
    manifest = Manifest(tuple(files), entries, tuple(troubles))
    destination.finish(manifest.encode())
    return manifest


def _parts(
    targets: Iterable[Target],
    order: Order,
    sizes: Mapping[AnyPath, int],
    context: Context,
    troubles: list[Trouble],
) -> list[_Part]:
    """Return the parts of an export; with ``dedupe_replicas`` all copies of a partition are one."""
    parts: list[_Part] = []
    part_by_key: dict[tuple[str | None, int | None], _Part] = {}
    for target in targets:
        if target.error is not None:
            path = utf8(str(target.path))
            troubles.append(Trouble(path, None, None, str(target.error), damaged=False))
        start = _log_start(target)
        served = replace(
            order.selection, first_offset=max(order.selection.first_offset, start or LOWEST)
        )
        wanted = {segment.log for segment in served.segments(target.segments)}
        shares = [
            Share(
                Log(
                    segment.log,
                    segment.base_offset,
                    target.is_sealed(segment),
                    sizes.get(segment.log, 0),
                ),
                segment.index,
            )
            for segment in target.segments
            # Earlier logs decide over transactions too.
            if segment.log in wanted or order.read_committed
        ]
        if not shares:
            continue
        coordinator = context.node(target).coordinator
        compacted = context.settings(target).compacted
        origin = shares[0].log.origin
        key = (origin.topic, origin.partition)
        if order.dedupe_replicas and None not in key and key in part_by_key:
            part = part_by_key[key]
            part.copies.append(shares)
            part.compacted.append(compacted)
            part.coordinators.append(coordinator)
            part.wanted |= wanted
            # A follower may lag behind the log start offset of the leader.
            starts = [offset for offset in (part.log_start, start) if offset is not None]
            part.log_start = max(starts, default=None)
        else:
            part = _Part(*key, [shares], wanted, [compacted], [coordinator], start)
            part_by_key.setdefault(key, part)
            parts.append(part)
    for part in parts:
        if part.log_start is not None:
            for copy in part.copies:
                copy[:] = [replace(share, ranges=((part.log_start, HIGHEST),)) for share in copy]
    return parts


def _log_start(target: Target) -> int | None:
    """Return the checkpointed log start offset if it lies above the first log, else None.

    Spec: ``UnifiedLog.maybeIncrementLogStartOffset``.
    """
    read = None if target.directory is None else target.directory.log_starts
    name = directory_name(target.path)
    if read is None or read.value is None or name is None or not target.segments:
        return None
    start = read.value.get((name.topic, name.partition))
    return start if start is not None and start > target.segments[0].base_offset else None


def _plan(parts: Sequence[_Part], order: Order, spread: Spread, troubles: list[Trouble]) -> None:
    """Decide which offsets of each log are exported, and which transactions are committed."""
    tasks = [
        PlanTask(share.log, order.dedupe_replicas, following, compacted)
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
                    troubles.append(_missing_result(share.log, result))
                    result = LogPlan.unread(share.log.base_offset)
                plans[-1].append(result)
                number += 1
        if order.read_committed:
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
        if order.dedupe_replicas:
            part.merged = merge([[plan.stretches for plan in copy] for copy in plans])
            ranges = part.merged.ranges
        for copy, taken in zip(part.copies, ranges, strict=True):
            copy[:] = [
                replace(
                    share,
                    committed=part.committed,
                    ranges=part_ranges
                    if share.ranges is None
                    else overlap(part_ranges, share.ranges),
                )
                for share, part_ranges in zip(copy, taken, strict=True)
                if share.log.path in part.wanted
            ]


def _add_coordinators(
    part: _Part, copies: Sequence[CopyTransactions], spread: Spread
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
                evidence = replace(
                    copy.evidence, coordinator=answer, topic_partition=topic_partition
                )
                copy = replace(copy, evidence=evidence)
        result.append(copy)
    return result


def _read_histories(coordinator: Coordinator, producers: frozenset[int]) -> Coordinator:
    """Return ``coordinator`` with the histories of ``producers`` loaded. Runs in a task."""
    coordinator.histories(producers)
    return coordinator


def _tasks(parts: Sequence[_Part], order: Order, destination: Destination) -> Iterator[ExportTask]:
    """Yield tasks: logs of one topic that go into one file."""

    def make_task(shares: Sequence[Share]) -> ExportTask:
        to, rights = destination.folder, destination.rights
        return ExportTask(tuple(shares), to, rights, order.form, order.selection)

    for _, topic_parts in groupby(parts, key=lambda part: part.topic):
        file_shares: list[Share] = []
        file_bytes = 0
        for share in (share for part in topic_parts for copy in part.copies for share in copy):
            if file_shares and file_bytes + share.log.size > _FILE_BYTES:
                yield make_task(file_shares)
                file_shares, file_bytes = [], 0
            file_shares.append(share)
            file_bytes += share.log.size
        if file_shares:
            yield make_task(file_shares)


def _run_tasks(
    tasks: Sequence[ExportTask],
    limit: int | None,
    spread: Spread,
    on_progress: Callable[[int], None] | None,
) -> Iterator[tuple[int, Any]]:
    """Yield task numbers with results; with a limit run tasks one by one until it is reached."""
    sizes = [sum(share.log.size for share in task.shares) for task in tasks]
    if limit is None:
        report = None if on_progress is None else progress_counter(sum(sizes), on_progress)
        yield from spread(export_logs, tasks, sizes, on_progress=report)
        return
    for number, task in enumerate(tasks):
        if limit <= 0:
            return
        limited = replace(task, selection=replace(task.selection, limit=limit))
        for _, result in spread(export_logs, [limited], [sizes[number]]):
            if isinstance(result, ExportResult):
                limit -= sum(ledger.records for ledger in result.ledgers)
            yield number, result


def _task_troubles(task: ExportTask, result: object) -> Iterator[Trouble]:
    for share in task.shares:
        yield _missing_result(share.log, result)


def _missing_result(log: Log, result: object) -> Trouble:
    why = getattr(result, "text", None) or getattr(result, "label", "no result")
    reason = f"expected a result of the task, found {why}"
    return Trouble(log.origin.source_file, None, None, reason, damaged=False)


def _entries(
    parts: Sequence[_Part], files: Sequence[FileEntry], ledgers: Sequence[Ledger]
) -> Iterator[PartitionEntry]:
    ledger_by_path = {ledger.path: ledger for ledger in ledgers}
    for part in parts:
        paths = [share.log.origin.source_file for copy in part.copies for share in copy]
        logs = [ledger_by_path[path] for path in paths if path in ledger_by_path]
        exported_paths = {log.path for log in logs if log.records}
        part_files = [
            file for file in files if any(log.path in exported_paths for log in file.logs)
        ]
        entry = partition_entry(part.topic, part.partition, part_files, logs)
        entry = replace(entry, log_start=part.log_start)
        committed = part.committed
        if committed is not None:
            end = None if committed.end == HIGHEST else committed.end
            entry = replace(entry, end=end, undecided=committed.undecided)
        if part.merged is not None:
            merged = part.merged
            entry = replace(entry, conflicts=merged.conflicts, overtaken=merged.overtaken)
        yield entry
