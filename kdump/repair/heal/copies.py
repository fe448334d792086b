"""The copies of a partition that a repair may take batches from.

Spec: ``ReplicaManager.checkpointHighWatermarks``; KIP-516.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from kdump.audit.facts.small_files import PartitionFacts, Read, read_small
from kdump.audit.targets.target import Target, identity
from kdump.errors import Refused, UsageError, VanishedError
from kdump.format.checkpoint import EpochEntry, decode_epochs, decode_offsets
from kdump.format.properties import decode_meta_properties, decode_partition_metadata
from kdump.storage.liveness import State, liveness
from kdump.storage.logdir import (
    EntryType,
    LogDirectory,
    Partition,
    Segment,
    directory_name,
    enclosing_log_directory,
    open_path,
    read_partition,
)
from kdump.storage.names import (
    EXTENSIONS,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryName,
)
from kdump.storage.objects.address import AnyPath
from kdump.storage.source import status_of
from kdump.values import frozen

T = TypeVar("T")

#: The suffix of a directory that a broker is about to delete.
_DELETED: Final = "delete"


@frozen
class PartitionCopy:
    """The partition directory at ``path``, which is only read.

    ``live``: a broker may be writing. Offsets from ``limit`` on are not taken: they may still be
    truncated; None for no limit. ``epochs`` are the entries of its leader-epoch-checkpoint, None if
    that cannot be read. ``largest`` is the size of its largest log in bytes.
    """

    path: AnyPath
    segments: tuple[Segment, ...]
    live: bool
    limit: int | None
    epochs: tuple[EpochEntry, ...] | None
    largest: int

    def is_sealed(self, number: int) -> bool:
        """Return whether no process appends to segment ``number``."""
        return not self.live or number + 1 < len(self.segments)


def open_copies(
    paths: Iterable[AnyPath], target: Target, facts: PartitionFacts
) -> tuple[tuple[PartitionCopy, ...], list[str]]:
    """Return the copies of the partition ``target`` at ``paths``, in order, and notes.

    A path is a partition directory, or a log directory that may hold one of the same name. Raises
    UsageError, SourceError, and Refused for a copy of another partition, topic or cluster.
    """
    name = facts.partition.name
    if name is None:
        raise Refused(f"{target.path}: expected a partition directory called <topic>-<partition>")
    copies: list[PartitionCopy] = []
    notes: list[str] = []
    for path in paths:
        partition = _partition_at(path, name)
        if partition is None:
            notes.append(f"{path} has no partition {name.topic}-{name.partition}")
        else:
            _check_identity(partition, target, facts, name)
            copies.append(_open(partition, name))
    return tuple(copies), notes


def _partition_at(path: AnyPath, name: DirectoryName) -> Partition | None:
    content = open_path(path)
    if isinstance(content, Partition):
        return content
    if not isinstance(content, LogDirectory):
        raise UsageError(
            f"{path}: expected a copy of the partition or a log directory with one, found a file"
        )
    for found in content.partition_paths:
        other = directory_name(found)
        if other is not None and (other.topic, other.partition, other.suffix) == (
            name.topic,
            name.partition,
            "",
        ):
            return read_partition(found)
    return None


def _check_identity(
    copy: Partition, target: Target, facts: PartitionFacts, name: DirectoryName
) -> None:
    """Raise Refused unless ``copy`` is another directory of the same partition and cluster."""
    if identity(copy.path) == identity(target.path) is not None:
        raise Refused(f"{copy.path}: expected a copy, found the partition itself")
    own = None if facts.metadata is None else facts.metadata.value
    path = copy.path / PARTITION_METADATA
    found = _read_if_there(path, decode_partition_metadata)
    same_topic = copy.name is not None and copy.name.topic == name.topic
    if own is not None and found is not None:
        if found.topic_id != own.topic_id:
            raise Refused(
                f"{path}: expected topic id {own.topic_id}, as in the partition, found "
                f"{found.topic_id}: the copy is of another topic, or of an older one of that name"
            )
        same_topic = True
    if copy.name is None or copy.name.partition != name.partition or not same_topic:
        raise Refused(
            f"{copy.path}: expected a copy of {name.topic}-{name.partition}, found another "
            "partition"
        )
    if copy.name.suffix == _DELETED:
        raise Refused(f"{copy.path}: expected a partition, found a directory that a broker deletes")
    _check_cluster(copy, target)


def _check_cluster(copy: Partition, target: Target) -> None:
    own = None if target.directory is None else target.directory.identity
    above = enclosing_log_directory(copy.path)
    found = (
        None if above is None else _read_if_there(above / META_PROPERTIES, decode_meta_properties)
    )
    if own is None or found is None or None in (own.cluster_id, found.cluster_id):
        return
    if own.cluster_id != found.cluster_id:
        raise Refused(
            f"{copy.path}: expected a copy of cluster {own.cluster_id}, found cluster "
            f"{found.cluster_id}"
        )


def _open(partition: Partition, name: DirectoryName) -> PartitionCopy:
    _check_files(partition)
    live = liveness(partition.path).state is not State.STOPPED
    segments = partition.segments
    read = _read(partition.path / LEADER_EPOCH_CHECKPOINT, decode_epochs)
    epochs = None if read is None else read.value
    sizes = [status_of(segment.log).st_size for segment in segments]
    return PartitionCopy(
        partition.path,
        segments,
        live,
        _limit(partition, name, segments) if live else None,
        epochs,
        max(sizes, default=0),
    )


def _check_files(partition: Partition) -> None:
    """Raise Refused if a file of a segment is not a regular file, or a link to one."""
    strange = [
        entry.path
        for entry in partition.entries
        if entry.name.kind in EXTENSIONS and entry.type is not EntryType.FILE
    ]
    for segment in partition.segments:
        files = (segment.log, segment.index)
        strange += [file for file in files if file is not None and _is_link(file)]
    if strange:
        raise Refused(
            f"{strange[0]}: expected a regular file in a copy, found another kind of file"
        )


def _is_link(path: AnyPath) -> bool:
    # An address has no links.
    return getattr(path, "is_symlink", lambda: False)()


def _limit(partition: Partition, name: DirectoryName, segments: Sequence[Segment]) -> int | None:
    """Return the offset below which the records of a live copy are committed or old."""
    above = enclosing_log_directory(partition.path)
    lines = None
    if above is not None:
        lines = _read_if_there(above / HIGH_WATERMARK_CHECKPOINT, decode_offsets)
    for entry in reversed(lines or ()):
        if (entry.topic, entry.partition) == (name.topic, name.partition):
            return entry.offset
    return segments[-1].base_offset if segments else 0


def _read_if_there(path: AnyPath, decode: Callable[[bytes], T]) -> T | None:
    """Return the value of a small file, None if it is missing or cannot be decoded."""
    read = _read(path, decode)
    return None if read is None else read.value


def _read(path: AnyPath, decode: Callable[[bytes], T]) -> Read[T] | None:
    read = read_small(path, decode)
    return None if isinstance(read.error, VanishedError) else read
