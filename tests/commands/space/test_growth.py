"""How fast logs grow: steady state, a new topic, a rate that doubles."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.sizes.growth import (
    DAY_MS,
    HORIZONS,
    WEEK_MS,
    GrownSegment,
    Growth,
    growth_of,
)

NOW: Final = 1_000 * DAY_MS
WEEKLY: Final = RetentionConfigs(True, False, WEEK_MS, -1)
FOREVER: Final = replace(WEEKLY, retention_ms=-1)
MIB: Final = 1 << 20


def written(
    days: float, per_day: int, *, until: float = 0, bytes_a_day: int = MIB
) -> list[GrownSegment]:
    """Segments of a log that began so many days ago, in order; ``until`` days ago it ended."""
    count = round((days - until) * per_day)
    times = [round(NOW - DAY_MS * (days - (number + 1) / per_day)) for number in range(count)]
    return [GrownSegment(bytes_a_day // per_day, time, time) for time in times]


def grown(growth: Growth, days: float, *, week: bool = False) -> float:
    """How many MiB more there are after some days."""
    gained = growth.gained_week if week else growth.gained_day
    return gained[HORIZONS.index(round(days * DAY_MS))] / MIB


def test_in_steady_state_nothing_is_full() -> None:
    growth = growth_of(written(7, 24), WEEKLY, NOW - WEEK_MS, NOW)
    assert growth.day == pytest.approx(MIB, rel=0.01)
    assert growth.week == pytest.approx(7 * MIB, rel=0.01)
    assert all(abs(grown(growth, days)) < 0.1 for days in (1, 2, 5, 7, 14, 365))
    assert growth.full_ms(MIB) == (None, None)


@pytest.mark.parametrize("per_day", [1, 4, 100])
def test_a_new_topic_grows_until_retention_begins(per_day: int) -> None:
    growth = growth_of(written(2, per_day), WEEKLY, NOW - 2 * DAY_MS, NOW)
    assert grown(growth, 3) == pytest.approx(3, abs=0.1)
    # After a week it has what comes in a week. The last segment counts as one that stays.
    assert grown(growth, 10) == pytest.approx(5, abs=1 / per_day + 0.1)
    assert grown(growth, 365) == grown(growth, 10)
    earliest, latest = growth.full_ms(3 * MIB)
    assert earliest == pytest.approx(3 * DAY_MS, rel=0.05)
    assert latest is None  # the week had less a day, and a week of that is less than there is room
    assert growth.full_ms(20 * MIB) == (None, None)


def test_a_rate_that_doubles() -> None:
    """Double the rate since a day: a week later there is twice as much."""
    segments = [*written(7, 24, until=1), *written(1, 24, bytes_a_day=2 * MIB)]
    growth = growth_of(segments, WEEKLY, NOW - WEEK_MS, NOW)
    assert growth.day == pytest.approx(2 * MIB, rel=0.01)
    assert grown(growth, 1) == pytest.approx(1, abs=0.1)
    assert grown(growth, 6) == pytest.approx(6, abs=0.1)
    assert grown(growth, 14) == pytest.approx(6, abs=0.2)
    earliest, latest = growth.full_ms(3 * MIB)
    assert earliest == pytest.approx(3 * DAY_MS, rel=0.05)
    assert latest is None


def test_without_retention_it_goes_on() -> None:
    growth = growth_of(written(30, 4), FOREVER, NOW - 30 * DAY_MS, NOW)
    earliest, latest = growth.full_ms(100 * MIB)
    assert earliest == pytest.approx(100 * DAY_MS, rel=0.05)
    assert latest == pytest.approx(100 * DAY_MS, rel=0.05)
    assert growth_of(written(30, 4), None, None, NOW).full_ms(100 * MIB)[0] is not None


def test_retention_by_size_ends_it() -> None:
    sized = replace(FOREVER, retention_bytes=35 * MIB)
    growth = growth_of(written(30, 4), sized, NOW - 30 * DAY_MS, NOW)
    assert grown(growth, 3) == pytest.approx(3, rel=0.05)
    assert grown(growth, 365) == 5
    assert growth.full_ms(10 * MIB) == (None, None)


def test_what_is_due_goes_first() -> None:
    growth = growth_of(written(20, 4), WEEKLY, NOW - 20 * DAY_MS, NOW)
    assert grown(growth, 0) == pytest.approx(-13, abs=0.3)


def test_compacted_logs_count_as_not_growing() -> None:
    compacted = replace(WEEKLY, delete=False, compact=True)
    assert growth_of(written(30, 4), compacted, None, NOW) == Growth()


def test_an_empty_log_and_odd_times() -> None:
    assert growth_of([], WEEKLY, None, NOW) == Growth()
    odd = [GrownSegment(100, NOW + DAY_MS, NOW), GrownSegment(100, NOW - DAY_MS, -1)]
    growth = growth_of(odd, WEEKLY, NOW + 5 * DAY_MS, NOW)
    assert growth.day >= 0
    assert growth.week >= 0
