"""The sums of a ``verify`` run, and its exit code.

Text and JSON reports show these numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from signal import Signals
from typing import Literal

from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import Losses, losses_of
from kdump.audit.verdicts.state import RunState, state_of
from kdump.audit.verdicts.verdict import Coverage, Verdict
from kdump.storage.paths import AnyPath
from kdump.ui.exits import Ending
from kdump.values import frozen

Depth = Literal["quick", "default", "deep", "scrub"]


@frozen
class LeftOut:
    """Segments of which only the ends were read, because a scrub has read them."""

    segments: int
    log_bytes: int


@frozen
class Due:
    """Segments that a scrub has not read, or has read too long ago."""

    segments: int
    log_bytes: int


@frozen
class VerdictRun:
    """The options of a run, and its course.

    ``depth`` is what was read: by default every header and checksum, by ``scrub`` those that were
    due. ``limit_rate`` is in bytes a
    second, 0 for no limit. ``total`` is the number of partitions to verify. ``stopped_by`` is the
    signal that ended the run early. ``out_of_time``: its time was over before everything was
    checked at all. ``left_out`` is what
    ``--changed-since-last`` left out, None without it. ``remembers``: it leaves out what earlier
    runs have read, and remembers what it reads. ``due`` is what a scrub leaves to the next one.
    """

    depth: Depth
    jobs: int
    limit_rate: int
    fail_on: Severity
    total: int
    total_bytes: int
    seconds: float
    stopped_by: Signals | None = None
    out_of_time: bool = False
    left_out: LeftOut | None = None
    remembers: bool = False
    due: Due = Due(0, 0)

    @property
    def cut_short(self) -> bool:
        """Whether the run ended before everything was checked."""
        return self.stopped_by is not None or self.out_of_time


@frozen
class Summary:
    """The sums of a run. ``severities`` and ``codes`` count findings, with unlisted repeats.

    ``partitions`` counts partitions as ``worst_severity`` has them, None for those that are OK.
    """

    run: VerdictRun
    covered: Coverage
    severities: Counter[Severity]
    codes: Counter[str]
    partitions: Counter[Severity | None]
    losses: Losses

    @property
    def verdict(self) -> Severity | None:
        """The worst severity of findings, ERROR if records are lost; None if all is sound."""
        if self.losses.any:
            return Severity.ERROR
        found = (severity for severity in self.severities if self.severities[severity])
        worst_found = min(found, key=lambda severity: severity.rank, default=Severity.INFO)
        return None if worst_found is Severity.INFO else worst_found

    @property
    def state(self) -> RunState:
        """What is known after the run. ERROR comes before what is unread."""
        cut_short = self.run.cut_short or self._unread
        worst = Severity.INCOMPLETE if cut_short else self.verdict
        return state_of(
            Severity.ERROR if self.verdict is Severity.ERROR else worst, whole=self.whole
        )

    @property
    def holds_bytes(self) -> bool:
        """Whether the logs hold a byte that could be checked."""
        return bool(self.covered.size or self.covered.read_bytes)

    @property
    def whole(self) -> bool:
        """Whether this run, or earlier ones that it builds on, read all that could show an error.

        A scrub answers for the contents of logs alone.
        """
        if self.run.depth == "quick" or not self.holds_bytes or self.run.due.segments:
            return False
        return self.run.depth == "scrub" or self.losses.starts_exact or not self.losses.stopped

    @property
    def exit_code(self) -> int:
        """The exit code of the run."""
        fatal = self.verdict is Severity.ERROR
        if self.run.fail_on is Severity.WARNING:
            fatal |= self.verdict is Severity.WARNING
        return Ending(self.run.stopped_by, unread=self._unread, problems=fatal).exit_code

    @property
    def _unread(self) -> bool:
        """Whether something that was asked for was not read, or is not remembered."""
        unread = self.severities[Severity.INCOMPLETE] or self.covered.remembered.unwritten
        return self.run.out_of_time or bool(unread)


def summarize(
    run: VerdictRun, directories: Sequence[Finding], verdicts: Sequence[Verdict], starts: Starts
) -> Summary:
    """Return the sums of the findings, the coverage and the losses of ``verdicts``.

    ``directories`` are findings at the top of log directories; some concern a partition.
    """
    severities: Counter[Severity] = Counter()
    names: Counter[str] = Counter()
    partitions: Counter[Severity | None] = Counter()
    top_findings: dict[AnyPath, list[Finding]] = defaultdict(list)
    for finding in directories:
        top_findings[finding.path].append(finding)
    covered = Coverage()

    def count(findings: Iterable[Finding]) -> None:
        for finding in findings:
            severities[finding.code.severity] += 1 + finding.repeats
            names[finding.code.name] += 1 + finding.repeats

    count(directories)
    # Verdicts are many, and held compressed: each is opened once for all of these.
    for verdict in verdicts:
        count(verdict.findings)
        partitions[worst_severity(verdict, top_findings.get(verdict.target.path, ()))] += 1
        covered += verdict.covered
    forecasts = ((verdict, verdict.forecast) for verdict in verdicts)
    losses = losses_of(
        forecasts, starts.top_findings, whole=not run.cut_short, stopped=starts.stopped
    )
    return Summary(run, covered, severities, names, partitions, losses)


def worst_severity(verdict: Verdict, others: Iterable[Finding] = ()) -> Severity | None:
    """Return the worst severity of one partition; None if it is OK.

    Findings of severity INFO do not count. ``others`` are findings about it elsewhere. A start that
    follows and fails, or loses records, is an error.
    """
    if verdict.target.stopped and verdict.forecast is not None and verdict.forecast.is_error:
        return Severity.ERROR
    found = [
        finding.code.severity
        for finding in (*verdict.findings, *others)
        if finding.code.severity is not Severity.INFO
    ]
    return min(found, key=lambda severity: severity.rank, default=None)


def rank_verdicts(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts in the order of a report: the worst first."""
    return sorted(verdicts, key=_rank)


def _rank(verdict: Verdict) -> tuple[int, bool, int]:
    """Return the sort key: the worst finding, whether a start fails, the loss at a start."""
    severity, forecast = worst_severity(verdict), verdict.forecast
    rank = len(Severity) if severity is None else severity.rank
    if forecast is None:
        return rank, True, 0
    lost = forecast.lost.sound.count + forecast.lost.unreadable.count
    return rank, not forecast.causes, -lost
