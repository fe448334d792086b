"""The hot loops of digests: records in a form without gaps, and the headers of batches.

What is made of them is hashed by the caller.

Spec: ``DefaultRecord``, ``LegacyRecord`` for what a record is (KOD 3.1, 3.2).
It must never write beyond the buffer that it is given, or make an object per record or batch.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    BATCH_WIDTH,
    HEADER_BYTES,
    HEADER_COUNT,
    HEADERS,
    KEY,
    KEY_SIZE,
    LEGACY_HEADER_BYTES,
    MAGIC,
    OFFSET,
    POSITION,
    RECORD_WIDTH,
    SIZE,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
    need,
    put_bytes,
    put_i32,
    put_i64,
    varint,
)

#: What fold_records() puts before the key of a record.
_FOLDED = 29


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
        at = put_i32(out, at, size)
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
