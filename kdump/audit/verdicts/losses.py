"""The losses of a whole run: now, and further ones at the next start.

Spec: KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kdump.audit.checks.assigned_replicas import (
    REPLICA_DIRECTORY_MISSING_ONLY,
    REPLICA_SET_ASIDE_ONLY,
)
from kdump.audit.checks.changes import SEGMENT_REMOVED_UNPROVEN
from kdump.audit.checks.directory import (
    LOG_DIRECTORY_BLANK,
    LOG_DIRECTORY_FILE,
    LOG_DIRECTORY_MISSING,
)
from kdump.audit.checks.futures import FUTURE_ALONE
from kdump.audit.checks.missing_offsets import OFFSETS_MISSING
from kdump.audit.checks.node import LOG_DIRECTORY_EMPTIED, REPLICA_MISSING_ONLY
from kdump.audit.checks.partition_files import EPOCHS_BEYOND_END
from kdump.audit.checks.segments import LOG_START_UNEXPLAINED
from kdump.audit.finding_code import FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast, causes_of, harms_of, worst_outcome
from kdump.audit.survey.recovery import Span
from kdump.audit.verdicts.verdict import Verdict
from kdump.values import frozen

#: The codes with which nothing decides how many records are lost now: the reason, weightiest first.
UNDECIDED: Final[Mapping[FindingCode, str]] = {
    REPLICA_MISSING_ONLY: "a replica is missing",
    REPLICA_SET_ASIDE_ONLY: "a replica is here as -stray or -delete alone",
    REPLICA_DIRECTORY_MISSING_ONLY: "replicas are in no log directory that is in sight",
    LOG_DIRECTORY_EMPTIED: "the partitions of a log directory are missing",
    LOG_DIRECTORY_BLANK: "a log directory is missing",
    LOG_DIRECTORY_MISSING: "a log directory is missing",
    LOG_DIRECTORY_FILE: "a log directory is missing",
    OFFSETS_MISSING: "offsets are missing",
    LOG_START_UNEXPLAINED: "offsets are missing",
    EPOCHS_BEYOND_END: "offsets are missing",
    SEGMENT_REMOVED_UNPROVEN: "segments are gone",
    FUTURE_ALONE: "a future log has no current one",
}


@frozen
class Losses:
    """The losses in all partitions of a run: now, and further ones at the next start.

    ``now_partitions`` and ``further_partitions`` count the partitions that lose records. ``name``
    and ``further_name`` are that of the directory if it is one, else None. ``corrupt`` and
    ``missing`` tell whether records are unreadable in their log, or are not in it. ``acute``: the
    next start does harm where no broker runs, whatever runs on other paths.
    ``outcome`` is the worst outcome of the next start. ``strays`` counts the partitions with
    records that it renames, so that they are no longer served. ``now_exact`` and ``further_exact``
    are False if something that was not read, or is unknown, may increase the loss. ``undecided``
    are the codes found with which nothing decides how many records are lost now. ``harms`` are
    those of the next start that no number of records shows. ``stopped``: no broker runs, so that a
    start follows. ``starts`` counts the forecasts of partitions: without one nothing is known of
    the next start. ``starts_exact``: all that decides them was read. ``read_bytes`` is what
    startup reads of logs, each byte once.
    """

    now: Span
    now_partitions: int
    now_exact: bool
    further: Span
    further_partitions: int
    further_exact: bool
    outcome: Outcome
    strays: int
    undecided: frozenset[FindingCode]
    harms: frozenset[Harm]
    stopped: bool
    starts: int = 0
    starts_exact: bool = True
    read_bytes: int = 0
    name: str | None = None
    further_name: str | None = None
    corrupt: bool = False
    missing: bool = False
    acute: bool = False

    @property
    def any(self) -> bool:
        """Whether records are lost, or will be lost at a start that follows."""
        return bool(self.now) or (self.stopped and self.at_start)

    @property
    def at_start(self) -> bool:
        """Whether the next start does further harm."""
        return self.outcome is not Outcome.STARTS or bool(self.further or self.strays)

    @property
    def only_start_harms(self) -> bool:
        """Whether the next start does harm, and no record is lost already."""
        return not self.now and (self.at_start or bool(self.harms))


def losses_of(
    partitions: Iterable[tuple[Verdict, Forecast | None]],
    findings: Iterable[Finding] = (),
    *,
    whole: bool = True,
    stopped: bool = True,
) -> Losses:
    """Return the sum of the losses of ``partitions``; ``whole``: no partition is left out.

    ``stopped``: no broker runs, as far as that is known without a partition. ``findings`` at the
    top of log directories may keep a broker from starting, or do harm.
    """
    top_findings = tuple(findings)
    now, further = list[tuple[str, Span]](), list[tuple[str, Span]]()  # with the partition's name
    causes, corrupt, missing = list(causes_of(top_findings)), False, False
    harms, found = set(harms_of(top_findings)), {finding.code for finding in top_findings}
    now_exact = starts_exact = whole
    strays, starts, read_bytes, acute = 0, 0, 0, False
    for verdict, forecast in partitions:
        stopped &= verdict.target.stopped
        found.update(finding.code for finding in verdict.findings)
        now_exact &= not verdict.quick
        if verdict.lost.records:
            now.append((verdict.target.path.name, verdict.lost.records))
            corrupt |= any(lost.blocks for lost in verdict.lost.ranges)
            missing |= any(not lost.blocks for lost in verdict.lost.ranges)
        if forecast is None:
            continue
        starts += 1
        acute |= verdict.target.stopped and bool(forecast.lost.sound or forecast.causes)
        starts_exact &= forecast.exact
        read_bytes += forecast.read_bytes - forecast.reread_bytes
        causes += forecast.causes
        harms |= forecast.harms
        strays += forecast.set_aside is not None and forecast.set_aside.severity is Severity.ERROR
        if forecast.lost.sound:
            further.append((verdict.target.path.name, forecast.lost.sound))
    undecided = frozenset(UNDECIDED.keys() & found)
    return Losses(
        sum((lost for _, lost in now), Span()),
        len(now),
        now_exact and not undecided,
        sum((lost for _, lost in further), Span()),
        len(further),
        starts_exact and not harms,
        worst_outcome(causes),
        strays,
        undecided,
        frozenset(harms),
        stopped,
        starts,
        starts_exact,
        read_bytes,
        _only_name(now),
        _only_name(further),
        corrupt=corrupt,
        missing=missing,
        acute=acute or (stopped and bool(causes or further or strays or harms)),
    )


def _only_name(partitions: Sequence[tuple[str, Span]]) -> str | None:
    """Return the name of the directory of the only partition, None for ``.`` and for several."""
    return (partitions[0][0] or None) if len(partitions) == 1 else None
