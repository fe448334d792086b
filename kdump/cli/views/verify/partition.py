"""What damage in a partition means, and the choices.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import Severity
from kdump.audit.commands import Remedy, converting, reindexing, salvaging, truncating
from kdump.audit.findings import Finding
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.recovery import Span
from kdump.audit.survey.survey import Gap
from kdump.audit.verdicts.loss import LostNow
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.ui.paragraphs import LABEL, labelled
from kdump.cli.ui.units import count_text, period_text
from kdump.cli.views.forecast_text import bound_text, effect_text
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import time_text

_REPLICA: Final = "another replica is in sync: start that replica first"
_CONTROLLER: Final = "another controller is in sync: start that controller first"


def partition_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts that stand below the segments of one partition."""
    lost = verdict.lost
    if lost.ranges:
        ranges = [one.offsets for one in lost.ranges]
        places = ", ".join(map(str, ranges[:3])) + (", ..." if ranges[3:] else "")
        yield "lost now", f"{bound_text(lost.records, 'record')}: {places}{_times(lost)}"
    if lost.blocking is not None:
        behind = lost.blocking.next_offset
        seek = "nothing sound follows" if behind is None else f"can seek to {behind}"
        if not verdict.is_metadata_log:  # which nodes replay, and clients do not read
            yield "consumers", f"stop at {lost.blocking.offsets.first}; {seek}"
    if verdict.stable is not None:
        yield "stable", stable_text(verdict.stable)
    if forecast is not None:
        yield _when(verdict), effect_text(forecast)


def remedy_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[str]:
    """Yield what there is to do about it, each command on a line of its own, to be pasted."""
    pending = pending_remedy(verdict.findings)
    if pending is not None:  # until then other repairs refuse
        yield _doing(pending)
        return
    path = verdict.target.path
    remedies = {one.remedy for one in verdict.findings if one.code.severity is not Severity.INFO}
    if salvaging(path) in remedies:
        yield from _choices_behind(verdict)
    elif truncating(path) in remedies:
        lost = bool(verdict.lost.ranges)
        if lost:
            yield labelled("choose", _REPLICA)
            yield labelled("", "only copy, loses nothing that can be read:")
        yield _command(truncating(path)) if lost else _doing(truncating(path))
    elif forecast is not None:
        yield from _choices(verdict, forecast)
    yield from (_doing(one) for one in (reindexing(path), converting(path)) if one in remedies)


def stable_text(stable: StableOffset) -> str:
    """Where consumers of committed records stop, what holds them there, and since when."""
    holder = stable.holder
    if holder is None:
        return f"last stable offset {stable.offset}: no transaction is open"
    since = "" if stable.since_ms is None else f" since {time_text(stable.since_ms)}"
    return (
        f"last stable offset {stable.offset}: the open transaction of producer "
        f"{holder.producer_id}, epoch {holder.producer_epoch}, holds it{since}; its last batch is "
        f"of {time_text(holder.timestamp)}; at most {count_text(stable.waiting, 'record')} "
        f"wait{'s' if stable.waiting == 1 else ''} for its end"
    )


def pending_remedy(findings: Iterable[Finding]) -> Remedy | None:
    """The command that ends a repair which was interrupted, if there is one."""
    return next((one.remedy for one in findings if one.code is codes.REPAIR_PENDING), None)


def _when(verdict: Verdict) -> str:
    return "next start" if verdict.target.stopped else "if it died"


def _doing(remedy: Remedy) -> str:
    return f"{'do':{LABEL}}{shell_text(remedy)}"


def _command(remedy: Remedy) -> str:
    """One of several to choose from, below what it loses."""
    return f"{'':{LABEL}}  {shell_text(remedy)}"


def _choices_behind(verdict: Verdict) -> Iterator[str]:
    """What to choose where sound batches stand behind the damage."""
    unreadable, sound = _losses(verdict)
    only, cut = "only copy", "as recovery would"
    if sound is not None:
        what = bound_text(unreadable, "record") if unreadable else "no record"
        only += f", loses {what}"
        cut += f", loses {count_text(sound, 'SOUND record')} more"
    yield labelled("choose", _REPLICA)
    yield labelled("", f"{only}:")
    yield _command(salvaging(verdict.target.path))
    yield labelled("", f"{cut}:")
    yield _command(truncating(verdict.target.path))


def _losses(verdict: Verdict) -> tuple[Span, int | None]:
    """The records that damage hides, and how many sound ones stand behind the first damage.

    The number is None where not all was read, or something else than damage is to be cut away.
    """
    cut = salvaging(verdict.target.path)
    at = {(one.path, one.position) for one in verdict.findings if one.remedy == cut}
    sound: int | None = None
    for survey in verdict.surveys:
        log = survey.segment.log
        damaged = {(log, gap.damage.position) for gap in survey.gaps}
        if survey.recovered is None or any(one not in damaged for one in at if one[0] == log):
            return Span(), None
        if sound is not None:
            sound += survey.recovered.sound.count
        elif damaged:
            sound = survey.recovered.later_records.sound.count
    return verdict.lost.records, sound


def _choices(verdict: Verdict, forecast: Forecast) -> Iterator[str]:
    """What to choose where no repair helps, and records are missing or a start does harm."""
    harm = forecast.lost.sound + forecast.lost.unreadable
    if not forecast.causes and not harm:
        if verdict.lost.ranges:
            yield labelled("choose", _REPLICA)
            yield labelled("", "only copy: restore the missing files from where they were moved")
            yield labelled("", "or from a backup; nothing on this disk holds the records")
        return
    loses = bound_text(harm, "record") if harm.unbounded else count_text(harm.count, "record")
    yield labelled("choose", _CONTROLLER if verdict.is_metadata_log else _REPLICA)
    yield labelled("", "this is the only copy: copy the directory before a broker starts on it")
    if forecast.lost.sound.count and verdict.target.stopped:
        yield labelled(
            "",
            f"let the broker start: loses {loses}, {forecast.lost.sound.count:,} of them sound",
        )


def neighbours_text(gap: Gap) -> str:
    """Where a log is sound before a damage, and where again behind it."""
    before = f"sound to {gap.offset_before}" if gap.damage.position else "nothing sound before it"
    if gap.offset_after is None:
        return f"{before}; nothing sound after it"
    end = gap.damage.position + gap.damage.size
    return f"{before}; sound again from position {end}, offset {gap.offset_after}"


def _times(lost: LostNow) -> str:
    """When the lost records were written, as the batches around the first and the last one say."""
    first, last = lost.ranges[0].records.first_timestamp, lost.ranges[-1].records.last_timestamp
    if first is None or last is None:
        return ""
    return f" ({period_text(first, last)})"
