"""The losses of a partition, and the commands to choose from.

Spec: ``CompletedFetch``, which stops at a batch that fails its checksum; KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.audit.checks.segments import RECORDS_IN_REMOTE_STORAGE
from kdump.audit.commands import (
    COPY,
    Remedy,
    convert_command,
    copy_text,
    heal_command,
    reindex_command,
    salvage_command,
    truncate_command,
)
from kdump.audit.finding_code import Severity
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.survey import Gap
from kdump.audit.verdicts.cures import may_heal, pending_remedy, records_after_damage
from kdump.audit.verdicts.loss import LostNow
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.ui.paragraphs import LABEL, command_line, paragraph
from kdump.ui.units import count_text, period_text
from kdump.ui.verdicts.forecast_text import bound_text, effect_text

_REPLICA: Final = "another replica is in sync: start its broker first"
_CONTROLLER: Final = "another controller is in sync: start that controller first"
#: The number of partitions whose offsets in remote storage have a line each.
_MOST_REMOTE: Final = 3


def partition_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[tuple[str, str]]:
    """Yield labels and texts about one partition, which follow its segments."""
    lost = verdict.lost
    if lost.ranges:
        ranges = [lost_range.offsets for lost_range in lost.ranges]
        offsets = ", ".join(map(str, ranges[:3])) + (", ..." if ranges[3:] else "")
        yield "lost", f"{bound_text(lost.records, 'record')}: {offsets}{_times_text(lost)}"
    if lost.blocking is not None:
        next_sound = lost.blocking.next_offset
        seek = "no valid batch follows" if next_sound is None else f"can seek to {next_sound}"
        if not verdict.is_metadata_log:  # which nodes replay, and clients do not read
            yield "consumers", f"stop at {lost.blocking.offsets.first}; {seek}"
    if verdict.stable is not None:
        yield "stable", stable_text(verdict.stable)
    if forecast is not None:
        yield _start_label(verdict), effect_text(forecast)


def remote_lines(verdicts: Iterable[Verdict], *, named: bool) -> Iterator[str]:
    """Yield which offsets are in remote storage only; ``named``: with the names of partitions."""
    found = [
        (printable(verdict.target.name), finding.detail.found)
        for verdict in verdicts
        for finding in verdict.findings
        if finding.code is RECORDS_IN_REMOTE_STORAGE and finding.detail is not None
    ]
    for number, (name, offsets) in enumerate(found[:_MOST_REMOTE]):
        yield paragraph("" if number else "remote", f"{name}: {offsets}" if named else offsets)
    if found[_MOST_REMOTE:]:
        others = count_text(len(found) - _MOST_REMOTE, "more partition")
        yield paragraph("", f"{others} with records in remote storage (--info)")


def remedy_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[str]:
    """Yield the commands that help, each on a line of its own, so that it can be pasted."""
    lines = list(_remedy_lines(verdict, forecast))
    before = copy_text(verdict.target.path)
    if lines and before is not None:
        yield paragraph("first", before)
    yield from lines


def _remedy_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[str]:
    pending = pending_remedy(verdict.findings)
    if pending is not None:  # until then other repairs refuse
        yield _remedy_line(pending)
        return
    path = verdict.target.path
    remedies = {
        finding.remedy for finding in verdict.findings if finding.code.severity is not Severity.INFO
    }
    if salvage_command(path) in remedies:
        yield from _salvage_choices(verdict, forecast)
    elif truncate_command(path) in remedies:
        lost = bool(verdict.lost.ranges)
        if lost:
            yield from _replica_lines(verdict, forecast)
            yield paragraph("", "no other replica, loses nothing that can be read:")
        yield command_line(truncate_command(path)) if lost else _remedy_line(truncate_command(path))
    elif forecast is not None:
        yield from _choices(verdict, forecast)
    yield from (
        _remedy_line(remedy)
        for remedy in (reindex_command(path), convert_command(path))
        if remedy in remedies
    )


def stable_text(stable: StableOffset) -> str:
    """Return where read_committed consumers stop, which transaction holds them, and since when."""
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


def _start_label(verdict: Verdict) -> str:
    return "startup" if verdict.target.stopped else "if it dies"


def _remedy_line(remedy: Remedy) -> str:
    return f"{'do':{LABEL}}{shell_text(remedy)}"


def nodes_text(nodes: Sequence[int]) -> str:
    """Return the ids of nodes as the subject or the object of a sentence."""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes))}"


def _replica_lines(verdict: Verdict, forecast: Forecast | None) -> Iterator[str]:
    """Yield the first choice: another replica, by the metadata log if it names replicas."""
    if verdict.is_metadata_log:
        yield paragraph("choose", _CONTROLLER)
        return
    copies = verdict.copies
    if copies is None:
        yield paragraph("choose", _REPLICA)
    elif copies.in_sync:
        start = (
            "is in sync: start its broker" if len(copies.in_sync) == 1 else "are in sync: start one"
        )
        yield paragraph("choose", f"{nodes_text(copies.in_sync)} {start} first")
    elif copies.nodes:
        held = f"{nodes_text(copies.nodes)} held a replica, not in sync by the metadata log"
        yield paragraph("choose", held)
    else:
        yield paragraph("choose", "no other replica, by the metadata log")
        return
    if may_heal(verdict, forecast):
        yield paragraph("", "take its records from a replica, copied here as COPY:")
        yield command_line(heal_command(verdict.target.path, [COPY]))


def _salvage_choices(verdict: Verdict, forecast: Forecast | None) -> Iterator[str]:
    """Yield the choices if sound batches follow the damage."""
    unreadable, sound = records_after_damage(verdict)
    only, cut = "no other replica", "as log recovery would"
    if sound is not None:
        what = bound_text(unreadable, "record") if unreadable else "no record"
        only += f", loses {what}"
        cut += f", loses {count_text(sound, 'VALID record')} too"
    yield from _replica_lines(verdict, forecast)
    yield paragraph("", f"{only}:")
    yield command_line(salvage_command(verdict.target.path))
    yield paragraph("", f"{cut}:")
    yield command_line(truncate_command(verdict.target.path))


def _choices(verdict: Verdict, forecast: Forecast) -> Iterator[str]:
    """Yield the choices if no repair helps, and records are missing or a start does harm."""
    harm = forecast.lost.sound + forecast.lost.unreadable
    if not forecast.causes and not harm:
        if verdict.lost.ranges:
            yield from _replica_lines(verdict, forecast)
            yield paragraph(
                "", "no other replica: restore the missing files from where they were moved"
            )
            yield paragraph("", "or from a backup; nothing on this disk holds the records")
        return
    loses = bound_text(harm, "record") if harm.unbounded else count_text(harm.count, "record")
    yield from _replica_lines(verdict, forecast)
    yield paragraph("", "no other replica: copy the directory before a broker starts on it")
    if forecast.lost.sound.count and verdict.target.stopped:
        yield paragraph(
            "",
            f"let the broker start: loses {loses}, {forecast.lost.sound.count:,} of them valid",
        )


def neighbours_text(gap: Gap) -> str:
    """Return up to which offset a log is sound before damage, and from where after it."""
    before = f"valid to {gap.offset_before}" if gap.damage.position else "nothing valid before it"
    if gap.offset_after is None:
        return f"{before}; nothing valid after it"
    end = gap.damage.position + gap.damage.size
    return f"{before}; valid again from position {end}, offset {gap.offset_after}"


def _times_text(lost: LostNow) -> str:
    """Return when the lost records were written, by the batches around the first and the last."""
    first, last = lost.ranges[0].records.first_timestamp, lost.ranges[-1].records.last_timestamp
    if first is None or last is None:
        return ""
    return f" ({period_text(first, last)})"
