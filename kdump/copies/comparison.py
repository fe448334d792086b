"""compare(): the copies of one partition beside each other.

Spec: ``PartitionChangeBuilder.electLeader``, ``AbstractFetcherThread``; KIP-101, KIP-966.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import combinations

from kdump.audit.facts.cluster import Replicas
from kdump.copies.content import compare_content, count_records
from kdump.copies.copy import Copy, LostOffsets, OffsetRange
from kdump.copies.lineage import Truncation, shared_end, truncation
from kdump.errors import SourceError
from kdump.values import frozen


class DifferenceKind(StrEnum):
    """How two copies differ."""

    EPOCHS = "epochs"  # they have other leader epochs from an offset on
    CONTENT = "content"  # they have other batches or records at an offset of one epoch
    RECREATED = "recreated"  # they are of topics with other ids


class State(StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    LAGGING = "lagging"  # copies are the beginning of others, or a replica has none
    DIFFERENT = "different"
    ALONE = "alone"  # there is one copy
    UNREAD = "unread"  # not all could be read


@frozen
class Difference:
    """A difference of two copies, which are indexes; ``offset`` is the first that differs."""

    kind: DifferenceKind
    copies: tuple[int, int]
    offset: int | None
    detail: str


@frozen
class Cut:
    """The effect of a leader on another copy, an index.

    ``truncation`` is None if the copy truncates nothing. ``lost`` are the offsets that it removes,
    None without any, with ``records`` in their batches.
    """

    copy: int
    truncation: Truncation | None
    lost: OffsetRange | None = None
    records: int = 0


@frozen
class Leadership:
    """What happens if the copy with index ``leader`` leads: a cut for each other copy."""

    leader: int
    cuts: tuple[Cut, ...]


@frozen
class Comparison:
    """The copies of a partition beside each other; they are named by their indexes.

    order         All copies, in the order in which an unclean election should prefer them.
    leaderships   One for each copy that can lead, in the order of ``copies``.
    alone         Offsets that one copy alone can give.
    uncompared    Pairs of copies, with the number of batches whose records were not compared.
    replicas      The partition in the newest metadata log at hand; None if it is in none.
    missing       Nodes that are replicas, whose directories are at hand and have no copy of the
                  topic that the metadata log has.
    unread        What could not be read.
    """

    copies: tuple[Copy, ...]
    order: tuple[int, ...]
    leaderships: tuple[Leadership, ...]
    differences: tuple[Difference, ...]
    alone: tuple[tuple[int, OffsetRange], ...]
    uncompared: tuple[tuple[int, int, int], ...] = ()
    replicas: Replicas | None = None
    missing: tuple[int, ...] = ()
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
    def state(self) -> State:
        """The result. Damage and copies that do not start are differences too."""
        if self.unread:
            return State.UNREAD
        if self.differences or any(copy.lost for copy in self.copies):
            return State.DIFFERENT
        if not all(copy.starts for copy in self.copies):
            return State.DIFFERENT
        if self.missing or len({copy.end for copy in self.copies}) > 1:
            return State.LAGGING
        return State.ALONE if len(self.copies) == 1 else State.EQUAL

    @property
    def first(self) -> int:
        """The copy whose broker to start first.

        It is the best one in sync or eligible, unless another holds committed records that it
        lacks.
        """
        committed = max((copy.high_watermark or 0 for copy in self.copies), default=0)
        clean = (index for index in self.order if self.in_sync(index) or self.eligible(index))
        best = next(clean, self.order[0])
        return best if self.copies[best].end >= committed else self.order[0]

    @property
    def unclean(self) -> bool:
        """Whether the first copy can only lead after an unclean election."""
        return self.in_sync(self.first) is False and not self.eligible(self.first)

    def in_sync(self, index: int) -> bool | None:
        """Return whether the node of a copy is in the ISR; None if that is unknown."""
        return self._among(index, None if self.replicas is None else self.replicas.in_sync)

    def eligible(self, index: int) -> bool | None:
        """Return whether the node of a copy is an eligible leader replica; None for unknown."""
        return self._among(index, None if self.replicas is None else self.replicas.eligible)

    def sound_in(self, index: int, lost: LostOffsets) -> tuple[int, ...]:
        """Return the other copies that can give what a copy has lost."""
        return tuple(
            number
            for number, other in enumerate(self.copies)
            if number != index and _gives(other, self.copies[index], lost)
        )

    def _among(self, index: int, nodes: Collection[int] | None) -> bool | None:
        node = self.copies[index].node_id
        return None if nodes is None or node is None else node in nodes


def compare(
    copies: Sequence[Copy],
    topic_id: str | None = None,
    replicas: Replicas | None = None,
    nodes: Collection[int] = (),
) -> Comparison:
    """Compare the copies of one partition, at least one; read what their digests do not decide.

    ``topic_id`` and ``replicas`` are those of the newest metadata log, None where it does not have
    the topic. ``nodes`` are those whose directories are at hand.
    """
    current = [topic_id is None or copy.topic_id in (None, topic_id) for copy in copies]
    holders = {copy.node_id for copy, is_current in zip(copies, current, strict=True) if is_current}
    unread = [text for copy in copies for text in copy.unread]
    differences: list[Difference] = []
    uncompared: list[tuple[int, int, int]] = []
    for index, beside in combinations(range(len(copies)), 2):
        if not _same_topic(copies[index], copies[beside]):
            differences.append(_recreated(copies, index, beside))
            continue
        shared = shared_end(copies[index].epochs, copies[beside].epochs)
        differences.extend(_parting(copies, index, beside, shared))
        try:
            content = compare_content(copies[index], copies[beside], shared)
        except SourceError as error:
            unread.append(str(error))
            continue
        found = content.difference
        if found is not None:
            both = (index, beside)
            differences.append(Difference(DifferenceKind.CONTENT, both, found.offset, found.detail))
        if content.uncompared:
            uncompared.append((index, beside, content.uncompared))
    leaderships = []
    for index, copy in enumerate(copies):
        if copy.starts:
            try:
                leaderships.append(Leadership(index, tuple(_cuts(copies, index))))
            except SourceError as error:
                unread.append(str(error))
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
            for offsets in _alone(copies, index)
            if len(copies) > 1
        ),
        uncompared=tuple(uncompared),
        replicas=replicas,
        missing=tuple(
            node
            for node in (() if replicas is None else replicas.nodes)
            if node in nodes and node not in holders
        ),
        unread=tuple(unread),
    )


def _same_topic(copy: Copy, other: Copy) -> bool:
    return None in (copy.topic_id, other.topic_id) or copy.topic_id == other.topic_id


def _gives(other: Copy, copy: Copy, lost: LostOffsets) -> bool:
    """Return whether ``other`` has, in the same lineage, all that ``copy`` has lost."""
    if not _same_topic(copy, other):
        return False
    shared = shared_end(copy.epochs, other.epochs)
    if lost.end is None:  # how far the copy once went is unknown
        return lost.first <= shared and other.holds(lost.first, lost.first + 1)
    return lost.end <= shared and other.holds(lost.first, lost.end)


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


def _cuts(copies: Sequence[Copy], index: int) -> Iterator[Cut]:
    leader = copies[index]
    for number, copy in enumerate(copies):
        if number == index or not _same_topic(copy, leader):
            continue
        found = truncation(copy.started, leader.started, copy.high_watermark or 0)
        if found is None:
            yield Cut(number, None)
            continue
        first = copy.start if found.restart else max(found.offset, copy.start)
        lost = OffsetRange(first, copy.end)
        yield Cut(number, found, lost, count_records(copy, lost))


def _alone(copies: Sequence[Copy], index: int) -> Iterator[OffsetRange]:
    """Yield the offsets that one copy alone can give, in order."""
    copy = copies[index]
    left = list(copy.sound_ranges())
    for number, other in enumerate(copies):
        if number == index or not _same_topic(copy, other):
            continue
        shared = shared_end(copy.epochs, other.epochs)
        for held in other.sound_ranges():
            left = [
                part for each in left for part in _without(each, held.first, min(held.end, shared))
            ]
    yield from left


def _without(offsets: OffsetRange, first: int, end: int) -> Iterator[OffsetRange]:
    """Yield the parts of ``offsets`` that lie outside ``first`` to ``end``."""
    if first >= end:
        yield offsets
        return
    if offsets.first < first:
        yield OffsetRange(offsets.first, min(offsets.end, first))
    if offsets.end > end:
        yield OffsetRange(max(offsets.first, end), offsets.end)
