"""From where to where the log of a partition goes, as far as that is known before a repair.

Spec: ``UnifiedLog.logStartOffset``, ``logEndOffset``; KOD 5. It must never guess an end.
"""

from __future__ import annotations

from kdump.audit.case import known_ends
from kdump.audit.facts import PartitionFacts
from kdump.audit.judged import Judged


def log_start_of(facts: PartitionFacts) -> int | None:
    """Where a broker lets it begin: at its checkpoint, or at the first segment if that is later."""
    segments = facts.partition.segments
    return max(facts.log_start or 0, segments[0].base_offset) if segments else facts.log_start


def log_end_of(judged: Judged) -> int | None:
    """The offset behind its last record, None where that is not certain."""
    if not judged.group.segments:
        return None
    return known_ends(judged.surveys).get(judged.group.segments[-1].base_offset)
