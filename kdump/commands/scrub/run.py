"""The course of a scrub: quick pass, reading, report, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Literal

import click

from kdump.audit.codes import CODES
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.audit.run.reconcile import reconcile_directories, requested_findings
from kdump.audit.run.spread import Workers
from kdump.audit.run.verify import beside_broker
from kdump.audit.sizes.totals import DirectoryTotals, directory_totals
from kdump.audit.targets.scope import Scope, directories_of
from kdump.audit.targets.target import Root, without_nested
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.next_start import Conclusion
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.scrub.deadline import Deadline
from kdump.commands.scrub.json_lines import JsonScrub, json_status
from kdump.commands.scrub.metrics import metrics_lines
from kdump.commands.scrub.scrub import Manners, Scrub
from kdump.commands.scrub.text import TextScrub, text_status
from kdump.errors import UsageError
from kdump.format.lines.text import printable
from kdump.history.directories import knows_any
from kdump.history.records import DirectoryRun, DirectoryStatus, ReadPace
from kdump.history.state import ScrubState
from kdump.history.state_file import open_state, read_state
from kdump.output.files import check_metrics, reading_rights, replace_file, writing_rights
from kdump.storage.logdir import LogDirectory, Segment
from kdump.storage.rights import Rights
from kdump.storage.throttle import LIVE_RATE
from kdump.storage.workers import default_jobs
from kdump.ui.exits import NOTHING_READ, OK
from kdump.ui.progress import Mode, Progress
from kdump.ui.units import duration_text, size_text
from kdump.ui.verdicts.summary import Due, Summary, VerdictRun, summarize
from kdump.ui.version import version
from kdump.values import frozen


@frozen
class ScrubOptions:
    """The options of the command line. Times are in seconds; None for no limit.

    ``words`` are the state and the options of the paths, which a scrub of the rest repeats.
    """

    max_age_s: int
    max_duration_s: int | None
    limit_rate: int | None
    fast: bool
    metrics: Path | None
    form: Literal["text", "json"]
    progress: Mode
    fail_on: Severity
    info: bool
    quiet: bool
    words: tuple[str, ...]


def run_scrub(options: ScrubOptions, scope: Scope, path: Path, *, all_wrong: bool) -> int:
    """Scrub ``scope`` with the state in the file ``path``; return the exit code.

    ``all_wrong``: there is nothing to check at any of the paths, which has been said. The state is
    told of those where earlier runs have found something.
    """
    _refuse_segments(scope.roots)
    deadline = Deadline(options.max_duration_s)
    quiet = options.quiet and options.progress == "auto"
    manners = _manners(options, scope)
    roots = [root.path for root in scope.roots]
    rights = writing_rights("--state", path, roots)
    metrics = None
    if options.metrics is not None:
        check_metrics(options.metrics, path)
        metrics = _Metrics(options.metrics, writing_rights("--prometheus", options.metrics, roots))
    with (
        open_state(path, rights) as state,
        Progress("none" if quiet else options.progress) as meter,
    ):
        if all_wrong and not knows_any(state, scope.roots):
            return NOTHING_READ.exit_code
        meter.expect(len(scope.targets), "partitions")
        run = Scrub(state, scope, manners, deadline, options.max_age_s, version())
        silent = all_wrong and options.form == "text"
        return _Course(options, scope, state, run, meter, metrics, silent=silent).follow()


def show_status(path: Path, form: Literal["text", "json"]) -> int:
    """Print what the state in the file ``path`` says of all its log directories."""
    now_ms = time.time_ns() // 1_000_000
    with read_state(path, reading_rights(path)) as state:
        found = [(status, state.pace(status, now_ms)) for status in state.status(now_ms)]
    lines = json_status(path, found) if form == "json" else text_status(found, now_ms)
    for line in lines:
        click.echo(line)
    return OK


@frozen
class _Metrics:
    """The file of ``--prometheus``, and the rights to write it with."""

    path: Path
    rights: Rights | None

    def write(self, status: Sequence[DirectoryStatus], totals: Sequence[DirectoryTotals]) -> None:
        """Write the metrics; node_exporter, which reads them, is another user."""
        text = "".join(metrics_lines(status, totals))
        replace_file(self.path, text.encode(), 0o644, self.rights)


class _Course:
    """One run, from its quick pass to its report."""

    def __init__(
        self,
        options: ScrubOptions,
        scope: Scope,
        state: ScrubState,
        run: Scrub,
        meter: Progress,
        metrics: _Metrics | None,
        *,
        silent: bool,
    ) -> None:
        self._options = options
        self._scope = scope
        self._state = state
        self._run = run
        self._meter = meter
        self._metrics = metrics
        self._silent = silent
        self._started = time.monotonic()
        self._starts = Starts(scope.roots, scope.context.config)

    def follow(self) -> int:
        """Go through the run, and return its exit code."""
        lines, verdicts = list[str](), list[Verdict]()
        held = self._options.quiet or self._silent
        report = self._report(lines.append if held else click.echo, verdicts)
        found = requested_findings(reconcile_directories(self._scope.context), self._scope)
        report.directories(found)
        stopped_by = None
        totals: tuple[DirectoryTotals, ...] = ()
        try:
            for verdict in self._run.quick_pass(Conclusion(frozenset())):
                report.preview(verdict)
                self._meter.advance(1)
            if self._run.checked_all:
                totals = () if self._metrics is None else self._totals()
                self._meter.expect(self._run.take_inventory())
                self._run.read(self._meter.advance)
                self._run.forecast_corrupt()
        except KeyboardInterrupt:
            stopped_by = SIGINT
        except SystemExit:  # raised at SIGTERM
            stopped_by = SIGTERM
        verdicts += self._run.verdicts()
        for verdict in verdicts:
            report.add(verdict)
        full = tuple(self._starts.space_findings())
        report.directories(full)
        found += full
        summary = self._summarize(found, verdicts, self._starts, stopped_by)
        directories = list(self._directories(found, verdicts, stopped_by))
        self._run.end(directories, signalled=stopped_by is not None)
        now_ms = time.time_ns() // 1_000_000
        status = [(each, self._state.pace(each, now_ms)) for each in self._run.status(now_ms)]
        due = Due(
            sum(each.due_segments for each, _ in status), sum(each.due_bytes for each, _ in status)
        )
        summary = replace(summary, run=replace(summary.run, due=due))
        report.finish_scrub(summary, status, now_ms)
        if summary.exit_code != OK and not self._silent:
            for line in lines:
                click.echo(line)
        self._warn(status)
        if self._metrics is not None and self._run.checked_all:
            self._metrics.write([each for each, _ in status], totals)
        return summary.exit_code

    def _totals(self) -> tuple[DirectoryTotals, ...]:
        """Measure the log directories that are read as a whole."""
        scope = self._scope
        roots = [root for root in scope.roots if isinstance(root.content, LogDirectory)]
        own = without_nested(scope.targets)
        targets = [target for target in own if target.error is None]
        spread = Workers(self._run.manners.jobs)
        return directory_totals(targets, directories_of(roots), scope.context, spread)

    def _report(
        self, emit: Callable[[str], None], verdicts: Sequence[Verdict]
    ) -> TextScrub | JsonScrub:
        roots, counts = self._scope.roots, [len(part) for part in self._scope.parts]
        if self._options.form == "json":
            return JsonScrub(
                emit, roots, counts, verdicts, self._starts, depth="scrub", command="scrub"
            )
        return TextScrub(
            emit,
            self._meter.note,
            roots,
            counts,
            verdicts,
            self._starts,
            options=self._options.words,
            info=self._options.info,
        )

    def _summarize(
        self,
        found: Sequence[Finding],
        verdicts: Sequence[Verdict],
        starts: Starts,
        stopped_by: Signals | None,
    ) -> Summary:
        manners = self._run.manners
        read_bytes = sum(verdict.covered.read_bytes for verdict in verdicts)
        run = VerdictRun(
            depth="scrub",
            jobs=manners.jobs,
            limit_rate=manners.limit_rate,
            fail_on=self._options.fail_on,
            total=len(self._scope.targets),
            # A log may have grown since it was listed.
            total_bytes=max(sum(verdict.covered.size for verdict in verdicts), read_bytes),
            seconds=time.monotonic() - self._started,
            stopped_by=stopped_by,
            out_of_time=not self._run.checked_all,
        )
        return summarize(run, found, verdicts, starts)

    def _directories(
        self, found: Sequence[Finding], verdicts: Sequence[Verdict], stopped_by: Signals | None
    ) -> Iterator[DirectoryRun]:
        """Yield what was found at each root, with the exit code that it alone would have."""
        start = 0
        for root, part in zip(self._scope.roots, self._scope.parts, strict=True):
            own = verdicts[start : start + len(part)]
            start += len(part)
            top = [finding for finding in found if finding.is_below(root.path)]
            starts = Starts([root], self._scope.context.config)
            starts.add_findings(top)
            for verdict in own:
                starts.add(verdict, verdict.forecast)
            summary = self._summarize(top, own, starts, stopped_by)
            counts = {
                (CODES[name].severity.value, name): count for name, count in summary.codes.items()
            }
            yield DirectoryRun(summary.covered.read_bytes, counts, summary.exit_code)

    def _warn(self, status: Iterable[tuple[DirectoryStatus, ReadPace]]) -> None:
        """Print what keeps the runs from reading everything within ``--max-age``."""
        if not self._run.checked_all:
            _note(
                "expected a --max-duration in which at least the names, small files and ends of "
                "all logs can be checked, found that the time was over before: nothing was read"
            )
            return
        for each, pace in status:
            if not pace.is_too_slow(each):
                continue
            found = "that nothing was read"
            if pace.read_bytes:
                found = f"one at which that takes {duration_text(pace.time_for(each.log_bytes))}"
            _note(
                f"{each.path}: expected a pace at which everything is read within "
                f"{duration_text(each.run.max_age_s)}, found {found}: raise --max-duration, "
                "--limit-rate or --max-age, or scrub more often"
            )
        if self._run.too_large is not None:
            _note(
                "expected segments that can be read within --max-duration, found one of "
                f"{size_text(self._run.too_large)}: raise --max-duration or --limit-rate"
            )


def _manners(options: ScrubOptions, scope: Scope) -> Manners:
    if options.fast and not beside_broker(scope.targets):
        return Manners(default_jobs(), options.limit_rate or 0, mapped=True)
    rate = LIVE_RATE if options.limit_rate is None else options.limit_rate
    return Manners(1, rate, mapped=False)


def _refuse_segments(roots: Iterable[Root]) -> None:
    for root in roots:
        if isinstance(root.content, Segment):
            raise UsageError(
                f"{root.path}: expected a log directory or a partition directory, found a segment: "
                "kdump verify reads it"
            )


def _note(text: str) -> None:
    click.echo(f"kdump: {printable(text)}", err=True)
