"""The hot loops over rows that the kernel filled: which of them are asked for, and their sums.

Rows are kept by moving them together in place, so that what was asked for is a shorter run of the
same kind.

Spec: ``DefaultRecordBatch``, ``LegacyRecord`` for what a header says of its records (KOD 3.1, 3.2).
It must never make an object per row, or look at a byte of a record but its key.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_WIDTH,
    CODEC_MASK,
    CONTROL,
    COUNT,
    DELETE_HORIZON,
    HEADER_BYTES,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_64,
    MAX_TIMESTAMP,
    OFFSET,
    PRODUCER_ID,
    RECORD_WIDTH,
    SIZE,
    TIMESTAMP,
    TRANSACTIONAL,
    move_row,
    need,
    need_field,
)

# The state of sum_batches(), carried from one table to the next.
S_BATCHES = 0
S_RECORDS = 1  # as the headers count them; none for a wrapper, whose header does not
S_BYTES = 2
S_FIRST_OFFSET = 3  # the lowest; wrappers do not say theirs
S_LAST_OFFSET = 4  # the highest
S_FIRST_TIMESTAMP = 5  # the lowest of a batch's first record
S_LAST_TIMESTAMP = 6  # the highest
S_SMALLEST = 7  # size of a batch
S_LARGEST = 8
S_TRANSACTIONAL = 9  # batches that belong to a transaction, markers too
S_CONTROL = 10
S_CODECS = 11  # for each codec's number its batches, its records, the bytes of its records
S_SIZES = 35  # for each number of bits how many batches have a size of so many
SUM_FIELDS = 68


def keep_records(
    rows: cython.longlong[::1],
    block: cython.const[cython.uchar][::1],
    first_offset: cython.longlong,
    last_offset: cython.longlong,
    first_timestamp: cython.longlong,
    last_timestamp: cython.longlong,
    key: cython.const[cython.uchar][::1] | None,
) -> int:
    """Keep the records within both ranges, ends included, and with just this key if one is given.

    ``rows`` are of ``RECORD_FIELDS`` and point into ``block``. Return how many were kept.
    """
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    row: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    place: cython.Py_ssize_t
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = -1
    number: cython.longlong
    same: cython.bint
    if key is not None:
        size = len(key)
    for place in range(n):
        row = place * RECORD_WIDTH
        number = rows[row + OFFSET]
        if number < first_offset or number > last_offset:
            continue
        number = rows[row + TIMESTAMP]
        if number < first_timestamp or number > last_timestamp:
            continue
        if key is not None:
            if rows[row + KEY_SIZE] != size:
                continue
            start = rows[row + KEY]
            need_field(len(block), start, size)
            same = True
            for i in range(size):
                if block[start + i] != key[i]:
                    same = False
                    break
            if not same:
                continue
        move_row(rows, filled, row, RECORD_WIDTH)
        filled += RECORD_WIDTH
    return filled // RECORD_WIDTH


def keep_batches(
    rows: cython.longlong[::1],
    previous: cython.longlong,
    first_offset: cython.longlong,
    last_offset: cython.longlong,
    first_timestamp: cython.longlong,
    last_timestamp: cython.longlong,
    by_producer: cython.bint,
    producer_id: cython.longlong,
) -> int:
    """Keep the batches whose headers let them hold something within both ranges, ends included.

    A batch's times go from that of its first record to its largest. A wrapper's offsets go from
    behind ``previous``, the last offset before it in the file, to its own; one that says 0 may hold
    any above. ``by_producer`` asks for batches of ``producer_id`` alone. Return how many were
    kept.
    """
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    row: cython.Py_ssize_t = 0
    filled: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    low: cython.longlong
    high: cython.longlong
    for place in range(n):
        row = place * BATCH_WIDTH
        low = rows[row + BASE_OFFSET]
        high = rows[row + LAST_OFFSET]
        if rows[row + MAGIC] < 2 and rows[row + ATTRIBUTES] & CODEC_MASK:
            low = previous + 1 if previous < high else -MAX_64 - 1
            if high == 0:
                high = MAX_64
        elif high < low:
            high = low
        previous = rows[row + LAST_OFFSET]
        if low > last_offset or high < first_offset:
            continue
        if rows[row + MAX_TIMESTAMP] < first_timestamp:
            continue
        if _lowest_timestamp(rows, row) > last_timestamp:
            continue
        if by_producer and rows[row + PRODUCER_ID] != producer_id:
            continue
        move_row(rows, filled, row, BATCH_WIDTH)
        filled += BATCH_WIDTH
    return filled // BATCH_WIDTH


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _lowest_timestamp(
    rows: cython.const[cython.longlong][::1], row: cython.Py_ssize_t
) -> cython.longlong:
    """Return that of the first record of the batch at ``row``; -1 if its header does not say it."""
    attributes: cython.longlong = rows[row + ATTRIBUTES]
    if attributes & LOG_APPEND_TIME:
        return rows[row + MAX_TIMESTAMP]
    if attributes & (DELETE_HORIZON if rows[row + MAGIC] > 1 else CODEC_MASK):
        return -1
    return rows[row + BASE_TIMESTAMP]


def sum_batches(rows: cython.const[cython.longlong][::1], state: cython.longlong[::1]) -> None:
    """Add the batches of ``rows`` to ``state`` (places ``S_``)."""
    need(SUM_FIELDS, len(state), "a state")
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    codecs: cython.Py_ssize_t = S_CODECS
    sizes: cython.Py_ssize_t = S_SIZES
    place: cython.Py_ssize_t
    row: cython.Py_ssize_t
    codec: cython.Py_ssize_t
    bits: cython.Py_ssize_t
    size: cython.longlong
    header: cython.longlong
    count: cython.longlong
    wraps: cython.bint
    timestamp: cython.longlong
    attributes: cython.longlong
    rest: cython.longlong
    records: cython.longlong = 0
    total: cython.longlong = 0
    transactional: cython.longlong = 0
    control: cython.longlong = 0
    first_offset: cython.longlong = state[S_FIRST_OFFSET]
    last_offset: cython.longlong = state[S_LAST_OFFSET]
    first_timestamp: cython.longlong = state[S_FIRST_TIMESTAMP]
    last_timestamp: cython.longlong = state[S_LAST_TIMESTAMP]
    smallest: cython.longlong = state[S_SMALLEST]
    largest: cython.longlong = state[S_LARGEST]
    for place in range(n):
        row = place * BATCH_WIDTH
        size = rows[row + SIZE]
        attributes = rows[row + ATTRIBUTES]
        codec = attributes & CODEC_MASK
        if rows[row + MAGIC] > 1:
            header = HEADER_BYTES
            count = rows[row + COUNT] if rows[row + COUNT] > 0 else 0
            if attributes & TRANSACTIONAL:
                transactional += 1
            if attributes & CONTROL:
                control += 1
        else:
            header = 0
            count = 0 if codec else 1
        wraps = rows[row + MAGIC] < 2 and codec != 0
        records += count
        total += size
        if not wraps and rows[row + BASE_OFFSET] < first_offset:
            first_offset = rows[row + BASE_OFFSET]
        if rows[row + LAST_OFFSET] > last_offset:
            last_offset = rows[row + LAST_OFFSET]
        timestamp = _lowest_timestamp(rows, row)
        if 0 <= timestamp < first_timestamp:
            first_timestamp = timestamp
        if rows[row + MAX_TIMESTAMP] > last_timestamp:
            last_timestamp = rows[row + MAX_TIMESTAMP]
        if size < smallest:
            smallest = size
        if size > largest:
            largest = size
        state[codecs + 3 * codec] += 1
        state[codecs + 3 * codec + 1] += count
        state[codecs + 3 * codec + 2] += size - header
        bits = 0
        rest = size
        while rest > 0:
            rest >>= 1
            bits += 1
        if bits > 32:  # no header says so much
            bits = 32
        state[sizes + bits] += 1
    state[S_BATCHES] += n
    state[S_RECORDS] += records
    state[S_BYTES] += total
    state[S_FIRST_OFFSET] = first_offset
    state[S_LAST_OFFSET] = last_offset
    state[S_FIRST_TIMESTAMP] = first_timestamp
    state[S_LAST_TIMESTAMP] = last_timestamp
    state[S_SMALLEST] = smallest
    state[S_LARGEST] = largest
    state[S_TRANSACTIONAL] += transactional
    state[S_CONTROL] += control
