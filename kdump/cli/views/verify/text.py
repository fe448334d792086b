"""The text report of ``verify``.

Lines are meant for people, worst first, and may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from kdump.audit.codes import CODES, Outcome, Severity
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.findings import AS_LIVE, Finding
from kdump.audit.startup.forecast import Forecast, worst_outcome
from kdump.audit.survey.survey import Gap, Survey
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import losses_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.ui.paragraphs import LABEL, WIDTH, labelled, wrapped
from kdump.cli.ui.units import count_text, duration_text, part_text, rate_text, size_text
from kdump.cli.views.forecast_text import (
    broker_end_text,
    directory_sentences,
    harm_text,
    stopping_text,
)
from kdump.cli.views.verdict_text import LABELS, lost_now_text, severity_text, verdict_lines
from kdump.cli.views.verify.partition import neighbours_text, partition_lines, remedy_lines
from kdump.cli.views.verify.plan import plan_lines
from kdump.cli.views.verify.summary import Depth, Summary, worst
from kdump.errors import SourceError
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.storage.liveness import Process, State
from kdump.storage.logdir import LogDirectory

#: Where the logs are larger than this a report may be long in coming.
_SOON_BYTES: Final = 1 << 30
#: How many of those that read a directory are named.
_NAMED: Final = 3
#: How many sound neighbours among segments have a line each.
_SPELLED_OUT: Final = 2
_DEPTHS: Final[Mapping[Depth, str]] = {
    "quick": "only names, small files, and the ends of logs and indexes (--quick)",
    "default": "every header and checksum (records not read: --deep)",
    "deep": "every header, checksum and record",
}


class TextReport:
    """Collects what is judged and emits the report at the end.

    ``counts`` has the number of partitions for each of ``roots``, whose judgements arrive in that
    order; an interrupted run leaves the last of them out. ``info`` lists notes as well.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        note: Callable[[str], None],
        roots: Sequence[Root],
        counts: Sequence[int],
        starts: Starts,
        *,
        info: bool,
    ) -> None:
        self._emit = emit
        self._note = note
        self._roots = roots
        self._counts = counts
        self._info = info
        self._top: tuple[Finding, ...] = ()
        self._judged: list[Verdict] = []
        self._forecasts: dict[Path, Forecast] = {}
        self._starts = starts

    def directories(self, findings: Iterable[Finding]) -> None:
        """Take in what was found at the top of log directories."""
        self._top = tuple(findings)
        self._starts.add_findings(self._top)

    def preview(self, verdict: Verdict) -> None:
        """Tell at once what the quick pass has found wrong in one partition."""
        for finding in verdict.findings if verdict.covered.size > _SOON_BYTES else ():
            if finding.code.severity in (Severity.ERROR, Severity.WARNING):
                name = printable(verdict.target.path.name)
                self._note(f"{LABELS[finding.code.severity]} {name} {finding.code.name}")

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Take in one partition, and its next start."""
        self._judged.append(verdict)
        self._starts.add(verdict, forecast)
        if forecast is not None:
            self._forecasts[verdict.target.path] = forecast

    def finish(self, summary: Summary) -> None:
        """Emit everything."""
        for line in verdict_lines(summary.losses, summary.verdict):
            self._emit(line)
        start, tops = 0, list[list[Finding]]()
        for root, count in zip(self._roots, self._counts, strict=True):
            verdict = self._judged[start : start + count]
            known = self._forecasts, self._starts
            tops.append(self._untold(root))
            top, several = tops[-1], len(self._roots) > 1
            for line in root_lines(root, top, verdict, *known, count, self._info, several=several):
                self._emit(line)
            start += count
        for line in summary_lines(summary, info=self._info):
            self._emit(line)
        for line in self._plans(tops):
            self._emit(line)

    def _plans(self, tops: Sequence[Sequence[Finding]]) -> Iterator[str]:
        """The plans for log directories, by what was found at the top of each."""
        start = 0
        for root, count, top in zip(self._roots, self._counts, tops, strict=True):
            verdict = self._judged[start : start + count]
            start += count
            if isinstance(root.content, LogDirectory):
                ranked = _ranked(verdict, self._forecasts)
                yield from plan_lines(root, top, ranked, self._forecasts)

    def _untold(self, root: Root) -> list[Finding]:
        """What was found at the top of a path's log directory, once if several paths share it."""
        if root.directory is None:
            return []
        path = root.directory.directory.path
        here, others = list[Finding](), list[Finding]()
        for one in self._top:
            (here if one.path == path or path in one.path.parents else others).append(one)
        self._top = tuple(others)
        return here


def root_lines(
    root: Root,
    top: Sequence[Finding],
    verdicts: Sequence[Verdict],
    forecasts: Mapping[Path, Forecast],
    starts: Starts,
    count: int,
    info: bool,
    *,
    several: bool,
) -> Iterator[str]:
    """What one path is, with ``count`` partitions, and what was found in those judged.

    ``top`` are findings at the top of its log directory, ``forecasts`` by the path of a partition.
    ``several``: there are other paths, so that the first line does not say what this one has lost.
    """
    when = "next start" if root.stopped else "if it died"
    yield from _heading(root, verdicts, count)
    for finding in _shown(top, info=info):
        yield from finding_lines(finding)
    if isinstance(root.content, LogDirectory) and root.directory is not None:
        yield from _partitions(verdicts, forecasts, info=info)
        start = dict(starts.directories())[root.directory.directory.path]
        losses = losses_of((one, forecasts.get(one.target.path)) for one in verdicts)
        if several and losses.now:
            yield labelled("lost now", lost_now_text(losses))
        yield labelled(when, "; ".join(directory_sentences(start)))
    else:
        for one in verdicts:
            yield from _segments(one, info=info)
            around = [] if root.directory is None else starts.causes(root.directory.directory.path)
            yield from (labelled(when, stopping_text(cause)) for cause in around)
            forecast = forecasts.get(one.target.path)
            stops = [*around, *(() if forecast is None else forecast.causes)]
            if root.directory is not None and worst_outcome(stops) is Outcome.OFFLINE:
                yield labelled("", broker_end_text(starts.ends_broker(root.directory.directory)))
            for label, text in partition_lines(one, forecast):
                yield labelled(label, text)
            yield from remedy_lines(one, forecast)
            if one.facts is not None:
                yield labelled("settings", f"from {one.facts.settings.origin}")


def summary_lines(summary: Summary, *, info: bool) -> Iterator[str]:
    """The last lines: what to read next, what was covered, and the result."""
    run, covered = summary.run, summary.covered
    if worth := _worth_explaining(summary):
        yield f"{'next':{LABEL}}kdump explain {' '.join(worth)}"
    records = count_text(covered.records, "record")
    if covered.wrappers:
        records += f" and those in {count_text(covered.wrappers, 'compressed wrapper')}"
    yield labelled(
        "checked",
        f"{count_text(covered.partitions, 'partition')}, "
        f"{count_text(covered.segments, 'segment')}, "
        f"{part_text(covered.read_bytes, run.total_bytes)}, "
        f"{count_text(covered.batches, 'batch', 'batches')}, "
        f"{records}: {_DEPTHS[run.depth]}",
    )
    yield labelled("result", f"{_result(summary, info=info)}; {_effort(summary)}")


def _worth_explaining(summary: Summary) -> list[str]:
    """The worst codes that were found, as many as fit on a line that is to be pasted."""
    found = sorted(
        (CODES[name] for name in summary.codes if CODES[name].severity is not Severity.INFO),
        key=lambda code: code.severity.rank,
    )
    room, worth = WIDTH - LABEL - len("kdump explain"), list[str]()
    for code in found:
        room -= 1 + len(code.name)
        if room >= 0:
            worth.append(code.name)
    return worth


def _result(summary: Summary, *, info: bool) -> str:
    partitions = summary.partitions
    parts = [f"{partitions[None]:,} sound"]
    parts += [
        f"{partitions[severity]:,} {words}"
        for severity, words in (
            (Severity.ERROR, "with errors"),
            (Severity.INCOMPLETE, "not fully checked"),
            (Severity.WARNING, "with warnings"),
        )
        if partitions[severity]
    ]
    text = ", ".join(parts)
    if summary.run.stopped_by is not None:
        text = f"interrupted: {text}, {summary.run.total - partitions.total():,} not checked"
    notes = summary.severities[Severity.INFO]
    if notes and not info:
        text += f"; {count_text(notes, 'note')} hidden (--info)"
    return text


def _effort(summary: Summary) -> str:
    run = summary.run
    rate = rate_text(summary.covered.read_bytes, run.seconds)
    limit = f" (limit {size_text(run.limit_rate)}/s)" if run.limit_rate else ""
    return f"{duration_text(run.seconds)}, {rate}{limit}, {count_text(run.jobs, 'job')}"


def _heading(root: Root, verdicts: Sequence[Verdict], count: int) -> Iterator[str]:
    path = printable(str(root.path))
    if isinstance(root.content, LogDirectory):
        what = f"log directory{_node(root.directory)}, {count_text(count, 'partition')}"
        if root.directory is not None and root.stopped:
            marker = "clean marker set" if root.directory.clean_marker else "no clean marker"
            what += f", {marker}"
    elif isinstance(root.content, SourceError):
        what = "not read"
    else:
        surveys = [survey for one in verdicts for survey in one.surveys]
        what = count_text(len(surveys), "segment")
        what += f", {size_text(sum(survey.size for survey in surveys))}"
        first = [survey.first_offset for survey in surveys if survey.first_offset is not None]
        last = [survey.last_offset for survey in surveys if survey.last_offset is not None]
        if first and last:
            what += f", offsets {first[0]}..{last[-1]}"
    if root.liveness is not None:
        reason = printable(root.liveness.reason)
        what += f"; broker {root.liveness.state.value}: {reason}"
        if root.liveness.state is State.UNKNOWN:
            what += f"; read {AS_LIVE}"
        if root.liveness.readers:
            what += f"; read by {_names(root.liveness.readers)} too"
    yield from wrapped(f"{path}: {what}", 0)


def _names(processes: Sequence[Process]) -> str:
    named = ", ".join(printable(str(process)) for process in processes[:_NAMED])
    others = len(processes) - _NAMED
    return (
        named
        if others <= 0
        else f"{named} and {count_text(others, 'other process', 'other processes')}"
    )


def _node(directory: DirectoryFacts | None) -> str:
    """Which node's it is, where the directory says."""
    meta = None if directory is None or directory.meta is None else directory.meta.value
    return "" if meta is None or meta.node_id is None else f" of node {meta.node_id}"


def finding_lines(finding: Finding) -> Iterator[str]:
    """A finding that stands by itself, with the name of its file."""
    yield f"{severity_text(finding.code.severity)} {finding.code.name}"
    yield from wrapped(_sentence(finding), 7)


def _partitions(
    verdicts: Sequence[Verdict], forecasts: Mapping[Path, Forecast], *, info: bool
) -> Iterator[str]:
    """The findings of many partitions, the worst partition first, and each one's worst whole."""
    rows = [(one, _listed(one, info=info)) for one in _ranked(verdicts, forecasts)]
    names = [printable(one.target.path.name) for one, findings in rows if findings]
    width = min(max(map(len, names), default=0), 30)
    for one, findings in rows:
        for finding in findings[:1]:
            name = printable(one.target.path.name)
            yield f"{severity_text(finding.code.severity)} {name:{width}} {finding.code.name}"
            yield from wrapped(_sentence(finding), 7)
            yield from _doing(finding, 7)
        if findings[1:]:
            others = Counter(finding.code.name for finding in findings[1:])
            texts = [name if count == 1 else f"{name} ({count})" for name, count in others.items()]
            yield from wrapped(f"also: {', '.join(texts)}", 7)
        forecast = forecasts.get(one.target.path)
        if forecast is not None and (harm := harm_text(forecast)) is not None:
            yield from wrapped(f"next start: {harm}", 7)


def _segments(verdict: Verdict, *, info: bool) -> Iterator[str]:
    """Every segment of one partition, each with its findings, then those of no segment."""
    by_path: dict[Path, list[Finding]] = {}
    for finding in _listed(verdict, info=info):
        by_path.setdefault(finding.path, []).append(finding)
    sound: list[Survey] = []
    for survey in verdict.surveys:
        segment = survey.segment
        files = (segment.log, segment.index, segment.time_index)
        findings = [one for path in files if path for one in by_path.pop(path, [])]
        if not findings and not info:
            sound.append(survey)
            continue
        yield from _sound_segments(sound)
        sound.clear()
        yield _segment(survey, findings)
        gaps = {gap.damage.position: gap for gap in survey.gaps}
        yield from _detailed(findings, segment.log, gaps)
    yield from _sound_segments(sound)
    yield from _detailed(chain.from_iterable(by_path.values()), None, {})


def _sound_segments(surveys: Sequence[Survey]) -> Iterator[str]:
    """The lines of neighbours that are sound: of many, one for all."""
    if len(surveys) <= _SPELLED_OUT:
        for survey in surveys:
            yield _segment(survey, ())
        return
    first = [one.first_offset for one in surveys if one.first_offset is not None]
    last = [one.last_offset for one in surveys if one.last_offset is not None]
    offsets = f"{first[0]}..{last[-1]}" if first and last else "empty"
    size = size_text(sum(survey.size for survey in surveys))
    what = f"{count_text(len(surveys), 'segment')} from {surveys[0].segment.base_offset}"
    yield f"  {what:24}  {size:>11}  {'sound':6}  {offsets}"


def _segment(survey: Survey, findings: Sequence[Finding]) -> str:
    found = [finding.code.severity for finding in findings]
    severity = min(found, key=lambda severity: severity.rank, default=Severity.INFO)
    label = f"{'sound':6}" if severity is Severity.INFO else severity_text(severity)
    offsets = "empty"
    if survey.first_offset is not None:
        offsets = f"{survey.first_offset}..{survey.last_offset}"
    name = printable(survey.segment.log.name)
    return f"  {name}  {size_text(survey.size):>11}  {label}  {offsets}"


def _detailed(
    findings: Iterable[Finding], log: Path | None, gaps: Mapping[int, Gap]
) -> Iterator[str]:
    """Findings below the line of their segment, whose ``log`` need not be named again.

    ``gaps`` are those of the log, by position.
    """
    for finding in findings:
        yield f"    {severity_text(finding.code.severity)} {finding.code.name}"
        yield from wrapped(_sentence(finding, named=finding.path != log), 11)
        gap = None if finding.position is None else gaps.get(finding.position)
        if finding.path == log and gap is not None:
            yield from wrapped(neighbours_text(gap), 11)
        yield from _doing(finding, 11)


def _doing(finding: Finding, indent: int) -> Iterator[str]:
    """The command that helps, on one line to be pasted; those of kdump stand elsewhere."""
    if finding.remedy is not None and finding.remedy[0] != "kdump":
        yield f"{'':{indent}}do: {shell_text(finding.remedy)}"


def _sentence(finding: Finding, *, named: bool = True) -> str:
    """Where a finding is and what it says; ``named`` gives the name of its file too."""
    place = [printable(finding.path.name)] if named else []
    if finding.position is not None:
        place.append(f"at position {finding.position}")
    parts = [" ".join(place)] if place else []
    if finding.size is not None:
        parts.append(count_text(finding.size, "byte"))
    if finding.offsets is not None:
        parts.append(f"offsets {finding.offsets}")
    text = ", ".join(parts)
    if finding.detail is not None:
        text += f": {printable(str(finding.detail))}" if text else printable(str(finding.detail))
    if finding.repeats:
        text += f"; {finding.repeats:,} more of these in this file"
    return text


def _listed(verdict: Verdict, *, info: bool) -> list[Finding]:
    """The findings to be shown, worst first, else as they came."""
    return _shown(verdict.findings, info=info)


def _shown(findings: Iterable[Finding], *, info: bool) -> list[Finding]:
    shown = [one for one in findings if info or one.code.severity is not Severity.INFO]
    return sorted(shown, key=lambda finding: finding.code.severity.rank)


def _ranked(verdicts: Iterable[Verdict], forecasts: Mapping[Path, Forecast]) -> list[Verdict]:
    return sorted(verdicts, key=lambda one: _rank(one, forecasts.get(one.target.path)))


def _rank(verdict: Verdict, forecast: Forecast | None) -> tuple[int, bool, int]:
    """By the worst finding; of one severity first what a start breaks, then where it loses most."""
    severity = worst(verdict)
    rank = len(Severity) if severity is None else severity.rank
    if forecast is None:
        return rank, True, 0
    lost = forecast.lost.sound.count + forecast.lost.unreadable.count
    return rank, not forecast.causes, -lost
