"""The evidence on a partition before a repair: that all was read, and its end offset.

Spec: ``UnifiedLog.logEndOffset``; KOD 5.
"""

from __future__ import annotations

from kdump.audit.evidence import known_ends
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError, UsageError


def partition_facts(verdict: Verdict) -> PartitionFacts:
    """Return the facts of a partition.

    Raises UsageError for a lone segment, SourceError for a directory that could not be listed.
    """
    target, facts = verdict.target, verdict.facts
    if target.error is not None:
        raise target.error
    if facts is None:
        raise UsageError(f"{target.path}: expected a partition directory, found a segment's file")
    return facts


def check_whole(verdict: Verdict) -> None:
    """Raise SourceError unless all logs of a partition were read to their ends."""
    surveys = {survey.segment.log: survey for survey in verdict.surveys}
    for segment in verdict.target.segments:
        survey = surveys.get(segment.log)
        if survey is None or not survey.complete:
            unread = () if survey is None else survey.unread
            reasons = [failure.text for failure in unread if failure.path == segment.log]
            raise SourceError(segment.log, *(reasons or [f"{segment.log}: could not be read"]))


def log_end_of(verdict: Verdict) -> int | None:
    """Return the offset after the last record, None if that is uncertain."""
    if not verdict.target.segments:
        return None
    return known_ends(verdict.surveys).get(verdict.target.segments[-1].base_offset)
