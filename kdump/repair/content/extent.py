"""The first offset and the end offset of a partition before a repair.

Spec: ``UnifiedLog.logStartOffset``, ``logEndOffset``; KOD 5.
"""

from __future__ import annotations

from kdump.audit.evidence import known_ends
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.verdicts.verdict import Verdict


def log_start_of(facts: PartitionFacts) -> int | None:
    """Return the log start offset: the checkpoint's, or the first base offset if that is higher."""
    segments = facts.partition.segments
    return max(facts.log_start or 0, segments[0].base_offset) if segments else facts.log_start


def log_end_of(verdict: Verdict) -> int | None:
    """Return the offset after the last record, None if that is uncertain."""
    if not verdict.target.segments:
        return None
    return known_ends(verdict.surveys).get(verdict.target.segments[-1].base_offset)
