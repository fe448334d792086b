"""Columns of batches and records to lines of text or JSON: the plain ones, in bulk.

A record is plain if its key and value are null or printable ASCII, and if it has no headers; the
functions stop before any other, which ``format.lines`` prints itself. They also stop before a batch
of another magic, or with other attributes, than the first one: between such there are other words,
too. What a line says of a batch is a form (``format.lines.forms``): ``text`` with numbers in it,
and ``marks`` that say where, and which.

It must never write beyond the buffer that it is given, or change the bytes of a key or value.
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
    BATCH_FIELDS,
    BATCH_WIDTH,
    HEADER_COUNT,
    HEADERS,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    LEGACY_HEADER_BYTES,
    MAGIC,
    OFFSET,
    RECORD_WIDTH,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
    need,
    need_field,
    put_bytes,
    sequence_at,
    u32,
    within,
)

#: What a form may hold: the header's fields, and one that follows from them.
FORM_FIELDS = (*BATCH_FIELDS, "last_sequence")

_LAST_SEQUENCE = FORM_FIELDS.index("last_sequence")

#: Room for a number: at most 19 digits, and a sign.
_NUMBER = 20


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    out: cython.uchar[::1], at: cython.Py_ssize_t, text: cython.const[cython.uchar][::1]
) -> cython.Py_ssize_t:
    return put_bytes(out, at, text, 0, len(text))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_number(
    out: cython.uchar[::1], at: cython.Py_ssize_t, number: cython.longlong
) -> cython.Py_ssize_t:
    left: cython.ulonglong
    rest: cython.ulonglong
    digits: cython.Py_ssize_t = 1
    i: cython.Py_ssize_t
    if number < 0:
        out[at] = 45  # -
        at += 1
        left = -(number + 1)
        left += 1
    else:
        left = number
    rest = left
    while rest > 9:
        rest = rest // 10
        digits += 1
    for i in range(digits):
        out[at + digits - 1 - i] = 48 + left % 10
        left = left // 10
    return at + digits


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_plain(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    json: cython.bint,
) -> cython.Py_ssize_t:
    """Copy printable ASCII; return where it ends, or -1 on the first other byte.

    With ``json`` a backslash goes before quotes and backslashes.
    """
    i: cython.Py_ssize_t
    byte: cython.uchar
    for i in range(size):
        byte = block[start + i]
        if byte < 32 or byte > 126:
            return -1
        if json and (byte == 34 or byte == 92):
            out[at] = 92
            at += 1
        out[at] = byte
        at += 1
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bytes_of(
    rows: cython.const[cython.longlong][::1], row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return how many bytes the key and the value of a record have; any size below zero is null."""
    key: cython.Py_ssize_t = rows[row + KEY_SIZE]
    value: cython.Py_ssize_t = rows[row + VALUE_SIZE]
    return (key if key > 0 else 0) + (value if value > 0 else 0)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_form(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    text: cython.const[cython.uchar][::1],
    marks: cython.const[cython.longlong][::1],
    batches: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Copy ``text`` with the numbers of the batch at ``row`` where ``marks`` say it."""
    i: cython.Py_ssize_t
    start: cython.Py_ssize_t = 0
    for i in range(0, len(marks), 2):
        at = put_bytes(out, at, text, start, marks[i] - start)
        start = marks[i]
        if marks[i + 1] == _LAST_SEQUENCE:
            at = _put_number(
                out,
                at,
                sequence_at(
                    batches[row + BASE_SEQUENCE],
                    batches[row + BASE_OFFSET],
                    batches[row + LAST_OFFSET],
                ),
            )
        else:
            at = _put_number(out, at, batches[row + marks[i + 1]])
    return put_bytes(out, at, text, start, len(text) - start)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _most_bytes(
    text: cython.const[cython.uchar][::1], marks: cython.const[cython.longlong][::1]
) -> cython.Py_ssize_t:
    """Return how many bytes a form takes at most."""
    return len(text) + len(marks) // 2 * _NUMBER


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same_words(
    batches: cython.const[cython.longlong][::1], row: cython.Py_ssize_t, other: cython.Py_ssize_t
) -> cython.bint:
    return (
        batches[row + MAGIC] == batches[other + MAGIC]
        and batches[row + ATTRIBUTES] == batches[other + ATTRIBUTES]
    )


@cython.cfunc
@cython.exceptval(-1)
def _need_form(
    text: cython.const[cython.uchar][::1], marks: cython.const[cython.longlong][::1]
) -> cython.int:
    """Raise ValueError for marks that do not rise, lie beyond the text, or name no field."""
    i: cython.Py_ssize_t
    before: cython.longlong = 0
    if len(marks) % 2:
        raise ValueError(f"expected marks in pairs, found {len(marks)}")
    for i in range(0, len(marks), 2):
        within(before, marks[i], len(text), "a mark")
        within(0, marks[i + 1], _LAST_SEQUENCE, "a field")
        before = marks[i]
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _need_records(
    batches: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    batch: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
) -> cython.int:
    """Raise ValueError where batches have no starts, or where nothing can begin."""
    need(0, batch, "a batch")
    need(0, first, "a first row")
    return need(len(batches) // BATCH_WIDTH + 1, len(starts), "as many starts")


def batch_lines(
    batches: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    text: cython.const[cython.uchar][::1],
    marks: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Write the form for batches from number ``first`` on to ``out``.

    Return (the first batch not written, bytes written).
    """
    need(0, first, "a first batch")
    _need_form(text, marks)
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    most: cython.Py_ssize_t = _most_bytes(text, marks)
    used: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(first, n):
        if not _same_words(batches, i * BATCH_WIDTH, first * BATCH_WIDTH):
            return i, used
        if used + most > len(out):
            return i, used
        used = _put_form(out, used, text, marks, batches, i * BATCH_WIDTH)
    return n, used


def json_lines(
    batches: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    block: cython.const[cython.uchar][::1],
    batch: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    timed: cython.bint,
    pieces: list[bytes],
    text: cython.const[cython.uchar][::1],
    marks: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Write plain records to ``out``, a line each, from row ``first`` of ``batch`` on.

    The records of batch i are the rows from ``starts[i]`` up to ``starts[i + 1]``. ``pieces`` are
    what stands before the offset, the timestamp (null unless ``timed``), the key, the value and the
    sequence; behind that stands the form. Return (the batch reached, its first row not written,
    bytes written).
    """
    _need_records(batches, starts, batch, first)
    _need_form(text, marks)
    before_offset: cython.const[cython.uchar][::1] = pieces[0]
    before_timestamp: cython.const[cython.uchar][::1] = pieces[1]
    before_key: cython.const[cython.uchar][::1] = pieces[2]
    before_value: cython.const[cython.uchar][::1] = pieces[3]
    before_sequence: cython.const[cython.uchar][::1] = pieces[4]
    null: cython.const[cython.uchar][::1] = b"null"
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    # Three numbers, and quotes around two strings, which take more than null does.
    fixed: cython.Py_ssize_t = sum(map(len, pieces)) + 3 * _NUMBER + 8 + _most_bytes(text, marks)
    used: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    head: cython.Py_ssize_t
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    record: cython.Py_ssize_t = first
    behind: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    part: cython.int
    for i in range(batch, n):
        head = i * BATCH_WIDTH
        if not _same_words(batches, head, batch * BATCH_WIDTH):
            return i, record, used
        behind = -1
        need(starts[i + 1], len(rows) // RECORD_WIDTH, "as many records")
        while record < starts[i + 1]:
            row = record * RECORD_WIDTH
            need_field(len(block), rows[row + KEY], rows[row + KEY_SIZE])
            need_field(len(block), rows[row + VALUE], rows[row + VALUE_SIZE])
            if rows[row + HEADER_COUNT] or used + fixed + 2 * _bytes_of(rows, row) > len(out):
                return i, record, used
            at = _put(out, used, before_offset)
            at = _put_number(out, at, rows[row + OFFSET])
            at = _put(out, at, before_timestamp)
            at = _put_number(out, at, rows[row + TIMESTAMP]) if timed else _put(out, at, null)
            for part in range(KEY, HEADERS, 2):
                at = _put(out, at, before_key if part == KEY else before_value)
                if rows[row + part + 1] < 0:
                    at = _put(out, at, null)
                    continue
                out[at] = 34  # "
                at = _put_plain(out, at + 1, block, rows[row + part], rows[row + part + 1], True)
                if at < 0:
                    return i, record, used
                out[at] = 34
                at += 1
            at = _put(out, at, before_sequence)
            at = _put_number(
                out,
                at,
                sequence_at(
                    batches[head + BASE_SEQUENCE], batches[head + BASE_OFFSET], rows[row + OFFSET]
                ),
            )
            if behind < 0:
                behind = at
                used = _put_form(out, at, text, marks, batches, head)
                size = used - behind
            else:  # all records of a batch end alike
                used = put_bytes(out, at, out, behind, size)
            record += 1
    return n, record, used


def text_lines(
    batches: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    rows: cython.const[cython.longlong][::1],
    block: cython.const[cython.uchar][::1],
    batch: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    data: cython.bint,
    pieces: list[bytes],
    text: cython.const[cython.uchar][::1],
    marks: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> tuple[int, int, int]:
    """Write plain records to ``out``, a line each, from row ``first`` of ``batch`` on.

    The records of batch i are the rows from ``starts[i]`` up to ``starts[i + 1]``; before the first
    of them stands the form, unless that one is not plain. ``pieces`` are what stands before the
    offset, the timestamp, the key's size, the value's size and the sequence, behind that, and
    before the key and the value, which ``data`` asks for. In magic 0 and 1 the stored checksum
    takes the place of the sequence. Return (the batch reached, its first row not written, bytes
    written).
    """
    _need_records(batches, starts, batch, first)
    _need_form(text, marks)
    before_offset: cython.const[cython.uchar][::1] = pieces[0]
    before_timestamp: cython.const[cython.uchar][::1] = pieces[1]
    before_key_size: cython.const[cython.uchar][::1] = pieces[2]
    before_value_size: cython.const[cython.uchar][::1] = pieces[3]
    before_last: cython.const[cython.uchar][::1] = pieces[4]
    behind: cython.const[cython.uchar][::1] = pieces[5]
    before_key: cython.const[cython.uchar][::1] = pieces[6]
    before_value: cython.const[cython.uchar][::1] = pieces[7]
    n: cython.Py_ssize_t = len(batches) // BATCH_WIDTH
    # Five numbers, and the end of the line.
    fixed: cython.Py_ssize_t = sum(map(len, pieces)) + 5 * _NUMBER + 1 + _most_bytes(text, marks)
    used: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    head: cython.Py_ssize_t
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    record: cython.Py_ssize_t = first
    part: cython.int
    for i in range(batch, n):
        head = i * BATCH_WIDTH
        if used + fixed > len(out) or not _same_words(batches, head, batch * BATCH_WIDTH):
            return i, record, used
        at = used
        if record == starts[i]:
            at = _put_form(out, at, text, marks, batches, head)
        need(starts[i + 1], len(rows) // RECORD_WIDTH, "as many records")
        while record < starts[i + 1]:
            row = record * RECORD_WIDTH
            need_field(len(block), rows[row + KEY], rows[row + KEY_SIZE])
            need_field(len(block), rows[row + VALUE], rows[row + VALUE_SIZE])
            if rows[row + HEADER_COUNT] or at + fixed + _bytes_of(rows, row) > len(out):
                return i, record, used
            at = _put(out, at, before_offset)
            at = _put_number(out, at, rows[row + OFFSET])
            at = _put(out, at, before_timestamp)
            at = _put_number(out, at, rows[row + TIMESTAMP])
            at = _put(out, at, before_key_size)
            at = _put_number(out, at, rows[row + KEY_SIZE])
            at = _put(out, at, before_value_size)
            at = _put_number(out, at, rows[row + VALUE_SIZE])
            at = _put(out, at, before_last)
            if batches[head + MAGIC] < 2:
                within(0, rows[row + HEADERS], len(block) - LEGACY_HEADER_BYTES, "a message")
                at = _put_number(out, at, u32(block, rows[row + HEADERS] + 12))
            else:
                at = _put_number(
                    out,
                    at,
                    sequence_at(
                        batches[head + BASE_SEQUENCE],
                        batches[head + BASE_OFFSET],
                        rows[row + OFFSET],
                    ),
                )
            at = _put(out, at, behind)
            if data:
                for part in range(KEY, HEADERS, 2):
                    if rows[row + part + 1] < 0:
                        continue
                    at = _put(out, at, before_key if part == KEY else before_value)
                    at = _put_plain(out, at, block, rows[row + part], rows[row + part + 1], False)
                    if at < 0:
                        return i, record, used
            out[at] = 10
            at += 1
            used = at
            record += 1
        used = at
    return n, record, used
