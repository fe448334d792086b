"""The pictures of verdicts: logs as their segments, and topics by their size and age."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from pathlib import Path
from typing import Final

from kdump.audit.checks.segments import RECORDS_IN_REMOTE_STORAGE
from kdump.audit.finding_code import Severity
from kdump.audit.targets.target import log_bytes
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.text import printable, time_text
from kdump.storage.logdir import directory_name
from kdump.ui.html.pictures import Bar, Kind, Part, picture
from kdump.ui.units import count_text, size_text
from kdump.ui.verdicts.summary import worst_severity

#: The logs that are drawn, the worst first, and the topics, the largest first.
_LOGS: Final = 20
_TOPICS: Final = 15
#: The share of a log's bar that stands for offsets without bytes: one part in so many.
_GAP: Final = 40


def verdict_pictures(verdicts: Iterable[Verdict], *, whole: bool) -> Iterator[str]:
    """Yield the pictures of logs that are corrupt or that a startup changes, then that of topics.

    ``whole``: the run has log directories. Otherwise its few logs are all drawn, and no topics.
    """
    known = list(verdicts)
    worst = [verdict for verdict in known if not whole or _is_drawn(verdict)]
    for verdict in nsmallest(_LOGS, worst, key=_rank):
        yield _log_picture(verdict)
    if worst[_LOGS:]:
        more = count_text(len(worst) - _LOGS, "more log")
        yield f"<p>{more} with errors, or that the next startup changes, not drawn.</p>"
    if whole and known:
        yield picture("Topics by size", _topic_bars(known))


def _is_drawn(verdict: Verdict) -> bool:
    start = verdict.forecast
    return worst_severity(verdict) is Severity.ERROR or bool(
        start and (start.cuts or start.deleted)
    )


def _rank(verdict: Verdict) -> int:
    severity = worst_severity(verdict)
    return len(Severity) if severity is None else severity.rank


def _log_picture(verdict: Verdict) -> str:
    """Return a log as its segments, by their bytes; missing and remote offsets have none."""
    target, start = verdict.target.with_listing(), verdict.forecast
    sizes = [log_bytes(segment) for segment in target.segments]
    gap = max(sum(sizes) // _GAP, 1)
    # Consumers stop at what is corrupt, and pass over what is missing.
    missing = [lost.offsets for lost in verdict.lost.ranges if not lost.blocks]
    deleted = set(start.deleted if start else ())
    read = Kind.VALID if _is_read(verdict) else Kind.UNREAD
    end, parts, marks = 0, list[Part](), list[Part]()

    def mark_gap(kind: Kind, text: str) -> None:
        nonlocal end
        parts.append(Part(end, end + gap, kind, text))
        end += gap

    for finding in verdict.findings:
        if finding.code is RECORDS_IN_REMOTE_STORAGE:
            mark_gap(Kind.REMOTE, f"offsets {finding.offsets} in remote storage")
    for segment, size in zip(target.segments, sizes, strict=True):
        while missing and missing[0].first < segment.base_offset:
            mark_gap(Kind.MISSING, f"missing offsets {missing.pop(0)}")
        name = f"{printable(segment.log.name)}, {size_text(size)}"
        kind = Kind.REMOVED if segment.base_offset in deleted else read
        parts.append(Part(end, end + size, kind, name))
        for cut in start.cuts if start else ():
            if cut.segment == segment.base_offset and cut.position < size:
                where = f"{name}: truncated at position {cut.position}, offset {cut.offset}"
                marks.append(Part(end + cut.position, end + size, Kind.REMOVED, where))
        for finding in verdict.findings:
            if (
                finding.path == segment.log
                and finding.position is not None
                and finding.code.severity is Severity.ERROR
            ):
                place = end + min(finding.position, size)
                where = f"{name}: {finding.code.name} at position {finding.position}"
                marks.append(Part(place, place + (finding.size or 0), Kind.CORRUPT, where))
        end += size
    for offsets in missing:
        mark_gap(Kind.MISSING, f"missing offsets {offsets}")
    marks.sort(key=lambda part: part.kind is Kind.CORRUPT)
    title = f"{printable(target.name)}: its log by segments"
    text = f"{count_text(len(sizes), 'segment')}, {size_text(sum(sizes))}"
    return picture(title, [Bar("", text, (*parts, *marks))])


def _is_read(verdict: Verdict) -> bool:
    """Return whether the whole log was read, in this run or an earlier one."""
    covered = verdict.covered
    return covered.read_bytes + covered.remembered.log_bytes >= covered.size


def _topic_bars(verdicts: Iterable[Verdict]) -> list[Bar]:
    sizes, written = defaultdict[str, int](int), dict[str, float]()
    for verdict in verdicts:
        name = directory_name(verdict.target.path)
        topic = verdict.target.name if name is None else name.topic
        sizes[topic] += verdict.covered.size
        oldest = _oldest_write(verdict)
        if oldest is not None:
            written[topic] = min(oldest, written.get(topic, oldest))
    largest = sorted(sizes, key=lambda topic: -sizes[topic])
    bars = list[Bar]()
    for topic in largest[:_TOPICS]:
        text = size_text(sizes[topic])
        if topic in written:
            text += f", first segment written until {time_text(int(written[topic] * 1000))}"
        parts = (Part(0, sizes[topic], Kind.SIZE, text),)
        bars.append(Bar(printable(topic), text, parts))
    rest = sum(sizes[topic] for topic in largest[_TOPICS:])
    if largest[_TOPICS:]:
        text = size_text(rest)
        others = count_text(len(largest) - _TOPICS, "other topic")
        bars.append(Bar(others, text, (Part(0, rest, Kind.SIZE, text),)))
    return bars


def _oldest_write(verdict: Verdict) -> float | None:
    """Return when the first segment of a local log was last written, None if that is unknown."""
    if not isinstance(verdict.target.path, Path):
        return None
    segments = verdict.target.with_listing().segments
    try:
        return segments[0].log.stat().st_mtime if segments else None
    except OSError:
        return None
