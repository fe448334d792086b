"""Record batches of magic 2: header fields, and the columns that hold many batches or records.

A ``BatchTable`` or ``RecordTable`` holds many of them as 64-bit columns. ``RecordBatch`` and
``Record`` are single ones as objects. This module checks no checksums: ``storage.walk`` does.

Spec: ``DefaultRecordBatch``, ``DefaultRecord`` (KIP-98, KIP-82, KIP-534); KOD 3.2.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from kdump.errors import DecodeError, LimitError
from kdump.format.codecs import CODECS, DEFAULT_LIMIT, Codec, check_start, compress, decompress
from kdump.format.kernel import columns as _columns
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import records as _records
from kdump.values import frozen

HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
#: The checksum covers the bytes of the batch from here on.
CHECKSUM_START: Final = 21
MAX_OFFSET_DELTA: Final = 2**31 - 1
MIN_OFFSET: Final = -(2**63)
#: The most headers that a ``Record`` holds.
MAX_HEADERS: Final = 65_536

# Bits of the attributes.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

#: The size of the batch that a broker writes for a transaction marker.
MARKER_BYTES: Final = 78

#: baseOffset, length, partitionLeaderEpoch, magic
_PREFIX = struct.Struct(">qiib")
#: attributes, lastOffsetDelta, base and max timestamp, producer id and epoch, sequence, count
_CHECKSUMMED = struct.Struct(">hiqqqhii")

_ROW = attrgetter(*_headers.BATCH_FIELDS)

_ENDINGS = {
    _records.BAD_VARINT: "a number that is too long or cut off",
    _records.BAD_LENGTH: "a length that does not fit into the batch",
    _records.BAD_FIELD: "a key, value or header that does not fit into its record",
    _records.BAD_END: "fields that do not fill its length",
}


class TimestampType(Enum):
    """The meaning of a timestamp (``TimestampType``). The value is Kafka's name."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"
    NO_TIMESTAMP_TYPE = "NoTimestampType"


@frozen
class RecordBatch:
    """The header of one batch, or of one legacy message (magic 0 and 1).

    ``position`` and ``size`` are in bytes of the file, overhead included. ``crc`` is the stored
    checksum. The base and last offset of a legacy message are its own offset: for a compressed
    wrapper that is the offset of the last message inside. The fields are in the order of the
    kernel's rows.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def codec_id(self) -> int:
        """The number of the codec, 0 to 7; not all of them are codecs."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """The compression of the records. Raises DecodeError for an unknown codec number."""
        try:
            return Codec(self.codec_id)
        except ValueError:
            raise DecodeError(
                f"expected a codec from 0 to 4, found {self.codec_id} "
                f"in the batch at position {self.position}"
            ) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """The type of the timestamps: set by the producer or by the broker."""
        return timestamp_type_of(self.magic, self.attributes)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.magic > 1 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers that consumers never see."""
        return self.magic > 1 and bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which the cleaner may drop tombstones and markers (KIP-534)."""
        has_horizon = self.magic > 1 and self.attributes & DELETE_HORIZON
        return self.base_timestamp if has_horizon else None

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 for none (``DefaultRecordBatch.lastSequence``)."""
        return sequence_at(self.base_sequence, self.last_offset - self.base_offset)


def timestamp_type_of(magic: int, attributes: int) -> TimestampType:
    """Return the timestamp type of a batch or legacy message with this magic and attributes."""
    if magic == 0:
        return TimestampType.NO_TIMESTAMP_TYPE
    if attributes & LOG_APPEND_TIME:
        return TimestampType.LOG_APPEND_TIME
    return TimestampType.CREATE_TIME


def read_header(view: memoryview, position: int) -> RecordBatch | None:
    """Return the header at ``view[0]``, valid or not; None if the view ends inside it.

    ``position`` is the position of the header in its file.
    """
    row = memoryview(array("q", bytes(8 * BatchTable.WIDTH)))
    return RecordBatch(*row) if _headers.read_header(view, position, row) else None


def is_marker(view: memoryview) -> bool:
    """Return whether the header at ``view[0]``, valid or not, is that of a transaction marker."""
    header = read_header(view, 0)
    return (
        header is not None
        and header.size == MARKER_BYTES
        and header.is_control
        and header.is_transactional
        and header.producer_id >= 0
    )


def sequence_at(base_sequence: int, offset_delta: int) -> int:
    """Return the sequence of the record at ``offset_delta``; -1 in a batch without sequences.

    The sequence after 2147483647 is 0.
    """
    return -1 if base_sequence < 0 else (base_sequence + offset_delta) % 2**31


class Usual(NamedTuple):
    """A summary of a table of usual batches, which saves the checks of single batches.

    Usual batches have magic 2, one leader epoch, and timestamps. Their offsets are 0 or above and
    have no gaps, and each offset has a record. None is a control batch, or has a delete horizon, an
    unknown codec, or unknown bits in its attributes.

    ``lowest_timestamp`` and ``highest_timestamp`` are over the largest timestamp of each batch, in
    ms. ``producers`` is 1 if any batch has a producer id, else 0.
    """

    first_offset: int
    last_offset: int
    leader_epoch: int
    lowest_timestamp: int
    highest_timestamp: int
    producers: int

    @classmethod
    def of(cls, scanned: memoryview) -> Usual | None:
        """Return the summary that the kernel has made of a scan; None if a batch is not usual."""
        return cls(*scanned[_headers.U_FIRST_OFFSET :]) if scanned[_headers.U_USUAL] else None

    @property
    def records(self) -> int:
        """The count of records in all batches."""
        return self.last_offset - self.first_offset + 1


class BatchTable:
    """Consecutive sound batches as columns; at most 8,192.

    ``rows`` is a flat, read-only view of 64-bit integers in the order of the kernel's
    ``BATCH_FIELDS``. ``hunted``: these batches, or batches before them in the file, were found by
    hunting after damage, so that they may lie inside the value of a record. ``usual`` is None if a
    batch is not usual, or if that is unknown, as for a part of a table.
    """

    __slots__ = ("hunted", "rows", "usual")

    WIDTH: Final = len(_headers.BATCH_FIELDS)

    def __init__(
        self, rows: memoryview, *, hunted: bool = False, usual: Usual | None = None
    ) -> None:
        self.rows = rows
        self.hunted = hunted
        self.usual = usual

    @classmethod
    def of(cls, batch: RecordBatch) -> BatchTable:
        """Return a table of one batch."""
        return cls(memoryview(array("q", _ROW(batch))))

    def __len__(self) -> int:
        return len(self.rows) // self.WIDTH

    def __getitem__(self, index: int) -> RecordBatch:
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = index * self.WIDTH
        return RecordBatch(*self.rows[at : at + self.WIDTH])

    def __iter__(self) -> Iterator[RecordBatch]:
        return (self[index] for index in range(len(self)))

    def column(self, field: str) -> memoryview:
        """Return the values of one of the kernel's ``BATCH_FIELDS``, a strided view."""
        return self.rows[_headers.BATCH_FIELDS.index(field) :: self.WIDTH]

    def first(self, count: int) -> BatchTable:
        """Return a table of the first ``count`` batches."""
        return self.part(0, count)

    def part(self, start: int, stop: int) -> BatchTable:
        """Return a table of the batches from index ``start`` up to ``stop``."""
        return BatchTable(self.rows[start * self.WIDTH : stop * self.WIDTH], hunted=self.hunted)

    @property
    def position(self) -> int:
        """The position in the file at which the first batch starts."""
        return int(self.rows[0])

    @property
    def end(self) -> int:
        """The position in the file at which the last batch ends."""
        last = len(self.rows) - self.WIDTH
        return int(self.rows[last] + self.rows[last + 1])


@frozen
class Record:
    """One record; ``timestamp`` is in ms, null keys and values are None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class RecordTable:
    """Consecutive records of one batch as columns; at most 65,536.

    ``rows`` is flat, in the order of the kernel's ``RECORD_FIELDS``. Its starts are positions in
    ``block``, the decompressed records. ``magic`` is the magic of these records: inside a legacy
    wrapper it may differ from that of the batch. ``table[i]`` raises LimitError for a record of
    more than ``MAX_HEADERS`` headers, as a record may claim one for every two bytes of its block.
    """

    __slots__ = ("batch", "block", "magic", "rows")

    WIDTH: Final = len(_records.RECORD_FIELDS)

    def __init__(self, batch: RecordBatch, block: memoryview, rows: memoryview, magic: int) -> None:
        self.batch = batch
        self.block = block
        self.rows = rows
        self.magic = magic

    @property
    def timestamp_type(self) -> TimestampType:
        """The type of the timestamps of these records."""
        return TimestampType.NO_TIMESTAMP_TYPE if self.magic == 0 else self.batch.timestamp_type

    def __len__(self) -> int:
        return len(self.rows) // self.WIDTH

    def __getitem__(self, index: int) -> Record:
        if not 0 <= index < len(self):
            raise IndexError(index)
        at = index * self.WIDTH
        offset, timestamp, key, key_size, value, value_size, headers, count = self.rows[
            at : at + self.WIDTH
        ]
        if count > MAX_HEADERS:
            raise LimitError(
                f"expected at most {MAX_HEADERS} headers in the record at offset {offset}, found "
                f"{count}, which are not read"
            )
        return Record(
            offset,
            timestamp,
            self._bytes(key, key_size),
            self._bytes(value, value_size),
            tuple(
                (bytes(self.block[k : k + k_size]), self._bytes(v, v_size))
                for k, k_size, v, v_size in _columns.read_headers(self.block, headers, count)
            ),
        )

    def __iter__(self) -> Iterator[Record]:
        return (self[index] for index in range(len(self)))

    def key(self, index: int) -> bytes | None:
        """Return the key of the record at ``index``."""
        at = index * self.WIDTH
        return self._bytes(self.rows[at + 2], self.rows[at + 3])

    def message_crc(self, index: int) -> tuple[int, bool]:
        """Return the stored checksum of a message of magic 0 or 1, and whether it matches."""
        message, mismatch = self.rows[index * self.WIDTH + 6 : index * self.WIDTH + 8]
        stored = self.block[message + LOG_OVERHEAD : message + LOG_OVERHEAD + 4]
        return int.from_bytes(stored, "big"), not mismatch

    def first(self, count: int) -> RecordTable:
        """Return a table of the first ``count`` records."""
        rows = self.rows[: count * self.WIDTH]
        return RecordTable(self.batch, self.block, rows, self.magic)

    def _bytes(self, start: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(self.block[start : start + size])


class RecordRun:
    """Records of consecutive batches as columns: ``table(i)`` has those of ``batches[i]``.

    Their rows are those from ``starts[i]`` up to ``starts[i + 1]``. ``magic`` is the magic of all
    records; None for that of their batches.
    """

    __slots__ = ("batches", "block", "magic", "rows", "starts")

    def __init__(
        self,
        batches: BatchTable,
        block: memoryview,
        rows: memoryview,
        starts: memoryview,
        magic: int | None = None,
    ) -> None:
        self.batches = batches
        self.block = block
        self.rows = rows
        self.starts = starts
        self.magic = magic

    @classmethod
    def of(cls, table: RecordTable) -> RecordRun:
        """Return a run of the records of one table."""
        starts = memoryview(array("q", (0, len(table))))
        return cls(BatchTable.of(table.batch), table.block, table.rows, starts, table.magic)

    def __len__(self) -> int:
        return len(self.batches)

    def table(self, index: int) -> RecordTable:
        """Return the records of the batch at ``index``."""
        batch = self.batches[index]
        start, stop = (RecordTable.WIDTH * row for row in self.starts[index : index + 2])
        magic = batch.magic if self.magic is None else self.magic
        return RecordTable(batch, self.block, self.rows[start:stop], magic)

    def gather(self, stretches: Iterable[tuple[int, int]]) -> RecordRun:
        """Return the records in ``stretches`` of rows, and their batches.

        Stretches ascend; each has a first row and the row behind its last one.
        """
        rows, starts, batches = array("q"), array("q", (0,)), array("q")
        newest = -1
        for first, stop in stretches:
            rows.frombytes(
                self.rows[first * RecordTable.WIDTH : stop * RecordTable.WIDTH].cast("B")
            )
            batch = bisect_right(self.starts, first) - 1
            while first < stop:
                end = min(self.starts[batch + 1], stop)
                if batch != newest and end > first:
                    batches.frombytes(self.batches.part(batch, batch + 1).rows.cast("B"))
                    starts.append(starts[-1])
                    newest = batch
                starts[-1] += end - first
                first, batch = end, batch + 1
        return RecordRun(
            BatchTable(memoryview(batches), hunted=self.batches.hunted),
            self.block,
            memoryview(rows),
            memoryview(starts),
            self.magic,
        )


class Chunk(NamedTuple):
    """A summary of the records that one call of the kernel has read into rows."""

    #: The count of rows read.
    rows: int
    #: The magic of these records; inside legacy wrappers it may differ from that of the batch.
    magic: int
    last_offset: int
    #: In ms; -1 or above.
    max_timestamp: int
    #: The count of records with an offset that is not above that of the record before.
    disorder: int
    #: The count of records with a null key, value or header value of another size than -1.
    odd_nulls: int


def record_block(batch: RecordBatch, data: memoryview, limit: int = DEFAULT_LIMIT) -> memoryview:
    """Return the decompressed records of a ``batch`` of magic 2; ``data`` is the whole batch.

    Raises DecodeError, or LimitError beyond ``limit`` bytes.
    """
    compressed = data[HEADER_BYTES:]
    if batch.count == 0:
        # DefaultRecordBatch.streamingIterator, by which consumers read, opens the block of a codec.
        check_start(batch.codec, compressed)
        return memoryview(b"")
    if batch.codec is Codec.NONE:
        return compressed
    return memoryview(decompress(batch.codec, compressed, limit))


def read_chunks(batch: RecordBatch, block: memoryview, rows: memoryview) -> Iterator[Chunk]:
    """Read the records of ``batch`` from its ``block`` into ``rows``; yield a chunk for each fill.

    Each fill overwrites the rows of the one before. Raises DecodeError after the last record that
    can be read.

    A key, value or header value of any size below zero is null, as in ``DefaultRecord.readFrom``,
    kafka-python 3.0 and aiokafka 0.14. librdkafka 2.16 stops in front of such a key or value, and
    leaves out all headers of a record with such a header.
    """
    if batch.count < 0:
        raise DecodeError(
            f"expected a record count of 0 or more, found {batch.count} "
            f"in the batch at position {batch.position}"
        )
    # No offset is below MIN_OFFSET, so a first record at that offset counts as disorder.
    position, left, previous = 0, batch.count, max(batch.base_offset - 1, MIN_OFFSET)
    while left:
        n, position, ending, previous, largest, disorder, nulls = _records.read_records(
            block,
            position,
            left,
            batch.base_offset,
            batch.base_timestamp,
            bool(batch.attributes & LOG_APPEND_TIME),
            batch.max_timestamp,
            previous,
            rows,
        )
        left -= n
        if n:
            yield Chunk(n, batch.magic, previous, largest, disorder, nulls)
        if ending != _records.READ:
            found = "the end of the block" if position == len(block) else _ENDINGS[ending]
            raise DecodeError(
                f"expected record {batch.count - left + 1} of {batch.count}, found {found}, "
                f"in the batch at position {batch.position}, byte {position} of its records"
            )
    if position != len(block):
        raise DecodeError(
            f"expected the records to end after record {batch.count}, found "
            f"{len(block) - position} more bytes in the batch at position {batch.position}"
        )


def encode_marker(
    record: Record, *, leader_epoch: int, producer_id: int, producer_epoch: int
) -> bytes:
    """Return the batch of a control record that ends a transaction, as a leader writes it."""
    return seal(
        _encode_record(record, record.offset, record.timestamp),
        attributes=TRANSACTIONAL | CONTROL,
        base_offset=record.offset,
        last_offset=record.offset,
        base_timestamp=record.timestamp,
        max_timestamp=record.timestamp,
        count=1,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def seal(
    block: bytes | memoryview,
    *,
    attributes: int,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytes:
    """Return the batch of the encoded records ``block``, compressed as ``attributes`` say.

    It has no sequence.
    """
    codec = CODECS[attributes & CODEC_MASK]
    content = compress(codec, block) if codec else block
    checksummed = _CHECKSUMMED.pack(
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        -1,
        count,
    )
    size = HEADER_BYTES + len(content)
    prefix = _PREFIX.pack(base_offset, size - LOG_OVERHEAD, leader_epoch, 2)
    crc = crc32c(content, crc32c(checksummed))
    return b"".join((prefix, crc.to_bytes(4, "big"), checksummed, content))


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    fields = b"".join(
        (
            b"\0",
            _varint(record.timestamp - base_timestamp),
            _varint(record.offset - base_offset),
            _encode_bytes(record.key),
            _encode_bytes(record.value),
            _varint(len(record.headers)),
            *(_encode_bytes(key) + _encode_bytes(value) for key, value in record.headers),
        )
    )
    return _varint(len(fields)) + fields


def _encode_bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Return the zigzag varint of a number of up to 64 bits (``ByteUtils.writeVarlong``)."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while left > 127:
        encoded.append(left & 127 | 128)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
