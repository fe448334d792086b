"""The inputs and results of a start as plain values.

Spec: ``LogLoader``, ``LogManager.loadLogs``; KOD 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kdump.audit.codes import Outcome as Outcome
from kdump.audit.survey.log_end import LogEnd, Search
from kdump.audit.survey.recovery import Recovered
from kdump.storage.logdir import Segment


class Release(Enum):
    """The releases whose loaders differ; all of 3.9 to 4.3 go by one or the other."""

    V3_9 = "3.9"  # looks for offsets by the last ones of batches
    V4_3 = "4.3"  # looks for them by base offsets, for which it reads wrappers


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What is known of one ``.log`` or ``.log.swap``; sizes are in bytes.

    ``recovered`` is what recovery would do, ``end`` where a loader ends it that trusts its index;
    each is None where nobody has looked. ``index_sizes`` are those of offset and time index.
    ``unstable`` is the search for the first batch of the oldest open transaction, if that is here.
    """

    segment: Segment
    size: int
    recovered: Recovered | None = None
    end: LogEnd | None = None
    index_sizes: tuple[int, int] = (0, 0)
    unstable: Search | None = None


class Effect(Enum):
    """What a batch does that a replay objects to."""

    STOPS = "stops"  # whoever replays it
    STOPS_RECOVERY = "stops recovery"  # and nothing else
    CUTS = "cuts"  # recovery goes no further; everything else that replays it stops


@dataclass(frozen=True, slots=True)
class Violation:
    """A batch that a broker objects to when it replays producers and transactions over it.

    ``base_offset`` is its segment's, ``position`` and ``offset`` are its own.
    """

    base_offset: int
    position: int
    offset: int
    text: str
    effect: Effect = Effect.STOPS


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a partition is not loaded: a sentence, and the file and position that it is about."""

    outcome: Outcome
    text: str
    path: Path
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a log is cut: at ``position`` of a segment's file; it goes on at ``offset``.

    ``size`` is how many bytes go.
    """

    segment: int
    position: int
    offset: int
    size: int = field(default=0, compare=False)


class Stopped(Exception):
    """The loader gives up, for ``cause``."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.text)
        self.cause = cause
