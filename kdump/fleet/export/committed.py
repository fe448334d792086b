"""The batches that a read_committed consumer gets.

What a transaction came to, its marker in the log says, and where that may be lost the evidence
beside it: see ``kdump.audit.replay.fates``. Of several copies that of the highest leader epoch is
read, and others where it has nothing.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98). A transaction without a
marker is open, and nothing from the first of these on is stable, unless damage behind its begin may
have taken the marker: then it is undecided, and its records alone are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kdump.audit.replay.fates import Fate, FateEvidence, LostEnd, Mark, decide
from kdump.fleet.export.ranges import Ranges, overlap, within, without
from kdump.format import _events, _kernel
from kdump.format.batch import CONTROL, TRANSACTIONAL, BatchTable
from kdump.storage.selection import HIGHEST, LOWEST

_MAGIC: Final = _kernel.BATCH_FIELDS.index("magic")
_ATTRIBUTES: Final = _kernel.BATCH_FIELDS.index("attributes")
_PRODUCER_ID: Final = _kernel.BATCH_FIELDS.index("producer_id")
_BASE_OFFSET: Final = _kernel.BATCH_FIELDS.index("base_offset")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one copy of a partition shows of transactions, from offset ``first`` to ``last``.

    ``marks`` ascend; behind each of the ``holes``, which are offsets that could not be read, a
    transaction that goes on has another begin. ``epoch`` is the last leader epoch, -1 for none.
    ``evidence`` is what stands beside its logs.
    """

    marks: Sequence[Mark]
    holes: Ranges
    first: int
    last: int
    epoch: int
    evidence: FateEvidence


@dataclass(frozen=True, slots=True)
class Committed:
    """``left_out`` has, by producer, the first and last offsets of transactions, ascending.

    ``end`` is the last stable offset, which is the first one that is not. ``undecided`` are the
    producers and first offsets of transactions whose markers damage may have taken.
    """

    left_out: Mapping[int, Ranges]
    end: int
    undecided: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, copies: Sequence[Seen]) -> Committed:
        """From all that is seen of a partition, in one copy or in several."""
        marks, holes = _together(copies)
        lost = _lost_ends(copies, marks, holes)
        undecided_begins = {(end.producer, end.begin) for end in lost if end.fate is Fate.UNDECIDED}
        marks = sorted((*marks, *_ends(lost)))
        running: dict[int, int] = {}
        left_out: dict[int, list[tuple[int, int]]] = {}
        end, undecided = HIGHEST, []
        for offset, kind, producer, _ in marks:
            if kind == _events.BEGIN:
                running.setdefault(producer, offset)
            else:
                first = running.pop(producer, None)
                if first is None:
                    continue
                hidden = None
                if (producer, first) in undecided_begins:
                    hidden = _hidden(holes, first, offset)
                if hidden is not None:
                    undecided.append((producer, first))
                if kind == _events.ABORT:
                    left_out.setdefault(producer, []).append((first, offset))
                elif hidden is not None:
                    # What is behind the damage is of the transaction that ends here.
                    left_out.setdefault(producer, []).append((first, hidden))
        for producer, first in running.items():
            if (producer, first) in undecided_begins:
                left_out.setdefault(producer, []).append((first, HIGHEST))
                undecided.append((producer, first))
            else:
                end = min(end, first)
        ranges = {producer: tuple(pairs) for producer, pairs in left_out.items()}
        return cls(ranges, end, tuple(undecided))

    def batches(self, table: BatchTable) -> BatchTable:
        """Those of ``table`` with records that are committed."""
        rows = np.frombuffer(table.rows, np.int64).reshape(-1, BatchTable.WIDTH)
        modern = rows[:, _MAGIC] > 1
        control = modern & (rows[:, _ATTRIBUTES] & CONTROL != 0)
        transactional = modern & (rows[:, _ATTRIBUTES] & TRANSACTIONAL != 0) & ~control
        drop = control | (modern & (rows[:, _BASE_OFFSET] >= self.end))
        producers = rows[:, _PRODUCER_ID]
        for producer in self.left_out.keys() & set(producers[transactional].tolist()):
            inside = within(rows[:, _BASE_OFFSET], self.left_out[producer])
            drop |= transactional & (producers == producer) & inside
        if not drop.any():
            return table
        kept = memoryview(bytearray(rows[~drop].tobytes())).cast("q")
        return BatchTable(kept, hunted=table.hunted)


def _lost_ends(copies: Sequence[Seen], marks: Sequence[Mark], holes: Ranges) -> tuple[LostEnd, ...]:
    """What became of transactions that run where no copy shows anything.

    Of the copies that go on under the highest leader epoch, the one that says most is believed.
    """
    epoch = max(copy.epoch for copy in copies)
    newest = [copy.evidence for copy in copies if copy.epoch == epoch]
    found = [decide(marks, holes, evidence) for evidence in newest]
    return min(found, key=lambda ends: sum(end.fate is Fate.UNDECIDED for end in ends))


def _ends(lost: Sequence[LostEnd]) -> Iterator[Mark]:
    """The markers that stand for those which are known to be lost."""
    for end in lost:
        if end.fate is Fate.COMMITTED:
            yield Mark(end.first, _events.COMMIT, end.producer)
        elif end.fate is Fate.ABORTED:
            yield Mark(end.ended if end.exact else end.first, _events.ABORT, end.producer)


def _together(copies: Sequence[Seen]) -> tuple[list[Mark], Ranges]:
    """The marks of the log that the copies are of, and the offsets that none of them shows."""
    end = max(copy.last for copy in copies)
    marks: list[Mark] = []
    missing: Ranges = ((LOWEST, HIGHEST),)
    for copy in sorted(copies, key=lambda copy: (copy.epoch, copy.last), reverse=True):
        # Behind the end of the one that goes furthest there is nothing to be missed.
        last = HIGHEST if copy.last == end else copy.last
        shown = without(((copy.first, last),), copy.holes)
        marks.extend(_within(copy, overlap(missing, shown)))
        missing = without(missing, shown)
    return sorted(marks), missing


def _within(copy: Seen, ranges: Ranges) -> Iterator[Mark]:
    """The marks in ``ranges``, and at the start of each a begin of what runs there already."""
    running: dict[int, int] = {}  # epochs by producer
    holes = [first for first, _ in copy.holes]
    at = hole = 0
    for first, last in ranges:
        while at < len(copy.marks) and copy.marks[at].offset < first:
            while hole < len(holes) and holes[hole] <= copy.marks[at].offset:
                running.clear()
                hole += 1
            _run(running, copy.marks[at])
            at += 1
        while hole < len(holes) and holes[hole] <= first:
            running.clear()
            hole += 1
        yield from (Mark(first, _events.BEGIN, *each) for each in running.items())
        while at < len(copy.marks) and copy.marks[at].offset <= last:
            yield copy.marks[at]
            _run(running, copy.marks[at])
            at += 1


def _run(running: dict[int, int], mark: Mark) -> None:
    if mark.kind == _events.BEGIN:
        running.setdefault(mark.producer, mark.epoch)
    else:
        running.pop(mark.producer, None)


def _hidden(holes: Ranges, first: int, end: int) -> int | None:
    """The last offset before the last hole from ``first`` on that may have had a marker.

    None where all is known up to ``end``.
    """
    inside = [start - 1 for start, last in holes if start < end and last > first]
    return inside[-1] if inside else None
