"""The task of an executor: reads some logs, and writes their records into one file.

The driver gives the file of one attempt its final name. Another attempt leaves at most a file that
readers ignore.

A line of JSON is a line of ``kdump dump --format json --records``.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kdump.errors import DecodeError, SourceError
from kdump.fleet.export.committed import CommittedFilter
from kdump.fleet.export.destination import Sink, discard, open_sink, write_error
from kdump.fleet.export.ranges import Ranges, within
from kdump.fleet.tables.record_runs import Unread, record_runs
from kdump.fleet.tables.records import Origin, RecordColumns
from kdump.fleet.tables.schema import RECORDS
from kdump.fleet.tables.tables import Log
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.lines.lines import JsonLines
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.objects.address import AnyPath
from kdump.storage.rights import Rights
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason

#: The columns of Parquet files: without the topic, which is in the name of the directory.
_COLUMNS: Final = [name for name in RECORDS.names if name != "topic"]
#: The size from which a row group is written.
_GROUP_BYTES: Final = 64 << 20
#: Columns with statistics, by which readers skip. Keys and values would take a sixth of the time.
_STATISTICS: Final = ["partition", "offset", "timestamp"]
#: Columns of growing numbers: their differences compress better.
_GROWING: Final = ("offset", "timestamp", "sequence", "position")


class Form(Enum):
    """The format of the files; the value is the extension."""

    PARQUET = "parquet"
    JSONL = "jsonl.zst"


@dataclass(frozen=True, slots=True)
class Share:
    """A log, its offset index, and the ``ranges`` to export, None for all records."""

    log: Log
    index: AnyPath | None
    ranges: Ranges | None = None
    committed: CommittedFilter | None = None


@dataclass(frozen=True, slots=True)
class ExportTask:
    """``shares`` of one topic; their file is created in the directory ``to`` with ``rights``."""

    shares: tuple[Share, ...]
    to: AnyPath
    rights: Rights | None
    form: Form
    selection: Selection


@dataclass(frozen=True, slots=True)
class Trouble:
    """A part of a log that could not be exported: ``size`` bytes from ``position`` on.

    ``damaged``: the bytes were read and are damaged. Otherwise they could not be read.
    """

    path: str
    position: int | None
    size: int | None
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The export of one log of ``bytes``; offsets are None without a record."""

    path: str
    host: str
    topic: str | None
    partition: int | None
    bytes: int
    records: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file at ``path``, its size, and the digest of its bytes."""

    path: AnyPath
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a task; ``file`` is None if no record was selected."""

    file: WrittenFile | None
    ledgers: tuple[Ledger, ...]
    troubles: tuple[Trouble, ...]


def export_logs(task: ExportTask) -> ExportResult:
    """Export the logs of ``task`` to one file. Raise SourceError if it cannot be written."""
    path = task.to / f"{uuid4().hex}.{task.form.value}"
    output = _Output(path, task.rights, task.form)
    try:
        results = [_export_log(share, task.selection, output) for share in task.shares]
        file = output.close()
    except OSError as error:  # from writing; reading raises SourceError
        output.discard()
        raise write_error(path, error) from error
    except BaseException:  # Ctrl-C too: no partial file stays
        output.discard()
        raise
    troubles = tuple(trouble for _, log_troubles in results for trouble in log_troubles)
    return ExportResult(file, tuple(ledger for ledger, _ in results), troubles)


@dataclass(slots=True)
class _Count:
    bytes: int = 0
    records: int = 0
    first: int | None = None
    last: int | None = None
    troubles: list[Trouble] = field(default_factory=list)

    def add(self, run: RecordRun) -> None:
        """Count the records of ``run``, which has at least one."""
        offsets = np.frombuffer(run.rows, np.int64)[:: RecordTable.WIDTH]
        self.records += len(offsets)
        low, high = int(offsets.min()), int(offsets.max())
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)


def _export_log(
    share: Share, selection: Selection, output: _Output
) -> tuple[Ledger, tuple[Trouble, ...]]:
    count, origin = _Count(), share.log.origin
    where = origin.source_file
    try:
        with open_source(share.log.path, mapped=False, sealed=share.log.sealed) as source:
            count.bytes = source.size
            for run in _runs(share, selection, source, count.troubles):
                left = None
                if selection.limit is not None:
                    left = selection.limit - output.records
                    if left <= 0:
                        break
                selected = _select_records(run, share, left)
                if len(selected.rows):
                    count.add(selected)
                    output.add(selected, origin)
    except SourceError as error:
        count.troubles.append(Trouble(where, None, None, str(error), damaged=False))
    ledger = Ledger(
        where,
        socket.gethostname(),
        origin.topic,
        origin.partition,
        count.bytes,
        count.records,
        count.first,
        count.last,
    )
    return ledger, tuple(count.troubles)


def _runs(
    share: Share, selection: Selection, source: Source, troubles: list[Trouble]
) -> Iterator[RecordRun]:
    where, reader = share.log.origin.source_file, RecordReader()
    for _, piece in selection.pieces(source, share.log.base_offset, share.index, records=True):
        if isinstance(piece, Damage):
            if piece.reason is Reason.PREALLOCATED:  # unused space for later batches
                continue
            reason = piece.reason.value
            troubles.append(Trouble(where, piece.position, piece.size, reason, damaged=True))
            continue
        table = piece if share.committed is None else share.committed.batches(piece)
        if not len(table):
            continue
        for run in record_runs(table, source, reader):
            if isinstance(run, Unread):
                batch, text = run.batch, str(run.error)
                damaged = isinstance(run.error, DecodeError)
                troubles.append(Trouble(where, batch.position, batch.size, text, damaged))
            elif selection.of_records:
                for number in range(len(run)):
                    selected = selection.records(run.table(number))
                    if len(selected):
                        yield RecordRun.of(selected)
            else:
                yield run


def _select_records(run: RecordRun, share: Share, left: int | None) -> RecordRun:
    """Return the records of ``run`` in the ranges and below the end, at most ``left`` of them."""
    rows = np.frombuffer(run.rows, np.int64).reshape(-1, RecordTable.WIDTH)
    keep = np.ones(len(rows), bool)
    if share.committed is not None:
        keep &= rows[:, 0] < share.committed.end
    if share.ranges is not None:
        keep &= within(rows[:, 0], share.ranges)
    if left is not None:
        keep &= np.cumsum(keep) <= left
    if keep.all():
        return run
    # Batches without a selected record are left out too.
    starts = np.array(run.starts, np.int64)
    counts = np.array([keep[a:b].sum() for a, b in pairwise(starts)], np.int64)
    batches = np.frombuffer(run.batches.rows, np.int64).reshape(-1, BatchTable.WIDTH)[counts > 0]
    starts = np.concatenate(([0], np.cumsum(counts[counts > 0])))
    return RecordRun(
        BatchTable(_longs(batches), hunted=run.batches.hunted),
        run.block,
        _longs(rows[keep]),
        _longs(starts),
        run.magic,
    )


def _longs(numbers: Any) -> memoryview:
    return memoryview(bytearray(numbers.astype(np.int64).tobytes())).cast("q")


class _HashedFile:
    """A new file that hashes its bytes, with the methods that pyarrow calls."""

    def __init__(self, path: AnyPath, rights: Rights | None) -> None:
        self._file: Sink = open_sink(path, rights)
        self._hash = hashlib.sha256()
        self.bytes = 0
        self._abandoned = False

    def write(self, data: Any) -> int:
        if self._abandoned:
            return memoryview(data).nbytes
        self._hash.update(data)
        self.bytes += memoryview(data).nbytes
        return self._file.write(data)

    def flush(self) -> None:
        if not self._abandoned:
            self._file.flush()

    def tell(self) -> int:
        return self.bytes

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        """Close the file, ignore errors, and drop what is written later."""
        self._abandoned = True
        with suppress(OSError):
            self._file.close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class _Writer(Protocol):
    def add(self, run: RecordRun, origin: Origin) -> None: ...

    def close(self) -> None: ...


class _Parquet:
    def __init__(self, sink: _HashedFile) -> None:
        self._columns = RecordColumns(_COLUMNS, encoded=True)
        self._origin: Origin | None = None
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        schema = self._columns.schema
        dictionaries = [column.name for column in schema if pa.types.is_dictionary(column.type)]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(sink, "w"),
            schema,
            compression="zstd",
            use_dictionary=dictionaries,
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=_STATISTICS,
        )

    def add(self, run: RecordRun, origin: Origin) -> None:
        if origin is not self._origin:
            self._columns.start(origin)
            self._origin = origin
        self._add_batch(self._columns.add(run))

    def _add_batch(self, batch: pa.RecordBatch | None) -> None:
        if batch is not None:
            self._batches.append(batch)
            self._batch_bytes += batch.nbytes
            if self._batch_bytes >= _GROUP_BYTES:
                self._write()

    def _write(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._batch_bytes = [], 0

    def close(self) -> None:
        self._add_batch(self._columns.finish())
        self._write()
        self._writer.close()


class _Jsonl:
    def __init__(self, sink: _HashedFile) -> None:
        self._origin: Origin | None = None
        self._lines = JsonLines(None, None, force_base64=False)
        self._stream = pa.CompressedOutputStream(pa.PythonFile(sink, "w"), "zstd")

    def add(self, run: RecordRun, origin: Origin) -> None:
        if origin is not self._origin:
            self._lines = JsonLines(
                origin.topic,
                origin.partition,
                force_base64=False,
                source_file=origin.source_file,
            )
            self._origin = origin
        for lines in self._lines.run(run):
            self._stream.write(lines)

    def close(self) -> None:
        self._stream.close()


class _Output:
    """The file of a task, which is created with the first record."""

    def __init__(self, path: AnyPath, rights: Rights | None, form: Form) -> None:
        self.records = 0
        self._path = path
        self._rights = rights
        self._form = form
        self._sink: _HashedFile | None = None
        self._writer: _Writer | None = None

    def add(self, run: RecordRun, origin: Origin) -> None:
        if self._writer is None:
            self._sink = _HashedFile(self._path, self._rights)
            self._writer = (_Parquet if self._form is Form.PARQUET else _Jsonl)(self._sink)
        self._writer.add(run, origin)
        self.records += len(run.rows) // RecordTable.WIDTH

    def close(self) -> WrittenFile | None:
        """Finish the file, and return it; None if there was no record."""
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        self._sink.close()
        return WrittenFile(self._path, self._sink.bytes, self._sink.digest)

    def discard(self) -> None:
        """Close and remove the file."""
        if self._sink is not None:
            self._sink.abandon()
            discard(self._path, self._rights)
