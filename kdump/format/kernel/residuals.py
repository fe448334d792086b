"""The hot loops of manifests: headers of batches as differences from what is expected, and back.

What is expected of a batch follows from the batches before it. So most differences are 0. They are
written as numbers without a sign (zigzag), column by column, and each column as one plane for each
of its bytes: a compressor finds little to do.

Spec: ``DefaultRecordBatch``, ``LegacyRecord``; ``kdump.format.manifest.blocks`` for the columns.
It must never write beyond the views that it is given, or make an object per batch.
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
    LAST_OFFSET,
    LEADER_EPOCH,
    LEGACY_HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAX_32,
    MAX_64,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
    TWO_TO_32,
    add,
    i32,
    i64,
    need,
    put_i32,
    put_i64,
    sequence_at,
    within,
)

#: The fields that are columns: all but the position, which follows from the sizes.
COLUMNS = (
    "size", "base_offset", "last_offset", "leader_epoch", "magic", "crc", "attributes",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip
#: The producers whose next sequence is expected: as many numbers has a view of the caller twice.
PRODUCERS = 256
_SLOTS = 256

# The state of fold_index() and fold_times(), carried from one table of a segment to the next.
N_NEXT = 0  # the first entry that is not folded
N_ROW = 1  # the row of the entry before, counted from the start of the segment
N_FIRST_ROW = 2  # the number of the first row of the next table
N_UNMATCHED = 3  # 1 if an entry is about no row
INDEX_FIELDS = 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _subtract(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """Return the difference, wrapped to 64 bits."""
    if b == -MAX_64 - 1:
        return add(add(a, MAX_64), 1)
    return add(a, -b)


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
    return known[place + 1] if known[place] == producer_id + 1 else 0


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


def fold_headers(
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
        differences[row + BASE_OFFSET] = _subtract(rows[row + BASE_OFFSET], add(last_offset, 1))
        last_offset = rows[row + LAST_OFFSET]
        differences[row + LAST_OFFSET] = _subtract(
            _subtract(last_offset, rows[row + BASE_OFFSET]), rows[row + COUNT] - 1
        )
        differences[row + LEADER_EPOCH] = _subtract(rows[row + LEADER_EPOCH], epoch)
        epoch = rows[row + LEADER_EPOCH]
        differences[row + MAGIC] = _subtract(rows[row + MAGIC], magic)
        magic = rows[row + MAGIC]
        # The lower half of all sums is above, the upper half below zero: 4 bytes with the sign.
        differences[row + CRC] = rows[row + CRC]
        if rows[row + CRC] > 2147483647:
            differences[row + CRC] -= TWO_TO_32
        differences[row + ATTRIBUTES] = _subtract(rows[row + ATTRIBUTES], attributes)
        attributes = rows[row + ATTRIBUTES]
        differences[row + BASE_TIMESTAMP] = _subtract(rows[row + BASE_TIMESTAMP], timestamp)
        timestamp = rows[row + MAX_TIMESTAMP]
        differences[row + MAX_TIMESTAMP] = _subtract(timestamp, rows[row + BASE_TIMESTAMP])
        differences[row + PRODUCER_ID] = rows[row + PRODUCER_ID]
        differences[row + PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
        differences[row + BASE_SEQUENCE] = _subtract(
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
        delta = _subtract(rows[row + LAST_OFFSET], rows[row + BASE_OFFSET])
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


def unfold_headers(
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
    need(stop * BATCH_WIDTH, len(rows), "as many rows")
    need(2 * _SLOTS + 5, len(state), "a state")
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    # They begin at -1, 0, 2, 0 and 0, and the state with zeros.
    last_offset: cython.longlong = _subtract(state[2 * _SLOTS], 1)
    epoch: cython.longlong = state[2 * _SLOTS + 1]
    magic: cython.longlong = add(state[2 * _SLOTS + 2], 2)
    attributes: cython.longlong = state[2 * _SLOTS + 3]
    timestamp: cython.longlong = state[2 * _SLOTS + 4]
    for i in range(first, stop):
        row = i * BATCH_WIDTH
        rows[row + POSITION] = position
        rows[row + BASE_OFFSET] = add(rows[row + BASE_OFFSET], add(last_offset, 1))
        last_offset = add(
            rows[row + LAST_OFFSET], add(rows[row + BASE_OFFSET], _subtract(rows[row + COUNT], 1))
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
    state[2 * _SLOTS + 2] = _subtract(magic, 2)
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


def fold_index(
    rows: cython.const[cython.longlong][::1],
    index: cython.const[cython.uchar][::1],
    base_offset: cython.longlong,
    state: cython.longlong[::1],
    out: cython.longlong[::1],
) -> None:
    """Write what tells the entries of an offset index by ``rows`` into ``out``, two numbers each.

    These are the rows from the entry before to the row at whose start the entry points, and its
    offset above the last one of that batch. ``state`` has the places ``N_``.
    """
    need(INDEX_FIELDS, len(state), "a state")
    need(0, state[N_NEXT], "an entry")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    entries: cython.Py_ssize_t = len(index) // 8
    need(2 * entries, len(out), "room for entries")
    at: cython.Py_ssize_t = state[N_NEXT]
    row: cython.Py_ssize_t = 0
    position: cython.longlong
    while at < entries and not state[N_UNMATCHED]:
        position = i32(index, 8 * at + 4)
        while row < n and rows[row * BATCH_WIDTH + POSITION] < position:
            row += 1
        if row == n:
            break
        if rows[row * BATCH_WIDTH + POSITION] != position:
            state[N_UNMATCHED] = 1
            break
        out[2 * at] = state[N_FIRST_ROW] + row - state[N_ROW]
        state[N_ROW] = state[N_FIRST_ROW] + row
        out[2 * at + 1] = _subtract(
            add(base_offset, i32(index, 8 * at)), rows[row * BATCH_WIDTH + LAST_OFFSET]
        )
        at += 1
    state[N_NEXT] = at
    state[N_FIRST_ROW] += n


def unfold_index(
    rows: cython.const[cython.longlong][::1],
    folded: cython.const[cython.longlong][::1],
    base_offset: cython.longlong,
    state: cython.longlong[::1],
    out: cython.uchar[::1],
) -> None:
    """Write the entries of an offset index that are about ``rows``; the reverse of ``fold_index``.

    An entry before these rows, or one that no index holds, is unmatched.
    """
    need(INDEX_FIELDS, len(state), "a state")
    need(0, state[N_NEXT], "an entry")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    entries: cython.Py_ssize_t = len(folded) // 2
    need(8 * entries, len(out), "room for entries")
    at: cython.Py_ssize_t = state[N_NEXT]
    row: cython.longlong
    relative: cython.longlong
    while at < entries and not state[N_UNMATCHED]:
        row = _subtract(add(state[N_ROW], folded[2 * at]), state[N_FIRST_ROW])
        if row >= n:
            break
        if row < 0:
            state[N_UNMATCHED] = 1
            break
        relative = _subtract(
            add(rows[row * BATCH_WIDTH + LAST_OFFSET], folded[2 * at + 1]), base_offset
        )
        if (
            not -2147483647 - 1 <= relative <= 2147483647
            or rows[row * BATCH_WIDTH + POSITION] > 2147483647
        ):
            state[N_UNMATCHED] = 1
            break
        state[N_ROW] = state[N_FIRST_ROW] + row
        put_i32(out, 8 * at, relative)
        put_i32(out, 8 * at + 4, rows[row * BATCH_WIDTH + POSITION])
        at += 1
    state[N_NEXT] = at
    state[N_FIRST_ROW] += n


def fold_times(
    rows: cython.const[cython.longlong][::1],
    index: cython.const[cython.uchar][::1],
    base_offset: cython.longlong,
    state: cython.longlong[::1],
    out: cython.longlong[::1],
) -> None:
    """Write what tells the entries of a time index by ``rows`` into ``out``, two numbers each.

    These are the rows from the entry before to the next row with that largest timestamp, and the
    offset of the entry above the last one of that batch. ``state`` has the places ``N_``.
    """
    need(INDEX_FIELDS, len(state), "a state")
    need(0, state[N_NEXT], "an entry")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    entries: cython.Py_ssize_t = len(index) // 12
    need(2 * entries, len(out), "room for entries")
    at: cython.Py_ssize_t = state[N_NEXT]
    row: cython.Py_ssize_t = 0
    timestamp: cython.longlong
    while at < entries:
        timestamp = i64(index, 12 * at)
        while row < n and rows[row * BATCH_WIDTH + MAX_TIMESTAMP] != timestamp:
            row += 1
        if row == n:
            break
        out[2 * at] = state[N_FIRST_ROW] + row - state[N_ROW]
        state[N_ROW] = state[N_FIRST_ROW] + row
        out[2 * at + 1] = _subtract(
            add(base_offset, i32(index, 12 * at + 8)), rows[row * BATCH_WIDTH + LAST_OFFSET]
        )
        at += 1
    state[N_NEXT] = at
    state[N_FIRST_ROW] += n


def unfold_times(
    rows: cython.const[cython.longlong][::1],
    folded: cython.const[cython.longlong][::1],
    base_offset: cython.longlong,
    state: cython.longlong[::1],
    out: cython.uchar[::1],
) -> None:
    """Write the entries of a time index that are about ``rows``; the reverse of ``fold_times``."""
    need(INDEX_FIELDS, len(state), "a state")
    need(0, state[N_NEXT], "an entry")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    entries: cython.Py_ssize_t = len(folded) // 2
    need(12 * entries, len(out), "room for entries")
    at: cython.Py_ssize_t = state[N_NEXT]
    row: cython.longlong
    relative: cython.longlong
    while at < entries and not state[N_UNMATCHED]:
        row = _subtract(add(state[N_ROW], folded[2 * at]), state[N_FIRST_ROW])
        if row >= n:
            break
        relative = 0
        if row >= 0:
            relative = _subtract(
                add(rows[row * BATCH_WIDTH + LAST_OFFSET], folded[2 * at + 1]), base_offset
            )
        if row < 0 or not -2147483647 - 1 <= relative <= 2147483647:
            state[N_UNMATCHED] = 1
            break
        state[N_ROW] = state[N_FIRST_ROW] + row
        put_i64(out, 12 * at, rows[row * BATCH_WIDTH + MAX_TIMESTAMP])
        put_i32(out, 12 * at + 8, relative)
        at += 1
    state[N_NEXT] = at
    state[N_FIRST_ROW] += n
