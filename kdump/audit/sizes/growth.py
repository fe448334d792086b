"""How fast logs grow, and when their file system is full.

The bytes of a segment came between the last write to the one before and its own last write. With
this rate on, a log gains what comes, and loses each segment once retention deletes it; after
``retention.ms`` it has as much as the rate gives in that time, and grows no more. The rates of the
last day and of the last week give a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kdump.audit.facts.retention import RetentionConfigs
from kdump.values import frozen

_HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * _HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
#: The times ahead for which growth is computed; it is linear in between.
HORIZONS: Final = (
    *(hours * _HOUR_MS for hours in (0, 1, 2, 4, 8, 16)),
    *(days * DAY_MS for days in (1, 2, 3, 4, 5, 6, 7, 10, 14, 21, 30, 45, 60, 90, 180, 365)),
)


@frozen
class Growth:
    """What comes and goes of a log, in bytes.

    ``day`` and ``week`` came in the last day and week. ``gained_day`` has for each of ``HORIZONS``
    how much more the log has then at the rate of the day, ``gained_week`` at that of the week.
    """

    day: float = 0
    week: float = 0
    gained_day: tuple[float, ...] = (0,) * len(HORIZONS)
    gained_week: tuple[float, ...] = (0,) * len(HORIZONS)

    def __add__(self, other: Growth) -> Growth:
        return Growth(
            self.day + other.day,
            self.week + other.week,
            tuple(map(sum, zip(self.gained_day, other.gained_day, strict=True))),
            tuple(map(sum, zip(self.gained_week, other.gained_week, strict=True))),
        )

    def full_ms(self, free_bytes: int) -> tuple[int | None, int | None]:
        """Return in how many ms ``free_bytes`` are used up: at the earliest, and at the latest.

        None stands for not within a year.
        """
        times = [_reached(gained, free_bytes) for gained in (self.gained_day, self.gained_week)]
        known = [time for time in times if time is not None]
        return min(known, default=None), None if None in times else max(known)


@frozen
class GrownSegment:
    """A segment: the bytes of its files, its last write in ms, its largest timestamp if known."""

    bytes: int
    written_ms: int
    largest_ms: int | None


def growth_of(
    segments: Sequence[GrownSegment],
    configs: RetentionConfigs | None,
    first_ms: int | None,
    now_ms: int,
) -> Growth:
    """Return the growth of a log up to ``now_ms``, the last time at which its broker wrote.

    ``first_ms`` is the time of its first record. A log that is compacted grows by what its keys
    are, which no rate says: it counts as 0. Without ``configs`` nothing is deleted.
    """
    if configs is not None and configs.compact:
        return Growth()
    day = _came(segments, first_ms, now_ms - DAY_MS, now_ms)
    week = _came(segments, first_ms, now_ms - WEEK_MS, now_ms)
    limit_ms = -1 if configs is None or not configs.delete else configs.retention_ms
    limit_bytes = -1 if configs is None or not configs.delete else configs.retention_bytes
    left = limit_bytes - sum(segment.bytes for segment in segments)
    goes: list[tuple[int, int]] = []  # times ahead at which segments go, and their bytes
    if limit_ms >= 0:
        ahead = 0
        for segment in segments[:-1]:
            if segment.largest_ms is None:
                break
            ahead = max(ahead, segment.largest_ms + limit_ms - now_ms)
            goes.append((ahead, segment.bytes))

    def gained(rate: float) -> tuple[float, ...]:
        result = []
        for horizon in HORIZONS:
            came = rate * (horizon if limit_ms < 0 else min(horizon, max(limit_ms, 0)))
            gone = sum(size for ahead, size in goes if ahead <= horizon)
            more = came - gone
            result.append(more if limit_bytes < 0 else min(more, max(left, 0)))
        return tuple(result)

    return Growth(day, week, gained(day / DAY_MS), gained(week / WEEK_MS))


def _came(
    segments: Sequence[GrownSegment], first_ms: int | None, since_ms: int, now_ms: int
) -> float:
    """Return the bytes that came between two times."""
    came = 0.0
    begin = first_ms
    for segment in segments:
        end = segment.written_ms
        if begin is None or begin >= end:
            begin = end
        if end > since_ms:
            inside = min(end, now_ms) - max(begin, since_ms)
            came += segment.bytes * (inside / (end - begin) if end > begin else 1)
        begin = end
    return max(came, 0.0)


def _reached(gained: Sequence[float], wanted: int) -> int | None:
    """Return when a gain reaches ``wanted``, None if it does not."""
    for (before_ms, before), (after_ms, after) in pairwise(zip(HORIZONS, gained, strict=True)):
        if before >= wanted:
            return before_ms
        if after >= wanted:
            return round(before_ms + (after_ms - before_ms) * (wanted - before) / (after - before))
    return None
