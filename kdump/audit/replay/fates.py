"""The fate of transactions whose markers may be lost, with the evidence that decides it.

A marker may be at a missing offset. The next marker of the producer may then belong to a later
transaction. A replay that continues to it may hide committed records, or show aborted ones.
Salvage, verify, the repairs and exports all use this module.

Spec: ``TransactionIndex``, ``ProducerStateManager`` (KIP-98); KOD 7. A transaction index is
evidence if it is sound and names every abort that the log shows in its segment; a missing one
proves nothing. A snapshot is evidence of the producers that it lists. If neither decides, the
coordinator's log does: see ``coordinator``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from kdump.audit.facts.coordinator import Coordinator, EpochOutcome, History, TopicPartition
from kdump.audit.facts.small_files import PartitionFacts
from kdump.format.index import AbortedTxn, TransactionIndex
from kdump.format.kernel import producers as _producers
from kdump.format.snapshot import ProducerEntries
from kdump.storage.logdir import Segment
from kdump.values import frozen

#: The highest offset; no record has it.
HIGHEST: Final = (1 << 63) - 1


class Mark(NamedTuple):
    """The begin, the continuation after damage, or the end of a transaction.

    ``kind`` is that of an event. ``epoch`` is the producer's epoch, -1 if unknown.
    """

    offset: int
    kind: int
    producer: int
    epoch: int = -1


class Fate(Enum):
    """The fate of a transaction that ran where offsets are missing."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    RUNNING = "running"  # its marker, if it has one, is not at the missing offsets
    UNDECIDED = "undecided"


class MissingRange(NamedTuple):
    """A range of missing offsets, and the first offset of the next such range."""

    first: int
    last: int
    following: int


class Decision(NamedTuple):
    """A fate; ``ended`` is the offset of the marker if ``exact``, else its highest possible one."""

    fate: Fate
    ended: int
    exact: bool = False


@frozen
class LostEnd:
    """A transaction whose marker may be, or is, among the missing offsets ``first`` to ``last``.

    ``begin`` is its first offset. ``last`` is None at the end of the log. ``marker`` is the kind of
    the producer's next marker in the log, None without one. ``ended`` and ``exact`` are as in
    ``Decision``.
    """

    producer: int
    begin: int
    first: int
    last: int | None
    fate: Fate
    ended: int
    marker: int | None
    exact: bool = False


@dataclass(frozen=True)
class FateEvidence:
    """The evidence about transactions in the files beside the logs.

    ``indexes`` has the transaction index of every segment by base offset, None if it does not exist
    or cannot be read. It has None for segments that are missing too. ``snapshots`` are by their
    offset. ``coordinator`` has the state of ``topic_partition``; both are None if they are unknown.
    """

    indexes: Mapping[int, TransactionIndex | None]
    snapshots: Mapping[int, ProducerEntries] = field(default_factory=dict)
    coordinator: Coordinator | None = None
    topic_partition: TopicPartition | None = None

    def decide(
        self, producer: int, begin: int, gap: MissingRange, next_marker: Mark | None
    ) -> Decision:
        """Return the fate of a transaction that ran where the offsets of ``gap`` are missing.

        ``next_marker`` is the producer's next marker in the log.
        """
        abort = next(self._aborts(producer, gap.first), None)
        if abort is not None and abort.first_offset <= begin:
            inside = abort.last_offset <= gap.last
            return Decision(Fate.ABORTED if inside else Fate.RUNNING, abort.last_offset, exact=True)
        before = HIGHEST if next_marker is None else next_marker.offset
        if abort is not None and abort.first_offset < before:
            return self._decide_ended(gap, abort.first_offset)
        commits = next_marker is not None and next_marker.kind == _producers.COMMIT
        if commits and self._covers(gap.first, gap.last):
            return Decision(Fate.RUNNING, gap.last)  # committed, in the gap or by the next marker
        fate = Fate.UNDECIDED
        for offset, transaction_begin in self._snapshot_states(producer, gap.first, before):
            if transaction_begin < 0 or transaction_begin > begin:
                return self._decide_ended(
                    gap, offset if transaction_begin < 0 else transaction_begin
                )
            if offset > gap.last:
                return Decision(Fate.RUNNING, gap.last)
            if gap.last == HIGHEST:
                fate = Fate.RUNNING
        return Decision(fate, gap.last)

    def _decide_ended(self, gap: MissingRange, before: int) -> Decision:
        """Return the fate of a transaction that ended below ``before`` and is not in an index."""
        last = min(gap.last, before - 1)
        if not self._covers(gap.first, last):
            return Decision(Fate.UNDECIDED, last)
        # Its marker may be in the last gap too.
        return Decision(Fate.RUNNING if gap.following < before else Fate.COMMITTED, last)

    def abort_offsets(self) -> Iterator[int]:
        """Yield the offsets of abort markers in the indexes, whether the log has them or not."""
        for index in self.indexes.values():
            for entry in () if index is None else index.entries:
                yield entry.last_offset

    def _covers(self, first: int, last: int) -> bool:
        """Return whether an index would name every abort from ``first`` to ``last``."""
        bases = sorted(self.indexes)
        if not bases or first < bases[0]:
            return False
        return all(
            self.indexes[base] is not None
            for base, end in pairwise([*bases, HIGHEST])
            if base <= last and end > first
        )

    def _aborts(self, producer: int, first: int) -> Iterator[AbortedTxn]:
        """Yield the entries of a producer that end at ``first`` or later, ascending."""
        for base in sorted(self.indexes):
            index = self.indexes[base]
            for entry in () if index is None else index.entries:
                if entry.producer_id == producer and entry.last_offset >= first:
                    yield entry

    def _snapshot_states(self, producer: int, first: int, before: int) -> Iterator[tuple[int, int]]:
        """Yield the offset of each snapshot after ``first``, and the begin of its transaction.

        The begin is -1 without an open transaction.
        """
        for offset in sorted(self.snapshots):
            if first < offset <= before:
                for entry in self.snapshots[offset]:
                    if entry.producer_id == producer:
                        yield offset, entry.current_txn_first_offset


def evidence_of(
    facts: PartitionFacts, segments: Iterable[Segment], missing: Iterable[int] = ()
) -> FateEvidence:
    """Return the evidence about transactions in the files beside the logs of ``segments``.

    ``missing`` are offsets from which on segments are missing, up to the next one.
    """
    indexes = {
        segment.base_offset: facts.txn_indexes.get(segment.base_offset) for segment in segments
    }
    name = facts.partition.name
    return FateEvidence(
        {
            **dict.fromkeys(missing),
            **{base: None if index is None else index.value for base, index in indexes.items()},
        },
        {offset: snapshot.value for offset, snapshot in facts.snapshots.items() if snapshot.value},
        facts.coordinator,
        None if name is None else (name.topic, name.partition),
    )


def decide(
    marks: Sequence[Mark],
    missing: Sequence[tuple[int, int]],
    evidence: FateEvidence,
    cut_at: int = HIGHEST,
) -> tuple[LostEnd, ...]:
    """Return the transactions whose end may be at missing offsets, with their fates, in order.

    ``marks`` are those of the log, ascending; a transaction may begin again after missing offsets.
    ``missing`` are the first and last offsets of missing ranges, ascending; the last is ``HIGHEST``
    at the end of the log. A transaction that is still running after a missing range is decided at
    the next one. From ``cut_at`` on, the log is cut off: a marker may have been there too.
    """
    if not missing:
        return ()
    file_evidence = _without_contradicted(evidence, marks, missing)
    coordinator = _CoordinatorEvidence(evidence, marks)
    ends = _markers_by_producer(marks)
    found: list[LostEnd] = []
    running: dict[int, Mark] = {}
    index = 0
    following = [*(first for first, _ in missing[1:]), cut_at]
    for gap in map(MissingRange, *zip(*missing, strict=True), following):
        first, last, _ = gap
        while index < len(marks) and marks[index].offset < first:
            _track(running, marks[index])
            index += 1
        for producer, begin in list(running.items()):
            marker = _next(ends.get(producer, ()), first)
            if marker is not None and marker.offset <= last:
                continue  # the marker replaces the one that was lost
            decision = file_evidence.decide(producer, begin.offset, gap, marker)
            if decision.fate is Fate.UNDECIDED:
                decision = coordinator.decide(begin, gap, marker, decision)
            fate, end_bound, exact = decision
            if fate is not Fate.RUNNING:
                del running[producer]
                after = None if last == HIGHEST else last
                kind = None if marker is None else marker.kind
                end = LostEnd(producer, begin.offset, first, after, fate, end_bound, kind, exact)
                found.append(end)
    return tuple(found)


class _CoordinatorEvidence:
    """The evidence in the coordinator's log, which is read at the first use."""

    def __init__(self, evidence: FateEvidence, marks: Sequence[Mark]) -> None:
        self._evidence = evidence
        self._marks = marks
        self._known: Mapping[int, History] | None = None

    def decide(
        self, begin: Mark, gap: MissingRange, next_marker: Mark | None, undecided: Decision
    ) -> Decision:
        """Return the fate of a transaction that the files left ``undecided``."""
        outcome = self._epoch_outcome(begin)
        if outcome is None:
            return undecided
        before = self._next_epoch(begin, gap)
        if next_marker is not None and next_marker.offset < before:
            before = next_marker.offset
            if next_marker.epoch in outcome.marker_epochs:  # it may be its own marker
                ends_alike = (next_marker.kind == _producers.COMMIT) == outcome.committed
                return Decision(Fate.RUNNING, gap.last) if ends_alike else undecided
        if gap.following < before:
            return Decision(Fate.RUNNING, gap.last)  # its marker may be in the next gap too
        fate = Fate.COMMITTED if outcome.committed else Fate.ABORTED
        return Decision(fate, min(undecided.ended, before - 1))

    def _epoch_outcome(self, begin: Mark) -> EpochOutcome | None:
        coordinator, topic_partition = self._evidence.coordinator, self._evidence.topic_partition
        if coordinator is None or topic_partition is None or begin.epoch < 0:
            return None
        if self._known is None:
            self._known = coordinator.histories({mark.producer for mark in self._marks})
        return self._known[begin.producer].epoch_outcome(begin.epoch, topic_partition)

    def _next_epoch(self, begin: Mark, gap: MissingRange) -> int:
        """Return the first offset after a gap where the producer writes under another epoch."""
        first = _next(self._begins[begin.producer], gap.last + 1)
        if first is not None and first.epoch == begin.epoch:
            first = _next(self._changes[begin.producer], first.offset + 1)
        return HIGHEST if first is None else first.offset

    @cached_property
    def _begins(self) -> Mapping[int, Sequence[Mark]]:
        found: dict[int, list[Mark]] = defaultdict(list)
        for mark in self._marks:
            if mark.kind == _producers.BEGIN:
                found[mark.producer].append(mark)
        return found

    @cached_property
    def _changes(self) -> Mapping[int, Sequence[Mark]]:
        """The marks of ``_begins`` that have another epoch than the previous one."""
        return {
            producer: [after for before, after in pairwise(begins) if before.epoch != after.epoch]
            for producer, begins in self._begins.items()
        }


def _track(running: dict[int, Mark], mark: Mark) -> None:
    if mark.kind == _producers.BEGIN:
        running.setdefault(mark.producer, mark)
    else:
        running.pop(mark.producer, None)


def _markers_by_producer(marks: Iterable[Mark]) -> dict[int, list[Mark]]:
    """Return the markers by producer, ascending."""
    found: dict[int, list[Mark]] = {}
    for mark in marks:
        if mark.kind != _producers.BEGIN:
            found.setdefault(mark.producer, []).append(mark)
    return found


def _next(marks: Sequence[Mark], first: int) -> Mark | None:
    index = bisect_left(marks, first, key=lambda mark: mark.offset)
    return marks[index] if index < len(marks) else None


def _without_contradicted(
    evidence: FateEvidence, marks: Iterable[Mark], missing: Sequence[tuple[int, int]]
) -> FateEvidence:
    """Return ``evidence`` without indexes that are malformed, or that the log contradicts."""
    bases = sorted(evidence.indexes)
    aborts: dict[int, dict[int, int]] = {base: {} for base in bases}
    expected: dict[int, set[int]] = {base: set() for base in bases}
    commits: set[int] = set()
    running: dict[int, Mark] = {}
    for mark in marks:
        begin = running.get(mark.producer)
        _track(running, mark)
        if mark.kind == _producers.COMMIT:
            commits.add(mark.offset)
        elif mark.kind == _producers.ABORT:
            base = bases[max(bisect_right(bases, mark.offset) - 1, 0)] if bases else 0
            aborts.setdefault(base, {})[mark.offset] = mark.producer
            if begin is not None and not any(
                first <= mark.offset and last >= begin.offset for first, last in missing
            ):
                expected.setdefault(base, set()).add(mark.offset)

    def holds(base: int, index: TransactionIndex) -> bool:
        named = {entry.last_offset for entry in index.entries}
        return (
            _is_well_formed(base, index)
            and not named & commits
            and expected[base] <= named
            and all(
                aborts[base].get(entry.last_offset, entry.producer_id) == entry.producer_id
                for entry in index.entries
            )
        )

    indexes = {
        base: index if index is not None and holds(base, index) else None
        for base, index in evidence.indexes.items()
    }
    return replace(evidence, indexes=indexes)


def _is_well_formed(base: int, index: TransactionIndex) -> bool:
    """Return whether a broker could have written ``index`` for a segment with offset ``base``."""
    ends = [entry.last_offset for entry in index.entries]
    return (
        not index.remainder
        and all(before < after for before, after in pairwise([base - 1, *ends]))
        and all(
            entry.version == 0 and 0 <= entry.first_offset <= entry.last_offset
            for entry in index.entries
        )
    )
