"""forecast(): predicts the next start of a partition and of a log directory.

The loaders of releases 3.9 to 4.4 differ in few cases; a forecast that names no release holds for
both.

Spec: ``LogLoader``, ``LogManager.loadLogs``; KOD 5, 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.facts.space import Space
from kdump.audit.finding_code import FindingCode, Harm
from kdump.audit.findings import Finding
from kdump.audit.startup.loader import Loader
from kdump.audit.startup.outcome import (
    Cause,
    LogCut,
    LogFacts,
    Outcome,
    RecoveryReason,
    RejectedBatch,
    Release,
    StartFailure,
)
from kdump.audit.startup.room import Room, room_of
from kdump.audit.survey.recovery import Records
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The speed of one thread of recovery with a cold page cache (KOD 10).
RECOVERY_BYTES_PER_SECOND: Final = 250 << 20

_WORSE: Final = {Outcome.REFUSES: 2, Outcome.OFFLINE: 1, Outcome.STARTS: 0}


@frozen
class Forecast:
    """The effect of the next start on one partition.

    ``log_start_offset`` and ``log_end_offset`` are None if the partition is not loaded, the latter
    also if the end was not read. ``segments`` are the base offsets of the remaining segments,
    ``deleted`` of those deleted completely. ``split`` are those of segments that become two or
    more, ``recovered`` those of segments that recovery reads, and ``recovery`` the reasons, in the
    same order. Of ``read_bytes``, ``reread_bytes`` are read once more. ``replaced`` are the files
    that a ``.swap`` file replaces. ``lost`` counts records, including those that stay in a file
    past the log end offset. ``snapshots_lost`` are offsets of producer snapshots. ``exact`` is
    False if the forecast depends on data that was not read; ``unread`` are the segments that would
    have to be. ``release`` is None if all releases do the same. ``set_aside`` is the code of the
    finding for which the directory is renamed to ``-stray`` once it is loaded: it remains, but is
    no longer served. ``harms`` are those that no number of records shows. ``room`` is the least
    that the start writes.
    """

    outcome: Outcome
    causes: tuple[Cause, ...]
    log_start_offset: int | None
    log_end_offset: int | None
    segments: tuple[int, ...]
    cuts: tuple[LogCut, ...]
    deleted: tuple[int, ...]
    split: tuple[int, ...]
    replaced: tuple[AnyPath, ...]
    read_bytes: int
    deleted_bytes: int
    lost: Records
    snapshots_lost: tuple[int, ...]
    exact: bool
    release: Release | None = None
    set_aside: FindingCode | None = None
    recovered: tuple[int, ...] = ()
    harms: frozenset[Harm] = frozenset()
    room: Room = Room()
    recovery: tuple[RecoveryReason, ...] = ()
    reread_bytes: int = 0
    unread: tuple[int, ...] = ()

    @property
    def removes_records(self) -> bool:
        """Whether the start removes segments, or records, also ones that cannot be read."""
        return bool(self.lost.sound or self.lost.unreadable or self.deleted)

    @property
    def is_error(self) -> bool:
        """Whether the start fails, or loses records that could be read."""
        return bool(self.causes or self.lost.sound)


@frozen
class DirectoryForecast:
    """The effect of the next start on a log directory: the sums over its partitions.

    ``causes`` are all reasons why the directory goes offline, or the broker does not start. Of its
    ``total`` partitions, ``partitions`` have a forecast, and of these ``exact`` have an exact one.
    ``set_aside`` counts the partitions that are renamed to ``-stray``. ``harms`` are those of its
    partitions and of the files at its top. ``ends_broker`` says whether the broker exits if the
    directory goes offline; None if unknown. ``room`` is the least that the start writes. ``space``
    is the space of the file system; None if unknown. ``longest_bytes`` is the most that recovery
    reads of one log. ``threads`` recover the logs of the directory.
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
    harms: frozenset[Harm]
    room: Room
    ends_broker: bool | None = None
    space: Space | None = field(default=None, compare=False)  # other processes change it
    reread_bytes: int = 0
    longest_bytes: int = 0
    threads: int = 1

    @property
    def whole(self) -> bool:
        """Whether all partitions have an exact forecast."""
        return self.exact == self.total

    @property
    def recovery_seconds(self) -> float:
        """The approximate time that recovery takes to read, in seconds.

        A log is recovered by one thread, so that the longest one is the least that a start takes.
        """
        most = max(self.read_bytes / self.threads, self.longest_bytes)
        return most / RECOVERY_BYTES_PER_SECOND


def forecast(
    facts: PartitionFacts, logs: Iterable[LogFacts], violations: Sequence[RejectedBatch] = ()
) -> Forecast:
    """Return the effect of the next start on a partition; the worse one if releases differ.

    ``logs`` are from ``inputs.read_log_facts``.
    """
    known = tuple(logs)
    found = {each: forecast_by(each, facts, known, violations) for each in _differing(facts)}
    first = found[Release.V3_9]
    if all(_effect(other) == _effect(first) for other in found.values()):
        return first
    # Of equal ones 4.3's, which differs from 3.9's more often than 4.4's from its own.
    worse = max((Release.V4_3, *found), key=lambda release: _harm(found[release]))
    return replace(found[worse], release=worse)


def _differing(facts: PartitionFacts) -> Iterator[Release]:
    """Yield the releases whose starts may differ; each of them is simulated."""
    yield from (Release.V3_9, Release.V4_3)
    indexes = (read.value for read in facts.txn_indexes.values() if read.value is not None)
    if any(entry.version for index in indexes for entry in index.entries):
        yield Release.V4_4


def forecast_by(
    release: Release,
    facts: PartitionFacts,
    logs: Iterable[LogFacts],
    violations: Sequence[RejectedBatch] = (),
) -> Forecast:
    """Return the effect of the next start of a broker of ``release`` on a partition."""
    known = tuple(logs)
    loader = Loader(facts, known, violations, release)
    before = {offset for offset, read in facts.snapshots.items() if read.error is None}
    cause = None
    try:
        loader.load()
    except StartFailure as stopped:
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
        room=room_of(facts, known, loader.recovered, loader.snapshots),
        recovery=tuple(loader.recovered[base] for base in sorted(loader.recovered)),
        reread_bytes=loader.reread_bytes,
        unread=tuple(sorted(loader.unread)),
    )


def forecast_directory(
    partitions: Iterable[Forecast],
    findings: Iterable[Finding] = (),
    *,
    total: int,
    threads: int = 1,
) -> DirectoryForecast:
    """Return the sum of the forecasts of a log directory's partitions.

    ``findings`` at its top are further reasons why the directory goes offline, or the broker does
    not start, or does harm. ``total`` is the number of all its partitions, and ``threads`` is
    ``settings.recovery_threads``.
    """
    findings = tuple(findings)
    all_causes, harms = list(causes_of(findings)), set(harms_of(findings))
    count = exact = read_bytes = reread_bytes = longest_bytes = deleted_bytes = set_aside = 0
    lost, room = Records(), Room()
    for partition in partitions:
        all_causes += partition.causes
        count += 1
        exact += partition.exact
        read_bytes += partition.read_bytes
        reread_bytes += partition.reread_bytes
        longest_bytes = max(longest_bytes, partition.read_bytes)
        deleted_bytes += partition.deleted_bytes
        set_aside += partition.set_aside is not None
        lost += partition.lost
        room += partition.room
        harms |= partition.harms
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
        frozenset(harms),
        room,
        reread_bytes=reread_bytes,
        longest_bytes=longest_bytes,
        threads=threads,
    )


def worst_outcome(causes: Iterable[Cause]) -> Outcome:
    """Return the worst outcome of a start among ``causes``."""
    outcomes = (cause.outcome for cause in causes)
    return max(outcomes, key=lambda outcome: _WORSE[outcome], default=Outcome.STARTS)


def causes_of(findings: Iterable[Finding]) -> Iterator[Cause]:
    """Yield the causes among ``findings`` that stop a start or take a log directory offline."""
    for finding in findings:
        if finding.code.stops is not None:
            text = finding.code.name if finding.detail is None else str(finding.detail)
            yield Cause(finding.code.stops, text, finding.path, finding.position)


def harms_of(findings: Iterable[Finding]) -> Iterator[Harm]:
    """Yield the harms of a start among ``findings``."""
    return (finding.code.harm for finding in findings if finding.code.harm is not None)


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
