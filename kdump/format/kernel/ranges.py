"""The hot loops over offsets: rows within ranges, and the ranges that rows form.

Rows are kept by moving them together in place, as in ``select``. A range is a first and a last
offset, both included; ranges ascend.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` for committed batches (KIP-98).
It must never make an object per row.
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
    CONTROL,
    COUNT,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAGIC,
    OFFSET,
    PRODUCER_ID,
    RECORD_WIDTH,
    TIMESTAMP,
    TRANSACTIONAL,
    add,
    move_row,
    need,
    within,
)

# The row of a stretch: offsets without a gap under one leader epoch.
STRETCH_FIELDS = ("first", "last", "epoch")
STRETCH_WIDTH = 3
# The row of a transaction that is left out: its producer, and the range of its offsets.
LEFT_OUT_FIELDS = ("producer", "first", "last")
LEFT_OUT_WIDTH = 3
# The row of neighbours among records: those from row ``first`` up to ``stop`` are of one hour.
HOUR_FIELDS = ("hour", "first", "stop")
HOUR_WIDTH = 3
HOUR_MS = 3_600_000


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _range_of(
    offset: cython.longlong, ranges: cython.const[cython.longlong][::1]
) -> cython.Py_ssize_t:
    """Return the last of ``ranges`` that begins at ``offset`` or before it; -1 without one."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(ranges) // 2
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) >> 1
        if ranges[2 * middle] <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


@cython.cfunc
@cython.exceptval(-1)
def _need_starts(
    starts: cython.const[cython.longlong][::1],
    batches: cython.Py_ssize_t,
    records: cython.Py_ssize_t,
) -> cython.int:
    """Refuse starts that are not those of so many batches within so many records."""
    batch: cython.Py_ssize_t
    need(batches + 1, len(starts), "as many starts")
    within(0, starts[0], records, "the start of a batch")
    for batch in range(batches):
        within(starts[batch], starts[batch + 1], records, "the end of a batch")
    return 0


def keep_in_ranges(
    rows: cython.longlong[::1],
    starts: cython.longlong[::1],
    batches: cython.longlong[::1],
    below: cython.longlong,
    ranges: cython.const[cython.longlong][::1],
    most: cython.longlong,
) -> int:
    """Keep the records in ``ranges`` and below offset ``below``, at most the first ``most``.

    Keep the batches that hold such a record. ``rows`` are of ``RECORD_FIELDS``, ``batches`` of
    ``BATCH_FIELDS``; the records of a batch are those from its number in ``starts`` up to the next
    one. Return how many batches were kept; the number of ``starts`` behind them counts the records.
    """
    count: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    records: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    batch: cython.Py_ssize_t
    record: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    found: cython.Py_ssize_t
    current: cython.Py_ssize_t = -1
    full: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    offset: cython.longlong
    _need_starts(starts, count, records)
    start = starts[0]
    starts[0] = 0
    for batch in range(count):
        stop = starts[batch + 1]
        found = filled
        for record in range(start, stop):
            offset = rows[record * RECORD_WIDTH + OFFSET]
            if offset >= below or filled >= most:
                continue
            # Most offsets lie in the range of the one before.
            if current < 0 or offset < ranges[2 * current] or offset > ranges[2 * current + 1]:
                current = _range_of(offset, ranges)
                if current < 0 or offset > ranges[2 * current + 1]:
                    continue
            move_row(rows, filled * RECORD_WIDTH, record * RECORD_WIDTH, RECORD_WIDTH)
            filled += 1
        start = stop
        if filled > found:
            move_row(batches, full * BATCH_WIDTH, batch * BATCH_WIDTH, BATCH_WIDTH)
            full += 1
            starts[full] = filled
    return full


def keep_committed(
    rows: cython.longlong[::1],
    below: cython.longlong,
    left_out: cython.const[cython.longlong][::1],
) -> int:
    """Keep the batches that a consumer of committed records gets, below offset ``below``.

    ``left_out`` has rows of ``LEFT_OUT_FIELDS``, ascending: batches of a transaction whose base
    offset lies in a range of its producer are left out. Messages of magic 0 and 1 stay, wherever
    they are. Return how many were kept.
    """
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    place: cython.Py_ssize_t
    row: cython.Py_ssize_t
    filled: cython.Py_ssize_t = 0
    attributes: cython.longlong
    offset: cython.longlong
    for place in range(n):
        row = place * BATCH_WIDTH
        if rows[row + MAGIC] > 1:
            attributes = rows[row + ATTRIBUTES]
            offset = rows[row + BASE_OFFSET]
            if attributes & CONTROL or offset >= below:
                continue
            if attributes & TRANSACTIONAL and _is_left_out(
                rows[row + PRODUCER_ID], offset, left_out
            ):
                continue
        move_row(rows, filled, row, BATCH_WIDTH)
        filled += BATCH_WIDTH
    return filled // BATCH_WIDTH


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_left_out(
    producer: cython.longlong,
    offset: cython.longlong,
    left_out: cython.const[cython.longlong][::1],
) -> cython.bint:
    """Return whether ``offset`` lies in a range of ``producer``."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(left_out) // LEFT_OUT_WIDTH
    middle: cython.Py_ssize_t
    row: cython.Py_ssize_t
    # Behind the last transaction of the producer that begins at the offset or before it.
    while low < high:
        middle = (low + high) >> 1
        row = middle * LEFT_OUT_WIDTH
        if left_out[row] < producer or (left_out[row] == producer and left_out[row + 1] <= offset):
            low = middle + 1
        else:
            high = middle
    row = (low - 1) * LEFT_OUT_WIDTH
    return low > 0 and left_out[row] == producer and offset <= left_out[row + 2]


def offset_bounds(
    rows: cython.const[cython.longlong][::1],
) -> tuple[cython.longlong, cython.longlong]:
    """Return the lowest and the highest offset of ``rows`` of ``RECORD_FIELDS``, at least one."""
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    record: cython.Py_ssize_t
    offset: cython.longlong
    need(1, n, "records")
    low: cython.longlong = rows[OFFSET]
    high: cython.longlong = rows[OFFSET]
    for record in range(n):
        offset = rows[record * RECORD_WIDTH + OFFSET]
        if offset < low:
            low = offset
        if offset > high:
            high = offset
    return low, high


def join_hours(
    rows: cython.const[cython.longlong][::1],
    end: cython.longlong,
    hours: cython.longlong[::1],
) -> int:
    """Fill ``hours`` with neighbours of the same hour among ``rows`` of ``RECORD_FIELDS``.

    A row of ``hours`` is of ``HOUR_FIELDS``. Hours count from 1970. Timestamps below 0, and from
    ``end`` on, in ms, are of the hour -1. There is room for one row a record. Return the count of
    rows.
    """
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    record: cython.Py_ssize_t
    at: cython.Py_ssize_t = -HOUR_WIDTH
    time: cython.longlong
    hour: cython.longlong
    need(n * HOUR_WIDTH, len(hours), "room for hours")
    for record in range(n):
        time = rows[record * RECORD_WIDTH + TIMESTAMP]
        hour = time // HOUR_MS if 0 <= time < end else -1
        if at < 0 or hours[at] != hour:
            at += HOUR_WIDTH
            hours[at] = hour
            hours[at + 1] = record
        hours[at + 2] = record + 1
    return at // HOUR_WIDTH + 1


def count_dense(
    rows: cython.const[cython.longlong][::1], first: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> int:
    """Return how many batches from ``first`` up to ``stop`` have a record for each offset.

    Counted are those before the first one that differs from the batch at ``first``. The count is
    negative if they do not have a record for each offset.
    """
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    row: cython.Py_ssize_t = first
    dense: cython.bint
    within(0, first, n - 1, "a batch")
    within(first + 1, stop, n, "a batch")
    dense = _is_dense(rows, first)
    while row < stop and _is_dense(rows, row) == dense:
        row += 1
    return row - first if dense else first - row


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_dense(rows: cython.const[cython.longlong][::1], batch: cython.Py_ssize_t) -> cython.bint:
    row: cython.Py_ssize_t = batch * BATCH_WIDTH
    count: cython.longlong = rows[row + COUNT]
    last: cython.longlong = rows[row + LAST_OFFSET]
    first: cython.longlong = rows[row + BASE_OFFSET]
    return count > 0 and last >= first and add(first, count - 1) == last


def join_batches(rows: cython.const[cython.longlong][::1], stretches: cython.longlong[::1]) -> int:
    """Fill ``stretches`` with the offsets of batches that have a record for each offset.

    Batches that go on at the next offset under the same leader epoch are one stretch. There is room
    for one stretch a batch. Return the count of stretches.
    """
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    batch: cython.Py_ssize_t
    row: cython.Py_ssize_t
    filled: cython.Py_ssize_t = 0
    need(n * STRETCH_WIDTH, len(stretches), "room for stretches")
    for batch in range(n):
        row = batch * BATCH_WIDTH
        filled = _join(
            rows[row + BASE_OFFSET], rows[row + LAST_OFFSET], rows[row + LEADER_EPOCH],
            stretches, filled,
        )  # fmt: skip
    return filled


def join_records(
    rows: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    batches: cython.const[cython.longlong][::1],
    stretches: cython.longlong[::1],
) -> int:
    """Fill ``stretches`` with the offsets of records; arguments are as for ``keep_in_ranges``.

    There is room for one stretch a record. Return the count of stretches.
    """
    count: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    records: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    batch: cython.Py_ssize_t
    record: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    filled: cython.Py_ssize_t = 0
    epoch: cython.longlong
    offset: cython.longlong
    _need_starts(starts, count, records)
    need(records * STRETCH_WIDTH, len(stretches), "room for stretches")
    start = starts[0]
    for batch in range(count):
        stop = starts[batch + 1]
        epoch = batches[batch * BATCH_WIDTH + LEADER_EPOCH]
        for record in range(start, stop):
            offset = rows[record * RECORD_WIDTH + OFFSET]
            filled = _join(offset, offset, epoch, stretches, filled)
        start = stop
    return filled


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _join(
    first: cython.longlong,
    last: cython.longlong,
    epoch: cython.longlong,
    stretches: cython.longlong[::1],
    filled: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Add offsets to the last of ``filled`` stretches, or as one more; return the new count."""
    at: cython.Py_ssize_t = filled * STRETCH_WIDTH
    if filled and _follows(first, stretches[at - 2]) and epoch == stretches[at - 1]:
        stretches[at - 2] = last
        return filled
    stretches[at] = first
    stretches[at + 1] = last
    stretches[at + 2] = epoch
    return filled + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _follows(offset: cython.longlong, before: cython.longlong) -> cython.bint:
    return before < offset and before + 1 == offset
