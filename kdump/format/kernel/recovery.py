"""Recovery over batch headers: the rule that adds an index entry, and where recovery stops. Also
the loader's pass over a log that it does not check.

One source that runs as plain Python and compiles with Cython; it fills and reads 64-bit integers
and makes no object per batch.

Spec: ``LogSegment.recover``, ``OffsetIndex.append``, ``TimeIndex.maybeAppend``; for ``follow()``
``FileLogInputStream.nextBatch`` and ``FileRecords.searchForOffset*``; KOD 4.2 and 5.
It must never look at a record, or raise on any numbers.
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
    LEAST_MESSAGE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_64,
    MAX_TIMESTAMP,
    POSITION,
    PREFIX_BYTES,
    SIZE,
    add,
    i32,
    i64,
    need,
    within,
)

#: The state of recover(), carried from one table to the next. The entries of both indexes are
#: counted as they come, room says how many there may be; of a time index the last one is kept for
#: the end. INDEXED is the last indexed batch, at first the segment's start; FOUND says whether a
#: batch from there on begins at its offset or above.
RECOVERY_FIELDS = (
    "base", "origin", "interval", "index_room", "time_room", "valid_bytes", "last_offset",
    "indexed_at", "indexed_offset", "index_entries", "time_entries", "time_timestamp",
    "time_offset", "max_timestamp", "max_offset", "found", "outcome",
)  # fmt: skip
#: The state of count(): how many, and the range that they span; timestamps are -1 for none, and
#: legacy counts the batches of magic 0 and 1.
COUNT_FIELDS = (
    "batches", "records", "first", "last", "first_timestamp", "last_timestamp", "legacy",
)  # fmt: skip
#: The state of follow(): the offset looked for, whether there was a batch, the offset behind the
#: last one; whether a batch ends at the target or above, which releases up to 4.0 look for, and
#: whether one begins there, as later ones look.
FOLLOW_FIELDS = ("target", "begun", "next_offset", "reached", "passed")

# How recover() ended.
GOING = 0  # at the end of the table
OVERFLOW = 1  # a last offset that no index entry can say
DISORDER = 2  # an entry whose offset is not above the one before (InvalidOffsetException)
FULL = 3  # an entry for which an index has no room

# Why follow() stopped.
SHORT = 0  # the view ends before a header does
END = 1  # where the broker takes the log to end
CORRUPT = 2  # at a size that the broker raises CorruptRecordException for
WRAPPER = 3  # at a compressed message, which later releases read

# The places.
_R_BASE = RECOVERY_FIELDS.index("base")
_R_ORIGIN = RECOVERY_FIELDS.index("origin")
_R_INTERVAL = RECOVERY_FIELDS.index("interval")
_R_INDEX_ROOM = RECOVERY_FIELDS.index("index_room")
_R_TIME_ROOM = RECOVERY_FIELDS.index("time_room")
_R_VALID_BYTES = RECOVERY_FIELDS.index("valid_bytes")
_R_LAST_OFFSET = RECOVERY_FIELDS.index("last_offset")
_R_INDEXED_AT = RECOVERY_FIELDS.index("indexed_at")
_R_INDEXED_OFFSET = RECOVERY_FIELDS.index("indexed_offset")
_R_INDEX_ENTRIES = RECOVERY_FIELDS.index("index_entries")
_R_TIME_ENTRIES = RECOVERY_FIELDS.index("time_entries")
_R_TIME_TIMESTAMP = RECOVERY_FIELDS.index("time_timestamp")
_R_TIME_OFFSET = RECOVERY_FIELDS.index("time_offset")
_R_MAX_TIMESTAMP = RECOVERY_FIELDS.index("max_timestamp")
_R_MAX_OFFSET = RECOVERY_FIELDS.index("max_offset")
_R_FOUND = RECOVERY_FIELDS.index("found")
_R_OUTCOME = RECOVERY_FIELDS.index("outcome")
_C_BATCHES = COUNT_FIELDS.index("batches")
_C_RECORDS = COUNT_FIELDS.index("records")
_C_FIRST = COUNT_FIELDS.index("first")
_C_LAST = COUNT_FIELDS.index("last")
_C_FIRST_TIMESTAMP = COUNT_FIELDS.index("first_timestamp")
_C_LAST_TIMESTAMP = COUNT_FIELDS.index("last_timestamp")
_C_LEGACY = COUNT_FIELDS.index("legacy")
_F_TARGET = FOLLOW_FIELDS.index("target")
_F_BEGUN = FOLLOW_FIELDS.index("begun")
_F_NEXT_OFFSET = FOLLOW_FIELDS.index("next_offset")
_F_REACHED = FOLLOW_FIELDS.index("reached")
_F_PASSED = FOLLOW_FIELDS.index("passed")

_MAX_RELATIVE = 2147483647

_DELTA_END = 27


def recover(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    state: cython.longlong[::1],
    index: cython.longlong[::1],
    times: cython.longlong[::1],
) -> int:
    """Go on with a recovery over valid batches, from row ``first`` on.

    New entries are put as pairs into ``index`` (relative offset, position from ORIGIN) and
    ``times`` (timestamp, relative offset), from their start and as far as they have room: pass
    empty ones if the entries do not matter, else ones with two numbers a row. Return the row that
    it stopped at, for the reason in OUTCOME; the number of rows where it did not.
    """
    need(len(RECOVERY_FIELDS), len(state), "a state")
    need(0, first, "a first row")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    i: cython.Py_ssize_t = first
    row: cython.Py_ssize_t
    index_at: cython.Py_ssize_t = 0
    times_at: cython.Py_ssize_t = 0
    base: cython.longlong = state[_R_BASE]
    limit: cython.longlong = MAX_64
    origin: cython.longlong = state[_R_ORIGIN]
    index_room: cython.longlong = state[_R_INDEX_ROOM]
    time_room: cython.longlong = state[_R_TIME_ROOM]
    index_entries: cython.longlong = state[_R_INDEX_ENTRIES]
    time_entries: cython.longlong = state[_R_TIME_ENTRIES]
    time_timestamp: cython.longlong = state[_R_TIME_TIMESTAMP]
    time_offset: cython.longlong = state[_R_TIME_OFFSET]
    interval: cython.longlong = state[_R_INTERVAL]
    indexed_at: cython.longlong = state[_R_INDEXED_AT]
    indexed_offset: cython.longlong = state[_R_INDEXED_OFFSET]
    max_timestamp: cython.longlong = state[_R_MAX_TIMESTAMP]
    max_offset: cython.longlong = state[_R_MAX_OFFSET]
    found: cython.bint = state[_R_FOUND] != 0
    outcome: cython.longlong = GOING
    position: cython.longlong
    last_offset: cython.longlong
    if base <= MAX_64 - _MAX_RELATIVE:
        limit = base + _MAX_RELATIVE
    while i < n:
        row = i * BATCH_WIDTH
        last_offset = rows[row + LAST_OFFSET]
        if last_offset < base or last_offset > limit:
            outcome = OVERFLOW
            break
        if rows[row + MAX_TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + MAX_TIMESTAMP]
            max_offset = last_offset
        position = rows[row + POSITION]
        if position - indexed_at > interval:
            if index_entries >= index_room:
                outcome = FULL
                break
            if index_entries and last_offset <= indexed_offset:
                outcome = DISORDER
                break
            if index_at + 1 < len(index):
                index[index_at] = last_offset - base
                index[index_at + 1] = position - origin
                index_at += 2
            index_entries += 1
            indexed_offset = last_offset
            indexed_at = position
            found = False
            if time_entries >= time_room - 1:
                outcome = FULL
                break
            if time_entries and max_offset < time_offset:
                outcome = DISORDER
                break
            if max_timestamp > time_timestamp:
                if times_at + 1 < len(times):
                    times[times_at] = max_timestamp
                    times[times_at + 1] = max_offset - base
                    times_at += 2
                time_entries += 1
                time_timestamp = max_timestamp
                time_offset = max_offset
        if rows[row + BASE_OFFSET] >= indexed_offset:
            found = True
        i += 1
    if i > first:
        row = (i - 1) * BATCH_WIDTH
        state[_R_VALID_BYTES] = rows[row + POSITION] + rows[row + SIZE] - origin
        state[_R_LAST_OFFSET] = rows[row + LAST_OFFSET]
    state[_R_INDEX_ENTRIES] = index_entries
    state[_R_TIME_ENTRIES] = time_entries
    state[_R_TIME_TIMESTAMP] = time_timestamp
    state[_R_TIME_OFFSET] = time_offset
    state[_R_INDEXED_AT] = indexed_at
    state[_R_INDEXED_OFFSET] = indexed_offset
    state[_R_MAX_TIMESTAMP] = max_timestamp
    state[_R_MAX_OFFSET] = max_offset
    state[_R_FOUND] = found
    state[_R_OUTCOME] = outcome
    return i


def close_times(state: cython.longlong[::1], times: cython.longlong[::1]) -> bool:
    """End a recovery: add the largest timestamp to the time index if it is not there yet.

    The entry is put at the start of ``times``, if that is not empty. False, with OUTCOME as it must
    be, where the entry would not be above the one before.
    """
    need(len(RECOVERY_FIELDS), len(state), "a state")
    if state[_R_TIME_ENTRIES] and state[_R_MAX_OFFSET] < state[_R_TIME_OFFSET]:
        state[_R_OUTCOME] = DISORDER
        return False
    if state[_R_MAX_TIMESTAMP] > state[_R_TIME_TIMESTAMP]:
        if len(times) > 1:
            times[0] = state[_R_MAX_TIMESTAMP]
            times[1] = state[_R_MAX_OFFSET] - state[_R_BASE]
        state[_R_TIME_ENTRIES] += 1
        state[_R_TIME_TIMESTAMP] = state[_R_MAX_TIMESTAMP]
        state[_R_TIME_OFFSET] = state[_R_MAX_OFFSET]
    return True


def count(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.longlong[::1],
) -> None:
    """Add the batches from row ``first`` up to ``stop`` to ``state``.

    LAST says what stands before them.
    """
    need(len(COUNT_FIELDS), len(state), "a state")
    within(0, stop, len(rows) // BATCH_WIDTH, "a row to stop at")
    within(0, first, stop, "a first row")
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    records: cython.longlong = 0
    legacy: cython.longlong = 0
    lowest: cython.longlong = state[_C_FIRST]
    highest: cython.longlong = state[_C_LAST]
    first_timestamp: cython.longlong = state[_C_FIRST_TIMESTAMP]
    last_timestamp: cython.longlong = state[_C_LAST_TIMESTAMP]
    empty: cython.bint = state[_C_BATCHES] == 0
    last_offset: cython.longlong
    gap: cython.longlong
    timestamp: cython.longlong
    for i in range(first, stop):
        row = i * BATCH_WIDTH
        last_offset = rows[row + LAST_OFFSET]
        timestamp = rows[row + MAX_TIMESTAMP]
        if rows[row + MAGIC] < 2:
            # A wrapper gives its last message's offset alone.
            gap = 0
            if rows[row + ATTRIBUTES] & CODEC_MASK and last_offset > highest >= -1:
                gap = last_offset - highest - 1
            records += 1 + (gap if gap < _MAX_RELATIVE else _MAX_RELATIVE)
            legacy += 1
        elif rows[row + COUNT] > 0:
            records += rows[row + COUNT]
        if empty or rows[row + BASE_OFFSET] < lowest:
            lowest = rows[row + BASE_OFFSET]
        if empty or last_offset > highest:
            highest = last_offset
        empty = False
        if timestamp >= 0:
            if first_timestamp < 0 or timestamp < first_timestamp:
                first_timestamp = timestamp
            if timestamp > last_timestamp:
                last_timestamp = timestamp
    state[_C_BATCHES] += stop - first
    state[_C_RECORDS] += records
    state[_C_FIRST] = lowest
    state[_C_LAST] = highest
    state[_C_FIRST_TIMESTAMP] = first_timestamp
    state[_C_LAST_TIMESTAMP] = last_timestamp
    state[_C_LEGACY] += legacy


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _take(state: cython.longlong[::1], base: cython.longlong, last: cython.longlong) -> cython.void:
    state[_F_BEGUN] = 1
    state[_F_NEXT_OFFSET] = add(last, 1)
    if last >= state[_F_TARGET]:
        state[_F_REACHED] = 1
    if base >= state[_F_TARGET]:
        state[_F_PASSED] = 1


def follow(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    file_size: cython.longlong,
    state: cython.longlong[::1],
) -> tuple[int, int]:
    """Follow batch headers by their sizes alone, as a broker does that looks for TARGET.

    ``view[0]`` is the byte at ``origin`` of a file of ``file_size`` bytes. Return (how far it got
    in the view, why it stopped).
    """
    need(len(FOLLOW_FIELDS), len(state), "a state")
    need(0, origin, "an origin")
    need(0, file_size, "a file size")
    stop: cython.Py_ssize_t = len(view)
    p: cython.Py_ssize_t = 0
    left: cython.longlong
    size: cython.longlong
    base: cython.longlong
    last: cython.longlong
    magic: cython.int
    while True:
        left = file_size - origin - p
        if left <= PREFIX_BYTES:
            return p, END
        if stop - p < PREFIX_BYTES:
            return p, SHORT
        size = i32(view, p + 8)
        if size < LEAST_MESSAGE:
            return p, CORRUPT
        if left < LOG_OVERHEAD + size:
            return p, END
        magic = view[p + 16]
        base = last = i64(view, p)
        if 1 < magic < 128:
            if left < _DELTA_END:
                return p, CORRUPT
            if stop - p < _DELTA_END:
                return p, SHORT
            last = add(base, i32(view, p + 23))
        else:
            if left < PREFIX_BYTES + 1:
                return p, CORRUPT
            if stop - p < PREFIX_BYTES + 1:
                return p, SHORT
            if view[p + 17] & CODEC_MASK:
                return p, WRAPPER
        _take(state, base, last)
        p += LOG_OVERHEAD + size
        if p > stop:
            return p, SHORT


def take(state: cython.longlong[::1], base: cython.longlong, last: cython.longlong) -> None:
    """Add one batch to the state of follow(): a wrapper, whose base offset that cannot know."""
    need(len(FOLLOW_FIELDS), len(state), "a state")
    _take(state, base, last)
