"""A digest of records that does not depend on how they are batched or compressed.

It is XXH3 of 128 bits over the form that the kernel's ``fold_records`` gives each record: it finds
accidents, not forgeries. NoTimestampType counts as CreateTime, as which magic 2 keeps it.
"""

from __future__ import annotations

import struct
from typing import Final

from xxhash import xxh3_128

from kdump.format import _kernel
from kdump.format.batch import RecordTable, TimestampType

_ROOM_BYTES: Final = 64 * 1024
_HEADERS_AT_ONCE: Final = 1024
#: offset, timestamp, type, sizes of key and value, number of headers
_RECORD = struct.Struct(">qqBiii")
#: sizes of key and value
_HEADER = struct.Struct(">ii")


class RecordDigest:
    """The digest of the records that are added, in their order; ``count`` is how many."""

    __slots__ = ("_hash", "_room", "count")

    def __init__(self) -> None:
        self.count = 0
        self._hash = xxh3_128()
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def add(
        self, block: memoryview, rows: memoryview, timestamp_type: TimestampType, *, legacy: bool
    ) -> None:
        """Take all records of ``rows``, which point into ``block``.

        They are those of a ``RecordTable`` or ``RecordRun``; ``legacy`` says that they are of magic
        0 or 1, and have no headers.
        """
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        count, row = len(rows) // RecordTable.WIDTH, 0
        self.count += count
        while row < count:
            reached, size = _kernel.fold_records(block, rows, row, legacy, log_append, self._room)
            if reached == row:
                self._add_large(block, rows, row, legacy, log_append)
                reached += 1
            self._hash.update(self._room[:size])
            row = reached

    def copy(self) -> RecordDigest:
        """Another one of the same records; what is added to the one is not added to the other."""
        other = RecordDigest.__new__(RecordDigest)
        other.count, other._hash, other._room = self.count, self._hash.copy(), self._room
        return other

    def hexdigest(self) -> str:
        """The digest of all that was added so far."""
        return self._hash.hexdigest()

    def _add_large(
        self, block: memoryview, rows: memoryview, row: int, legacy: bool, log_append: bool
    ) -> None:
        """Take one record, of any size, piece by piece."""
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
            headers = _kernel.read_headers(block, position, min(left, _HEADERS_AT_ONCE))
            for key, key_size, value, value_size in headers:
                position = value + max(value_size, 0)
                update(_HEADER.pack(key_size, value_size))
                update(block[key : key + key_size])
                update(block[value:position])
            left -= len(headers)
