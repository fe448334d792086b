"""Conversion: the batches of a log with messages of magic 0 and 1 rewritten as magic 2.

Uncompressed messages are joined with their neighbours; a wrapper becomes one batch. Batches of
magic 2 are copied byte for byte, but those without a leader epoch get one. A digest covers all
records as they are read.

Spec: ``MemoryRecords.buildRetainedRecordsInto`` of 4.0 and later (KAFKA-13093, KIP-724); KOD 6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from kdump.audit.survey.anomalies import Fault, FaultKind, HeaderFaults
from kdump.errors import DecodeError, LimitError, Refused, SourceError
from kdump.format.batch import (
    CODEC_MASK,
    MAX_OFFSET_DELTA,
    BatchTable,
    RecordBatch,
    RecordTable,
    TimestampType,
    read_header,
    timestamp_type_of,
)
from kdump.format.checkpoint import EpochEntry
from kdump.format.codecs import CODECS, Codec
from kdump.format.encoding import NO_EPOCH, BatchWriter
from kdump.format.kernel import headers as _headers
from kdump.format.kernel.encode import kind_end
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from kdump.repair.rewrite.batch_digests import add_batch, add_batches
from kdump.repair.rewrite.preconditions import damaged_log, unconvertible_log, undecodable_records
from kdump.storage.logdir import MAX_LOG_BYTES
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source
from kdump.storage.walk import Damage, batch_bytes, walk
from kdump.values import frozen

_LEADER_EPOCH: Final = _headers.BATCH_FIELDS.index("leader_epoch")
_LAST_OFFSET: Final = _headers.BATCH_FIELDS.index("last_offset")
_MAGIC: Final = _headers.BATCH_FIELDS.index("magic")
_ATTRIBUTES: Final = _headers.BATCH_FIELDS.index("attributes")

_PIECE_BYTES: Final = 1 << 20
_REPORT_BYTES: Final = 8 << 20
#: The position of the leader epoch in a batch; the checksum does not cover it.
_EPOCH_AT: Final = 12
_EPOCH: Final = struct.Struct(">i")
#: baseOffset and lastOffsetDelta
_OFFSETS: Final = struct.Struct(">q15xi")
_REFUSED: Final = {
    FaultKind.BACKWARDS: (
        "begins at or below the last offset before it, or below the segment's base offset"
    ),
    FaultKind.INVERTED: "ends below its base offset",
    FaultKind.MAGIC: "is of a message format that no release writes",
    FaultKind.CODEC: "has an unknown compression type",
}


@frozen
class Rules:
    """The rules by which old batches are rewritten.

    ``codec`` compresses all of them; None keeps the codec that each had. Neighbouring messages are
    joined to batches of at most ``batch_bytes``, uncompressed and with the header; 0 joins none.
    """

    codec: Codec | None = None
    batch_bytes: int = 16 * 1024


@frozen
class NewPart:
    """One new log; ``digest`` is the digest of its records as they were read from the old log."""

    base_offset: int
    size: int
    batches: int
    records: int
    digest: str


class Conversion:
    """The conversion of one log while it is read.

    ``legacy`` counts the messages and wrappers that were rewritten, ``stamped`` the batches of
    magic 2 that got a leader epoch, ``copied`` the batches that stay the same. ``report`` is called
    with counts of bytes of the old log that were read. ``epochs`` are the leader epochs of the log,
    for ``BatchWriter``; no new batch gets a lower epoch than a batch of magic 2 before it.
    ``growing``: a broker may be writing to the log, so a partial batch at its end is ignored.
    """

    def __init__(
        self,
        source: Source,
        path: AnyPath,
        base_offset: int,
        rules: Rules,
        report: Callable[[int], None],
        *,
        epochs: Sequence[EpochEntry],
        growing: bool = False,
    ) -> None:
        self.legacy = self.stamped = self.copied = 0
        self._epochs = epochs
        self._source, self._path, self._base_offset = source, path, base_offset
        self._rules, self._report, self._reported = rules, report, 0
        self._growing = growing
        self._at = 0  # the position of the first of the batches that are being read
        self._reader = RecordReader()
        self._writer = BatchWriter(epochs)
        self._logs = _NewLogs(base_offset)
        # The digest before the open batch, None if none is open; the kind of joined messages.
        self._before: RecordDigest | None = None
        self._kind: tuple[int, TimestampType] | None = None

    @property
    def parts(self) -> tuple[NewPart, ...]:
        """The new logs, complete after ``pieces``; several if one was full."""
        return self._logs.parts

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield pieces of whole batches in order, each with the number of its part.

        Each part has at least one piece; the piece of an empty part is empty. Raises Refused for a
        log that is damaged or out of order; SourceError.
        """
        faults = HeaderFaults(self._base_offset, cleaned=True)
        try:
            for piece in walk(self._source, self._base_offset):
                if isinstance(piece, Damage):
                    if self._growing and piece.is_tail_of(self._source):
                        break
                    raise damaged_log(self._path, piece)
                for fault in faults.add(piece):
                    self._refuse(fault)
                row = 0
                while row < len(piece):
                    row = self._convert(piece, row)
                    if self._logs.waiting >= _PIECE_BYTES:
                        yield from self._logs.take()
                self._report_up_to(piece.end, _REPORT_BYTES)
            self._finish()
        except DecodeError as error:
            raise undecodable_records(
                self._path, f"from position {self._at} on: {error}"
            ) from error
        except LimitError as error:
            where = f"{self._path}: from position {self._at} on"
            raise SourceError(self._path, f"{where}: {error}") from error
        self._report_up_to(self._source.size, 1)
        yield from self._logs.take()

    def _convert(self, table: BatchTable, row: int) -> int:
        """Convert the batch in ``row`` and neighbours of its kind; return the row after them."""
        at = row * BatchTable.WIDTH
        self._at = table.rows[at]
        legacy = table.rows[at + _MAGIC] < 2
        if legacy and table.rows[at + _ATTRIBUTES] & CODEC_MASK:
            return self._rewrap(table, row)
        stop = kind_end(table.rows, row)
        if legacy:
            self._join(table.part(row, stop))
        else:
            self._copy(table.part(row, stop))
        return stop

    def _join(self, table: BatchTable) -> None:
        """Join uncompressed messages of one magic and timestamp type to batches."""
        kind = table[0].magic, table[0].timestamp_type
        if kind != self._kind:
            self._finish()
            self._kind = kind
        codec, limit_bytes = self._rules.codec or Codec.NONE, self._rules.batch_bytes
        for run in record_runs(table, self._source, self._reader):
            if isinstance(run, Unread):
                raise run.error
            self._encode(run.block, run.rows, codec, kind[1], limit_bytes)
        self.legacy += len(table)

    def _rewrap(self, table: BatchTable, row: int) -> int:
        """Rewrite wrappers from ``row`` on, each as one batch; return the row after them."""
        self._finish()
        columns, view = table.rows, self._source.window(table.position)
        for at in range(row * BatchTable.WIDTH, len(columns), BatchTable.WIDTH):
            magic, attributes = columns[at + _MAGIC], columns[at + _ATTRIBUTES]
            if magic > 1 or not attributes & CODEC_MASK or self._logs.waiting >= _PIECE_BYTES:
                break
            self._at = columns[at]
            block_and_rows = self._reader.block(table, row, view)
            if block_and_rows is None:
                last_offset = self._rewrap_in_turns(table[row])
            else:
                codec = self._codec_of(attributes & CODEC_MASK)
                self._encode_whole(*block_and_rows, codec, timestamp_type_of(magic, attributes))
                last_offset = block_and_rows[1][-RecordTable.WIDTH]
            # Old releases of librdkafka leave the wrapper's offset at 0.
            if columns[at + _LAST_OFFSET] not in (0, last_offset):
                raise DecodeError(
                    f"expected the offset of the last message inside, {last_offset}, in the "
                    f"wrapper at position {columns[at]}, found {columns[at + _LAST_OFFSET]}"
                )
            row += 1
            self.legacy += 1
            if block_and_rows is None:
                break  # _rewrap_in_turns may have moved the window
        return row

    def _rewrap_in_turns(self, batch: RecordBatch) -> int | None:
        """Rewrite a large or unusual wrapper; return the offset of the last message in it."""
        codec, last_offset = self._codec_of(batch.codec), None
        for table in self._reader.tables(batch, batch_bytes(self._source, batch)):
            # Messages of another magic than their wrapper (KAFKA-4298) may need their own batch.
            self._encode(table.block, table.rows, codec, table.timestamp_type, None)
            last_offset = table.rows[-RecordTable.WIDTH]
        self._finish()
        return last_offset

    def _codec_of(self, codec: int) -> Codec:
        """Return the codec of the new batch of a wrapper with ``codec``."""
        return CODECS[codec] if self._rules.codec is None else self._rules.codec

    def _encode_whole(
        self, block: memoryview, rows: memoryview, codec: Codec, timestamp_type: TimestampType
    ) -> None:
        """Encode all messages of a wrapper; no batch is open before or after that."""
        row = 0
        while row < len(rows):
            first = row // RecordTable.WIDTH
            stop = self._writer.add(block, rows, first, codec, timestamp_type, None)
            batch = self._writer.finish()
            assert batch is not None  # an empty batch takes at least one record
            taken = rows[row : stop * RecordTable.WIDTH]
            last_offset = taken[-RecordTable.WIDTH]
            digest = self._logs.make_room(taken[0], last_offset, len(batch))
            digest.add(block, taken, timestamp_type, legacy=True)
            self._logs.grow(batch, 1, last_offset)
            row += len(taken)

    def _encode(
        self,
        block: memoryview,
        rows: memoryview,
        codec: Codec,
        timestamp_type: TimestampType,
        limit_bytes: int | None,
    ) -> None:
        digest, width = self._logs.digest, RecordTable.WIDTH
        count, row = len(rows) // width, 0
        while row < count:
            if self._before is None:
                self._before = digest.copy()
            reached = self._writer.add(block, rows, row, codec, timestamp_type, limit_bytes)
            taken = rows[row * width : reached * width]
            digest.add(block, taken, timestamp_type, legacy=True)
            if reached < count:
                self._finish()
                digest = self._logs.digest
            row = reached

    def _finish(self) -> None:
        """Close the open batch, if any."""
        if self._before is None:
            return
        batch = self._writer.finish()
        if batch is not None:
            self._logs.add(batch, self._before)
        self._before = None

    def _copy(self, table: BatchTable) -> None:
        """Copy batches of magic 2."""
        self._finish()
        self._check_records(table)
        # All at once, unless the new log becomes full.
        fits = self._logs.has_room(table)
        for part in [table] if fits else (table.part(row, row + 1) for row in range(len(table))):
            size, last_offset = part.end - part.position, part[len(part) - 1].last_offset
            digest = self._logs.make_room(part[0].base_offset, last_offset, size)
            add_batches(digest, part, self._source, self._reader)
            data = bytes(self._source.window(part.position, size)[:size])
            self._logs.grow(self._stamp(part, data), len(part), last_offset)

    def _stamp(self, table: BatchTable, data: bytes) -> bytes:
        """Return batches of magic 2; those without a leader epoch get the epoch of their offset."""
        epochs = table.rows[_LEADER_EPOCH :: BatchTable.WIDTH]
        if not self._epochs or min(epochs) >= 0:
            self._writer.raise_epoch(epochs[-1] if self._epochs else NO_EPOCH)
            self.copied += len(table)
            return data
        stamped = bytearray(data)
        for row, epoch in enumerate(epochs):
            if epoch < 0:
                batch = table[row]
                epoch = self._writer.epoch_at(batch.base_offset)
                _EPOCH.pack_into(stamped, batch.position - table.position + _EPOCH_AT, epoch)
                self.stamped += 1
            else:
                self.copied += 1
            self._writer.raise_epoch(epoch)
        return bytes(stamped)

    def _check_records(self, table: BatchTable) -> None:
        """Raise DecodeError if records of magic 2 cannot be read, or their offsets do not rise."""
        source, reader, row = self._source, self._reader, 0
        while (row := reader.skip_matching(table, row, source.window(table.position))) < len(table):
            batch = table[row]
            summary = reader.summary(batch, batch_bytes(source, batch))
            if summary.disorder or summary.last_offset > batch.last_offset:
                raise DecodeError(
                    "expected offsets that rise up to the last offset of the batch at position "
                    f"{batch.position}, found records with other offsets"
                )
            row += 1

    def _refuse(self, fault: Fault) -> None:
        if fault.kind in _REFUSED:
            raise unconvertible_log(
                self._path,
                "expected batches of message formats v0 to v2 with rising offsets, found that the "
                f"batch at position {fault.batch.position} {_REFUSED[fault.kind]}",
            )

    def _report_up_to(self, position: int, at_least: int) -> None:
        if position - self._reported >= at_least:
            self._report(position - self._reported)
            self._reported = position


class _NewLogs:
    """The new logs of an old one, in order, while they grow.

    The last log is open; ``digest`` is the digest of its records. The next log begins before the
    first batch that would exceed the largest size of a log, or the offsets that its index can hold.
    """

    def __init__(self, base_offset: int) -> None:
        self.digest = RecordDigest()
        self.waiting = 0
        self._base_offset = base_offset
        self._size = self._batches = 0
        self._last_offset = base_offset - 1
        self._closed: list[NewPart] = []
        self._pieces = [(0, b"")]

    @property
    def parts(self) -> tuple[NewPart, ...]:
        """All new logs, as if the last one were complete."""
        return (*self._closed, self._part(self.digest))

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes that were added since the last call, with the number of their log."""
        pieces, self._pieces, self.waiting = self._pieces, [], 0
        for number, of_log in groupby(pieces, key=itemgetter(0)):
            yield number, b"".join(data for _, data in of_log)

    def add(self, batch: bytes, before: RecordDigest) -> None:
        """Add a batch whose records the digest already has; ``before`` is the digest without them.

        Raises DecodeError unless its offsets are above all that were added.
        """
        base_offset, delta = _OFFSETS.unpack_from(batch)
        self._check_order(base_offset)
        if not self._fits(len(batch), base_offset + delta):
            self._begin_with(batch, base_offset, before)
        self.grow(batch, 1, base_offset + delta)

    def has_room(self, table: BatchTable) -> bool:
        """Return whether all batches of ``table`` fit into the open log."""
        last = len(table) - 1
        return self._fits(table.end - table.position, table[last].last_offset, alone=not last)

    def make_room(self, base_offset: int, last_offset: int, size: int) -> RecordDigest:
        """Open the next log if batches of ``size`` bytes do not fit; return its digest.

        Raises DecodeError unless their offsets are above all that were added.
        """
        self._check_order(base_offset)
        if not self._fits(size, last_offset):
            self._begin(base_offset, self.digest)
        return self.digest

    def grow(self, data: bytes, batches: int, last_offset: int) -> None:
        """Add batches to the open log, which has room for them."""
        self._pieces.append((len(self._closed), data))
        self._size += len(data)
        self._batches += batches
        self._last_offset = last_offset
        self.waiting += len(data)

    def _check_order(self, base_offset: int) -> None:
        if base_offset <= self._last_offset:
            raise DecodeError(
                f"expected records above offset {self._last_offset}, found records from "
                f"{base_offset} on"
            )

    def _fits(self, size: int, last_offset: int, *, alone: bool = True) -> bool:
        """Return whether ``size`` bytes fit; one batch ``alone`` fits into any empty log."""
        if last_offset - self._base_offset > MAX_OFFSET_DELTA:
            return False
        return (alone and not self._size) or self._size + size <= MAX_LOG_BYTES

    def _begin_with(self, batch: bytes, base_offset: int, before: RecordDigest) -> None:
        """Open the next log for a batch whose records are already in the digest of this log.

        The old records are no longer in memory. The records of the new batch replace them in the
        digests, after a check that both are the same.
        """
        with_them = self.digest.hexdigest()
        self._begin(base_offset, before)
        view, reader = memoryview(batch), RecordReader()
        header = read_header(view, 0)
        assert header is not None  # the batch is complete
        for digest in (self.digest, before):
            add_batch(digest, header, view, reader)
        if before.hexdigest() != with_them:
            raise Refused(
                f"expected the new batch at offset {base_offset} to hold the same records as the "
                "old batches, found other records: check memory"
            )

    def _begin(self, base_offset: int, digest: RecordDigest) -> None:
        """Close the open log, whose records have ``digest``, and open the next."""
        self._closed.append(self._part(digest))
        self._base_offset, self._size, self._batches = base_offset, 0, 0
        self.digest = RecordDigest()

    def _part(self, digest: RecordDigest) -> NewPart:
        return NewPart(
            self._base_offset, self._size, self._batches, digest.count, digest.hexdigest()
        )
