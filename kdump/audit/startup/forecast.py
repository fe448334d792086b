"""forecast(): what the next start does with a partition and with a log directory.

The loaders of releases 3.9 to 4.3 differ in few cases; a forecast that names no release is the
worse of the two.

Spec: ``LogLoader``, ``LogManager.loadLogs``; KOD 5, 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kdump.audit.codes import FindingCode
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.startup.loader import Loader
from kdump.audit.startup.outcome import Cause, Cut, LogFacts, Outcome, Release, Stopped, Violation
from kdump.audit.survey.recovery import Records

#: How fast recovery reads, cold, with its one thread for each log directory (KOD 10).
RECOVERY_BYTES_PER_SECOND: Final = 250 << 20

_WORSE: Final = {Outcome.REFUSES: 2, Outcome.OFFLINE: 1, Outcome.STARTS: 0}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next start does with one partition.

    ``log_start_offset`` and ``log_end_offset`` are None if it is not loaded, the latter also if
    nobody has looked. ``segments`` are the
    base offsets of those left, ``deleted`` of those deleted whole, ``split`` of those that become
    two or more, ``recovered`` of those that recovery reads; ``replaced`` are the files that a
    ``.swap`` takes the place of. ``lost`` are records; so are those that stay in a file but beyond
    the log's end. ``snapshots_lost`` are offsets of producer snapshots. ``exact`` is False where it
    rests on something that was not read; ``release`` is None where all releases do the same.
    ``set_aside`` is the finding by which the directory is renamed to ``-stray`` once it is loaded:
    kept, but served no more.
    """

    outcome: Outcome
    causes: tuple[Cause, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    segments: tuple[int, ...]
    cuts: tuple[Cut, ...]
    deleted: tuple[int, ...]
    split: tuple[int, ...]
    replaced: tuple[Path, ...]
    read_bytes: int
    deleted_bytes: int
    lost: Records
    snapshots_lost: tuple[int, ...]
    exact: bool
    release: Release | None = None
    set_aside: FindingCode | None = None
    recovered: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryForecast:
    """What the next start does with a log directory: the sums over its partitions.

    ``causes`` are all reasons at once why it goes offline, or the broker does not start. Of its
    ``total`` partitions ``partitions`` were looked at, and of these ``exact`` as far as it takes to
    be certain. ``set_aside`` counts those that are renamed to ``-stray``. ``ends_broker`` says of a
    directory that goes offline whether the broker exits with it; None for unknown.
    """

    outcome: Outcome
    causes: tuple[Cause, ...]
    total: int
    partitions: int
    exact: int
    read_bytes: int
    deleted_bytes: int
    set_aside: int
    lost: Records
    ends_broker: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left out that could make it worse."""
        return self.exact == self.total

    @property
    def recovery_seconds(self) -> float:
        """How long reading takes, about."""
        return self.read_bytes / RECOVERY_BYTES_PER_SECOND


def forecast(
    facts: PartitionFacts, logs: Iterable[LogFacts], violations: Sequence[Violation] = ()
) -> Forecast:
    """Say what the next start does with a partition, whichever of the releases starts.

    ``logs`` are from ``looking.look``.
    """
    known = tuple(logs)
    older, newer = (forecast_by(release, facts, known, violations) for release in Release)
    if _effect(older) == _effect(newer):
        return older
    worse = max((newer, older), key=_harm)
    return replace(worse, release=Release.V4_3 if worse is newer else Release.V3_9)


def forecast_by(
    release: Release,
    facts: PartitionFacts,
    logs: Iterable[LogFacts],
    violations: Sequence[Violation] = (),
) -> Forecast:
    """Say what the next start of a broker of ``release`` does with a partition."""
    loader = Loader(facts, logs, violations, release)
    before = {offset for offset, read in facts.snapshots.items() if read.error is None}
    cause = None
    try:
        loader.load()
    except Stopped as stopped:
        cause = stopped.cause
    return Forecast(
        outcome=Outcome.STARTS if cause is None else cause.outcome,
        causes=() if cause is None else (cause,),
        log_start_offset=loader.log_start_offset if cause is None else None,
        log_end_offset=loader.log_end_offset if cause is None else None,
        segments=loader.segments,
        cuts=tuple(loader.cuts),
        deleted=tuple(sorted(loader.deleted)),
        split=tuple(loader.split),
        replaced=loader.replaced,
        read_bytes=loader.read_bytes,
        deleted_bytes=loader.deleted_bytes,
        lost=loader.lost,
        snapshots_lost=tuple(sorted(before - loader.snapshots)),
        exact=loader.exact,
        recovered=tuple(sorted(loader.recovered)),
    )


def forecast_directory(
    partitions: Iterable[Forecast],
    causes: Iterable[Cause] = (),
    *,
    total: int,
) -> DirectoryForecast:
    """Fold the forecasts of a log directory's partitions, of which there are ``total``.

    ``causes`` are what else stands in the way.
    """
    all_causes = list(causes)
    count = exact = read_bytes = deleted_bytes = set_aside = 0
    lost = Records()
    for partition in partitions:
        all_causes += partition.causes
        count += 1
        exact += partition.exact
        read_bytes += partition.read_bytes
        deleted_bytes += partition.deleted_bytes
        set_aside += partition.set_aside is not None
        lost += partition.lost
    all_causes.sort(key=lambda cause: -_WORSE[cause.outcome])
    return DirectoryForecast(
        worst_outcome(all_causes),
        tuple(all_causes),
        total,
        count,
        exact,
        read_bytes,
        deleted_bytes,
        set_aside,
        lost,
    )


def worst_outcome(causes: Iterable[Cause]) -> Outcome:
    """Return what a start comes to by ``causes``."""
    outcomes = (cause.outcome for cause in causes)
    return max(outcomes, key=lambda outcome: _WORSE[outcome], default=Outcome.STARTS)


def causes_of(findings: Iterable[Finding]) -> Iterator[Cause]:
    """Say what of ``findings`` keeps a broker from starting, or from using a log directory."""
    for finding in findings:
        if finding.code.stops is not None:
            text = finding.code.name if finding.detail is None else str(finding.detail)
            yield Cause(finding.code.stops, text, finding.path, finding.position)


def _effect(forecast: Forecast) -> tuple[object, ...]:
    return (
        forecast.outcome,
        forecast.log_start_offset,
        forecast.log_end_offset,
        forecast.segments,
        forecast.cuts,
    )


def _harm(forecast: Forecast) -> tuple[int, int, int]:
    lost = forecast.lost.sound.count + forecast.lost.unreadable.count
    return _WORSE[forecast.outcome], lost, -(forecast.log_end_offset or 0)
