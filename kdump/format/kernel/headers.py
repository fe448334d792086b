"""The hot loops over batch headers: reading, checksums of small batches, sums, and the search.

They fill rows of 64-bit integers (row-major in one flat view, so that ``view[FIELD::FIELDS]`` is a
column) and never make an object per batch. The search finds what may be a header behind damage.

Spec: ``DefaultRecordBatch``, ``LegacyRecord``, ``FileLogInputStream.nextBatch``.
It must never allocate by what the bytes claim, or raise on bytes.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.checksums import (
    CRC32_TABLE,
    CRC32C_TABLE,
    crc,
)
from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_WIDTH,
    CODEC_MASK,
    CONTROL,
    COUNT,
    CRC,
    HEADER_BYTES,
    LAST_OFFSET,
    LEADER_EPOCH,
    LEGACY_HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PREFIX_BYTES,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
    add,
    i16,
    i32,
    i64,
    magic_at,
    need,
    u32,
    within,
)
from kdump.format.kernel.prelude import BATCH_FIELDS as BATCH_FIELDS

#: Whether the functions below run compiled.
COMPILED: bool = cython.compiled

# Why scan_headers() stopped.
FULL = 0  # no room for another row
SHORT = 1  # the view ends before the next header does
END = 2  # at the end of the file
TORN = 3  # the file ends inside the next batch
BAD_SIZE = 4  # the next batch claims a size that no batch has
BAD_CRC = 5  # a small batch does not match its checksum

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
_TOUCHED_BYTES = 524288
_TOUCH_BELOW = 65536


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
    """Write the header at ``view[p]``, which is there whole, into the row at ``row``."""
    magic: cython.longlong = magic_at(view, p)
    rows[row + POSITION] = origin + p
    rows[row + SIZE] = size
    rows[row + BASE_OFFSET] = i64(view, p)
    rows[row + MAGIC] = magic
    if magic > 1:
        rows[row + LEADER_EPOCH] = i32(view, p + 12)
        rows[row + CRC] = u32(view, p + 17)
        rows[row + ATTRIBUTES] = i16(view, p + 21)
        rows[row + LAST_OFFSET] = add(rows[row + BASE_OFFSET], i32(view, p + 23))
        rows[row + BASE_TIMESTAMP] = i64(view, p + 27)
        rows[row + MAX_TIMESTAMP] = i64(view, p + 35)
        rows[row + PRODUCER_ID] = i64(view, p + 43)
        rows[row + PRODUCER_EPOCH] = i16(view, p + 51)
        rows[row + BASE_SEQUENCE] = i32(view, p + 53)
        rows[row + COUNT] = i32(view, p + 57)
    else:
        rows[row + LEADER_EPOCH] = -1
        rows[row + CRC] = u32(view, p + 12)
        rows[row + ATTRIBUTES] = view[p + 17]
        rows[row + LAST_OFFSET] = rows[row + BASE_OFFSET]
        rows[row + MAX_TIMESTAMP] = i64(view, p + 18) if magic else -1
        rows[row + BASE_TIMESTAMP] = rows[row + MAX_TIMESTAMP]
        rows[row + PRODUCER_ID] = -1
        rows[row + PRODUCER_EPOCH] = -1
        rows[row + BASE_SEQUENCE] = -1
        rows[row + COUNT] = 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _take_in(
    rows: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    usual: cython.longlong[::1],
) -> cython.void:
    """Take the next batch into what all have in common (places ``U_``)."""
    base_offset: cython.longlong = rows[row + BASE_OFFSET]
    last_offset: cython.longlong = rows[row + LAST_OFFSET]
    attributes: cython.longlong = rows[row + ATTRIBUTES]
    timestamp: cython.longlong = rows[row + MAX_TIMESTAMP]
    if row == 0:
        usual[U_USUAL] = 1
        usual[U_FIRST_OFFSET] = base_offset
        usual[U_LAST_OFFSET] = base_offset - 1 if base_offset > 0 else -1
        usual[U_LEADER_EPOCH] = rows[row + LEADER_EPOCH]
        usual[U_LOWEST_TIMESTAMP] = usual[U_HIGHEST_TIMESTAMP] = timestamp
        usual[U_PRODUCERS] = 0
    if (
        rows[row + MAGIC] != 2
        or attributes & -32
        or attributes & CODEC_MASK > 4
        or base_offset < 0
        or base_offset - 1 != usual[U_LAST_OFFSET]
        or last_offset < base_offset
        or last_offset - base_offset != rows[row + COUNT] - 1
        or rows[row + LEADER_EPOCH] != usual[U_LEADER_EPOCH]
        or timestamp < 0
    ):
        usual[U_USUAL] = 0
    usual[U_LAST_OFFSET] = last_offset
    if timestamp < usual[U_LOWEST_TIMESTAMP]:
        usual[U_LOWEST_TIMESTAMP] = timestamp
    if timestamp > usual[U_HIGHEST_TIMESTAMP]:
        usual[U_HIGHEST_TIMESTAMP] = timestamp
    if rows[row + PRODUCER_ID] >= 0:
        usual[U_PRODUCERS] = 1


def read_header(
    view: cython.const[cython.uchar][::1], origin: cython.longlong, row: cython.longlong[::1]
) -> bool:
    """Write the header at ``view[0]``, sound or not, into ``row``; return False if it is cut."""
    need(BATCH_WIDTH, len(row), "a row")
    left: cython.Py_ssize_t = len(view)
    if left < PREFIX_BYTES or left < (
        HEADER_BYTES if magic_at(view, 0) > 1 else LEGACY_HEADER_BYTES
    ):
        return False
    _fill_row(view, 0, origin, i32(view, 8) + LOG_OVERHEAD, row, 0)
    return True


def scan_headers(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    file_size: cython.longlong,
    rows: cython.longlong[::1],
    pending: cython.longlong[::1],
    usual: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Read batch headers from ``view`` into ``rows``, and checksum the small batches.

    ``view[0]`` is the byte at ``origin`` of a file of ``file_size`` bytes. Row numbers of batches
    whose checksum is still to be compared go to ``pending``. A batch that reaches beyond the view
    ends the scan; only if it is the first does it get a row, which is pending. ``usual`` gets what
    all rows that were filled have in common (places ``U_``).

    Return (rows filled, rows pending, why it stopped).
    """
    need(USUAL_FIELDS, len(usual), "room for what is usual")
    need(0, origin, "an origin")
    need(0, file_size, "a file size")
    crc32c: cython.const[cython.uint][::1] = CRC32C_TABLE
    crc32: cython.const[cython.uint][::1] = CRC32_TABLE
    stop: cython.Py_ssize_t = len(view)
    small: cython.longlong = SMALL_BYTES
    room: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
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
        if left < PREFIX_BYTES:
            return n, waiting, TORN
        if stop - p < PREFIX_BYTES:
            return n, waiting, SHORT
        size = i32(view, p + 8) + LOG_OVERHEAD
        magic = magic_at(view, p)
        if size < LEGACY_HEADER_BYTES or (magic > 1 and size < HEADER_BYTES):
            return n, waiting, BAD_SIZE
        if size > left:
            return n, waiting, TORN
        if stop - p < (HEADER_BYTES if magic > 1 else LEGACY_HEADER_BYTES):
            return n, waiting, SHORT
        row = n * BATCH_WIDTH
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
                computed = crc(view, p + 21, p + size, crc32c)
            else:
                computed = crc(view, p + 16, p + size, crc32)
            if computed != rows[row + CRC]:
                return n, waiting, BAD_CRC
        _take_in(rows, row, usual)
        p += size
        n += 1
    return n, waiting, FULL


def touch(
    view: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> int:
    """Bring ``view[start:stop]`` into the processor's caches.

    One byte is read of every 64, in eight places at once: memory gives twice as much that way as to
    a checksum that goes over it from one end to the other. The sum that is returned says nothing;
    without it a compiler would leave the reading out.
    """
    need(0, start, "a start")
    need(stop, len(view), "a view")
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
    """Return the first place of ``pending``, from ``first`` on, whose batch fails its checksum.

    Also one not whole in ``data``, which is what ``scan_headers`` read; the length of ``pending``
    if there is none. ``crc32c`` computes the checksum of a piece of it, ``crc32`` that of a message
    of magic 0 or 1.
    """
    need(0, first, "a first place")
    view: cython.const[cython.uchar][::1] = data
    stop: cython.Py_ssize_t = len(view)
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    touched: cython.Py_ssize_t = 0 if COMPILED else stop
    place: cython.Py_ssize_t
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    stored: cython.longlong
    for place in range(first, len(pending)):
        within(0, pending[place], n - 1, "a pending row")
        row = pending[place] * BATCH_WIDTH
        start = rows[row + POSITION] - rows[POSITION]
        if start < 0 or rows[row + SIZE] > stop - start:
            return place
        end = start + rows[row + SIZE]
        if end > touched and end - start < _TOUCH_BELOW:
            touched = start + _TOUCHED_BYTES if start + _TOUCHED_BYTES < stop else stop
            touch(data, start, touched)
        stored = rows[row + CRC]
        if rows[row + MAGIC] > 1:
            if crc32c(data[start + 21 : end]) != stored:
                return place
        elif crc32(data[start + 16 : end]) != stored:
            return place
    return len(pending)


def tally(rows: cython.const[cython.longlong][::1], state: cython.longlong[::1]) -> None:
    """Fold the batches of ``rows``, in file order, into ``state`` (places ``T_``)."""
    need(TALLY_FIELDS, len(state), "a state")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
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
        state[T_FIRST_OFFSET] = rows[BASE_OFFSET]
    while row < n * BATCH_WIDTH:
        base_offset = rows[row + BASE_OFFSET]
        magic = rows[row + MAGIC]
        attributes = rows[row + ATTRIBUTES]
        if base_offset <= previous:
            if backwards == 0:
                backwards_at = rows[row + POSITION]
            backwards += 1
        elif base_offset != previous + 1 and joined and (magic > 1 or attributes & CODEC_MASK == 0):
            holes += 1
        joined = 1
        previous = rows[row + LAST_OFFSET]
        if previous < base_offset:
            if inverted == 0:
                inverted_at = rows[row + POSITION]
            inverted += 1
        size += rows[row + SIZE]
        if magic < 2:
            if attributes & CODEC_MASK:
                wrappers += 1
            else:
                records += 1
            if attributes & 244 or magic < 0:
                odd += 1
        else:
            if rows[row + COUNT] > 0:
                records += rows[row + COUNT]
            if attributes & CONTROL:
                control += 1
            elif 0 <= base_offset <= previous and previous - base_offset != rows[row + COUNT] - 1:
                miscounted += 1
            # Unused bits, the sign among them, and codecs above zstd.
            if attributes & -128 or attributes & CODEC_MASK > 4 or magic > 2:
                odd += 1
        if rows[row + MAX_TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + MAX_TIMESTAMP]
        row += BATCH_WIDTH
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
    """Return whether the header of a message of magic 0 or 1 may stand at ``view[p]``."""
    magic: cython.int = view[p + 16]
    attributes: cython.int = view[p + 17]
    key_at: cython.Py_ssize_t = p + 18 + 8 * magic
    size: cython.longlong = i32(view, p + 8) + LOG_OVERHEAD
    offset: cython.longlong
    key_size: cython.longlong
    # Codecs up to lz4; only magic 1 knows types of timestamps.
    if attributes & 244 or (magic == 0 and attributes & LOG_APPEND_TIME) or key_at + 4 > len(view):
        return False
    if size < LEGACY_HEADER_BYTES + 8 * magic or size > left:
        return False
    offset = i64(view, p)
    key_size = i32(view, key_at)
    if offset <= low or offset > high:
        return False
    # A wrapper has no key.
    return -1 <= key_size <= (-1 if attributes & 3 else size - LEGACY_HEADER_BYTES - 8 * magic)


def next_candidate(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    left: cython.longlong,
    low: cython.longlong,
    high: cython.longlong,
) -> int:
    """Return the first place in ``view[start:stop]`` where a plausible header stands, or -1.

    A header must lie whole in the view; ``left`` is the number of file bytes from ``view[0]`` on,
    and ``low < base offset <= last offset <= high``.
    """
    need(0, start, "a start")
    p: cython.Py_ssize_t
    size: cython.longlong
    base: cython.longlong
    delta: cython.longlong
    if stop > len(view) - LEGACY_HEADER_BYTES + 1:
        stop = len(view) - LEGACY_HEADER_BYTES + 1
    for p in range(start, stop):
        if view[p + 16] < 2:
            if _plausible_message(view, p, left - p, low, high):
                return p
            continue
        if view[p + 16] > 2 or p + HEADER_BYTES > len(view):
            continue
        if view[p + 21] != 0 or view[p + 22] & 128 or view[p + 22] & CODEC_MASK > 4:
            continue
        size = i32(view, p + 8) + LOG_OVERHEAD
        if size < HEADER_BYTES or size > left - p or i32(view, p + 57) < 0:
            continue
        base = i64(view, p)
        delta = i32(view, p + 23)
        if base > low and delta >= 0 and base <= high - delta:
            return p
    return -1
