"""The first and the end offset of logs, as brokers answer them to consumers.

Spec: ``UnifiedLog``; the log start offset of the checkpoint counts where it lies in the log, and
always for a topic with remote storage (KIP-405).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kdump.audit.facts.remote_storage import OffsetRanges, remote_offsets
from kdump.audit.facts.small_files import (
    DirectoryFacts,
    log_start_line,
    log_start_offset,
    read_topic_id,
)
from kdump.audit.survey.log_end import read_end
from kdump.audit.targets.context import Context
from kdump.errors import SourceError
from kdump.storage.access import open_source
from kdump.storage.logdir import Partition, Segment, directory_name, list_partition
from kdump.storage.names import PARTITION_METADATA
from kdump.storage.paths import AnyPath
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

TopicPartition = tuple[str, int]
"""A topic and the number of a partition."""


@frozen
class Extent:
    """The log of a partition: its first offset and the log end offset, by its batch headers.

    ``start`` is None if it is unknown. ``remote`` are the offsets in remote storage only.
    """

    start: int | None
    end: int
    remote: OffsetRanges = ()


def find_logs(
    directories: Iterable[DirectoryFacts],
) -> Mapping[TopicPartition, tuple[tuple[AnyPath, DirectoryFacts], ...]]:
    """Return the paths of all copies of each partition that a broker serves."""
    found: dict[TopicPartition, list[tuple[AnyPath, DirectoryFacts]]] = {}
    for directory in directories:
        for path in directory.directory.partition_paths:
            name = directory_name(path)
            if name is not None and name.suffix == "":
                found.setdefault((name.topic, name.partition), []).append((path, directory))
    return {place: tuple(copies) for place, copies in found.items()}


def read_extent(path: AnyPath, directory: DirectoryFacts, context: Context) -> Extent | None:
    """Return the extent of the log at ``path``, None if it cannot be read."""
    partition = list_partition(path)
    if isinstance(partition, SourceError):
        return None
    start = log_start(partition, directory)
    try:
        end = log_end(partition.segments[-1]) if partition.segments else start
    except SourceError:
        return None
    name = partition.name
    if name is None or not context.settings_of(name, directory).remote_storage:
        return Extent(min(start, end), end)
    first = partition.segments[0].base_offset if partition.segments else None
    line = log_start_line(directory, name)
    topic_id = read_topic_id(path / PARTITION_METADATA)
    remote = remote_offsets(context.node_of(directory).remote, name, topic_id, line, first)
    if line is None and remote:  # below what both storages hold there is no record
        line = remote[0][0]
    return Extent(None if line is None else min(line, end), end, remote)


def log_start(partition: Partition, directory: DirectoryFacts | None) -> int:
    """Return the log start offset of a log without remote storage."""
    line = log_start_line(directory, partition.name)
    return log_start_offset(line, partition, remote=False) or 0


def log_end(segment: Segment) -> int:
    """Return the log end offset, by the batch headers of the last segment. Raises SourceError."""
    end = read_end(segment).next_offset
    if end is not None:
        return end
    # Headers do not lead to the end: take the last sound batch before the damage.
    end = segment.base_offset
    with open_source(segment.log, mapped=False) as source:
        for piece in walk(source, segment.base_offset):
            if isinstance(piece, Damage):
                break
            end = piece[len(piece) - 1].last_offset + 1
    return end
