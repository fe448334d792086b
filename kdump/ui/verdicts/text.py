"""The text report of ``verify``.

The lines are for people, the worst first. They may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from kdump.audit.codes import CODES
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.finding_code import Outcome, Severity
from kdump.audit.findings import AS_LIVE, Finding
from kdump.audit.startup.forecast import Forecast, worst_outcome
from kdump.audit.survey.survey import Gap, Survey
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import losses_of
from kdump.audit.verdicts.remembered import Remembered
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.liveness import BrokerState, Process
from kdump.storage.logdir import LogDirectory
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.paths import AnyPath
from kdump.ui.folding import fold
from kdump.ui.paragraphs import LABEL, WIDTH, paragraph, wrap
from kdump.ui.units import count_text, duration_text, part_text, rate_text, size_text
from kdump.ui.verdicts.entries import command_lines, findings_lines, partition_entries, sentence
from kdump.ui.verdicts.first_line import verify_about, verify_check
from kdump.ui.verdicts.forecast_text import (
    broker_end_text,
    directory_sentences,
    space_text,
    stopping_text,
)
from kdump.ui.verdicts.partition import neighbours_text, partition_lines, remedy_lines, remote_lines
from kdump.ui.verdicts.plan import directory_plans, findings_of_roots, plan_lines
from kdump.ui.verdicts.summary import Depth, Summary, rank_verdicts
from kdump.ui.verdicts.verdict_text import LABELS, lost_text, severity_text, verdict_lines

#: Findings in larger partitions are also printed at once: the report may take long.
_SOON_BYTES: Final = 1 << 30
#: From so many bytes on the rate of reading is shown.
_LARGE_BYTES: Final = 1 << 30
#: The number of processes that read a directory and are named.
_NAMED: Final = 3
#: The number of sound neighbouring segments that have a line each.
_SPELLED_OUT: Final = 2
_DEPTHS: Final[Mapping[Depth, str]] = {
    "quick": "only names, small files, and the ends of logs and indexes (--quick)",
    "default": "every header and checksum (--deep reads the records too)",
    "deep": "every header, checksum and record",
    "scrub": "every header and checksum of due segments",
}
_OF_MANIFESTS: Final = "every header and checksum (a manifest has no records)"


class TextReport:
    """Emits the report at the end.

    ``counts`` has the number of partitions for each of ``roots``. The caller appends to
    ``verdicts``, in that order; an interrupted run leaves out the last ones. ``options`` are those
    that a command for the rest repeats. ``info`` lists findings of severity INFO too.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        note: Callable[[str], None],
        roots: Sequence[Root],
        counts: Sequence[int],
        verdicts: Sequence[Verdict],
        starts: Starts,
        *,
        options: Sequence[str],
        info: bool,
    ) -> None:
        self._emit = emit
        self._options = options
        self._note = note
        self._roots = roots
        self._counts = counts
        self._info = info
        self._top: tuple[Finding, ...] = ()
        self._verdicts = verdicts
        self._starts = starts

    def directories(self, findings: Iterable[Finding]) -> None:
        """Add the findings at the top of log directories."""
        more = tuple(findings)
        self._top += more
        self._starts.add_findings(more)

    def preview(self, verdict: Verdict) -> None:
        """Print at once the errors and warnings of the quick pass in a large partition."""
        for finding in verdict.findings if verdict.covered.size > _SOON_BYTES else ():
            if finding.code.severity in (Severity.ERROR, Severity.WARNING):
                name = printable(verdict.target.name)
                self._note(f"{LABELS[finding.code.severity]} {name} {finding.code.name}")

    def add(self, verdict: Verdict) -> None:
        """Add one partition and its forecast."""
        self._starts.add(verdict, verdict.forecast)

    def finish(self, summary: Summary) -> None:
        """Emit the report."""
        manifests = any(isinstance(root.path, ManifestPath) for root in self._roots)
        check = verify_check(summary, self._options, [root.path for root in self._roots])
        about = verify_about(summary, manifests=manifests)
        for line in verdict_lines(summary.state, about, summary.losses, check):
            self._emit(line)
        start, tops = 0, findings_of_roots(self._roots, self._top)
        for root, count, top in zip(self._roots, self._counts, tops, strict=True):
            verdicts = self._verdicts[start : start + count]
            known, several = (_forecasts(verdicts), self._starts), len(self._roots) > 1
            for line in root_lines(root, top, verdicts, *known, count, self._info, several=several):
                self._emit(line)
            start += count
        for line in summary_lines(summary, info=self._info, manifests=manifests):
            self._emit(line)
        for _, steps in directory_plans(self._roots, self._counts, tops, self._verdicts):
            for line in plan_lines(steps):
                self._emit(line)


def _forecasts(verdicts: Iterable[Verdict]) -> dict[AnyPath, Forecast]:
    """Return the forecasts that there are, by the path of their partition."""
    found = ((verdict.target.path, verdict.forecast) for verdict in verdicts)
    return {path: forecast for path, forecast in found if forecast is not None}


def root_lines(
    root: Root,
    top: Sequence[Finding],
    verdicts: Sequence[Verdict],
    forecasts: Mapping[AnyPath, Forecast],
    starts: Starts,
    count: int,
    info: bool,
    *,
    several: bool,
) -> Iterator[str]:
    """Yield the report on one path with ``count`` partitions.

    ``top`` are findings at the top of its log directory. ``forecasts`` are by the path of a
    partition. ``several``: the run has other paths, so that this one gets a line with its own loss.
    """
    when = "startup" if root.stopped else "if it dies"
    yield from _heading(root, verdicts, count)
    yield from findings_lines(_sort_findings(top, info=info))
    if isinstance(root.content, LogDirectory) and root.directory is not None:
        yield from _partitions(verdicts, forecasts, info=info)
        yield from remote_lines(verdicts, named=True)
        start = starts.directory(root.directory.directory.path)
        losses = losses_of((verdict, forecasts.get(verdict.target.path)) for verdict in verdicts)
        if several and losses.now:
            yield paragraph("lost", lost_text(losses))
        yield paragraph(when, "; ".join(directory_sentences(start)))
        if start.space is not None:
            yield paragraph("disk", space_text(start.space))
    else:
        for verdict in verdicts:
            yield from _segments(verdict, info=info)
            around = [] if root.directory is None else starts.causes(root.directory.directory.path)
            yield from (paragraph(when, stopping_text(cause)) for cause in around)
            forecast = forecasts.get(verdict.target.path)
            stops = [*around, *(() if forecast is None else forecast.causes)]
            if root.directory is not None and worst_outcome(stops) is Outcome.OFFLINE:
                yield paragraph("", broker_end_text(starts.ends_broker(root.directory.directory)))
            yield from remote_lines((verdict,), named=False)
            for label, text in partition_lines(verdict, forecast):
                yield paragraph(label, text)
            yield from remedy_lines(verdict, forecast)
            if verdict.facts is not None:
                yield paragraph("configs", f"from {verdict.facts.settings.origin}")


def summary_lines(summary: Summary, *, info: bool, manifests: bool) -> Iterator[str]:
    """Yield the last lines: what the codes mean, the coverage and the result.

    ``manifests``: some of what was checked is in manifests.
    """
    run, covered = summary.run, summary.covered
    if names := _codes_to_explain(summary):
        yield f"{'meaning':{LABEL}}{shell_text(('kdump', 'explain', *names))}"
    records = count_text(covered.records, "record")
    if covered.wrappers:
        records += f" and those in {count_text(covered.wrappers, 'compressed wrapper')}"
    by_headers = manifests and run.depth == "default"
    yield paragraph(
        "checked",
        f"{count_text(covered.partitions, 'partition')}, "
        f"{count_text(covered.segments, 'segment')}, "
        f"{part_text(covered.read_bytes, run.total_bytes)}, "
        f"{count_text(covered.batches, 'batch', 'batches')}, "
        f"{records}: {_OF_MANIFESTS if by_headers else _DEPTHS[run.depth]}",
    )
    if run.left_out is not None:
        segments = count_text(run.left_out.segments, "segment")
        size = size_text(run.left_out.log_bytes)
        yield paragraph(
            "left out",
            f"{segments}, {size}, unchanged since a scrub read them: only their ends were checked",
        )
    if run.remembers:
        yield from _remembered(covered.remembered)
    yield paragraph(
        "result",
        f"{_result_text(summary)}; {_effort_text(summary, info=info)}; nothing was changed",
    )


def _remembered(left_out: Remembered) -> Iterator[str]:
    """Yield what earlier runs have read, and what went wrong with the state."""
    text = f"{count_text(left_out.segments, 'segment')}, {size_text(left_out.log_bytes)}"
    if left_out.oldest_ms is not None:
        oldest = time_text(left_out.oldest_ms)
        text += f", unchanged since they were read, the first of them at {oldest}"
    yield paragraph("not read", text)
    troubles = [
        (left_out.unusable, "could not be used: segments were read again"),
        (left_out.unwritten, "could not be written: the next run reads segments again"),
    ]
    for count, what in troubles:
        if count:
            yield paragraph("state", f"{count_text(count, 'file')} {what}")
    if left_out.text:
        yield paragraph("", printable(left_out.text))


def _codes_to_explain(summary: Summary) -> list[str]:
    """Return the worst codes, as many as fit on a line with ``kdump explain``."""
    found = sorted(
        (CODES[name] for name in summary.codes if CODES[name].severity is not Severity.INFO),
        key=lambda code: code.severity.rank,
    )
    room, names = WIDTH - LABEL - len("kdump explain"), list[str]()
    for code in found:
        room -= 1 + len(code.name)
        if room >= 0:
            names.append(code.name)
    return names


def _result_text(summary: Summary) -> str:
    partitions = summary.partitions
    fine = "without a finding" if summary.run.depth == "quick" else "OK"
    parts = [f"{partitions[None]:,} {fine}"]
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
    if summary.run.cut_short:
        text = f"interrupted: {text}, {summary.run.total - partitions.total():,} not checked"
    return text


def _effort_text(summary: Summary, *, info: bool) -> str:
    run, read = summary.run, summary.covered.read_bytes
    text = duration_text(run.seconds)
    limit = f" (limit {size_text(run.limit_rate)}/s)" if run.limit_rate else ""
    if info or limit or read >= _LARGE_BYTES:  # else it says nothing of the disk
        text += f", {rate_text(read, run.seconds)}{limit}"
    return f"{text}, {count_text(run.jobs, 'job')}" if info else text


def _heading(root: Root, verdicts: Sequence[Verdict], count: int) -> Iterator[str]:
    path = printable(str(root.path))
    if isinstance(root.content, LogDirectory):
        what = f"log directory{_node_text(root.directory)}, {count_text(count, 'partition')}"
        if root.directory is not None and root.stopped:
            marker = (
                "clean shutdown file" if root.directory.clean_marker else "no clean shutdown file"
            )
            what += f", {marker}"
    elif isinstance(root.content, SourceError):
        what = "not read"
    else:
        surveys = [survey for verdict in verdicts for survey in verdict.surveys]
        what = count_text(len(surveys), "segment")
        what += f", {size_text(sum(survey.size for survey in surveys))}"
        first = [survey.first_offset for survey in surveys if survey.first_offset is not None]
        last = [survey.last_offset for survey in surveys if survey.last_offset is not None]
        if first and last:
            what += f", offsets {first[0]}..{last[-1]}"
    if root.liveness is not None:
        reason = printable(root.liveness.reason)
        what += f"; broker {root.liveness.state.value}: {reason}"
        if root.liveness.state is BrokerState.UNKNOWN:
            what += f"; read {AS_LIVE}"
        if root.liveness.readers:
            what += f"; read by {_processes_text(root.liveness.readers)} too"
    yield from wrap(f"{path}: {what}", 0)


def _processes_text(processes: Sequence[Process]) -> str:
    names = ", ".join(printable(str(process)) for process in processes[:_NAMED])
    others = len(processes) - _NAMED
    return (
        names
        if others <= 0
        else f"{names} and {count_text(others, 'other process', 'other processes')}"
    )


def _node_text(directory: DirectoryFacts | None) -> str:
    """Return the node of a log directory, as its meta.properties names it."""
    meta = None if directory is None or directory.meta is None else directory.meta.value
    return "" if meta is None or meta.node_id is None else f" of node {meta.node_id}"


def _partitions(
    verdicts: Sequence[Verdict], forecasts: Mapping[AnyPath, Forecast], *, info: bool
) -> Iterator[str]:
    """Yield the worst finding of each partition, and the codes of its other findings.

    The worst partition comes first.
    """
    rows = [(verdict, _listed_findings(verdict, info=info)) for verdict in rank_verdicts(verdicts)]
    names = [printable(verdict.target.name) for verdict, findings in rows if findings]
    width = min(max(map(len, names), default=0), 30)
    yield from fold(
        entry for verdict, findings in rows for entry in partition_entries(verdict, findings, width)
    )


def _segments(verdict: Verdict, *, info: bool) -> Iterator[str]:
    """Yield every segment of one partition with its findings, then the findings of other files."""
    by_path: dict[AnyPath, list[Finding]] = {}
    for finding in _listed_findings(verdict, info=info):
        by_path.setdefault(finding.path, []).append(finding)
    sound: list[Survey] = []
    for survey in verdict.surveys:
        segment = survey.segment
        files = (segment.log, segment.index, segment.time_index)
        findings = [finding for path in files if path for finding in by_path.pop(path, [])]
        if not findings and not info:
            sound.append(survey)
            continue
        yield from _sound_segments(sound)
        sound.clear()
        yield _segment(survey, findings)
        gaps = {gap.damage.position: gap for gap in survey.gaps}
        yield from _finding_details(findings, segment.log, gaps)
    yield from _sound_segments(sound)
    yield from _finding_details(chain.from_iterable(by_path.values()), None, {})


def _sound_segments(surveys: Sequence[Survey]) -> Iterator[str]:
    """Yield a line for each of a few sound neighbouring segments, or one line for many."""
    if len(surveys) <= _SPELLED_OUT:
        for survey in surveys:
            yield _segment(survey, ())
        return
    first = [survey.first_offset for survey in surveys if survey.first_offset is not None]
    last = [survey.last_offset for survey in surveys if survey.last_offset is not None]
    offsets = f"{first[0]}..{last[-1]}" if first and last else "empty"
    size = size_text(sum(survey.size for survey in surveys))
    what = f"{count_text(len(surveys), 'segment')} from {surveys[0].segment.base_offset}"
    label = "OK" if all(map(is_read, surveys)) else ""
    yield f"  {what:24}  {size:>11}  {label:6}  {offsets}"


def is_read(survey: Survey) -> bool:
    """Return whether the whole log was read, and not its end alone."""
    return survey.complete and survey.read_bytes == survey.size


def _segment(survey: Survey, findings: Sequence[Finding]) -> str:
    found = [finding.code.severity for finding in findings]
    severity = min(found, key=lambda severity: severity.rank, default=Severity.INFO)
    label = f"{'OK' if is_read(survey) else '':6}"
    if severity is not Severity.INFO:
        label = severity_text(severity)
    offsets = "empty"
    if survey.first_offset is not None:
        offsets = f"{survey.first_offset}..{survey.last_offset}"
    name = printable(survey.segment.log.name)
    return f"  {name}  {size_text(survey.size):>11}  {label}  {offsets}"


def _finding_details(
    findings: Iterable[Finding], log: AnyPath | None, gaps: Mapping[int, Gap]
) -> Iterator[str]:
    """Yield findings below the line of their segment, whose ``log`` is not named again.

    ``gaps`` are the gaps of the log, by position.
    """
    for finding in findings:
        yield f"    {severity_text(finding.code.severity)} {finding.code.name}"
        yield from wrap(sentence(finding, named=finding.path != log), 11)
        gap = None if finding.position is None else gaps.get(finding.position)
        if finding.path == log and gap is not None:
            yield from wrap(neighbours_text(gap), 11)
        yield from command_lines(finding, 11)


def _listed_findings(verdict: Verdict, *, info: bool) -> list[Finding]:
    """Return the findings to list, the worst first, otherwise in their order."""
    return _sort_findings(verdict.findings, info=info)


def _sort_findings(findings: Iterable[Finding], *, info: bool) -> list[Finding]:
    listed = [finding for finding in findings if info or finding.code.severity is not Severity.INFO]
    return sorted(listed, key=lambda finding: finding.code.severity.rank)
