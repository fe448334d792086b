"""The sums and the exit code of a run.

Text and JSON reports both say what stands here; it must never print.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kdump.audit.codes import Severity
from kdump.audit.findings import Finding
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import Losses, losses_of
from kdump.audit.verdicts.verdict import Coverage, Verdict
from kdump.cli.ui.exits import INCOMPLETE, OK, PROBLEMS

Depth = Literal["quick", "default", "deep"]


@dataclass(frozen=True, slots=True)
class Run:
    """How a run was asked for, and how it went.

    ``depth`` is how far it went: by default every header and checksum. ``limit_rate`` is in bytes a
    second, 0 for none. ``total`` is the number of partitions there were to judge, ``stopped_by``
    the exit code of the signal that ended it early, if one did.
    """

    depth: Depth
    jobs: int
    limit_rate: int
    fail_on: Severity
    total: int
    total_bytes: int
    seconds: float
    stopped_by: int | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The sum of a run: ``severities`` and ``codes`` count findings, unlisted repeats included.

    ``partitions`` counts partitions by the severity of the worst finding, None for sound ones.
    """

    run: Run
    covered: Coverage
    severities: Counter[Severity]
    codes: Counter[str]
    partitions: Counter[Severity | None]
    losses: Losses

    @property
    def verdict(self) -> Severity | None:
        """The worst that was found, or that the next start does; None where all is sound."""
        if self.losses.any:
            return Severity.ERROR
        found = (severity for severity in self.severities if self.severities[severity])
        worst_found = min(found, key=lambda severity: severity.rank, default=Severity.INFO)
        return None if worst_found is Severity.INFO else worst_found

    @property
    def exit_code(self) -> int:
        """The exit code of the run; what could not be judged comes before what is bad."""
        if self.run.stopped_by is not None:
            return self.run.stopped_by
        if self.severities[Severity.INCOMPLETE]:
            return INCOMPLETE
        fatal = self.verdict is Severity.ERROR
        if self.run.fail_on is Severity.WARNING:
            fatal |= self.verdict is Severity.WARNING
        return PROBLEMS if fatal else OK


def summarize(
    run: Run, directories: Sequence[Finding], verdicts: Sequence[Verdict], starts: Starts
) -> Summary:
    """Add up the findings and coverage of ``verdicts``, and what the next ``starts`` cost.

    ``directories`` are findings at the top of log directories; some are about a partition.
    """
    severities: Counter[Severity] = Counter()
    names: Counter[str] = Counter()
    partitions: Counter[Severity | None] = Counter()
    beside: dict[Path, list[Finding]] = defaultdict(list)
    for finding in directories:
        beside[finding.path].append(finding)
    for one in verdicts:
        partitions[_worst((*one.findings, *beside.get(one.target.path, ())))] += 1
    for finding in (*directories, *(each for one in verdicts for each in one.findings)):
        severities[finding.code.severity] += 1 + finding.repeats
        names[finding.code.name] += 1 + finding.repeats
    covered = sum((one.covered for one in verdicts), Coverage())
    forecasts = [(one, one.forecast) for one in verdicts]
    losses = losses_of(forecasts, starts.top_causes, whole=run.stopped_by is None)
    return Summary(run, covered, severities, names, partitions, losses)


def worst(verdict: Verdict) -> Severity | None:
    """The worst severity among the findings of one partition; None where it is sound.

    Notes do not make a partition less sound.
    """
    return _worst(verdict.findings)


def _worst(findings: Iterable[Finding]) -> Severity | None:
    found = [
        finding.code.severity for finding in findings if finding.code.severity is not Severity.INFO
    ]
    return min(found, key=lambda severity: severity.rank, default=None)
