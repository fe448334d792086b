"""Evidence: all that is known of one partition or segment when its checks run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.clock import Clock
from kdump.audit.replay.replay import Replay, replay
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import Group
from kdump.storage.names import FileKind
from kdump.storage.walk import Reason

#: What may stand behind the last batch of a log that is sound.
_TAILS = (Reason.TORN_TAIL, Reason.PREALLOCATED)


@dataclass(frozen=True)
class Case:
    """What the checks get; ``surveys`` ascend by base offset.

    ``quick``: the surveys are of the ends alone. ``longest_transaction_ms`` is None where nobody
    says how long a transaction may take. ``facts`` is None where only a segment is judged,
    or the directory could not be listed.
    """

    group: Group
    surveys: tuple[Survey, ...]
    facts: PartitionFacts | None
    node: Node
    now_ms: int
    quick: bool
    longest_transaction_ms: int | None = None

    @property
    def live(self) -> bool:
        """Whether a broker may be writing."""
        return not self.group.stopped

    @property
    def doomed(self) -> bool:
        """Whether a broker loads it only to delete it, file by file."""
        name = None if self.facts is None else self.facts.partition.name
        return name is not None and name.suffix == "delete"

    @property
    def compacted(self) -> bool | None:
        """Whether the cleaner may have been there; None where that is unknown."""
        return None if self.facts is None else self.facts.settings.compacted

    @property
    def first_base(self) -> int | None:
        """The base offset of the first segment, None without one."""
        segments = self.group.segments
        return segments[0].base_offset if segments else None

    @property
    def log_bytes(self) -> int:
        """The bytes of all logs."""
        return sum(survey.size for survey in self.surveys)

    @cached_property
    def neighbours(self) -> Sequence[tuple[Survey, int | None]]:
        """Each survey with the base offset of the segment behind, None for the last one."""
        return tuple(neighbours(self.group, self.surveys))

    @cached_property
    def ends(self) -> Mapping[int, int]:
        """The offset behind the last record by base offset, of segments where it is certain."""
        return known_ends(self.surveys)

    @cached_property
    def log_end(self) -> int | None:
        """Where the log goes on, None where that is not certain."""
        if not self.group.segments:
            return self._end_without_segments()
        if not self.surveys or len(self.surveys) < len(self.group.segments):
            return None
        last = self.surveys[-1]
        if any(gap.damage.reason not in _TAILS for gap in last.gaps) or not last.complete:
            return None
        if last.last_offset is None and last.size and not last.gaps:
            return None  # a quick survey that found no way in
        return _end(last)

    def _end_without_segments(self) -> int | None:
        """Where a broker begins the log anew that serves a partition without a segment."""
        facts = self.facts
        if facts is None or not facts.stopped or not facts.is_current:
            return None
        odd = any(entry.name.kind is FileKind.LOG for entry in facts.partition.entries)
        return None if odd or facts.partition.transient else facts.log_start or 0

    def clock(self) -> Clock:
        """By what the age of transactions is measured."""
        modified_ms = {
            survey.segment.base_offset: survey.identity.mtime_ns // 1_000_000
            for survey in self.surveys
            if survey.identity is not None
        }
        if self.live:
            return Clock(self.now_ms, self.now_ms, modified_ms)
        markers = (marker for survey in self.surveys for marker in survey.events.markers())
        directory = self.group.directory
        written_ms = 0 if directory is None else directory.written_ms
        return Clock(
            max((marker.timestamp for marker in markers), default=0),
            max(written_ms, *modified_ms.values(), 0),
            modified_ms,
        )

    @cached_property
    def replay(self) -> Replay | None:
        """What a replay comes to; None where not all of the log was read."""
        read = len(self.surveys) == len(self.group.segments) > 0
        if self.quick or self.facts is None or not read:
            return None
        return replay(self.surveys, compacted=self.facts.settings.compacted)


def neighbours(group: Group, surveys: Sequence[Survey]) -> Iterator[tuple[Survey, int | None]]:
    """Yield each survey of a group with the base offset of the segment behind, None for the last.

    A segment that could not be surveyed counts too.
    """
    bases = [segment.base_offset for segment in group.segments]
    following = dict(pairwise(bases))
    for survey in surveys:
        yield survey, following.get(survey.segment.base_offset, group.next_base)


def known_ends(surveys: Sequence[Survey]) -> Mapping[int, int]:
    """The offset behind the last record by base offset, of segments where it is certain."""
    return {
        survey.segment.base_offset: _end(survey)
        for survey in surveys
        if survey.complete
        and not survey.gaps
        and (survey.last_offset is not None or not survey.size)
    }


def _end(survey: Survey) -> int:
    return survey.segment.base_offset if survey.last_offset is None else survey.last_offset + 1
