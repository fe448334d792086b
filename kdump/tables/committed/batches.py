"""The batches that a read_committed consumer gets.

The marker in the log decides the outcome of a transaction. If damage may have taken the marker,
the evidence beside the log decides: see ``kdump.audit.replay.fates``. Of several copies, the copy
of the highest leader epoch counts, and the others for the offsets that it lacks.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98). A transaction without a
marker is open, and no offset from the first open transaction on is stable. If damage after its
begin may have taken the marker, it is undecided, and only its own records are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from kdump.audit.facts.coordinator import Coordinator, TopicPartition
from kdump.audit.replay.fates import Fate, FateEvidence, LostEnd, Mark, decide
from kdump.format.batch import BatchTable
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import ranges as _ranges
from kdump.storage.selection import HIGHEST, LOWEST
from kdump.tables.committed.ranges import Ranges, overlap, subtract
from kdump.values import frozen


@frozen
class CopyTransactions:
    """The transactions in one copy of a partition, from offset ``first`` to ``last``.

    ``marks`` ascend. ``gaps`` are offsets that could not be read; a transaction that continues
    after a gap has another begin there. ``epoch`` is the last leader epoch, -1 for none.
    ``evidence`` is from the files beside the logs.
    """

    marks: Sequence[Mark]
    gaps: Ranges
    first: int
    last: int
    epoch: int
    evidence: FateEvidence

    def with_coordinator(
        self, coordinator: Coordinator, topic_partition: TopicPartition | None
    ) -> CopyTransactions:
        """Return them with the log of their transaction coordinator as evidence too."""
        evidence = replace(self.evidence, coordinator=coordinator, topic_partition=topic_partition)
        return replace(self, evidence=evidence)


@frozen
class CommittedFilter:
    """Selects committed batches.

    ``left_out`` are the transactions that are left out, in the rows of the kernel's
    ``LEFT_OUT_FIELDS``: producer, first and last offset, ascending. ``end`` is
    the last stable offset: offsets from there on are not stable. ``undecided`` are the producers
    and first offsets of transactions whose markers may be lost in damage.
    """

    left_out: array[int]
    end: int
    undecided: tuple[tuple[int, int], ...]

    @classmethod
    def from_copies(cls, copies: Sequence[CopyTransactions]) -> CommittedFilter:
        """Return the filter for a partition, from one copy or several."""
        marks, gaps = _merge_copies(copies)
        lost_ends = _lost_ends(copies, marks, gaps)
        undecided_begins = {
            (end.producer, end.begin) for end in lost_ends if end.fate is Fate.UNDECIDED
        }
        marks = sorted((*marks, *_lost_markers(lost_ends)))
        running: dict[int, int] = {}
        left_out: list[tuple[int, int, int]] = []
        end, undecided = HIGHEST, []
        for offset, kind, producer, _ in marks:
            if kind == _producers.BEGIN:
                running.setdefault(producer, offset)
            else:
                first = running.pop(producer, None)
                if first is None:
                    continue
                hidden = None
                if (producer, first) in undecided_begins:
                    hidden = _last_hidden_offset(gaps, first, offset)
                if hidden is not None:
                    undecided.append((producer, first))
                if kind == _producers.ABORT:
                    left_out.append((producer, first, offset))
                elif hidden is not None:
                    # The offsets after the damage belong to the transaction that ends here.
                    left_out.append((producer, first, hidden))
        for producer, first in running.items():
            if (producer, first) in undecided_begins:
                left_out.append((producer, first, HIGHEST))
                undecided.append((producer, first))
            else:
                end = min(end, first)
        rows = array("q", chain.from_iterable(sorted(left_out)))
        return cls(rows, end, tuple(undecided))

    def batches(self, table: BatchTable) -> BatchTable:
        """Return the batches of ``table`` that hold committed records."""
        rows = memoryview(bytearray(table.rows)).cast("q")
        count = _ranges.keep_committed(rows, self.end, self.left_out)
        if count == len(table):
            return table
        return BatchTable(rows, hunted=table.hunted).first(count)


def _lost_ends(
    copies: Sequence[CopyTransactions], marks: Sequence[Mark], gaps: Ranges
) -> tuple[LostEnd, ...]:
    """Return the ends of transactions that are open where all copies have a gap.

    Of the copies with the highest leader epoch, the one with the fewest undecided ends counts.
    """
    epoch = max(copy.epoch for copy in copies)
    newest = [copy.evidence for copy in copies if copy.epoch == epoch]
    found = [decide(marks, gaps, evidence) for evidence in newest]
    return min(found, key=lambda ends: sum(end.fate is Fate.UNDECIDED for end in ends))


def _lost_markers(lost: Sequence[LostEnd]) -> Iterator[Mark]:
    """Yield markers for the lost ends whose outcome is known."""
    for end in lost:
        if end.fate is Fate.COMMITTED:
            yield Mark(end.first, _producers.COMMIT, end.producer)
        elif end.fate is Fate.ABORTED:
            yield Mark(end.ended if end.exact else end.first, _producers.ABORT, end.producer)


def _merge_copies(copies: Sequence[CopyTransactions]) -> tuple[list[Mark], Ranges]:
    """Return the marks of all copies, and the offsets that no copy holds."""
    end = max(copy.last for copy in copies)
    marks: list[Mark] = []
    missing: Ranges = ((LOWEST, HIGHEST),)
    for copy in sorted(copies, key=lambda copy: (copy.epoch, copy.last), reverse=True):
        # After the end of the longest copy no offset is missing.
        last = HIGHEST if copy.last == end else copy.last
        readable = subtract(((copy.first, last),), copy.gaps)
        marks.extend(_marks_within(copy, overlap(missing, readable)))
        missing = subtract(missing, readable)
    return sorted(marks), missing


def _marks_within(copy: CopyTransactions, ranges: Ranges) -> Iterator[Mark]:
    """Yield the marks in ``ranges``, and at the start of each range begins of open transactions."""
    running: dict[int, int] = {}  # epochs by producer
    gap_starts = [first for first, _ in copy.gaps]
    mark_index = gap_index = 0
    for first, last in ranges:
        while mark_index < len(copy.marks) and copy.marks[mark_index].offset < first:
            while (
                gap_index < len(gap_starts)
                and gap_starts[gap_index] <= copy.marks[mark_index].offset
            ):
                running.clear()
                gap_index += 1
            _apply_mark(running, copy.marks[mark_index])
            mark_index += 1
        while gap_index < len(gap_starts) and gap_starts[gap_index] <= first:
            running.clear()
            gap_index += 1
        yield from (Mark(first, _producers.BEGIN, *transaction) for transaction in running.items())
        while mark_index < len(copy.marks) and copy.marks[mark_index].offset <= last:
            yield copy.marks[mark_index]
            _apply_mark(running, copy.marks[mark_index])
            mark_index += 1


def _apply_mark(running: dict[int, int], mark: Mark) -> None:
    if mark.kind == _producers.BEGIN:
        running.setdefault(mark.producer, mark.epoch)
    else:
        running.pop(mark.producer, None)


def _last_hidden_offset(gaps: Ranges, first: int, end: int) -> int | None:
    """Return the last offset before the last gap between ``first`` and ``end``.

    Return None if there is no gap.
    """
    inside = [start - 1 for start, last in gaps if start < end and last > first]
    return inside[-1] if inside else None
