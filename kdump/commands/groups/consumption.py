"""Groups beside the logs that they consume: lag, offsets outside of a log, expiry.

Spec: ``ConsumerGroupCommand`` for what is reported of a group; ``OffsetExpirationConditionImpl``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from kdump.audit.facts.small_files import read_topic_id
from kdump.audit.targets.scope import Scope, directories_of
from kdump.commands.groups.group import (
    CommittedOffset,
    Group,
    GroupKind,
    GroupState,
    Member,
    partition_of,
    read_groups,
)
from kdump.commands.groups.share_state import ShareOffset, read_share_offsets, rows_with_start
from kdump.coordinators.extents import Extent, TopicPartition, find_logs, read_extent
from kdump.coordinators.latest import LastRecord
from kdump.coordinators.log import LogFault, Select, Undecodable
from kdump.coordinators.partitions import (
    CoordinatorPartition,
    absent_partitions,
    partition_count,
    read_partitions,
)
from kdump.format.messages.consumer_protocol import PROTOCOL_TYPE
from kdump.storage.names import OFFSETS_TOPIC, PARTITION_METADATA, SHARE_TOPIC
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_RETENTION: Final = "offsets.retention.minutes"
_RETENTION_MINUTES: Final = 7 * 24 * 60
_WILDCARDS: Final = "*?["


class Outside(StrEnum):
    """Where a committed offset lies if not in its log: the consumer resets its position."""

    BELOW_START = "below start"
    BEYOND_END = "beyond end"


@frozen
class ConsumptionRow:
    """A partition that a group has committed, or that one of its members has.

    ``share_start`` is the start offset of a share group, which commits no offset, and
    ``share_complete`` the number of records from there on whose delivery is complete; each is None
    if it is unknown. ``extent`` is None without a readable log at hand. ``expires_ms`` is the time
    from which the coordinator may remove the offset, None if it does not. ``uncommitted`` says that
    an open transaction holds an offset for it.
    """

    topic: str
    partition: int
    committed: CommittedOffset | None
    member: Member | None
    extent: Extent | None
    expires_ms: int | None
    uncommitted: bool
    share_start: int | None = None
    share_complete: int | None = None

    @property
    def offset(self) -> int | None:
        """The committed offset, or the start offset of a share group."""
        return self.share_start if self.committed is None else self.committed.offset

    @property
    def lag(self) -> int | None:
        """The records up to the log end offset, None if that or the offset is unknown.

        Of a share group those are left out whose delivery is complete; None if unknown (KIP-1226).
        """
        if self.offset is None or self.extent is None:
            return None
        if self.committed is not None:
            return self.extent.end - self.offset
        if self.share_complete is None:
            return None
        return self.extent.end - self.offset - self.share_complete

    @property
    def outside(self) -> Outside | None:
        """Where the offset lies outside of its log, None if it lies in it, or is unknown."""
        if self.offset is None or self.extent is None:
            return None
        if self.extent.start is not None and self.offset < self.extent.start:
            return Outside.BELOW_START
        return Outside.BEYOND_END if self.offset > self.extent.end else None

    @property
    def in_remote_storage(self) -> bool:
        """Whether the record at the offset is in remote storage only."""
        if self.offset is None or self.extent is None:
            return False
        return any(first <= self.offset <= last for first, last in self.extent.remote)


@frozen
class OffsetsPartition:
    """The groups of a partition of the topic; ``path`` is the copy that was taken.

    ``passed_over`` are the other copies, which end before it or have an older leader epoch.
    ``absent``: no copy is at hand, and ``path`` is where one should be.
    """

    partition: int
    path: AnyPath
    passed_over: tuple[AnyPath, ...]
    faults: tuple[LogFault, ...]
    undecodable: tuple[Undecodable, ...]
    groups: tuple[tuple[Group, tuple[ConsumptionRow, ...]], ...]
    absent: bool = False


def find_offsets(scope: Scope, patterns: Sequence[str]) -> list[CoordinatorPartition]:
    """Return the partitions of ``__consumer_offsets`` that may hold groups of these patterns.

    A pattern without wildcards names a group, whose partition follows from its name, if the number
    of partitions is known.
    """
    found = CoordinatorPartition.find(scope, OFFSETS_TOPIC)
    return [partition for partition in found if _holds(scope, patterns, partition.number)]


def absent_offsets(scope: Scope, patterns: Sequence[str]) -> Iterator[OffsetsPartition]:
    """Yield the partitions that may hold groups of these patterns, and are not there to be read."""
    for number, fault in sorted(absent_partitions(scope, OFFSETS_TOPIC).items()):
        if _holds(scope, patterns, number):
            yield OffsetsPartition(number, fault.path, (), (fault,), (), (), absent=True)


def _holds(scope: Scope, patterns: Sequence[str], number: int) -> bool:
    """Return whether a partition of ``__consumer_offsets`` may hold groups of these patterns."""
    count = partition_count(scope, OFFSETS_TOPIC)
    if not patterns or count is None or any(set(_WILDCARDS) & set(each) for each in patterns):
        return True
    return number in {partition_of(each, count) for each in patterns}


def report_groups(
    scope: Scope,
    partitions: Sequence[CoordinatorPartition],
    patterns: Sequence[str],
    *,
    jobs: int,
    on_progress: Callable[[int], None],
) -> Iterator[OffsetsPartition]:
    """Yield the groups of each partition, in the order of ``partitions``.

    Raises SourceError if a worker is killed.
    """
    join = _Join(scope, _read_shares(scope, jobs))
    with closing(read_partitions(partitions, jobs=jobs, on_progress=on_progress)) as loaded:
        for partition, path, log in loaded:
            groups, undecodable = read_groups(log, partition.number)
            yield OffsetsPartition(
                partition.number,
                path,
                partition.others(path),
                partition.faults(log),
                tuple(undecodable),
                tuple((group, join.rows(group)) for group in groups if _selects(patterns, group)),
            )


def _read_shares(scope: Scope, jobs: int) -> list[ShareOffset]:
    """Return the start offsets of share groups. Raises SourceError if a worker is killed."""
    partitions = CoordinatorPartition.find(scope, SHARE_TOPIC)

    def read(select: Select | None) -> list[tuple[LastRecord, ...]]:
        loaded = read_partitions(partitions, jobs=jobs, on_progress=lambda _: None, select=select)
        with closing(loaded):
            return [log.records for _, _, log in loaded]

    # Each partition twice: of a key the last record, and the last one that has a start.
    both = zip(read(rows_with_start), read(None), strict=True)
    return [share for starts, last in both for share in read_share_offsets(starts, last)]


def expires_ms(group: Group, committed: CommittedOffset, retention_ms: int) -> int | None:
    """Return from when on the coordinator may remove an offset, None if it does not."""
    if group.subscribes(committed.topic):
        return None
    if committed.expire_ms is not None:
        return committed.expire_ms
    base = committed.commit_ms
    if group.kind is GroupKind.CLASSIC and group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            base = committed.commit_ms if group.since_ms is None else group.since_ms
        elif group.protocol_type != PROTOCOL_TYPE:
            return None
    return base + retention_ms


class _Join:
    """The logs at hand, whose ends are read when a group first has an offset in them.

    ``shares`` are the start offsets of share groups.
    """

    def __init__(self, scope: Scope, shares: Iterable[ShareOffset]) -> None:
        directories = directories_of(scope.roots)
        self._logs = find_logs(directories)
        self._extents: dict[TopicPartition, Extent | None] = {}
        self._scope = scope
        self._names: Mapping[str, str] | None = None
        self._shares: dict[str, list[ShareOffset]] = defaultdict(list)
        for share in shares:
            self._shares[share.group_id].append(share)
        minutes = (scope.context.config or {}).get(_RETENTION, "")
        self._retention_ms = 60_000 * (int(minutes) if minutes.isdecimal() else _RETENTION_MINUTES)

    def rows(self, group: Group) -> tuple[ConsumptionRow, ...]:
        """Return the rows of a group by topic and partition."""
        if group.kind is GroupKind.SHARE:
            # Several members may have a partition: reports list them by themselves.
            shares = dict(self._share_starts(group))
            return tuple(
                ConsumptionRow(*place, None, None, self._extent(place), None, False, *shares[place])
                for place in sorted(shares)
            )
        committed = {(each.topic, each.partition): each for each in group.offsets}
        members = dict(self._assigned(group))
        places = sorted({*committed, *members, *group.uncommitted})
        return tuple(
            self._row(group, place, committed.get(place), members.get(place)) for place in places
        )

    def _share_starts(
        self, group: Group
    ) -> Iterator[tuple[TopicPartition, tuple[int | None, int | None]]]:
        """Yield the partitions of a share group, with the start and what is complete behind it."""
        for topic in group.initialized:
            name = self._topic_names().get(topic.topic_id or "", topic.topic or "")
            yield from (((name, number), (None, None)) for number in topic.partitions)
        for share in self._shares[group.group_id]:
            name = self._topic_names().get(share.topic_id, share.topic_id)
            yield (name, share.partition), (share.offset, share.complete)

    def _row(
        self,
        group: Group,
        place: TopicPartition,
        committed: CommittedOffset | None,
        member: Member | None,
    ) -> ConsumptionRow:
        return ConsumptionRow(
            *place,
            committed,
            member,
            self._extent(place),
            None if committed is None else expires_ms(group, committed, self._retention_ms),
            place in group.uncommitted,
        )

    def _assigned(self, group: Group) -> Iterator[tuple[TopicPartition, Member]]:
        for member in group.members:
            for assignment in member.assignments or ():
                topic = assignment.topic
                if topic is None and assignment.topic_id is not None:
                    topic = self._topic_names().get(assignment.topic_id, assignment.topic_id)
                for partition in assignment.partitions:
                    yield (topic or "", partition), member

    def _extent(self, place: TopicPartition) -> Extent | None:
        if place not in self._extents:
            context, copies = self._scope.context, self._logs.get(place, ())
            found = [read_extent(path, facts, context) for path, facts in copies]
            # A copy that ends before another lags behind it.
            known = [extent for extent in found if extent is not None]
            self._extents[place] = max(known, key=lambda extent: extent.end, default=None)
        return self._extents[place]

    def _topic_names(self) -> Mapping[str, str]:
        if self._names is None:
            names: dict[str, str] = {}
            for (topic, _), copies in self._logs.items():
                if topic not in names.values():
                    topic_id = read_topic_id(copies[0][0] / PARTITION_METADATA)
                    if topic_id is not None:
                        names[topic_id] = topic
            for node in self._scope.context.nodes.values():
                if node.image is not None:
                    names |= node.image.names
            self._names = names
        return self._names


def _selects(patterns: Sequence[str], group: Group) -> bool:
    return not patterns or any(fnmatchcase(group.group_id, pattern) for pattern in patterns)
