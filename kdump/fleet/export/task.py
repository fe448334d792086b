"""The work of an executor: records of some logs into one file.

Whoever shares out the tasks gives the file that counts its final name: an attempt that nobody waits
for leaves at most a file that no reader looks at.

A line of JSON is that of ``kdump dump --format json --records``.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kdump.errors import DecodeError, SourceError
from kdump.fleet.export.committed import Committed
from kdump.fleet.export.destination import Sink, discard, opened, unwritten
from kdump.fleet.export.ranges import Ranges, within
from kdump.fleet.tables.record_runs import Unread, record_runs
from kdump.fleet.tables.records import Origin, RecordColumns
from kdump.fleet.tables.schema import RECORDS
from kdump.fleet.tables.tables import Log
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.lines.lines import JsonLines
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.rights import Rights
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason

#: Without the topic, which is in the name of the directory that the file is in.
_COLUMNS: Final = [name for name in RECORDS.names if name != "topic"]
#: A row group is written when it has so many bytes.
_GROUP_BYTES: Final = 64 << 20
#: Readers skip by these alone; to compare all keys and values would cost a sixth of the time.
_COMPARED: Final = ["partition", "offset", "timestamp"]
#: Numbers that grow: their differences leave less to compress.
_GROWING: Final = ("offset", "timestamp", "sequence", "position")


class Form(Enum):
    """How records are written; the value is the end of a file's name."""

    PARQUET = "parquet"
    JSONL = "jsonl.zst"


@dataclass(frozen=True, slots=True)
class Share:
    """A log and its offset index; of its records those in ``ranges``, None for all of them."""

    log: Log
    index: Path | None
    ranges: Ranges | None = None
    committed: Committed | None = None


@dataclass(frozen=True, slots=True)
class ExportTask:
    """``shares`` of one topic, whose file goes into the directory ``to``, made with ``rights``."""

    shares: tuple[Share, ...]
    to: Path
    rights: Rights | None
    form: Form
    selection: Selection


@dataclass(frozen=True, slots=True)
class Trouble:
    """What of a log could not be exported; ``size`` is bytes from ``position`` on.

    ``damaged``: it is there and damaged. Else nobody could say.
    """

    path: str
    position: int | None
    size: int | None
    reason: str
    damaged: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """What became of one log, of ``bytes``; offsets are None without a record."""

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
    """A file at ``path``, with the digest of its bytes."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Exported:
    """``file`` is None where no record was asked for."""

    file: WrittenFile | None
    ledgers: tuple[Ledger, ...]
    troubles: tuple[Trouble, ...]


def exported(task: ExportTask) -> Exported:
    """Do the task."""
    path = task.to / f"{uuid4().hex}.{task.form.value}"
    writing = _Writing(path, task.rights, task.form)
    try:
        found = [_log(share, task.selection, writing) for share in task.shares]
        file = writing.close()
    except OSError as error:  # what cannot be read is told by other errors
        writing.discard()
        raise unwritten(path, error) from error
    except BaseException:
        writing.discard()
        raise
    troubles = tuple(trouble for _, some in found for trouble in some)
    return Exported(file, tuple(ledger for ledger, _ in found), troubles)


@dataclass(slots=True)
class _Count:
    bytes: int = 0
    records: int = 0
    first: int | None = None
    last: int | None = None
    troubles: list[Trouble] = field(default_factory=list)

    def add(self, run: RecordRun) -> None:
        """Count the records of ``run``, of which there are some."""
        offsets = np.frombuffer(run.rows, np.int64)[:: RecordTable.WIDTH]
        self.records += len(offsets)
        low, high = int(offsets.min()), int(offsets.max())
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)


def _log(
    share: Share, selection: Selection, writing: _Writing
) -> tuple[Ledger, tuple[Trouble, ...]]:
    count, origin = _Count(), share.log.origin
    where = origin.source_file
    try:
        with open_source(share.log.path, mapped=False, sealed=share.log.sealed) as source:
            count.bytes = source.size
            for run in _runs(share, selection, source, count.troubles):
                left = None
                if selection.limit is not None:
                    left = selection.limit - writing.records
                    if left <= 0:
                        break
                kept = _kept(run, share, left)
                if len(kept.rows):
                    count.add(kept)
                    writing.add(kept, origin)
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
            if piece.reason is Reason.PREALLOCATED:  # room for batches to come
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
                    picked = selection.records(run.table(number))
                    if len(picked):
                        yield RecordRun.of(picked)
            else:
                yield run


def _kept(run: RecordRun, share: Share, left: int | None) -> RecordRun:
    """Those records of ``run`` that are in the ranges and stable, at most ``left`` of them."""
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
    # Batches without a record that is kept go too.
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


class _Hashed:
    """A new file whose bytes are hashed on their way; as much of a file as pyarrow writes to."""

    def __init__(self, path: Path, rights: Rights | None) -> None:
        self._file: Sink = opened(path, rights)
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
        """Close the file, as far as that can be; what is still to be written goes nowhere."""
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
    def __init__(self, sink: _Hashed) -> None:
        self._columns = RecordColumns(_COLUMNS, encoded=True)
        self._origin: Origin | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        schema = self._columns.schema
        words = [one.name for one in schema if pa.types.is_dictionary(one.type)]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(sink, "w"),
            schema,
            compression="zstd",
            use_dictionary=words,
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=_COMPARED,
        )

    def add(self, run: RecordRun, origin: Origin) -> None:
        if origin is not self._origin:
            self._columns.start(origin)
            self._origin = origin
        self._hold(self._columns.add(run))

    def _hold(self, batch: pa.RecordBatch | None) -> None:
        if batch is not None:
            self._held.append(batch)
            self._held_bytes += batch.nbytes
            if self._held_bytes >= _GROUP_BYTES:
                self._write()

    def _write(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
        self._held, self._held_bytes = [], 0

    def close(self) -> None:
        self._hold(self._columns.finish())
        self._write()
        self._writer.close()


class _Jsonl:
    def __init__(self, sink: _Hashed) -> None:
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


class _Writing:
    """The file of a task, which is made when there is a record for it."""

    def __init__(self, path: Path, rights: Rights | None, form: Form) -> None:
        self.records = 0
        self._path = path
        self._rights = rights
        self._form = form
        self._sink: _Hashed | None = None
        self._writer: _Writer | None = None

    def add(self, run: RecordRun, origin: Origin) -> None:
        if self._writer is None:
            self._sink = _Hashed(self._path, self._rights)
            self._writer = (_Parquet if self._form is Form.PARQUET else _Jsonl)(self._sink)
        self._writer.add(run, origin)
        self.records += len(run.rows) // RecordTable.WIDTH

    def close(self) -> WrittenFile | None:
        """Finish the file."""
        if self._writer is None or self._sink is None:
            return None
        self._writer.close()
        self._sink.close()
        return WrittenFile(self._path, self._sink.bytes, self._sink.digest)

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._sink is not None:
            self._sink.abandon()
            discard(self._path, self._rights)
