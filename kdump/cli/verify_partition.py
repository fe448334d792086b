"""What a damaged partition means for people: what is lost, where consumers stop, what to choose.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
It must never name a command that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.audit.case import neighbours
from kdump.audit.findings import Offsets
from kdump.audit.forecast import Forecast
from kdump.audit.judge import Judged
from kdump.audit.survey import Gap
from kdump.cli.forecast_text import effect_text
from kdump.cli.units import count_text, period_text
from kdump.storage.walk import Reason

#: What stands behind the last batch of a log is no loss of records that anybody was told of.
_TAILS = (Reason.PREALLOCATED, Reason.TORN_TAIL)


def partition_lines(judged: Judged, forecast: Forecast | None) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts that stand below the segments of one partition."""
    lost = list(_lost(judged))
    if lost:
        ranges = [offsets for offsets, _ in lost]
        count = sum(one.last - one.first + 1 for one in ranges if one.last is not None)
        places = ", ".join(str(one) for one in ranges[:3]) + (", ..." if ranges[3:] else "")
        times = _times([gap for _, gap in lost])
        yield "lost now", f"at most {count_text(count, 'record')}: {places}{times}"
        behind = ranges[0].last
        seek = "nothing sound follows" if behind is None else f"can seek to {behind + 1}"
        yield "consumers", f"stop at {ranges[0].first}; {seek}"
    if forecast is not None:
        yield _when(judged), effect_text(forecast)
        yield from _choices(judged, forecast)


def _when(judged: Judged) -> str:
    return "next start" if judged.group.stopped else "if it died"


def _choices(judged: Judged, forecast: Forecast) -> Iterator[tuple[str, str]]:
    harm = forecast.lost.sound.count + forecast.lost.unreadable.count
    if not forecast.causes and not harm:
        return
    loses = count_text(harm, "record")
    yield "choose", "another replica is in sync: start that one first, and let this one copy it"
    yield "", "this is the only copy: copy the directory before a broker starts on it"
    if forecast.lost.sound.count and judged.group.stopped:
        yield (
            "",
            f"let the broker start: loses {loses}, {forecast.lost.sound.count:,} of them sound",
        )


def neighbours_text(gap: Gap) -> str:
    """Where a log is sound before a damage, and where again behind it."""
    before = f"sound to {gap.offset_before}"
    if gap.offset_behind is None:
        return f"{before}; nothing sound behind it"
    end = gap.damage.position + gap.damage.size
    return f"{before}; sound again from position {end}, offset {gap.offset_behind}"


def _times(gaps: Sequence[Gap]) -> str:
    """When the records that damage hides were written, as the batches around it tell."""
    first, last = gaps[0].time_before_ms, gaps[-1].time_behind_ms
    if first is None or last is None:
        return ""
    return f" ({period_text(first, last)})"


def _lost(judged: Judged) -> Iterator[tuple[Offsets, Gap]]:
    """The offsets that each damage hides, ascending; the last of a range may be unknown."""
    for survey, next_base in neighbours(judged.group, judged.surveys):
        for gap in survey.gaps:
            if next_base is None and gap.damage.reason in _TAILS:
                continue
            behind = next_base if gap.offset_behind is None else gap.offset_behind
            if behind is None or behind > gap.offset_before + 1:
                yield Offsets(gap.offset_before + 1, None if behind is None else behind - 1), gap
