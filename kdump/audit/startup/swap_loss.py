"""The records that a ``.swap`` file leaves out when it replaces segments.

A split of a segment holds all of its records. The cleaner leaves records out, so that missing
records are lost only if the log was not compacted. The content of a ``.swap`` file is evidence of
compaction too.

Spec: ``LogLoader.load``, ``LocalLog.splitOverflowedSegment``, ``Cleaner``; KOD 5, steps 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kdump.audit.evidence import known_ends
from kdump.audit.facts.small_files import PartitionFacts, SwapLog
from kdump.audit.startup.swaps import pending_swaps, resolve_swaps
from kdump.audit.survey.compaction import Compaction, compaction_evidence
from kdump.audit.survey.recovery import Span
from kdump.audit.survey.survey import Survey, traces_of_compaction
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class SwapLoss:
    """Records that segments hold, but the ``.swap`` files that replace them do not.

    ``certain``: no evidence shows compaction.
    """

    records: Span
    certain: bool


def swap_loss(facts: PartitionFacts, surveys: Sequence[Survey]) -> SwapLoss | None:
    """Return the lost records; None if there are none, compaction is shown, or an end is unknown.

    ``surveys`` are those of the partition's segments.
    """
    swaps = _pending(facts)
    if not swaps:
        return None
    compaction = _compaction(facts, surveys, swaps)
    if compaction is Compaction.SHOWN:
        return None
    records = _lost_records(facts, surveys, swaps)
    if not records:
        return None
    return SwapLoss(records, _is_certain(compaction, swaps))


def unread_replaced(facts: PartitionFacts, surveys: Sequence[Survey]) -> tuple[int, ...]:
    """Return the base offsets of replaced segments whose records were not counted.

    None where their number cannot show a certain loss. ``surveys`` are those of the partition's
    segments.
    """
    swaps = _pending(facts)
    countable = swaps and _sum(swap.records for swap in swaps.values()) is not None
    if not countable or not _is_certain(_compaction(facts, surveys, swaps), swaps):
        return ()
    replaced = _replaced(facts, swaps)
    return tuple(
        survey.segment.base_offset
        for survey in surveys
        if survey.segment.log in replaced and survey.recovered is None
    )


def _pending(facts: PartitionFacts) -> Mapping[int, SwapLog]:
    """Return the ``.swap`` logs that the next start takes, by base offset."""
    return {
        segment.base_offset: facts.swaps[segment.base_offset]
        for segment in pending_swaps(facts.partition)
        if segment.base_offset in facts.swaps
    }


def _compaction(
    facts: PartitionFacts, surveys: Sequence[Survey], swaps: Mapping[int, SwapLog]
) -> Compaction:
    gaps, cleaned = traces_of_compaction(surveys)
    cleaned = cleaned or any(swap.cleaned for swap in swaps.values())
    return compaction_evidence(facts.compacted, gaps=gaps, cleaned=cleaned)


def _is_certain(compaction: Compaction, swaps: Mapping[int, SwapLog]) -> bool:
    dense = all(swap.dense for swap in swaps.values())
    return compaction is Compaction.EXCLUDED or (compaction is Compaction.UNLIKELY and dense)


def _replaced(facts: PartitionFacts, swaps: Mapping[int, SwapLog]) -> tuple[AnyPath, ...]:
    """Return the files that ``swaps`` replace; none if an end is unknown."""
    ends = facts.swap_ends
    if any(base not in ends for base in swaps):
        return ()
    return resolve_swaps(facts.partition, lambda swap: ends[swap.base_offset]).replaced


def _lost_records(
    facts: PartitionFacts, surveys: Sequence[Survey], swaps: Mapping[int, SwapLog]
) -> Span:
    """Return the records of replaced segments that ``swaps`` do not hold."""
    ends = facts.swap_ends
    replaced = _replaced(facts, swaps)
    replaced_segments = [segment for segment in facts.partition.segments if segment.log in replaced]
    known = [survey for survey in surveys if survey.segment.log in replaced]
    end = max(known_ends(known).values(), default=None)
    if end is None:
        return Span()
    swap_end = max(ends[base] for base in swaps)
    count = max(end - swap_end, 0)
    replaced_count = _sum(survey.counted for survey in known)
    swap_count = _sum(swap.records for swap in swaps.values())
    if (
        replaced_count is not None
        and swap_count is not None
        and len(known) == len(replaced_segments)
    ):
        count = max(count, replaced_count - swap_count)
    first = swap_end if end > swap_end else known[0].segment.base_offset
    return Span(count, first, end - 1) if count else Span()


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of ``counts``, None if one is unknown."""
    known = list(counts)
    found = [count for count in known if count is not None]
    return sum(found) if len(found) == len(known) else None
