"""Records of any magic and codec as Arrow columns.

A row has the fields of a line of ``kdump dump --format json --records``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, Literal

import pyarrow as pa

from kdump.format.batch import CODEC_MASK, RecordRun, RecordTable
from kdump.format.codecs import CODECS
from kdump.format.kernel import columns as _columns
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import records as _records
from kdump.tables.logs import Origin
from kdump.tables.schema import RECORDS
from kdump.values import frozen

#: The maximum number of rows of an Arrow batch, and of a run.
_ROWS: Final = 65_536
#: Room for headers, and for the bytes of a binary column. Unused pages take no memory.
_HEADERS: Final = 65_536
_BYTES: Final = 8 << 20
#: The width of the rows that ``fill_headers`` fills, and the columns of key and value.
_HEADER_WIDTH: Final = 4
_HEADER_KEY, _HEADER_VALUE = 0, 2
_HEADER_ROWS: Final = 4_096
#: What a row takes beside the bytes of its key, value and headers, about.
_ROW_BYTES: Final = 80
#: Signed numbers of 64, 32, 16 and 8 bits, and bytes.
_Code = Literal["q", "i", "h", "b", "B"]
_ATTRIBUTES: Final = _headers.BATCH_FIELDS.index("attributes")
_KEY: Final = _records.RECORD_FIELDS.index("key")
_VALUE: Final = _records.RECORD_FIELDS.index("value")

#: The words of columns, by the numbers that ``_columns.fill`` writes.
_WORDS: Final = {
    "timestamp_type": _columns.TIMESTAMP_TYPES,
    "codec": tuple(codec.label for codec in CODECS),
}


class RecordColumns:
    """Builds Arrow batches of records, which may come from many files.

    ``names`` are columns of ``RECORDS``, in the order of the result. With ``encoded``, strings are
    dictionary-encoded, which makes writing Parquet faster.
    """

    def __init__(self, names: Sequence[str] = RECORDS.names, *, encoded: bool = False) -> None:
        self._encoded = encoded
        fields = (RECORDS.field(name) for name in names)
        self.schema: pa.Schema = pa.schema([self._column_type(field) for field in fields])
        self._names = frozenset(names)
        self._room: _Room | None = None
        self._origin = Origin(None, None, "")
        #: The bytes of the records that were not returned yet, about.
        self.held_bytes = 0

    def start(self, origin: Origin) -> None:
        """Set the origin of the records that are added next."""
        self._origin = origin

    def add(self, run: RecordRun) -> pa.RecordBatch | None:
        """Add the records of ``run``; without room for them, first return those added before."""
        size = self._size_of(run)
        batch = None
        if self._room is not None and not self._room.holds(size):
            batch = self.finish()
        if self._room is None:
            self._room = _Room(size)
        self._room.add(run, self._origin, self._names)
        self.held_bytes += size.bytes
        return batch

    def finish(self) -> pa.RecordBatch | None:
        """Return the records that were not returned yet, None if there are none."""
        room, self._room = self._room, None
        self.held_bytes = 0
        if room is None or not room.rows:
            return None
        columns = [room.column(field, encoded=self._encoded) for field in self.schema]
        return pa.record_batch(columns, schema=self.schema)

    def _column_type(self, field: pa.Field) -> pa.Field:
        if self._encoded and field.type == pa.string():
            return field.with_type(pa.dictionary(pa.int32(), field.type))
        return field

    def _size_of(self, run: RecordRun) -> _Size:
        keys, values, headers = _columns.measure(run.rows)
        headers = headers if "headers" in self._names else 0
        return _Size(
            rows=len(run.rows) // RecordTable.WIDTH,
            key_bytes=keys if "key" in self._names else 0,
            value_bytes=values if "value" in self._names else 0,
            headers=headers,
            header_bytes=_record_bytes(run) if headers else 0,  # an upper bound
        )


@frozen
class _Size:
    """The room that records need: counts, and bytes of columns."""

    rows: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_bytes: int

    @property
    def bytes(self) -> int:
        """The memory that they fill, about."""
        return self.rows * _ROW_BYTES + self.key_bytes + self.value_bytes + self.header_bytes


class _Binary:
    """Builds a binary column."""

    def __init__(self, rows: int, size: int) -> None:
        self._ends = _Numbers("i", rows + 1)
        self._ends.view[0] = 0
        self._present = bytearray(rows + 7 >> 3)
        self._data = _Numbers("B", size)

        self._rows = 0

    @property
    def room(self) -> int:
        """The number of bytes that can still be added."""
        return len(self._data.view) - int(self._ends.view[self._rows])

    def add(self, rows: memoryview, width: int, field: int, block: memoryview) -> None:
        """Append a field of ``rows``."""
        ends, data = self._ends.view, self._data.view
        self._rows = _columns.gather(
            rows, width, field, block, self._rows, ends, self._present, data
        )

    def array(self) -> pa.Array:
        """Return the column of all rows added."""
        count = self._rows
        data = self._data.buffer(0, int(self._ends.view[count]))
        buffers = [pa.py_buffer(self._present), self._ends.buffer(0, count + 1), data]
        return pa.Array.from_buffers(pa.binary(), count, buffers)


class _Numbers:
    """An uninitialised buffer of ``count`` numbers of one width."""

    def __init__(self, code: _Code, count: int) -> None:
        self._width = array(code).itemsize
        self._memory = pa.allocate_buffer(self._width * count)
        self.view = memoryview(self._memory).cast("B").cast(code)

    def buffer(self, start: int, count: int) -> pa.Buffer:
        """Return ``count`` numbers from index ``start`` on."""
        return self._memory.slice(start * self._width, count * self._width)


class _Room:
    """Builds an Arrow batch, with room at least for its first run."""

    def __init__(self, first: _Size) -> None:
        self.rows = 0
        self._headers = 0
        self._origins: list[tuple[Origin, int]] = []
        self._longs = _Numbers("q", len(_columns.LONGS) * _ROWS)
        self._ints = _Numbers("i", len(_columns.INTS) * _ROWS)
        self._shorts = _Numbers("h", len(_columns.SHORTS) * _ROWS)
        self._bytes = _Numbers("b", len(_columns.BYTES) * _ROWS)
        self._bits = bytearray(len(_columns.BITS) * _ROWS >> 3)
        self._key = _Binary(_ROWS, _at_least(_BYTES, first.key_bytes))
        self._value = _Binary(_ROWS, _at_least(_BYTES, first.value_bytes))
        self._header_room = _at_least(_HEADERS, first.headers)
        self._header_ends = _Numbers("i", _ROWS + 1)
        self._header_ends.view[0] = 0
        header_bytes = _at_least(_BYTES, first.header_bytes)
        self._header_key = _Binary(self._header_room, header_bytes)
        self._header_value = _Binary(self._header_room, header_bytes)

    def holds(self, more: _Size) -> bool:
        """Return whether there is room for ``more``."""
        return (
            self.rows + more.rows <= _ROWS
            and more.key_bytes <= self._key.room
            and more.value_bytes <= self._value.room
            and self._headers + more.headers <= self._header_room
            and more.header_bytes <= self._header_key.room
            and more.header_bytes <= self._header_value.room
        )

    def add(self, run: RecordRun, origin: Origin, names: frozenset[str]) -> None:
        """Add the records of ``run``, for which there is room; large columns only by ``names``."""
        magic = _columns.OWN_MAGIC if run.magic is None else run.magic
        at = self.rows
        self.rows = _columns.fill(
            run.batches.rows,
            run.starts,
            run.rows,
            magic,
            at,
            self._longs.view,
            self._ints.view,
            self._shorts.view,
            self._bytes.view,
            self._bits,
        )
        if "key" in names:
            self._key.add(run.rows, RecordTable.WIDTH, _KEY, run.block)
        if "value" in names:
            self._value.add(run.rows, RecordTable.WIDTH, _VALUE, run.block)
        if "headers" in names:
            self._add_headers(run, at)
        if self._origins and self._origins[-1][0] is origin:
            self._origins[-1] = (origin, self._origins[-1][1] + self.rows - at)
        else:
            self._origins.append((origin, self.rows - at))

    def _add_headers(self, run: RecordRun, at: int) -> None:
        _columns.count_headers(run.rows, at, self._header_ends.view)
        if self._header_ends.view[self.rows] == self._headers:
            return
        state = memoryview(array("q", (0, 0, 0)))
        rows = memoryview(array("q", bytes(8 * _HEADER_WIDTH * _HEADER_ROWS)))
        while n := _columns.fill_headers(run.block, run.rows, state, rows):
            header_rows = rows[: n * _HEADER_WIDTH]
            for column, field in (
                (self._header_key, _HEADER_KEY),
                (self._header_value, _HEADER_VALUE),
            ):
                column.add(header_rows, _HEADER_WIDTH, field, run.block)
            self._headers += n

    def column(self, field: pa.Field, *, encoded: bool) -> pa.Array:
        """Return the column that ``field`` describes."""
        name: str = field.name
        if name == "key":
            return self._key.array()
        if name == "value":
            return self._value.array()
        if name == "headers":
            return self._header_lists(field.type)
        if name in ("topic", "partition", "source_file"):
            return self._origin_column(name, encoded=encoded)
        if name in _columns.BITS:
            return pa.Array.from_buffers(pa.bool_(), self.rows, [None, self._bit_buffer(name)])
        if name in _WORDS:
            return self._word_column(name, encoded=encoded)
        return self._number_column(name, field.type)

    def _number_column(self, name: str, kind: pa.DataType) -> pa.Array:
        widths = (
            (_columns.LONGS, self._longs),
            (_columns.INTS, self._ints),
            (_columns.SHORTS, self._shorts),
            (_columns.BYTES, self._bytes),
        )
        names, numbers = next(pair for pair in widths if name in pair[0])
        valid = self._bit_buffer("has_timestamp") if name == "timestamp" else None
        buffer = numbers.buffer(names.index(name) * _ROWS, self.rows)
        return pa.Array.from_buffers(kind, self.rows, [valid, buffer])

    def _bit_buffer(self, name: str) -> pa.Buffer:
        count = _ROWS >> 3
        return pa.py_buffer(self._bits).slice(_columns.BITS.index(name) * count, count)

    def _header_lists(self, kind: pa.DataType) -> pa.Array:
        count = self._headers
        pairs = [self._header_key.array(), self._header_value.array()]
        structs = pa.Array.from_buffers(kind.value_type, count, [None], children=pairs)
        ends = self._header_ends.buffer(0, self.rows + 1)
        return pa.Array.from_buffers(kind, self.rows, [None, ends], children=[structs])

    def _word_column(self, name: str, *, encoded: bool) -> pa.Array:
        indices = self._number_column(name, pa.int8())
        numbers = bytes(indices.buffers()[1])
        if not numbers.strip(numbers[:1]):  # most logs have one codec alone
            return _words([(_WORDS[name][numbers[0]], self.rows)], pa.string(), encoded=encoded)
        words = pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), pa.array(_WORDS[name]))
        return words if encoded else words.dictionary_decode()

    def _origin_column(self, name: str, *, encoded: bool) -> pa.Array:
        stretches = [(getattr(origin, name), count) for origin, count in self._origins]
        if name == "partition":
            return _words(stretches, pa.int32(), encoded=False)
        return _words(stretches, pa.string(), encoded=encoded)


def _record_bytes(run: RecordRun) -> int:
    """Return an upper bound of the bytes of the records of ``run``.

    The block of uncompressed batches may be a view of many more bytes than theirs.
    """
    if run.batches.rows[_ATTRIBUTES] & CODEC_MASK:
        return len(run.block)  # a compressed batch is the only one of its run
    return run.batches.end - run.batches.position


def _at_least(usual: int, needed: int) -> int:
    """Return the room for ``needed``: at least ``usual``, but none if nothing is needed."""
    return max(usual, needed) if needed else 0


def _words(
    stretches: Sequence[tuple[object, int]], kind: pa.DataType, *, encoded: bool
) -> pa.Array:
    """Return a column that repeats each value of ``stretches`` as often as its count."""
    if not encoded:
        return pa.concat_arrays([pa.repeat(pa.scalar(word, kind), n) for word, n in stretches])
    numbers: dict[object, int] = {}
    for word, _ in stretches:
        numbers.setdefault(word, len(numbers))
    indices = [(numbers[word], count) for word, count in stretches]
    return pa.DictionaryArray.from_arrays(
        _words(indices, pa.int32(), encoded=False), pa.array(list(numbers), kind)
    )
