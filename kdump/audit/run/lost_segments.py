"""lost_segments(): the offsets of a partition whose segments are gone, without a deletion.

Of a metadata log they are its last offsets too, whatever took them: no checkpoint has its end. The
findings of the quick pass decide, so that retention, ``DeleteRecords`` and remote storage
explain what they explain there. They are asked for only where the small files give a reason to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.checks.metadata import METADATA_END_BEHIND, METADATA_END_MISSING
from kdump.audit.checks.missing_offsets import SEGMENT_MISSING
from kdump.audit.checks.segments import FIRST_SEGMENT_MISSING, SEGMENTS_GONE
from kdump.audit.facts.missing_start import may_lack_segments, missing_start
from kdump.audit.facts.small_files import PartitionFacts, log_start_line
from kdump.audit.findings import Finding
from kdump.audit.run.gather import gather
from kdump.audit.run.prescan import quick_verdict
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.logdir import is_metadata_log

_CODES: Final = frozenset(
    {
        FIRST_SEGMENT_MISSING,
        SEGMENTS_GONE,
        SEGMENT_MISSING,
        METADATA_END_MISSING,
        METADATA_END_BEHIND,
    }
)


def lost_segments(target: Target, context: Context) -> Iterator[tuple[Finding, int, int]]:
    """Yield the findings of lost segments with their first and last offset."""
    partition = target.partition
    if partition is None:
        return
    if not may_lack_segments(partition, log_start_line(target.directory, partition.name) or 0):
        return
    facts = gather(target, context)
    if facts is None or not _has_reason(facts):
        return
    for finding in quick_verdict(target, context, careful=True).findings:
        offsets = finding.offsets
        if finding.code in _CODES and offsets is not None and offsets.last is not None:
            yield finding, offsets.first, offsets.last


def _has_reason(facts: PartitionFacts) -> bool:
    partition = facts.partition
    if not partition.segments or is_metadata_log(partition) or missing_start(facts) is not None:
        return True
    # Where the topic's settings are known, the gaps between batches decide.
    return facts.settings.compacted is None and bool(partition.orphans)
