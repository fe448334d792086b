"""The sealed segments of all copies of partitions, for a stream.

A segment is sealed if another one follows it. Beside a running broker it is read once the high
watermark of the checkpoint has passed it: what other replicas lack, a broker may yet truncate. Of a
partition without a line in that file nothing is read until a running broker has written it.

Transactions end the range that is read: offsets from the first open one on are not stable. The
producer snapshot after the sealed segments has the open ones; without it their headers are read.

Spec: ``UnifiedLog.roll``, ``ProducerStateManager.takeSnapshot``, ``ReplicaManager``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from kdump.audit.facts.small_files import checkpoint_line, read_small
from kdump.audit.targets.scope import check_patterns
from kdump.audit.targets.target import Root, Target, assign, open_roots, without_nested
from kdump.errors import SourceError, UsageError, VanishedError
from kdump.fleet.source.committed import committed_until
from kdump.fleet.source.offsets import (
    PartitionLogs,
    check_checkpoints,
    first_offset,
    listing,
    log_tail,
    topic_partition,
)
from kdump.fleet.source.options import Options, TopicPartition
from kdump.fleet.source.paths import expand_paths
from kdump.fleet.source.positions import Key
from kdump.format.properties import decode_partition_metadata
from kdump.format.snapshot import decode_snapshot
from kdump.storage.logdir import Segment, has_lines
from kdump.storage.names import PARTITION_METADATA
from kdump.storage.selection import HIGHEST, Selection
from kdump.tables.logs import Log, check_roots, logs_of
from kdump.values import frozen

_NO_TOPIC_ID: Final = ""


@frozen
class SealedCopy:
    """A listed copy of a partition.

    ``start`` is the first offset that is read, ``end`` the base offset of the active segment,
    ``stable`` that of the last segment up to which a stream may go on.
    """

    name: TopicPartition
    topic_id: str | None
    target: Target
    start: int
    end: int
    stable: int

    def segments(self, first: int, end: int) -> list[Segment]:
        """Return the sealed segments with offsets from ``first`` to before ``end``."""
        last = min(end, self.end) - 1
        return Selection(first_offset=first, last_offset=last).segments(self.target.segments)


@frozen
class SealedListing:
    """The listed paths, the copies of selected partitions, and partitions without any segment."""

    roots: tuple[Root, ...]
    copies: tuple[SealedCopy, ...]
    empty: tuple[tuple[TopicPartition, Target], ...]


def list_copies(options: Options, *, start: bool = False) -> SealedListing:
    """List the paths, and the segments of selected partitions.

    At the ``start`` of a stream, all that the options name must be there. Raise UsageError, and
    SourceError for what the system does not read.
    """
    if not options.paths:
        raise UsageError("expected a path: spark.readStream.format('kdump').load(PATH)")
    roots = tuple(open_roots(expand_paths(options.paths)))
    if start:
        check_patterns(roots, options.selection)
    check_roots(roots)
    check_checkpoints(root.directory for root in roots)
    targets = [target for root in roots for target in assign(root, options.selection)]
    listed = [
        pair for target in without_nested(targets) if (pair := _listed(target, options)) is not None
    ]
    copies = tuple(_copy(name, target, options) for name, target in listed if target.segments)
    names = {copy.name for copy in copies}
    if start:
        options.subscription.check(names)
        options.starting.check(names)
    return SealedListing(roots, copies, tuple(pair for pair in listed if pair[0] not in names))


def _listed(target: Target, options: Options) -> tuple[TopicPartition, Target] | None:
    """Return the partition of a target and its listing, None if it is not selected or is gone."""
    name = topic_partition(target)
    if name is None or (not target.pending and target.partition is None and not target.error):
        raise UsageError(
            f"{target.path}: expected log directories or directories of partitions in a stream"
        )
    if not options.subscription.selects(name):
        return None
    listed = listing(target)
    return None if listed is None else (name, listed)


def _copy(name: TopicPartition, listed: Target, options: Options) -> SealedCopy:
    start = first_offset(listed, options)
    bases = [segment.base_offset for segment in listed.segments]
    high_watermark = _high_watermark(listed)
    stable = max((base for base in bases[1:] if base <= high_watermark), default=bases[0])
    topic_id = _topic_id(listed)
    return SealedCopy(name, topic_id, listed, start, bases[-1], stable)


def _topic_id(target: Target) -> str | None:
    """Return the topic id, None without a sound one. Raise SourceError."""
    read = read_small(target.path / PARTITION_METADATA, decode_partition_metadata)
    if isinstance(read.error, SourceError) and not isinstance(read.error, VanishedError):
        raise read.error
    return None if read.value is None else read.value.topic_id


def _high_watermark(target: Target) -> int:
    """Return the offset up to which a copy is replicated; ``HIGHEST`` if nothing says it."""
    directory, partition = target.directory, target.partition
    if directory is None or partition is None or not has_lines(target.path):
        return HIGHEST
    read = directory.high_watermarks
    if read is None or read.value is None:
        return HIGHEST
    line = checkpoint_line(read, partition.name)
    if line is None:
        return HIGHEST if target.stopped else 0
    return line


def copies_by_key(
    copies: Iterable[SealedCopy], known: Collection[Key]
) -> dict[Key, list[SealedCopy]]:
    """Return copies by topic id and partition; ``known`` are the keys that a stream has.

    A copy without a readable topic id belongs to the only topic of that name. So does a topic that
    got its id after the stream began.
    """
    copies = list(copies)
    ids: dict[str, set[str]] = defaultdict(set)
    for copy in copies:
        if copy.topic_id is not None:
            ids[copy.name[0]].add(copy.topic_id)
    for topic, topic_id, _ in known:
        ids[topic].add(topic_id)
    found: dict[Key, list[SealedCopy]] = defaultdict(list)
    for copy in copies:
        topic, number = copy.name
        key = (topic, _NO_TOPIC_ID, number)
        named = (topic, copy.topic_id or _NO_TOPIC_ID, number)
        if copy.topic_id is None and len(ids[topic]) == 1:
            (only,) = ids[topic]
            key = (topic, only, number)
        elif named in known or key not in known:
            key = named
        found[key].append(copy)
    return found


def newest(copies: Sequence[SealedCopy]) -> SealedCopy:
    """Return the copy of the highest leader epoch, and of these one with the most to read."""
    if len(copies) == 1:
        return copies[0]
    return max(copies, key=lambda copy: (log_tail(copy.target)[0], copy.stable, copy.end))


def next_copy(copies: Sequence[SealedCopy], position: int | None) -> SealedCopy:
    """Return the copy that a stream reads from ``position`` on, None for one that begins."""
    going_on = [copy for copy in copies if position is None or copy.start <= position]
    return newest(going_on or copies)


def stable_end(copy: SealedCopy, first: int, options: Options) -> int:
    """Return the offset up to which a stream may read from ``first`` on."""
    end = copy.stable
    if end <= first:
        return first
    if not options.committed:
        return end
    (after,) = (each for each in copy.target.segments if each.base_offset == end)
    if after.snapshot is not None:
        producers = read_small(after.snapshot, decode_snapshot).value
        if producers is not None:
            return max(first, min([end, *producers.open_transactions()]))
    evidence = sealed_logs(copy.target, Selection(first_offset=first, last_offset=end - 1))
    logs = PartitionLogs((), evidence, copy.name, None, None)
    found = committed_until(logs, end, following=end, corrupt=lambda _: None)  # a task reports it
    return max(first, min(end, found.end))


def sealed_logs(
    target: Target, selection: Selection, *, compacted: bool | None = None
) -> tuple[Log, ...]:
    """Return the logs of sealed segments that may hold selected offsets."""
    return tuple(log for log in logs_of(target, selection, compacted=compacted) if log.sealed)
