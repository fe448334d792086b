"""lost_segments(): the offsets of a partition whose segments are gone, without a deletion.

The findings of the quick pass decide, so that retention, ``DeleteRecords`` and remote storage
explain what they explain there. They are asked for only where the small files give a reason to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.checks.missing_offsets import SEGMENT_MISSING
from kdump.audit.checks.segments import FIRST_SEGMENT_MISSING, SEGMENTS_GONE
from kdump.audit.facts.missing_start import missing_start
from kdump.audit.facts.small_files import PartitionFacts, log_start_line
from kdump.audit.findings import Finding
from kdump.audit.run.gather import gather
from kdump.audit.run.prescan import quick_verdict
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target

_CODES: Final = frozenset({FIRST_SEGMENT_MISSING, SEGMENTS_GONE, SEGMENT_MISSING})


def lost_segments(target: Target, context: Context) -> Iterator[tuple[Finding, int, int]]:
    """Yield the findings of lost segments with their first and last offset."""
    partition, segments = target.partition, target.segments
    if partition is None:
        return
    start = log_start_line(target.directory, partition.name) or 0
    if segments and segments[0].base_offset <= start and not partition.orphans:
        return
    facts = gather(target, context)
    if facts is None or not _may_lack_segments(facts):
        return
    for finding in quick_verdict(target, context, careful=True).findings:
        offsets = finding.offsets
        if finding.code in _CODES and offsets is not None and offsets.last is not None:
            yield finding, offsets.first, offsets.last


def _may_lack_segments(facts: PartitionFacts) -> bool:
    if not facts.partition.segments or missing_start(facts) is not None:
        return True
    # Where the topic's settings are known, the gaps between batches decide.
    return facts.settings.compacted is None and bool(facts.partition.orphans)
