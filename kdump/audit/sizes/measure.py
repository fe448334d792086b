"""The bytes of one partition: what its files take, and what retention deletes of them.

The files are asked for their status, and sealed segments for the last entry of their time index.
The end of the log is read only where retention may reach it.

Spec: ``UnifiedLog.deleteSegments``, ``LocalLog.deleteSegmentFiles``,
``LogSegment.largestTimestamp``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import takewhile
from typing import Final

from kdump.audit.facts.compaction import NEVER, CleanableLog
from kdump.audit.facts.retention import (
    AgedSegment,
    DueSegments,
    Hold,
    RetentionConfigs,
    due_segments,
)
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.sizes.cleaning import CleanerFacts, cleaning_of
from kdump.audit.sizes.files import FileSpace, files_in, tree_space
from kdump.audit.sizes.growth import GrownSegment, Growth, growth_of
from kdump.errors import SourceError, VanishedError
from kdump.format.index import TimeIndex
from kdump.storage.access import open_source, read_end
from kdump.storage.logdir import EntryType, Partition, Segment, read_partition
from kdump.storage.names import CLUSTER_METADATA_TOPIC, DirectoryName, FileKind
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath
from kdump.storage.repair_record import FOLDERS
from kdump.storage.walk import first_batch
from kdump.values import frozen

_ENTRY: Final = TimeIndex.ENTRY_BYTES
#: The size of the window for a header.
_HEAD_BYTES: Final = 256
#: How often a partition is measured whose files a running broker deletes meanwhile.
_ATTEMPTS: Final = 3
#: After this time, brokers have checked retention many times: every five minutes by default.
OVERDUE_MS: Final = 3_600_000
#: What takes the place of a suffix for files that are not Kafka's.
FOREIGN: Final = ""


@frozen
class SpaceTask:
    """A partition to measure, with the facts of its directory and of its topic.

    ``high_watermark`` and ``log_start`` are its lines in the checkpoints, None without one.
    ``alone`` says that it has no other replica, so that its high watermark is its end.
    ``configs`` are None if the topic is unknown. ``written_ms`` is the time up to which its broker
    has written, by the checkpoints of a stopped one. ``copied`` is the highest offset in remote
    storage, None if it is unknown. ``listing`` asks for its old segments. ``cleaner`` has what the
    cleaner goes by, None if the topic is not compacted, or its configs are unknown.
    """

    path: AnyPath
    name: DirectoryName | None
    configs: RetentionConfigs | None
    high_watermark: int | None
    log_start: int | None
    alone: bool
    now_ms: int
    written_ms: int
    copied: int | None = None
    listing: bool = False
    cleaner: CleanerFacts | None = None


@frozen
class OldSegment:
    """A segment that retention deletes next, or could delete if it were shorter.

    ``end_offset`` is the offset after its last record, ``largest_ms`` its largest timestamp, None
    if it is unknown. ``bytes`` are those of its ``files``, whose names begin with that of the log.
    """

    base_offset: int
    end_offset: int
    largest_ms: int | None
    bytes: int
    files: tuple[str, ...]

    @property
    def offsets(self) -> int:
        """The number of its offsets."""
        return self.end_offset - self.base_offset


@frozen
class Beside:
    """Files and directories beside the log of a partition: their bytes and names."""

    bytes: int
    names: tuple[str, ...]


@frozen
class PartitionSpace:
    """The bytes that a partition takes on its file system.

    ``bytes`` is the sum of all files, ``log_bytes`` of the ``.log`` files of its ``segments``, by
    what the file system has allocated. ``linked`` are bytes of files with other hard links, and of
    targets of links: they are not in ``bytes``. ``beside`` is what a broker does not load, by
    suffix: ``.kdump`` for backups, ``FOREIGN`` for what is not Kafka's. ``oldest_ms``
    is the time of the first record, and ``newest_ms`` of the last write. ``due`` is what retention
    deletes at its next check, ``due_bytes`` of all files of these segments, ``due_log_bytes`` of
    their logs, with ``due_offsets`` offsets. ``old`` are the segments that shorter retention could
    delete, from the first on, if the task asks for them, and ``reach`` is the offset over which no
    deletion goes, None if it is unknown. ``log_end`` is the log end offset, or the base of the last
    segment where it was not read. ``errors`` are of what could not be read. ``cleanable`` is what
    the cleaner makes of a compacted log, None if that is unknown. ``overdue_bytes`` are of segments
    that retention could delete ``OVERDUE_MS`` ago, so that many checks have passed them, None if
    the configs are unknown or may be others in ``server.properties``.
    """

    path: AnyPath
    name: DirectoryName | None
    bytes: int = 0
    log_bytes: int = 0
    segments: int = 0
    linked: int = 0
    beside: Mapping[str, Beside] = field(default_factory=dict)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    configs: RetentionConfigs | None = None
    due: DueSegments | None = None
    due_bytes: int = 0
    due_log_bytes: int = 0
    due_offsets: int = 0
    growth: Growth = field(default_factory=Growth)
    old: tuple[OldSegment, ...] = ()
    reach: int | None = None
    log_end: int | None = None
    errors: tuple[SourceError, ...] = ()
    cleanable: CleanableLog | None = None
    overdue_bytes: int | None = None

    @property
    def own_bytes(self) -> int:
        """The bytes of the log and its companions, without what lies beside them."""
        return self.bytes - sum(each.bytes for each in self.beside.values())


def aged(segments: Iterable[OldSegment]) -> Iterator[tuple[int, OldSegment]]:
    """Yield ``segments`` of a log, each with the largest timestamp up to it in ms.

    One whose timestamp is unknown ends them.
    """
    largest = 0
    for segment in segments:
        if segment.largest_ms is None:
            return
        largest = max(largest, segment.largest_ms)
        yield largest, segment


def measure_all(tasks: Sequence[SpaceTask]) -> list[PartitionSpace]:
    """Measure partitions. Runs in a task."""
    return [measure(task) for task in tasks]


def measure(task: SpaceTask) -> PartitionSpace:
    """Measure one partition; what cannot be read is in its ``errors``."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            return _measure(task, read_partition(task.path), files_in(task.path), again=left > 0)
        except VanishedError as error:
            if not left:
                return PartitionSpace(task.path, task.name, errors=(error,))
        except SourceError as error:
            return PartitionSpace(task.path, task.name, errors=(error,))
    raise AssertionError("the last attempt returns")


def _measure(
    task: SpaceTask, partition: Partition, files: Mapping[str, FileSpace], *, again: bool
) -> PartitionSpace:
    """Raise VanishedError for a file that is gone meanwhile, if ``again``."""
    errors: list[SourceError] = []
    beside: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for suffix, path in _leftovers(partition):
        if path.name in files:
            beside[suffix].append((path.name, files[path.name].bytes))
    inside = linked = 0
    for entry in partition.entries:
        if entry.type is EntryType.DIRECTORY:
            tree = tree_space(entry.path)
            inside += tree.bytes
            linked += tree.linked
            errors += tree.errors
            suffix = FOLDERS if entry.name.name == FOLDERS else FOREIGN
            beside[suffix].append((entry.name.name, tree.bytes))
    segments = partition.segments
    oldest = _oldest_ms(segments)
    due, growth, old, reach, end = None, Growth(), tuple[OldSegment, ...](), None, None
    cleanable = overdue = None
    if _has_retention(task, segments):
        try:
            sealed = [_aged(segment, files) for segment in segments[:-1]]
            last, end = _last(task, segments[-1], files, sealed)
            due = _decide(task, [*sealed, last], end)
            if not isinstance(task.path, RemotePath):  # objects have the times of their upload
                growth = _growth(task, segments, files, sealed, oldest)
            reach = _reach(task, end)
            if task.listing:
                ends = [*(segment.base_offset for segment in segments[1:]), end]
                old = tuple(_old(segments[: due.within], files, [*sealed, last], ends))
            overdue = _overdue(task, segments, files, sealed)
            try:
                cleanable = _cleanable(task, partition, [*sealed, last], files)
            except VanishedError:
                raise
            except SourceError as error:
                errors.append(error)
        except SourceError as error:
            if again and isinstance(error, VanishedError):
                raise
            errors.append(error)
            due = DueSegments(0, segments[0].base_offset, Hold.UNKNOWN)
    gone = segments[: due.count] if due is not None else ()
    logs = [files[each.log.name] for each in segments if each.log.name in files]
    gone_logs = [files[each.log.name] for each in gone if each.log.name in files]
    return PartitionSpace(
        task.path,
        task.name,
        sum(file.bytes for file in files.values()) + inside,
        sum(log.bytes for log in logs),
        len(segments),
        sum(file.linked for file in files.values()) + linked,
        {
            suffix: Beside(sum(size for _, size in found), tuple(sorted(name for name, _ in found)))
            for suffix, found in beside.items()
            if any(size for _, size in found)
        },
        oldest,
        max((log.written_ms for log in logs), default=None),
        task.configs,
        due,
        sum(_bytes(segment, files) for segment in gone),
        sum(log.bytes for log in gone_logs),
        0 if due is None else due.before - segments[0].base_offset,
        growth,
        old,
        reach,
        end,
        tuple(errors),
        cleanable,
        overdue,
    )


def _files(segment: Segment) -> list[AnyPath]:
    """Return the files that a broker deletes with a segment."""
    files = (segment.log, segment.index, segment.time_index, segment.txn_index, segment.snapshot)
    return [path for path in files if path is not None]


def _bytes(segment: Segment, files: Mapping[str, FileSpace]) -> int:
    return sum(files[path.name].bytes for path in _files(segment) if path.name in files)


def _leftovers(partition: Partition) -> Iterator[tuple[str, AnyPath]]:
    """Yield the files that a broker does not load, each with its suffix."""
    for segment in partition.transient:
        yield from ((segment.suffix, path) for path in _files(segment))
    for entry in partition.entries:
        if entry.type is EntryType.FILE and (
            entry.name.suffix or entry.name.kind is FileKind.UNKNOWN
        ):
            yield entry.name.suffix or FOREIGN, entry.path


def _growth(
    task: SpaceTask,
    segments: Sequence[Segment],
    files: Mapping[str, FileSpace],
    sealed: Sequence[AgedSegment],
    oldest_ms: int | None,
) -> Growth:
    times = [*(segment.largest_ms for segment in sealed), None]
    written = [
        GrownSegment(_bytes(segment, files), files[segment.log.name].written_ms, largest_ms)
        for segment, largest_ms in zip(segments, times, strict=True)
        if segment.log.name in files
    ]
    return growth_of(written, task.configs, oldest_ms, task.written_ms)


def _cleanable(
    task: SpaceTask,
    partition: Partition,
    segments: Sequence[AgedSegment],
    files: Mapping[str, FileSpace],
) -> CleanableLog | None:
    if task.cleaner is None:
        return None
    return cleaning_of(
        task.cleaner,
        partition,
        segments,
        files,
        log_start=task.log_start or 0,
        high_watermark=NEVER if task.alone else task.high_watermark,
        now_ms=task.now_ms,
    )


def _overdue(
    task: SpaceTask,
    segments: Sequence[Segment],
    files: Mapping[str, FileSpace],
    sealed: Sequence[AgedSegment],
) -> int | None:
    """Return the bytes of segments that retention by time or size could delete some time ago.

    Only segments count that no one has written since. The log start offset does not: when it was
    raised is unknown.
    """
    configs, then_ms = task.configs, task.now_ms - OVERDUE_MS
    if configs is None or configs.policy_guessed or configs.limits_guessed:
        return None
    if not configs.delete:
        return 0
    whole = list(
        takewhile(
            lambda pair: (
                pair[0].log.name in files and files[pair[0].log.name].written_ms <= then_ms
            ),
            zip(segments, sealed, strict=False),
        )
    )
    if not whole:
        return 0
    due = due_segments(
        [segment for _, segment in whole],
        configs,
        log_start=whole[0][1].base_offset,
        high_watermark=_reach(task, segments[len(whole)].base_offset),
        log_end=segments[len(whole)].base_offset,
        now_ms=then_ms,
        copied=task.copied,
    )
    return sum(_bytes(segment, files) for segment in segments[: due.count])


def _old(
    segments: Sequence[Segment],
    files: Mapping[str, FileSpace],
    aged: Sequence[AgedSegment],
    ends: Sequence[int],
) -> Iterator[OldSegment]:
    for segment, times, end in zip(segments, aged, ends, strict=False):
        names = tuple(path.name for path in _files(segment))
        size = _bytes(segment, files)
        yield OldSegment(segment.base_offset, end, times.largest_ms, size, names)


def _has_retention(task: SpaceTask, segments: Sequence[Segment]) -> bool:
    """Return whether a broker looks for what is due: not in a directory that it does not serve."""
    name = task.name
    served = name is not None and not name.suffix and name.topic != CLUSTER_METADATA_TOPIC
    return served and bool(segments)


def _last(
    task: SpaceTask, last: Segment, files: Mapping[str, FileSpace], sealed: Sequence[AgedSegment]
) -> tuple[AgedSegment, int]:
    """Return the last segment, and the log end offset; its base where that is not known.

    It is read where a check would reach it, or counts its size. Raise SourceError.
    """
    file = files.get(last.log.name)
    unread = AgedSegment(last.base_offset, 0 if file is None else file.size, None)
    due = _decide(task, [*sealed, unread], last.base_offset)
    sized = task.configs is not None and task.configs.retention_bytes >= 0
    if task.configs is None or (due.count < len(sealed) and not sized and not task.listing):
        return unread, last.base_offset
    survey = quick_survey(last, sealed=False)
    # A broker does not count the room that it has preallocated.
    room = survey.gaps[-1].damage if survey.zero_tail and survey.gaps else None
    end = survey.written_end
    if end is None:
        return unread, last.base_offset
    entry = None if survey.time_index is None else survey.time_index.last
    largest = max(survey.max_timestamp, -1 if entry is None else entry[0])
    if largest < 0:
        largest = 0 if file is None else file.written_ms
    size = survey.size - (room.size if room is not None and room.empty else 0)
    return AgedSegment(last.base_offset, size, largest), end


def _reach(task: SpaceTask, end: int) -> int | None:
    """Return the offset over which no deletion goes, None if it is unknown."""
    return end if task.alone else task.high_watermark


def _decide(task: SpaceTask, segments: Sequence[AgedSegment], end: int) -> DueSegments:
    return due_segments(
        segments,
        task.configs,
        log_start=task.log_start or 0,
        high_watermark=_reach(task, end),
        log_end=end,
        now_ms=task.now_ms,
        copied=task.copied,
    )


def _aged(segment: Segment, files: Mapping[str, FileSpace]) -> AgedSegment:
    """Return a sealed segment, with the time in its time index. Raise SourceError.

    Zeros after the entries are no time: recovery rebuilds such an index, and one that is missing,
    and the largest time of the segment is unknown without it.
    """
    file = files.get(segment.log.name)
    size, largest = (0, None) if file is None else (file.size, file.written_ms)
    if segment.time_index is None:
        largest = None
    if segment.time_index is not None:
        index_bytes, data = read_end(segment.time_index, 2 * _ENTRY - 1)
        data = data[: len(data) - index_bytes % _ENTRY][-_ENTRY:]
        if len(data) == _ENTRY:
            time_ms = int.from_bytes(data[:8], "big", signed=True)
            if not any(data) and index_bytes >= 2 * _ENTRY:
                largest = None
            elif time_ms >= 0:
                largest = time_ms
    return AgedSegment(segment.base_offset, size, largest)


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
