"""The hot loops of other forms: records and headers for digests, headers for manifests.

What is made of records and headers is hashed by the caller. In a manifest a header is its
differences from what is expected after the batches before it: most are 0. They are written column
by column, each column as one plane for each byte of its numbers, which compresses well.

Spec: ``DefaultRecord``, ``LegacyRecord`` for what a record is (KOD 3.1, 3.2);
``kdump.format.manifest.blocks`` for the columns.
It must never write beyond the buffer that it is given, or make an object per record or batch.
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
    BASE_TIMESTAMP,
    BATCH_WIDTH,
    COUNT,
    CRC,
    HEADER_BYTES,
    HEADER_COUNT,
    HEADERS,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    LEADER_EPOCH,
    LEGACY_HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_32,
    MAX_64,
    MAX_TIMESTAMP,
    OFFSET,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_WIDTH,
    SIZE,
    TIMESTAMP,
    TWO_TO_32,
    VALUE,
    VALUE_SIZE,
    add,
    need,
    put_bytes,
    put_i32,
    put_i64,
    sequence_at,
    subtract,
    varint,
    within,
)

#: What fold_records() puts before the key of a record.
_FOLDED = 29

#: The fields that are columns: all but the position, which follows from the sizes.
COLUMNS = (
    "size", "base_offset", "last_offset", "leader_epoch", "magic", "crc", "attributes",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip
#: The producers whose next sequence is expected: as many numbers has a view of the caller twice.
PRODUCERS = 256
_SLOTS = 256


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
    """Write headers to ``out``; return where they end, -1 if they do not fit, -2 for none there."""
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(out)
    key: cython.Py_ssize_t
    key_size: cython.longlong
    size: cython.longlong
    while count > 0:
        if p < 0:
            return -2
        key_size, key = varint(block, p, stop, 32)
        if key == 0 or key_size < 0 or key_size > stop - key:
            return -2
        size, p = varint(block, key + key_size, stop, 32)
        if p == 0 or size > stop - p:
            return -2
        if key_size + (size if size > 0 else 0) > room - at - 8:
            return -1
        at = put_i32(out, at, key_size)
        at = put_i32(out, at, size if size >= 0 else -1)
        at = put_bytes(out, at, block, key, key_size)
        at = put_bytes(out, at, block, p, size)
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
    """Write records from row ``first`` on into ``out``, as many as fit, in a form without gaps.

    Each is its offset and timestamp (8 bytes, big-endian), 1 for LogAppendTime or 0, the sizes of
    its key and value and the number of its headers (4 bytes), the key, the value, and for each
    header two sizes and the bytes. A null has the size -1. ``legacy`` records have no headers.
    The caller guarantees that keys and values lie in ``block``, as they do where the kernel read
    them; headers are checked.

    Return (row reached, bytes put into ``out``).
    """
    need(0, first, "a first row")
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    room: cython.Py_ssize_t = len(out)
    used: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    headers: cython.longlong
    for i in range(first, n):
        row = i * RECORD_WIDTH
        key_size = rows[row + KEY_SIZE] if rows[row + KEY_SIZE] > 0 else 0
        value_size = rows[row + VALUE_SIZE] if rows[row + VALUE_SIZE] > 0 else 0
        headers = 0 if legacy else rows[row + HEADER_COUNT]
        if key_size + value_size > room - used - _FOLDED:
            return i, used
        at = put_i64(out, used, rows[row + OFFSET])
        at = put_i64(out, at, rows[row + TIMESTAMP])
        out[at] = 1 if log_append else 0
        at = put_i32(out, at + 1, key_size if rows[row + KEY_SIZE] >= 0 else -1)
        at = put_i32(out, at, value_size if rows[row + VALUE_SIZE] >= 0 else -1)
        at = put_i32(out, at, headers)
        at = put_bytes(out, at, block, rows[row + KEY], key_size)
        at = put_bytes(out, at, block, rows[row + VALUE], value_size)
        at = _fold_headers(block, rows[row + HEADERS], headers, out, at)
        if at == -2:
            raise ValueError(f"expected whole headers in {len(block)} bytes, found none in row {i}")
        if at < 0:
            return i, used
        used = at
    return n, used


def copy_headers(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Copy headers of batches from row ``first`` on into ``out``, as many as fit.

    ``view`` is the log from position ``origin`` on. A header has 61 bytes, before magic 2 the 26
    that a message has at least. The first header that ``view`` does not hold whole ends the copy.

    Return (row reached, bytes put into ``out``).
    """
    need(0, origin, "an origin")
    need(0, first, "a first row")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    stop: cython.Py_ssize_t = len(view)
    room: cython.Py_ssize_t = len(out)
    used: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    at: cython.longlong
    size: cython.longlong
    for i in range(first, n):
        row = i * BATCH_WIDTH
        size = HEADER_BYTES if rows[row + MAGIC] > 1 else LEGACY_HEADER_BYTES
        if rows[row + SIZE] < size:
            size = rows[row + SIZE]
        at = rows[row + POSITION]
        if at < origin or at - origin > stop - size or size > room - used:
            return i, used
        used = put_bytes(out, used, view, at - origin, size)
    return n, used


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(producer_id: cython.longlong) -> cython.Py_ssize_t:
    """Return the place of a producer among those whose next sequence is expected."""
    return (producer_id ^ producer_id >> 8 ^ producer_id >> 16) & (_SLOTS - 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _expected_sequence(
    producer_id: cython.longlong, known: cython.longlong[::1]
) -> cython.longlong:
    """Return the sequence that a producer's next batch should begin with, -1 without a producer."""
    place: cython.Py_ssize_t
    if producer_id < 0:
        return -1
    place = 2 * _slot(producer_id)
    # An id is kept plus one, so that a place of zeros is no producer's.
    return known[place + 1] if known[place] > 0 and known[place] - 1 == producer_id else 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _note_sequence(
    producer_id: cython.longlong,
    base_sequence: cython.longlong,
    base_offset: cython.longlong,
    last_offset: cython.longlong,
    known: cython.longlong[::1],
) -> cython.void:
    """Note the sequence after a batch as the one that is expected next."""
    place: cython.Py_ssize_t
    if 0 <= producer_id < MAX_64:
        place = 2 * _slot(producer_id)
        known[place] = producer_id + 1
        known[place + 1] = (sequence_at(base_sequence, base_offset, last_offset) + 1) & 2147483647


def subtract_expected(
    rows: cython.const[cython.longlong][::1],
    differences: cython.longlong[::1],
    known: cython.longlong[::1],
) -> None:
    """Write the differences of all ``rows`` into ``differences``, in the same places.

    ``known`` has 0 in all of its ``2 * PRODUCERS`` places. The place of a position gets 0.
    """
    need(len(rows), len(differences), "room for differences")
    need(2 * _SLOTS, len(known), "room for producers")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    last_offset: cython.longlong = -1
    epoch: cython.longlong = 0
    magic: cython.longlong = 2
    attributes: cython.longlong = 0
    timestamp: cython.longlong = 0
    for i in range(n):
        row = i * BATCH_WIDTH
        differences[row + POSITION] = 0
        differences[row + SIZE] = rows[row + SIZE]
        differences[row + BASE_OFFSET] = subtract(rows[row + BASE_OFFSET], add(last_offset, 1))
        last_offset = rows[row + LAST_OFFSET]
        differences[row + LAST_OFFSET] = subtract(
            subtract(last_offset, rows[row + BASE_OFFSET]), subtract(rows[row + COUNT], 1)
        )
        differences[row + LEADER_EPOCH] = subtract(rows[row + LEADER_EPOCH], epoch)
        epoch = rows[row + LEADER_EPOCH]
        differences[row + MAGIC] = subtract(rows[row + MAGIC], magic)
        magic = rows[row + MAGIC]
        # The lower half of all sums is above, the upper half below zero: 4 bytes with the sign.
        differences[row + CRC] = rows[row + CRC]
        if rows[row + CRC] > 2147483647:
            differences[row + CRC] -= TWO_TO_32
        differences[row + ATTRIBUTES] = subtract(rows[row + ATTRIBUTES], attributes)
        attributes = rows[row + ATTRIBUTES]
        differences[row + BASE_TIMESTAMP] = subtract(rows[row + BASE_TIMESTAMP], timestamp)
        timestamp = rows[row + MAX_TIMESTAMP]
        differences[row + MAX_TIMESTAMP] = subtract(timestamp, rows[row + BASE_TIMESTAMP])
        differences[row + PRODUCER_ID] = rows[row + PRODUCER_ID]
        differences[row + PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
        differences[row + BASE_SEQUENCE] = subtract(
            rows[row + BASE_SEQUENCE], _expected_sequence(rows[row + PRODUCER_ID], known)
        )
        _note_sequence(
            rows[row + PRODUCER_ID],
            rows[row + BASE_SEQUENCE],
            rows[row + BASE_OFFSET],
            last_offset,
            known,
        )
        differences[row + COUNT] = rows[row + COUNT]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _possible(
    rows: cython.const[cython.longlong][::1], row: cython.Py_ssize_t, end: cython.longlong
) -> cython.bint:
    """Return whether a header can hold the numbers of a row, and the batch ends by ``end``."""
    size: cython.longlong = rows[row + SIZE]
    magic: cython.longlong = rows[row + MAGIC]
    delta: cython.longlong
    if size > 2147483647 + LOG_OVERHEAD or size > end - rows[row + POSITION]:
        return False
    if rows[row + CRC] < 0 or rows[row + CRC] > MAX_32:
        return False
    if magic > 1:
        delta = subtract(rows[row + LAST_OFFSET], rows[row + BASE_OFFSET])
        return (
            size >= HEADER_BYTES
            and magic < 128
            and -2147483647 - 1 <= delta <= 2147483647
            and -2147483647 - 1 <= rows[row + LEADER_EPOCH] <= 2147483647
            and -32768 <= rows[row + ATTRIBUTES] <= 32767
            and -32768 <= rows[row + PRODUCER_EPOCH] <= 32767
            and -2147483647 - 1 <= rows[row + BASE_SEQUENCE] <= 2147483647
            and -2147483647 - 1 <= rows[row + COUNT] <= 2147483647
        )
    return (
        size >= LEGACY_HEADER_BYTES
        and magic >= -128
        and rows[row + LAST_OFFSET] == rows[row + BASE_OFFSET]
        and rows[row + LEADER_EPOCH] == -1
        and 0 <= rows[row + ATTRIBUTES] <= 255
        and rows[row + BASE_TIMESTAMP] == rows[row + MAX_TIMESTAMP]
        and (magic != 0 or rows[row + MAX_TIMESTAMP] == -1)
        and rows[row + PRODUCER_ID] == -1
        and rows[row + PRODUCER_EPOCH] == -1
        and rows[row + BASE_SEQUENCE] == -1
        and rows[row + COUNT] == 1
    )


def add_expected(
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    position: cython.longlong,
    end: cython.longlong,
    state: cython.longlong[::1],
) -> int:
    """Replace the differences in ``rows``, from row ``first`` up to ``stop``, by the headers.

    The first of these batches stands at ``position``, and none may reach beyond ``end``. ``state``
    has ``2 * PRODUCERS + 5`` places, all 0 before row 0, and carries what is expected from one call
    to the next. Return the first row that no header can hold; ``stop`` if all are possible.
    """
    need(0, first, "a first row")
    need(0, position, "a position")
    need(position, end, "an end")
    need(stop * BATCH_WIDTH, len(rows), "as many rows")
    need(2 * _SLOTS + 5, len(state), "a state")
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    # They begin at -1, 0, 2, 0 and 0, and the state with zeros.
    last_offset: cython.longlong = subtract(state[2 * _SLOTS], 1)
    epoch: cython.longlong = state[2 * _SLOTS + 1]
    magic: cython.longlong = add(state[2 * _SLOTS + 2], 2)
    attributes: cython.longlong = state[2 * _SLOTS + 3]
    timestamp: cython.longlong = state[2 * _SLOTS + 4]
    for i in range(first, stop):
        row = i * BATCH_WIDTH
        rows[row + POSITION] = position
        rows[row + BASE_OFFSET] = add(rows[row + BASE_OFFSET], add(last_offset, 1))
        last_offset = add(
            rows[row + LAST_OFFSET], add(rows[row + BASE_OFFSET], subtract(rows[row + COUNT], 1))
        )
        rows[row + LAST_OFFSET] = last_offset
        epoch = rows[row + LEADER_EPOCH] = add(rows[row + LEADER_EPOCH], epoch)
        magic = rows[row + MAGIC] = add(rows[row + MAGIC], magic)
        if rows[row + CRC] < 0:
            rows[row + CRC] += TWO_TO_32
        attributes = rows[row + ATTRIBUTES] = add(rows[row + ATTRIBUTES], attributes)
        rows[row + BASE_TIMESTAMP] = add(rows[row + BASE_TIMESTAMP], timestamp)
        timestamp = rows[row + MAX_TIMESTAMP] = add(
            rows[row + MAX_TIMESTAMP], rows[row + BASE_TIMESTAMP]
        )
        rows[row + BASE_SEQUENCE] = add(
            rows[row + BASE_SEQUENCE], _expected_sequence(rows[row + PRODUCER_ID], state)
        )
        if not _possible(rows, row, end):
            return i
        _note_sequence(
            rows[row + PRODUCER_ID],
            rows[row + BASE_SEQUENCE],
            rows[row + BASE_OFFSET],
            last_offset,
            state,
        )
        position += rows[row + SIZE]
    state[2 * _SLOTS] = add(last_offset, 1)
    state[2 * _SLOTS + 1] = epoch
    state[2 * _SLOTS + 2] = subtract(magic, 2)
    state[2 * _SLOTS + 3] = attributes
    state[2 * _SLOTS + 4] = timestamp
    return stop


def put_planes(
    numbers: cython.const[cython.longlong][::1],
    field: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    planes: cython.uchar[::1],
) -> int:
    """Write place ``field`` of all rows of ``width`` numbers into ``planes``; return how many.

    Plane k has byte k of the number of each row, which is written without its sign: 0, -1, 1, -2
    become 0, 1, 2, 3. There are as many planes as the largest number needs; room is needed for 8.
    """
    need(1, width, "a width")
    within(0, field, width - 1, "a field")
    n: cython.Py_ssize_t = len(numbers) // width
    need(8 * n, len(planes), "room for planes")
    number: cython.longlong
    folded: cython.ulonglong
    union: cython.ulonglong = 0
    i: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    for i in range(n):
        number = numbers[i * width + field]
        folded = number if number >= 0 else -(number + 1)
        union |= folded
    # The bit of the sign comes below those of the number.
    while count < 8 and union >> (8 * count - 1 if count else 0) > 0:
        count += 1
    if count == 0:
        for i in range(n):
            if numbers[i * width + field] < 0:
                count = 1
                break
    for i in range(n):
        number = numbers[i * width + field]
        folded = number if number >= 0 else -(number + 1)
        for k in range(count):
            if k == 0:
                planes[i] = (folded & 127) << 1 | (1 if number < 0 else 0)
            else:
                planes[k * n + i] = (folded >> (8 * k - 1)) & 255
    return count


def add_plane(
    plane: cython.const[cython.uchar][::1],
    k: cython.int,
    field: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    numbers: cython.longlong[::1],
) -> None:
    """Add plane ``k`` of a column to ``numbers``, whose numbers are without their sign till then.

    Planes come in the order from 1 up, and plane 0 last: it has the signs. Numbers begin with 0.
    """
    need(1, width, "a width")
    within(0, field, width - 1, "a field")
    within(0, k, 7, "a plane")
    n: cython.Py_ssize_t = len(plane)
    need(n * width, len(numbers), "as many rows")
    i: cython.Py_ssize_t
    byte: cython.longlong
    for i in range(n):
        byte = plane[i]
        if k:
            numbers[i * width + field] |= byte << (8 * k - 1)
        else:
            numbers[i * width + field] |= byte >> 1
            if byte & 1:
                numbers[i * width + field] = -numbers[i * width + field] - 1
