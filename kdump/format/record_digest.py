"""A digest of records that does not depend on how they are batched or compressed.

The digest is XXH3 of 128 bits over the bytes that the kernel's ``fold_records`` makes of each
record. It detects accidents, not forgeries. NoTimestampType counts as CreateTime, which it becomes
in magic 2.
"""

from __future__ import annotations

import struct
from typing import Final

from xxhash import xxh3_128

from kdump.format.batch import RecordTable, TimestampType
from kdump.format.kernel import columns as _columns
from kdump.format.kernel import digest as _digest

_ROOM_BYTES: Final = 64 * 1024
_HEADERS_AT_ONCE: Final = 1024
#: offset, timestamp, type, sizes of key and value, number of headers
_RECORD = struct.Struct(">qqBiii")
#: sizes of key and value
_HEADER = struct.Struct(">ii")


class RecordDigest:
    """The digest of records in the order of their addition; ``count`` is their number."""

    __slots__ = ("_hash", "_room", "count")

    def __init__(self) -> None:
        self.count = 0
        self._hash = xxh3_128()
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def add(
        self, block: memoryview, rows: memoryview, timestamp_type: TimestampType, *, legacy: bool
    ) -> None:
        """Add all records of ``rows``, which have positions in ``block``.

        Both are those of a ``RecordTable`` or ``RecordRun``. ``legacy``: the records are of magic 0
        or 1, and have no headers.
        """
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        count, row = len(rows) // RecordTable.WIDTH, 0
        self.count += count
        while row < count:
            reached, size = _digest.fold_records(block, rows, row, legacy, log_append, self._room)
            if reached == row:
                self._add_large(block, rows, row, legacy, log_append)
                reached += 1
            self._hash.update(self._room[:size])
            row = reached

    def copy(self) -> RecordDigest:
        """Return an independent digest of the same records."""
        duplicate = RecordDigest.__new__(RecordDigest)
        duplicate.count, duplicate._room = self.count, self._room
        duplicate._hash = self._hash.copy()
        return duplicate

    def hexdigest(self) -> str:
        """Return the digest of all records added so far, as hexadecimal digits."""
        return self._hash.hexdigest()

    def _add_large(
        self, block: memoryview, rows: memoryview, row: int, legacy: bool, log_append: bool
    ) -> None:
        """Add one record of any size, piece by piece."""
        at = row * RecordTable.WIDTH
        offset, timestamp, key, key_size, value, value_size, position, left = rows[
            at : at + RecordTable.WIDTH
        ]
        key_size, value_size = max(key_size, -1), max(value_size, -1)
        left = 0 if legacy else left
        update = self._hash.update
        update(_RECORD.pack(offset, timestamp, log_append, key_size, value_size, left))
        update(block[key : key + max(key_size, 0)])
        update(block[value : value + max(value_size, 0)])
        while left:
            headers = _columns.read_headers(block, position, min(left, _HEADERS_AT_ONCE))
            for key, key_size, value, value_size in headers:
                position = value + max(value_size, 0)
                update(_HEADER.pack(key_size, max(value_size, -1)))
                update(block[key : key + key_size])
                update(block[value:position])
            left -= len(headers)
