"""The pictures of verdicts: logs as their segments, and topics by their size and age."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.audit.checks.missing_offsets import OFFSETS_MISSING
from kdump.audit.checks.segments import RECORDS_IN_REMOTE_STORAGE
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.text import printable, time_text
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.ui.html.page import HtmlPage
from kdump.ui.html.pictures import Bar, Kind, Part, picture
from kdump.ui.units import count_text, size_text
from kdump.ui.verdicts.summary import rank_verdicts, worst_severity
from kdump.ui.verdicts.text import is_read

#: The logs that are drawn, the worst first, and the topics, the largest first.
_LOGS: Final = 20
_TOPICS: Final = 15
#: The share of a bar that stands for one gap without bytes, and for all of them: one in so many.
_GAP: Final = 40
_GAPS: Final = 4


def draw_verdicts(page: HtmlPage, verdicts: Sequence[Verdict], roots: Sequence[Root]) -> None:
    """Draw logs that are corrupt or that a startup changes, then the topics of log directories.

    Without a log directory the run has few logs: all are drawn. Verdicts have their segments.
    """
    whole = any(isinstance(root.content, LogDirectory) for root in roots)
    worst = [verdict for verdict in verdicts if not whole or _is_drawn(verdict)]
    for verdict in rank_verdicts(worst)[:_LOGS]:
        page.draw(_log_picture(verdict))
    if worst[_LOGS:]:
        page.emit(f"{count_text(len(worst) - _LOGS, 'more log')} not drawn.")
    if whole and verdicts:
        title = f"Topics by size, of {count_text(len(verdicts), 'partition')}"
        page.draw(picture(title, list(_topic_bars(verdicts))))


def _is_drawn(verdict: Verdict) -> bool:
    start = verdict.forecast
    removes = start is not None and start.removes_records
    return removes or worst_severity(verdict) is Severity.ERROR


def _log_picture(verdict: Verdict) -> str:
    """Return a log as its segments, by their bytes as they were read."""
    surveys, gaps = verdict.surveys, [each for each in verdict.findings if _is_gap(each)]
    total = sum(survey.size for survey in surveys)
    width = max(min(total // _GAP, total // (_GAPS * max(len(gaps), 1))), 1)
    logs = {survey.segment.log for survey in surveys}
    first = surveys[0].segment.base_offset if surveys else 0
    end, parts = 0, list[Part]()

    def add_gaps(found: Iterable[Finding]) -> None:
        nonlocal end
        for finding in found:
            remote = finding.code is RECORDS_IN_REMOTE_STORAGE
            kind = Kind.REMOTE if remote else Kind.MISSING
            parts.append(Part(end, end + width, kind, f"{finding.code.name} {finding.offsets}"))
            end += width

    # Those of other files are before the first segment or after the last one.
    others = [each for each in gaps if each.path not in logs]
    before = [each for each in others if each.offsets and each.offsets.first < first]
    add_gaps(before)
    for survey in surveys:
        parts += _segment_parts(verdict, survey, end)
        end += survey.size
        add_gaps(each for each in gaps if each.path == survey.segment.log and not each.position)
    same = {each.offsets: each for each in others if each not in before}
    add_gaps(same.values())
    # What is wrong lies on top.
    parts.sort(key=lambda part: part.kind in (Kind.CORRUPT, Kind.MISSING))
    text = f"{count_text(len(surveys), 'segment')}, {size_text(total)}"
    path = printable(str(verdict.target.path))
    return picture(f"{path}: its log by segments", [Bar("", text, tuple(parts))])


def _is_gap(finding: Finding) -> bool:
    """Return whether a finding says which offsets have no bytes in the log."""
    code = finding.code
    gap = code.loses or code in (OFFSETS_MISSING, RECORDS_IN_REMOTE_STORAGE)
    return gap and finding.offsets is not None


def _segment_parts(verdict: Verdict, survey: Survey, at: int) -> Iterator[Part]:
    """Yield the parts of a segment, which begins at ``at``."""
    log, base, size = survey.segment.log, survey.segment.base_offset, survey.size
    name = f"{printable(log.name)}, {size_text(size)}"
    read = Kind.VALID if is_read(survey) else Kind.UNREAD
    yield Part(at, at + size, read, name)
    start = verdict.forecast
    if start is not None:
        if base in start.deleted:
            yield Part(at, at + size, Kind.REMOVED, f"{name}: deleted")
        for cut in start.cuts if start.removes_records else ():
            if cut.segment == base:
                place = f"{name}: truncated at position {cut.position}, offset {cut.offset}"
                yield Part(at + cut.position, at + size, Kind.REMOVED, place)
    for gap in survey.gaps:
        damage = gap.damage
        tail = damage.is_tail and gap.offset_after is None
        text = f"{name}: {damage.reason.value} at position {damage.position}"
        kind = Kind.TAIL if tail else Kind.CORRUPT
        yield Part(at + damage.position, at + damage.position + damage.size, kind, text)
    unlisted = survey.damages - len(survey.gaps)
    if unlisted:
        last = survey.gaps[-1].damage
        text = f"{name}: {count_text(unlisted, 'more corrupt place')}"
        yield Part(at + last.position + last.size, at + size, Kind.UNREAD, text)
    for finding in verdict.findings:
        if finding.path == log and finding.position and _is_gap(finding):
            text = f"{name}: {finding.code.name}, offsets {finding.offsets}"
            yield Part(at + finding.position, at + finding.position, Kind.MISSING, text)


def _topic_bars(verdicts: Iterable[Verdict]) -> Iterator[Bar]:
    """Yield the largest topics, with the times up to which their first segments were written."""
    sizes, until = defaultdict[str, int](int), dict[str, int]()
    for verdict in verdicts:
        name = directory_name(verdict.target.path)
        topic = verdict.target.name if name is None else name.topic
        sizes[topic] += verdict.covered.size
        time = verdict.surveys[0].max_timestamp if verdict.surveys else -1
        if time >= 0:
            until[topic] = min(time, until.get(topic, time))
    largest = sorted(sizes, key=lambda topic: -sizes[topic])
    for topic in largest[:_TOPICS]:
        text = size_text(sizes[topic])
        if topic in until:
            text += f", its oldest segment up to {time_text(until[topic])}"
        yield Bar(printable(topic), text, (Part(0, sizes[topic], Kind.SIZE, text),))
    if largest[_TOPICS:]:
        rest = size_text(sum(sizes[topic] for topic in largest[_TOPICS:]))
        yield Bar(f"{count_text(len(largest) - _TOPICS, 'other topic')}", rest, ())
