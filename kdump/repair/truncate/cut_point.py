"""The position and offset at which a log is cut.

Spec: ``LogSegment.recover``, ``UnifiedLog.truncateTo``; KOD 4.2, 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kdump.audit.startup.outcome import Violation
from kdump.audit.survey.anomalies import OUT_OF_ORDER, FaultKind
from kdump.audit.survey.recovery import Ending
from kdump.audit.survey.survey import Survey
from kdump.format.batch import BatchTable
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, Reason, walk

_REASONS: Final = {
    Reason.TORN_TAIL: "the file ends inside a batch",
    Reason.PREALLOCATED: "zeros up to the end of the file",
    Reason.BAD_CHECKSUM: "a batch does not match its checksum",
    Reason.IMPOSSIBLE_SIZE: "a batch has an impossible size",
}


@dataclass(frozen=True, slots=True)
class CutPoint:
    """So many bytes stay of the log of the ``number``-th segment, and nothing of those behind.

    ``cause`` says why in words; ``damage`` is what stands there if it is no sound batch.
    """

    number: int
    position: int
    cause: str
    damage: Damage | None = None


def first_refused(surveys: Sequence[Survey], violations: Iterable[Violation]) -> CutPoint | None:
    """The first place at which recovery cuts a log, empties a segment, or stops.

    None where it accepts all, a segment included that it splits, which loses nothing. Every survey
    must be of a whole log.
    """
    objections = tuple(violations)
    for number, survey in enumerate(surveys):
        found = list(_refused(number, survey, objections))
        if found:
            return min(found, key=lambda cut_point: cut_point.position)
    return None


def first_from(surveys: Sequence[Survey], offset: int) -> CutPoint | None:
    """The first batch whose last offset is ``offset`` or above; None where there is none.

    ``offset`` is at the base of the first segment, or above. What is damaged right before that
    batch goes with it. Raises SourceError.
    """
    cause = f"every batch whose last offset is {offset} or above is removed"
    for number, survey in enumerate(surveys):
        if survey.segment.base_offset > offset:
            end, damage = _sound_end(surveys[number - 1])
            return CutPoint(number - 1, end, cause, damage)
        found = _sound_before(survey, offset)
        if found is not None:
            return CutPoint(number, found[0], cause, found[1])
    return None


def disorder(survey: Survey) -> Iterator[tuple[int, str]]:
    """Positions of batches whose offsets are out of order, the first of each kind, in words."""
    for kind in OUT_OF_ORDER:
        for fault in survey.faults:
            if fault.kind is kind:
                batch = fault.batch
                told = f"offset {batch.base_offset} follows offset {fault.reference}"
                if kind is FaultKind.INVERTED:
                    told = f"a batch ends at offset {batch.last_offset}, below its base offset"
                yield batch.position, told
                break


def _refused(number: int, survey: Survey, violations: Iterable[Violation]) -> Iterator[CutPoint]:
    for gap in survey.gaps:
        damage = gap.damage
        yield CutPoint(number, damage.position, _REASONS[damage.reason], damage)
    recovered = survey.recovered
    if recovered is not None and recovered.disordered:
        for position, told in disorder(survey):
            yield CutPoint(number, position, told)
        if recovered.ending is not Ending.EMPTIED:
            stop = recovered.position + recovered.valid_bytes
            yield CutPoint(number, stop, "an offset out of the segment's range")
    for one in violations:
        if one.base_offset == survey.segment.base_offset:
            yield CutPoint(number, one.position, one.text)


def _sound_end(survey: Survey) -> tuple[int, Damage | None]:
    """Where the last sound batch ends, and the damage there; the end of the log without any."""
    if not survey.damages:
        return survey.size, None
    end, _ = _follow(survey, None)
    return end


def _sound_before(survey: Survey, offset: int) -> tuple[int, Damage | None] | None:
    """Where the last sound batch ends before the first one that reaches ``offset``.

    Together with the damage there; None where none reaches it.
    """
    if survey.last_offset is None or (survey.ordered and survey.last_offset < offset):
        return None
    end, reached = _follow(survey, offset)
    return end if reached else None


def _follow(survey: Survey, offset: int | None) -> tuple[tuple[int, Damage | None], bool]:
    """Where the last sound batch below ``offset`` ends, and whether another one reaches that."""
    end, damage = 0, None
    with WindowedFile(survey.segment.log, sealed=True) as source:
        for piece in walk(source, survey.segment.base_offset):
            if isinstance(piece, Damage):
                damage = damage or piece
                continue
            row = None if offset is None else _row_from(piece, offset)
            if row is not None:
                return ((piece[row].position, None) if row else (end, damage)), True
            end, damage = piece.end, None
    return (end, damage), False


def _row_from(table: BatchTable, offset: int) -> int | None:
    """The first batch of ``table`` whose last offset is ``offset`` or above."""
    if table.usual is not None and table.usual.last_offset < offset:
        return None
    reaching = (row for row, last in enumerate(table.column("last_offset")) if last >= offset)
    return next(reaching, None)
