"""Columns of records to lines of text or JSON: the plain ones, in bulk.

Compiled like the kernel. A record is plain if its key and value are null or printable ASCII, and if
it has no headers; the functions stop before any other, which ``format.lines`` prints itself.

It must never write beyond the buffer that it is given, or change the bytes of a key or value.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import _nocython as cython

_FIELDS = cython.declare(cython.int, 8)
#: Room for the numbers and nulls of a line: seven numbers of at most 20 characters, and signs.
_NUMBERS = cython.declare(cython.int, 160)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    out: cython.uchar[::1], at: cython.Py_ssize_t, text: cython.const[cython.uchar][::1]
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    for i in range(len(text)):
        out[at + i] = text[i]
    return at + len(text)


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
    """Copies printable ASCII, with ``json`` a backslash before quotes and backslashes; where it
    ends, -1 on the first other byte.
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
    """How many bytes the key and the value of a record have; any size below zero is null."""
    key: cython.Py_ssize_t = rows[row + 3]
    value: cython.Py_ssize_t = rows[row + 5]
    return (key if key > 0 else 0) + (value if value > 0 else 0)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sequence(base_sequence: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """After 2147483647 comes 0; without sequences it is -1."""
    if base_sequence < 0:
        return -1
    return (base_sequence + delta) & 2147483647


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _stored_crc(
    block: cython.const[cython.uchar][::1], message: cython.Py_ssize_t
) -> cython.longlong:
    """The checksum that stands in the message of magic 0 or 1 at ``message``."""
    high: cython.longlong = block[message + 12]
    return high << 24 | block[message + 13] << 16 | block[message + 14] << 8 | block[message + 15]


def json_lines(
    rows: cython.const[cython.longlong][::1],
    block: cython.const[cython.uchar][::1],
    first: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_sequence: cython.longlong,
    timed: cython.bint,
    pieces: list[bytes],
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Writes plain records from row ``first`` on to ``out``, a line each.

    ``pieces`` are what stands before the offset, the timestamp (null unless ``timed``), the key,
    the value and the sequence, and behind that. Returns (the first row not written, bytes written).
    """
    before_offset: cython.const[cython.uchar][::1] = pieces[0]
    before_timestamp: cython.const[cython.uchar][::1] = pieces[1]
    before_key: cython.const[cython.uchar][::1] = pieces[2]
    before_value: cython.const[cython.uchar][::1] = pieces[3]
    before_sequence: cython.const[cython.uchar][::1] = pieces[4]
    behind: cython.const[cython.uchar][::1] = pieces[5]
    null: cython.const[cython.uchar][::1] = b"null"
    n: cython.Py_ssize_t = len(rows) // _FIELDS
    fixed: cython.Py_ssize_t = _NUMBERS + sum(map(len, pieces))
    used: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    part: cython.int
    for i in range(first, n):
        row = i * _FIELDS
        if rows[row + 7] or used + fixed + 2 * _bytes_of(rows, row) > len(out):
            return i, used
        at = _put(out, used, before_offset)
        at = _put_number(out, at, rows[row])
        at = _put(out, at, before_timestamp)
        at = _put_number(out, at, rows[row + 1]) if timed else _put(out, at, null)
        for part in range(2, 6, 2):
            at = _put(out, at, before_key if part == 2 else before_value)
            if rows[row + part + 1] < 0:
                at = _put(out, at, null)
                continue
            out[at] = 34  # "
            at = _put_plain(out, at + 1, block, rows[row + part], rows[row + part + 1], True)
            if at < 0:
                return i, used
            out[at] = 34
            at += 1
        at = _put(out, at, before_sequence)
        at = _put_number(out, at, _sequence(base_sequence, rows[row] - base_offset))
        used = _put(out, at, behind)
    return n, used


def text_lines(
    rows: cython.const[cython.longlong][::1],
    block: cython.const[cython.uchar][::1],
    first: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_sequence: cython.longlong,
    pieces: list[bytes],
    data: cython.bint,
    legacy: cython.bint,
    out: cython.uchar[::1],
) -> tuple[int, int]:
    """Writes plain records from row ``first`` on to ``out``, a line each.

    ``pieces`` are what stands before the offset, the timestamp, the key's size, the value's size
    and the sequence, behind that, and before the key and the value, which ``data`` asks for. With
    ``legacy`` the stored checksum takes the place of the sequence. Returns (the first row not
    written, bytes written).
    """
    before_offset: cython.const[cython.uchar][::1] = pieces[0]
    before_timestamp: cython.const[cython.uchar][::1] = pieces[1]
    before_key_size: cython.const[cython.uchar][::1] = pieces[2]
    before_value_size: cython.const[cython.uchar][::1] = pieces[3]
    before_last: cython.const[cython.uchar][::1] = pieces[4]
    behind: cython.const[cython.uchar][::1] = pieces[5]
    before_key: cython.const[cython.uchar][::1] = pieces[6]
    before_value: cython.const[cython.uchar][::1] = pieces[7]
    n: cython.Py_ssize_t = len(rows) // _FIELDS
    fixed: cython.Py_ssize_t = _NUMBERS + sum(map(len, pieces))
    used: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    i: cython.Py_ssize_t
    part: cython.int
    for i in range(first, n):
        row = i * _FIELDS
        if rows[row + 7] or used + fixed + _bytes_of(rows, row) > len(out):
            return i, used
        at = _put(out, used, before_offset)
        at = _put_number(out, at, rows[row])
        at = _put(out, at, before_timestamp)
        at = _put_number(out, at, rows[row + 1])
        at = _put(out, at, before_key_size)
        at = _put_number(out, at, rows[row + 3])
        at = _put(out, at, before_value_size)
        at = _put_number(out, at, rows[row + 5])
        at = _put(out, at, before_last)
        if legacy:
            at = _put_number(out, at, _stored_crc(block, rows[row + 6]))
        else:
            at = _put_number(out, at, _sequence(base_sequence, rows[row] - base_offset))
        at = _put(out, at, behind)
        if data:
            for part in range(2, 6, 2):
                if rows[row + part + 1] < 0:
                    continue
                at = _put(out, at, before_key if part == 2 else before_value)
                at = _put_plain(out, at, block, rows[row + part], rows[row + part + 1], False)
                if at < 0:
                    return i, used
        out[at] = 10
        used = at + 1
    return n, used
