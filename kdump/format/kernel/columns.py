"""Columns of records and of their headers, out of the rows that the kernel filled.

What is filled has the layout of Arrow's columns: numbers of a fixed width next to each other; the
bytes of all fields in one run, and where each of them ends; a bit a row for what is true, or not
null. Columns of one width stand in one view, each with room for as many rows.

Spec: ``DefaultRecordBatch``, ``DefaultRecord``, ``LegacyRecord`` (KOD 3.1, 3.2).
It must never make an object per record, or write beyond the views that it is given.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BATCH_WIDTH,
    CODEC_MASK,
    CONTROL,
    HEADER_COUNT,
    HEADERS,
    KEY_SIZE,
    LEADER_EPOCH,
    LOG_APPEND_TIME,
    MAGIC,
    OFFSET,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_WIDTH,
    TIMESTAMP,
    TRANSACTIONAL,
    VALUE_SIZE,
    need,
    sequence_at,
    varint,
    within,
)

#: The columns of each width that fill() fills, in their order.
LONGS = ("offset", "timestamp", "producer_id", "position")
INTS = ("leader_epoch", "sequence")
SHORTS = ("producer_epoch",)
#: ``timestamp_type`` is a place in ``TIMESTAMP_TYPES``, ``codec`` the codec's number.
BYTES = ("magic", "timestamp_type", "codec")
#: ``has_timestamp``: it is not null, as in magic 0.
BITS = ("has_timestamp", "transactional", "control")
#: The names of ``TimestampType``.
TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
#: What fill() takes for the magic of records where that is their batch's own.
OWN_MAGIC = -129


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _set_bits(
    bits: cython.uchar[::1], start: cython.Py_ssize_t, at: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.void:
    """Set ``n`` bits from number ``at`` on of the bits that begin at byte ``start``."""
    stop: cython.Py_ssize_t = at + n
    while at < stop:
        if at & 7 == 0 and stop - at >= 8:
            bits[start + (at >> 3)] = 255
            at += 8
        else:
            bits[start + (at >> 3)] |= 1 << (at & 7)
            at += 1


def measure(rows: cython.const[cython.longlong][::1]) -> tuple[int, int, int]:
    """Return the bytes of all keys, the bytes of all values, and the number of headers."""
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    keys: cython.longlong = 0
    values: cython.longlong = 0
    headers: cython.longlong = 0
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    for i in range(n):
        row = i * RECORD_WIDTH
        if rows[row + KEY_SIZE] > 0:
            keys += rows[row + KEY_SIZE]
        if rows[row + VALUE_SIZE] > 0:
            values += rows[row + VALUE_SIZE]
        if rows[row + HEADER_COUNT] > 0:  # in magic 0 and 1 it is at most 0
            headers += rows[row + HEADER_COUNT]
    return keys, values, headers


def fill(
    batches: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    magic: cython.longlong,
    at: cython.Py_ssize_t,
    longs: cython.longlong[::1],
    ints: cython.int[::1],
    shorts: cython.short[::1],
    bytes_: cython.schar[::1],
    bits: cython.uchar[::1],
) -> int:
    """Fill the columns of fixed width from row ``at`` on; return the row behind.

    The records of batch i are the rows from ``starts[i]`` up to ``starts[i + 1]``; ``magic`` is
    theirs, unless it is ``OWN_MAGIC``. Bits must be 0. It fills whole batches alone, those that
    there is room for.
    """
    need(0, at, "a row to begin at")
    need(4 * len(shorts), len(longs), "room for numbers of 64 bits")
    need(2 * len(shorts), len(ints), "room for numbers of 32 bits")
    need(3 * len(shorts), len(bytes_), "room for bytes")
    need(3 * ((len(shorts) + 7) // 8), len(bits) // 3 * 3, "room for bits")
    need(len(batches) // BATCH_WIDTH + 1, len(starts), "as many starts")
    room: cython.Py_ssize_t = len(shorts)
    bit_bytes: cython.Py_ssize_t = len(bits) // 3
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    i: cython.Py_ssize_t
    head: cython.Py_ssize_t
    record: cython.Py_ssize_t
    count: cython.Py_ssize_t
    place: cython.Py_ssize_t
    own: cython.longlong
    attributes: cython.longlong
    sequence: cython.longlong
    kind: cython.int
    for i in range(n):
        within(0, starts[i], starts[i + 1], "the start of a batch")
        within(0, starts[i + 1], len(rows) // RECORD_WIDTH, "the end of a batch")
        count = starts[i + 1] - starts[i]
        if at + count > room:
            return at
        head = i * BATCH_WIDTH
        own = batches[head + MAGIC] if magic == OWN_MAGIC else magic
        attributes = batches[head + ATTRIBUTES]
        kind = 0
        if own != 0 and batches[head + MAGIC] != 0:
            kind = 2 if attributes & LOG_APPEND_TIME else 1
        sequence = batches[head + BASE_SEQUENCE]
        if own != 0:
            _set_bits(bits, 0, at, count)
        if batches[head + MAGIC] > 1:
            if attributes & TRANSACTIONAL:
                _set_bits(bits, bit_bytes, at, count)
            if attributes & CONTROL:
                _set_bits(bits, 2 * bit_bytes, at, count)
        place = at
        for record in range(starts[i], starts[i + 1]):
            longs[place] = rows[record * RECORD_WIDTH + OFFSET]
            longs[room + place] = rows[record * RECORD_WIDTH + TIMESTAMP]
            longs[2 * room + place] = batches[head + PRODUCER_ID]
            longs[3 * room + place] = batches[head + POSITION]
            ints[place] = batches[head + LEADER_EPOCH]
            ints[room + place] = sequence_at(
                sequence, batches[head + BASE_OFFSET], rows[record * RECORD_WIDTH + OFFSET]
            )
            shorts[place] = batches[head + PRODUCER_EPOCH]
            bytes_[place] = own
            bytes_[room + place] = kind
            bytes_[2 * room + place] = attributes & CODEC_MASK
            place += 1
        at = place
    return at


def gather(
    rows: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    field: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    ends: cython.int[::1],
    present: cython.uchar[::1],
    data: cython.uchar[::1],
) -> int:
    """Copy a field of all ``rows`` into a column; return the row behind those that had room.

    ``rows`` is flat, ``width`` numbers a row. In place ``field`` of a row stands where its field
    starts in ``block``, in the next place the size; any size below zero is null. The caller
    guarantees that all lie in the block, as those that read_records() filled do: to check each one
    would take a quarter longer.

    ``data`` gets the bytes of all fields, one behind the other. ``ends`` has one number more than
    there are rows: ``ends[at]`` is where row ``at`` of the column begins in ``data``, and
    ``ends[at + 1]`` gets where it ends. ``present`` has a bit for each row, which must be 0; it is
    set where the field is not null.
    """
    need(2, width, "a width")
    within(0, field, width - 2, "a field")
    within(0, at, len(ends) - 1, "a row to begin at")
    within(0, ends[at], len(data), "an end")
    n: cython.Py_ssize_t = len(rows) // width
    used: cython.Py_ssize_t = ends[at]
    i: cython.Py_ssize_t
    place: cython.Py_ssize_t
    start: cython.Py_ssize_t
    size: cython.longlong
    if n > len(ends) - 1 - at:
        n = len(ends) - 1 - at
    need((at + n + 7) // 8, len(present), "room for bits")
    for i in range(n):
        size = rows[i * width + field + 1]
        if size >= 0:
            if size > len(data) - used:
                return at
            start = rows[i * width + field]
            for place in range(size):  # put_bytes() would take a tenth longer here
                data[used + place] = block[start + place]
            used += size
            present[at >> 3] |= 1 << (at & 7)
        at += 1
        ends[at] = used
    return at


def count_headers(
    rows: cython.const[cython.longlong][::1], at: cython.Py_ssize_t, ends: cython.int[::1]
) -> int:
    """Write where the headers of each record end, all counted, into ``ends`` behind place ``at``.

    Return the row behind those that there was room for.
    """
    need(0, at, "a row to begin at")
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    i: cython.Py_ssize_t
    count: cython.longlong
    if n > len(ends) - 1 - at:
        n = len(ends) - 1 - at
    for i in range(n):
        count = rows[i * RECORD_WIDTH + HEADER_COUNT]
        ends[at + 1] = ends[at] + (count if count > 0 else 0)
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _whole(start: cython.Py_ssize_t, size: cython.longlong, stop: cython.Py_ssize_t) -> cython.bint:
    """Return whether the key of a header, as ``varint`` gave it, lies before ``stop``."""
    return start > 0 and 0 <= size <= stop - start


@cython.cfunc
@cython.exceptval(-1)
def _refuse_header(stop: cython.Py_ssize_t, place: cython.Py_ssize_t) -> cython.int:
    """Raise ValueError for a header that is not whole."""
    raise ValueError(f"expected whole headers in {stop} bytes, found none at {place}")


def read_headers(
    block: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> list[tuple[int, int, int, int]]:
    """Return (key start, key size, value start, value size) of each of ``count`` headers.

    The first stands at ``start``; read_records() found them whole. Any size below zero is null.
    """
    need(0, start, "a start")
    stop: cython.Py_ssize_t = len(block)
    p: cython.Py_ssize_t = start
    key: cython.Py_ssize_t
    size: cython.longlong
    number: cython.longlong
    found = []
    for _ in range(count):
        size, key = varint(block, p, stop, 32)
        if not _whole(key, size, stop):
            _refuse_header(stop, p)
        number, p = varint(block, key + size, stop, 32)
        if p == 0 or number > stop - p:
            _refuse_header(stop, key)
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
    """Write headers that read_records() found whole into ``out``: four numbers each, as
    ``read_headers`` has them.

    ``state`` is (row, how many of its headers are done, where the next one stands), at first 0; it
    says where to go on. Return how many there was room for; 0 behind the last.
    """
    need(3, len(state), "a state")
    need(0, state[0], "a row")
    need(0, state[1], "a number of headers")
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
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
            p = rows[row * RECORD_WIDTH + HEADERS]
        while done < rows[row * RECORD_WIDTH + HEADER_COUNT] and to < room:
            need(0, p, "a place of a header")
            size, key = varint(block, p, stop, 32)
            if not _whole(key, size, stop):
                _refuse_header(stop, p)
            out[to] = key
            out[to + 1] = size
            size, p = varint(block, key + size, stop, 32)
            if p == 0 or size > stop - p:
                _refuse_header(stop, key)
            out[to + 2] = p
            out[to + 3] = size
            if size > 0:
                p += size
            to += 4
            done += 1
        if done < rows[row * RECORD_WIDTH + HEADER_COUNT]:
            break
        row += 1
        done = 0
    state[0] = row
    state[1] = done
    state[2] = p
    return to // 4
