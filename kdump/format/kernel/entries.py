"""The hot loops over index entries: whether they rise, and what batches say of their promises.

Entries are compared with the batches that they speak of while these go by, a table at a time: both
are in file order, so one pass is enough.

Spec: ``OffsetIndex.lookup``, ``TimeIndex.lookup``, ``LogSegment.append``, ``findOffsetByTimestamp``
(KOD 4.3, checks 9, 10, 13). It must never make an object per entry or per batch, or raise on any
numbers.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH_WIDTH,
    CODEC_MASK,
    COUNT,
    LAST_OFFSET,
    MAGIC,
    MAX_64,
    MAX_TIMESTAMP,
    POSITION,
    SIZE,
    add,
    i32,
    i64,
    need,
    put_i32,
    put_i64,
    subtract,
)

# What becomes of an entry.
FITS = 0
UNJUDGED = 1  # no sound batch is there to judge it by
MISPLACED = 2  # its position is not the start of a batch
SKIPS = 3  # what it answers for begins before the place that it leads to
UNMATCHED = 4  # no batch up to its own has a timestamp that large
BEYOND = 5  # its position lies at or behind the end of the log
KINDS = 6

#: How many entries of each kind are listed; all are counted.
LISTED = 8
#: Room for them: of each kind so many (number of the entry, what it was compared with).
FOUND_NUMBERS = 2 * KINDS * LISTED

# The state of judge_offsets() and judge_times(), carried from one table to the next.
J_NEXT = 0  # number of the first entry that is not judged yet
J_STOP = 1  # entries from this number on are not to be judged
J_PREVIOUS = 2  # last offset of the batch before; at first, one below the segment's base
J_DAMAGED = 3  # whether something before could not be read
J_MAX_TIMESTAMP = 4  # of all batches; from here on of judge_times() alone
J_RECORD_TIMESTAMP = 5  # the largest of batches that hold records
J_LOWEST_MAGIC = 6
J_HIGHEST_MAGIC = 7
J_COUNTS = 8  # how many entries are of each kind
STATE_FIELDS = 14

# The state of fold_index() and fold_times(), carried from one table of a segment to the next.
N_NEXT = 0  # the first entry that is not folded
N_ROW = 1  # the row of the entry before, counted from the start of the segment
N_FIRST_ROW = 2  # the number of the first row of the next table
N_UNMATCHED = 3  # 1 if an entry is about no row
INDEX_FIELDS = 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _note(
    state: cython.longlong[::1],
    found: cython.longlong[::1],
    kind: cython.Py_ssize_t,
    number: cython.longlong,
    reference: cython.longlong,
) -> cython.void:
    """Count an entry, and list it if it is among the first of its kind."""
    place: cython.longlong = state[J_COUNTS + kind]
    if 0 <= place < LISTED:
        place = 2 * (kind * LISTED + place)
        found[place] = number
        found[place + 1] = reference
    state[J_COUNTS + kind] += 1


def disorder_of_offsets(
    offsets: cython.const[cython.int][::1],
    positions: cython.const[cython.int][::1],
    first: cython.longlong[::1],
) -> int:
    """Count the entries whose offset or position is not above that of the entry before.

    The numbers of the first of them go to ``first``, as many as it has room for.
    """
    need(len(offsets), len(positions), "as many positions")
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(1, len(offsets)):
        if offsets[i] <= offsets[i - 1] or positions[i] <= positions[i - 1]:
            if n < len(first):
                first[n] = i
            n += 1
    return n


def disorder_of_times(
    timestamps: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.int][::1],
    first: cython.longlong[::1],
) -> int:
    """Count the entries whose timestamp is not above, or offset below, that of the entry before.

    The numbers of the first of them go to ``first``, as many as it has room for.
    """
    need(len(timestamps), len(offsets), "as many offsets")
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(1, len(timestamps)):
        if timestamps[i] <= timestamps[i - 1] or offsets[i] < offsets[i - 1]:
            if n < len(first):
                first[n] = i
            n += 1
    return n


def judge_offsets(
    rows: cython.const[cython.longlong][::1],
    base_offset: cython.longlong,
    offsets: cython.const[cython.int][::1],
    positions: cython.const[cython.int][::1],
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> None:
    """Judge the entries of an ``.index`` that lead into the batches of ``rows``.

    The entries up to ``J_STOP`` rise, and so do the batches. One that leads behind its offset makes
    lookups skip; it is listed with the last offset before its position, a misplaced one with the
    position of the batch that it leads into (of the first one, if it is negative). Where the
    offsets of the log itself do not rise nothing can be said.
    """
    need(STATE_FIELDS, len(state), "a state")
    need(FOUND_NUMBERS, len(found), "room for entries")
    need(0, state[J_NEXT], "a next entry")
    need(state[J_STOP], len(offsets), "as many offsets")
    need(state[J_STOP], len(positions), "as many positions")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    number: cython.longlong = state[J_NEXT]
    stop: cython.longlong = state[J_STOP]
    previous: cython.longlong
    position: cython.longlong
    end: cython.longlong
    row: cython.Py_ssize_t = 0
    step: cython.Py_ssize_t
    at: cython.Py_ssize_t
    if n == 0:
        return
    at = (n - 1) * BATCH_WIDTH
    end = rows[at + POSITION] + rows[at + SIZE]
    while number < stop and positions[number] < end:
        position = positions[number]
        # Mostly the batch is near the one before: steps that double, then halve.
        step = 1
        while row + step < n and rows[(row + step) * BATCH_WIDTH + POSITION] <= position:
            row += step
            step *= 2
        while step > 0:
            if row + step < n and rows[(row + step) * BATCH_WIDTH + POSITION] <= position:
                row += step
            step //= 2
        at = row * BATCH_WIDTH
        previous = state[J_PREVIOUS]
        if row > 0:
            previous = rows[at - BATCH_WIDTH + LAST_OFFSET]
        if rows[at + POSITION] != position:
            _note(state, found, MISPLACED, number, rows[at + POSITION])
        elif previous >= rows[at + BASE_OFFSET]:
            _note(state, found, UNJUDGED, number, previous)
        elif add(base_offset, offsets[number]) <= previous:
            _note(state, found, SKIPS, number, previous)
        else:
            _note(state, found, FITS, number, previous)
        number += 1
    state[J_NEXT] = number
    state[J_PREVIOUS] = rows[(n - 1) * BATCH_WIDTH + LAST_OFFSET]


def pass_over(
    positions: cython.const[cython.int][::1],
    position: cython.longlong,
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> None:
    """Leave the entries of an ``.index`` that lead before ``position`` unjudged."""
    need(STATE_FIELDS, len(state), "a state")
    need(FOUND_NUMBERS, len(found), "room for entries")
    need(0, state[J_NEXT], "a next entry")
    need(state[J_STOP], len(positions), "as many positions")
    number: cython.longlong = state[J_NEXT]
    stop: cython.longlong = state[J_STOP]
    while number < stop and positions[number] < position:
        _note(state, found, UNJUDGED, number, position)
        number += 1
    state[J_NEXT] = number


def judge_times(
    rows: cython.const[cython.longlong][::1],
    base_offset: cython.longlong,
    timestamps: cython.const[cython.longlong][::1],
    offsets: cython.const[cython.int][::1],
    state: cython.longlong[::1],
    found: cython.longlong[::1],
) -> None:
    """Judge the entries of a ``.timeindex`` that speak of the batches of ``rows``, and sum these.

    The entries up to ``J_STOP`` rise. One that has records with a later timestamp before its own
    batch makes lookups by time skip them; it is listed with that timestamp. One whose own batch,
    and all before it, have lower timestamps is unmatched, unless damage may hide the one that has
    it; it is listed with the largest of them. Batches without records count for no lookup, but the
    broker's largest timestamp may come from one.
    """
    need(STATE_FIELDS, len(state), "a state")
    need(FOUND_NUMBERS, len(found), "room for entries")
    need(0, state[J_NEXT], "a next entry")
    need(state[J_STOP], len(timestamps), "as many timestamps")
    need(state[J_STOP], len(offsets), "as many offsets")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    place: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    number: cython.longlong = state[J_NEXT]
    stop: cython.longlong = state[J_STOP]
    damaged: cython.bint = state[J_DAMAGED] != 0
    previous: cython.longlong = state[J_PREVIOUS]
    largest: cython.longlong = state[J_MAX_TIMESTAMP]
    of_records: cython.longlong = state[J_RECORD_TIMESTAMP]
    lowest: cython.longlong = state[J_LOWEST_MAGIC]
    highest: cython.longlong = state[J_HIGHEST_MAGIC]
    before: cython.longlong
    first: cython.longlong
    last: cython.longlong
    offset: cython.longlong = add(base_offset, offsets[number]) if number < stop else MAX_64
    magic: cython.longlong
    timestamp: cython.longlong
    for place in range(n):
        row = place * BATCH_WIDTH
        last = rows[row + LAST_OFFSET]
        magic = rows[row + MAGIC]
        timestamp = rows[row + MAX_TIMESTAMP]
        before = of_records
        if magic < lowest:
            lowest = magic
        if magic > highest:
            highest = magic
        if timestamp > largest:
            largest = timestamp
        if timestamp > of_records and (magic < 2 or rows[row + COUNT] > 0):
            of_records = timestamp
        while offset <= last and number < stop:
            first = rows[row + BASE_OFFSET]
            if magic < 2 and rows[row + ATTRIBUTES] & CODEC_MASK and previous < first:
                first = previous + 1  # a wrapper's header says only where it ends
            if timestamps[number] < before:
                _note(state, found, SKIPS, number, before)
            elif offset < first:
                _note(state, found, UNJUDGED, number, first)
            elif timestamps[number] > largest and not damaged:
                _note(state, found, UNMATCHED, number, largest)
            else:
                _note(state, found, FITS, number, largest)
            number += 1
            offset = add(base_offset, offsets[number]) if number < stop else MAX_64
        previous = last
    state[J_NEXT] = number
    state[J_PREVIOUS] = previous
    state[J_MAX_TIMESTAMP] = largest
    state[J_RECORD_TIMESTAMP] = of_records
    state[J_LOWEST_MAGIC] = lowest
    state[J_HIGHEST_MAGIC] = highest


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
        out[2 * at + 1] = subtract(
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
        row = subtract(add(state[N_ROW], folded[2 * at]), state[N_FIRST_ROW])
        if row >= n:
            break
        if row < 0:
            state[N_UNMATCHED] = 1
            break
        relative = subtract(
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
        out[2 * at + 1] = subtract(
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
        row = subtract(add(state[N_ROW], folded[2 * at]), state[N_FIRST_ROW])
        if row >= n:
            break
        relative = 0
        if row >= 0:
            relative = subtract(
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
