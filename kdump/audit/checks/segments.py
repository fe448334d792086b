"""Checks of segments in a row: retention by timestamps, preallocated tails.

Spec: ``UnifiedLog.deleteRetentionMsBreachedSegments``, ``LogSegment.readNextOffset``,
``AbstractIndex``, KIP-937; KOD 9, checks 31 and 37.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.findings import Finding, Offsets, judged
from kdump.audit.survey.index_promises import IndexFacts
from kdump.audit.survey.survey import Survey

#: What brokers since 4.0 accept as ``message.timestamp.after.max.ms`` by default: clocks differ.
_TOLERANCE_MS: Final = 3_600_000


def check_wiped(facts: PartitionFacts, log_end: int | None) -> Iterator[Finding]:
    """Judge a partition without a segment, which ends at ``log_end``, by what checkpoints knew."""
    if facts.partition.segments or log_end is None:
        return
    known = max(facts.recovery_point or 0, facts.high_watermark or 0)
    if known > log_end:
        yield judged(
            codes.SEGMENTS_GONE,
            facts.partition.path,
            f"segments up to offset {known}, by its checkpoints",
            "none",
            offsets=Offsets(log_end, known - 1),
        )


def check_future_timestamps(
    newest: Sequence[tuple[Path, int]], settings: TopicSettings, now_ms: int
) -> Iterator[Finding]:
    """Judge timestamps that lie ahead, and whether retention by time waits for them.

    ``newest`` has each segment's log and largest timestamp (-1 for none), ascending. The last
    segment is due no sooner than it is rolled.
    """
    future = [number for number, (_, stamp) in enumerate(newest) if stamp > now_ms + _TOLERANCE_MS]
    if not future:
        return
    path, stamp = newest[future[0]]
    due = 0
    if settings.retention_ms is not None and settings.retention_ms >= 0:
        due = sum(
            0 <= behind < now_ms - settings.retention_ms for _, behind in newest[future[0] + 1 : -1]
        )
    yield judged(
        codes.TIMESTAMPS_HOLD_RETENTION if due else codes.TIMESTAMPS_FUTURE,
        path,
        f"no timestamp above {now_ms}, the present",
        f"{stamp}" + (f", before {due} segments that are due" if due else ""),
        repeats=len(future) - 1,
    )


def check_clean_stop(facts: PartitionFacts, last: Survey) -> Iterator[Finding]:
    """Judge the last segment's indexes against the clean marker: a clean stop trims them.

    An index has no more entries than its log has batches: what is beyond is padding.
    """
    if not facts.stopped_cleanly or not last.complete or last.gaps:
        return
    yield from _padded(codes.INDEX_PADDED_CLEAN, last.index, last.batches)
    yield from _padded(codes.TIMEINDEX_PADDED_CLEAN, last.time_index, last.batches)


def _padded(code: FindingCode, index: IndexFacts | None, batches: int) -> Iterator[Finding]:
    if index is not None and index.size // index.entry_bytes > batches:
        yield judged(
            code,
            index.path,
            f"at most {batches} entries, one for each batch",
            f"room for {index.size // index.entry_bytes}",
        )
