"""The content of a file without batches, in file order.

Spec: ``OffsetIndex``, ``TimeIndex``, ``TransactionIndex``, ``ProducerStateManager``,
``CheckpointFile``, ``PartitionMetadataFile``, ``MetaProperties``, ``FileQuorumStateStore``,
``CleanShutdownFileHandler``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final

from kdump.commands.dump.entries import Entries, FileDamage, Piece, ZeroSlots
from kdump.errors import DecodeError
from kdump.format.checkpoint import EpochEntry, OffsetEntry, decode_epochs, decode_offsets
from kdump.format.index import AbortedTxn, OffsetIndex, TimeIndex, TransactionIndex
from kdump.format.properties import (
    CleanShutdownMarker,
    PartitionMetadata,
    QuorumState,
    decode_clean_shutdown,
    decode_partition_metadata,
    decode_quorum_state,
    parse_properties,
)
from kdump.format.snapshot import ProducerEntry, Snapshot, read_snapshot
from kdump.storage.names import EXTENSIONS, FileKind

#: The largest file of a segment that is read: an index with an entry for every 256 bytes of log.
_SEGMENT_FILE_BYTES: Final = 64 << 20
#: The largest text that is read: a checkpoint of some 100,000 partitions.
_TEXT_BYTES: Final = 8 << 20

_ROWS: Final = 65_536


def max_bytes(kind: FileKind) -> int:
    """Return the size in bytes of the largest file of this kind that ``pieces`` takes."""
    return _SEGMENT_FILE_BYTES if kind in EXTENSIONS else _TEXT_BYTES


def pieces(kind: FileKind, data: bytes, base_offset: int) -> Iterator[Piece]:
    """Yield the pieces of a file from all its bytes; ``kind`` is one of ``KINDS``.

    A file without entries yields empty ``Entries``. A file that cannot be decoded at all yields one
    ``FileDamage``.
    """
    try:
        yield from _READERS[kind](data, base_offset)
    except DecodeError as error:
        yield FileDamage("unreadable", 0, len(data), str(error), data)


def _offset_index(data: bytes, base_offset: int) -> Iterator[Piece]:
    index = OffsetIndex.decode(data, base_offset)
    for rows in _slices(index):
        offsets = [base_offset + relative for relative in index.relative_offsets[rows]]
        yield Entries("index-entry", {"offset": offsets, "position": index.positions[rows]})
    yield from _after_entries(index)


def _time_index(data: bytes, base_offset: int) -> Iterator[Piece]:
    index = TimeIndex.decode(data, base_offset)
    for rows in _slices(index):
        offsets = [base_offset + relative for relative in index.relative_offsets[rows]]
        yield Entries("time-index-entry", {"timestamp": index.timestamps[rows], "offset": offsets})
    yield from _after_entries(index)


def _slices(index: OffsetIndex | TimeIndex) -> Iterator[slice]:
    """Yield slices of at most ``_ROWS`` entries; one slice if the index is empty."""
    if len(index) or not index.padding:
        for start in range(0, max(len(index), 1), _ROWS):
            yield slice(start, start + _ROWS)


def _after_entries(index: OffsetIndex | TimeIndex) -> Iterator[Piece]:
    position = len(index) * index.ENTRY_BYTES
    if index.padding:
        size = index.padding * index.ENTRY_BYTES
        yield ZeroSlots(position, size, index.padding)
        position += size
    yield from _remainder(position, index.remainder, index.ENTRY_BYTES)


def _remainder(position: int, remainder: bytes, entry_bytes: int) -> Iterator[Piece]:
    if remainder:
        detail = f"expected entries of {entry_bytes} bytes, found {len(remainder)} bytes"
        yield FileDamage("remainder", position, len(remainder), detail, remainder)


def _txn_index(data: bytes, _: int) -> Iterator[Piece]:
    entry_bytes = TransactionIndex.ENTRY_BYTES
    for start in range(0, max(len(data), 1), _ROWS * entry_bytes):
        index = TransactionIndex.decode(data[start : start + _ROWS * entry_bytes])
        yield _entries("aborted-transaction", AbortedTxn, index.entries)
        position = start + len(index.entries) * entry_bytes
        yield from _remainder(position, index.remainder, entry_bytes)


def _snapshot(data: bytes, _: int) -> Iterator[Piece]:
    snapshot = read_snapshot(data)
    crcs = snapshot.stored_crc, snapshot.computed_crc
    if crcs[0] != crcs[1]:
        yield FileDamage("bad-checksum", 0, len(data), None, None, *crcs)
    columns = {
        name: [entry[column] for entry in snapshot.entries]
        for column, name in enumerate(ProducerEntry._fields)
    }
    yield Entries("producer", columns, [_producer(entry) for entry in snapshot.entries])
    count = len(snapshot.entries)
    if snapshot.rest or count != snapshot.count:
        position = Snapshot.HEADER_BYTES + count * Snapshot.ENTRY_BYTES
        detail = (
            f"expected {snapshot.count} entries, found {count} and {len(snapshot.rest)} bytes "
            "after them"
        )
        yield FileDamage("wrong-count", position, len(snapshot.rest), detail, snapshot.rest or None)


def _producer(entry: ProducerEntry) -> str:
    """Return the line of Kafka's tool, which leaves out the last batch if none is known."""
    first = entry.current_txn_first_offset
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        + (f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty")
        + f" lastTimestamp: {entry.timestamp}"
    )
    if entry.last_offset < 0:
        return line
    first_sequence = (entry.last_sequence - entry.offset_delta) % 2**31
    return (
        f"{line} firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} "
        f"timestamp: {entry.timestamp}"
    )


def _offset_checkpoint(data: bytes, _: int) -> Iterator[Piece]:
    yield _entries("offset-checkpoint-entry", OffsetEntry, decode_offsets(data))


def _leader_epochs(data: bytes, _: int) -> Iterator[Piece]:
    yield _entries("leader-epoch", EpochEntry, decode_epochs(data))


def _partition_metadata(data: bytes, _: int) -> Iterator[Piece]:
    yield _entries("partition-metadata", PartitionMetadata, [decode_partition_metadata(data)])


def _meta_properties(data: bytes, _: int) -> Iterator[Piece]:
    pairs = parse_properties(data)
    yield Entries("property", {"name": list(pairs), "value": list(pairs.values())})


def _quorum_state(data: bytes, _: int) -> Iterator[Piece]:
    yield _entries("quorum-state", QuorumState, [decode_quorum_state(data)])


def _clean_marker(data: bytes, _: int) -> Iterator[Piece]:
    markers = [decode_clean_shutdown(data)] if data else []
    yield _entries("clean-shutdown", CleanShutdownMarker, markers)


def _entries(kind: str, row: type, values: Sequence[object]) -> Entries:
    """Return ``values``, instances of the dataclass ``row``, as columns."""
    names = [field.name for field in fields(row)]
    return Entries(kind, {name: [getattr(value, name) for value in values] for name in names})


_READERS: Final[Mapping[FileKind, Callable[[bytes, int], Iterator[Piece]]]] = {
    FileKind.INDEX: _offset_index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TXN_INDEX: _txn_index,
    FileKind.SNAPSHOT: _snapshot,
    FileKind.OFFSET_CHECKPOINT: _offset_checkpoint,
    FileKind.LEADER_EPOCHS: _leader_epochs,
    FileKind.PARTITION_METADATA: _partition_metadata,
    FileKind.META_PROPERTIES: _meta_properties,
    FileKind.QUORUM_STATE: _quorum_state,
    FileKind.CLEAN_MARKER: _clean_marker,
}
#: The kinds of files that ``pieces`` decodes.
KINDS: Final = frozenset(_READERS)
