"""Sealed segments that are gone before retention could delete them.

These are the first segments of a log. Holes between segments show in the log itself, and a follower
may truncate the end of its log: these are not looked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from kdump.audit.checks.changes import SEGMENT_REMOVED
from kdump.audit.facts.missing_start import missing_start, retention_deletes
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.format.lines.text import time_text
from kdump.history.records import SegmentRecord
from kdump.storage.names import FileKind, format_file_name
from kdump.values import frozen


@frozen
class RemovedSegments:
    """Segments, by their base offsets, that something else than a broker removed."""

    base_offsets: tuple[int, ...]
    finding: Finding


def removed_segments(
    facts: PartitionFacts, gone: Sequence[SegmentRecord], log_bytes: int, now_ms: int
) -> RemovedSegments | None:
    """Return those of the segments ``gone`` that no broker can have deleted; None without any.

    ``gone`` ascend by base offset. ``log_bytes`` is the size of what is left.
    """
    missing = missing_start(facts)
    if missing is None:
        return None
    records = [
        record
        for record in gone
        if record.sealed and missing.first <= record.base_offset <= missing.last
    ]
    readings = [record.reading for record in records if record.reading is not None]
    if not readings:
        return None
    stamps = [reading.max_timestamp for reading in readings]
    youngest_ms = max((stamp for stamp in stamps if stamp is not None and stamp >= 0), default=None)
    if retention_deletes(facts, missing, log_bytes, now_ms, youngest_ms) is not False:
        return None
    bases = tuple(record.base_offset for record in records)
    last_read_ms = max(reading.read_ms for reading in readings)
    finding = file_finding(
        SEGMENT_REMOVED,
        facts.partition.path / format_file_name(FileKind.LOG, bases[0]),
        f"{len(bases):,} sealed segments from offset {bases[0]} on, last read at "
        f"{time_text(last_read_ms)}",
        f"a log that begins at offset {missing.last + 1}",
        offsets=Offsets(bases[0], missing.last),
    )
    return RemovedSegments(bases, finding)
