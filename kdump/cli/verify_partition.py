"""What a damaged partition means for people: what is lost, where consumers stop, what to choose.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
It must never name a command that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kdump.audit.case import neighbours
from kdump.audit.findings import Offsets
from kdump.audit.forecast import Forecast
from kdump.audit.judged import Judged
from kdump.audit.recovery import Span, Tail
from kdump.audit.survey import Gap, Survey
from kdump.audit.tails import records_behind
from kdump.cli.forecast_text import bound_text, effect_text
from kdump.cli.units import count_text, period_text
from kdump.storage.walk import Reason


@dataclass(frozen=True, slots=True)
class _Lost:
    """Records that a damage hides, and the offset where it is sound again; None for nowhere."""

    gap: Gap
    records: Span
    behind: int | None


def partition_lines(judged: Judged, forecast: Forecast | None) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts that stand below the segments of one partition."""
    lost = list(_lost(judged))
    if lost:
        records = sum((one.records for one in lost), _unlisted(judged))
        ranges = [_range(one) for one in lost]
        places = ", ".join(map(str, ranges[:3])) + (", ..." if ranges[3:] else "")
        times = _times([one.gap for one in lost])
        yield "lost now", f"{bound_text(records, 'record')}: {places}{times}"
        behind = lost[0].behind
        seek = "nothing sound follows" if behind is None else f"can seek to {behind}"
        yield "consumers", f"stop at {ranges[0].first}; {seek}"
    if forecast is not None:
        yield _when(judged), effect_text(forecast)
        yield from _choices(judged, forecast)


def _when(judged: Judged) -> str:
    return "next start" if judged.group.stopped else "if it died"


def _choices(judged: Judged, forecast: Forecast) -> Iterator[tuple[str, str]]:
    harm = forecast.lost.sound + forecast.lost.unreadable
    if not forecast.causes and not harm:
        return
    loses = bound_text(harm, "record") if harm.unbounded else count_text(harm.count, "record")
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


def _lost(judged: Judged) -> Iterator[_Lost]:
    """What each damage hides, ascending."""
    for survey, next_base in neighbours(judged.group, judged.surveys):
        for gap in survey.gaps:
            behind = next_base if gap.offset_behind is None else gap.offset_behind
            if behind is None and gap.damage.reason is Reason.PREALLOCATED:
                continue
            records = records_behind(_tail(survey, gap), behind, judged.facts)
            if records:
                yield _Lost(gap, records, behind)


def _unlisted(judged: Judged) -> Span:
    """What is hidden by damages that are counted, but not listed."""
    return Span(unbounded=any(one.damages > len(one.gaps) for one in judged.surveys))


def _tail(survey: Survey, gap: Gap) -> Tail:
    """A damage as what ends a log, whether or not something sound follows."""
    known = None if survey.recovered is None else survey.recovered.tail
    if known is not None and known.first_offset == gap.offset_before + 1:
        return known
    return Tail(gap.offset_before + 1, None, gap.damage.reason is Reason.TORN_TAIL)


def _range(lost: _Lost) -> Offsets:
    first = lost.gap.offset_before + 1
    return Offsets(first, None if lost.records.unbounded else lost.records.last_offset)
