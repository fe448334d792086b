"""Evidence: the input of the checks of a partition, a segment or a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from kdump.audit.facts.cluster import Configs, Node
from kdump.audit.facts.metadata_log import MissingMetadata
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts, end_without_segments
from kdump.audit.replay.replay import OpenTransaction, Replay, replay_partition
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.future_logs import FutureLog
from kdump.audit.targets.target import Target
from kdump.storage.logdir import LogDirectory, is_metadata_log
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@dataclass(frozen=True)
class Evidence:
    """The input of the checks of a partition, or of a lone segment.

    target                  The partition or segment as listed: its segments, and whether a broker
                            may be writing.
    surveys                 The surveys of its segments, ascending by base offset. A segment that
                            could not be read has none.
    facts                   The small files of the partition, and its lines in checkpoints. None for
                            a lone segment, and for a directory that could not be listed.
    replay                  The replay of the surveys, as ``replay_of`` returns it. None where not
                            all of the log was read, or ``facts`` is None.
    node                    The node of the partition; its fields are None where they are unknown.
    now_ms                  The time by this machine's clock.
    quick                   Whether the surveys cover only the ends of logs.
    longest_transaction_ms  The longest transaction timeout that the brokers allow. None if no
                            configuration sets it.
    """

    target: Target
    surveys: tuple[Survey, ...]
    facts: PartitionFacts | None = None
    replay: Replay | None = None
    node: Node = field(default_factory=Node)
    now_ms: int = 0
    quick: bool = False
    longest_transaction_ms: int | None = None

    @property
    def live(self) -> bool:
        """Whether a broker may be writing."""
        return not self.target.stopped

    @property
    def deleted_at_start(self) -> bool:
        """Whether a broker loads the partition only to delete it, file by file.

        The broker first drops the leader epochs and the log start offset.
        """
        name = None if self.facts is None else self.facts.partition.name
        return name is not None and name.suffix == "delete"

    @property
    def compacted(self) -> bool | None:
        """Whether the cleaner may have compacted the log; None if unknown."""
        return None if self.facts is None else self.facts.settings.compacted

    @property
    def is_metadata_log(self) -> bool:
        """Whether this is the metadata log of a KRaft cluster; False for a lone segment."""
        return self.facts is not None and is_metadata_log(self.facts.partition)

    @property
    def stopped_cleanly(self) -> bool:
        """Whether the next start takes the log for cleanly closed; False if unknown."""
        return self.facts is not None and self.facts.stopped_cleanly

    @property
    def first_base(self) -> int | None:
        """The base offset of the first segment, None without one."""
        segments = self.target.segments
        return segments[0].base_offset if segments else None

    @property
    def log_bytes(self) -> int:
        """The size of all logs in bytes."""
        return sum(survey.size for survey in self.surveys)

    @cached_property
    def neighbours(self) -> Sequence[tuple[Survey, int | None]]:
        """The surveys, each with the base offset of the next segment, None for the last."""
        return tuple(neighbours(self.target, self.surveys))

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """The offset after the last record of each segment, by base offset, if it is certain."""
        return known_ends(self.surveys)

    @cached_property
    def log_end(self) -> int | None:
        """The log end offset; None if it is not certain."""
        if not self.target.segments:
            return self._end_without_segments()
        if not self.surveys or len(self.surveys) < len(self.target.segments):
            return None
        return self.surveys[-1].written_end

    def _end_without_segments(self) -> int | None:
        """Return the offset at which a broker creates the first segment of an empty log."""
        facts = self.facts
        if facts is None or not facts.stopped or not facts.is_current:
            return None
        return end_without_segments(facts.partition, facts.log_start)

    def first_missing(self, log_end: int) -> int:
        """Return the first offset from ``log_end`` on that is not in remote storage."""
        for first, last in () if self.facts is None else self.facts.remote_offsets:
            if first <= log_end <= last:
                log_end = last + 1
        return log_end

    def clock(self) -> Clock:
        """Return the times by which the age of a transaction is measured."""
        modified_ms = {
            survey.segment.base_offset: survey.identity.mtime_ns // 1_000_000
            for survey in self.surveys
            if survey.identity is not None
        }
        if self.live:
            return Clock(self.now_ms, self.now_ms, modified_ms)
        markers = (marker for survey in self.surveys for marker in survey.events.markers())
        directory = self.target.directory
        written_ms = 0 if directory is None else directory.written_ms
        return Clock(
            max((marker.timestamp for marker in markers), default=0),
            max(written_ms, *modified_ms.values(), 0),
            modified_ms,
        )


@frozen
class NodeEvidence:
    """The input of the checks of a node.
    directories  The log directories of the node, at least one.
    node         Its node id and the image of its metadata log; its fields are None where they are
                 unknown.
    config       The pairs of its ``server.properties``. None without that file.
    strays       The partition directories that a start renames to ``-stray`` before it loads logs.
    futures      The future logs of the node.
    missing      Its metadata log, if that is gone.
    beyond       Its log directories beside those that are checked.
    repeated     The log directories that ``config`` names again, each with the first spelling.
    metadata_directory  The log directory of the metadata log by ``config``, as its facts spell it;
                 None if it is unknown.
    """

    directories: tuple[DirectoryFacts, ...]
    node: Node
    config: Configs | None
    strays: frozenset[AnyPath]
    futures: tuple[FutureLog, ...] = ()
    missing: MissingMetadata | None = None
    beyond: tuple[LogDirectory, ...] = ()
    repeated: tuple[tuple[AnyPath, AnyPath], ...] = ()
    metadata_directory: AnyPath | None = None

    @property
    def stopped(self) -> bool:
        """Whether certainly no broker uses any of the directories."""
        return all(facts.stopped for facts in self.directories)


def replay_of(
    target: Target, surveys: Sequence[Survey], facts: PartitionFacts | None, *, quick: bool
) -> Replay | None:
    """Return the replay of a partition's surveys; None if not all of its log was read."""
    read = len(surveys) == len(target.segments) > 0
    if quick or facts is None or not read:
        return None
    return replay_partition(surveys, (), facts)


def neighbours(target: Target, surveys: Sequence[Survey]) -> Iterator[tuple[Survey, int | None]]:
    """Yield each survey of a target with the base offset of the next segment, None for the last.

    The next segment counts even if it could not be surveyed.
    """
    bases = [segment.base_offset for segment in target.segments]
    following = dict(pairwise(bases))
    for survey in surveys:
        yield survey, following.get(survey.segment.base_offset, target.next_base)


def known_ends(surveys: Sequence[Survey]) -> Mapping[int, int]:
    """Return the offset after each segment's last record, by base offset, if it is certain."""
    ends = {survey.segment.base_offset: survey.known_end for survey in surveys}
    return {base: end for base, end in ends.items() if end is not None}


@frozen
class Clock:
    """The times, in ms, by which the age of a transaction is measured.

    Markers and files have the time of a broker's clock: ``markers_ms`` and ``files_ms`` are the
    latest times, by each of the two, at which a transaction could have ended. Beside a running
    broker both are the present; for a stopped broker, its last write. ``modified_ms`` are the
    modification times of segments by base offset. Times of markers and of files of a stopped broker
    are not compared with each other, because the files may be copies.
    """

    markers_ms: int
    files_ms: int
    modified_ms: Mapping[int, int]

    def age_ms(self, replay: Replay, transaction: OpenTransaction) -> int:
        """Return a lower bound of the time since a transaction's last batch was written, in ms.

        Timestamps of records do not count: a producer may set any time.
        """
        last = transaction.last_offset
        base = replay.survey_at(last).segment.base_offset
        surveys = [
            segment.survey
            for segment in replay.segments
            if segment.survey.segment.base_offset >= base
        ]
        markers = (marker for survey in surveys for marker in survey.events.markers())
        later = next((marker.timestamp for marker in markers if marker.offset > last), None)
        ages = [0]
        if later is not None:
            ages.append(self.markers_ms - later)
        if base in self.modified_ms:
            ages.append(self.files_ms - self.modified_ms[base])
        return max(ages)
