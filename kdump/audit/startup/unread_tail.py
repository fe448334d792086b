"""The number of records that the damage at the end of a log may have held.

The log alone does not show this number. Other files give an upper bound, or it is unbounded.

Spec: ``LogManager.shutdown``, which flushes each log and checkpoints its end; KOD 1 and 5.
"""

from __future__ import annotations

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.recovery import Span, Tail


def tail_records(tail: Tail, next_base: int | None, facts: PartitionFacts | None) -> Span:
    """Return the records that are lost with ``tail``.

    Upper bounds are the next segment's base offset, the header of the damaged batch, and the
    recovery point of a clean stop. The high watermark, and the recovery point of another stop, are
    older than the log end offset: they are lower bounds. No evidence shows that a torn batch above
    the lower bound was acknowledged: it does not count as loss.
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
    """Return the offset up to which checkpoints show that there were records, 0 if they do not."""
    if facts is None or not facts.stopped or not facts.is_current:
        return 0
    return max(facts.recovery_point or 0, facts.high_watermark or 0)


def _span_up_to(first: int, end: int) -> Span:
    return Span(end - first, first, end - 1) if end > first else Span()
