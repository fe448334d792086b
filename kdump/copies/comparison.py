"""compare(): the copies of one partition beside each other.

Spec: ``PartitionChangeBuilder.electLeader``, ``AbstractFetcherThread``; KIP-101, KIP-966.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import combinations
from typing import NamedTuple

from kdump.audit.facts.cluster import Replicas
from kdump.audit.facts.coordinator import TopicPartition
from kdump.copies.content import compare_content, count_records, parting_of
from kdump.copies.copy import OFFSETS_MISSING, Copy, LostOffsets, OffsetRange
from kdump.copies.lineage import Truncation, shared_end, truncation
from kdump.errors import SourceError
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.values import frozen


class DifferenceKind(StrEnum):
    """How two copies differ."""

    EPOCHS = "epochs"  # they have other leader epochs from an offset on
    CONTENT = "content"  # they have other batches or records at an offset of one epoch
    RECREATED = "recreated"  # they are of topics with other ids


class ComparisonState(StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    LAGGING = "lagging"  # copies are parts of others, or a replica has none
    DIFFERENT = "different"
    ALONE = "alone"  # there is one copy
    UNREAD = "unread"  # not all could be read


class Held(NamedTuple):
    """A part of lost offsets that another copy, an index, can give."""

    copy: int
    offsets: OffsetRange


class Unordered(NamedTuple):
    """Where to truncate a copy that lacks batches, or has wrong offsets or leader epochs in them.

    ``source``, an index, has all batches that a truncation to ``offset`` removes, in order.
    """

    offset: int
    source: int


class NodeDirectory(NamedTuple):
    """A log directory at hand: its node, and its directory id, None without one.

    ``aside`` are the ``-stray`` and ``-delete`` directories of replicas that its node has only so.
    """

    node_id: int
    directory_id: str | None
    aside: tuple[tuple[TopicPartition, AnyPath], ...] = ()


@frozen
class Difference:
    """A difference of two copies, which are indexes; ``offset`` is the first that differs."""

    kind: DifferenceKind
    copies: tuple[int, int]
    offset: int | None
    detail: str


@frozen
class FollowerCut:
    """The effect of a leader on another copy, an index.

    ``truncation`` is None if the copy truncates nothing. ``lost`` are the offsets that it removes,
    None without any, with ``records`` in their batches. ``deleted`` are those at the start of its
    log that it deletes because the leader's begins later, None without any, with
    ``deleted_records`` in their batches.
    """

    copy: int
    truncation: Truncation | None
    lost: OffsetRange | None = None
    records: int = 0
    deleted: OffsetRange | None = None
    deleted_records: int = 0


@frozen
class Leadership:
    """What happens if the copy with index ``leader`` leads: a cut for each other copy."""

    leader: int
    cuts: tuple[FollowerCut, ...]


@frozen
class Comparison:
    """The copies of a partition beside each other; they are named by their indexes.

    order         All copies, in the order in which an unclean election should prefer them.
    leaderships   One for each copy that can lead, in the order of ``copies``.
    alone         Offsets that one copy alone can give.
    sound_in      For each of the lost offsets of each copy, the other copies that can give them.
    held          For each of the lost offsets of each copy, the parts that other copies can give.
    unordered     For each copy, where to truncate it before it is healed, as its batches are not in
                  order, and another copy has all that it loses; None where that is not so.
    uncompared    Pairs of copies, with the number of batches whose records were not compared.
    replicas      The partition in the newest metadata log at hand; None if it is in none.
    topic_id      The topic id there.
    missing       Nodes that are replicas, whose directories are at hand and have no copy of the
                  topic that the metadata log has.
    aside         The ``-stray`` and ``-delete`` directories that these nodes have instead.
    unread        What could not be read.
    """

    copies: tuple[Copy, ...]
    order: tuple[int, ...]
    leaderships: tuple[Leadership, ...]
    differences: tuple[Difference, ...]
    alone: tuple[tuple[int, OffsetRange], ...]
    sound_in: tuple[tuple[tuple[int, ...], ...], ...]
    held: tuple[tuple[tuple[Held, ...], ...], ...]
    unordered: tuple[Unordered | None, ...]
    uncompared: tuple[tuple[int, int, int], ...] = ()
    replicas: Replicas | None = None
    topic_id: str | None = None
    missing: tuple[int, ...] = ()
    aside: tuple[AnyPath, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        """The topic of all copies."""
        return self.copies[0].topic

    @property
    def partition(self) -> int:
        """The partition of all copies."""
        return self.copies[0].partition

    @property
    def state(self) -> ComparisonState:
        """The result. Damage is a difference too, and a start that takes a copy or its records."""
        if self.unread:
            return ComparisonState.UNREAD
        if self.differences or any(
            copy.lost or copy.start_loses or not copy.starts for copy in self.copies
        ):
            return ComparisonState.DIFFERENT
        if self.missing or len({(copy.log_start, copy.end) for copy in self.copies}) > 1:
            return ComparisonState.LAGGING
        return ComparisonState.ALONE if len(self.copies) == 1 else ComparisonState.EQUAL

    @property
    def first(self) -> int:
        """The copy whose broker to start first.

        It is the best one in sync or eligible that starts, unless it is the beginning of another
        one that holds more committed records.
        """
        best = self.best
        return next(iter(self.committed_beyond(best)), best)

    @property
    def best(self) -> int:
        """The first copy of the order in sync or eligible that starts; else the first of all."""
        return next(
            (
                index
                for index in self.order
                if self.copies[index].can_lead and (self.in_sync(index) or self.eligible(index))
            ),
            self.order[0],
        )

    @property
    def unclean(self) -> bool:
        """Whether the first copy can only lead after an unclean election."""
        return self.in_sync(self.first) is False and not self.eligible(self.first)

    def heal_sources(self, index: int) -> tuple[int, ...]:
        """Return the copies, in their order, from which ``heal`` brings back what a copy has lost.

        A copy in sync that lacks committed records has lost them, too: with these no other copy
        needs an unclean election. A cleaned log gets back stretches between two batches alone. A
        replica that cannot lead fetches what is missing at its end. Copies that are truncated first
        are healed from the one that has what they lose.
        """
        unordered = self.unordered[index]
        if unordered is not None:
            return (unordered.source,)
        copy = self.copies[index]
        sources = {
            part.copy
            for lost, parts in zip(copy.lost, self.held[index], strict=True)
            if self._heals(index, lost)
            for part in parts
        }
        elected = self.in_sync(index) or self.eligible(index)
        if elected and index == self.best and self.unclean and not copy.compacted:
            sources.update(self.committed_beyond(index))
        return tuple(number for number in self.order if number in sources)

    def lacks(self, index: int) -> tuple[OffsetRange, ...]:
        """Return the offsets that other copies of the lineage can give, and a copy cannot."""
        copy, found = self.copies[index], list[OffsetRange]()
        for number, other in enumerate(self.copies):
            if number != index and _same_topic(copy, other):
                shared = shared_end(copy.epochs, other.epochs)
                found += _without(other.sound_ranges(), copy.sound_ranges(), shared)
        return tuple(_united(found))

    def in_sync(self, index: int) -> bool | None:
        """Return whether the node of a copy is in the ISR; None if that is unknown."""
        return self._among(index, None if self.replicas is None else self.replicas.in_sync)

    def eligible(self, index: int) -> bool | None:
        """Return whether the node of a copy is an eligible leader replica; None for unknown."""
        return self._among(index, None if self.replicas is None else self.replicas.eligible)

    def committed_beyond(self, index: int) -> tuple[int, ...]:
        """Return the copies with committed records that follow those of a copy, in their order."""
        return tuple(other for other in self.order if self._commits_beyond(other, index))

    def _heals(self, index: int, lost: LostOffsets) -> bool:
        copy = self.copies[index]
        if lost.reason == OFFSETS_MISSING:  # heal keeps the batches around them as they are
            return False
        at_end = lost.end is None or lost.end > copy.end_offset
        if copy.compacted:
            return bool(lost.size) and not at_end
        follows = self.in_sync(index) is False and not self.eligible(index)
        return bool(lost.size) or not (follows and at_end)

    def _commits_beyond(self, index: int, best: int) -> bool:
        """Return whether a copy holds committed records that follow those of the copy ``best``."""
        copy, shorter = self.copies[index], self.copies[best]
        end = shorter.end
        return (
            copy.can_lead
            and _same_topic(copy, shorter)
            and min(copy.high_watermark or 0, copy.end) > end
            and shared_end(copy.started, shorter.started) == end
        )

    def _among(self, index: int, nodes: Collection[int] | None) -> bool | None:
        copy = self.copies[index]
        if nodes is None or copy.node_id is None:
            return None
        return copy.node_id in nodes and copy.topic_id in (None, self.topic_id)


def compare(
    copies: Sequence[Copy],
    topic_id: str | None = None,
    replicas: Replicas | None = None,
    directories: Collection[NodeDirectory] = (),
    pace: Pace | None = None,
    unreadable: str | None = None,
) -> Comparison:
    """Compare the copies of one partition, at least one; read what their digests do not decide.

    ``topic_id`` and ``replicas`` are those of the newest metadata log, None where it does not have
    the topic. ``directories`` are the log directories at hand. Logs are read at ``pace``, or not at
    all, if ``unreadable`` says why.
    """
    # Where one copy shows that the cleaner has worked, it may have worked on all.
    if any(copy.shows_compaction for copy in copies):
        copies = [copy.as_compacted() for copy in copies]
    copies = [copy.beside(other for other in copies if _same_topic(copy, other)) for copy in copies]
    shared = _shared_ends(copies)
    current = [topic_id is None or copy.topic_id in (None, topic_id) for copy in copies]
    holders = {copy.node_id for copy, is_current in zip(copies, current, strict=True) if is_current}
    unread = [text for copy in copies for text in copy.unread]
    if unreadable is not None:
        unread.append(unreadable)
    differences: list[Difference] = []
    uncompared: list[tuple[int, int, int]] = []
    for index, beside in combinations(range(len(copies)), 2):
        end = shared.get((index, beside))
        if end is None:
            differences.append(_recreated(copies, index, beside))
            continue
        differences.extend(_parting(copies, index, beside, end))
        if unreadable is not None:
            continue
        try:
            content = compare_content(copies[index], copies[beside], end, pace)
        except SourceError as error:
            unread.append(str(error))
            continue
        found = content.difference
        if found is not None:
            both = (index, beside)
            differences.append(Difference(DifferenceKind.CONTENT, both, found.offset, found.detail))
        if content.uncompared:
            uncompared.append((index, beside, content.uncompared))

    @cache
    def count(number: int, lost: OffsetRange) -> int:
        """Count once what several leaders cut."""
        return count_records(copies[number], lost, pace)

    held = tuple(_held(copies, index) for index in range(len(copies)))
    unordered: list[Unordered | None] = [None] * len(copies)
    leaderships = []
    for index, copy in enumerate(copies):
        if copy.can_lead and unreadable is None:
            try:
                leaderships.append(Leadership(index, tuple(_cuts(copies, index, count))))
            except SourceError as error:
                unread.append(str(error))
        if copy.unordered and unreadable is None:
            try:
                unordered[index] = _unordered(copies, index, differences, pace)
            except SourceError as error:
                unread.append(str(error))
    missing = tuple(
        node
        for node in (() if replicas is None else replicas.nodes)
        if node not in holders and _at_hand(node, replicas, directories)
    )
    own = copies[0].topic, copies[0].partition
    return Comparison(
        copies=tuple(copies),
        order=tuple(
            sorted(
                range(len(copies)),
                key=lambda index: (current[index], *copies[index].rank),
                reverse=True,
            )
        ),
        leaderships=tuple(leaderships),
        differences=tuple(differences),
        alone=tuple(
            (index, offsets)
            for index in range(len(copies))
            for offsets in _alone(copies, index, shared)
            if len(copies) > 1
        ),
        sound_in=tuple(_sound_in(copies, index, parts) for index, parts in enumerate(held)),
        held=held,
        unordered=tuple(unordered),
        uncompared=tuple(uncompared),
        replicas=replicas,
        topic_id=topic_id,
        missing=missing,
        aside=tuple(
            path
            for directory in directories
            for partition, path in directory.aside
            if directory.node_id in missing and partition == own
        ),
        unread=tuple(unread),
    )


def _at_hand(node: int, replicas: Replicas | None, directories: Collection[NodeDirectory]) -> bool:
    """Return whether the log directory that a node has its replica in is among ``directories``.

    If the cluster has no directory id for the replica, any directory of the node counts.
    """
    ids = {directory.directory_id for directory in directories if directory.node_id == node}
    known = None if replicas is None else replicas.directory_of(node)
    return bool(ids) if known is None or None in ids else known in ids


def _same_topic(copy: Copy, other: Copy) -> bool:
    return None in (copy.topic_id, other.topic_id) or copy.topic_id == other.topic_id


def _shared_ends(copies: Sequence[Copy]) -> dict[tuple[int, int], int]:
    """Return the offset up to which each two copies of one topic are of one lineage."""
    found: dict[tuple[int, int], int] = {}
    for index, beside in combinations(range(len(copies)), 2):
        if _same_topic(copies[index], copies[beside]):
            end = shared_end(copies[index].epochs, copies[beside].epochs)
            found[index, beside] = found[beside, index] = end
    return found


def _held(copies: Sequence[Copy], index: int) -> tuple[tuple[Held, ...], ...]:
    """Return, for each of the lost offsets of a copy, the parts that copies of its lineage have."""
    copy = copies[index]
    found: list[list[Held]] = [[] for _ in copy.lost]
    for number, other in enumerate(copies if copy.lost else ()):
        if number == index or not _same_topic(copy, other):
            continue
        shared_to = shared_end(copy.lineage, other.epochs)
        if shared_to == copy.lineage.end:
            shared_to = other.end_offset  # nothing parts them behind it
        held = list(other.sound_ranges())
        for parts, lost in zip(found, copy.lost, strict=True):
            place = max(bisect_right(held, lost.first, key=lambda each: each.first) - 1, 0)
            while place < len(held):
                part = _part(lost, held[place], shared_to)
                if part is None and held[place].first >= lost.first:
                    break
                if part is not None:
                    parts.append(Held(number, part))
                    if lost.end is None:
                        break
                place += 1
    return tuple(map(tuple, found))


def _unordered(
    copies: Sequence[Copy], index: int, differences: Iterable[Difference], pace: Pace | None
) -> Unordered | None:
    """Return from where on a copy has batches that another one has in order, None without any.

    Where the other one lacks batches too, it has all that follow these. A cleaner leaves offsets
    out: in a compacted log nothing tells what is in order. Raises SourceError.
    """
    copy = copies[index]
    if copy.compacted:
        return None
    gaps = [lost.first for lost in copy.lost if lost.reason == OFFSETS_MISSING]
    for source, other in enumerate(copies):
        if source == index or other.disordered or not _same_topic(copy, other):
            continue
        behind = [lost.end or lost.first for lost in other.lost if lost.reason == OFFSETS_MISSING]
        since = max(behind, default=None)
        if since is not None and (copy.disordered or since > min(gaps)):
            continue
        places = [
            each.offset
            for each in differences
            if each.offset is not None
            and set(each.copies) == {index, source}
            and each.offset >= (since or 0)
        ]
        offset = min([*places, *gaps], default=None)
        parting = None if offset is None else parting_of(copy, other, offset, pace, since or 0)
        if parting is not None and parting > copy.start:
            return Unordered(parting, source)
    return None


def _part(lost: LostOffsets, held: OffsetRange, shared: int) -> OffsetRange | None:
    """Return the part of lost offsets in ``held``, below ``shared``; None without any.

    If nothing is missing before the next batch, the part is empty.
    """
    if lost.end == lost.first:
        inside = held.first <= lost.first <= min(held.end, shared)
        return OffsetRange(lost.first, lost.first) if inside else None
    # How far the copy once went is unknown where it has no end, and so is its lineage there.
    stop = held.end if lost.end is None else min(held.end, lost.end, shared)
    part = OffsetRange(max(lost.first, held.first), stop)
    known = lost.end is not None or lost.first <= shared
    return part if known and part.first < part.end else None


def _sound_in(
    copies: Sequence[Copy], index: int, held: Sequence[Sequence[Held]]
) -> tuple[tuple[int, ...], ...]:
    """Return, for each of the lost offsets of a copy, the copies that have all of them."""
    return tuple(
        tuple(
            part.copy
            for part in parts
            if part.offsets.first == lost.first and lost.end in (None, part.offsets.end)
        )
        for lost, parts in zip(copies[index].lost, held, strict=True)
    )


def _recreated(copies: Sequence[Copy], index: int, beside: int) -> Difference:
    ids = " and ".join(str(copies[number].topic_id) for number in (index, beside))
    return Difference(DifferenceKind.RECREATED, (index, beside), None, f"topic ids {ids}")


def _parting(copies: Sequence[Copy], index: int, beside: int, shared: int) -> Iterator[Difference]:
    """Yield the difference of two copies that share no lineage from offset ``shared`` on."""
    both = copies[index], copies[beside]
    if shared < min(copy.end_offset for copy in both):
        epochs = (copy.epochs.epoch_at(shared) for copy in both)
        detail = " and ".join("none" if epoch is None else str(epoch) for epoch in epochs)
        yield Difference(DifferenceKind.EPOCHS, (index, beside), shared, f"leader epochs {detail}")


def _cuts(
    copies: Sequence[Copy], index: int, count: Callable[[int, OffsetRange], int]
) -> Iterator[FollowerCut]:
    leader = copies[index]
    for number, copy in enumerate(copies):
        if number == index or not _same_topic(copy, leader):
            continue
        found = truncation(copy.started, leader.started, copy.high_watermark or 0)
        deleted = None
        if copy.start < leader.log_start and not (found is not None and found.restart):
            deleted = OffsetRange(copy.start, min(leader.log_start, copy.end))
        deleted_records = 0 if deleted is None else count(number, deleted)
        if found is None:
            yield FollowerCut(number, None, deleted=deleted, deleted_records=deleted_records)
            continue
        if found.restart and leader.tiered is not None:
            # What it drops of the leader's lineage is in remote storage.
            first = max(shared_end(copy.epochs, leader.tiered), copy.start)
            if first >= copy.end:
                yield FollowerCut(number, found)
                continue
        else:
            first = copy.start if found.restart else max(found.offset, copy.start)
        lost = OffsetRange(first, copy.end)
        yield FollowerCut(number, found, lost, count(number, lost), deleted, deleted_records)


def _alone(
    copies: Sequence[Copy], index: int, shared: Mapping[tuple[int, int], int]
) -> list[OffsetRange]:
    """Return the offsets that one copy alone can give, in order."""
    left = list(copies[index].sound_ranges())
    for number, other in enumerate(copies):
        if (index, number) in shared:
            left = list(_without(left, other.sound_ranges(), shared[index, number]))
            if other.tiered is not None:
                remote = (OffsetRange(first, last + 1) for first, last in other.remote)
                end = shared_end(copies[index].epochs, other.tiered)
                left = list(_without(left, remote, end))
    return left


def _united(ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield ranges in order, those that meet as one."""
    last: OffsetRange | None = None
    for each in sorted(ranges):
        if last is None:
            last = each
        elif each.first <= last.end:
            last = OffsetRange(last.first, max(last.end, each.end))
        else:
            yield last
            last = each
    if last is not None:
        yield last


def _without(
    left: Iterable[OffsetRange], others: Iterable[OffsetRange], shared: int
) -> Iterator[OffsetRange]:
    """Yield the parts of ``left``, in order, that are not in ``others`` below ``shared``."""
    ranges = (OffsetRange(first, min(end, shared)) for first, end in others)
    held = iter([found for found in ranges if found.first < found.end])
    found = next(held, None)
    for at, end in left:
        while found is not None and found.first < end:
            if at < found.first:
                yield OffsetRange(at, found.first)
            at = max(at, found.end)
            if found.end > end:
                break  # it may cover a part of the next range too
            found = next(held, None)
        if at < end:
            yield OffsetRange(at, end)
