"""The values of a start: facts of logs, releases, causes, cuts.

Spec: ``LogLoader``, ``LogManager.loadLogs``; KOD 5.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from kdump.audit.finding_code import Outcome as Outcome
from kdump.audit.survey.log_end import LogEnd, Search
from kdump.audit.survey.recovery import RecoveryResult
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class Release(Enum):
    """The releases whose loaders differ; each of 3.9 to 4.4 behaves like one of them."""

    V3_9 = "3.9"  # searches for offsets by the last offsets of batches
    V4_3 = "4.3"  # searches for offsets by base offsets, for which it reads wrappers; 4.4 too
    V4_4 = "4.4"  # reads both bytes of the version of an aborted transaction


@frozen
class LogFacts:
    """The known facts of one ``.log`` or ``.log.swap``; sizes are in bytes.

    ``recovered`` is the effect of recovery, ``end`` the end that a loader finds if it trusts the
    index; each is None if the log was not read for it. ``index_sizes`` are those of the offset and
    the time index, ``index_allocated`` what these take on the file system, 0 for a log that is not
    recovered, None if that is unknown. ``unstable`` is the search for the first batch of the oldest
    open transaction, if that batch is in this log.
    """

    segment: Segment
    size: int
    recovered: RecoveryResult | None = None
    end: LogEnd | None = None
    index_sizes: tuple[int, int] = (0, 0)
    unstable: Search | None = None
    index_allocated: tuple[int | None, int | None] = (0, 0)


class RecoveryReason(Enum):
    """The reason why a start recovers a segment; the first one counts."""

    INDEX_MISSING = "index-missing"
    TRANSACTION_INDEX_CORRUPT = "transaction-index-corrupt"
    METADATA_LOG = "metadata-log"  # every start recovers it
    NO_RECOVERY_POINT = "no-recovery-point"  # after an unclean shutdown
    PAST_RECOVERY_POINT = "past-recovery-point"  # after an unclean shutdown


class Effect(Enum):
    """The effect of a batch that violates the producer state."""

    STOPS = "stops"  # every replay of it stops the broker
    STOPS_RECOVERY = "stops recovery"  # only recovery stops the broker
    CUTS = "cuts"  # recovery cuts the log there; every other replay stops the broker


@frozen
class RejectedBatch:
    """A batch that a broker rejects when it replays producers and transactions.

    ``base_offset`` is that of its segment, ``position`` and ``offset`` are its own.
    """

    base_offset: int
    position: int
    offset: int
    text: str
    effect: Effect = Effect.STOPS


@frozen
class Cause:
    """The reason why a partition is not loaded: a sentence, and the file and position concerned.

    ``advice`` is what to do where no finding says it, None if one does.
    """

    outcome: Outcome
    text: str
    path: AnyPath
    position: int | None = None
    advice: str | None = None


@frozen
class LogCut:
    """A cut of a log, at ``position`` of a segment's file; the log continues at ``offset``.

    ``size`` is the number of bytes that are cut.
    """

    segment: int
    position: int
    offset: int
    size: int = field(default=0, compare=False)


class StartFailure(Exception):
    """The loader stops because of ``cause``."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.text)
        self.cause = cause
