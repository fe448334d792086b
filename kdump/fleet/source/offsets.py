"""The logs and offsets that options select.

As consumers see a partition, it begins at the log start offset that the checkpoint has, and ends
with its last sound batch. The high watermark is not taken for the end: the checkpoint has one of
some seconds before a kill, and with the next start a single replica is served to its end.

Of several copies of a partition, Spark's columns have one: that of the highest leader epoch, and of
these the longest.

Spec: ``KafkaOffsetReaderAdmin``, ``ConsumerStrategy`` of ``spark-sql-kafka-0-10`` 4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, without_nested
from kdump.coordinators.extents import log_start
from kdump.errors import SourceError, UsageError, VanishedError
from kdump.fleet.source.by_time import first_offset_since
from kdump.fleet.source.options import EARLIEST, LATEST, Limit, Options, TopicPartition
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.storage.selection import HIGHEST, LOWEST, Selection, entry_position
from kdump.storage.source import source_error
from kdump.storage.walk import Damage, walk
from kdump.tables.absent import absent_ranges, within
from kdump.tables.corruption import CorruptRange, OnCorruption
from kdump.tables.logs import Log, check_listing, logs_of, swaps
from kdump.values import frozen


@frozen
class PartitionLogs:
    """The logs of one partition that are read, with the selection of their offsets.

    ``evidence`` are all logs of the partition, if these decide what is committed. ``compacted`` is
    its setting, None if unknown, and ``coordinator`` that of its node.
    """

    logs: tuple[Log, ...]
    evidence: tuple[Log, ...]
    topic_partition: TopicPartition | None
    compacted: bool | None
    coordinator: Coordinator | None

    @property
    def size(self) -> int:
        """The bytes of the logs that are read."""
        return sum(log.size for log in self.logs)


def select_logs(
    targets: Iterable[Target], options: Options, context: Context, corrupt: OnCorruption
) -> list[PartitionLogs]:
    """Return the logs of ``targets`` that ``options`` select, by partition, in order.

    ``corrupt`` gets the offsets of these that no log here has; partitions that are gone are among
    ``targets``. Raise UsageError, and SourceError for what the system does not read.
    """
    named = [(topic_partition(target), target) for target in without_nested(targets)]
    found = [
        (name, target)
        for name, target in named
        if name is None or options.subscription.selects(name)
    ]
    names = {name for name, _ in found if name is not None}
    for given in (options.subscription, options.starting, options.ending):
        given.check(names)
    check_checkpoints(target.directory for _, target in found)
    listed = [(name, target) for name, pending in found if (target := listing(pending)) is not None]
    if options.kafka:
        listed = _without_copies(listed)
    return [_partition_logs(name, target, options, context, corrupt) for name, target in listed]


def listing(target: Target) -> Target | None:
    """Return the listed target, None for a directory that was removed since its parent was listed.

    Raise SourceError.
    """
    listed = target.with_listing()
    if target.pending and isinstance(listed.error, VanishedError) and is_gone(target.path):
        return None
    check_listing(listed)
    return listed


def is_gone(path: AnyPath) -> bool:
    """Return whether nothing is at ``path``. A stale handle is not an answer. Raise SourceError."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        raise SourceError(path, str(source_error(path, error))) from error
    return False


def check_checkpoints(directories: Iterable[DirectoryFacts | None]) -> None:
    """Raise SourceError for checkpoints that decide which offsets are read, and cannot be read."""
    for directory in {id(each): each for each in directories if each is not None}.values():
        for read in (directory.log_starts, directory.high_watermarks):
            if read is not None and isinstance(read.error, SourceError):
                raise read.error


def _without_copies(
    listed: Sequence[tuple[TopicPartition | None, Target]],
) -> list[tuple[TopicPartition | None, Target]]:
    """Return the partitions of ``listed`` without all copies of each but one."""
    copies: dict[TopicPartition, list[Target]] = defaultdict(list)
    for name, target in listed:
        if name is not None and target.partition is not None:
            copies[name].append(target)
    best = {
        name: max(targets, key=log_tail).path for name, targets in copies.items() if targets[1:]
    }
    return [
        (name, target)
        for name, target in listed
        if name not in best or target.partition is None or target.path == best[name]
    ]


def _partition_logs(
    name: TopicPartition | None,
    target: Target,
    options: Options,
    context: Context,
    corrupt: OnCorruption,
) -> PartitionLogs:
    absent = absent_ranges(target, context)
    wanted = Selection() if name is None else _wanted(name, target, options, absent)
    selection = None
    if wanted is not None:
        for found in within(absent, wanted):
            corrupt(found)
        selection = _from_start(target, wanted, options)
    compacted = context.settings(target).compacted
    return PartitionLogs(
        () if selection is None else tuple(logs_of(target, selection, compacted=compacted)),
        tuple(logs_of(target, compacted=compacted)) if options.committed else (),
        name,
        compacted,
        context.node(target).coordinator,
    )


def _wanted(
    name: TopicPartition, target: Target, options: Options, absent: Sequence[CorruptRange]
) -> Selection | None:
    """Return the offsets of a partition, or of a segment, that the options name; None for none."""
    first = first_wanted(name, target, options, absent)
    if first is None:
        if options.late_is_end:
            return None
        raise _late(options.starting, name)
    end = _resolve(options.ending, name, target, options, strict=False)
    if target.partition is not None and target.segments and not options.lenient:
        for limit in (options.starting, options.ending):
            _check_within(limit, name, target, _begin(target, options, absent))
    last = HIGHEST if end is None else end - 1
    return Selection(first_offset=first, last_offset=last) if first <= last else None


def _from_start(target: Target, wanted: Selection, options: Options) -> Selection | None:
    """Return the wanted offsets from the start of a log on; None for none at all."""
    first = max(wanted.first_offset, _lowest(target, options))
    return replace(wanted, first_offset=first) if first <= wanted.last_offset else None


def _lowest(target: Target, options: Options) -> int:
    """Return the first offset that is read, ``LOWEST`` if segments begin with it."""
    if not target.segments:
        return LOWEST
    start = first_offset(target, options)
    return start if start > target.segments[0].base_offset else LOWEST


def _begin(target: Target, options: Options, absent: Iterable[CorruptRange]) -> int:
    """Return the first offset of a partition, here or in remote storage."""
    return min([first_offset(target, options), *(found.first_offset for found in absent)])


def first_wanted(
    name: TopicPartition, target: Target, options: Options, absent: Sequence[CorruptRange]
) -> int | None:
    """Return the offset at which the options start to read; None for a timestamp after all."""
    limit = options.starting
    if limit.by_time and not target.segments:
        return LOWEST
    first = _resolve(limit, name, target, options, strict=options.strict)
    if limit.by_time and absent and first is not None and first <= first_offset(target, options):
        return LOWEST  # absent records may be of that time too
    return first


def first_offset(target: Target, options: Options) -> int:
    """Return the first offset of a target with segments: with Spark's columns the log start."""
    start = target.segments[0].base_offset
    if options.kafka and target.partition is not None:
        start = log_start(target.partition, target.directory)
    return start if start > target.segments[0].base_offset else min([start, *swaps(target)])


def starting_offset(
    name: TopicPartition, target: Target, options: Options, absent: Sequence[CorruptRange]
) -> int:
    """Return the offset at which a stream starts to read a partition. Raise UsageError.

    It is below the first offset here if the stream starts with ``absent`` ones.
    """
    begin = _begin(target, options, absent)
    if not options.lenient:
        _check_within(options.starting, name, target, begin)
    first = first_wanted(name, target, options, absent)
    if first is None and not options.late_is_end:
        raise _late(options.starting, name)
    _, end = log_tail(target)
    return max(begin, end if first is None else min(first, end))


def _late(limit: Limit, name: TopicPartition) -> UsageError:
    return UsageError(
        f"option {limit.option}: expected a record of {limit.of(name)} ms or later in "
        f"{name[0]}-{name[1]}, found none"
    )


def _resolve(
    limit: Limit, name: TopicPartition, target: Target, options: Options, *, strict: bool
) -> int | None:
    """Return the offset of a limit; None for a timestamp after those of all records."""
    value = limit.of(name)
    if limit.by_time:
        return first_offset_since(target, value, _lowest(target, options), strict=strict)
    return {EARLIEST: LOWEST, LATEST: HIGHEST + 1}.get(value, value)


def _check_within(limit: Limit, name: TopicPartition, target: Target, start: int) -> None:
    """Raise UsageError for an offset that is not in the log of a partition, or its end."""
    offset = limit.of(name)
    if limit.by_time or offset in (EARLIEST, LATEST):
        return
    end = target.segments[-1].base_offset
    if offset > end:  # otherwise nothing of the last segment is read
        _, end = log_tail(target)
    if start <= offset <= end:
        return
    expected = f"{start} or more" if offset < start else f"{end}, the end of the log, or less"
    raise UsageError(
        f"option {limit.option}: expected {expected} for {name[0]}-{name[1]}, found {offset}; with "
        "failOnDataLoss=false what is there is read"
    )


def log_tail(target: Target) -> tuple[int, int]:
    """Return the leader epoch of the last sound batch of a partition, and the offset after it.

    Without a batch the epoch is -1, and the offset the base offset of the last segment. A log that
    is gone has none of both, -1. Raise SourceError.
    """
    try:
        for segment in reversed(target.segments):
            log = segment.log
            with open_source(log, mapped=False) as source:
                position = entry_position(source, segment.index, segment.base_offset, HIGHEST)
                tables = [
                    piece
                    for piece in walk(source, segment.base_offset, position)
                    if not isinstance(piece, Damage)
                ]
            if tables:
                batch = tables[-1][len(tables[-1]) - 1]
                end = max(batch.last_offset + 1, target.segments[-1].base_offset)
                return batch.leader_epoch, end
    except VanishedError:
        if not is_gone(log):
            raise
        return -1, -1
    return -1, target.segments[-1].base_offset if target.segments else 0


def topic_partition(target: Target) -> TopicPartition | None:
    """Return the topic and partition of a target, None outside of directories of partitions."""
    path = target.path.parent if target.path.suffix == ".log" else target.path
    name = directory_name(path)
    return None if name is None else (name.topic, name.partition)
