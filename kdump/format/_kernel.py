"""The hot loops over bytes: batch headers, checksums of small batches, records, and the hunt.

One source that runs as plain Python and compiles with Cython. It fills rows of 64-bit integers
(row-major in one flat view, so that ``view[FIELD::FIELDS]`` is a column) and never makes an object
per batch or record. Every function checks its own limits: any bytes are safe.

Spec: ``DefaultRecordBatch``, ``DefaultRecord``, ``LegacyRecord``, ``FileLogInputStream.nextBatch``.
It must never import anything of kdump, allocate by what the bytes claim, or raise on bytes.
"""

from __future__ import annotations

from array import array

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
#: The row of a record; starts and sizes are positions in the block that was read.
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

# How read_records() ended.
READ = 0  # the rows are full, or the batch has no more records
BAD_VARINT = 1  # a number has too many bytes, or is cut by the end of its record
BAD_LENGTH = 2  # a record does not fit into the block
BAD_FIELD = 3  # a key, value or header does not fit into its record, or has an impossible size
BAD_END = 4  # the fields of a record do not fill it

# The state of tally(), carried from one table of a segment to the next.
T_BATCHES = 0
T_RECORDS = 1  # as the headers of magic 2 count them
T_BYTES = 2
T_PREVIOUS = 3  # last offset of the batch before; at first, one below the segment's base
T_FIRST_OFFSET = 4
T_MAX_TIMESTAMP = 5
T_LEGACY = 6  # batches of magic 0 and 1
T_CONTROL = 7  # control batches
T_BACKWARDS = 8  # batches that do not begin behind the end of the batch before
T_BACKWARDS_AT = 9  # position of the first of them
T_INVERTED = 10  # batches whose last offset lies below their base offset
T_INVERTED_AT = 11  # position of the first of them
TALLY_FIELDS = 12

#: Batches below this size are checksummed here; a library call costs more than their bytes do.
SMALL_BYTES: int = 1024 if COMPILED else 0

# How much of a batch must be there to be read: up to its magic, a legacy header, a header.
_PREFIX = cython.declare(cython.int, 17)
_LEGACY_HEADER = cython.declare(cython.int, 26)
_HEADER = cython.declare(cython.int, 61)
_LOG_OVERHEAD = cython.declare(cython.int, 12)

# BAD_VARINT and BAD_FIELD once more, for C.
_BAD_VARINT = cython.declare(cython.longlong, 1)
_BAD_FIELD = cython.declare(cython.longlong, 3)

# Large literals would be Python objects in the compiled code.
_MAX_32 = cython.declare(cython.uint, 4294967295)
_2_TO_32 = cython.declare(cython.longlong, 4294967296)
_MAX_64 = cython.declare(cython.longlong, 9223372036854775807)


def _crc_table(polynomial: int) -> array[int]:
    """Eight tables of 256 entries, flat, to take eight bytes a step (reflected polynomial)."""
    table = array("I", bytes(4 * 8 * 256))
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table[byte] = value
    for slot in range(1, 8):
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
    while p + 8 <= stop:
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
        rows[row + _MAX_TIMESTAMP] = _i64(view, p + 18) if magic == 1 else -1
        rows[row + _BASE_TIMESTAMP] = rows[row + _MAX_TIMESTAMP]
        rows[row + _PRODUCER_ID] = -1
        rows[row + _PRODUCER_EPOCH] = -1
        rows[row + _BASE_SEQUENCE] = -1
        rows[row + _COUNT] = 1


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
) -> tuple[int, int, int]:
    """Reads batch headers from ``view`` into ``rows``, and checksums the small batches.

    ``view[0]`` is the byte at ``origin`` of a file of ``file_size`` bytes. Row numbers of batches
    whose checksum is still to be compared go to ``pending``. A batch that reaches beyond the view
    ends the scan; only if it is the first does it get a row, which is pending.

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
        p += size
        n += 1
    return n, waiting, FULL


def tally(rows: cython.const[cython.longlong][::1], state: cython.longlong[::1]) -> None:
    """Folds the batches of ``rows``, in file order, into ``state`` (places ``T_``)."""
    n: cython.Py_ssize_t = len(rows) // _BATCH_FIELDS
    row: cython.Py_ssize_t = 0
    records: cython.longlong = 0
    size: cython.longlong = 0
    previous: cython.longlong = state[T_PREVIOUS]
    max_timestamp: cython.longlong = state[T_MAX_TIMESTAMP]
    legacy: cython.longlong = 0
    control: cython.longlong = 0
    backwards: cython.longlong = 0
    backwards_at: cython.longlong = -1
    inverted: cython.longlong = 0
    inverted_at: cython.longlong = -1
    if n and state[T_BATCHES] == 0:
        state[T_FIRST_OFFSET] = rows[_BASE_OFFSET]
    while row < n * _BATCH_FIELDS:
        if rows[row + _BASE_OFFSET] <= previous:
            if backwards == 0:
                backwards_at = rows[row + _POSITION]
            backwards += 1
        if rows[row + _LAST_OFFSET] < rows[row + _BASE_OFFSET]:
            if inverted == 0:
                inverted_at = rows[row + _POSITION]
            inverted += 1
        previous = rows[row + _LAST_OFFSET]
        size += rows[row + _SIZE]
        if rows[row + _MAGIC] < 2:
            legacy += 1
        else:
            if rows[row + _COUNT] > 0:
                records += rows[row + _COUNT]
            if rows[row + _ATTRIBUTES] & 32:
                control += 1
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
    state[T_LEGACY] += legacy
    state[T_CONTROL] += control
    state[T_BACKWARDS] += backwards
    state[T_INVERTED] += inverted


def next_candidate(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    left: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
) -> int:
    """The first place in ``view[start:stop]`` where a plausible magic-2 header stands, or -1.

    A header must lie whole in the view; ``left`` is the number of file bytes from ``view[0]`` on,
    and ``low < base offset <= last offset <= high``.
    """
    p: cython.Py_ssize_t
    size: cython.longlong
    base: cython.longlong
    delta: cython.longlong
    if stop > len(view) - _HEADER + 1:
        stop = len(view) - _HEADER + 1
    for p in range(start, stop):
        if view[p + 16] != 2 or view[p + 21] != 0 or view[p + 22] & 128 or view[p + 22] & 7 > 4:
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
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    number: cython.longlong
    headers: cython.longlong
    max_timestamp: cython.longlong = -1
    disorder: cython.longlong = 0
    while n < room and n < count:
        number, q = _varint(block, p, stop, 32)
        if q == 0:
            return n, p, BAD_VARINT, previous, max_timestamp, disorder
        if number < 1 or number > stop - q:
            return n, p, BAD_LENGTH, previous, max_timestamp, disorder
        end = q + number
        # One byte of attributes, all unused.
        number, q = _varint(block, q + 1, end, 64)
        if q == 0:
            return n, p, BAD_VARINT, previous, max_timestamp, disorder
        rows[row + 1] = append_timestamp if log_append else _add(base_timestamp, number)
        number, q = _varint(block, q, end, 32)
        if q == 0:
            return n, p, BAD_VARINT, previous, max_timestamp, disorder
        rows[row] = _add(base_offset, number)
        number, q = _sized(block, q, end, -1)
        if q == 0:
            return n, p, number, previous, max_timestamp, disorder
        rows[row + 2] = q
        rows[row + 3] = number
        if number > 0:
            q += number
        number, q = _sized(block, q, end, -1)
        if q == 0:
            return n, p, number, previous, max_timestamp, disorder
        rows[row + 4] = q
        rows[row + 5] = number
        if number > 0:
            q += number
        headers, q = _varint(block, q, end, 32)
        if q == 0:
            return n, p, BAD_VARINT, previous, max_timestamp, disorder
        # A header takes two bytes at least, so a false count ends with the record.
        if headers < 0 or headers > (end - q) // 2:
            return n, p, BAD_FIELD, previous, max_timestamp, disorder
        rows[row + 6] = q
        rows[row + 7] = headers
        while headers > 0:
            headers -= 1
            number, q = _sized(block, q, end, 0)
            if q == 0:
                return n, p, number, previous, max_timestamp, disorder
            number, q = _sized(block, q + number, end, -1)
            if q == 0:
                return n, p, number, previous, max_timestamp, disorder
            if number > 0:
                q += number
        if q != end:
            return n, p, BAD_END, previous, max_timestamp, disorder
        if rows[row] <= previous:
            disorder += 1
        previous = rows[row]
        if rows[row + 1] > max_timestamp:
            max_timestamp = rows[row + 1]
        p = end
        n += 1
        row += _RECORD_FIELDS
    return n, p, READ, previous, max_timestamp, disorder


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
