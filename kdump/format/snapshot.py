"""Producer snapshots, the ``.snapshot`` files of a partition.

Spec: ``ProducerStateManager.readSnapshot``, ``ProducerSnapshot.json``. A broker deletes a damaged
snapshot and uses no part of it. ``decode_snapshot`` refuses such a file; ``read_snapshot`` reads it
for display.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import ClassVar, Final, NamedTuple

from crc32c import crc32c

from kdump.errors import DecodeError
from kdump.values import frozen

VERSION = 1
_HEADER = struct.Struct(">hIi")  # version, crc, count
_CRC_START = 6
_ENTRY = struct.Struct(">qhiqiqiq")
_TRANSACTION = struct.Struct(f">{_ENTRY.size - 8}xq")


class ProducerEntry(NamedTuple):
    """The state of one producer after the records below the offset of the snapshot.

    | @  | field                            | width |
    |----|----------------------------------|-------|
    | 0  | producer_id                      | 8     |
    | 8  | producer_epoch                   | 2     |
    | 10 | last_sequence, -1 none           | 4     |
    | 14 | last_offset of data, -1 none     | 8     |
    | 22 | offset_delta of that batch       | 4     |
    | 26 | timestamp, ms                    | 8     |
    | 34 | coordinator_epoch, -1 none       | 4     |
    | 38 | current_txn_first_offset, -1 none | 8    |
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


@frozen
class ProducerEntries:
    """The entries of a sound snapshot in file order; the order has no meaning.

    ``data`` are their bytes in the file, 46 each. They are decoded on demand, as a broker may have
    millions of producers and few are used.
    """

    data: bytes

    def __len__(self) -> int:
        return len(self.data) // _ENTRY.size

    def __iter__(self) -> Iterator[ProducerEntry]:
        return map(ProducerEntry._make, _ENTRY.iter_unpack(self.data))

    def open_transactions(self) -> list[int]:
        """Return the first offsets of the open transactions."""
        return [first for (first,) in _TRANSACTION.iter_unpack(self.data) if first >= 0]


#: A snapshot without producers.
NO_PRODUCERS: Final = ProducerEntries(b"")


@frozen
class Snapshot:
    """The content of a producer snapshot, sound or not.

    ``count`` is the count in the header. ``entries`` are the complete ones, at most that many, and
    ``rest`` is the bytes after them, none in a sound file. Both checksums are CRC-32C.
    """

    stored_crc: int
    computed_crc: int
    count: int
    entries: tuple[ProducerEntry, ...]
    rest: bytes

    HEADER_BYTES: ClassVar = _HEADER.size
    ENTRY_BYTES: ClassVar = _ENTRY.size


def read_snapshot(data: bytes | memoryview) -> Snapshot:
    """Read a snapshot, sound or not, for display. Raises DecodeError if it has no valid header."""
    stored, count = _header(data)
    body = memoryview(data)[_HEADER.size :]
    end = min(max(count, 0), len(body) // _ENTRY.size) * _ENTRY.size
    return Snapshot(
        stored,
        crc32c(memoryview(data)[_CRC_START:]),
        count,
        tuple(ProducerEntries(bytes(body[:end]))),
        bytes(body[end:]),
    )


def decode_snapshot(data: bytes | memoryview) -> ProducerEntries:
    """Return the entries of a sound snapshot. Raises DecodeError."""
    stored, count = _header(data)
    computed = crc32c(memoryview(data)[_CRC_START:])
    if computed != stored:
        raise DecodeError(
            f"producer snapshot: expected checksum {stored}, found {computed} over "
            f"{len(data) - _CRC_START} bytes"
        )
    expected = _HEADER.size + count * _ENTRY.size
    if len(data) != expected:
        raise DecodeError(
            f"producer snapshot: expected {expected} bytes for {count} entries, found {len(data)}"
        )
    return ProducerEntries(bytes(data[_HEADER.size :]))


def _header(data: bytes | memoryview) -> tuple[int, int]:
    """Return the checksum and the count in the header. Raises DecodeError."""
    if len(data) < _HEADER.size:
        raise DecodeError(
            f"producer snapshot: expected {_HEADER.size} bytes or more, found {len(data)}"
        )
    version, stored, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise DecodeError(f"producer snapshot: expected version {VERSION}, found {version}")
    return stored, count


def encode_snapshot(entries: Collection[ProducerEntry] | ProducerEntries) -> bytes:
    """Return a snapshot of ``entries`` in their order, 10 + 46 bytes each."""
    body = struct.pack(">i", len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    return struct.pack(">hI", VERSION, crc32c(body)) + body
