"""export(): the stages of an export.

Where it matters what a partition's other logs hold, a first stage reads them all and plans. Tasks
write files into a folder that readers pass over; those that count get their names here, where each
task has just one result, however many attempts it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, without_nested
from kdump.fleet.export.committed import Committed, Seen
from kdump.fleet.export.destination import Destination
from kdump.fleet.export.manifest import FileEntry, Manifest, PartitionEntry, partition_entry
from kdump.fleet.export.plan import Planned, PlanTask, planned, seen
from kdump.fleet.export.ranges import overlap
from kdump.fleet.export.replicas import Merged, Taken, merge
from kdump.fleet.export.task import Exported, ExportTask, Form, Ledger, Share, Trouble, exported
from kdump.fleet.job.spread import counting
from kdump.fleet.tables.schema import utf8
from kdump.fleet.tables.tables import Log
from kdump.storage.logdir import directory_name
from kdump.storage.selection import HIGHEST, LOWEST, Selection

#: The logs of a file have at most so many bytes together, unless it is one.
_FILE_BYTES: Final = 256 << 20


class Spread(Protocol):
    """Does work on every task, as ``spread.spread`` does on a session."""

    def __call__(
        self,
        work: Callable[[Any], Any],
        tasks: Sequence[Any],
        sizes: Sequence[int],
        *,
        on_progress: Callable[[float], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Give the results with the numbers of their tasks, in any order."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be exported, and how."""

    form: Form
    selection: Selection
    read_committed: bool = False
    dedupe_replicas: bool = False


@dataclass(slots=True)
class _Part:
    """The copies of one partition, or one of them, and what was decided about it.

    Of its logs those in ``asked`` are to be exported, others only to be read for the decision.
    ``coordinators`` are those of the nodes of its copies. Below ``log_start`` a broker serves
    nothing; it is None where no checkpoint names it.
    """

    topic: str | None
    partition: int | None
    copies: list[list[Share]]
    asked: set[Path]
    coordinators: list[Coordinator | None]
    log_start: int | None = None
    committed: Committed | None = None
    merged: Merged | None = None


def export(
    targets: Iterable[Target],
    order: Order,
    destination: Destination,
    spread: Spread,
    sizes: Mapping[Path, int],
    *,
    context: Context | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Export the records of ``targets``, which are listed; ``sizes`` are the bytes of their logs.

    ``context`` is what is known of the nodes that they are of. A log that several of them hold
    counts once. Where it raises, whoever made ``destination`` takes that away. ``on_progress`` gets
    counts of bytes of logs that were exported since its last call.
    Raises UsageError, SourceError.
    """
    troubles: list[Trouble] = []
    around = context or Context(now_ms=0)
    parts = _parts(without_nested(targets), order, sizes, around, troubles)
    if order.read_committed or order.dedupe_replicas:
        _plan(parts, order, spread, troubles)
    tasks = list(_tasks(parts, order, destination))
    files: list[FileEntry] = []
    ledgers: list[Ledger] = []
    done = dict(_done(tasks, order.selection.limit, spread, on_progress))
    for number, found in sorted(done.items()):
        task = tasks[number]
        if not isinstance(found, Exported):
            troubles.extend(_unexported(task, found))
            continue
        ledgers.extend(found.ledgers)
        troubles.extend(found.troubles)
        if found.file is not None:
            file, topic = found.file, found.ledgers[0].topic
            name = destination.take(file.path, topic, number, task.form.value)
            files.append(FileEntry(name, file.bytes, file.sha256, found.ledgers))
    entries = tuple(_entries(parts, files, ledgers))
    manifest = Manifest(tuple(files), entries, tuple(troubles))
    destination.finish(manifest.encode())
    return manifest


def _parts(
    targets: Iterable[Target],
    order: Order,
    sizes: Mapping[Path, int],
    context: Context,
    troubles: list[Trouble],
) -> list[_Part]:
    """What there is of each partition; copies are one part if each offset is wanted once."""
    parts: list[_Part] = []
    known: dict[tuple[str | None, int | None], _Part] = {}
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
            # What is before them decides over transactions too.
            if segment.log in wanted or order.read_committed
        ]
        if not shares:
            continue
        coordinator = context.node(target).coordinator
        origin = shares[0].log.origin
        key = (origin.topic, origin.partition)
        if order.dedupe_replicas and None not in key and key in known:
            part = known[key]
            part.copies.append(shares)
            part.coordinators.append(coordinator)
            part.asked |= wanted
            # A follower learns late of records that were deleted.
            starts = [each for each in (part.log_start, start) if each is not None]
            part.log_start = max(starts, default=None)
        else:
            part = _Part(*key, [shares], wanted, [coordinator], start)
            known.setdefault(key, part)
            parts.append(part)
    for part in parts:
        if part.log_start is not None:
            for copy in part.copies:
                copy[:] = [replace(each, ranges=((part.log_start, HIGHEST),)) for each in copy]
    return parts


def _log_start(target: Target) -> int | None:
    """The log start offset that the checkpoint of its log directory names, above its first log.

    Spec: ``UnifiedLog.maybeIncrementLogStartOffset``.
    """
    read = None if target.directory is None else target.directory.log_starts
    name = directory_name(target.path)
    if read is None or read.value is None or name is None or not target.segments:
        return None
    start = read.value.get((name.topic, name.partition))
    return start if start is not None and start > target.segments[0].base_offset else None


def _plan(parts: Sequence[_Part], order: Order, spread: Spread, troubles: list[Trouble]) -> None:
    """Decide which offsets of each log count, and which transactions."""
    shares = [share for part in parts for copy in part.copies for share in copy]
    tasks = [PlanTask(share.log, stretches=order.dedupe_replicas) for share in shares]
    sizes = [share.log.size for share in shares]
    found = dict(spread(planned, tasks, sizes))
    number = 0
    for part in parts:
        plans: list[list[Planned]] = []
        for copy in part.copies:
            plans.append([])
            for share in copy:
                result = found.pop(number, None)
                if not isinstance(result, Planned):
                    troubles.append(_unplanned(share.log, result))
                    result = Planned.nothing(share.log.base_offset)
                plans[-1].append(result)
                number += 1
        if order.read_committed:
            bases = [[share.log.base_offset for share in copy] for copy in part.copies]
            shown = [seen(list(zip(*both, strict=True))) for both in zip(bases, plans, strict=True)]
            part.committed = Committed.of(shown)
            if part.committed.undecided:
                part.committed = Committed.of(_coordinated(part, shown, spread))
        # What a broker has appended since then was never decided about.
        ranges: Taken = tuple(tuple(((LOWEST, one.last),) for one in copy) for copy in plans)
        if order.dedupe_replicas:
            part.merged = merge([[one.stretches for one in copy] for copy in plans])
            ranges = part.merged.ranges
        for copy, taken in zip(part.copies, ranges, strict=True):
            copy[:] = [
                replace(
                    share,
                    committed=part.committed,
                    ranges=some if share.ranges is None else overlap(some, share.ranges),
                )
                for share, some in zip(copy, taken, strict=True)
                if share.log.path in part.asked
            ]


def _coordinated(part: _Part, copies: Sequence[Seen], spread: Spread) -> list[Seen]:
    """The copies with what the coordinators' logs on their nodes say of their producers."""
    if part.topic is None or part.partition is None:
        return list(copies)
    place = part.topic, part.partition
    producers = frozenset(mark.producer for copy in copies for mark in copy.marks)
    found = []
    for copy, coordinator in zip(copies, part.coordinators, strict=True):
        if coordinator is not None:
            ((_, known),) = spread(partial(_known, producers=producers), [coordinator], [0])
            if isinstance(known, Coordinator):
                evidence = replace(copy.evidence, coordinator=known, topic_partition=place)
                copy = replace(copy, evidence=evidence)
        found.append(copy)
    return found


def _known(coordinator: Coordinator, producers: frozenset[int]) -> Coordinator:
    """The same, having read where the work is done what it knows of ``producers``."""
    coordinator.histories(producers)
    return coordinator


def _tasks(parts: Sequence[_Part], order: Order, destination: Destination) -> Iterator[ExportTask]:
    """Logs of one topic that go into one file."""

    def of(shares: Sequence[Share]) -> ExportTask:
        to, rights = destination.folder, destination.rights
        return ExportTask(tuple(shares), to, rights, order.form, order.selection)

    for _, same in groupby(parts, key=lambda part: part.topic):
        held: list[Share] = []
        held_bytes = 0
        for share in (share for part in same for copy in part.copies for share in copy):
            if held and held_bytes + share.log.size > _FILE_BYTES:
                yield of(held)
                held, held_bytes = [], 0
            held.append(share)
            held_bytes += share.log.size
        if held:
            yield of(held)


def _done(
    tasks: Sequence[ExportTask],
    limit: int | None,
    spread: Spread,
    on_progress: Callable[[int], None] | None,
) -> Iterator[tuple[int, Any]]:
    """Do the tasks; with a limit one after the other, as long as records are missing."""
    sizes = [sum(share.log.size for share in task.shares) for task in tasks]
    if limit is None:
        told = None if on_progress is None else counting(sum(sizes), on_progress)
        yield from spread(exported, tasks, sizes, on_progress=told)
        return
    for number, task in enumerate(tasks):
        if limit <= 0:
            return
        short = replace(task, selection=replace(task.selection, limit=limit))
        for _, found in spread(exported, [short], [sizes[number]]):
            if isinstance(found, Exported):
                limit -= sum(ledger.records for ledger in found.ledgers)
            yield number, found


def _unexported(task: ExportTask, found: object) -> Iterator[Trouble]:
    for share in task.shares:
        yield _unplanned(share.log, found)


def _unplanned(log: Log, found: object) -> Trouble:
    why = getattr(found, "text", None) or getattr(found, "label", "no result")
    reason = f"expected a result of an executor, found {why}"
    return Trouble(log.origin.source_file, None, None, reason, damaged=False)


def _entries(
    parts: Sequence[_Part], files: Sequence[FileEntry], ledgers: Sequence[Ledger]
) -> Iterator[PartitionEntry]:
    by_path = {ledger.path: ledger for ledger in ledgers}
    for part in parts:
        paths = [share.log.origin.source_file for copy in part.copies for share in copy]
        logs = [by_path[path] for path in paths if path in by_path]
        mine = {log.path for log in logs if log.records}
        inside = [file for file in files if any(log.path in mine for log in file.logs)]
        entry = partition_entry(part.topic, part.partition, inside, logs)
        entry = replace(entry, log_start=part.log_start)
        committed = part.committed
        if committed is not None:
            end = None if committed.end == HIGHEST else committed.end
            entry = replace(entry, end=end, undecided=committed.undecided)
        if part.merged is not None:
            merged = part.merged
            entry = replace(entry, conflicts=merged.conflicts, overtaken=merged.overtaken)
        yield entry
