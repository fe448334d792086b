"""What every module of the kernel uses: rows, places, bits, readers of bytes, writers of bytes.

The build pastes the body of this module into each of the others in place of the statement that
imports from it. So its functions are inlined into theirs, and its numbers are C integers of theirs.
Python code outside of the kernel uses the two lists of fields alone.

Spec: ``DefaultRecordBatch``, ``LegacyRecord``, ``ByteUtils`` (KOD 3.1, 3.2).
It never allocates, and reads and writes only at the places that its arguments name.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

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

# The places of these fields, and how many numbers a row has.
POSITION = 0
SIZE = 1
BASE_OFFSET = 2
LAST_OFFSET = 3
LEADER_EPOCH = 4
MAGIC = 5
CRC = 6
ATTRIBUTES = 7
BASE_TIMESTAMP = 8
MAX_TIMESTAMP = 9
PRODUCER_ID = 10
PRODUCER_EPOCH = 11
BASE_SEQUENCE = 12
COUNT = 13
BATCH_WIDTH = 14
OFFSET = 0
TIMESTAMP = 1
KEY = 2
KEY_SIZE = 3
VALUE = 4
VALUE_SIZE = 5
HEADERS = 6
HEADER_COUNT = 7
RECORD_WIDTH = 8

# Bits of the attributes.
CODEC_MASK = 7
LOG_APPEND_TIME = 8
TRANSACTIONAL = 16
CONTROL = 32
DELETE_HORIZON = 64

# How much of a batch must be there to be read: up to its magic, a legacy header, a header.
PREFIX_BYTES = 17
LEGACY_HEADER_BYTES = 26
HEADER_BYTES = 61
#: Offset and size, which the size of a batch or message does not count.
LOG_OVERHEAD = 12
#: The least size that a message of magic 0 or 1 gives, without the overhead.
LEAST_MESSAGE = 14

# Large literals would be Python objects in the compiled code.
MAX_32 = cython.declare(cython.uint, 4294967295)
TWO_TO_32 = cython.declare(cython.longlong, 4294967296)
MAX_64 = cython.declare(cython.longlong, 9223372036854775807)


# What is raised is made in functions of their own, not inlined: it would fill the loops with code.


@cython.cfunc
@cython.exceptval(-1)
def refuse_number(
    low: cython.longlong, found: cython.longlong, high: cython.longlong, what: str
) -> cython.int:
    """Raise ValueError for an argument, or a length, that is not from ``low`` to ``high``."""
    if high == MAX_64:
        raise ValueError(f"expected {what} of at least {low}, found {found}")
    raise ValueError(f"expected {what} from {low} to {high}, found {found}")


@cython.cfunc
@cython.exceptval(-1)
def refuse_field(
    length: cython.Py_ssize_t, start: cython.longlong, size: cython.longlong
) -> cython.int:
    """Raise ValueError for a field that does not lie in ``length`` bytes."""
    raise ValueError(f"expected a field within {length} bytes, found {size} bytes at {start}")


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def need(least: cython.longlong, found: cython.longlong, what: str) -> cython.int:
    """Refuse an argument, or a length, that is smaller than ``least``."""
    return refuse_number(least, found, MAX_64, what) if found < least else 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def within(
    low: cython.longlong, found: cython.longlong, high: cython.longlong, what: str
) -> cython.int:
    """Refuse an argument that is not from ``low`` to ``high``."""
    return refuse_number(low, found, high, what) if found < low or found > high else 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def need_field(
    length: cython.Py_ssize_t, start: cython.longlong, size: cython.longlong
) -> cython.int:
    """Refuse ``size`` bytes at ``start`` that do not lie in ``length`` bytes; none lie anywhere."""
    if size > 0 and (start < 0 or size > length - start):
        return refuse_field(length, start, size)
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def u32(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """Return the unsigned number in the 4 bytes at ``p``."""
    high: cython.longlong = data[p]
    return high << 24 | data[p + 1] << 16 | data[p + 2] << 8 | data[p + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def i32(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """Return the signed number in the 4 bytes at ``p``."""
    value: cython.longlong = u32(data, p)
    return value - TWO_TO_32 if value > 2147483647 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def i16(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """Return the signed number in the 2 bytes at ``p``."""
    value: cython.longlong = data[p] << 8 | data[p + 1]
    return value - 65536 if value > 32767 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def i64(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """Return the signed number in the 8 bytes at ``p``."""
    # Signed upper half times 2^32: stays within 64 bits in C, and is the same number in Python.
    return i32(data, p) * TWO_TO_32 + u32(data, p + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def magic_at(view: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    """Return the magic of the header at ``view[p]``, a signed byte.

    The broker reads any above 1 as a batch of magic 2, any below as a legacy message.
    """
    magic: cython.longlong = view[p + 16]
    return magic - 256 if magic > 127 else magic


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """Return the sum as Java has it: wrapped to 64 bits, with no overflow on the way."""
    if b > 0 and a > MAX_64 - b:
        return (a - MAX_64 - 1) + (b - MAX_64 - 1)
    if b < 0 and a < -MAX_64 - 1 - b:
        return (a + MAX_64 + 1) + (b + MAX_64 + 1)
    return a + b


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def subtract(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """Return the difference, wrapped to 64 bits."""
    if b == -MAX_64 - 1:
        return add(add(a, MAX_64), 1)
    return add(a, -b)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def sequence_at(
    base_sequence: cython.longlong, base_offset: cython.longlong, offset: cython.longlong
) -> cython.longlong:
    """Return the sequence of the record at ``offset`` of a batch; -1 without sequences.

    After 2147483647 comes 0.
    """
    start: cython.ulonglong = base_offset
    stop: cython.ulonglong = offset
    if base_sequence < 0:
        return -1
    return ((base_sequence & 2147483647) + ((stop - start) & 2147483647)) & 2147483647


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def varint(
    data: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    bits: cython.int,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Return the zigzag varint at ``p``, and where it ends: 0 if it is too long or cut by ``stop``.

    Bits beyond ``bits`` (32 or 64) fall away, as in ``ByteUtils.readVarint``.
    """
    value: cython.ulonglong = 0
    group: cython.ulonglong
    unit: cython.ulonglong = 1
    half: cython.longlong
    shift: cython.int = 0
    last: cython.bint
    while p < stop and shift < bits:
        group = data[p]
        p += 1
        last = group < 128
        group &= 127
        if shift + 7 > bits:
            group &= (unit << (bits - shift)) - 1
        value |= group << shift
        if last:
            half = value >> 1
            return (-half - 1 if value & 1 else half), p
        shift += 7
    return 0, 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_i32(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    """Write the lower 4 bytes of ``number``, big-endian; return where they end."""
    out[at] = number >> 24 & 255
    out[at + 1] = number >> 16 & 255
    out[at + 2] = number >> 8 & 255
    out[at + 3] = number & 255
    return at + 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_i64(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    """Write the 8 bytes of ``number``, big-endian; return where they end."""
    return put_i32(out, put_i32(out, at, number >> 32), number)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_bytes(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    """Copy ``size`` bytes from ``block[start]`` on, none of a size below zero; return their end."""
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
def move_row(
    rows: cython.longlong[::1],
    at: cython.Py_ssize_t,
    origin: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
) -> cython.void:
    """Copy the row of ``width`` numbers at ``origin`` to ``at``, where it may stand already."""
    i: cython.Py_ssize_t
    if at != origin:
        for i in range(width):
            rows[at + i] = rows[origin + i]
