"""The records of a current log that the future log in its place does not hold.

Spec: ``LogManager.replaceCurrentWithFutureLog``.
"""

from __future__ import annotations

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.recovery import Span


def lost_to_successor(facts: PartitionFacts, log_end: int | None) -> Span:
    """Return the records that go with the log; empty if there are none, or an end is unknown.

    ``log_end`` is the log end offset. The count is that of the offsets: an upper bound for a
    compacted log.
    """
    end = None if facts.successor is None else facts.successor.end
    if end is None or log_end is None or log_end <= end:
        return Span()
    bases = [segment.base_offset for segment in facts.partition.segments]
    first = max([end, facts.start_offset, *bases[:1]])
    return Span(log_end - first, first, log_end - 1) if first < log_end else Span()
