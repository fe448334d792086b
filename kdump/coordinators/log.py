"""Reads a partition of a coordinator's topic as a starting coordinator does.

Of each key the record with the highest offset counts, as after compaction. Records of a transaction
count from its commit on. A coordinator does not load a log with damage that a start leaves in it;
here the sound records around damage count, and the damage is reported.

Spec: ``CoordinatorLoaderImpl``, ``OffsetMetadataManager.replayEndTransactionMarker``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kdump.coordinators.latest import LastRecord, LatestRecords
from kdump.errors import DecodeError, SourceError
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.control import ControlType, control_type_id
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from kdump.tables.logs import Log
from kdump.values import frozen

_NO_PRODUCER: Final = -1


@frozen
class LogFault:
    """A range of a log that was not read; ``position`` is None for a whole file.

    ``damaged`` says that its bytes are damaged; otherwise they could not be read.
    """

    path: AnyPath
    position: int | None
    size: int | None
    reason: str
    damaged: bool


@frozen
class Undecodable:
    """A last record that a coordinator cannot decode; it then does not load the partition."""

    offset: int
    reason: str


@frozen
class CoordinatorLog:
    """The content of one copy of a partition.

    ``records`` are the last ones of their keys, tombstones among them; ``pending`` those of open
    transactions, by producer id. ``end_offset`` is the log end offset, ``epoch`` the leader epoch
    of its last batch, -1 without one.
    """

    records: tuple[LastRecord, ...]
    pending: tuple[tuple[int, tuple[LastRecord, ...]], ...]
    faults: tuple[LogFault, ...]
    end_offset: int
    epoch: int


Select = Callable[[memoryview, memoryview], memoryview]
"""Returns those of rows of records that count; it gets the rows and their block."""


@frozen
class LoadTask:
    """The logs of a partition, ascending, and its log start offset.

    ``select`` is None if all records count.
    """

    logs: Sequence[Log]
    start_offset: int
    select: Select | None = None


def load(task: LoadTask) -> CoordinatorLog:
    """Read the logs of a partition."""
    loader = _Loader(task)
    for log in task.logs:
        loader.read(log, last=log is task.logs[-1])
    return loader.result()


class _Loader:
    def __init__(self, task: LoadTask) -> None:
        self._start_offset = self._end_offset = task.start_offset
        self._select = task.select
        self._epoch = -1
        self._latest = LatestRecords()
        self._pending: dict[int, LatestRecords] = {}
        self._faults: list[LogFault] = []
        self._reader = RecordReader()

    def read(self, log: Log, *, last: bool) -> None:
        try:
            with open_source(log.path, mapped=False, sealed=log.sealed) as source:
                for piece in walk(source, log.base_offset):
                    if isinstance(piece, Damage):
                        self._note_damage(log, piece, tail=last and piece.is_tail_of(source))
                    else:
                        self._add(log, piece, source)
        except SourceError as error:
            self._faults.append(LogFault(log.path, None, None, str(error), damaged=False))

    def result(self) -> CoordinatorLog:
        pending = ((producer, tuple(records)) for producer, records in self._pending.items())
        return CoordinatorLog(
            tuple(self._latest), tuple(pending), tuple(self._faults), self._end_offset, self._epoch
        )

    def _note_damage(self, log: Log, damage: Damage, *, tail: bool) -> None:
        # A start cuts a torn write at the end of the log, and zeros there were never written.
        if not tail:
            self._faults.append(
                LogFault(log.path, damage.position, damage.size, damage.reason.value, damaged=True)
            )

    def _add(self, log: Log, table: BatchTable, source: Source) -> None:
        end = table[len(table) - 1]
        self._end_offset, self._epoch = end.last_offset + 1, end.leader_epoch
        if self._end_offset <= self._start_offset:
            return
        plain = (
            max(table.column("producer_id")) <= _NO_PRODUCER
            and table[0].base_offset >= self._start_offset
        )
        for run in record_runs(table, source, self._reader):
            if isinstance(run, Unread):
                batch, damaged = run.batch, isinstance(run.error, DecodeError)
                self._faults.append(
                    LogFault(log.path, batch.position, batch.size, str(run.error), damaged)
                )
            elif plain:
                self._add_records(run.rows, run.block)
            else:
                self._add_batches(run)

    def _add_batches(self, run: RecordRun) -> None:
        for number in range(len(run)):
            records = run.table(number)
            batch = records.batch
            if batch.last_offset < self._start_offset:
                continue
            if batch.is_control:
                self._end_transaction(batch.producer_id, records)
            elif batch.producer_id == _NO_PRODUCER:
                self._add_records(records.rows, records.block)
            else:
                pending = self._pending.setdefault(batch.producer_id, LatestRecords())
                pending.add(records.rows, records.block)

    def _add_records(self, rows: memoryview, block: memoryview) -> None:
        self._latest.add(rows if self._select is None else self._select(rows, block), block)

    def _end_transaction(self, producer: int, records: RecordTable) -> None:
        for index in range(len(records)):
            kind = control_type_id(records.key(index))
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                pending = self._pending.pop(producer, None)
                if kind == ControlType.COMMIT and pending is not None:
                    self._latest.merge(pending)
