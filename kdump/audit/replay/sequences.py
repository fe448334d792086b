"""Sequence numbers of producers across gaps between and inside segments.

A sequence that jumps from the last batch before a gap to the first one after it shows that batches
are lost. If no producer can have lost any, continuing sequences show that offsets were changed.

Spec: ``ProducerAppendInfo.checkSequence`` (KIP-98, KIP-360); KOD 7.1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Final

from kdump.audit.replay.replay import Replay, SegmentReplay, Violation, ViolationKind
from kdump.audit.survey.events import ProducerRun
from kdump.values import frozen

_MAX: Final = 2**31 - 1


class Sequences(Enum):
    """The evidence of producers' sequence numbers at a gap."""

    JUMP = "jump"
    GO_ON = "go on"
    SILENT = "silent"


@frozen
class GapEvidence:
    """The evidence of sequences at a gap, also as text."""

    shows: Sequences = Sequences.SILENT
    text: str = ""


def sequence_evidence(replay: Replay, gaps: Sequence[tuple[int, int]]) -> tuple[GapEvidence, ...]:
    """Return the evidence at each of ``gaps``: first and last missing offsets, ascending."""
    ordered = all(segment.survey.ordered for segment in replay.segments)
    if not ordered or any(gap[1] >= following[0] for gap, following in pairwise(gaps)):
        return (GapEvidence(),) * len(gaps)
    return tuple(_SequenceEvidence(replay, gaps).evidence())


class _SequenceEvidence:
    """One pass over the producers of a log.

    ``_open`` has, for each gap, whether a producer can have lost batches there: its sequence is
    broken. ``_last`` are the last runs of producers, ``_since`` the offsets from which on their
    sequences are unbroken. ``_lowest`` is the first run of all.
    """

    def __init__(self, replay: Replay, gaps: Sequence[tuple[int, int]]) -> None:
        self._gaps = gaps
        self._firsts = [first for first, _ in gaps]
        self._lasts = [last for _, last in gaps]
        self._jumps: list[Violation | None] = [None] * len(gaps)
        self._open = [False] * len(gaps)
        self._last: dict[int, ProducerRun] = {}
        self._since: dict[int, int] = {}
        self._lowest: ProducerRun | None = None
        self._end_offset = replay.end_offset
        self._damages = list(_damages(replay))
        for segment in replay.segments:
            for run in segment.survey.events.producer_runs():
                self._add(run)
            self._add_breaks(segment)
            if _has_unnumbered_records(segment):
                self._leave_open(-1, self._end_offset)
        for run in self._last.values():
            self._leave_open(run.last_offset, self._end_offset)

    def evidence(self) -> Iterator[GapEvidence]:
        """Yield the evidence at each gap."""
        changed = self._run_with_changed_offset()
        for number, (first, _) in enumerate(self._gaps):
            jump, lowest = self._jumps[number], self._lowest
            if jump is not None:
                yield GapEvidence(
                    Sequences.JUMP,
                    f"the sequence of producer {jump.producer_id} jumps from "
                    f"{jump.expected - 1} to {jump.found} at offset {jump.offset}",
                )
            elif number == len(self._gaps) - 1 and changed is not None:
                yield _continuation(changed)
            elif not self._open[number] and lowest is not None and lowest.first_offset < first:
                yield _continuation(lowest)
            else:
                yield GapEvidence()

    def _add(self, run: ProducerRun) -> None:
        known = self._last.get(run.producer_id)
        if known is None:
            if run.first_sequence != 0:
                self._leave_open(-1, run.first_offset)
            self._since[run.producer_id] = run.first_offset
        elif not _joins(known, run):
            self._leave_open(known.last_offset, run.first_offset)
            self._since[run.producer_id] = run.first_offset
        self._last[run.producer_id] = run
        if self._lowest is None:
            self._lowest = run

    def _add_breaks(self, segment: SegmentReplay) -> None:
        breaks = [
            violation
            for violation in segment.violations
            if violation.kind is ViolationKind.SEQUENCE_BREAK
        ]
        for sequence_break in breaks:
            self._leave_open(sequence_break.previous_offset, sequence_break.offset)
            since = self._since[sequence_break.producer_id]
            self._since[sequence_break.producer_id] = max(since, sequence_break.offset)
            # Clients before 2.5 begin at 0 again, and damage between also breaks the sequence.
            if sequence_break.found != 0 and not self._has_damage(
                sequence_break.previous_offset, sequence_break.offset
            ):
                for number in self._gaps_between(
                    sequence_break.previous_offset, sequence_break.offset
                ):
                    self._jumps[number] = self._jumps[number] or sequence_break
        if segment.counts[ViolationKind.SEQUENCE_BREAK] > len(breaks):
            end = segment.survey.last_offset or 0
            self._leave_open(-1, end)
            for run in segment.survey.events.producer_runs():
                self._since[run.producer_id] = end

    def _run_with_changed_offset(self) -> ProducerRun | None:
        """Return the run of the last batch if a changed bit of its offset explains the last gap.

        The offset of the batch then differs by one bit from the expected one, and its sequence
        follows: no batch is lost before it, whichever other producers there are.
        """
        first, last = self._gaps[-1]
        if ((last + 1) ^ first).bit_count() != 1:
            return None
        for producer_id, run in self._last.items():
            is_last = run.last_offset == self._end_offset - 1
            if is_last and run.last_offset - run.offset_delta == last + 1:
                return run if self._since[producer_id] < first else None
        return None

    def _leave_open(self, before: int, after: int) -> None:
        for number in self._gaps_between(before, after):
            self._open[number] = True

    def _gaps_between(self, before: int, after: int) -> range:
        """Return the indexes of the gaps between two existing offsets."""
        return range(bisect_right(self._firsts, before), bisect_left(self._lasts, after))

    def _has_damage(self, before: int, after: int) -> bool:
        return any(first < after and before < last for first, last in self._damages)


def _continuation(run: ProducerRun) -> GapEvidence:
    return GapEvidence(
        Sequences.GO_ON, f"the sequence of producer {run.producer_id} continues after them"
    )


def _joins(run: ProducerRun, following: ProducerRun) -> bool:
    return (
        run.producer_epoch == following.producer_epoch
        and run.last_sequence >= 0
        and following.first_sequence == (run.last_sequence + 1) & _MAX
    )


def _damages(replay: Replay) -> Iterator[tuple[int, int]]:
    """Yield the offsets before and after each damage."""
    for segment in replay.segments:
        survey = segment.survey
        if survey.damages > len(survey.gaps):
            yield survey.segment.base_offset - 1, replay.end_offset
        for gap in survey.gaps:
            after = replay.end_offset if gap.offset_after is None else gap.offset_after
            yield gap.offset_before, after


def _has_unnumbered_records(segment: SegmentReplay) -> bool:
    """Return whether a segment has records without sequence numbers."""
    survey = segment.survey
    numbered = sum(
        ((run.last_sequence - run.first_sequence) & _MAX) + 1
        for run in survey.events.producer_runs()
        if run.first_sequence >= 0 and run.last_sequence >= 0
    )
    return survey.wrappers > 0 or survey.records - survey.control_batches > numbered
