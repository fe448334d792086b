"""What the cleaner would clean of a compacted log, and what keeps it from that.

The cleaner goes from the first dirty offset, that of its checkpoint, to the first segment that it
must leave: the active one, one with an offset from the last stable offset on, or one that has a
record younger than ``min.compaction.lag.ms``. It takes the log if the dirty part of these bytes
exceeds ``min.cleanable.dirty.ratio``, or ``max.compaction.lag.ms`` has passed. Whole segments
count: one with the first dirty offset inside is in both parts.

Spec: ``LogCleanerManager.cleanableOffsets``, ``maxCompactionDelay``, ``calculateCleanableBytes``
and ``grabFilthiestCompactedLog``, ``LogToClean``, ``LogSegments.nonActiveLogSegmentsFrom``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Final

from kdump.audit.facts.retention import AgedSegment
from kdump.values import frozen

#: An offset, or a time in ms, after all others: ``max.compaction.lag.ms`` by default.
NEVER: Final = 2**63 - 1


class Wait(Enum):
    """Why the cleaner does not clean a log, or more of it; READY if it takes it in its turn.

    MOVE is a move to another log directory, CLEAN a log of which nothing is dirty, ACTIVE one of
    which only the active segment is.
    """

    READY = "cleaner"
    CLEANER_OFF = "cleaner off"
    MOVE = "move"
    HIGH_WATERMARK = "high watermark"
    TRANSACTION = "open txn"
    LAG = "min lag"
    RATIO = "dirty ratio"
    ACTIVE = "active segment"
    CLEAN = "clean"


@frozen
class CompactionConfigs:
    """The configs of a compacted topic that the cleaner goes by; times are in ms."""

    min_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    delete_retention_ms: int
    cleaner: bool


@frozen
class CleanableLog:
    """A log as the cleaner sees it: its bytes are sizes of ``.log`` files.

    It is cleaned from ``first_dirty`` to the segment with base offset ``before``. ``clean_bytes``
    are of the segments that begin below, ``dirty_bytes`` of those in between, ``later_bytes`` of
    those from ``before`` on, which ``bound`` keeps from the cleaner. ``forced`` says that
    ``max.compaction.lag.ms`` has passed. ``ready_ms`` is the time from which on it is ready by
    these configs, at the latest; None if it is not ready or the time is unknown.
    """

    wait: Wait
    first_dirty: int
    before: int
    clean_bytes: int
    dirty_bytes: int
    later_bytes: int
    bound: Wait
    forced: bool = False
    ready_ms: int | None = None

    @property
    def ratio(self) -> float:
        """The dirty part of the bytes that the cleaner would read, 0 without any."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def cleanable_log(
    segments: Sequence[AgedSegment],
    configs: CompactionConfigs,
    *,
    log_start: int,
    cleaned: int | None,
    log_end: int | None,
    high_watermark: int | None,
    unstable: int | None,
    moving: bool,
    first_ms: Callable[[int], int | None],
    now_ms: int,
) -> CleanableLog | None:
    """Return what the cleaner makes of ``segments``, which ascend; None if that is unknown.

    ``cleaned`` is the line of the cleaner's checkpoint, None without one, and ``log_end`` the log
    end offset, which decides only if that line is beyond the base of the last segment.
    ``high_watermark`` and ``unstable``, the first offset of an open transaction, are ``NEVER``
    where nothing is below that base. ``first_ms`` returns the largest timestamp of the first batch
    of a segment by its number, -1 without one; it may read the file. What is None is unknown.
    """
    log = _Log(segments)
    start = max(log_start, log.bases[0])
    first_dirty = start if cleaned is None else max(cleaned, start)
    if cleaned is not None and cleaned > log.active:
        if log_end is None:
            return None
        first_dirty = start if cleaned > log_end else first_dirty
    dirty = log.dirty(first_dirty)
    lagging = log.first_within(dirty, now_ms - max(configs.min_lag_ms, 0), configs.min_lag_ms > 0)
    bounds = [(log.active, Wait.ACTIVE)]
    for offset, wait in (
        (high_watermark, Wait.HIGH_WATERMARK),
        (unstable, Wait.TRANSACTION),
        (lagging, Wait.LAG),
    ):
        if offset is None and dirty:
            return None
        if offset is not None and offset < log.active:
            bounds.append((offset, wait))
    forced = log.is_forced(dirty, configs.max_lag_ms, first_ms, now_ms)
    limit, bound = min(bounds, key=lambda each: each[0])
    before, clean_bytes, dirty_bytes = log.parts(first_dirty, limit)
    found = CleanableLog(
        Wait.READY, first_dirty, before, clean_bytes, dirty_bytes, log.bytes_from(before), bound
    )
    if forced is None and dirty_bytes and found.ratio <= configs.min_ratio:
        return None
    found = replace(found, forced=bool(forced))
    if not configs.cleaner:
        return replace(found, wait=Wait.CLEANER_OFF)
    if moving:
        return replace(found, wait=Wait.MOVE)
    if _is_taken(found, configs):
        return found
    # What the log would have up to its active segment.
    most = replace(found, dirty_bytes=log.parts(first_dirty, log.active)[2])
    if _is_taken(most, configs):
        return replace(found, wait=bound)
    if most.dirty_bytes:
        return replace(found, wait=Wait.RATIO)
    return replace(found, wait=Wait.ACTIVE if segments[-1].log_bytes else Wait.CLEAN)


def _is_taken(log: CleanableLog, configs: CompactionConfigs) -> bool:
    """Return whether the cleaner takes a log, in its turn."""
    return log.ratio > configs.min_ratio or (log.forced and log.dirty_bytes > 0)


class _Log:
    """The segments of a log, by their base offsets."""

    def __init__(self, segments: Sequence[AgedSegment]) -> None:
        self._segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = self.bases[-1]

    def dirty(self, first_dirty: int) -> range:
        """Return the numbers of the segments with dirty offsets, but for the active one."""
        if first_dirty >= self.active:
            return range(0)
        return range(max(bisect_right(self.bases, first_dirty) - 1, 0), len(self.bases) - 1)

    def first_within(self, numbers: range, since_ms: int, asked: bool) -> int | None:
        """Return the base of the first segment with a record after a time, None if unknown."""
        for number in numbers if asked else ():
            largest = self._segments[number].largest_ms
            if largest is None:
                return None
            if largest > since_ms:
                return self.bases[number]
        return NEVER

    def is_forced(
        self, numbers: range, max_lag_ms: int, first_ms: Callable[[int], int | None], now_ms: int
    ) -> bool | None:
        """Return whether a dirty segment is older than a time, None if that is unknown."""
        until_ms = now_ms - max(max_lag_ms, 0)
        if until_ms <= 0:
            return False
        times = [first_ms(number) for number in numbers]
        if any(time_ms is not None and 0 < time_ms < until_ms for time_ms in times):
            return True
        return None if None in times else False

    def parts(self, first_dirty: int, limit: int) -> tuple[int, int, int]:
        """Return the base that ends the cleaning, and the bytes of the clean and dirty segments."""
        dirty = self.dirty(max(first_dirty, limit))
        end = dirty.start if dirty else len(self.bases) - 1
        before = self.bases[end]
        clean = bisect_left(self.bases, first_dirty)
        begin = end if first_dirty >= before else max(bisect_right(self.bases, first_dirty) - 1, 0)
        return before, self._bytes(0, clean), self._bytes(begin, end)

    def bytes_from(self, base: int) -> int:
        """Return the bytes of the segments from a base offset on."""
        return self._bytes(bisect_left(self.bases, base), len(self.bases))

    def _bytes(self, start: int, stop: int) -> int:
        return sum(segment.log_bytes for segment in self._segments[start:stop])
