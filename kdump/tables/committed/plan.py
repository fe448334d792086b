"""What one log holds: its offsets, gaps and transactions, read once before an export.

The pass is made of a survey's parts, and is no survey. A survey lists some of the gaps of a log,
the plan needs all. A broker's replay goes on over missing offsets, so a survey does too; here each
transaction begins again after them, as its end may be among them. And the pass reads the records
that copies share.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Final

from kdump.audit.facts.small_files import read_producer_snapshots, read_small
from kdump.audit.replay.fates import FateEvidence, Mark
from kdump.audit.survey.anomalies import FaultKind, HeaderFaults
from kdump.audit.survey.compaction import missing_means_lost
from kdump.audit.survey.events import Events, Gathering
from kdump.errors import SourceError
from kdump.format.batch import BatchTable, RecordTable
from kdump.format.index import TransactionIndex
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import ranges as _ranges
from kdump.format.legacy import is_wrapper
from kdump.format.records import RecordReader
from kdump.format.snapshot import ProducerEntries
from kdump.storage.access import open_source
from kdump.storage.logdir import list_partition
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.selection import HIGHEST
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from kdump.tables.committed.batches import CopyTransactions
from kdump.tables.committed.ranges import Ranges, join
from kdump.tables.committed.replicas import OffsetStretch
from kdump.tables.logs import Log
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)
_MARKS: Final = (_producers.BEGIN, _producers.COMMIT, _producers.ABORT)


@cache
def _reader() -> RecordReader:
    """Return the reader of this process: it takes longer to make than a small log to read."""
    return RecordReader()


@frozen
class PlanTask:
    """A log; ``stretches``: the stretches of its records are needed.

    ``following`` is the base offset of the next log of its copy, None for the last log.
    ``compacted`` says whether the cleaner may have compacted it, by its settings; None if unknown.
    """

    log: Log
    stretches: bool
    following: int | None = None
    compacted: bool | None = None


@frozen
class LogPlan:
    """The transactions and offsets of a log, up to offset ``last`` and its leader ``epoch``.

    ``marks`` holds four numbers for each ``Mark``. ``gaps`` are the offsets that may be lost in
    damage, up to ``HIGHEST`` if nothing follows it. ``holes`` are offsets that are missing without
    damage, up to the next log, unless this log shows compaction. ``breaks`` counts those between
    batches, and ``cleaned`` is as for ``compaction_evidence``. ``aborts`` is the transaction index
    of a log with gaps, holes or aborts, None without a readable one. ``snapshots`` are the readable
    producer snapshots of the partition of a log with gaps or holes, by offset. ``error`` is why the
    log was not read to its end.
    """

    marks: array[int]
    gaps: Ranges
    stretches: tuple[OffsetStretch, ...]
    last: int
    epoch: int
    holes: Ranges = ()
    breaks: int = 0
    cleaned: bool = False
    aborts: TransactionIndex | None = None
    snapshots: Mapping[int, ProducerEntries] = field(default_factory=dict)
    error: SourceError | None = None

    @classmethod
    def unread(cls, base_offset: int) -> LogPlan:
        """Return the plan of a log that could not be read: one gap without end."""
        return cls(array("q"), ((base_offset, HIGHEST),), (), base_offset - 1, -1)


def plan_log(task: PlanTask) -> LogPlan:
    """Read the log once. Damage and errors become gaps; the export reports them."""
    log, gathering = task.log, Gathering()
    headers = HeaderFaults(log.base_offset, cleaned=task.compacted)
    marks = array("q")
    gaps: list[tuple[int, int]] = []
    holes: list[tuple[int, int]] = []
    stretches: list[OffsetStretch] = []
    last, epoch, damaged = log.base_offset - 1, -1, False
    failure: SourceError | None = None
    try:
        with open_source(log.path, mapped=False, sealed=log.sealed) as source:
            for piece in walk(source, log.base_offset):
                if isinstance(piece, Damage):
                    damaged |= not piece.empty
                    headers.add_damage()
                    continue
                if damaged:
                    # Open transactions begin again: their ends may be lost in the damage.
                    gathering.add_damage()
                    damaged = False
                    gaps.append((last + 1, piece[0].base_offset - 1))
                elif last < log.base_offset and not is_wrapper(piece[0]):
                    holes.append((log.base_offset, piece[0].base_offset - 1))
                holes += _gather(piece, source, headers, gathering)
                end = piece[len(piece) - 1]
                last, epoch = end.last_offset, end.leader_epoch
                if task.stretches:
                    for stretch in _stretches(piece, source, _reader()):
                        _append(stretches, stretch)
    except SourceError as error:
        damaged, failure = True, error
    events = gathering.events()
    has_aborts = _add_marks(marks, events)
    if damaged:
        gaps.append((last + 1, HIGHEST))
    elif task.following is not None:
        holes.append((last + 1, task.following - 1))
    state = headers.state
    breaks = state[_headers.T_HOLES]
    cleaned = state[_headers.T_MISCOUNTED] > 0 or events.horizons.count > 0
    # Where offsets do not rise, those of a hole may be elsewhere in the log.
    ordered = not (state[_headers.T_BACKWARDS] or state[_headers.T_INVERTED])
    if not (ordered and missing_means_lost(task.compacted, gaps=breaks, cleaned=cleaned)):
        holes.clear()
    plan = LogPlan(
        marks,
        join(gaps),
        tuple(stretches),
        last,
        epoch,
        join(holes),
        breaks,
        cleaned,
        error=failure,
    )
    if plan.gaps or plan.holes:
        plan = replace(plan, snapshots=_snapshots(log))
    elif not has_aborts:
        return plan
    index = read_small(log.path.with_suffix(".txnindex"), TransactionIndex.decode)
    return replace(plan, aborts=index.value)


def _gather(
    table: BatchTable, source: Source, headers: HeaderFaults, gathering: Gathering
) -> Iterator[tuple[int, int]]:
    """Add a table to ``headers`` and ``gathering``, and yield the holes before its batches."""
    start = 0
    for fault in headers.add(table):
        if fault.kind is FaultKind.GAP:
            row = bisect_left(table.column("position"), fault.batch.position)
            if row > start:
                gathering.add(table.part(start, row), source)
            # Open transactions begin again: their ends may be missing.
            gathering.add_damage()
            start = row
            yield fault.reference + 1, fault.batch.base_offset - 1
    gathering.add(table.part(start, len(table)) if start else table, source)


def _snapshots(log: Log) -> Mapping[int, ProducerEntries]:
    partition = list_partition(log.path.parent)
    if isinstance(partition, SourceError):
        return {}
    snapshots = read_producer_snapshots(partition)
    return {offset: entries.value for offset, entries in snapshots.items() if entries.value}


def _add_marks(marks: array[int], events: Events) -> bool:
    """Add the marks of ``events``; return whether one of them is an abort."""
    rows, has_aborts = events.rows, False
    for at in range(0, len(rows), _EVENT):
        kind, producer, epoch, offset = rows[at : at + 4]
        if kind in _MARKS:
            marks.extend((offset, kind, producer, epoch))
            has_aborts |= kind == _producers.ABORT
    return has_aborts


def combine_logs(
    logs: Sequence[tuple[int, LogPlan]], *, compacted: bool | None
) -> CopyTransactions:
    """Combine the plans of the logs of one copy, each with its base offset.

    ``compacted`` is as for ``PlanTask``.
    """
    marks: list[Mark] = []
    gaps: list[tuple[int, int]] = []
    indexes: dict[int, TransactionIndex | None] = {}
    with_holes = missing_means_lost(
        compacted,
        gaps=sum(plan.breaks for _, plan in logs),
        cleaned=any(plan.cleaned for _, plan in logs),
    )
    ends = [base_offset - 1 for base_offset, _ in logs[1:]]
    for (base_offset, plan), end in zip(logs, [*ends, HIGHEST], strict=True):
        numbers = iter(plan.marks)
        marks.extend(map(Mark, numbers, numbers, numbers, numbers))
        gaps.extend((first, min(last, end)) for first, last in plan.gaps)
        indexes[base_offset] = plan.aborts
        if with_holes:
            gaps.extend(plan.holes)
            # A segment may be missing after this one, and its index with it.
            indexes.update((first, None) for first, _ in plan.holes if first > plan.last)
    first, _ = logs[0]
    last = max(plan.last for _, plan in logs)
    epoch = max(plan.epoch for _, plan in logs)
    snapshots = {offset: entries for _, plan in logs for offset, entries in plan.snapshots.items()}
    evidence = FateEvidence(indexes, snapshots)
    return CopyTransactions(sorted(marks), join(gaps), first, last, epoch, evidence)


def _stretches(table: BatchTable, source: Source, reader: RecordReader) -> Iterator[OffsetStretch]:
    row = 0
    while row < len(table):
        matching = reader.skip_matching(table, row, source.window(table.position))
        # Of the batches that match their headers, those with a record for each offset are not read.
        while row < matching:
            count = _ranges.count_dense(table.rows, row, matching)
            part = table.part(row, row + abs(count))
            if count > 0:
                found = _room(len(part))
                yield from _filled(found, _ranges.join_batches(part.rows, found))
            else:
                yield from _read_stretches(part, source, reader)
            row += abs(count)
        if row < len(table):
            yield from _read_stretches(table.part(row, row + 1), source, reader)
            row += 1


def _read_stretches(
    table: BatchTable, source: Source, reader: RecordReader
) -> Iterator[OffsetStretch]:
    for run in record_runs(table, source, reader):
        if not isinstance(run, Unread):
            found = _room(len(run.rows) // RecordTable.WIDTH)
            count = _ranges.join_records(run.rows, run.starts, run.batches.rows, found)
            yield from _filled(found, count)


def _room(stretches: int) -> array[int]:
    return array("q", bytes(8 * len(_ranges.STRETCH_FIELDS) * stretches))


def _filled(found: array[int], count: int) -> Iterator[OffsetStretch]:
    numbers = iter(found[: count * len(_ranges.STRETCH_FIELDS)])
    return map(OffsetStretch, numbers, numbers, numbers)


def _append(stretches: list[OffsetStretch], stretch: OffsetStretch) -> None:
    if stretches:
        last = stretches[-1]
        if last.last + 1 == stretch.first and last.epoch == stretch.epoch:
            stretches[-1] = OffsetStretch(last.first, stretch.last, stretch.epoch)
            return
    stretches.append(stretch)
