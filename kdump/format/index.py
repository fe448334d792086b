"""The offset index, the time index and the transaction index of a segment.

Spec: ``OffsetIndex``, ``TimeIndex``, ``TransactionIndex`` (KIP-33, KIP-98). Any bytes decode, and
encode to the same bytes again: padding, a remainder and entries out of order are preserved. An
index may have 1,310,720 entries, so entries are columns and not objects.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from kdump.format.kernel import entries as _entries
from kdump.values import frozen


@frozen
class Violations:
    """Entries that break the order: their count, and the numbers of the first ones, from 0."""

    count: int
    first: tuple[int, ...]


@frozen
class OffsetIndex:
    """An ``.index``: 8 bytes an entry, the offset relative to the base (4) and the position (4).

    ``relative_offsets`` and ``positions`` are columns of the entries up to the last slot that is
    not all zeros. ``padding`` counts the zero slots after it: a zero slot is not an entry, as no
    index has an entry for the first batch of a segment, at position 0. ``remainder`` is the bytes
    after the last whole slot. In the index of an active segment stale entries may follow the valid
    ones. They are order violations, or have positions beyond the end of the log.
    """

    base_offset: int
    relative_offsets: array[int]
    positions: array[int]
    padding: int = 0
    remainder: bytes = b""

    ENTRY_BYTES: ClassVar = 8

    @classmethod
    def of(cls, base_offset: int, entries: Iterable[tuple[int, int]]) -> OffsetIndex:
        """Return the index of (offset, position) pairs."""
        pairs = array("q", (number for entry in entries for number in entry))
        relative = array("i", (offset - base_offset for offset in pairs[0::2]))
        return cls(base_offset, relative, array("i", pairs[1::2]))

    @classmethod
    def decode(cls, data: bytes | memoryview, base_offset: int) -> OffsetIndex:
        """Read the bytes of a whole file; any will do."""
        used, padding, remainder = _measure(data, cls.ENTRY_BYTES)
        words = _big_endian("i", data[: used * cls.ENTRY_BYTES])
        return cls(base_offset, words[0::2], words[1::2], padding, remainder)

    def encode(self) -> bytes:
        """Return the file's bytes, padding and remainder included."""
        words = array("i", bytes(self.ENTRY_BYTES * len(self)))
        words[0::2] = self.relative_offsets
        words[1::2] = self.positions
        return _to_big_endian(words) + bytes(self.ENTRY_BYTES * self.padding) + self.remainder

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Return (offset, position) of one entry."""
        return self.base_offset + self.relative_offsets[number], self.positions[number]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self[number] for number in range(len(self)))

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry not above ``offset``, else (base offset, 0)."""
        number = bisect_right(self.relative_offsets, offset - self.base_offset)
        return self[number - 1] if number else (self.base_offset, 0)

    def order_violations(self) -> Violations:
        """Return the entries with an offset or a position not above the entry before."""
        first = array("q", bytes(8 * _entries.LISTED))
        count = _entries.disorder_of_offsets(self.relative_offsets, self.positions, first)
        return Violations(count, tuple(first[:count]))


@frozen
class TimeIndex:
    """A ``.timeindex``: 12 bytes an entry, a timestamp in ms (8) and the relative offset (4).

    Columns, ``padding`` and ``remainder`` are as in ``OffsetIndex``, except that a single zero slot
    is an entry: a segment whose timestamps are all 0 has such an index.
    """

    base_offset: int
    timestamps: array[int]
    relative_offsets: array[int]
    padding: int = 0
    remainder: bytes = b""

    ENTRY_BYTES: ClassVar = 12

    @classmethod
    def of(cls, base_offset: int, entries: Iterable[tuple[int, int]]) -> TimeIndex:
        """Return the index of (timestamp, offset) pairs."""
        pairs = array("q", (number for entry in entries for number in entry))
        relative = array("i", (offset - base_offset for offset in pairs[1::2]))
        return cls(base_offset, pairs[0::2], relative)

    @classmethod
    def decode(cls, data: bytes | memoryview, base_offset: int) -> TimeIndex:
        """Read the bytes of a whole file; any will do."""
        used, padding, remainder = _measure(data, cls.ENTRY_BYTES)
        if padding == 1 and not used:
            used, padding = 1, 0
        words = array("i", bytes(data[: used * cls.ENTRY_BYTES]))
        stamps = array("i", bytes(8 * used))
        stamps[0::2] = words[0::3]
        stamps[1::2] = words[1::3]
        return cls(
            base_offset,
            _big_endian("q", stamps.tobytes()),
            _big_endian("i", words[2::3].tobytes()),
            padding,
            remainder,
        )

    def encode(self) -> bytes:
        """Return the file's bytes, padding and remainder included."""
        stamps = array("i", _to_big_endian(self.timestamps))
        words = array("i", bytes(self.ENTRY_BYTES * len(self)))
        words[0::3] = stamps[0::2]
        words[1::3] = stamps[1::2]
        words[2::3] = array("i", _to_big_endian(self.relative_offsets))
        return words.tobytes() + bytes(self.ENTRY_BYTES * self.padding) + self.remainder

    def __len__(self) -> int:
        return len(self.timestamps)

    def __getitem__(self, number: int) -> tuple[int, int]:
        """Return (timestamp, offset) of one entry."""
        return self.timestamps[number], self.base_offset + self.relative_offsets[number]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self[number] for number in range(len(self)))

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry not above ``timestamp``, else (-1, base offset)."""
        number = bisect_right(self.timestamps, timestamp)
        return self[number - 1] if number else (-1, self.base_offset)

    def order_violations(self) -> Violations:
        """Return the entries with a timestamp not above, or an offset below, the entry before."""
        first = array("q", bytes(8 * _entries.LISTED))
        count = _entries.disorder_of_times(self.timestamps, self.relative_offsets, first)
        return Violations(count, tuple(first[:count]))


@frozen
class AbortedTxn:
    """An aborted transaction; ``last_offset`` is that of its ABORT marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@frozen
class TransactionIndex:
    """A ``.txnindex``: 34 bytes an entry. ``remainder`` is a shorter tail, which brokers ignore.

    | @  | field              | width |
    |----|--------------------|-------|
    | 0  | version            | 2     |
    | 2  | producer_id        | 8     |
    | 10 | first_offset       | 8     |
    | 18 | last_offset        | 8     |
    | 26 | last_stable_offset | 8     |
    """

    entries: tuple[AbortedTxn, ...]
    remainder: bytes = b""

    ENTRY_BYTES: ClassVar = 34

    @classmethod
    def decode(cls, data: bytes | memoryview) -> TransactionIndex:
        """Read the bytes of a whole file; any will do."""
        end = len(data) - len(data) % cls.ENTRY_BYTES
        entries = tuple(AbortedTxn(*fields) for fields in _ABORTED_TXN.iter_unpack(data[:end]))
        return cls(entries, bytes(data[end:]))

    def split(self, bases: Sequence[int]) -> tuple[TransactionIndex, ...]:
        """Return an index for each of the logs that the log of this index is split into.

        ``bases`` are the base offsets of these logs, ascending. An entry goes to the log that holds
        its last offset. The remainder is left out.
        """
        parts: list[list[AbortedTxn]] = [[] for _ in bases]
        for entry in self.entries:
            parts[max(bisect_right(bases, entry.last_offset) - 1, 0)].append(entry)
        return tuple(TransactionIndex(tuple(entries)) for entries in parts)

    def encode(self) -> bytes:
        """Return the file's bytes, remainder included."""
        entries = (
            _ABORTED_TXN.pack(
                entry.version,
                entry.producer_id,
                entry.first_offset,
                entry.last_offset,
                entry.last_stable_offset,
            )
            for entry in self.entries
        )
        return b"".join(entries) + self.remainder


_ZERO_BYTES = bytes(1 << 16)
_ABORTED_TXN = struct.Struct(">hqqqq")


def _measure(data: bytes | memoryview, entry_bytes: int) -> tuple[int, int, bytes]:
    """Return the count of used slots, the count of padding slots, and the remainder.

    A slot that is not all zeros, and every slot before it, is used; the rest is padding.
    """
    slots = len(data) // entry_bytes
    end = slots * entry_bytes
    used = -(-_used_bytes(memoryview(data)[:end]) // entry_bytes)
    return used, slots - used, bytes(data[end:])


def _used_bytes(data: memoryview) -> int:
    """Return how many bytes are left without the zeros at the end."""
    end = len(data)
    # Mostly megabytes of zeros: bytes objects are compared eight and more bytes at a time.
    while end >= len(_ZERO_BYTES) and bytes(data[end - len(_ZERO_BYTES) : end]) == _ZERO_BYTES:
        end -= len(_ZERO_BYTES)
    start = max(end - len(_ZERO_BYTES), 0)
    return start + len(bytes(data[start:end]).rstrip(b"\0"))


def _big_endian(typecode: str, data: bytes | memoryview) -> array[int]:
    numbers: array[int] = array(typecode, bytes(data))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _to_big_endian(numbers: array[int]) -> bytes:
    return _big_endian(numbers.typecode, numbers.tobytes()).tobytes()
