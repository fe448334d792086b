"""The small files of log directories and partitions, read and decoded.

A file that cannot be read or does not follow its format is represented by its error.

Spec: ``LogManager``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``,
``PartitionMetadataFile``, ``ProducerStateManager``; KOD 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Generic, TypeVar

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.facts.denied_files import (
    DeniedFile,
    broker_rights,
    denied_at_top,
    denied_in_partition,
    is_unwritable,
)
from kdump.audit.facts.remote_storage import OffsetRanges, RemoteStorage, remote_offsets
from kdump.audit.facts.space import Space, allocated_bytes, read_space
from kdump.errors import DecodeError, SourceError, VanishedError
from kdump.format.checkpoint import EpochEntry, decode_epochs, decode_offsets
from kdump.format.index import TransactionIndex
from kdump.format.messages.reader import Value
from kdump.format.properties import (
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    decode_meta_properties,
    decode_partition_metadata,
    decode_quorum_state,
)
from kdump.format.snapshot import ProducerEntries, decode_snapshot
from kdump.metadata.log import MetadataSnapshot, decode_bootstrap
from kdump.metadata.replay import Note
from kdump.storage.access import read_end
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import (
    DirectoryEntry,
    EntryType,
    LogDirectory,
    Partition,
    creates_target,
    directory_name,
    holds_entries,
    is_metadata_log,
    is_special,
)
from kdump.storage.names import (
    BOOTSTRAP_SNAPSHOT,
    CLEAN_MARKER,
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    DirectoryName,
    FileKind,
)
from kdump.storage.paths import AnyPath, exists
from kdump.storage.repair_record import FOLDERS, RepairRecord, is_linked, repair_records
from kdump.storage.rights import Rights
from kdump.values import frozen

#: The version of a meta.properties of KRaft.
_KRAFT_VERSION: Final = 1

T = TypeVar("T")

#: The largest small file that is read: a snapshot of 1.4 million producers.
_SMALL_BYTES: Final = 64 << 20

#: The default of ``retention.ms``.
DEFAULT_RETENTION_MS: Final = 7 * 86_400_000

#: The files that a broker writes at the top of a log directory while it runs, and as it stops.
_WRITTEN: Final = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEAN_MARKER,
)

#: The suffixes of files that a loader deletes before it opens any segment.
_DELETED_FIRST: Final = (".deleted", ".cleaned")

_WITH_OFFSET: Final = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.SNAPSHOT)

Offsets = Mapping[tuple[str, int], int]
"""The offset of each (topic, partition) in an offset checkpoint."""


@frozen
class Read(Generic[T]):
    """The read of an existing small file: its value, or the error.

    ``error`` is a DecodeError for bytes that do not follow the format, a SourceError (also
    VanishedError) for a file that could not be read; only then is ``value`` None.
    """

    path: AnyPath
    value: T | None
    error: DecodeError | SourceError | None = None

    @property
    def dangling(self) -> bool:
        """Whether the file is a link to nothing."""
        return isinstance(self.error, VanishedError) and exists(self.path)


@frozen
class TopicSettings:
    """The settings of a topic, as far as known.

    ``compacted`` is None if unknown, which checks treat as compacted. ``retention_ms`` is -1 for no
    limit, and so is ``retention_bytes``. ``origin`` names the source of the settings.
    ``remote_storage`` says that older segments may be in remote storage; None if unknown.
    """

    compacted: bool | None = None
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10_485_760
    retention_ms: int | None = None
    origin: str = "Kafka's defaults"
    remote_storage: bool | None = None
    retention_bytes: int | None = None


@frozen
class DirectoryFacts:
    """The files at the top of a log directory; a file that does not exist is None.

    ``clean_marker`` says that the clean shutdown marker exists; its content means nothing.
    ``bootstrap`` is the metadata.version in bootstrap.checkpoint. ``written_ms`` is the time at
    which a broker last wrote a checkpoint or the marker, which it does all the time while it runs;
    0 without any. ``broker`` are the ids of the broker's user, None if unknown; ``denied`` are the
    files at the top that this user may not open. ``space`` is that of its file system, None if
    unknown.
    """

    directory: LogDirectory
    liveness: Liveness
    clean_marker: bool
    meta: Read[MetaProperties] | None
    recovery_points: Read[Offsets] | None
    high_watermarks: Read[Offsets] | None
    log_starts: Read[Offsets] | None
    cleaner_offsets: Read[Offsets] | None
    bootstrap: Read[Value] | None
    written_ms: int = 0
    broker: Rights | None = None
    denied: tuple[DeniedFile, ...] = ()
    space: Space | None = field(default=None, compare=False)  # other processes change it

    @property
    def stopped(self) -> bool:
        """Whether certainly no broker uses it; an unknown state counts as live."""
        return self.liveness.state is BrokerState.STOPPED

    @property
    def identity(self) -> MetaProperties | None:
        """The value of ``meta.properties``; None if it is missing or unreadable."""
        return None if self.meta is None else self.meta.value

    @property
    def checkpoints(self) -> list[Read[Offsets]]:
        """The offset checkpoints that exist."""
        reads = (self.recovery_points, self.high_watermarks, self.log_starts, self.cleaner_offsets)
        return [read for read in reads if read is not None]

    @property
    def is_kraft(self) -> bool:
        """Whether it is of a KRaft node, or of one that migrates to KRaft."""
        meta = self.identity
        return self.has_metadata_log or (meta is not None and meta.version == _KRAFT_VERSION)

    @property
    def has_metadata_log(self) -> bool:
        """Whether the metadata log of the cluster is in it."""
        names = map(directory_name, self.directory.partition_paths)
        return any(name is not None and name.topic == CLUSTER_METADATA_TOPIC for name in names)


@frozen
class SwapLog:
    """The content of a ``.swap`` log.

    ``end`` is the offset after the last record, ``records`` the number of records; each is None if
    unknown. ``cleaned`` is as for a survey. ``dense``: it has records, and no offset is missing
    from its base to its end.
    """

    end: int | None
    records: int | None
    cleaned: bool
    dense: bool


@frozen
class Successor:
    """The future log that a start makes the current log in place of this one.

    ``end`` is the offset after its last record, None if it is unknown. ``facts`` are its own, None
    if it could not be listed, and ``bytes`` is the size of its logs.
    """

    path: AnyPath
    end: int | None
    facts: PartitionFacts | None = None
    bytes: int = 0


@frozen
class PartitionFacts:
    """A partition as listed, its small files, and its lines in the directory's checkpoints.

    ``clean`` says whether the next start takes the shutdown for clean; for a partition outside a
    log directory, ``in_log_directory`` is False and nothing is known of checkpoints. ``snapshots``
    and ``txn_indexes`` are by the offset in their name, of files with a plain name. The four
    offsets are None without a line of this partition, or if the file cannot be read. ``swaps`` are
    the ``.swap`` logs by base offset; ``metadata_snapshots`` are those of a metadata log.
    ``repairs`` are the folders of repairs, None without any; ``repairs_linked`` says that a link
    replaces them. ``coordinator`` and ``remote`` are the node's, if any. ``denied`` are the
    files that the broker's user may not open. ``unwritable`` says that this user may open all
    files, but not make or remove one. ``metadata_notes`` are the records of a metadata log
    that brokers cannot apply; none unless all records were read. ``leftover_files`` counts the
    files that a loader deletes first, ``.deleted`` and ``.cleaned`` ones, which take
    ``leftover_bytes``.
    ``first_timestamp`` is the time in ms of the first record in the first segment, read only where
    ``leader-epoch-checkpoint`` begins below it. ``successor`` is the future log that replaces this
    log, None without one. ``promoted``: this is a future log that a start makes the current one,
    and no other log of the partition is in sight.
    """

    partition: Partition
    stopped: bool
    in_log_directory: bool
    clean: bool
    settings: TopicSettings
    epochs: Read[tuple[EpochEntry, ...]] | None
    metadata: Read[PartitionMetadata] | None
    quorum_state: Read[QuorumState] | None
    snapshots: Mapping[int, Read[ProducerEntries]] = field(default_factory=dict)
    txn_indexes: Mapping[int, Read[TransactionIndex]] = field(default_factory=dict)
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    cleaner_offset: int | None = None
    swaps: Mapping[int, SwapLog] = field(default_factory=dict)
    metadata_snapshots: tuple[MetadataSnapshot, ...] = ()
    repairs: Read[tuple[RepairRecord, ...]] | None = None
    repairs_linked: bool = False
    coordinator: Coordinator | None = None
    denied: tuple[DeniedFile, ...] = ()
    unwritable: bool = False
    metadata_notes: tuple[Note, ...] = ()
    leftover_bytes: int = 0
    leftover_files: int = 0
    first_timestamp: int | None = None
    successor: Successor | None = None
    promoted: bool = False
    remote: RemoteStorage | None = None

    @property
    def compacted(self) -> bool | None:
        """Whether the cleaner may have compacted the log, by its settings; None if unknown.

        A metadata log is never compacted: brokers only delete its segments.
        """
        return False if is_metadata_log(self.partition) else self.settings.compacted

    @property
    def swap_ends(self) -> Mapping[int, int]:
        """The offset after the last record of each ``.swap`` log, if it is known."""
        known = ((base, swap.end) for base, swap in self.swaps.items())
        return {base: end for base, end in known if end is not None}

    @property
    def first_epoch_start(self) -> int:
        """The start of the first leader epoch, which moves when a broker deletes records; or 0."""
        epochs = None if self.epochs is None else self.epochs.value
        return epochs[0].start_offset if epochs else 0

    @property
    def start_offset(self) -> int:
        """The log start offset by the small files.

        A broker that deletes records moves the start of the first leader epoch at once. It writes
        the checkpoint within a minute, and the next start uses only the checkpoint.
        """
        return max(self.log_start or 0, 0 if self.stopped else self.first_epoch_start)

    @property
    def log_start_offset(self) -> int | None:
        """The log start offset of the next startup; None if nothing shows it."""
        remote = bool(self.settings.remote_storage)
        return log_start_offset(self.log_start, self.partition, remote=remote)

    @property
    def remote_offsets(self) -> OffsetRanges:
        """The offsets that are in remote storage alone; empty for a topic that has none.

        Only the checkpoint has the log start offset of a topic with remote storage.
        """
        if not self.settings.remote_storage or not self.is_current:
            return ()
        metadata = None if self.metadata is None else self.metadata.value
        segments = self.partition.segments
        return remote_offsets(
            self.remote,
            self.partition.name,
            None if metadata is None else metadata.topic_id,
            None if self.log_start is None else self.start_offset,
            segments[0].base_offset if segments else None,
        )

    @property
    def misnamed(self) -> Mapping[tuple[int, FileKind], DirectoryEntry]:
        """What has the name of an index or a producer snapshot and is no file, by offset and kind.

        A start meets it when it opens the index, or writes the snapshot. An index that is a link to
        nothing stops every start: the checks report it.
        """
        return {
            (entry.name.base_offset, entry.name.kind): entry
            for entry in self.partition.entries
            if entry.name.kind in _WITH_OFFSET
            and entry.name.base_offset is not None
            and (entry.name.suffix, entry.name.canonical) == ("", True)
            and _is_obstacle(entry)
        }

    @property
    def is_current(self) -> bool:
        """Whether a broker that starts would serve this partition to clients."""
        name = self.partition.name
        return (
            self.in_log_directory
            and name is not None
            and (name.suffix == "" or self.promoted)
            and name.topic != CLUSTER_METADATA_TOPIC
        )

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the partition was closed cleanly, and the next start takes it for clean.

        No start takes a metadata log for clean. A broker that stops closes the partitions that it
        serves or moves: a directory named -stray or -delete stays as it was loaded, with room in
        its indexes.
        """
        name = self.partition.name
        closed = name is None or (
            name.topic != CLUSTER_METADATA_TOPIC and name.suffix in ("", "future")
        )
        return self.clean and self.stopped and closed

    def recovered(self, next_base: int | None) -> bool:
        """Return whether the next start recovers the segment before base offset ``next_base``.

        None means the last segment. Return False if that is unknown.
        """
        if not self.stopped or not self.in_log_directory or self.clean:
            return False
        return next_base is None or next_base > (self.recovery_point or 0)


def read_directory(directory: LogDirectory, liveness: Liveness) -> DirectoryFacts:
    """Read the files at the top of ``directory``."""
    files = {entry.name.name: entry for entry in directory.entries}

    def read(name: str, decode: Callable[[bytes], T]) -> Read[T] | None:
        # A directory of that name stops the start by its name alone.
        file = files.get(name)
        is_file = file is not None and file.type is not EntryType.DIRECTORY
        return read_small(file.path, decode) if file is not None and is_file else None

    broker = broker_rights(directory)
    meta = read(META_PROPERTIES, decode_meta_properties)
    return DirectoryFacts(
        directory,
        liveness,
        _has_clean_marker(files.get(CLEAN_MARKER)),
        None if meta is None or meta.dangling else meta,  # a broker takes it for no file
        read(RECOVERY_POINT_CHECKPOINT, _offsets),
        read(HIGH_WATERMARK_CHECKPOINT, _offsets),
        read(LOG_START_CHECKPOINT, _offsets),
        read(CLEANER_CHECKPOINT, _offsets),
        read(BOOTSTRAP_SNAPSHOT, decode_bootstrap),
        max((_modified_ms(files[name].path) for name in _WRITTEN if name in files), default=0),
        broker,
        denied_at_top(directory, broker),
        read_space(directory.path),
    )


def _has_clean_marker(entry: DirectoryEntry | None) -> bool:
    """Return whether an entry counts as the marker: it need not be a file, but is removed first."""
    if entry is None or entry.type is EntryType.LINK:  # a broker sees no file at a link to nothing
        return False
    return not (entry.type is EntryType.DIRECTORY and holds_entries(entry.path))


def checkpoint_line(read: Read[Offsets] | None, name: DirectoryName | None) -> int | None:
    """Return the offset of a partition in a checkpoint, None without a line or a name."""
    if read is None or read.value is None or name is None:
        return None
    return read.value.get((name.topic, name.partition))


def log_start_line(directory: DirectoryFacts | None, name: DirectoryName | None) -> int | None:
    """Return the offset of a partition in ``log-start-offset-checkpoint``, None without a line."""
    return None if directory is None else checkpoint_line(directory.log_starts, name)


def log_start_offset(line: int | None, partition: Partition, *, remote: bool) -> int | None:
    """Return the log start offset of a partition with this line; None if nothing shows it.

    It is the base offset of the first segment where that is higher: a broker writes no line for a
    log that begins with its first segment, and an old line may be left behind. With remote storage
    (KIP-405) records below the first segment are served too, so that the line alone decides, and
    without one the log starts at 0.
    Spec: ``UnifiedLog.logStartOffset``.
    """
    if remote:
        return line or 0
    if not partition.segments:
        return line
    return max(line or 0, partition.segments[0].base_offset)


def end_without_segments(partition: Partition, log_start: int | None) -> int | None:
    """Return the offset at which a broker creates the first segment of an empty log.

    ``log_start`` is its checkpointed log start offset. None if the log may not be empty.
    """
    has_log = any(entry.name.kind is FileKind.LOG for entry in partition.entries)
    return None if has_log or partition.transient else log_start or 0


def read_topic_id(file: AnyPath) -> str | None:
    """Return the topic id in ``partition.metadata``, None without a readable one."""
    metadata = read_small(file, decode_partition_metadata).value
    return None if metadata is None else metadata.topic_id


def read_partition_facts(
    partition: Partition,
    directory: DirectoryFacts | None,
    settings: TopicSettings,
    *,
    stopped: bool,
) -> PartitionFacts:
    """Read the small files of ``partition``; ``directory`` is None outside a log directory."""
    by_kind = {entry.name.kind: entry for entry in partition.entries if _is_plain_file(entry)}
    name = partition.name

    def read(kind: FileKind, decode: Callable[[bytes], T]) -> Read[T] | None:
        return read_small(by_kind[kind].path, decode) if kind in by_kind else None

    def line(checkpoint_of: Callable[[DirectoryFacts], Read[Offsets] | None]) -> int | None:
        return None if directory is None else checkpoint_line(checkpoint_of(directory), name)

    leftovers = _leftovers(partition)
    rights = None if directory is None else directory.broker
    denied = denied_in_partition(partition, rights)
    return PartitionFacts(
        partition=partition,
        stopped=stopped,
        in_log_directory=directory is not None,
        # KafkaMetadataLog treats every stop as unclean.
        clean=(
            directory is not None
            and directory.clean_marker
            and (name is None or name.topic != CLUSTER_METADATA_TOPIC)
        ),
        settings=settings,
        epochs=read(FileKind.LEADER_EPOCHS, decode_epochs),
        metadata=read(FileKind.PARTITION_METADATA, decode_partition_metadata),
        quorum_state=read(FileKind.QUORUM_STATE, decode_quorum_state),
        snapshots=read_producer_snapshots(partition),
        txn_indexes={
            segment.base_offset: read_small(segment.txn_index, TransactionIndex.decode)
            for segment in partition.segments
            if segment.txn_index
        },
        recovery_point=line(lambda facts: facts.recovery_points),
        high_watermark=line(lambda facts: facts.high_watermarks),
        log_start=line(lambda facts: facts.log_starts),
        cleaner_offset=line(lambda facts: facts.cleaner_offsets),
        repairs=_repairs(partition),
        repairs_linked=is_linked(partition.path),
        denied=denied,
        unwritable=is_unwritable(partition, rights, denied),
        leftover_bytes=sum(allocated_bytes(path) or 0 for path in leftovers),
        leftover_files=len(leftovers),
    )


def read_producer_snapshots(partition: Partition) -> dict[int, Read[ProducerEntries]]:
    """Read the snapshots with a plain name, by their offset."""
    paths = {
        segment.base_offset: segment.snapshot for segment in partition.segments if segment.snapshot
    } | {
        entry.name.base_offset: entry.path
        for entry in partition.entries
        if entry.name.kind is FileKind.SNAPSHOT
        and _is_plain_file(entry)
        and entry.name.base_offset is not None
    }
    return {offset: read_small(path, decode_snapshot) for offset, path in sorted(paths.items())}


def _leftovers(partition: Partition) -> list[AnyPath]:
    """Return the files that a loader deletes before it opens any segment."""
    files = [
        file
        for segment in partition.transient
        if segment.suffix in _DELETED_FIRST
        for file in (
            segment.log,
            segment.index,
            segment.time_index,
            segment.txn_index,
            segment.snapshot,
        )
        if file is not None
    ]
    found = (entry for entry in partition.entries if entry.name.suffix in _DELETED_FIRST)
    return files + [entry.path for entry in found if entry.type is EntryType.FILE]


def _modified_ms(path: AnyPath) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _repairs(partition: Partition) -> Read[tuple[RepairRecord, ...]] | None:
    if all(entry.name.name != FOLDERS for entry in partition.entries):
        return None
    path = partition.path / FOLDERS
    try:
        return Read(path, repair_records(partition.path))
    except SourceError as error:
        return Read(path, None, error)


def read_small(path: AnyPath, decode: Callable[[bytes], T]) -> Read[T]:
    """Read a whole small file; a failure to read or decode it is the ``error`` of the result."""
    try:
        size, data = read_end(path, _SMALL_BYTES)
        if size > _SMALL_BYTES:
            raise SourceError(path, f"{path}: expected at most {_SMALL_BYTES} bytes, found {size}")
        return Read(path, decode(data))
    except (DecodeError, SourceError) as error:
        return Read(path, None, error)


def _offsets(data: bytes) -> Offsets:
    # If a partition has two lines, a broker uses the last.
    return {(entry.topic, entry.partition): entry.offset for entry in decode_offsets(data)}


def _is_obstacle(entry: DirectoryEntry) -> bool:
    if entry.type is EntryType.LINK:
        return entry.name.kind is FileKind.SNAPSHOT and not creates_target(entry)
    return entry.type is EntryType.DIRECTORY or is_special(entry)


def _is_plain_file(entry: DirectoryEntry) -> bool:
    return entry.type is EntryType.FILE and entry.name.suffix == "" and entry.name.canonical
