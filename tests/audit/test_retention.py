"""What retention deletes of a log, as its source says, and what holds the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from kdump.audit.facts.retention import (
    AgedSegment,
    DueSegments,
    Hold,
    RetentionConfigs,
    due_segments,
)

HOUR: Final = 3_600_000
NOW: Final = 1_000 * HOUR
DELETE: Final = RetentionConfigs(True, False, 24 * HOUR, -1)
KEEP: Final = replace(DELETE, retention_ms=-1)
SIZED: Final = replace(KEEP, retention_bytes=0)
COMPACT: Final = replace(KEEP, delete=False, compact=True)


def due(
    configs: RetentionConfigs | None, *hours: int, sizes: int = 100, **more: Any
) -> DueSegments:
    """Of a log of segments with ten offsets, whose newest records are so many hours old."""
    segments = [
        AgedSegment(10 * number, sizes, NOW - age * HOUR) for number, age in enumerate(hours)
    ]
    end = 10 * len(hours)
    facts: dict[str, Any] = {"log_start": 0, "high_watermark": end, "log_end": end, **more}
    return due_segments(segments, configs, now_ms=NOW, **facts)


@pytest.mark.parametrize(
    ("configs", "hours", "facts", "count", "hold"),
    [
        (DELETE, (40, 30, 3), {}, 2, Hold.AGE),
        (DELETE, (24, 30, 3), {}, 0, Hold.AGE),  # exactly as old as the limit
        (DELETE, (40, -5, 40, 3), {}, 1, Hold.FUTURE),
        (DELETE, (40, 30, 26), {}, 3, None),  # the active segment too
        (DELETE, (40, 30, 26), {"high_watermark": 15}, 1, Hold.HIGH_WATERMARK),
        (DELETE, (40, 30, 26), {"high_watermark": 29}, 2, Hold.HIGH_WATERMARK),
        (KEEP, (40, 30, 26), {}, 0, Hold.NO_RETENTION),
        (KEEP, (40, 30, 26), {"log_start": 20}, 2, Hold.NO_RETENTION),
        (KEEP, (40, 30, 26), {"log_start": 30}, 2, Hold.NO_RETENTION),  # never the active one
        (KEEP, (40, 30, 26), {"log_start": 19}, 1, Hold.NO_RETENTION),
        (replace(KEEP, retention_bytes=250), (40, 30, 26), {}, 0, Hold.SIZE),
        (replace(KEEP, retention_bytes=200), (40, 30, 26), {}, 1, Hold.SIZE),
        (SIZED, (40, 30, 26), {}, 3, None),
        (SIZED, (40, 30, 26), {"log_start": 10}, 3, None),
        (replace(DELETE, retention_bytes=200), (1, 1, 1), {}, 1, Hold.AGE),
        (COMPACT, (40, 30), {}, 0, Hold.COMPACTION),
        (
            COMPACT,
            (40, 30),
            {"log_start": 10},
            1,
            Hold.COMPACTION,
        ),
        (replace(KEEP, delete=False), (40, 30), {}, 0, Hold.NO_RETENTION),
        (replace(DELETE, compact=True), (40, 30, 3), {}, 2, Hold.AGE),
        (replace(DELETE, compact=True, cleaner=False), (40, 3), {}, 0, Hold.CLEANER_OFF),
        (replace(DELETE, cleaner=False), (40, 3), {}, 1, Hold.AGE),
        (replace(DELETE, remote=True), (40, 30, 3), {"copied": 9}, 1, Hold.NOT_COPIED),
        (replace(DELETE, remote=True), (40, 30, 3), {"copied": 18}, 1, Hold.NOT_COPIED),
        (replace(DELETE, remote=True), (40, 30, 3), {"log_start": 20, "copied": -1}, 2, Hold.AGE),
        (replace(DELETE, remote=True), (40, 30, 3), {}, 0, Hold.UNKNOWN),
        (replace(SIZED, remote=True), (1, 1), {"copied": -1}, 0, Hold.NOT_COPIED),
        (SIZED, (40, 30), {"high_watermark": 5}, 0, Hold.HIGH_WATERMARK),
        (DELETE, (40, 30), {"high_watermark": None}, 0, Hold.UNKNOWN),
        (None, (40, 30), {}, 0, Hold.UNKNOWN),
        (None, (40, 30), {"log_start": 10}, 1, Hold.UNKNOWN),
    ],
)
def test_a_check(
    configs: RetentionConfigs | None,
    hours: tuple[int, ...],
    facts: dict[str, int],
    count: int,
    hold: Hold | None,
) -> None:
    found = due(configs, *hours, **facts)
    assert (found.count, found.hold, found.before) == (count, hold, 10 * count)


def test_an_empty_last_segment_stays() -> None:
    segments = [AgedSegment(0, 100, 0), AgedSegment(10, 0, 0)]
    facts: dict[str, Any] = {"log_start": 0, "high_watermark": 10, "log_end": 10}
    found = due_segments(segments, DELETE, now_ms=NOW, **facts)
    assert (found.count, found.hold) == (1, None)


def test_a_time_that_is_unknown_holds_the_segment() -> None:
    segments = [AgedSegment(0, 100, None), AgedSegment(10, 100, 0)]
    facts: dict[str, Any] = {"log_start": 0, "high_watermark": 20, "log_end": 20}
    found = due_segments(segments, DELETE, now_ms=NOW, **facts)
    assert (found.count, found.hold, found.until_ms) == (0, Hold.UNKNOWN, None)
    assert due_segments(segments, SIZED, now_ms=NOW, **facts).count == 2


def test_times_near_the_largest_number() -> None:
    segments = [AgedSegment(0, 100, 2**63 - 1)]
    facts: dict[str, Any] = {"log_start": 0, "high_watermark": 10, "log_end": 10}
    found = due_segments(segments, DELETE, now_ms=NOW, **facts)
    assert (found.hold, found.until_ms) == (Hold.FUTURE, 2**63 - 1)


def test_the_time_at_which_the_next_one_goes() -> None:
    """The limit has to be exceeded."""
    until = due(DELETE, 30, 20, 3).until_ms
    assert until == NOW + 4 * HOUR + 1
    segments = [AgedSegment(0, 100, NOW - 20 * HOUR), AgedSegment(10, 100, NOW)]
    facts: dict[str, Any] = {"log_start": 0, "high_watermark": 20, "log_end": 20}
    assert due_segments(segments, DELETE, now_ms=until - 1, **facts).count == 0
    assert due_segments(segments, DELETE, now_ms=until, **facts).count == 1
