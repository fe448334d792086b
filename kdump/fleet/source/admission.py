"""The bounds of a batch of a stream, in offsets or in bytes.

Spec: ``KafkaMicroBatchStream.rateLimit`` of ``spark-sql-kafka-0-10`` 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from kdump.audit.targets.target import log_bytes
from kdump.fleet.source.positions import Key
from kdump.fleet.source.sealed import SealedCopy
from kdump.storage.logdir import Segment
from kdump.values import frozen


@frozen
class Backlog:
    """The offsets of a partition that can be read, from ``first`` to before ``end``."""

    copy: SealedCopy
    first: int
    end: int


def ends_by_offsets(backlogs: Mapping[Key, Backlog], most: int) -> dict[Key, int]:
    """Return the end of each partition, so that there are about ``most`` offsets.

    Each gets a share by its backlog, and at least one offset.
    """
    total = sum(backlog.end - backlog.first for backlog in backlogs.values())
    if total <= most:
        return {key: backlog.end for key, backlog in backlogs.items()}
    ends = {}
    for key, backlog in backlogs.items():
        share = most * (backlog.end - backlog.first) / total
        ends[key] = min(backlog.first + (ceil(share) if share < 1 else int(share)), backlog.end)
    return ends


def ends_by_bytes(backlogs: Mapping[Key, Backlog], most: int) -> dict[Key, int]:
    """Return the end of each partition, so that there are at most ``most`` bytes of logs.

    Whole segments are read, the oldest of all partitions first; one of them in any case.
    """
    waiting = []
    for key, backlog in backlogs.items():
        segments = backlog.copy.segments(backlog.first, backlog.end)
        following = [*(segment.base_offset for segment in segments[1:]), backlog.end]
        written = 0
        for segment, end in zip(segments, following, strict=True):
            written = max(written, _written_ns(segment))
            waiting.append((written, key, min(end, backlog.end), log_bytes(segment)))
    ends = {key: backlog.first for key, backlog in backlogs.items()}
    total = 0
    for _, key, end, size in sorted(waiting):
        total += size
        if total > most and total > size:
            break
        ends[key] = end
    return ends


def _written_ns(segment: Segment) -> int:
    try:
        return segment.log.stat().st_mtime_ns
    except OSError:
        return 0
