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
from kdump.fleet.export.committed import Seen
from kdump.fleet.export.ranges import Ranges, joined
from kdump.fleet.export.replicas import Stretch
from kdump.fleet.tables.record_runs import Unread, record_runs
from kdump.fleet.tables.tables import Log
from kdump.format import _events, _kernel
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.index import TransactionIndex
from kdump.format.records import RecordReader
from kdump.format.snapshot import ProducerEntries
from kdump.storage.access import open_source
from kdump.storage.logdir import list_partition
from kdump.storage.selection import HIGHEST
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk

_BASE: Final = _kernel.BATCH_FIELDS.index("base_offset")
_LAST: Final = _kernel.BATCH_FIELDS.index("last_offset")
_EPOCH: Final = _kernel.BATCH_FIELDS.index("leader_epoch")
_COUNT: Final = _kernel.BATCH_FIELDS.index("count")
_EVENT: Final = len(_events.EVENT_FIELDS)
_MARKS: Final = (_events.BEGIN, _events.COMMIT, _events.ABORT)
_Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlanTask:
    """A log; ``stretches`` asks for those of its records."""

    log: Log
    stretches: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """What a log shows, up to offset ``last`` and its leader ``epoch``.

    ``marks`` are numbers, four for each ``Mark``. ``holes`` are the offsets that damage may have
    taken, up to ``HIGHEST`` where nothing is behind it. ``aborts`` is the transaction index beside
    a log with holes, None where there is none that can be read; ``snapshots`` are the producer
    snapshots of its partition that can be read, by offset.
    """

    marks: array[int]
    holes: Ranges
    stretches: tuple[Stretch, ...]
    last: int
    epoch: int
    aborts: TransactionIndex | None = None
    snapshots: Mapping[int, ProducerEntries] = field(default_factory=dict)

    @classmethod
    def nothing(cls, base_offset: int) -> Planned:
        """What is known of a log that nobody could read."""
        return cls(array("q"), ((base_offset, HIGHEST),), (), base_offset - 1, -1)


def planned(task: PlanTask) -> Planned:
    """Read the log once; whoever exports tells of damage and errors."""
    log, gathering, reader = task.log, Gathering(), RecordReader()
    marks = array("q")
    holes: list[tuple[int, int]] = []
    stretches: list[Stretch] = []
    last, epoch, damaged = log.base_offset - 1, -1, False
    try:
        with open_source(log.path, mapped=False, sealed=log.sealed) as source:
            for piece in walk(source, log.base_offset):
                if isinstance(piece, Damage):
                    damaged |= piece.reason is not Reason.PREALLOCATED
                    continue
                if damaged:
                    # What goes on behind it begins anew: its end may be among what is gone.
                    gathering.add_damage()
                    damaged = False
                    holes.append((last + 1, piece[0].base_offset - 1))
                gathering.add(piece, source)
                end = piece[len(piece) - 1]
                last, epoch = end.last_offset, end.leader_epoch
                if task.stretches:
                    for stretch in _stretches(piece, source, reader):
                        _append(stretches, stretch)
    except SourceError:
        damaged = True
    _take_marks(marks, gathering)
    if damaged:
        holes.append((last + 1, HIGHEST))
    found = Planned(marks, joined(holes), tuple(stretches), last, epoch)
    if not holes:
        return found
    index = read_small(log.path.with_suffix(".txnindex"), TransactionIndex.decode)
    return replace(found, aborts=index.value, snapshots=_snapshots(log))


def _snapshots(log: Log) -> Mapping[int, ProducerEntries]:
    partition = list_partition(log.path.parent)
    if isinstance(partition, SourceError):
        return {}
    read = read_producer_snapshots(partition)
    return {offset: each.value for offset, each in read.items() if each.value}


def _take_marks(marks: array[int], gathering: Gathering) -> None:
    rows = gathering.events().rows
    for at in range(0, len(rows), _EVENT):
        kind, producer, epoch, offset = rows[at : at + 4]
        if kind in _MARKS:
            marks.extend((offset, kind, producer, epoch))


def seen(logs: Sequence[tuple[int, Planned]]) -> Seen:
    """Put together what the logs of one copy show, each with its base offset."""
    marks: list[Mark] = []
    holes: list[tuple[int, int]] = []
    ends = [base_offset - 1 for base_offset, _ in logs[1:]]
    for (_, one), end in zip(logs, [*ends, HIGHEST], strict=True):
        numbers = iter(one.marks)
        marks.extend(map(Mark, numbers, numbers, numbers, numbers))
        holes.extend((first, min(last, end)) for first, last in one.holes)
    first, _ = logs[0]
    last = max(one.last for _, one in logs)
    epoch = max(one.epoch for _, one in logs)
    snapshots = {offset: each for _, one in logs for offset, each in one.snapshots.items()}
    evidence = FateEvidence({base_offset: one.aborts for base_offset, one in logs}, snapshots)
    return Seen(sorted(marks), joined(holes), first, last, epoch, evidence)


def _stretches(table: BatchTable, source: Source, reader: RecordReader) -> Iterator[Stretch]:
    rows = np.frombuffer(table.rows, np.int64).reshape(-1, BatchTable.WIDTH)
    whole = rows[:, _COUNT] == rows[:, _LAST] - rows[:, _BASE] + 1
    row = 0
    while row < len(table):
        reached = reader.skip_matching(table, row, source.window(table.position))
        # Of what matches its header, a batch with a record for each offset need not be looked at.
        while row < reached:
            same = bool(whole[row])
            stop = row + 1
            while stop < reached and bool(whole[stop]) == same:
                stop += 1
            if same:
                part = rows[row:stop]
                yield from _joined(part[:, _BASE], part[:, _LAST], part[:, _EPOCH])
            else:
                yield from _read(table.part(row, stop), source, reader)
            row = stop
        if row < len(table):
            yield from _read(table.part(row, row + 1), source, reader)
            row += 1


def _read(table: BatchTable, source: Source, reader: RecordReader) -> Iterator[Stretch]:
    for run in record_runs(table, source, reader):
        if not isinstance(run, Unread):
            yield from _of_run(run)


def _of_run(run: RecordRun) -> Iterator[Stretch]:
    offsets = np.frombuffer(run.rows, np.int64)[:: RecordTable.WIDTH]
    batches = np.frombuffer(run.batches.rows, np.int64).reshape(-1, BatchTable.WIDTH)
    starts = np.array(run.starts, np.int64)
    counts = starts[1:] - starts[:-1]
    return _joined(offsets, offsets, np.repeat(batches[:, _EPOCH], counts))


def _joined(firsts: _Longs, lasts: _Longs, epochs: _Longs) -> Iterator[Stretch]:
    """Neighbours as one, where the next goes on with the next offset."""
    if not len(firsts):
        return
    breaks = np.flatnonzero((firsts[1:] != lasts[:-1] + 1) | (epochs[1:] != epochs[:-1])) + 1
    starts, stops = [0, *breaks.tolist()], [*breaks.tolist(), len(firsts)]
    for start, stop in zip(starts, stops, strict=True):
        yield Stretch(int(firsts[start]), int(lasts[stop - 1]), int(epochs[start]))


def _append(stretches: list[Stretch], found: Stretch) -> None:
    if stretches:
        last = stretches[-1]
        if last.last + 1 == found.first and last.epoch == found.epoch:
            stretches[-1] = Stretch(last.first, found.last, found.epoch)
            return
    stretches.append(found)
