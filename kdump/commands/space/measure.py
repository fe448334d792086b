"""The bytes of one partition: what its files take, and what retention deletes of them.

The files are asked for their status, and sealed segments for the last entry of their time index.
The end of the log is read only where retention may reach it.

Spec: ``UnifiedLog.deleteSegments``, ``LocalLog.deleteSegmentFiles``,
``LogSegment.largestTimestamp``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from kdump.audit.facts.retention import AgedSegment, DueSegments, RetentionConfigs, due_segments
from kdump.audit.run.quick_survey import quick_survey
from kdump.commands.space.growth import GrownSegment, Growth, growth_of
from kdump.errors import SourceError
from kdump.format.index import TimeIndex
from kdump.storage.access import open_source, read_end
from kdump.storage.logdir import Partition, Segment, read_partition
from kdump.storage.names import CLUSTER_METADATA_TOPIC, DirectoryName
from kdump.storage.paths import AnyPath, scan
from kdump.storage.repair_record import FOLDERS
from kdump.storage.source import source_error
from kdump.storage.walk import first_batch
from kdump.values import frozen

#: The unit of ``st_blocks``.
_BLOCK_BYTES: Final = 512
_ENTRY: Final = TimeIndex.ENTRY_BYTES
_YOUNGEST: Final = 2**63 - 1
#: The size of the window for a header.
_HEAD_BYTES: Final = 256


@frozen
class SpaceTask:
    """A partition to measure, with the facts of its directory and of its topic.

    ``high_watermark`` and ``log_start`` are its lines in the checkpoints, None without one.
    ``alone`` says that it has no other replica, so that its high watermark is its end.
    ``configs`` are None if the topic is unknown. ``written_ms`` is the time up to which its broker
    has written, by the checkpoints of a stopped one. ``copied`` is the highest offset in remote
    storage.
    """

    path: AnyPath
    name: DirectoryName | None
    configs: RetentionConfigs | None
    high_watermark: int | None
    log_start: int | None
    alone: bool
    now_ms: int
    written_ms: int
    copied: int = -1


@frozen
class PartitionSpace:
    """The bytes that a partition takes on its file system.

    ``bytes`` is the sum of all files, ``log_bytes`` of the ``.log`` files of its ``segments``, by
    what the file system has allocated. ``linked`` are bytes of files with other hard links, which
    deleting does not free; they are not in ``bytes``. ``leftovers`` are the bytes of files that a
    broker does not load, by suffix. ``oldest_ms`` is the time of the first record, and
    ``newest_ms`` of the last write. ``due`` is what retention deletes at its next check,
    ``due_bytes`` of all files of these segments, ``due_log_bytes`` of their logs, with
    ``due_offsets`` offsets. ``error`` is why it could not be measured.
    """

    path: AnyPath
    name: DirectoryName | None
    bytes: int = 0
    log_bytes: int = 0
    segments: int = 0
    linked: int = 0
    leftovers: Mapping[str, int] = field(default_factory=dict)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    configs: RetentionConfigs | None = None
    due: DueSegments | None = None
    due_bytes: int = 0
    due_log_bytes: int = 0
    due_offsets: int = 0
    growth: Growth = field(default_factory=Growth)
    error: SourceError | None = None


def measure_all(tasks: Sequence[SpaceTask]) -> list[PartitionSpace]:
    """Measure partitions. Runs in a task."""
    return [measure(task) for task in tasks]


def measure(task: SpaceTask) -> PartitionSpace:
    """Measure one partition; what cannot be read is its ``error``."""
    try:
        return _measure(task, read_partition(task.path), _statuses(task.path))
    except SourceError as error:
        return PartitionSpace(task.path, task.name, error=error)


def _measure(
    task: SpaceTask, partition: Partition, files: Mapping[str, os.stat_result]
) -> PartitionSpace:
    allocated = {name: status.st_blocks * _BLOCK_BYTES for name, status in files.items()}
    linked = {name for name, status in files.items() if status.st_nlink > 1}
    for name in linked:
        allocated[name] = 0
    leftovers: dict[str, int] = defaultdict(int)
    for suffix, path in _leftovers(partition):
        leftovers[suffix] += allocated.get(path.name, 0)
    backups = tree_bytes(task.path / FOLDERS)
    if backups:
        leftovers[FOLDERS] = backups
    segments = partition.segments
    written = [files[each.log.name].st_mtime_ns for each in segments if each.log.name in files]
    due, growth, oldest = None, Growth(), _oldest_ms(segments)
    if _has_retention(task, segments):
        sealed = [_aged(segment, files) for segment in segments[:-1]]
        due = _due(task, segments, files, sealed)
        growth = _growth(task, segments, files, sealed, oldest)
    gone = segments[: due.count] if due is not None else ()
    return PartitionSpace(
        task.path,
        task.name,
        sum(allocated.values()) + backups,
        sum(allocated.get(segment.log.name, 0) for segment in segments),
        len(segments),
        sum(files[name].st_blocks * _BLOCK_BYTES for name in linked),
        dict(leftovers),
        oldest,
        max(written) // 1_000_000 if written else None,
        task.configs,
        due,
        sum(allocated.get(path.name, 0) for segment in gone for path in _files(segment)),
        sum(allocated.get(segment.log.name, 0) for segment in gone),
        0 if due is None else due.before - segments[0].base_offset,
        growth,
    )


def _statuses(path: AnyPath) -> dict[str, os.stat_result]:
    """Return the status of each file in a partition, by name. Raise SourceError."""
    found: dict[str, os.stat_result] = {}
    try:
        with scan(path) as entries:
            for entry in entries:
                try:
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # a running broker has deleted it
    except OSError as error:
        raise source_error(path, error) from error
    return found


def _files(segment: Segment) -> list[AnyPath]:
    """Return the files that a broker deletes with a segment."""
    files = (segment.log, segment.index, segment.time_index, segment.txn_index, segment.snapshot)
    return [path for path in files if path is not None]


def _leftovers(partition: Partition) -> Iterator[tuple[str, AnyPath]]:
    """Yield the files that a broker does not load, each with its suffix."""
    for segment in partition.transient:
        yield from ((segment.suffix, path) for path in _files(segment))
    for entry in partition.entries:
        if entry.name.suffix:
            yield entry.name.suffix, entry.path


def tree_bytes(path: AnyPath) -> int:
    """Return the bytes of all files below ``path`` that can be listed, 0 without a directory."""
    if not isinstance(path, Path):
        return 0
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(file.lstat().st_blocks * _BLOCK_BYTES for file in files)


def _growth(
    task: SpaceTask,
    segments: Sequence[Segment],
    files: Mapping[str, os.stat_result],
    sealed: Sequence[AgedSegment],
    oldest_ms: int | None,
) -> Growth:
    times = [*(segment.largest_ms for segment in sealed), _YOUNGEST]
    written = []
    for segment, largest_ms in zip(segments, times, strict=True):
        found = [files[path.name] for path in _files(segment) if path.name in files]
        size = sum(status.st_blocks * _BLOCK_BYTES for status in found)
        log = files.get(segment.log.name)
        if log is not None:
            written.append(GrownSegment(size, log.st_mtime_ns // 1_000_000, largest_ms))
    return growth_of(written, task.configs, oldest_ms, task.written_ms)


def _has_retention(task: SpaceTask, segments: Sequence[Segment]) -> bool:
    """Return whether a broker looks for what is due: not in a directory that it does not serve."""
    name = task.name
    served = name is not None and not name.suffix and name.topic != CLUSTER_METADATA_TOPIC
    return served and bool(segments)


def _due(
    task: SpaceTask,
    segments: Sequence[Segment],
    files: Mapping[str, os.stat_result],
    sealed: Sequence[AgedSegment],
) -> DueSegments:
    """Return what retention deletes. Raise SourceError."""
    aged = [*sealed]
    last = segments[-1]
    status = files.get(last.log.name)
    # As if the last segment were the newest, until a check would reach it.
    aged.append(AgedSegment(last.base_offset, 0 if status is None else status.st_size, _YOUNGEST))
    due = _decide(task, aged, last.base_offset)
    if due.count < len(aged) - 1 or task.configs is None:
        return due
    survey = quick_survey(last, sealed=False)
    end = survey.known_end
    entry = None if survey.time_index is None else survey.time_index.last
    largest = max(survey.max_timestamp, -1 if entry is None else entry[0])
    if end is None:
        return due
    if largest < 0 and status is not None:
        largest = status.st_mtime_ns // 1_000_000
    aged[-1] = AgedSegment(last.base_offset, aged[-1].log_bytes, largest)
    return _decide(task, aged, end)


def _decide(task: SpaceTask, segments: Sequence[AgedSegment], end: int) -> DueSegments:
    high_watermark = end if task.alone else task.high_watermark or 0
    return due_segments(
        segments,
        task.configs,
        log_start=task.log_start or 0,
        high_watermark=high_watermark,
        log_end=end,
        now_ms=task.now_ms,
        copied=task.copied,
    )


def _aged(segment: Segment, files: Mapping[str, os.stat_result]) -> AgedSegment:
    """Return a sealed segment, with the time in its time index. Raise SourceError."""
    status = files.get(segment.log.name)
    size = 0 if status is None else status.st_size
    entry = b""
    if segment.time_index is not None:
        _, entry = read_end(segment.time_index, _ENTRY)
    if len(entry) == _ENTRY:
        largest = int.from_bytes(entry[:8], "big", signed=True)
        if largest >= 0 and any(entry):
            return AgedSegment(segment.base_offset, size, largest)
    modified = 0 if status is None else status.st_mtime_ns // 1_000_000
    return AgedSegment(segment.base_offset, size, modified)


def _oldest_ms(segments: Sequence[Segment]) -> int | None:
    """Return the time of the first record, None if the first batch has none or cannot be read."""
    if not segments:
        return None
    first = segments[0]
    with (
        suppress(SourceError),
        open_source(first.log, mapped=False, window_bytes=_HEAD_BYTES) as source,
    ):
        batch = first_batch(source, first.base_offset)
        if batch is not None and batch.base_timestamp >= 0:
            return batch.base_timestamp
    return None
