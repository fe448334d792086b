"""The log start offset of each partition, and the offsets before its first segment.

A broker serves no record below the log start offset. A request to delete records raises that of the
leader, and followers learn it later. Of several copies the highest one counts, so that a copy that
lags does not bring deleted records back. Copies are those of one topic id, as far as the ids are
known.

Before the first segment lie offsets that are in remote storage only. Segments may be gone though no
broker has deleted them.

Spec: ``UnifiedLog.maybeIncrementLogStartOffset``, ``LogManager.checkpointLogStartOffsets``
(KIP-107); KIP-405.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from kdump.audit.facts.coordinator import TopicPartition
from kdump.audit.facts.missing_start import may_lack_segments
from kdump.audit.facts.remote_storage import RemoteStorage, remote_offsets
from kdump.audit.facts.small_files import log_start_line, read_small, read_topic_id
from kdump.audit.run.spread import Spread
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.format.checkpoint import decode_epochs
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name, is_metadata_log
from kdump.storage.names import PARTITION_METADATA, DirectoryName, FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.storage.walk import first_batch
from kdump.tables.committed.ranges import Ranges, join, overlap
from kdump.values import frozen

#: The most partitions of a task that are checked for lost segments.
_TARGETS: Final = 256


def log_starts(targets: Sequence[Target], spread: Spread) -> list[int | None]:
    """Return the log start offset of each of ``targets``, which are listed.

    It is None if no record lies below it, if no copy of the partition has one, or if a target is no
    whole partition. Small files that only executors see are read with ``spread``.
    """
    copies: dict[tuple[str, int], list[int]] = defaultdict(list)
    known: dict[int, int] = {}
    for number, target in enumerate(targets):
        name = directory_name(target.path)
        if target.partition is not None and target.segments and name is not None:
            copies[name.topic, name.partition].append(number)
            known[number] = log_start_line(target.directory, name) or 0
    asked = [
        number
        for numbers in copies.values()
        for number in numbers
        if not targets[number].stopped or (len(numbers) > 1 and any(map(known.get, numbers)))
    ]
    facts = _read_facts([targets[number] for number in asked], asked, spread)
    starts: list[int | None] = [None] * len(targets)
    for numbers in copies.values():
        highest: dict[str | None, int] = defaultdict(int)
        for number in numbers:
            of_copy = facts.get(number, _UNKNOWN)
            start = max(known[number], of_copy.epoch_start)
            highest[of_copy.topic_id] = max(highest[of_copy.topic_id], start)
        for number in numbers:
            topic_id = facts.get(number, _UNKNOWN).topic_id
            of_same = (topic_id, None) if topic_id is not None else tuple(highest)
            start = max(highest[each] for each in of_same)
            if start > targets[number].segments[0].base_offset:
                starts[number] = start
    return starts


def remote_only(
    targets: Sequence[Target], context: Context, selection: Selection, spread: Spread
) -> dict[TopicPartition, Ranges]:
    """Return the selected offsets that none of ``targets`` has, because they are in remote storage.

    Partitions without such offsets are left out.
    """
    by_node: dict[AnyPath | None, list[_Tiered]] = defaultdict(list)
    remotes: dict[AnyPath | None, RemoteStorage | None] = {}
    for target in targets:
        name = None if target.partition is None else target.partition.name
        if name is None or not context.settings(target).remote_storage:
            continue
        first = target.segments[0].base_offset if target.segments else None
        remote = context.node(target).remote
        key = remote.paths[0] if remote else None
        remotes[key] = remote
        by_node[key].append(
            _Tiered(
                name,
                target.path / PARTITION_METADATA,
                log_start_line(target.directory, name),
                first,
            )
        )
    # The logs of remote storage of a node are read once.
    tasks = [_RemoteTask(remotes[key], tuple(partitions)) for key, partitions in by_node.items()]
    found: dict[TopicPartition, Ranges] = {}
    selected = ((selection.first_offset, selection.last_offset),)
    for number, results in spread(read_remote, tasks, [0] * len(tasks)) if tasks else ():
        if not isinstance(results, tuple):
            continue
        for tiered, ranges in zip(tasks[number].partitions, results, strict=True):
            place = tiered.name.topic, tiered.name.partition
            # Of several copies one may still have what is remote for the others.
            found[place] = overlap(ranges, found.get(place, selected))
    return {place: ranges for place, ranges in found.items() if ranges}


def lost_before(
    targets: Sequence[Target], context: Context, selection: Selection, spread: Spread
) -> Iterator[tuple[Target, tuple[int, int]]]:
    """Yield the partitions whose segments are gone, with the selected offsets of these.

    The checks of the quick pass decide, for each partition that may lack some.
    """
    groups: dict[AnyPath, list[Target]] = defaultdict(list)
    for target in targets:
        partition, directory = target.partition, target.directory
        if partition is None or (directory is None and not is_metadata_log(partition)):
            continue
        if may_lack_segments(partition, log_start_line(directory, partition.name) or 0):
            groups[target.path.parent].append(target)
    # The targets of a task share what is known of their log directory.
    tasks = [
        _LostTask(tuple(chunk), context.about(chunk))
        for group in groups.values()
        for chunk in (group[at : at + _TARGETS] for at in range(0, len(group), _TARGETS))
    ]
    selected = ((selection.first_offset, selection.last_offset),)
    for number, results in spread(read_lost, tasks, [0] * len(tasks)) if tasks else ():
        if isinstance(results, tuple):
            for target, ranges in zip(tasks[number].targets, results, strict=True):
                yield from ((target, pair) for pair in overlap(ranges, selected))


@frozen
class _LostTask:
    """Partitions of a log directory, and what is known of their node."""

    targets: tuple[Target, ...]
    context: Context


def read_lost(task: _LostTask) -> tuple[Ranges, ...]:
    """Return the offsets of the segments that each partition has lost. Runs in a task."""
    # Most exports need no check, and importing all of them takes 100 ms.
    from kdump.audit.run.lost_segments import lost_segments

    return tuple(
        join((first, last) for _, first, last in lost_segments(target, task.context))
        for target in task.targets
    )


@frozen
class _Tiered:
    """A partition with remote storage: its log start offset, and its first offset here."""

    name: DirectoryName
    metadata: AnyPath
    log_start: int | None
    local_start: int | None


@frozen
class _RemoteTask:
    """Partitions of a node."""

    remote: RemoteStorage | None
    partitions: tuple[_Tiered, ...]


def read_remote(task: _RemoteTask) -> tuple[Ranges, ...]:
    """Return the offsets of partitions that are in remote storage only. Runs in a task."""
    return tuple(
        remote_offsets(
            task.remote,
            tiered.name,
            read_topic_id(tiered.metadata),
            tiered.log_start,
            tiered.local_start,
        )
        for tiered in task.partitions
    )


@frozen
class _SmallFiles:
    """Files of a partition, and its first log; None if they do not exist or do not count."""

    metadata: AnyPath | None
    epochs: AnyPath | None
    log: AnyPath
    base_offset: int


@frozen
class _Facts:
    """What a partition says of itself: its topic id, and the start of its first leader epoch.

    The latter is 0 if it shows no deletion.
    """

    topic_id: str | None
    epoch_start: int


_UNKNOWN: Final = _Facts(None, 0)


def _read_facts(
    targets: Sequence[Target], numbers: Sequence[int], spread: Spread
) -> dict[int, _Facts]:
    if not targets:
        return {}
    tasks = [_small_files(target) for target in targets]
    return {
        numbers[index]: result
        for index, result in spread(read_facts, tasks, [0] * len(tasks))
        if isinstance(result, _Facts)
    }


def _small_files(target: Target) -> _SmallFiles:
    entries = () if target.partition is None else target.partition.entries
    paths = {entry.name.kind: entry.path for entry in entries if entry.name.suffix == ""}
    first = target.segments[0]
    return _SmallFiles(
        paths.get(FileKind.PARTITION_METADATA),
        # The start of a stopped broker uses the checkpoint alone.
        None if target.stopped else paths.get(FileKind.LEADER_EPOCHS),
        first.log,
        first.base_offset,
    )


def read_facts(files: _SmallFiles) -> _Facts:
    """Read the small files of a partition. Runs in a task."""
    topic_id = None if files.metadata is None else read_topic_id(files.metadata)
    return _Facts(topic_id, _epoch_start(files))


def _epoch_start(files: _SmallFiles) -> int:
    """Return the start of the first leader epoch, 0 if it shows no deletion.

    A broker that deletes records moves it at once, and writes the checkpoint within a minute. If
    the first batch has no epoch, the log is older than its epochs.
    """
    epochs = None if files.epochs is None else read_small(files.epochs, decode_epochs).value
    if not epochs or epochs[0].start_offset <= files.base_offset:
        return 0
    with suppress(SourceError), open_source(files.log, mapped=False) as source:
        first = first_batch(source, files.base_offset)
        if first is not None and first.leader_epoch >= 0:
            return epochs[0].start_offset
    return 0
