"""The records of one log that an export takes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from kdump.audit.facts.small_files import read_producer_snapshots, read_small
from kdump.audit.replay.fates import FateEvidence, Mark
from kdump.audit.survey.events import Gathering
from kdump.errors import SourceError
from kdump.fleet.export.committed import CopyTransactions
from kdump.fleet.export.ranges import Ranges, join
from kdump.fleet.export.replicas import Stretch
from kdump.fleet.tables.record_runs import Unread, record_runs
from kdump.fleet.tables.tables import Log
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.index import TransactionIndex
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import producers as _producers
from kdump.format.records import RecordReader
from kdump.format.snapshot import ProducerEntries
from kdump.storage.access import open_source
from kdump.storage.logdir import list_partition
from kdump.storage.selection import HIGHEST
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk

_BASE: Final = _headers.BATCH_FIELDS.index("base_offset")
_LAST: Final = _headers.BATCH_FIELDS.index("last_offset")
_EPOCH: Final = _headers.BATCH_FIELDS.index("leader_epoch")
_COUNT: Final = _headers.BATCH_FIELDS.index("count")
_EVENT: Final = len(_producers.EVENT_FIELDS)
_MARKS: Final = (_producers.BEGIN, _producers.COMMIT, _producers.ABORT)
_Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A log; ``stretches``: the stretches of its records are needed."""

    log: Log
    stretches: bool


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The transactions and offsets of a log, up to offset ``last`` and its leader ``epoch``.

    ``marks`` holds four numbers for each ``Mark``. ``gaps`` are the offsets that may be lost in
    damage, up to ``HIGHEST`` if nothing follows it. ``aborts`` is the transaction index of a log
    with gaps, None without a readable one. ``snapshots`` are the readable producer snapshots of its
    partition, by offset.
    """

    marks: array[int]
    gaps: Ranges
    stretches: tuple[Stretch, ...]
    last: int
    epoch: int
    aborts: TransactionIndex | None = None
    snapshots: Mapping[int, ProducerEntries] = field(default_factory=dict)

    @classmethod
    def unread(cls, base_offset: int) -> LogPlan:
        """Return the plan of a log that could not be read: one gap without end."""
        return cls(array("q"), ((base_offset, HIGHEST),), (), base_offset - 1, -1)


def plan_log(task: PlanTask) -> LogPlan:
    """Read the log once. Damage and errors become gaps; the export reports them."""
    log, gathering, reader = task.log, Gathering(), RecordReader()
    marks = array("q")
    gaps: list[tuple[int, int]] = []
    stretches: list[Stretch] = []
    last, epoch, damaged = log.base_offset - 1, -1, False
    try:
        with open_source(log.path, mapped=False, sealed=log.sealed) as source:
            for piece in walk(source, log.base_offset):
                if isinstance(piece, Damage):
                    damaged |= piece.reason is not Reason.PREALLOCATED
                    continue
                if damaged:
                    # Open transactions begin again: their ends may be lost in the damage.
                    gathering.add_damage()
                    damaged = False
                    gaps.append((last + 1, piece[0].base_offset - 1))
                gathering.add(piece, source)
                end = piece[len(piece) - 1]
                last, epoch = end.last_offset, end.leader_epoch
                if task.stretches:
                    for stretch in _stretches(piece, source, reader):
                        _append(stretches, stretch)
    except SourceError:
        damaged = True
    _add_marks(marks, gathering)
    if damaged:
        gaps.append((last + 1, HIGHEST))
    plan = LogPlan(marks, join(gaps), tuple(stretches), last, epoch)
    if not gaps:
        return plan
    index = read_small(log.path.with_suffix(".txnindex"), TransactionIndex.decode)
    return replace(plan, aborts=index.value, snapshots=_snapshots(log))


def _snapshots(log: Log) -> Mapping[int, ProducerEntries]:
    partition = list_partition(log.path.parent)
    if isinstance(partition, SourceError):
        return {}
    snapshots = read_producer_snapshots(partition)
    return {offset: entries.value for offset, entries in snapshots.items() if entries.value}


def _add_marks(marks: array[int], gathering: Gathering) -> None:
    rows = gathering.events().rows
    for at in range(0, len(rows), _EVENT):
        kind, producer, epoch, offset = rows[at : at + 4]
        if kind in _MARKS:
            marks.extend((offset, kind, producer, epoch))


def combine_logs(logs: Sequence[tuple[int, LogPlan]]) -> CopyTransactions:
    """Combine the plans of the logs of one copy, each with its base offset."""
    marks: list[Mark] = []
    gaps: list[tuple[int, int]] = []
    ends = [base_offset - 1 for base_offset, _ in logs[1:]]
    for (_, plan), end in zip(logs, [*ends, HIGHEST], strict=True):
        numbers = iter(plan.marks)
        marks.extend(map(Mark, numbers, numbers, numbers, numbers))
        gaps.extend((first, min(last, end)) for first, last in plan.gaps)
    first, _ = logs[0]
    last = max(plan.last for _, plan in logs)
    epoch = max(plan.epoch for _, plan in logs)
    snapshots = {offset: entries for _, plan in logs for offset, entries in plan.snapshots.items()}
    evidence = FateEvidence({base_offset: plan.aborts for base_offset, plan in logs}, snapshots)
    return CopyTransactions(sorted(marks), join(gaps), first, last, epoch, evidence)


def _stretches(table: BatchTable, source: Source, reader: RecordReader) -> Iterator[Stretch]:
    rows = np.frombuffer(table.rows, np.int64).reshape(-1, BatchTable.WIDTH)
    gapless = rows[:, _COUNT] == rows[:, _LAST] - rows[:, _BASE] + 1
    row = 0
    while row < len(table):
        matching = reader.skip_matching(table, row, source.window(table.position))
        # Of the batches that match their headers, those with a record for each offset are not read.
        while row < matching:
            is_gapless = bool(gapless[row])
            stop = row + 1
            while stop < matching and bool(gapless[stop]) == is_gapless:
                stop += 1
            if is_gapless:
                part = rows[row:stop]
                yield from _join_rows(part[:, _BASE], part[:, _LAST], part[:, _EPOCH])
            else:
                yield from _read_stretches(table.part(row, stop), source, reader)
            row = stop
        if row < len(table):
            yield from _read_stretches(table.part(row, row + 1), source, reader)
            row += 1


def _read_stretches(table: BatchTable, source: Source, reader: RecordReader) -> Iterator[Stretch]:
    for run in record_runs(table, source, reader):
        if not isinstance(run, Unread):
            yield from _run_stretches(run)


def _run_stretches(run: RecordRun) -> Iterator[Stretch]:
    offsets = np.frombuffer(run.rows, np.int64)[:: RecordTable.WIDTH]
    batches = np.frombuffer(run.batches.rows, np.int64).reshape(-1, BatchTable.WIDTH)
    starts = np.array(run.starts, np.int64)
    counts = starts[1:] - starts[:-1]
    return _join_rows(offsets, offsets, np.repeat(batches[:, _EPOCH], counts))


def _join_rows(firsts: _Longs, lasts: _Longs, epochs: _Longs) -> Iterator[Stretch]:
    """Yield stretches; rows that continue at the next offset with the same epoch are joined."""
    if not len(firsts):
        return
    breaks = np.flatnonzero((firsts[1:] != lasts[:-1] + 1) | (epochs[1:] != epochs[:-1])) + 1
    starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), len(firsts)]
    for start, stop in zip(starts, stops, strict=True):
        yield Stretch(int(firsts[start]), int(lasts[stop - 1]), int(epochs[start]))


def _append(stretches: list[Stretch], stretch: Stretch) -> None:
    if stretches:
        last = stretches[-1]
        if last.last + 1 == stretch.first and last.epoch == stretch.epoch:
            stretches[-1] = Stretch(last.first, stretch.last, stretch.epoch)
            return
    stretches.append(stretch)
