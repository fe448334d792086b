"""The hot loops over records of any magic: decoding, and whether they match their batch's header.

They fill rows of 64-bit integers like those of batches, and never make an object per record.

Spec: ``DefaultRecord``, ``LegacyRecord``.
It must never allocate by what the bytes claim, or raise on bytes.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.checksums import (
    CRC32_TABLE,
    crc,
)
from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_WIDTH,
    CODEC_MASK,
    CONTROL,
    COUNT,
    HEADER_BYTES,
    HEADER_COUNT,
    HEADERS,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    LEAST_MESSAGE,
    LEGACY_HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_64,
    MAX_TIMESTAMP,
    OFFSET,
    POSITION,
    RECORD_WIDTH,
    SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
    add,
    i32,
    i64,
    magic_at,
    need,
    u32,
    varint,
    within,
)
from kdump.format.kernel.prelude import RECORD_FIELDS as RECORD_FIELDS

# How read_records(), read_messages() and count_messages() ended.
READ = 0  # the rows are full, or the batch has no more records
BAD_VARINT = 1  # a number has too many bytes, or is cut by the end of its record
BAD_LENGTH = 2  # a record does not fit into the block
BAD_FIELD = 3  # a key, value or header does not fit into its record, or has an impossible size
BAD_END = 4  # the fields of a record do not fill it
NESTED = 5  # a compressed message stands inside a wrapper
CUT = 6  # the run of messages ends inside one
#: Not an ending: a record was read, but a null in it has another size than -1.
ODD_NULL = 7

#: Batches of this size and more are read one by one: they gain nothing by neighbours. Below it no
#: record has more headers than may be made objects of.
_NEIGHBOUR_BYTES = 65536


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sized(
    data: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    nullable: cython.bint,
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """Return the size of the field at ``p``, and where its bytes start; on failure (how, 0).

    Any size below zero is null, as in ``Utils.readBytes``.
    """
    size: cython.longlong
    start: cython.Py_ssize_t
    size, start = varint(data, p, stop, 32)
    if start == 0:
        return BAD_VARINT, 0
    if size > stop - start or (size < 0 and not nullable):
        return BAD_FIELD, 0
    return size, start


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_record(
    block: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> tuple[cython.Py_ssize_t, cython.longlong]:
    """Write the record at ``p`` into a row; return where it ends, or (0, how it ended).

    Nulls get the size -1. Where one had another size, ``ODD_NULL`` stands beside the end.
    """
    kind: cython.longlong = READ
    q: cython.Py_ssize_t
    end: cython.Py_ssize_t
    number: cython.longlong
    headers: cython.longlong
    number, q = varint(block, p, stop, 32)
    if q == 0:
        return 0, BAD_VARINT
    if number < 1 or number > stop - q:
        return 0, BAD_LENGTH
    end = q + number
    # One byte of attributes, all unused.
    number, q = varint(block, q + 1, end, 64)
    if q == 0:
        return 0, BAD_VARINT
    rows[row + TIMESTAMP] = add(base_timestamp, number)
    number, q = varint(block, q, end, 32)
    if q == 0:
        return 0, BAD_VARINT
    rows[row + OFFSET] = add(base_offset, number)
    number, q = _sized(block, q, end, True)
    if q == 0:
        return 0, number
    if number < -1:
        kind = ODD_NULL
        number = -1
    rows[row + KEY] = q
    rows[row + KEY_SIZE] = number
    if number > 0:
        q += number
    number, q = _sized(block, q, end, True)
    if q == 0:
        return 0, number
    if number < -1:
        kind = ODD_NULL
        number = -1
    rows[row + VALUE] = q
    rows[row + VALUE_SIZE] = number
    if number > 0:
        q += number
    headers, q = varint(block, q, end, 32)
    if q == 0:
        return 0, BAD_VARINT
    # A header takes two bytes at least, so a false count ends with the record.
    if headers < 0 or headers > (end - q) // 2:
        return 0, BAD_FIELD
    rows[row + HEADERS] = q
    rows[row + HEADER_COUNT] = headers
    while headers > 0:
        headers -= 1
        number, q = _sized(block, q, end, False)
        if q == 0:
            return 0, number
        number, q = _sized(block, q + number, end, True)
        if q == 0:
            return 0, number
        if number < -1:
            kind = ODD_NULL
        if number > 0:
            q += number
    if q != end:
        return 0, BAD_END
    return end, kind


def read_records(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    count: cython.longlong,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    log_append: cython.bint,
    append_timestamp: cython.longlong,
    previous: cython.longlong,
    rows: cython.longlong[::1],
) -> tuple[int, int, int, int, int, int, int]:
    """Read at most ``count`` records of magic 2 from ``block[start:]`` into ``rows``.

    With ``log_append`` every record has ``append_timestamp``. ``previous`` is the offset of the
    record before, or ``base_offset - 1``.

    Return (rows filled, position reached, how it ended, last offset, largest timestamp (-1 at
    least), records whose offset does not lie behind the record before, records with a null of
    another size than -1). On a record that cannot be read the position is where that record starts.
    """
    need(0, start, "a start")
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    n: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    ending: cython.longlong
    max_timestamp: cython.longlong = -1
    disorder: cython.longlong = 0
    nulls: cython.longlong = 0
    while n < room and n < count:
        end, ending = _read_record(block, p, stop, base_offset, base_timestamp, rows, row)
        if end == 0:
            return n, p, ending, previous, max_timestamp, disorder, nulls
        if ending == ODD_NULL:
            nulls += 1
        if log_append:
            rows[row + TIMESTAMP] = append_timestamp
        if rows[row + OFFSET] <= previous:
            disorder += 1
        previous = rows[row + OFFSET]
        if rows[row + TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + TIMESTAMP]
        p = end
        n += 1
        row += RECORD_WIDTH
    return n, p, READ, previous, max_timestamp, disorder, nulls


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _records_match(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    record: cython.longlong[::1],
) -> cython.bint:
    """Return whether the records in ``block[start:stop]`` are what the row at ``at`` says."""
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    kind: cython.longlong
    left: cython.longlong = batches[at + COUNT]
    base_offset: cython.longlong = batches[at + BASE_OFFSET]
    base_timestamp: cython.longlong = batches[at + BASE_TIMESTAMP]
    max_timestamp: cython.longlong = batches[at + MAX_TIMESTAMP]
    log_append: cython.bint = batches[at + ATTRIBUTES] & LOG_APPEND_TIME
    # Below the lowest number there is none, so a first record at it does not match.
    previous: cython.longlong = base_offset - 1 if base_offset > -MAX_64 else base_offset
    if left < 0 or max_timestamp < -1:
        return False
    if left == 0:
        p = stop  # brokers and clients read no byte of such a block
    while left > 0:
        end, kind = _read_record(block, p, stop, base_offset, base_timestamp, record, 0)
        if end == 0 or kind == ODD_NULL or record[OFFSET] <= previous:
            return False
        if record[TIMESTAMP] > max_timestamp and not log_append:
            return False
        previous = record[OFFSET]
        p = end
        left -= 1
    return p == stop and previous <= batches[at + LAST_OFFSET]


def records_match(
    batches: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    record: cython.longlong[::1],
) -> bool:
    """Return whether the decompressed ``block`` holds what the batch in ``row`` says (magic 2).

    That is as many records, whose offsets rise up to its last offset, none of which is later than
    its largest timestamp, and whose nulls have the size -1. ``record`` is room for one row.
    """
    need(RECORD_WIDTH, len(record), "room for a record")
    within(0, row, len(batches) // BATCH_WIDTH - 1, "a row")
    return _records_match(batches, row * BATCH_WIDTH, block, 0, len(block), record)


def skip_matching(
    batches: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    record: cython.longlong[::1],
) -> int:
    """Return the first row from ``first`` on whose records do not match (``records_match``).

    Also of a batch that is compressed, of magic 0 or 1, or not whole in ``view``, which begins with
    the batch at row 0.
    """
    need(RECORD_WIDTH, len(record), "room for a record")
    need(0, first, "a first row")
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    for row in range(first, n):
        at = row * BATCH_WIDTH
        start = batches[at + POSITION] - batches[POSITION]
        if (
            batches[at + MAGIC] < 2
            or batches[at + ATTRIBUTES] & CODEC_MASK
            or start < 0
            or batches[at + SIZE] > len(view) - start
            or not _records_match(
                batches, at, view, start + HEADER_BYTES, start + batches[at + SIZE], record
            )
        ):
            return row
    return n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _message_end(
    block: cython.const[cython.uchar][::1], p: cython.Py_ssize_t
) -> tuple[cython.Py_ssize_t, cython.longlong]:
    """Return where the message of magic 0 or 1 at ``p`` ends, or (0, how it ended)."""
    size: cython.longlong
    left: cython.Py_ssize_t = len(block) - p - LOG_OVERHEAD
    if left < 0:
        return 0, CUT
    size = i32(block, p + 8)
    if size < LEAST_MESSAGE:
        return 0, BAD_LENGTH
    if size > left:
        return 0, CUT
    return p + LOG_OVERHEAD + size, READ


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_message(
    block: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.int:
    """Write the message in ``block[p:end]`` into a row, unchanged; nulls get the size -1.

    Return 0 if its key and value do not fit into it, ``ODD_NULL`` if one is a null of another size
    than -1, else 1.
    """
    kind: cython.int = 1
    q: cython.Py_ssize_t = p + 18
    field: cython.int
    size: cython.longlong
    rows[row + TIMESTAMP] = -1
    if magic_at(block, p):
        if end - q < 8:
            return 0
        rows[row + TIMESTAMP] = i64(block, q)
        q += 8
    for field in range(KEY, HEADERS, 2):
        if end - q < 4:
            return 0
        size = i32(block, q)
        q += 4
        if size > end - q:
            return 0
        if size < -1:
            kind = ODD_NULL
            size = -1
        rows[row + field] = q
        rows[row + field + 1] = size
        if size > 0:
            q += size
    rows[row + OFFSET] = i64(block, p)
    rows[row + HEADERS] = p
    rows[row + HEADER_COUNT] = 0
    return kind


def count_messages(block: cython.const[cython.uchar][::1]) -> tuple[int, int, int, int]:
    """Go over a run of messages by their sizes alone.

    Return (messages, offset of the last one, position reached, how it ended).
    """
    p: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    ending: cython.longlong = READ
    n: cython.Py_ssize_t = 0
    offset: cython.longlong = -1
    while p < len(block):
        end, ending = _message_end(block, p)
        if end == 0:
            break
        offset = i64(block, p)
        p = end
        n += 1
    return n, offset, p, ending


def read_messages(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    check: cython.bint,
    base_offset: cython.longlong,
    log_append: cython.bint,
    append_timestamp: cython.longlong,
    previous: cython.longlong,
    rows: cython.longlong[::1],
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Read messages of one magic, 0 or 1, from the run ``block[start:]`` into ``rows``.

    Offsets are relative to ``base_offset``. With ``log_append`` messages of magic 1 have
    ``append_timestamp``. ``check`` asks whether they match their checksums, and refuses compressed
    ones, as inside a wrapper. ``previous`` is the offset of the message before.

    Return (rows filled, position reached, how it ended, magic, last offset, largest timestamp (-1
    at least), messages whose offset does not lie behind the one before, messages with a null of
    another size than -1, messages that do not match their checksum). On a message that cannot be
    read the position is where it starts.
    """
    need(0, start, "a start")
    crc32: cython.const[cython.uint][::1] = CRC32_TABLE
    stop: cython.Py_ssize_t = len(block)
    room: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    n: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = start
    end: cython.Py_ssize_t
    ending: cython.longlong
    magic: cython.longlong = 0
    max_timestamp: cython.longlong = -1
    disorder: cython.longlong = 0
    nulls: cython.longlong = 0
    mismatches: cython.longlong = 0
    kind: cython.int
    while n < room and p < stop:
        end, ending = _message_end(block, p)
        if end == 0:
            return n, p, ending, magic, previous, max_timestamp, disorder, nulls, mismatches
        if n == 0:
            magic = magic_at(block, p)
        elif magic_at(block, p) != magic:
            break
        if check and block[p + 17] & CODEC_MASK:
            return n, p, NESTED, magic, previous, max_timestamp, disorder, nulls, mismatches
        kind = _read_message(block, p, end, rows, row)
        if kind == 0:
            return n, p, BAD_FIELD, magic, previous, max_timestamp, disorder, nulls, mismatches
        if kind == ODD_NULL:
            nulls += 1
        rows[row + OFFSET] = add(base_offset, rows[row + OFFSET])
        if log_append and magic == 1:
            rows[row + TIMESTAMP] = append_timestamp
        if check and crc(block, p + 16, end, crc32) != u32(block, p + 12):
            rows[row + HEADER_COUNT] = -1
            mismatches += 1
        if rows[row + OFFSET] <= previous:
            disorder += 1
        previous = rows[row + OFFSET]
        if rows[row + TIMESTAMP] > max_timestamp:
            max_timestamp = rows[row + TIMESTAMP]
        p = end
        n += 1
        row += RECORD_WIDTH
    return n, p, READ, magic, previous, max_timestamp, disorder, nulls, mismatches


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_batch(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Write all records of the batch at ``view[start]`` into rows; return whether they can be read.

    The batch, whose own row is at ``at``, is there whole and not compressed, and there is room.
    """
    stop: cython.Py_ssize_t = start + batches[at + SIZE]
    p: cython.Py_ssize_t = start + HEADER_BYTES
    _ending: cython.longlong
    left: cython.longlong = batches[at + COUNT]
    log_append: cython.bint = batches[at + ATTRIBUTES] & LOG_APPEND_TIME
    if batches[at + MAGIC] < 2:
        return stop - start >= LEGACY_HEADER_BYTES and (
            _read_message(view, start, stop, rows, row) != 0
        )
    if left == 0:
        p = stop  # brokers and clients read no byte of such a block
    while left > 0:
        p, _ending = _read_record(
            view, p, stop, batches[at + BASE_OFFSET], batches[at + BASE_TIMESTAMP], rows, row
        )
        if p == 0:
            return False
        if log_append:
            rows[row + TIMESTAMP] = batches[at + MAX_TIMESTAMP]
        row += RECORD_WIDTH
        left -= 1
    return p == stop


def read_neighbours(
    batches: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    starts: cython.longlong[::1],
) -> int:
    """Read the records of many small batches, the first of them in row ``first``, into ``rows``.

    ``view`` begins with the batch at row 0. Place i of ``starts`` gets the number of the row where
    the records of the i-th batch begin, the place behind the last one where they end.

    Return how many batches were read: up to one that is large, compressed, a control batch, not
    whole in ``view`` or not readable to its end, or that there is no room for.
    """
    need(1, len(starts), "room for starts")
    within(0, first, len(batches) // BATCH_WIDTH, "a first row")
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH - first
    room: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    filled: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.Py_ssize_t
    masked: cython.longlong
    if n > len(starts) - 1:
        n = len(starts) - 1
    starts[0] = 0
    for i in range(n):
        at = (first + i) * BATCH_WIDTH
        start = batches[at + POSITION] - batches[POSITION]
        masked = CODEC_MASK if batches[at + MAGIC] < 2 else CODEC_MASK | CONTROL
        if (
            batches[at + ATTRIBUTES] & masked
            or start < 0
            or batches[at + SIZE] >= _NEIGHBOUR_BYTES
            or batches[at + SIZE] > len(view) - start
            or batches[at + COUNT] < 0
            or batches[at + COUNT] > room - filled
            or not _read_batch(batches, at, view, start, rows, filled * RECORD_WIDTH)
        ):
            return i
        filled += batches[at + COUNT]
        starts[i + 1] = filled
    return n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read_wrapped(
    batches: cython.const[cython.longlong][::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Write all messages in the wrapper, whose own row is at ``at``, into rows.

    Return how many, or 0; see ``read_block``.
    """
    crc32: cython.const[cython.uint][::1] = CRC32_TABLE
    room: cython.Py_ssize_t = len(rows) // RECORD_WIDTH * RECORD_WIDTH
    p: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    _ending: cython.longlong
    row: cython.Py_ssize_t = 0
    magic: cython.longlong = batches[at + MAGIC]
    log_append: cython.bint = magic == 1 and batches[at + ATTRIBUTES] & LOG_APPEND_TIME
    base_offset: cython.longlong = 0
    filled: cython.Py_ssize_t
    while p < len(block):
        end, _ending = _message_end(block, p)
        if (
            end == 0
            or row == room
            or magic_at(block, p) != magic
            or block[p + 17] & CODEC_MASK
            or _read_message(block, p, end, rows, row) == 0
            or crc(block, p + 16, end, crc32) != u32(block, p + 12)
        ):
            return 0
        if log_append:
            rows[row + TIMESTAMP] = batches[at + MAX_TIMESTAMP]
        p = end
        row += RECORD_WIDTH
    if row == 0:
        return 0
    if magic == 1 and batches[at + LAST_OFFSET] != 0:
        base_offset = rows[row - RECORD_WIDTH + OFFSET]
        if not 0 <= base_offset <= batches[at + LAST_OFFSET]:
            return 0
        base_offset = batches[at + LAST_OFFSET] - base_offset
    filled = row // RECORD_WIDTH
    if base_offset > 0:
        while row > 0:
            row -= RECORD_WIDTH
            rows[row + OFFSET] = add(base_offset, rows[row + OFFSET])
    return filled


def read_block(
    batches: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
) -> int:
    """Read all records of the batch in ``row`` into ``rows``, out of its decompressed ``block``.

    Return how many; 0 if there are none, if there is no room for all of them, or if one cannot be
    read. Inside a wrapper, also if one is compressed, of another magic, or does not match its
    checksum, or if the offsets cannot be determined.
    """
    within(0, row, len(batches) // BATCH_WIDTH - 1, "a row")
    at: cython.Py_ssize_t = row * BATCH_WIDTH
    p: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t = 0
    _ending: cython.longlong
    left: cython.longlong = batches[at + COUNT]
    log_append: cython.bint = batches[at + ATTRIBUTES] & LOG_APPEND_TIME
    if batches[at + MAGIC] < 2:
        return _read_wrapped(batches, at, block, rows)
    if left < 1 or left > len(rows) // RECORD_WIDTH:
        return 0
    while left > 0:
        p, _ending = _read_record(
            block,
            p,
            len(block),
            batches[at + BASE_OFFSET],
            batches[at + BASE_TIMESTAMP],
            rows,
            to,
        )
        if p == 0:
            return 0
        if log_append:
            rows[to + TIMESTAMP] = batches[at + MAX_TIMESTAMP]
        to += RECORD_WIDTH
        left -= 1
    return batches[at + COUNT] if p == len(block) else 0
