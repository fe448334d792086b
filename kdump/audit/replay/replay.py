"""replay(): folds surveys into the state of producers and transactions.

The state is known before and after each segment. After damage it depends on the lost batches: a
``Doubt`` has the range of offsets where it does.

Spec: ``LogSegment.recover``, ``ProducerStateManager``, ``ProducerAppendInfo`` with the origin
REPLICATION, ``LeaderEpochFileCache`` (KIP-98, KIP-101, KIP-890); KOD 7.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.fates import HIGHEST, LostEnd, Mark, decide, evidence_of
from kdump.audit.survey.anomalies import FaultKind
from kdump.audit.survey.events import Events
from kdump.audit.survey.survey import Survey, effective_compaction
from kdump.format.checkpoint import EpochEntry
from kdump.format.index import AbortedTxn
from kdump.format.kernel import events as _events
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import replay as _replay
from kdump.format.snapshot import ProducerEntry
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)
_MARKS: Final = (_producers.BEGIN, _producers.COMMIT, _producers.ABORT)
_STATE: Final = len(_replay.STATE_FIELDS)
_OPEN: Final = _replay.STATE_FIELDS.index("transaction_first_offset")
_ENTRY: Final = 8  # the number of state fields that a snapshot's entry has too
_ABORTED: Final = len(_replay.ABORTED_FIELDS)
_VIOLATION: Final = len(_replay.VIOLATION_FIELDS)
_BEFORE: Final = -1  # the segment number of a producer that is known before the first segment


class ViolationKind(IntEnum):
    """The ways in which a producer's batch violates its state; the numbers are those of events."""

    PLAIN = _producers.PLAIN  # not transactional, but the producer's transaction is open
    CONTROL_CUT = _producers.CONTROL_CUT  # no marker: recovery ends the log after it, then fails
    CONTROL_FATAL = _producers.CONTROL_FATAL  # no marker: recovery fails
    CONTROL_ODD = _producers.CONTROL_ODD  # a marker in a form that brokers do not write
    EPOCH_FALLS = _producers.EPOCH_FALLS  # below an earlier epoch of the producer
    SEQUENCE_BREAK = _producers.SEQUENCE_BREAK  # the sequence does not follow the previous one


#: The results of segments without events, shared because there may be very many such segments.
_NO_COUNTS: Final[Counter[ViolationKind]] = Counter()
_NO_ROWS: Final = array("q")


class Violation(NamedTuple):
    """A batch that violates the state of its producer.

    ``expected`` and ``found`` are epochs (EPOCH_FALLS: ``expected`` is the least) or sequences.
    ``previous_offset`` is the last offset of the producer's previous batch (SEQUENCE_BREAK), else
    -1.
    """

    kind: ViolationKind
    producer_id: int
    producer_epoch: int
    offset: int
    position: int
    expected: int
    found: int
    previous_offset: int


class OpenTransaction(NamedTuple):
    """A transaction without its end; ``timestamp`` is that of its producer's last batch, in ms."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    timestamp: int


@frozen
class Doubt:
    """The range of offsets that damage may hide; ``last`` is None if it is unknown.

    Transactions that end before the range, or begin after it, are certain.
    """

    first: int
    last: int | None

    def spares(self, first: int, last: int) -> bool:
        """Return whether ``first`` to ``last``, both inclusive, lie to one side of the range."""
        return last < self.first or (self.last is not None and first > self.last)


@frozen
class SegmentReplay:
    """One segment's part of a replay.

    ``aborted`` are the entries that its transaction index should have, ``committed`` counts the
    other transactions that end there. ``violations`` lists the first few of each kind, ``counts``
    has the numbers of all. ``touched`` are rows of ``_replay.STATE_FIELDS``: the producers with
    batches or markers in the segment, as they are at its end.
    """

    survey: Survey
    aborted: tuple[AbortedTxn, ...]
    committed: int
    violations: tuple[Violation, ...]
    counts: Counter[ViolationKind]
    touched: array[int]

    def producers(self) -> Iterator[ProducerEntry]:
        """Yield the entries of ``touched``."""
        rows = self.touched
        return (ProducerEntry(*rows[at : at + _ENTRY]) for at in range(0, len(rows), _STATE))


@frozen
class Replay:
    """The replay of a partition's log, from its first segment to its end.

    ``start`` is the state of producers before the first segment, ``end_offset`` the offset after
    the last batch. ``open`` are the transactions without an end, by first offset. ``epochs`` are
    the entries that recovery would write with an empty ``leader-epoch-checkpoint``. ``doubt`` is
    None without damage.
    """

    segments: tuple[SegmentReplay, ...]
    start: tuple[ProducerEntry, ...]
    end_offset: int
    open: tuple[OpenTransaction, ...]
    epochs: tuple[EpochEntry, ...]
    doubt: Doubt | None

    def states(self) -> Iterator[tuple[int, Mapping[int, ProducerEntry]]]:
        """Yield (offset, producers by id) before each segment, and at the end of the log.

        The producers have the state before that offset. The mapping is the same object each time,
        and changes with the next step.
        """
        state = {entry.producer_id: entry for entry in self.start}
        for segment in self.segments:
            yield segment.survey.segment.base_offset, state
            state.update((entry.producer_id, entry) for entry in segment.producers())
        yield self.end_offset, state

    def survey_at(self, offset: int) -> Survey:
        """Return the survey of the segment that holds ``offset``, or of the first segment."""
        surveys = [segment.survey for segment in self.segments]
        below = [survey for survey in surveys if survey.segment.base_offset <= offset]
        return below[-1] if below else surveys[0]

    def certain(self, first: int, last: int) -> bool:
        """Return whether the replay of ``first`` to ``last`` does not depend on damage."""
        return self.doubt is None or self.doubt.spares(first, last)


def replay(
    surveys: Sequence[Survey],
    start: Iterable[ProducerEntry] = (),
    *,
    compacted: bool | None = None,
) -> Replay:
    """Return the replay of the segments of a partition, ascending by base offset; at least one.

    ``start`` is the known state of producers before the first segment. ``compacted`` is None if
    unknown: a gap between segments or batches counts as loss only if it is False.
    """
    start = tuple(start)
    fold = _Fold(start)
    segments = tuple(fold.replay_segment(number, survey) for number, survey in enumerate(surveys))
    return Replay(
        segments,
        start,
        surveys[-1].end_offset,
        fold.open(),
        _epochs(surveys),
        _find_doubt(surveys, gaps=compacted is False),
    )


def replay_partition(
    surveys: Sequence[Survey], start: Iterable[ProducerEntry], facts: PartitionFacts
) -> Replay:
    """Return the replay of a partition with these ``facts``; for the others see ``replay``.

    If its settings are unknown, the log shows whether gaps count as loss.
    """
    compacted = effective_compaction(surveys, facts.settings.compacted)
    return replay(surveys, start, compacted=compacted)


def marks_of(surveys: Iterable[Survey], start: Iterable[ProducerEntry] = ()) -> tuple[Mark, ...]:
    """Return the begins and ends of transactions, ascending; ``start`` is as for ``replay``."""
    begun = (
        Mark(
            entry.current_txn_first_offset,
            _producers.BEGIN,
            entry.producer_id,
            entry.producer_epoch,
        )
        for entry in start
        if entry.current_txn_first_offset >= 0
    )
    logged = (
        Mark(rows[at + 3], rows[at], rows[at + 1], rows[at + 2])
        for rows in (survey.events.rows for survey in surveys)
        for at in range(0, len(rows), _EVENT)
        if rows[at] in _MARKS
    )
    return tuple(sorted((*begun, *logged)))


class _Fold:
    """The state of producers during a replay."""

    def __init__(self, start: Sequence[ProducerEntry]) -> None:
        self.state = array("q", bytes(8 * _replay.FOLD_FIELDS))
        self.state[_replay.F_OLDEST] = self.state[_replay.F_NEWEST] = -1
        self.aborted = array("q", bytes(8 * _ABORTED * 4))
        self.violations = array("q", bytes(8 * _VIOLATION * _producers.KINDS * _producers.LISTED))
        # If a producer has two entries, the last one counts, as in a broker.
        known = {entry.producer_id: entry for entry in start}.values()
        self.producers = array("q")
        for row, entry in enumerate(
            sorted(known, key=lambda entry: entry.current_txn_first_offset)
        ):
            self.producers.extend(_row(entry))
            if entry.current_txn_first_offset >= 0:
                self._chain(row)
        self.state[_replay.F_PRODUCERS] = len(self.producers) // _STATE
        self.producers.extend(bytes(_STATE * 4))
        self.slots = array("q")
        self._hash()

    def replay_segment(self, number: int, survey: Survey) -> SegmentReplay:
        """Replay one segment."""
        if not survey.events.rows and not survey.events.runs:
            return SegmentReplay(survey, (), 0, (), _NO_COUNTS, _NO_ROWS)
        state = self.state
        for field in (
            _replay.F_EVENT,
            _replay.F_RUN,
            _replay.F_ABORTED,
            _replay.F_COMMITTED,
        ):
            state[field] = 0
        state[_replay.F_VIOLATIONS] = 0
        for kind in range(_producers.KINDS):
            state[_replay.F_COUNTS + kind] = 0
        # The kernel fills arrays that hold what most segments need. It stops where they are full,
        # and goes on from there in larger ones.
        events, status = survey.events, _producers.MORE_ROOM
        while status == _producers.MORE_ROOM:
            _replay.fold(
                events.rows,
                events.runs,
                number,
                state,
                self.producers,
                self.slots,
                self.aborted,
                self.violations,
            )
            status = state[_replay.F_WHY]
            if status == _producers.MORE_ROOM:
                self._grow()
        return SegmentReplay(
            survey,
            tuple(
                AbortedTxn(0, *row) for row in _rows(self.aborted, _ABORTED, self._aborted_count)
            ),
            state[_replay.F_COMMITTED],
            self._violations(events),
            Counter({kind: state[_replay.F_COUNTS + kind] for kind in ViolationKind})
            + Counter({ViolationKind.SEQUENCE_BREAK: events.break_count}),
            self._touched_producers(number),
        )

    def _violations(self, events: Events) -> tuple[Violation, ...]:
        """Return the listed violations of this segment, with its sequence breaks, by position."""
        rows = _rows(self.violations, _VIOLATION, self.state[_replay.F_VIOLATIONS])
        found = [Violation(ViolationKind(row[0]), *row[1:]) for row in rows]
        found += (
            Violation(ViolationKind.SEQUENCE_BREAK, *sequence_break)
            for sequence_break in events.breaks
        )
        return tuple(sorted(found, key=lambda violation: violation.position))

    def open(self) -> tuple[OpenTransaction, ...]:
        """Return the transactions that are open now, by first offset."""
        rows = _rows(self.producers, _STATE, self.state[_replay.F_PRODUCERS])
        found = (ProducerEntry(*row[:_ENTRY]) for row in rows if row[_OPEN] >= 0)
        return tuple(
            OpenTransaction(
                entry.producer_id,
                entry.producer_epoch,
                entry.current_txn_first_offset,
                entry.last_offset,
                entry.timestamp,
            )
            for entry in sorted(found, key=lambda entry: entry.current_txn_first_offset)
        )

    @property
    def _aborted_count(self) -> int:
        return self.state[_replay.F_ABORTED]

    def _touched_producers(self, number: int) -> array[int]:
        known = self.state[_replay.F_PRODUCERS]
        count = _replay.touched(self.producers, known, number, array("q"))
        found = array("q", bytes(8 * _STATE * count))
        _replay.touched(self.producers, known, number, found)
        return found

    def _chain(self, row: int) -> None:
        """Append a producer with an open transaction to the chain of such producers."""
        newest = self.state[_replay.F_NEWEST]
        older = _replay.STATE_FIELDS.index("older_open")
        newer = _replay.STATE_FIELDS.index("newer_open")
        self.producers[row * _STATE + older] = newest
        if newest >= 0:
            self.producers[newest * _STATE + newer] = row
        else:
            self.state[_replay.F_OLDEST] = row
        self.state[_replay.F_NEWEST] = row

    def _grow(self) -> None:
        if self._aborted_count == len(self.aborted) // _ABORTED:
            self.aborted.extend(self.aborted)
        if self.state[_replay.F_PRODUCERS] == len(self.producers) // _STATE:
            self.producers.extend(self.producers)
            self._hash()

    def _hash(self) -> None:
        size = 8
        while size < 2 * (len(self.producers) // _STATE):
            size *= 2
        self.slots = array("q", bytes(8 * size))
        known = self.state[_replay.F_PRODUCERS]
        _events.hash_producers(self.producers, _STATE, known, self.slots)


def _row(entry: ProducerEntry) -> list[int]:
    fields = [
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_offset,
        entry.offset_delta,
        entry.timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    ]
    return [*fields, -1, -1, _BEFORE, -1]


def _rows(rows: array[int], width: int, count: int) -> Iterator[array[int]]:
    return (rows[at : at + width] for at in range(0, count * width, width))


def _epochs(surveys: Sequence[Survey]) -> tuple[EpochEntry, ...]:
    entries: list[EpochEntry] = []
    for survey in surveys:
        for run in survey.events.epochs():
            if run.epoch > (entries[-1].epoch if entries else -1):
                entries.append(EpochEntry(run.epoch, run.first_offset))
    return tuple(entries)


def lost_ends(
    surveys: Sequence[Survey],
    start: Iterable[ProducerEntry],
    facts: PartitionFacts,
    *,
    cut_at: int = HIGHEST,
) -> tuple[LostEnd, ...]:
    """Return the transactions whose end may be at missing offsets, with their fates, in order.

    ``surveys`` and ``start`` are as for ``replay``, ``facts`` those of the partition. From offset
    ``cut_at`` on, the log is cut off.
    """
    gaps = effective_compaction(surveys, facts.settings.compacted) is False
    missing = _missing_of(surveys, gaps=gaps)
    if not missing:
        return ()
    damaged_ends = {
        gap.offset_before + 1
        for survey in surveys
        for gap in survey.gaps
        if gap.offset_after is None
    }
    holes = {hole.first for hole in _holes_between(surveys)} if gaps else set()
    evidence = evidence_of(
        facts, (survey.segment for survey in surveys), missing=holes - damaged_ends
    )
    return decide(marks_of(surveys, start), missing, evidence, cut_at)


def _missing_of(surveys: Sequence[Survey], *, gaps: bool) -> tuple[tuple[int, int], ...]:
    """Return the first and last offsets of the ranges that damage hides or that are missing.

    They ascend; the last is ``HIGHEST`` at the end of the log. ``gaps``: those without damage
    count.
    """
    found: list[tuple[int, int]] = []
    for doubt in sorted(_missing_ranges(surveys, gaps=gaps), key=lambda doubt: doubt.first):
        last = HIGHEST if doubt.last is None else doubt.last
        if found and doubt.first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        elif doubt.first <= last:
            found.append((doubt.first, last))
    return tuple(found)


def shows_all_missing(surveys: Iterable[Survey]) -> bool:
    """Return whether ``lost_ends`` knows all damage and all missing offsets, in order."""
    return all(
        survey.damages <= len(survey.gaps)
        and survey.counts[FaultKind.GAP] <= len(survey.jumps)
        and survey.ordered
        and survey.complete
        for survey in surveys
    )


def _missing_ranges(surveys: Sequence[Survey], *, gaps: bool) -> Iterator[Doubt]:
    for number, survey in enumerate(surveys):
        is_last = number + 1 == len(surveys)
        end = None if is_last else surveys[number + 1].segment.base_offset - 1
        for gap in survey.gaps:
            next_offset = end if gap.offset_after is None else gap.offset_after - 1
            tail = is_last and gap.offset_after is None
            if not (tail and gap.damage.is_tail):
                yield Doubt(gap.offset_before + 1, next_offset)
        if gaps:
            yield from (Doubt(first, last) for first, last in survey.jumps)
    if gaps:
        yield from _holes_between(surveys)


def _holes_between(surveys: Sequence[Survey]) -> Iterator[Doubt]:
    """Yield the missing offsets between the end of a segment and the next one's base or start."""
    for survey, following in pairwise(surveys):
        next_base = following.segment.base_offset
        if survey.end_offset < next_base:
            yield Doubt(survey.end_offset, next_base - 1)
        if following.missing_at_start is not None:
            yield Doubt(*following.missing_at_start)


def _find_doubt(surveys: Sequence[Survey], *, gaps: bool) -> Doubt | None:
    doubts = list(_missing_ranges(surveys, gaps=gaps))
    for number, survey in enumerate(surveys):
        base, is_last = survey.segment.base_offset, number + 1 == len(surveys)
        end = None if is_last else surveys[number + 1].segment.base_offset - 1
        if survey.damages > len(survey.gaps):
            doubts.append(Doubt(base, end))
        if gaps and survey.counts[FaultKind.GAP] > len(survey.jumps):
            doubts.append(Doubt(base, end))
        # If offsets run backwards, it is unknown which of them are wrong.
        if not survey.ordered:
            doubts.append(Doubt(base, end))
        if not survey.complete:
            doubts.append(Doubt(base, end))
    if not doubts:
        return None
    ends = [doubt.last for doubt in doubts]
    return Doubt(
        min(doubt.first for doubt in doubts),
        None if None in ends else max(end for end in ends if end is not None),
    )
