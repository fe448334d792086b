"""The log after a cut: its last segment and its replay.

Spec: ``LogSegment.recover``; KOD 4.2, 7.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.replay.replay import Replay, replay_partition
from kdump.audit.survey.rebuilt_indexes import Rebuild
from kdump.audit.survey.survey import LogPass, Survey
from kdump.repair.content.known_ends import known_ends
from kdump.repair.rewrite.prefix import PrefixSource
from kdump.repair.truncation.cut_point import CutPoint
from kdump.storage.access import open_source
from kdump.values import frozen

#: No limit: both indexes are built before anything is changed.
_ANY_ROOM: Final = 1 << 40


@frozen
class RemainingLog:
    """The log that stays after a cut.

    ``indexes`` are the offset and the time index of the last segment as recovery would write them,
    None if that segment stays whole. ``ends_known``: the ends of all transactions are known.
    """

    replay: Replay
    indexes: tuple[bytes, bytes] | None
    ends_known: bool

    @property
    def surveys(self) -> tuple[Survey, ...]:
        """The surveys of the segments that stay, the last of them up to the cut."""
        return tuple(segment.survey for segment in self.replay.segments)

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.replay.end_offset

    @property
    def base(self) -> int:
        """The base offset of the last segment."""
        return self.replay.segments[-1].survey.segment.base_offset


def remaining_log(before: Replay, cut_point: CutPoint, facts: PartitionFacts) -> RemainingLog:
    """Return the log after a cut; ``before`` is the replay of the whole log. Raises SourceError."""
    surveys = [segment.survey for segment in before.segments]
    last, indexes = surveys[cut_point.number], None
    if cut_point.position < last.size:
        last, indexes = _prefix(last, cut_point.position, facts.settings)
    remaining = [*surveys[: cut_point.number], last]
    ends = known_ends(remaining, before.start, facts, cut_at=last.end_offset)
    after = replay_partition(ends.surveys, before.start, facts)
    return RemainingLog(after, indexes, ends.known_below >= after.end_offset)


def _prefix(
    survey: Survey, size: int, settings: TopicSettings
) -> tuple[Survey, tuple[bytes, bytes]]:
    """Return the survey and the indexes of the first ``size`` bytes of a log."""
    segment = survey.segment
    rebuild = Rebuild(segment.base_offset, settings, room=_ANY_ROOM)
    log = LogPass(segment, lambda _: None, False, rebuild=rebuild, cleaned=settings.compacted)
    with open_source(segment.log, mapped=False, sealed=True) as source:
        log.read(PrefixSource(source, size))
    built = log.rebuilt
    assert built is not None  # read() has set it, or has raised
    return log.survey(None, None, ()), (built.index.content or b"", built.time_index.content or b"")
