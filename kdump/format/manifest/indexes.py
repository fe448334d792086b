"""Indexes: the entries of an offset index or a time index, by the batches that they are about.

An index so costs less than a bit for most entries.

Spec: kdump-manifest-format(5), section 6.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from typing import Final

from kdump.errors import DecodeError
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kernel import entries as _entries
from kdump.format.manifest.blocks import pack_column, read_column
from kdump.format.manifest.cursor import SectionCursor, pack_data
from kdump.values import frozen

#: The most bytes of an index (``kdump.audit.survey.index_promises`` reads no larger ones).
INDEX_BYTES: Final = 64 << 20
#: The bytes at the end of an index that are stored as they are: a quick check reads no others.
END_BYTES: Final = 17 * TimeIndex.ENTRY_BYTES
_HEAD: Final = struct.Struct(">BqQII")
_SLOTS: Final = (OffsetIndex.ENTRY_BYTES, TimeIndex.ENTRY_BYTES)


@frozen
class StoredIndex:
    """An index by its batches.

    ``folded`` has two numbers for each entry, ``zeros`` is the number of zero bytes behind them,
    ``end`` are the last bytes of the file.
    """

    times: bool
    base_offset: int
    log: int
    folded: array[int]
    zeros: int
    end: bytes

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.folded) // 2 * _SLOTS[self.times] + self.zeros


class IndexFold:
    """Finds the batches that the entries of an index are about, while the log is walked."""

    def __init__(self, data: bytes, base_offset: int, *, times: bool) -> None:
        self._slot = _SLOTS[times]
        used = -(-len(data.rstrip(b"\0")) // self._slot) * self._slot
        self._entries = data[: min(used, len(data))]
        self._zeros = len(data) - len(self._entries)
        self._base_offset = base_offset
        self._times = times
        self._end = data[-END_BYTES:]
        self._fold = _entries.fold_times if times else _entries.fold_index
        self._state = array("q", bytes(8 * _entries.INDEX_FIELDS))
        self._folded = array("q", bytes(16 * (len(self._entries) // self._slot)))

    def add(self, rows: memoryview) -> None:
        """Add the next batches of the log, in rows of the kernel."""
        self._fold(rows, self._entries, self._base_offset, self._state, self._folded)

    def finish(self, log: int) -> StoredIndex | None:
        """Return the index, whose log is at ``log``; None if an entry is about no batch."""
        whole = len(self._entries) % self._slot == 0
        if not whole or 2 * self._state[_entries.N_NEXT] < len(self._folded):
            return None
        return StoredIndex(
            self._times, self._base_offset, log, self._folded, self._zeros, self._end
        )


def unfold(index: StoredIndex, tables: Iterable[memoryview]) -> bytearray:
    """Return the bytes of an index, by the batches of its log in rows of the kernel.

    Raises DecodeError if an entry is about no batch.
    """
    entries = len(index.folded) // 2
    out = bytearray(index.size)
    state = array("q", bytes(8 * _entries.INDEX_FIELDS))
    unfold_rows = _entries.unfold_times if index.times else _entries.unfold_index
    for rows in tables:
        if state[_entries.N_NEXT] == entries or state[_entries.N_UNMATCHED]:
            break
        unfold_rows(rows, index.folded, index.base_offset, state, out)
    if state[_entries.N_NEXT] < entries:
        raise DecodeError(
            f"index of a manifest: expected {entries} entries about batches of its log, found "
            f"{state[_entries.N_NEXT]}"
        )
    return out  # mostly zeros, which take no memory until they are written


def encode_index(index: StoredIndex) -> bytes:
    """Return the payload of an index."""
    entries = len(index.folded) // 2
    head = _HEAD.pack(index.times, index.base_offset, index.log, entries, index.zeros)
    planes = memoryview(bytearray(8 * entries))
    columns = (pack_column(index.folded, place, 2, planes) for place in range(2))
    return head + pack_data(index.end) + b"".join(columns)


def decode_index(payload: bytes) -> StoredIndex:
    """Return the index of a payload. Raises DecodeError."""
    cursor = SectionCursor(payload, "index")
    times, base_offset, log, entries, zeros = cursor.unpack(_HEAD)
    if times > 1 or entries * _SLOTS[times] + zeros > INDEX_BYTES:
        raise cursor.error(f"an index of at most {INDEX_BYTES} bytes", f"{entries} entries")
    end = cursor.data()
    if len(end) != min(END_BYTES, entries * _SLOTS[times] + zeros):
        raise cursor.error("the last bytes of the index", f"{len(end)} bytes")
    folded = array("q", bytes(16 * entries))
    for place in range(2):
        read_column(cursor, entries, place, 2, folded)
    cursor.end()
    return StoredIndex(bool(times), base_offset, log, folded, zeros, end)


def with_log(payload: bytes, log: int) -> bytes:
    """Return the payload of an index whose log is at ``log``."""
    times, base_offset, _, entries, zeros = _HEAD.unpack_from(payload)
    return _HEAD.pack(times, base_offset, log, entries, zeros) + payload[_HEAD.size :]
