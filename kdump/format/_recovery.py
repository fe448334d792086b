"""Recovery's loop over batch headers, and the loader's over a log that it does not check.

One source that runs as plain Python and compiles with Cython; it fills and reads 64-bit integers
and makes no object per batch.

Spec: ``LogSegment.recover``, ``OffsetIndex.append``, ``TimeIndex.maybeAppend``; for ``follow()``
``FileLogInputStream.nextBatch`` and ``FileRecords.searchForOffset*``; KOD 4.2 and 5.
It must never import anything of kdump, look at a record, or raise on any numbers.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import _nocython as cython

#: Whether the functions below run compiled.
COMPILED: bool = cython.compiled

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

# Places and endings once more as C integers, which Python code cannot see in the compiled module.
_R_BASE = cython.declare(cython.int, 0)
_R_ORIGIN = cython.declare(cython.int, 1)
_R_INTERVAL = cython.declare(cython.int, 2)
_R_INDEX_ROOM = cython.declare(cython.int, 3)
_R_TIME_ROOM = cython.declare(cython.int, 4)
_R_VALID_BYTES = cython.declare(cython.int, 5)
_R_LAST_OFFSET = cython.declare(cython.int, 6)
_R_INDEXED_AT = cython.declare(cython.int, 7)
_R_INDEXED_OFFSET = cython.declare(cython.int, 8)
_R_INDEX_ENTRIES = cython.declare(cython.int, 9)
_R_TIME_ENTRIES = cython.declare(cython.int, 10)
_R_TIME_TIMESTAMP = cython.declare(cython.int, 11)
_R_TIME_OFFSET = cython.declare(cython.int, 12)
_R_MAX_TIMESTAMP = cython.declare(cython.int, 13)
_R_MAX_OFFSET = cython.declare(cython.int, 14)
_R_FOUND = cython.declare(cython.int, 15)
_R_OUTCOME = cython.declare(cython.int, 16)
_C_BATCHES = cython.declare(cython.int, 0)
_C_RECORDS = cython.declare(cython.int, 1)
_C_FIRST = cython.declare(cython.int, 2)
_C_LAST = cython.declare(cython.int, 3)
_C_FIRST_TIMESTAMP = cython.declare(cython.int, 4)
_C_LAST_TIMESTAMP = cython.declare(cython.int, 5)
_C_LEGACY = cython.declare(cython.int, 6)
_F_TARGET = cython.declare(cython.int, 0)
_F_BEGUN = cython.declare(cython.int, 1)
_F_NEXT_OFFSET = cython.declare(cython.int, 2)
_F_REACHED = cython.declare(cython.int, 3)
_F_PASSED = cython.declare(cython.int, 4)
_GOING = cython.declare(cython.int, 0)
_OVERFLOW = cython.declare(cython.int, 1)
_DISORDER = cython.declare(cython.int, 2)
_FULL = cython.declare(cython.int, 3)
_SHORT = cython.declare(cython.int, 0)
_END = cython.declare(cython.int, 1)
_CORRUPT = cython.declare(cython.int, 2)
_WRAPPER = cython.declare(cython.int, 3)
_POSITION = cython.declare(cython.int, 0)
_SIZE = cython.declare(cython.int, 1)
_BASE_OFFSET = cython.declare(cython.int, 2)
_LAST_OFFSET = cython.declare(cython.int, 3)
_MAGIC = cython.declare(cython.int, 5)
_ATTRIBUTES = cython.declare(cython.int, 7)
_MAX_TIMESTAMP = cython.declare(cython.int, 9)
_COUNT = cython.declare(cython.int, 13)
_BATCH_FIELDS = cython.declare(cython.int, 14)

_MAX_RELATIVE = cython.declare(cython.longlong, 2147483647)
_2_TO_32 = cython.declare(cython.longlong, 4294967296)
_MAX_64 = cython.declare(cython.longlong, 9223372036854775807)

_PREFIX = cython.declare(cython.int, 17)
_LOG_OVERHEAD = cython.declare(cython.int, 12)
_LEAST_SIZE = cython.declare(cython.int, 14)
_DELTA_END = cython.declare(cython.int, 27)


def recover(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    state: cython.longlong[::1],
    index: cython.longlong[::1],
    times: cython.longlong[::1],
) -> int:
    """Goes on with a recovery over valid batches, from row ``first`` on.

    New entries are put as pairs into ``index`` (relative offset, position from ORIGIN) and
    ``times`` (timestamp, relative offset), from their start and as far as they have room: pass
    empty ones if the entries do not matter, else ones with two numbers a row. Returns the row that
    it stopped at, for the reason in OUTCOME; the number of rows where it did not.
    """
    n: cython.Py_ssize_t = len(rows) // _BATCH_FIELDS
    i: cython.Py_ssize_t = first
    row: cython.Py_ssize_t
    index_at: cython.Py_ssize_t = 0
    times_at: cython.Py_ssize_t = 0
    base: cython.longlong = state[_R_BASE]
    limit: cython.longlong = _MAX_64
    interval: cython.longlong = state[_R_INTERVAL]
    indexed_at: cython.longlong = state[_R_INDEXED_AT]
    indexed_offset: cython.longlong = state[_R_INDEXED_OFFSET]
    max_timestamp: cython.longlong = state[_R_MAX_TIMESTAMP]
    max_offset: cython.longlong = state[_R_MAX_OFFSET]
    found: cython.bint = state[_R_FOUND] != 0
    outcome: cython.longlong = _GOING
    position: cython.longlong
    last_offset: cython.longlong
    if base <= _MAX_64 - _MAX_RELATIVE:
        limit = base + _MAX_RELATIVE
    while i < n:
        row = i * _BATCH_FIELDS
        last_offset = rows[row + _LAST_OFFSET]
        if last_offset < base or last_offset > limit:
            outcome = _OVERFLOW
            break
        if rows[row + _MAX_TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + _MAX_TIMESTAMP]
            max_offset = last_offset
        position = rows[row + _POSITION]
        if position - indexed_at > interval:
            if state[_R_INDEX_ENTRIES] >= state[_R_INDEX_ROOM]:
                outcome = _FULL
                break
            if state[_R_INDEX_ENTRIES] and last_offset <= indexed_offset:
                outcome = _DISORDER
                break
            if index_at + 1 < len(index):
                index[index_at] = last_offset - base
                index[index_at + 1] = position - state[_R_ORIGIN]
                index_at += 2
            state[_R_INDEX_ENTRIES] += 1
            indexed_offset = last_offset
            indexed_at = position
            found = False
            if state[_R_TIME_ENTRIES] >= state[_R_TIME_ROOM] - 1:
                outcome = _FULL
                break
            if state[_R_TIME_ENTRIES] and max_offset < state[_R_TIME_OFFSET]:
                outcome = _DISORDER
                break
            if max_timestamp > state[_R_TIME_TIMESTAMP]:
                if times_at + 1 < len(times):
                    times[times_at] = max_timestamp
                    times[times_at + 1] = max_offset - base
                    times_at += 2
                state[_R_TIME_ENTRIES] += 1
                state[_R_TIME_TIMESTAMP] = max_timestamp
                state[_R_TIME_OFFSET] = max_offset
        if rows[row + _BASE_OFFSET] >= indexed_offset:
            found = True
        i += 1
    if i > first:
        row = (i - 1) * _BATCH_FIELDS
        state[_R_VALID_BYTES] = rows[row + _POSITION] + rows[row + _SIZE] - state[_R_ORIGIN]
        state[_R_LAST_OFFSET] = rows[row + _LAST_OFFSET]
    state[_R_INDEXED_AT] = indexed_at
    state[_R_INDEXED_OFFSET] = indexed_offset
    state[_R_MAX_TIMESTAMP] = max_timestamp
    state[_R_MAX_OFFSET] = max_offset
    state[_R_FOUND] = found
    state[_R_OUTCOME] = outcome
    return i


def close_times(state: cython.longlong[::1], times: cython.longlong[::1]) -> bool:
    """Ends a recovery: adds the largest timestamp to the time index if it is not there yet.

    The entry is put at the start of ``times``, if that is not empty. False, with OUTCOME as it must
    be, where the entry would not be above the one before.
    """
    if state[_R_TIME_ENTRIES] and state[_R_MAX_OFFSET] < state[_R_TIME_OFFSET]:
        state[_R_OUTCOME] = _DISORDER
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
    """Adds the batches from row ``first`` up to ``stop`` to ``state``.

    LAST says what stands before them.
    """
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
        row = i * _BATCH_FIELDS
        last_offset = rows[row + _LAST_OFFSET]
        timestamp = rows[row + _MAX_TIMESTAMP]
        if rows[row + _MAGIC] < 2:
            # A wrapper gives its last message's offset alone.
            gap = 0
            if rows[row + _ATTRIBUTES] & 7 and last_offset > highest >= -1:
                gap = last_offset - highest - 1
            records += 1 + (gap if gap < _MAX_RELATIVE else _MAX_RELATIVE)
            legacy += 1
        elif rows[row + _COUNT] > 0:
            records += rows[row + _COUNT]
        if empty or rows[row + _BASE_OFFSET] < lowest:
            lowest = rows[row + _BASE_OFFSET]
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
def _i32(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = data[p]
    value: cython.longlong = high << 24 | data[p + 1] << 16 | data[p + 2] << 8 | data[p + 3]
    return value - _2_TO_32 if value > _MAX_RELATIVE else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i64(data: cython.const[cython.uchar][::1], p: cython.Py_ssize_t) -> cython.longlong:
    low: cython.longlong = _i32(data, p + 4)
    return _i32(data, p) * _2_TO_32 + (low + _2_TO_32 if low < 0 else low)


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
def _take(state: cython.longlong[::1], base: cython.longlong, last: cython.longlong) -> cython.void:
    state[_F_BEGUN] = 1
    state[_F_NEXT_OFFSET] = _add(last, 1)
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
    """Follows batch headers by their sizes alone, as a broker does that looks for TARGET.

    ``view[0]`` is the byte at ``origin`` of a file of ``file_size`` bytes. Returns (how far it got
    in the view, why it stopped).
    """
    stop: cython.Py_ssize_t = len(view)
    p: cython.Py_ssize_t = 0
    left: cython.longlong
    size: cython.longlong
    base: cython.longlong
    last: cython.longlong
    magic: cython.int
    while True:
        left = file_size - origin - p
        if left <= _PREFIX:
            return p, _END
        if stop - p < _PREFIX:
            return p, _SHORT
        size = _i32(view, p + 8)
        if size < _LEAST_SIZE:
            return p, _CORRUPT
        if left < _LOG_OVERHEAD + size:
            return p, _END
        magic = view[p + 16]
        base = last = _i64(view, p)
        if 1 < magic < 128:
            if left < _DELTA_END:
                return p, _CORRUPT
            if stop - p < _DELTA_END:
                return p, _SHORT
            last = _add(base, _i32(view, p + 23))
        else:
            if left < _PREFIX + 1:
                return p, _CORRUPT
            if stop - p < _PREFIX + 1:
                return p, _SHORT
            if view[p + 17] & 7:
                return p, _WRAPPER
        _take(state, base, last)
        p += _LOG_OVERHEAD + size
        if p > stop:
            return p, _SHORT


def take(state: cython.longlong[::1], base: cython.longlong, last: cython.longlong) -> None:
    """Adds one batch to the state of follow(): a wrapper, whose base offset that cannot know."""
    _take(state, base, last)
