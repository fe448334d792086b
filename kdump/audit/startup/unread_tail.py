"""How many records the damage at the end of a log may have held.

That nobody knows who has only the log: what is counted here is bounded by something else that was
written, or said to be unbounded.

Spec: ``LogManager.shutdown``, which flushes each log and checkpoints its end; KOD 1 and 5.
"""

from __future__ import annotations

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.recovery import Span, Tail


def tail_records(tail: Tail, next_base: int | None, facts: PartitionFacts | None) -> Span:
    """Return the records from ``tail`` on that are lost with it.

    A bound is the next segment's base offset, what the damaged batch's own header says, and the
    recovery point of a clean stop. High watermark and recovery point of another stop are older than
    the log's end: they say of some records that they were there, but not that these were all. Of a
    batch that was not written to its end nothing else says that anybody was told of it.
    """
    first = tail.first_offset
    if next_base is not None:
        return _span_up_to(first, next_base)
    checkpointed, end = _checkpointed_offset(facts), tail.end
    if facts is not None and facts.stopped_cleanly and facts.recovery_point is not None:
        end = max(end or 0, facts.recovery_point)
    if tail.torn and checkpointed <= first:
        return Span()
    if end is not None and end > first and end >= checkpointed:
        return _span_up_to(first, end)
    return Span(max(checkpointed - first, 0), first, unbounded=True)


def _checkpointed_offset(facts: PartitionFacts | None) -> int:
    """Return the offset up to which checkpoints say that there were records, 0 where they do not."""
    if facts is None or not facts.stopped or not facts.is_current:
        return 0
    return max(facts.recovery_point or 0, facts.high_watermark or 0)


def _span_up_to(first: int, end: int) -> Span:
    return Span(end - first, first, end - 1) if end > first else Span()
