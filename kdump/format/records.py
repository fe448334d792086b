"""Records of batches of any magic, decoded many at a time into reused memory.

Spec: ``DefaultRecordBatch`` for magic 2, ``AbstractLegacyRecordBatch`` for magic 0 and 1. The parts
that differ are in ``batch`` and ``legacy``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from kdump.errors import DecodeError, LimitError
from kdump.format import batch as default
from kdump.format import legacy
from kdump.format.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    BatchTable,
    Chunk,
    RecordBatch,
    RecordRun,
    RecordTable,
)
from kdump.format.codecs import CODECS, DEFAULT_LIMIT, Codec, decompress
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import records as _records
from kdump.values import frozen

_RECORDS_PER_TABLE = 65_536
_BATCHES_PER_RUN = 8_192
_CODECS = len(CODECS)
#: As many codecs the attributes of a batch can name.
CODEC_NUMBERS = CODEC_MASK + 1
_SIZE = _headers.BATCH_FIELDS.index("size")
_MAGIC = _headers.BATCH_FIELDS.index("magic")
_ATTRIBUTES = _headers.BATCH_FIELDS.index("attributes")


@frozen
class RecordSummary:
    """A summary of all records of a batch, to check its header.

    ``first_offset`` is None without records. ``disorder`` is the count of records with an offset
    that is not above that of the record before, ``odd_nulls`` that of records with a null of
    another size than -1.
    """

    count: int
    first_offset: int | None
    last_offset: int
    max_timestamp: int
    disorder: int
    odd_nulls: int


class BlockSizes:
    """The sizes in bytes, by the number of the codec, of record blocks that were decompressed.

    A wrapper of magic 0 or 1 is stored with its header.
    """

    __slots__ = ("stored", "uncompressed")

    def __init__(self) -> None:
        self.stored = array("q", bytes(8 * CODEC_NUMBERS))
        self.uncompressed = array("q", bytes(8 * CODEC_NUMBERS))

    def add(self, codec: int, stored: int, uncompressed: int) -> None:
        """Add one block."""
        self.stored[codec] += stored
        self.uncompressed[codec] += uncompressed

    def merge(self, other: BlockSizes) -> None:
        """Add the blocks of ``other``."""
        for codec in range(CODEC_NUMBERS):
            self.add(codec, other.stored[codec], other.uncompressed[codec])


class RecordReader:
    """Reads the records of batches into memory that it reuses.

    ``skip_matching`` and ``summary`` add to ``sizes`` what they decompress and can read.
    """

    __slots__ = ("_limit", "_rows", "_sizes", "_starts")

    def __init__(self, limit: int = DEFAULT_LIMIT, sizes: BlockSizes | None = None) -> None:
        self._limit = limit
        self._sizes = sizes
        self._rows = memoryview(array("q", bytes(8 * RecordTable.WIDTH * _RECORDS_PER_TABLE)))
        self._starts = memoryview(array("q", bytes(8 * (_BATCHES_PER_RUN + 1))))

    def tables(self, batch: RecordBatch, data: memoryview) -> Iterator[RecordTable]:
        """Yield the records of ``batch`` in order; ``data`` is the whole batch.

        Each table is valid until the next. Raises DecodeError after the last record that can be
        read, or LimitError.
        """
        block, chunks = self._read(batch, data)
        for chunk in chunks:
            rows = self._rows[: chunk.rows * RecordTable.WIDTH]
            yield RecordTable(batch, block, rows, chunk.magic)

    def run(self, batches: BatchTable, first: int, view: memoryview) -> RecordRun:
        """Return the records of small batches from row ``first`` on, read together.

        ``view`` begins with the first batch of the table. The run is valid until the next call of
        the reader. It ends before a batch that is large, compressed, a control batch, incomplete in
        ``view``, or unreadable, and may be empty: read such a batch with ``tables``.
        """
        n = _records.read_neighbours(batches.rows, first, view, self._rows, self._starts)
        rows = self._rows[: self._starts[n] * RecordTable.WIDTH]
        return RecordRun(batches.part(first, first + n), view, rows, self._starts[: n + 1])

    def block(
        self, batches: BatchTable, row: int, view: memoryview
    ) -> tuple[memoryview, memoryview] | None:
        """Return the block and the rows of all records of the compressed batch in ``row``.

        ``view`` begins with the first batch of the table. The rows are valid until the next call of
        the reader. None for a batch that is uncompressed, incomplete in ``view``, unreadable, empty
        or larger than a table: read such a batch with ``tables``.
        """
        columns, at = batches.rows, row * BatchTable.WIDTH
        codec, magic = columns[at + _ATTRIBUTES] & CODEC_MASK, columns[at + _MAGIC]
        start = columns[at] - columns[0]
        stop = start + columns[at + _SIZE]
        if not 0 < codec < _CODECS or stop > len(view):
            return None
        data = view[start:stop]
        content = data[HEADER_BYTES:] if magic > 1 else legacy.wrapper_content(magic, codec, data)
        if content is None:
            return None
        try:
            block = memoryview(decompress(CODECS[codec], content, self._limit, magic))
        except (DecodeError, LimitError):
            return None
        n = _records.read_block(columns, row, block, self._rows)
        return (block, self._rows[: n * RecordTable.WIDTH]) if n else None

    def summary(self, batch: RecordBatch, data: memoryview) -> RecordSummary:
        """Read all records of ``batch`` and return a summary; ``data`` is the whole batch.

        Raises DecodeError, or LimitError.
        """
        count, disorder, odd_nulls = 0, 0, 0
        first_offset: int | None = None
        last_offset, max_timestamp = batch.base_offset - 1, -1
        block, chunks = self._read(batch, data)
        for chunk in chunks:
            if first_offset is None:
                first_offset = self._rows[0]
            count += chunk.rows
            last_offset = chunk.last_offset
            disorder += chunk.disorder
            odd_nulls += chunk.odd_nulls
            max_timestamp = max(max_timestamp, chunk.max_timestamp)
        if self._sizes is not None and batch.codec_id:
            header = HEADER_BYTES if batch.magic > 1 else 0
            self._sizes.add(batch.codec_id, batch.size - header, len(block))
        return RecordSummary(count, first_offset, last_offset, max_timestamp, disorder, odd_nulls)

    def skip_matching(self, table: BatchTable, first: int, view: memoryview) -> int:
        """Return the first row from ``first`` on whose records do not match their header.

        The number of rows if all match. Records match if they are readable and complete in
        ``view``, are as many as the header says, have rising offsets up to its last offset, no
        timestamp above its largest, and no null of another size than -1. A batch of magic 0 or 1
        does not match either: check such a batch, and find the mismatch, with ``summary``. ``view``
        begins with the first batch of the table.
        """
        rows, row = table.rows, first
        while row < len(table):
            at = row * BatchTable.WIDTH
            codec = rows[at + _ATTRIBUTES] & CODEC_MASK
            if codec == Codec.NONE:
                reached = _records.skip_matching(rows, row, view, self._rows)
                if reached == row:
                    break
                row = reached
                continue
            start = rows[at] - rows[0]
            stop = start + rows[at + _SIZE]
            if codec > Codec.ZSTD or rows[at + _MAGIC] < 2 or stop > len(view):
                break
            try:
                block = decompress(Codec(codec), view[start + HEADER_BYTES : stop], self._limit)
            except (DecodeError, LimitError):
                break
            if not _records.records_match(rows, row, block, self._rows):
                break
            if self._sizes is not None:
                self._sizes.add(codec, stop - start - HEADER_BYTES, len(block))
            row += 1
        return row

    def _read(self, batch: RecordBatch, data: memoryview) -> tuple[memoryview, Iterator[Chunk]]:
        """Return the block of the records, and the iterator that reads it into the rows."""
        module = default if batch.magic > 1 else legacy
        block = module.record_block(batch, data, self._limit)
        return block, module.read_chunks(batch, block, self._rows)
