"""The hot loops that write: records of rows as those of a batch of magic 2.

Spec: ``DefaultRecord.writeTo``, ``ByteUtils.writeVarlong`` (KOD 3.2).
It must never write beyond the buffer that it is given, or make an object per record.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BATCH_WIDTH,
    CODEC_MASK,
    KEY,
    KEY_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    OFFSET,
    RECORD_WIDTH,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
    need,
    put_bytes,
    within,
)

# The state of encode_records(): the batch that is open. It begins where its count is 0.
E_SIZE = 0  # bytes of its records
E_COUNT = 1
E_BASE_OFFSET = 2
E_LAST_OFFSET = 3  # of the record before, also before the first one of a batch
E_BASE_TIMESTAMP = 4
E_MAX_TIMESTAMP = 5
STATE_FIELDS = 6

# Why encode_records() stopped.
ENCODED = 0  # there are no more rows
FULL = 1  # the next record would make the batch larger than the limit
FAR = 2  # the next offset is too far from the batch's first one
OTHER_TIME = 3  # the next record has another append time
DISORDER = 4  # the next offset does not lie behind that of the record before
NO_ROOM = 5  # the next record goes beyond the buffer, not beyond the limit

_MAX_DELTA = cython.declare(cython.ulonglong, 2147483647)
_MAX_64_UNSIGNED = cython.declare(cython.ulonglong, 18446744073709551615)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_size(number: cython.ulonglong) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = 1
    while number > 127:
        number >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_varint(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.ulonglong
) -> cython.Py_ssize_t:
    while number > 127:
        out[at] = number & 127 | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _zigzag_difference(a: cython.longlong, b: cython.longlong) -> cython.ulonglong:
    """Return ``a - b`` as Java has it, wrapped to 64 bits, in zigzag."""
    minuend: cython.ulonglong = a
    subtrahend: cython.ulonglong = b
    difference: cython.ulonglong = (minuend - subtrahend) & _MAX_64_UNSIGNED
    if difference >> 63:
        return (~difference & _MAX_64_UNSIGNED) * 2 + 1
    return difference * 2


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _field_size(size: cython.longlong) -> cython.longlong:
    """Return how many bytes a key or value takes, with its size."""
    return _varint_size(2 * size) + size if size >= 0 else 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_field(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.longlong,
) -> cython.Py_ssize_t:
    """Write a key or value; one of any size below zero is null. Return its end."""
    if size < 0:
        out[at] = 1
        return at + 1
    return put_bytes(out, _put_varint(out, at, 2 * size), block, start, size)


def encode_records(
    block: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    log_append: cython.bint,
    limit: cython.Py_ssize_t,
    state: cython.longlong[::1],
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Write records from row ``first`` on into ``out``, behind those of the batch in ``state``.

    They get no headers. All records of a batch take ``limit`` bytes at most, unless there is just
    one; with ``log_append`` they have one timestamp. ``state`` has the places ``E_``.
    The caller guarantees that keys and values lie in ``block``, as they do where the kernel read
    them.

    Return (row reached, why it stopped).
    """
    need(STATE_FIELDS, len(state), "a state")
    need(0, first, "a first row")
    within(0, state[E_SIZE], len(out), "a size")
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    room: cython.Py_ssize_t = len(out)
    at: cython.Py_ssize_t = state[E_SIZE]
    count: cython.longlong = state[E_COUNT]
    base_offset: cython.longlong = state[E_BASE_OFFSET]
    last_offset: cython.longlong = state[E_LAST_OFFSET]
    base_timestamp: cython.longlong = state[E_BASE_TIMESTAMP]
    max_timestamp: cython.longlong = state[E_MAX_TIMESTAMP]
    why: cython.int = ENCODED
    i: cython.Py_ssize_t = first
    row: cython.Py_ssize_t
    offset: cython.longlong
    timestamp: cython.longlong
    # Both are of no sign, so that no difference overflows.
    near: cython.ulonglong
    far: cython.ulonglong
    offset_delta: cython.ulonglong
    timestamp_delta: cython.ulonglong
    body: cython.longlong
    size: cython.longlong
    while i < n:
        row = i * RECORD_WIDTH
        offset = rows[row + OFFSET]
        timestamp = rows[row + TIMESTAMP]
        if offset <= last_offset:
            why = DISORDER
            break
        if count == 0:
            base_offset = offset
            base_timestamp = timestamp
            max_timestamp = timestamp if log_append or timestamp > -1 else -1
        near = base_offset
        far = offset
        offset_delta = far - near
        if offset_delta > _MAX_DELTA:
            why = FAR
            break
        if log_append and timestamp != base_timestamp:
            why = OTHER_TIME
            break
        timestamp_delta = _zigzag_difference(timestamp, base_timestamp)
        # Attributes before the deltas, and behind the value the number of headers.
        body = (
            2
            + _varint_size(timestamp_delta)
            + _varint_size(2 * offset_delta)
            + _field_size(rows[row + KEY_SIZE])
            + _field_size(rows[row + VALUE_SIZE])
        )
        size = _varint_size(2 * body) + body
        if count and size > limit - at:
            why = FULL
            break
        if size > room - at:
            why = NO_ROOM
            break
        at = _put_varint(out, at, 2 * body)
        out[at] = 0
        at = _put_varint(out, at + 1, timestamp_delta)
        at = _put_varint(out, at, 2 * offset_delta)
        at = _put_field(out, at, block, rows[row + KEY], rows[row + KEY_SIZE])
        at = _put_field(out, at, block, rows[row + VALUE], rows[row + VALUE_SIZE])
        out[at] = 0
        at += 1
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        last_offset = offset
        count += 1
        i += 1
    state[E_SIZE] = at
    state[E_COUNT] = count
    state[E_BASE_OFFSET] = base_offset
    state[E_LAST_OFFSET] = last_offset
    state[E_BASE_TIMESTAMP] = base_timestamp
    state[E_MAX_TIMESTAMP] = max_timestamp
    return i, why


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _kind(batches: cython.const[cython.longlong][::1], row: cython.Py_ssize_t) -> cython.longlong:
    """Return a number that messages share which have one magic and type of timestamps."""
    magic: cython.longlong = batches[row + MAGIC]
    # Magic 0 knows no types.
    return 2 * magic + (1 if magic and batches[row + ATTRIBUTES] & LOG_APPEND_TIME else 0)


def kind_end(batches: cython.const[cython.longlong][::1], first: cython.Py_ssize_t) -> int:
    """Return the row behind batch ``first`` and the neighbours that are of its kind.

    Such are all of magic 2 and above, or messages that are not compressed, of one magic and type of
    timestamps. A wrapper has none.
    """
    within(0, first, len(batches) // BATCH_WIDTH - 1, "a first batch")
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    at: cython.Py_ssize_t = first * BATCH_WIDTH
    modern: cython.bint = batches[at + MAGIC] > 1
    kind: cython.longlong = _kind(batches, at)
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    if not modern and batches[at + ATTRIBUTES] & CODEC_MASK:
        return first + 1
    for i in range(first + 1, n):
        row = i * BATCH_WIDTH
        if (
            batches[row + MAGIC] < 2
            if modern
            else batches[row + ATTRIBUTES] & CODEC_MASK or _kind(batches, row) != kind
        ):
            return i
    return n
