"""The offsets up to which ``kafka-delete-records.sh`` frees a number of bytes.

The oldest segments of all partitions go first, each partition up to the base of a segment: a check
of retention deletes the segments below the log start offset. The active segment stays, and so does
what lies after the high watermark, which brokers refuse to delete.

Spec: ``DeleteRecordsCommand``, ``ReplicaManager.deleteRecords``,
``UnifiedLog.deleteLogStartOffsetBreachedSegments``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kdump.audit.sizes.measure import OldSegment, PartitionSpace, aged
from kdump.commands.space.shorter import LEAST_MS, may_be_shorter
from kdump.values import frozen


@frozen
class DeletedOffsets:
    """The offset of each partition before which records are deleted, by topic and number.

    This frees ``bytes`` of ``segments`` on this node, with ``offsets`` offsets. ``newest_ms`` is
    the time of the newest record that goes.
    """

    before: Mapping[tuple[str, int], int]
    bytes: int
    segments: int
    offsets: int
    newest_ms: int

    @property
    def json(self) -> dict[str, Any]:
        """The content of the file that the tool of Kafka takes."""
        return {
            "partitions": [
                {"topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in sorted(self.before.items())
            ],
            "version": 1,
        }


def deleted_offsets(
    partitions: Iterable[PartitionSpace], wanted_bytes: int, now_ms: int
) -> DeletedOffsets | None:
    """Return the offsets that free ``wanted_bytes`` or more, beyond what is due.

    It frees less if no more is old enough, and is None if nothing is.
    """
    oldest = sorted(
        (
            (time_ms, (found.name.topic, found.name.partition), segment)
            for found in partitions
            if found.name is not None and may_be_shorter(found)
            for time_ms, segment in aged(_sealed(found))
            if time_ms <= now_ms - LEAST_MS
        ),
        key=lambda each: (each[0], each[1], each[2].base_offset),
    )
    before: dict[tuple[str, int], int] = {}
    freed = segments = offsets = newest_ms = 0
    for time_ms, name, segment in oldest:
        if freed >= wanted_bytes:
            break
        before[name] = segment.end_offset
        freed += segment.bytes
        segments += 1
        offsets += segment.offsets
        newest_ms = time_ms
    return DeletedOffsets(before, freed, segments, offsets, newest_ms) if before else None


def _sealed(found: PartitionSpace) -> Iterable[OldSegment]:
    """Return the segments that are not due, and before the active one."""
    return found.old[0 if found.due is None else found.due.count : found.segments - 1]
