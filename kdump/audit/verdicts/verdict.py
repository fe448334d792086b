"""The verdict on one partition: findings, losses, coverage, forecast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from kdump.audit import codes
from kdump.audit.facts.cluster import Copies
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.replay.replay import Replay
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.events import NO_EVENTS
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.loss import LostNow
from kdump.storage.logdir import directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC

#: What the batches of a whole log decide, where the settings of the topic are unknown.
_BY_BATCHES: Final = frozenset({codes.OFFSETS_MISSING, codes.SEGMENTS_GAP})


@dataclass(frozen=True, slots=True)
class Covered:
    """How much was looked at: sums over segments.

    ``size`` is the bytes of all logs when they were listed, ``read_bytes`` those that were read.
    ``wrappers`` are those of magic 0 and 1 whose records could not be counted without reading them.
    """

    partitions: int = 0
    segments: int = 0
    size: int = 0
    read_bytes: int = 0
    batches: int = 0
    control_batches: int = 0
    records: int = 0
    wrappers: int = 0

    def __add__(self, other: Covered) -> Covered:
        return Covered(
            self.partitions + other.partitions,
            self.segments + other.segments,
            self.size + other.size,
            self.read_bytes + other.read_bytes,
            self.batches + other.batches,
            self.control_batches + other.control_batches,
            self.records + other.records,
            self.wrappers + other.wrappers,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """One group after all its checks; ``surveys`` are of those segments that could be surveyed.

    ``facts`` is None where only a segment is judged, or the directory could not be listed.
    ``covered`` is what was looked at in this group; ``quick``: of its logs the ends alone.
    ``replay`` and ``stable`` are None where not all of the log was read. ``lost`` is what consumers
    cannot get today. ``copies`` are the replicas on other nodes, None for unknown. ``forecast`` is
    its next start, if somebody has asked for that.
    """

    target: Target
    surveys: tuple[Survey, ...]
    findings: tuple[Finding, ...]
    facts: PartitionFacts | None
    covered: Covered
    quick: bool = False
    replay: Replay | None = None
    lost: LostNow = field(default_factory=LostNow)
    copies: Copies | None = None
    forecast: Forecast | None = None
    stable: StableOffset | None = None

    @property
    def is_metadata_log(self) -> bool:
        """Whether it is the log of a KRaft cluster's metadata, by the name of its directory."""
        name = directory_name(self.target.path)
        return name is not None and name.topic == CLUSTER_METADATA_TOPIC

    def in_advance(self) -> Verdict:
        """The same as the quick pass reports it before the whole of a log is read.

        What only batches decide is left out, as is what grows with segments.
        """
        findings = tuple(finding for finding in self.findings if finding.code not in _BY_BATCHES)
        return replace(self.without_evidence(segments=False), findings=findings)

    def without_evidence(self, *, segments: bool) -> Verdict:
        """The same without what grows with producers and transactions, once all is judged.

        Without ``segments`` nothing stays of these, their surveys and the facts, else what is told
        of each.
        """
        if not segments:
            target = self.target.unlisted()
            return replace(self, target=target, surveys=(), facts=None, replay=None)
        surveys = tuple(
            replace(survey, events=NO_EVENTS, index=None, time_index=None, identity=None)
            for survey in self.surveys
        )
        facts = self.facts and replace(self.facts, snapshots={}, txn_indexes={})
        return replace(self, surveys=surveys, facts=facts, replay=None)


Conclude = Callable[[Verdict], Verdict]
"""What is done with a judgement as soon as there is one, before it is kept or travels."""


def as_it_is(verdict: Verdict) -> Verdict:
    """Return it: the conclusion that keeps everything."""
    return verdict
