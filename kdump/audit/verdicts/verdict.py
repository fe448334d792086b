"""The verdict on one partition: findings, losses, coverage, forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Final

from kdump.audit.checks.missing_offsets import OFFSETS_MISSING, SEGMENTS_GAP
from kdump.audit.facts.cluster import Copies
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.replay.replay import Replay
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.events import NO_EVENTS
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.loss import LostNow
from kdump.audit.verdicts.remembered import NOTHING_REMEMBERED, Remembered
from kdump.audit.verdicts.statistics import Statistics
from kdump.storage.logdir import directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.values import frozen

#: The codes that the batches of a whole log decide if the settings of the topic are unknown.
_BY_BATCHES: Final = frozenset({OFFSETS_MISSING, SEGMENTS_GAP})


@frozen
class Coverage:
    """The extent of a verification: sums over segments.

    ``size`` is the size of all logs in bytes when they were listed, ``read_bytes`` is how much of
    them was read. ``wrappers`` counts wrappers of magic 0 and 1 whose records were not counted,
    because that requires reading them. ``remembered`` are the segments that an earlier run read:
    ``read_bytes`` leaves them out.
    """

    partitions: int = 0
    segments: int = 0
    size: int = 0
    read_bytes: int = 0
    batches: int = 0
    control_batches: int = 0
    records: int = 0
    wrappers: int = 0
    remembered: Remembered = NOTHING_REMEMBERED

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.partitions + other.partitions,
            self.segments + other.segments,
            self.size + other.size,
            self.read_bytes + other.read_bytes,
            self.batches + other.batches,
            self.control_batches + other.control_batches,
            self.records + other.records,
            self.wrappers + other.wrappers,
            self.remembered + other.remembered,
        )


@frozen
class Verdict:
    """The result of all checks of one target; ``surveys`` has the segments that could be surveyed.

    ``facts`` is None for a lone segment, and for a directory that could not be listed. ``covered``
    is the extent of the verification; ``quick``: only the ends of the logs were read. ``replay``
    and ``stable`` are None if not all of the log was read. ``lost`` has the records that consumers
    cannot read now. ``copies`` are the replicas on other nodes, None if unknown. ``forecast`` is
    the effect of the next start, if it was requested, and so are the ``statistics``.
    """

    target: Target
    surveys: tuple[Survey, ...]
    findings: tuple[Finding, ...]
    facts: PartitionFacts | None
    covered: Coverage
    quick: bool = False
    replay: Replay | None = None
    lost: LostNow = field(default_factory=LostNow)
    copies: Copies | None = None
    forecast: Forecast | None = None
    stable: StableOffset | None = None
    statistics: Statistics | None = None

    @property
    def is_metadata_log(self) -> bool:
        """Whether the directory's name is that of a KRaft cluster's metadata log."""
        name = directory_name(self.target.path)
        return name is not None and name.topic == CLUSTER_METADATA_TOPIC

    def with_directory(self, directory: DirectoryFacts | None) -> Verdict:
        """Return the verdict with another log directory: one may be large, and targets share it."""
        return replace(self, target=replace(self.target, directory=directory))

    def preview(self) -> Verdict:
        """Return the verdict as the quick pass reports it before the whole log is read.

        Findings that only batches decide are left out, as are values that grow with segments.
        """
        findings = tuple(finding for finding in self.findings if finding.code not in _BY_BATCHES)
        return replace(self.without_evidence(segments=False), findings=findings)

    def without_evidence(self, *, segments: bool) -> Verdict:
        """Return the verdict without the values that grow with producers and transactions.

        With ``segments`` the values stay that reports show of each segment. Without it segments,
        surveys and facts are left out.
        """
        if not segments:
            target = self.target.without_listing()
            return replace(self, target=target, surveys=(), facts=None, replay=None)
        surveys = tuple(
            replace(
                survey,
                events=NO_EVENTS,
                index=None,
                time_index=None,
                identity=None,
                statistics=None,
            )
            for survey in self.surveys
        )
        facts = self.facts and replace(self.facts, snapshots={}, txn_indexes={})
        return replace(self, surveys=surveys, facts=facts, replay=None)


Conclude = Callable[[Verdict], Verdict]
"""Reduces or extends a verdict as soon as there is one, before it is stored or travels."""


def keep_all(verdict: Verdict) -> Verdict:
    """Return ``verdict`` unchanged: the conclusion that keeps everything."""
    return verdict
