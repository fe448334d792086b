"""The copies of a partition that a repair may take batches from.

A copy is read with the rights of its owner: a link that the owner has put into it gives a repair no
access to files of other users.

Spec: ``ReplicaManager.checkpointHighWatermarks``; KIP-516.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from kdump.audit.facts.small_files import PartitionFacts, read_small
from kdump.audit.targets.target import Target, identity
from kdump.copies.lineage import LeaderEpochs
from kdump.errors import Refused, UsageError
from kdump.format.checkpoint import EpochEntry, decode_epochs, decode_offsets
from kdump.format.properties import decode_meta_properties, decode_partition_metadata
from kdump.repair.transaction.directories import read_as_owner
from kdump.storage.liveness import BrokerState, liveness
from kdump.storage.logdir import (
    MAX_LOG_BYTES,
    EntryType,
    LogDirectory,
    Partition,
    Segment,
    directory_name,
    enclosing_log_directory,
    open_path,
    read_partition,
)
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.names import (
    EXTENSIONS,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryName,
)
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights, acting
from kdump.storage.source import status_of
from kdump.values import frozen

T = TypeVar("T")

#: The suffix of a directory that a broker is about to delete.
_DELETED: Final = "delete"
#: An offset behind the end of any log.
HIGHEST: Final = 2**63 - 1


@frozen
class PartitionCopy:
    """The partition directory at ``path``, which is only read.

    ``live``: a broker may be writing. Offsets from ``limit`` on are not taken: they may still be
    truncated; None for no limit. ``epochs`` are the entries of its leader-epoch-checkpoint, none if
    that cannot be read, and ``leader_epochs`` what they say of its log, None if they say nothing.
    ``largest`` is the size of its largest log in bytes. ``rights`` are those of the owner of the
    directory, None outside of the file system.
    """

    path: AnyPath
    segments: tuple[Segment, ...]
    live: bool
    limit: int | None
    epochs: tuple[EpochEntry, ...]
    leader_epochs: LeaderEpochs | None
    largest: int
    rights: Rights | None

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
            rights = rights_of(partition.path)
            # Only root sees which files other processes have open.
            live = liveness(partition.path).state is not BrokerState.STOPPED
            with acting(rights):
                _check_identity(partition, target, facts, name)
                copies.append(_open(partition, name, rights, live=live))
            notes += _ownership_notes(partition.path, target.path)
    return tuple(copies), notes


def rights_of(path: AnyPath) -> Rights | None:
    """Return the rights with which the copy at ``path`` is read, None outside of the file system.

    Raises Refused if its owner does not reach it, or another user can redirect the path to a
    directory of root.
    """
    if not isinstance(path, Path):
        return None
    with read_as_owner(path):
        return Rights.current()


def _ownership_notes(copy: AnyPath, partition: AnyPath) -> Iterator[str]:
    """Yield a note if users who do not own the partition decide what is in a copy."""
    if not isinstance(copy, Path):
        return
    found, owner = status_of(copy), status_of(partition).st_uid
    if found.st_uid not in (owner, 0):
        yield (
            f"{copy} belongs to user {found.st_uid}, the partition to user {owner}: its records "
            "get into a log of another user"
        )
    if found.st_mode & stat.S_IWOTH:
        mode = stat.S_IMODE(found.st_mode)
        yield f"other users can write to {copy} (mode {mode:o}) and choose the records to take"


def _partition_at(path: AnyPath, name: DirectoryName) -> Partition | None:
    if isinstance(path, ManifestPath):
        raise UsageError(f"{path}: expected a replica with its records, found a manifest")
    content = open_path(path)
    if isinstance(content, Partition):
        return content
    if not isinstance(content, LogDirectory):
        raise UsageError(
            f"{path}: expected a replica of the partition or a log directory with one, found a file"
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
        raise Refused(f"{copy.path}: expected another replica, found the partition itself")
    own = None if facts.metadata is None else facts.metadata.value
    path = copy.path / PARTITION_METADATA
    found = _read_if_there(path, decode_partition_metadata)
    same_topic = copy.name is not None and copy.name.topic == name.topic
    if own is not None and found is not None:
        if found.topic_id != own.topic_id:
            raise Refused(
                f"{path}: expected topic id {own.topic_id}, as in the partition, found "
                f"{found.topic_id}: it is a replica of another topic, or of an older one"
            )
        same_topic = True
    if copy.name is None or copy.name.partition != name.partition or not same_topic:
        raise Refused(
            f"{copy.path}: expected a replica of {name.topic}-{name.partition}, found another "
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
            f"{copy.path}: expected a replica of cluster {own.cluster_id}, found cluster "
            f"{found.cluster_id}"
        )


def _open(
    partition: Partition, name: DirectoryName, rights: Rights | None, *, live: bool
) -> PartitionCopy:
    _check_files(partition)
    segments = partition.segments
    epochs = _read_if_there(partition.path / LEADER_EPOCH_CHECKPOINT, decode_epochs) or ()
    return PartitionCopy(
        partition.path,
        segments,
        live,
        _limit(partition, name, segments) if live else None,
        tuple(epochs),
        _leader_epochs(epochs, segments),
        max(map(_size_of, segments), default=0),
        rights,
    )


def _leader_epochs(
    epochs: Sequence[EpochEntry], segments: Sequence[Segment]
) -> LeaderEpochs | None:
    if not epochs or not segments:
        return None
    start = min(segments[0].base_offset, epochs[0].start_offset)
    return LeaderEpochs.of(epochs, start, HIGHEST)


def _size_of(segment: Segment) -> int:
    """Return the size of a log in bytes. Raises Refused if no broker opens it, SourceError."""
    size = status_of(segment.log).st_size
    if size > MAX_LOG_BYTES:
        raise Refused(
            f"{segment.log}: expected at most {MAX_LOG_BYTES} bytes in a log, found {size}"
        )
    return size


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
            f"{strange[0]}: expected a regular file in a replica, found another kind of file"
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
    return read_small(path, decode).value
