"""The records and snapshots of ``__cluster_metadata-0``.

Spec: ``RecordsSnapshotReader``, ``Snapshots``, ``MetadataRecordSerde`` (KIP-500, KIP-630).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, TypeAlias

from kdump.errors import DecodeError, LimitError, SourceError
from kdump.format.batch import RecordBatch, RecordTable, read_header
from kdump.format.control import ControlRecord, ControlType, control_type_id, decode_control
from kdump.format.messages.metadata import MetadataRecord, decode_metadata
from kdump.format.messages.reader import Value
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import EntryType, LogDirectory, Partition, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC, FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source
from kdump.storage.walk import Damage, batch_bytes, walk
from kdump.values import frozen

_FRAME_VERSION: Final = 1
_FEATURE_LEVEL: Final = 12
#: The bytes of a batch up to its magic, and the smallest size that its header may have.
_UP_TO_MAGIC: Final = 17
_LEAST_SIZE: Final = 14


@frozen
class MetadataSnapshot:
    """A frozen snapshot ``<end_offset>-<epoch>.checkpoint``; ``end_offset`` is exclusive.

    ``fault`` says why it is not whole, None if it is: all batches are sound, the header is first
    and the footer last. ``unread`` says that it could not be read, ``torn`` that it ends early: a
    node takes what is there for the whole snapshot.
    """

    path: AnyPath
    end_offset: int
    epoch: int
    fault: str | None
    unread: bool = False
    torn: bool = False


class DataRecord(NamedTuple):
    """A data record at ``offset``; ``record`` is the error if it cannot be decoded."""

    offset: int
    record: MetadataRecord | DecodeError


@frozen
class ControlEntry:
    """A control record at ``offset``; ``record`` is the error if it cannot be decoded.

    ``epoch`` is the leader epoch of its batch.
    """

    offset: int
    epoch: int
    timestamp_ms: int
    record: ControlRecord | DecodeError


@frozen
class Stop:
    """The end of a read, before ``offset``, with the reason; empty at the end of the file.

    ``cut`` says that recovery cuts the log there, ``unread`` that the file could not be read.
    """

    offset: int
    reason: str
    cut: bool = False
    unread: bool = False


LogItem: TypeAlias = DataRecord | ControlEntry | Stop


def written_ms(partition: Partition) -> int | None:
    """Return when a metadata log was last written, in ms; None if that is unknown."""
    if not partition.segments:
        return None
    try:
        return partition.segments[-1].log.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def metadata_partition(directory: LogDirectory) -> AnyPath | None:
    """Return the path of ``__cluster_metadata-0`` in a log directory, None without one."""
    for path in directory.partition_paths:
        name = directory_name(path)
        if name is not None and (name.topic, name.suffix) == (CLUSTER_METADATA_TOPIC, ""):
            return path
    return None


def read_snapshots(partition: Partition) -> tuple[MetadataSnapshot, ...]:
    """Read the snapshots of a metadata partition that are neither partial nor deleted, by age."""
    found = [
        MetadataSnapshot(
            entry.path, entry.name.base_offset, entry.name.epoch, *_find_fault(entry.path)
        )
        for entry in partition.entries
        if entry.type is EntryType.FILE
        and entry.name.kind is FileKind.METADATA_SNAPSHOT
        and entry.name.suffix == ""
        and entry.name.base_offset is not None
        and entry.name.epoch is not None
    ]
    return tuple(sorted(found, key=lambda snapshot: (snapshot.end_offset, snapshot.epoch)))


def metadata_records(
    path: AnyPath,
    base_offset: int,
    start: int,
    types: Collection[int] | None = None,
    *,
    controls: bool = False,
) -> Iterator[LogItem]:
    """Yield the data records from offset ``start`` on in the file at ``path``.

    The file is a segment or a snapshot. Records of other ``types`` are left out, None for all of
    them; control records are too, without ``controls``. The last item is always a Stop; its reason
    is empty at the end of the file. A torn write or zeros at the end of the file do not count as a
    reason.
    """
    offset = base_offset
    reader = RecordReader()
    try:
        with open_source(path, mapped=False) as source:
            for piece in walk(source, base_offset):
                if isinstance(piece, Damage):
                    tail = piece.is_tail_of(source)
                    reason = "" if tail else f"{piece.reason.value} in {path.name}"
                    yield Stop(offset, reason, cut=True)
                    return
                for run in record_runs(piece, source, reader):
                    if isinstance(run, Unread):
                        offset = run.batch.base_offset
                        raise run.error
                    if not run.batches[0].is_control:
                        yield from _decode_rows(run.block, run.rows, start, types)
                    elif controls:
                        yield from _decode_controls(run.table(0), start)
                    offset = run.batches[len(run) - 1].last_offset + 1
    except (DecodeError, LimitError, SourceError) as error:
        yield Stop(offset, str(error), unread=not isinstance(error, DecodeError))
        return
    yield Stop(offset, "")


def decode_bootstrap(data: bytes) -> Value:
    """Return the level of metadata.version in ``bootstrap.checkpoint``, as a starting node does.

    It does not compare checksums. Raises DecodeError if the node does not start.
    """
    view, position = memoryview(data), 0
    level: Value = None
    reader = RecordReader()
    while position < len(view) - _UP_TO_MAGIC:
        batch = read_header(view[position:], position)
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
        if size < _LEAST_SIZE:
            raise DecodeError(f"expected a batch at position {position}, found a size of {size}")
        if batch is None or position + batch.size > len(view):
            break
        if not batch.is_control:
            for record in _all_records(reader, batch, view[position : position + batch.size]):
                fields = record.fields
                if (
                    record.type_id == _FEATURE_LEVEL
                    and fields is not None
                    and fields["name"] == "metadata.version"
                ):
                    level = fields["featureLevel"]
        position += batch.size
    if level is None:
        raise DecodeError("expected a record of metadata.version, found none")
    return level


def _all_records(
    reader: RecordReader, batch: RecordBatch, data: memoryview
) -> Iterator[MetadataRecord]:
    try:
        for table in reader.tables(batch, data):
            for record in table:
                yield decode_metadata(record.value or b"")
    except LimitError as error:
        raise DecodeError(str(error)) from error


def _tables(reader: RecordReader, source: Source, batch: RecordBatch) -> Iterator[RecordTable]:
    return reader.tables(batch, batch_bytes(source, batch))


def _decode_rows(
    block: memoryview, rows: memoryview, start: int, types: Collection[int] | None
) -> Iterator[DataRecord]:
    # Most records of an idle cluster have other types; the type is one byte.
    for at in range(0, len(rows), RecordTable.WIDTH):
        offset, value, size = rows[at], rows[at + 4], rows[at + 5]
        known = types is not None and size > 1 and block[value] == _FRAME_VERSION
        if offset < start or (known and types is not None and block[value + 1] not in types):
            continue
        record: MetadataRecord | DecodeError
        try:
            record = decode_metadata(block[value : value + max(size, 0)])
        except DecodeError as error:
            record = error
        yield DataRecord(offset, record)


def _decode_controls(table: RecordTable, start: int) -> Iterator[ControlEntry]:
    for found in table:
        if found.offset < start:
            continue
        record: ControlRecord | DecodeError
        try:
            record = decode_control(found.key, found.value)
        except DecodeError as error:
            record = error
        yield ControlEntry(found.offset, table.batch.leader_epoch, found.timestamp, record)


def _find_fault(path: AnyPath) -> tuple[str | None, bool, bool]:
    """Return why the snapshot at ``path`` is not whole, and whether it is unread, or torn."""
    first = last = None
    reader = RecordReader()
    try:
        with open_source(path, mapped=False) as source:
            for piece in walk(source, 0):
                if isinstance(piece, Damage):
                    torn = piece.torn and first == ControlType.SNAPSHOT_HEADER
                    return f"{piece.reason.value} at position {piece.position}", False, torn
                if first is None:
                    first = _control_type(reader, source, piece[0])
                last = _control_type(reader, source, piece[len(piece) - 1])
    except (DecodeError, LimitError, SourceError) as error:
        return str(error), not isinstance(error, DecodeError), False
    if first != ControlType.SNAPSHOT_HEADER:
        return "no header at its start", False, False
    whole = last == ControlType.SNAPSHOT_FOOTER
    return (None if whole else "no footer at its end"), False, not whole


def _control_type(reader: RecordReader, source: Source, batch: RecordBatch) -> int | None:
    """Return the type of the batch's first record; None for data."""
    if not batch.is_control:
        return None
    for table in _tables(reader, source, batch):
        return control_type_id(table[0].key)
    return None
