"""The last record of each key of a compacted topic, in memory that grows with keys alone."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

from kdump.format.batch import RecordTable
from kdump.format.kernel import compacted as _compacted

_WIDTH: Final = len(_compacted.ENTRY_FIELDS)
_FIRST_ENTRIES: Final = 256
_FIRST_BYTES: Final = 1 << 14


class LastRecord(NamedTuple):
    """The last record of a key; ``value`` is None for a tombstone."""

    key: bytes
    value: bytes | None
    offset: int


class LatestRecords:
    """A table of the record with the highest offset of each key; iterates in order of first use."""

    __slots__ = ("_arena", "_entries", "_slots", "_state")

    def __init__(self) -> None:
        self._entries = array("q", bytes(8 * _WIDTH * _FIRST_ENTRIES))
        self._slots = array("q", bytes(8 * 2 * _FIRST_ENTRIES))
        self._arena = bytearray(_FIRST_BYTES)
        self._state = array("q", bytes(8 * len(_compacted.STATE_FIELDS)))
        # Keys that are chosen to have equal hashes need to know it.
        self._state[_compacted.S_SEED] = hash(b"kdump") & 0xFFFFFFFF

    def add(self, rows: memoryview, block: memoryview) -> None:
        """Add records; ``rows`` are flat, of ``RECORD_FIELDS``, with positions in ``block``."""
        row = 0
        while True:
            row = _compacted.keep_latest(
                rows, row, block, self._entries, self._slots, self._arena, self._state
            )
            if row * RecordTable.WIDTH == len(rows):
                return
            self._grow()

    def merge(self, other: LatestRecords) -> None:
        """Add the records of another table."""
        rows = memoryview(array("q", bytes(8 * RecordTable.WIDTH * len(other))))
        _compacted.entry_rows(other._entries, len(other), rows)
        self.add(rows, memoryview(other._arena))

    def __len__(self) -> int:
        return self._state[_compacted.S_ENTRIES]

    def __iter__(self) -> Iterator[LastRecord]:
        for at in range(0, len(self) * _WIDTH, _WIDTH):
            _, key, key_size, offset, start, size, _ = self._entries[at : at + _WIDTH]
            value = None if size < 0 else bytes(self._arena[start : start + size])
            yield LastRecord(bytes(self._arena[key : key + key_size]), value, offset)

    def _grow(self) -> None:
        needed = self._state[_compacted.S_NEEDED]
        if needed:
            self._arena = self._arena + bytearray(max(needed, len(self._arena)))
            return
        self._entries.extend(array("q", bytes(8 * len(self._entries))))
        self._slots = array("q", bytes(16 * len(self._slots)))
        _compacted.fill_slots(self._entries, len(self), self._slots)
