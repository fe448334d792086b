"""The position and offset at which a log is cut.

Spec: ``LogSegment.recover``, ``UnifiedLog.truncateTo``; KOD 4.2, 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kdump.audit.startup.outcome import RejectedBatch
from kdump.audit.survey.anomalies import OUT_OF_ORDER, FaultKind
from kdump.audit.survey.recovery import RecoveryEnding
from kdump.audit.survey.survey import Survey
from kdump.format.batch import BatchTable
from kdump.storage.paths import as_local
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, walk
from kdump.values import frozen


@frozen
class CutPoint:
    """The first ``position`` bytes of the log of segment ``number`` stay, and no later segment.

    ``cause`` is the reason in words. ``damage`` is the damage at the position, None without any.
    """

    number: int
    position: int
    cause: str
    damage: Damage | None = None


def recovery_cut_point(
    surveys: Sequence[Survey], violations: Iterable[RejectedBatch]
) -> CutPoint | None:
    """Return the first point where recovery cuts a log, empties a segment, or stops.

    Returns None if recovery accepts all logs; splitting a segment loses nothing. Every survey must
    be of a whole log.
    """
    known_violations = tuple(violations)
    for number, survey in enumerate(surveys):
        points = list(_refused_points(number, survey, known_violations))
        if points:
            return min(points, key=lambda cut_point: cut_point.position)
    return None


def offset_cut_point(surveys: Sequence[Survey], offset: int) -> CutPoint | None:
    """Return the point before the first batch whose last offset is ``offset`` or above.

    Returns None without such a batch. ``offset`` is at least the base offset of the first segment.
    Damage right before that batch is cut too. Raises SourceError.
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
    """Yield positions of batches with offsets out of order, the first of each kind, with a text."""
    for kind in OUT_OF_ORDER:
        for fault in survey.faults:
            if fault.kind is kind:
                batch = fault.batch
                text = f"offset {batch.base_offset} follows offset {fault.reference}"
                if kind is FaultKind.INVERTED:
                    text = f"a batch ends at offset {batch.last_offset}, below its base offset"
                yield batch.position, text
                break


def _refused_points(
    number: int, survey: Survey, violations: Iterable[RejectedBatch]
) -> Iterator[CutPoint]:
    for gap in survey.gaps:
        damage = gap.damage
        yield CutPoint(number, damage.position, damage.reason.phrase, damage)
    recovered = survey.recovered
    if recovered is not None and recovered.disordered:
        for position, text in disorder(survey):
            yield CutPoint(number, position, text)
        if recovered.ending is not RecoveryEnding.EMPTIED:
            stop = recovered.position + recovered.valid_bytes
            yield CutPoint(number, stop, "an offset out of the segment's range")
    for violation in violations:
        if violation.base_offset == survey.segment.base_offset:
            yield CutPoint(number, violation.position, violation.text)


def _sound_end(survey: Survey) -> tuple[int, Damage | None]:
    """Return the end of the last sound batch, and the damage after it, None without any."""
    if not survey.damages:
        return survey.size, None
    end, _ = _follow(survey, None)
    return end


def _sound_before(survey: Survey, offset: int) -> tuple[int, Damage | None] | None:
    """Return the end of the last sound batch before the first one that reaches ``offset``.

    The damage after it comes second. Returns None if no batch reaches ``offset``.
    """
    if survey.last_offset is None or (survey.ordered and survey.last_offset < offset):
        return None
    end, reached = _follow(survey, offset)
    return end if reached else None


def _follow(survey: Survey, offset: int | None) -> tuple[tuple[int, Damage | None], bool]:
    """Return the end of the last sound batch below ``offset``, and whether another reaches it."""
    end, damage = 0, None
    with WindowedFile(as_local(survey.segment.log), sealed=True) as source:
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
    """Return the row of the first batch whose last offset is ``offset`` or above, or None."""
    if table.usual is not None and table.usual.last_offset < offset:
        return None
    reaching = (row for row, last in enumerate(table.column("last_offset")) if last >= offset)
    return next(reaching, None)
