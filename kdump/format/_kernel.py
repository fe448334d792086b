"""The hot loops over bytes: batch headers, checksums of small batches, records, and the hunt.

One source that runs as plain Python and compiles with Cython. It fills rows of 64-bit integers
(row-major in one flat view, so that ``view[FIELD::FIELDS]`` is a column) and never makes an object
per batch or record. Every function checks its own limits: any bytes are safe. It is one long module
because compiled functions are inlined only into others of the same module.

Spec: ``DefaultRecordBatch``, ``DefaultRecord``, ``LegacyRecord``, ``FileLogInputStream.nextBatch``.
It must never import anything of kdump, allocate by what the bytes claim, or raise on bytes.
"""

from __future__ import annotations

from array import array
from typing import Any

try:
    import cython
except ImportError:
    from kdump.format import _nocython as cython

#: Whether the functions below run compiled.
COMPILED: bool = cython.compiled

#: The row of a batch: its header fields, in the order in which they stand in the flat view.
BATCH_FIELDS = (
    "position", "size", "base_offset", "last_offset", "leader_epoch", "magic", "crc", "attributes",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip
#: The row of a record; starts are positions in the block that was read. For a message of magic 0
#: or 1, "headers" is where it starts, and "header_count" -1 if it does not match its checksum.
RECORD_FIELDS = (
    "offset", "timestamp", "key", "key_size", "value", "value_size", "headers", "header_count",
)  # fmt: skip

# The same places as C integers, which Python code cannot see in the compiled module.
_POSITION = cython.declare(cython.int, 0)
_SIZE = cython.declare(cython.int, 1)
_BASE_OFFSET = cython.declare(cython.int, 2)
_LAST_OFFSET = cython.declare(cython.int, 3)
_LEADER_EPOCH = cython.declare(cython.int, 4)
_MAGIC = cython.declare(cython.int, 5)
_CRC = cython.declare(cython.int, 6)
_ATTRIBUTES = cython.declare(cython.int, 7)
_BASE_TIMESTAMP = cython.declare(cython.int, 8)
_MAX_TIMESTAMP = cython.declare(cython.int, 9)
_PRODUCER_ID = cython.declare(cython.int, 10)
_PRODUCER_EPOCH = cython.declare(cython.int, 11)
_BASE_SEQUENCE = cython.declare(cython.int, 12)
_COUNT = cython.declare(cython.int, 13)
_BATCH_FIELDS = cython.declare(cython.int, 14)
_RECORD_FIELDS = cython.declare(cython.int, 8)

# Why scan_headers() stopped.
FULL = 0  # no room for another row
SHORT = 1  # the view ends before the next header does
END = 2  # at the end of the file
TORN = 3  # the file ends inside the next batch
BAD_SIZE = 4  # the next batch claims a size that no batch has
BAD_CRC = 5  # a small batch does not match its checksum

# How read_records(), read_messages() and count_messages() ended.
READ = 0  # the rows are full, or the batch has no more records
BAD_VARINT = 1  # a number has too many bytes, or is cut by the end of its record
BAD_LENGTH = 2  # a record does not fit into the block
BAD_FIELD = 3  # a key, value or header does not fit into its record, or has an impossible size
BAD_END = 4  # the fields of a record do not fill it
NESTED = 5  # a compressed message stands inside a wrapper
CUT = 6  # the run of messages ends inside one

# What scan_headers() says of all batches together. They are usual if they are of magic 2 and one
# leader epoch, have a timestamp, stand without holes between them, hold a record for each offset,
# and none is a control batch, or has a delete horizon, or a codec or bits that mean nothing.
U_USUAL = 0  # 1 if they are
U_FIRST_OFFSET = 1
U_LAST_OFFSET = 2
U_LEADER_EPOCH = 3
U_LOWEST_TIMESTAMP = 4  # of the largest ones of each
U_HIGHEST_TIMESTAMP = 5
U_PRODUCERS = 6  # 1 if any names a producer
USUAL_FIELDS = 7

# The state of tally(), carried from one table of a segment to the next.
T_BATCHES = 0
T_RECORDS = 1  # as the headers count them; none for a wrapper, whose header does not
T_BYTES = 2
T_PREVIOUS = 3  # last offset of the batch before; at first, one below the segment's base
T_FIRST_OFFSET = 4
T_MAX_TIMESTAMP = 5
T_WRAPPERS = 6  # compressed messages of magic 0 and 1, which hold others
T_CONTROL = 7  # control batches
T_BACKWARDS = 8  # batches that do not begin behind the end of the batch before
T_BACKWARDS_AT = 9  # position of the first of them
T_INVERTED = 10  # batches whose last offset lies below their base offset
T_INVERTED_AT = 11  # position of the first of them
T_ODD = 12  # batches with a magic, a codec or bits of attributes that mean nothing
T_JOINED = 13  # 1 where the next batch stands right behind the one before
T_HOLES = 14  # batches before which offsets are missing, though they stand so; no wrappers
T_MISCOUNTED = 15  # data batches of magic 2 that have not as many records as offsets
TALLY_FIELDS = 16

#: Batches below this size are checksummed here; a library call costs more than their bytes do.
SMALL_BYTES: int = 1024 if COMPILED else 0
#: How much is brought into the caches at once, ahead of checksums; batches of more than some size
#: gain nothing by it.
_TOUCHED_BYTES = cython.declare(cython.longlong, 524288)
_TOUCH_BELOW = cython.declare(cython.longlong, 65536)

# How much of a batch must be there to be read: up to its magic, a legacy header, a header.
_PREFIX = cython.declare(cython.int, 17)
_LEGACY_HEADER = cython.declare(cython.int, 26)
_HEADER = cython.declare(cython.int, 61)
_LOG_OVERHEAD = cython.declare(cython.int, 12)
#: The least size that a message of magic 0 or 1 gives, without the overhead.
_MESSAGE = cython.declare(cython.int, 14)
#: What fold_records() puts before the key of a record.
_FOLDED = cython.declare(cython.int, 29)
#: Batches of this size and more are read one by one: they gain nothing by neighbours. Below it no
#: record has more headers than may be made objects of.
_NEIGHBOUR_BYTES = cython.declare(cython.longlong, 65536)

# Some of the places and endings once more, for C.
_U_USUAL = cython.declare(cython.int, 0)
_U_FIRST_OFFSET = cython.declare(cython.int, 1)
_U_LAST_OFFSET = cython.declare(cython.int, 2)
_U_LEADER_EPOCH = cython.declare(cython.int, 3)
_U_LOWEST_TIMESTAMP = cython.declare(cython.int, 4)
_U_HIGHEST_TIMESTAMP = cython.declare(cython.int, 5)
_U_PRODUCERS = cython.declare(cython.int, 6)
_READ = cython.declare(cython.longlong, 0)
_BAD_VARINT = cython.declare(cython.longlong, 1)
_BAD_LENGTH = cython.declare(cython.longlong, 2)
_BAD_FIELD = cython.declare(cython.longlong, 3)
_BAD_END = cython.declare(cython.longlong, 4)
_CUT = cython.declare(cython.longlong, 6)

# Large literals would be Python objects in the compiled code.
_MAX_32 = cython.declare(cython.uint, 4294967295)
_2_TO_32 = cython.declare(cython.longlong, 4294967296)
_MAX_64 = cython.declare(cython.longlong, 9223372036854775807)


def _crc_table(polynomial: int) -> array[int]:
    """Sixteen tables of 256 entries, flat, to take 16 bytes a step (reflected polynomial)."""
    table = array("I", bytes(4 * 16 * 256))
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table[byte] = value
    for slot in range(1, 16):
        for byte in range(256):
            before = table[(slot - 1) * 256 + byte]
            table[slot * 256 + byte] = (before >> 8) ^ table[before & 255]
    return table


_CRC32C_TABLE = _crc_table(0x82F63B78)
_CRC32_TABLE = _crc_table(0xEDB88320)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _crc(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    table: cython.const[cython.uint][::1],
) -> cython.longlong:
    crc: cython.uint = _MAX_32
    p: cython.Py_ssize_t = start
    low: cython.uint
    while p + 16 <= stop:
        low = crc ^ (data[p] | data[p + 1] << 8 | data[p + 2] << 16 | data[p + 3] << 24)
        crc = (
            table[3840 + (low & 255)]
            ^ table[3584 + ((low >> 8) & 255)]
            ^ table[3328 + ((low >> 16) & 255)]
            ^ table[3072 + (low >> 24)]
            ^ table[2816 + data[p + 4]]
            ^ table[2560 + data[p + 5]]
            ^ table[2304 + data[p + 6]]
            ^ table[2048 + data[p + 7]]
            ^ table[1792 + data[p + 8]]
            ^ table[1536 + data[p + 9]]
            ^ table[1280 + data[p + 10]]
            ^ table[1024 + data[p + 11]]
            ^ table[768 + data[p + 12]]
            ^ table[512 + data[p + 13]]
            ^ table[256 + data[p + 14]]
            ^ table[data[p + 15]]
        )
        p += 16
    if p + 8 <= stop:
        low = crc ^ (data[p] | data[p + 1] << 8 | data[p + 2] << 16 | data[p + 3] << 24)
        crc = (
            table[1792 + (low & 255)]
            ^ table[1536 + ((low >> 8) & 255)]
            ^ table[1280 + ((low >> 16) & 255)]
            ^ table[1024 + (low >> 24)]
            ^ table[768 + data[p + 4]]
            ^ table[512 + data[p + 5]]
            ^ table[256 + data[p + 6]]
            ^ table[data[p + 7]]
        )
        p += 8
    while p < stop:
        crc = (crc >> 8) ^ table[(crc ^ data[p]) & 255]
        p += 1
    return crc ^ _MAX_32


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = data[p]
    return high << 24 | data[p + 1] << 16 | data[p + 2] << 8 | data[p + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i32(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _u32(data, p)
    return value - _2_TO_32 if value > 2147483647 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i16(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = data[p] << 8 | data[p + 1]
    return value - 65536 if value > 32767 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i64(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    # Signed upper half times 2^32: stays within 64 bits in C, and is the same number in Python.
    return _i32(data, p) * _2_TO_32 + _u32(data, p + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """The sum as Java has it: wrapped to 64 bits, with no overflow on the way."""
    if b > 0 and a > _MAX_64 - b:
        return (a - _MAX_64 - 1) + (b - _MAX_64 - 1)
    if b < 0 and a < -_MAX_64 - 1 - b:
        return (a + _MAX_64 + 1) + (b + _MAX_64 + 1)
    return a + b


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _magic(view: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """The magic of the header at ``view[p]``, a signed byte.

    The broker reads any above 1 as a batch of magic 2, any below as a legacy message.
    """
    magic: cython.longlong = view[p + 16]
    return magic - 256 if magic > 127 else magic


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fill_row(
    view: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    origin: cython.longlong,
    size: cython.longlong,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.void:
    """Puts the header at ``view[p]``, which is there whole, into the row that starts at ``row``."""
    magic: cython.longlong = _magic(view, p)
    rows[row + _POSITION] = origin + p
    rows[row + _SIZE] = size
    rows[row + _BASE_OFFSET] = _i64(view, p)
    rows[row + _MAGIC] = magic
    if magic > 1:
        rows[row + _LEADER_EPOCH] = _i32(view, p + 12)
        rows[row + _CRC] = _u32(view, p + 17)
        rows[row + _ATTRIBUTES] = _i16(view, p + 21)
        rows[row + _LAST_OFFSET] = _add(rows[row + _BASE_OFFSET], _i32(view, p + 23))
        rows[row + _BASE_TIMESTAMP] = _i64(view, p + 27)
        rows[row + _MAX_TIMESTAMP] = _i64(view, p + 35)
        rows[row + _PRODUCER_ID] = _i64(view, p + 43)
        rows[row + _PRODUCER_EPOCH] = _i16(view, p + 51)
        rows[row + _BASE_SEQUENCE] = _i32(view, p + 53)
        rows[row + _COUNT] = _i32(view, p + 57)
    else:
        rows[row + _LEADER_EPOCH] = -1
        rows[row + _CRC] = _u32(view, p + 12)
        rows[row + _ATTRIBUTES] = view[p + 17]
        rows[row + _LAST_OFFSET] = rows[row + _BASE_OFFSET]
        rows[row + _MAX_TIMESTAMP] = _i64(view, p + 18) if magic else -1
        rows[row + _BASE_TIMESTAMP] = rows[row + _MAX_TIMESTAMP]
        rows[row + _PRODUCER_ID] = -1
        rows[row + _PRODUCER_EPOCH] = -1
        rows[row + _BASE_SEQUENCE] = -1
        rows[row + _COUNT] = 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _take_in(
    rows: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    usual: cython.longlong[::1],
) -> cython.void:
    """Takes the next batch into what all have in common (places ``U_``)."""
    base_offset: cython.longlong = rows[row + _BASE_OFFSET]
    last_offset: cython.longlong = rows[row + _LAST_OFFSET]
    attributes: cython.longlong = rows[row + _ATTRIBUTES]
    timestamp: cython.longlong = rows[row + _MAX_TIMESTAMP]
    if row == 0:
        usual[_U_USUAL] = 1
        usual[_U_FIRST_OFFSET] = base_offset
        usual[_U_LAST_OFFSET] = base_offset - 1 if base_offset > 0 else -1
        usual[_U_LEADER_EPOCH] = rows[row + _LEADER_EPOCH]
        usual[_U_LOWEST_TIMESTAMP] = usual[_U_HIGHEST_TIMESTAMP] = timestamp
        usual[_U_PRODUCERS] = 0
    if (
        rows[row + _MAGIC] != 2
        or attributes & -32
        or attributes & 7 > 4
        or base_offset < 0
        or base_offset - 1 != usual[_U_LAST_OFFSET]
        or last_offset < base_offset
        or last_offset - base_offset != rows[row + _COUNT] - 1
        or rows[row + _LEADER_EPOCH] != usual[_U_LEADER_EPOCH]
        or timestamp < 0
    ):
        usual[_U_USUAL] = 0
    usual[_U_LAST_OFFSET] = last_offset
    if timestamp < usual[_U_LOWEST_TIMESTAMP]:
        usual[_U_LOWEST_TIMESTAMP] = timestamp
    if timestamp > usual[_U_HIGHEST_TIMESTAMP]:
        usual[_U_HIGHEST_TIMESTAMP] = timestamp
    if rows[row + _PRODUCER_ID] >= 0:
        usual[_U_PRODUCERS] = 1


def read_header(
    view: cython.const[cython.uchar][::1], origin: cython.longlong, row: cython.longlong[::1]
) -> bool:
    """Puts the header at ``view[0]``, sound or not, into ``row``; False if it is cut short."""
    left: cython.Py_ssize_t = len(view)
    if left < _PREFIX or left < (_HEADER if _magic(view, 0) > 1 else _LEGACY_HEADER):
        return False
    _fill_row(view, 0, origin, _i32(view, 8) + _LOG_OVERHEAD, row, 0)
    return True


def scan_headers(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    file_size: cython.longlong,
    rows: cython.longlong[::1],
    pending: cython.longlong[::1],
    usual: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Reads batch headers from ``view`` into ``rows``, and checksums the small batches.

    ``view[0]`` is the byte at ``origin`` of a file of ``file_size`` bytes. Row numbers of batches
    whose checksum is still to be compared go to ``pending``. A batch that reaches beyond the view
    ends the scan; only if it is the first does it get a row, which is pending. ``usual`` gets what
    all rows that were filled have in common (places ``U_``).

    Returns (rows filled, rows pending, why it stopped).
    """
    crc32c: cython.const[cython.uint][::1] = _CRC32C_TABLE
    crc32: cython.const[cython.uint][::1] = _CRC32_TABLE
    stop: cython.Py_ssize_t = len(view)
    small: cython.longlong = SMALL_BYTES
    room: cython.Py_ssize_t = len(rows) // _BATCH_FIELDS
    p: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = 0
    waiting: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    size: cython.longlong
    magic: cython.longlong
    left: cython.longlong
    computed: cython.longlong
    if len(pending) < room:
        room = len(pending)
    while n < room:
        left = file_size - origin - p
        if left == 0:
            return n, waiting, END
        if left < _PREFIX:
            return n, waiting, TORN
        if stop - p < _PREFIX:
            return n, waiting, SHORT
        size = _i32(view, p + 8) + _LOG_OVERHEAD
        magic = _magic(view, p)
        if size < _LEGACY_HEADER or (magic > 1 and size < _HEADER):
            return n, waiting, BAD_SIZE
        if size > left:
            return n, waiting, TORN
        if stop - p < (_HEADER if magic > 1 else _LEGACY_HEADER):
            return n, waiting, SHORT
        row = n * _BATCH_FIELDS
        _fill_row(view, p, origin, size, rows, row)
        if size > stop - p:
            if n == 0:
                pending[0] = 0
                _take_in(rows, row, usual)
                return 1, 1, SHORT
            return n, waiting, SHORT
        if size >= small:
            pending[waiting] = n
            waiting += 1
        else:
            if magic > 1:
                computed = _crc(view, p + 21, p + size, crc32c)
            else:
                computed = _crc(view, p + 16, p + size, crc32)
            if computed != rows[row + _CRC]:
                return n, waiting, BAD_CRC
        _take_in(rows, row, usual)
        p += size
        n += 1
    return n, waiting, FULL


def touch(
    view: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> int:
    """Brings ``view[start:stop]`` into the processor's caches.

    One byte is read of every 64, in eight places at once: memory gives twice as much that way as to
    a checksum that goes over it from one end to the other. The sum that is returned says nothing;
    without it a compiler would leave the reading out.
    """
    width: cython.Py_ssize_t = (stop - start) // 8
    p: cython.Py_ssize_t
    place: cython.Py_ssize_t
    total: cython.longlong = 0
    for p in range(start, start + width, 64):
        for place in range(8):
            total += view[place * width + p]
    return total


def skip_sound(
    data: Any,
    rows: cython.const[cython.longlong][::1],
    pending: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    crc32c: Any,
    crc32: Any,
) -> int:
    """The first place from ``first`` on in ``pending`` whose batch does not match its checksum.

    Also one not whole in ``data``, which is what ``scan_headers`` read; the length of ``pending``
    if there is none. ``crc32c`` computes the checksum of a piece of it, ``crc32`` that of a message
    of magic 0 or 1.
    """
    view: cython.const[cython.uchar][::1] = data
    stop: cython.Py_ssize_t = len(view)
    touched: cython.Py_ssize_t = 0 if COMPILED else stop
    place: cython.Py_ssize_t
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    stored: cython.longlong
    for place in range(first, len(pending)):
        row = pending[place] * _BATCH_FIELDS
        start = rows[row + _POSITION] - rows[_POSITION]
        if rows[row + _SIZE] > stop - start:
            return place
        end = start + rows[row + _SIZE]
        if end > touched and end - start < _TOUCH_BELOW:
            touched = start + _TOUCHED_BYTES if start + _TOUCHED_BYTES < stop else stop
            touch(data, start, touched)
        stored = rows[row + _CRC]
        if rows[row + _MAGIC] > 1:
            if crc32c(data[start + 21 : end]) != stored:
                return place
        elif crc32(data[start + 16 : end]) != stored:
            return place
    return len(pending)


def tally(rows: cython.const[cython.longlong][::1], state: cython.longlong[::1]) -> None:
    """Folds the batches of ``rows``, in file order, into ``state`` (places ``T_``)."""
    n: cython.Py_ssize_t = len(rows) // _BATCH_FIELDS
    row: cython.Py_ssize_t = 0
    records: cython.longlong = 0
    size: cython.longlong = 0
    previous: cython.longlong = state[T_PREVIOUS]
    max_timestamp: cython.longlong = state[T_MAX_TIMESTAMP]
    wrappers: cython.longlong = 0
    control: cython.longlong = 0
    backwards: cython.longlong = 0
    backwards_at: cython.longlong = -1
    inverted: cython.longlong = 0
    inverted_at: cython.longlong = -1
    odd: cython.longlong = 0
    joined: cython.longlong = state[T_JOINED]
    holes: cython.longlong = 0
    miscounted: cython.longlong = 0
    base_offset: cython.longlong
    magic: cython.longlong
    attributes: cython.longlong
    if n and state[T_BATCHES] == 0:
        state[T_FIRST_OFFSET] = rows[_BASE_OFFSET]
    while row < n * _BATCH_FIELDS:
        base_offset = rows[row + _BASE_OFFSET]
        magic = rows[row + _MAGIC]
        attributes = rows[row + _ATTRIBUTES]
        if base_offset <= previous:
            if backwards == 0:
                backwards_at = rows[row + _POSITION]
            backwards += 1
        elif base_offset != previous + 1 and joined and (magic > 1 or attributes & 7 == 0):
            holes += 1
        joined = 1
        previous = rows[row + _LAST_OFFSET]
        if previous < base_offset:
            if inverted == 0:
                inverted_at = rows[row + _POSITION]
            inverted += 1
        size += rows[row + _SIZE]
        if magic < 2:
            if attributes & 7:
                wrappers += 1
            else:
                records += 1
            if attributes & 244 or magic < 0:
                odd += 1
        else:
            if rows[row + _COUNT] > 0:
                records += rows[row + _COUNT]
            if attributes & 32:
                control += 1
            elif 0 <= base_offset <= previous and previous - base_offset != rows[row + _COUNT] - 1:
                miscounted += 1
            # Unused bits, the sign among them, and codecs above zstd.
            if attributes & -128 or attributes & 7 > 4 or magic > 2:
                odd += 1
        if rows[row + _MAX_TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + _MAX_TIMESTAMP]
        row += _BATCH_FIELDS
    if backwards and state[T_BACKWARDS] == 0:
        state[T_BACKWARDS_AT] = backwards_at
    if inverted and state[T_INVERTED] == 0:
        state[T_INVERTED_AT] = inverted_at
    state[T_BATCHES] += n
    state[T_RECORDS] += records
    state[T_BYTES] += size
    state[T_PREVIOUS] = previous
    state[T_MAX_TIMESTAMP] = max_timestamp
    state[T_WRAPPERS] += wrappers
    state[T_CONTROL] += control
    state[T_BACKWARDS] += backwards
    state[T_INVERTED] += inverted
    state[T_ODD] += odd
    state[T_JOINED] = joined
    state[T_HOLES] += holes
    state[T_MISCOUNTED] += miscounted


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _plausible_message(
    view: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    left: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
) -> cython.bint:
    """Whether the header of a message of magic 0 or 1 may stand at ``view[p]``."""
    magic: cython.int = view[p + 16]
    attributes: cython.int = view[p + 17]
    key_at: cython.Py_ssize_t = p + 18 + 8 * magic
    size: cython.longlong = _i32(view, p + 8) + _LOG_OVERHEAD
    offset: cython.longlong
    key_size: cython.longlong
    # Codecs up to lz4; only magic 1 knows types of timestamps.
    if attributes & 244 or (magic == 0 and attributes & 8) or key_at + 4 > len(view):
        return False
    if size < _LEGACY_HEADER + 8 * magic or size > left:
        return False
    offset = _i64(view, p)
    key_size = _i32(view, key_at)
    if offset <= low or offset > high:
        return False
    # A wrapper has no key.
    return -1 <= key_size <= (-1 if attributes & 3 else size - _LEGACY_HEADER - 8 * magic)


def next_candidate(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    left: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
) -> int:
    """The first place in ``view[start:stop]`` where a plausible header stands, or -1.

    A header must lie whole in the view; ``left`` is the number of file bytes from ``view[0]`` on,
    and ``low < base offset <= last offset <= high``.
    """
    p: cython.Py_ssize_t
    size: cython.longlong
    base: cython.longlong
    delta: cython.longlong
    if stop > len(view) - _LEGACY_HEADER + 1:
        stop = len(view) - _LEGACY_HEADER + 1
    for p in range(start, stop):
        if view[p + 16] < 2:
            if _plausible_message(view, p, left - p, low, high):
                return p
            continue
        if view[p + 16] > 2 or p + _HEADER > len(view):
            continue
        if view[p + 21] != 0 or view[p + 22] & 128 or view[p + 22] & 7 > 4:
            continue
        size = _i32(view, p + 8) + _LOG_OVERHEAD
        if size < _HEADER or size > left - p or _i32(view, p + 57) < 0:
            continue
        base = _i64(view, p)
        delta = _i32(view, p + 23)
        if base > low and delta >= 0 and base <= high - delta:
            return p
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(
    data: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    bits: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The zigzag varint at ``p``, and where it ends: 0 where it is too long or cut by ``stop``.

    Bits beyond ``bits`` (32 or 64) fall away, as in ``ByteUtils.readVarint``.
    """
    value: cython.ulonglong = 0
    group: cython.ulonglong
    one: cython.ulonglong = 1
    half: cython.longlong
    shift: cython.int = 0
    last: cython.bint
    while p < stop and shift < bits:
        group = data[p]
        p += 1
        last = group < 128
        group &= 127
        if shift + 7 > bits:
            group &= (one << (bits - shift)) - 1
        value |= group << shift
        if last:
            half = value >> 1
            return (-half - 1 if value & 1 else half), p
        shift += 7
    return 0, 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sized(
    data: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    least: cython.longlong,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The size of the field at ``p``, and where its bytes start; (how it ended, 0) on failure.

    ``least`` is -1 for a field that may be null.
    """
    size: cython.longlong
    start: cython.Py_ssize_t
    size, start = _varint(data, p, stop, 32)
    if start == 0:
        return _BAD_VARINT, 0
    if size < least or size > stop - start:
        return _BAD_FIELD, 0
    return size, start


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_record(
    block: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.longlong]:
    """Puts the record at ``p`` into a row; where it ends, or (0, how it ended) if unreadable."""
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    number: cython.longlong
    headers: cython.longlong
    number, q = _varint(block, p, stop, 32)
    if q == 0:
        return 0, _BAD_VARINT
    if number < 1 or number > stop - q:
        return 0, _BAD_LENGTH
    end = q + number
    # One byte of attributes, all unused.
    number, q = _varint(block, q + 1, end, 64)
    if q == 0:
        return 0, _BAD_VARINT
    rows[row + 1] = _add(base_timestamp, number)
    number, q = _varint(block, q, end, 32)
    if q == 0:
        return 0, _BAD_VARINT
    rows[row] = _add(base_offset, number)
    number, q = _sized(block, q, end, -1)
    if q == 0:
        return 0, number
    rows[row + 2] = q
    rows[row + 3] = number
    if number > 0:
        q += number
    number, q = _sized(block, q, end, -1)
    if q == 0:
        return 0, number
    rows[row + 4] = q
    rows[row + 5] = number
    if number > 0:
        q += number
    headers, q = _varint(block, q, end, 32)
    if q == 0:
        return 0, _BAD_VARINT
    # A header takes two bytes at least, so a false count ends with the record.
    if headers < 0 or headers > (end - q) // 2:
        return 0, _BAD_FIELD
    rows[row + 6] = q
    rows[row + 7] = headers
    while headers > 0:
        headers -= 1
        number, q = _sized(block, q, end, 0)
        if q == 0:
            return 0, number
        number, q = _sized(block, q + number, end, -1)
        if q == 0:
            return 0, number
        if number > 0:
            q += number
    if q != end:
        return 0, _BAD_END
    return end, _READ


def read_records(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    log_append: cython.bint,
    append_timestamp: cython.longlong,
    previous: cython.longlong,
    rows: cython.longlong[::1],
) -> tuple[int, int, int, int, int, int]:
    """Reads at most ``count`` records of magic 2 from ``block[start:]`` into ``rows``.

    With ``log_append`` every record has ``append_timestamp``. ``previous`` is the offset of the
    record before, or ``base_offset - 1``.

    Returns (rows filled, position reached, how it ended, last offset, largest timestamp (-1 at
    least), records whose offset does not lie behind the record before). On a record that cannot be
    read the position is where that record starts.
    """
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(rows) // _RECORD_FIELDS
    n: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    ending: cython.longlong
    max_timestamp: cython.longlong = -1
    disorder: cython.longlong = 0
    while n < room and n < count:
        end, ending = _read_record(block, p, stop, base_offset, base_timestamp, rows, row)
        if end == 0:
            return n, p, ending, previous, max_timestamp, disorder
        if log_append:
            rows[row + 1] = append_timestamp
        if rows[row] <= previous:
            disorder += 1
        previous = rows[row]
        if rows[row + 1] > max_timestamp:
            max_timestamp = rows[row + 1]
        p = end
        n += 1
        row += _RECORD_FIELDS
    return n, p, READ, previous, max_timestamp, disorder


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _records_match(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    record: cython.longlong[::1],
) -> cython.bint:
    """Whether the records in ``block[start:stop]`` are what the batch in the row at ``at`` says."""
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    _ending: cython.longlong
    left: cython.longlong = batches[at + _COUNT]
    base_offset: cython.longlong = batches[at + _BASE_OFFSET]
    base_timestamp: cython.longlong = batches[at + _BASE_TIMESTAMP]
    max_timestamp: cython.longlong = batches[at + _MAX_TIMESTAMP]
    log_append: cython.bint = batches[at + _ATTRIBUTES] & 8
    # Below the lowest number there is none, so a first record at it does not match.
    previous: cython.longlong = base_offset - 1 if base_offset > -_MAX_64 else base_offset
    if left < 0 or max_timestamp < -1:
        return False
    if left == 0:
        p = stop  # whatever stands there, nobody reads it
    while left > 0:
        end, _ending = _read_record(block, p, stop, base_offset, base_timestamp, record, 0)
        if end == 0 or record[0] <= previous:
            return False
        if record[1] > max_timestamp and not log_append:
            return False
        previous = record[0]
        p = end
        left -= 1
    return p == stop and previous <= batches[at + _LAST_OFFSET]


def records_match(
    batches: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    record: cython.longlong[::1],
) -> bool:
    """Whether the decompressed ``block`` holds just what the batch at ``row`` of magic 2 says.

    That is as many records, whose offsets rise up to its last offset, and none of which is later
    than its largest timestamp. ``record`` is room for one row.
    """
    return _records_match(batches, row * _BATCH_FIELDS, block, 0, len(block), record)


def skip_matching(
    batches: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    record: cython.longlong[::1],
) -> int:
    """The first row from ``first`` on whose records do not match, as ``records_match`` says it.

    Also of a batch that is compressed, of magic 0 or 1, or not whole in ``view``, which begins with
    the batch at row 0.
    """
    n: cython.Py_ssize_t = len(batches) // _BATCH_FIELDS
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    for row in range(first, n):
        at = row * _BATCH_FIELDS
        start = batches[at + _POSITION] - batches[_POSITION]
        if (
            batches[at + _MAGIC] < 2
            or batches[at + _ATTRIBUTES] & 7
            or batches[at + _SIZE] > len(view) - start
            or not _records_match(
                batches, at, view, start + _HEADER, start + batches[at + _SIZE], record
            )
        ):
            return row
    return n


def read_headers(
    block: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> list[tuple[int, int, int, int]]:
    """(key start, key size, value start, value size) of headers that read_records() found whole."""
    stop: cython.Py_ssize_t = len(block)
    p: cython.Py_ssize_t = start
    key: cython.Py_ssize_t
    size: cython.longlong
    number: cython.longlong
    found = []
    for _ in range(count):
        size, key = _varint(block, p, stop, 32)
        number, p = _varint(block, key + size, stop, 32)
        found.append((key, size, p, number))
        if number > 0:
            p += number
    return found


def fill_headers(
    block: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    state: cython.longlong[::1],
    out: cython.longlong[::1],
) -> int:
    """Puts headers that read_records() found whole into ``out``: four numbers each, as
    ``read_headers`` has them.

    ``state`` is (row, how many of its headers are done, where the next one stands), at first 0; it
    says where to go on. Returns how many there was room for; 0 behind the last.
    """
    n: cython.Py_ssize_t = len(rows) // _RECORD_FIELDS
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(out) - 3
    row: cython.Py_ssize_t = state[0]
    done: cython.longlong = state[1]
    p: cython.Py_ssize_t = state[2]
    to: cython.Py_ssize_t = 0
    key: cython.Py_ssize_t
    size: cython.longlong
    while row < n:
        if done == 0:
            p = rows[row * _RECORD_FIELDS + 6]
        while done < rows[row * _RECORD_FIELDS + 7] and to < room:
            size, key = _varint(block, p, stop, 32)
            out[to] = key
            out[to + 1] = size
            size, p = _varint(block, key + size, stop, 32)
            out[to + 2] = p
            out[to + 3] = size
            if size > 0:
                p += size
            to += 4
            done += 1
        if done < rows[row * _RECORD_FIELDS + 7]:
            break
        row += 1
        done = 0
    state[0] = row
    state[1] = done
    state[2] = p
    return to // 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _message_end(
    block: cython.const[cython.uchar][::1], p: cython.Py_ssize_t
) -> tuple[cython.Py_ssize_t, cython.longlong]:
    """Where the message of magic 0 or 1 at ``p`` ends; (0, how it ended) if there is none."""
    size: cython.longlong
    left: cython.Py_ssize_t = len(block) - p - _LOG_OVERHEAD
    if left < 0:
        return 0, _CUT
    size = _i32(block, p + 8)
    if size < _MESSAGE:
        return 0, _BAD_LENGTH
    if size > left:
        return 0, _CUT
    return p + _LOG_OVERHEAD + size, _READ


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_message(
    block: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Puts the message in ``block[p:end]`` into a row as it stands there; whether its key and value
    fit into it.
    """
    q: cython.Py_ssize_t = p + 18
    field: cython.int
    size: cython.longlong
    rows[row + 1] = -1
    if _magic(block, p):
        if end - q < 8:
            return False
        rows[row + 1] = _i64(block, q)
        q += 8
    for field in range(2, 6, 2):
        if end - q < 4:
            return False
        size = _i32(block, q)
        q += 4
        if size > end - q:
            return False
        rows[row + field] = q
        rows[row + field + 1] = size
        if size > 0:
            q += size
    rows[row] = _i64(block, p)
    rows[row + 6] = p
    rows[row + 7] = 0
    return True


def count_messages(block: cython.const[cython.uchar][::1]) -> tuple[int, int, int, int]:
    """Goes over a run of messages by their sizes alone.

    Returns (messages, offset of the last one, position reached, how it ended).
    """
    p: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    ending: cython.longlong = _READ
    n: cython.Py_ssize_t = 0
    offset: cython.longlong = -1
    while p < len(block):
        end, ending = _message_end(block, p)
        if end == 0:
            break
        offset = _i64(block, p)
        p = end
        n += 1
    return n, offset, p, ending


def read_messages(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    check: cython.bint,
    base_offset: cython.longlong,
    log_append: cython.bint,
    append_timestamp: cython.longlong,
    previous: cython.longlong,
    rows: cython.longlong[::1],
) -> tuple[int, int, int, int, int, int, int, int]:
    """Reads messages of one magic, 0 or 1, from the run ``block[start:]`` into ``rows``.

    Offsets are relative to ``base_offset``. With ``log_append`` messages of magic 1 have
    ``append_timestamp``. ``check`` asks whether they match their checksums, and refuses compressed
    ones, as inside a wrapper. ``previous`` is the offset of the message before.

    Returns (rows filled, position reached, how it ended, magic, last offset, largest timestamp (-1
    at least), messages whose offset does not lie behind the one before, messages that do not match
    their checksum). On a message that cannot be read the position is where it starts.
    """
    crc32: cython.const[cython.uint][::1] = _CRC32_TABLE
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(rows) // _RECORD_FIELDS
    n: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    ending: cython.longlong
    magic: cython.longlong = 0
    max_timestamp: cython.longlong = -1
    disorder: cython.longlong = 0
    mismatches: cython.longlong = 0
    while n < room and p < stop:
        end, ending = _message_end(block, p)
        if end == 0:
            return n, p, ending, magic, previous, max_timestamp, disorder, mismatches
        if n == 0:
            magic = _magic(block, p)
        elif _magic(block, p) != magic:
            break
        if check and block[p + 17] & 7:
            return n, p, NESTED, magic, previous, max_timestamp, disorder, mismatches
        if not _read_message(block, p, end, rows, row):
            return n, p, BAD_FIELD, magic, previous, max_timestamp, disorder, mismatches
        rows[row] = _add(base_offset, rows[row])
        if log_append and magic == 1:
            rows[row + 1] = append_timestamp
        if check and _crc(block, p + 16, end, crc32) != _u32(block, p + 12):
            rows[row + 7] = -1
            mismatches += 1
        if rows[row] <= previous:
            disorder += 1
        previous = rows[row]
        if rows[row + 1] > max_timestamp:
            max_timestamp = rows[row + 1]
        p = end
        n += 1
        row += _RECORD_FIELDS
    return n, p, READ, magic, previous, max_timestamp, disorder, mismatches


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_batch(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Puts all records of the batch at ``view[start]`` into rows; whether they can be read.

    The batch, whose own row is at ``at``, is there whole and not compressed, and there is room.
    """
    stop: cython.Py_ssize_t = start + batches[at + _SIZE]
    p: cython.Py_ssize_t = start + _HEADER
    _ending: cython.longlong
    left: cython.longlong = batches[at + _COUNT]
    log_append: cython.bint = batches[at + _ATTRIBUTES] & 8
    if batches[at + _MAGIC] < 2:
        return _read_message(view, start, stop, rows, row)
    if left == 0:
        p = stop  # whatever stands there, nobody reads it
    while left > 0:
        p, _ending = _read_record(
            view, p, stop, batches[at + _BASE_OFFSET], batches[at + _BASE_TIMESTAMP], rows, row
        )
        if p == 0:
            return False
        if log_append:
            rows[row + 1] = batches[at + _MAX_TIMESTAMP]
        row += _RECORD_FIELDS
        left -= 1
    return p == stop


def read_neighbours(
    batches: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    starts: cython.longlong[::1],
) -> int:
    """Reads the records of many small batches, the first of them in row ``first``, into ``rows``.

    ``view`` begins with the batch at row 0. Place i of ``starts`` gets the number of the row where
    the records of the i-th batch begin, the place behind the last one where they end.

    Returns how many batches were read: up to one that is large, compressed, a control batch, not
    whole in ``view`` or not readable to its end, or that there is no room for.
    """
    n: cython.Py_ssize_t = len(batches) // _BATCH_FIELDS - first
    room: cython.Py_ssize_t = len(rows) // _RECORD_FIELDS
    filled: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    masked: cython.longlong
    if n > len(starts) - 1:
        n = len(starts) - 1
    starts[0] = 0
    for i in range(n):
        at = (first + i) * _BATCH_FIELDS
        start = batches[at + _POSITION] - batches[_POSITION]
        masked = 7 if batches[at + _MAGIC] < 2 else 39  # the codec, and whether it is of control
        if (
            batches[at + _ATTRIBUTES] & masked
            or batches[at + _SIZE] >= _NEIGHBOUR_BYTES
            or batches[at + _SIZE] > len(view) - start
            or batches[at + _COUNT] < 0
            or batches[at + _COUNT] > room - filled
            or not _read_batch(batches, at, view, start, rows, filled * _RECORD_FIELDS)
        ):
            return i
        filled += batches[at + _COUNT]
        starts[i + 1] = filled
    return n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_wrapped(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Puts all messages in the wrapper, whose own row is at ``at``, into rows.

    How many, or 0; see ``read_block``.
    """
    crc32: cython.const[cython.uint][::1] = _CRC32_TABLE
    room: cython.Py_ssize_t = len(rows)
    p: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    _ending: cython.longlong
    row: cython.Py_ssize_t = 0
    magic: cython.longlong = batches[at + _MAGIC]
    log_append: cython.bint = magic == 1 and batches[at + _ATTRIBUTES] & 8
    base_offset: cython.longlong = 0
    filled: cython.Py_ssize_t
    while p < len(block):
        end, _ending = _message_end(block, p)
        if (
            end == 0
            or row == room
            or _magic(block, p) != magic
            or block[p + 17] & 7
            or not _read_message(block, p, end, rows, row)
            or _crc(block, p + 16, end, crc32) != _u32(block, p + 12)
        ):
            return 0
        if log_append:
            rows[row + 1] = batches[at + _MAX_TIMESTAMP]
        p = end
        row += _RECORD_FIELDS
    if row == 0:
        return 0
    if magic == 1 and batches[at + _LAST_OFFSET] != 0:
        base_offset = rows[row - _RECORD_FIELDS]
        if not 0 <= base_offset <= batches[at + _LAST_OFFSET]:
            return 0
        base_offset = batches[at + _LAST_OFFSET] - base_offset
    filled = row // _RECORD_FIELDS
    if base_offset > 0:
        while row > 0:
            row -= _RECORD_FIELDS
            rows[row] = _add(base_offset, rows[row])
    return filled


def read_block(
    batches: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
) -> int:
    """Reads all records of the batch in ``row`` into ``rows``, out of its decompressed ``block``.

    Returns how many; 0 if there are none, if there is no room for all of them, or if one cannot be
    read. Inside a wrapper, also if one is compressed, of another magic, or does not match its
    checksum, or if nobody can tell the offsets.
    """
    at: cython.Py_ssize_t = row * _BATCH_FIELDS
    p: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t = 0
    _ending: cython.longlong
    left: cython.longlong = batches[at + _COUNT]
    log_append: cython.bint = batches[at + _ATTRIBUTES] & 8
    if batches[at + _MAGIC] < 2:
        return _read_wrapped(batches, at, block, rows)
    if left < 1 or left > len(rows) // _RECORD_FIELDS:
        return 0
    while left > 0:
        p, _ending = _read_record(
            block,
            p,
            len(block),
            batches[at + _BASE_OFFSET],
            batches[at + _BASE_TIMESTAMP],
            rows,
            to,
        )
        if p == 0:
            return 0
        if log_append:
            rows[to + 1] = batches[at + _MAX_TIMESTAMP]
        to += _RECORD_FIELDS
        left -= 1
    return batches[at + _COUNT] if p == len(block) else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_i32(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    out[at] = number >> 24 & 255
    out[at + 1] = number >> 16 & 255
    out[at + 2] = number >> 8 & 255
    out[at + 3] = number & 255
    return at + 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_i64(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    return _put_i32(out, _put_i32(out, at, number >> 32), number)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_bytes(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    """Copies a field; none of a size below zero. Where it ends."""
    i: cython.Py_ssize_t
    if size <= 0:
        return at
    if cython.compiled:
        for i in range(size):
            out[at + i] = block[start + i]
    else:
        out[at : at + size] = block[start : start + size]
    return at + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fold_headers(
    block: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    count: cython.longlong,
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Puts headers that read_records() found whole into ``out``; where they end, -1 if they do not
    fit.
    """
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(out)
    key: cython.Py_ssize_t
    key_size: cython.longlong
    size: cython.longlong
    while count > 0:
        key_size, key = _varint(block, p, stop, 32)
        size, p = _varint(block, key + key_size, stop, 32)
        if key_size + (size if size > 0 else 0) > room - at - 8:
            return -1
        at = _put_i32(out, at, key_size)
        at = _put_i32(out, at, size)
        at = _put_bytes(out, at, block, key, key_size)
        at = _put_bytes(out, at, block, p, size)
        if size > 0:
            p += size
        count -= 1
    return at


def fold_records(
    block: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    legacy: cython.bint,
    log_append: cython.bint,
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Puts records from row ``first`` on into ``out``, as many as fit, in a form without gaps.

    Each is its offset and timestamp (8 bytes, big-endian), 1 for LogAppendTime or 0, the sizes of
    its key and value and the number of its headers (4 bytes), the key, the value, and for each
    header two sizes and the bytes. A null has the size -1. ``legacy`` records have no headers.

    Returns (row reached, bytes put into ``out``).
    """
    n: cython.Py_ssize_t = len(rows) // _RECORD_FIELDS
    room: cython.Py_ssize_t = len(out)
    used: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    headers: cython.longlong
    for i in range(first, n):
        row = i * _RECORD_FIELDS
        key_size = rows[row + 3] if rows[row + 3] > 0 else 0
        value_size = rows[row + 5] if rows[row + 5] > 0 else 0
        headers = 0 if legacy else rows[row + 7]
        if key_size + value_size > room - used - _FOLDED:
            return i, used
        at = _put_i64(out, used, rows[row])
        at = _put_i64(out, at, rows[row + 1])
        out[at] = 1 if log_append else 0
        at = _put_i32(out, at + 1, key_size if rows[row + 3] >= 0 else -1)
        at = _put_i32(out, at, value_size if rows[row + 5] >= 0 else -1)
        at = _put_i32(out, at, headers)
        at = _put_bytes(out, at, block, rows[row + 2], key_size)
        at = _put_bytes(out, at, block, rows[row + 4], value_size)
        at = _fold_headers(block, rows[row + 6], headers, out, at)
        if at < 0:
            return i, used
        used = at
    return n, used
