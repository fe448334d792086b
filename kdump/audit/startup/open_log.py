"""A segment during loading.

Spec: ``LogSegment``; KOD 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kdump.audit.startup.outcome import LogFacts
from kdump.audit.survey.recovery import Records, RecoveryEnding, RecoveryResult, Span
from kdump.storage.paths import AnyPath


@dataclass(slots=True)
class OpenLog:
    """A segment during loading; ``file_base`` is the base offset in the name of its file.

    The parts of a split have other base offsets. ``result`` is the effect of recovery, None if the
    segment was not read; ``recovered`` says that it has been recovered, so that its index is new
    and it is not cut again.
    """

    base: int
    facts: LogFacts
    result: RecoveryResult | None
    index_sound: bool
    recovered: bool = False

    @property
    def file_base(self) -> int:
        """The base offset in the name of the file."""
        return self.facts.segment.base_offset

    @property
    def path(self) -> AnyPath:
        """The path of the file."""
        return self.facts.segment.log

    @property
    def lacks_index(self) -> bool:
        """Whether a start makes an index for it."""
        return self.facts.segment.index is None or self.facts.segment.time_index is None

    def wrappers_readable(self, *, to_end: bool) -> bool:
        """Return whether the wrappers that a search reads are readable, ``to_end``: to the end."""
        if self.result is not None and self.result.head_unreadable:
            return False
        if not to_end:
            return True
        if self.recovered or self.facts.end is None:
            return self.result is None or not self.result.tail_unreadable
        return self.facts.end.readable

    def empty(self) -> None:
        """Truncate the segment to nothing."""
        self.facts = replace(self.facts, size=0)
        self.result = nothing_from(self.base)
        self.recovered = True


def nothing_from(offset: int) -> RecoveryResult:
    """Return the effect of recovery on an empty segment at ``offset``."""
    return RecoveryResult(
        offset, 0, 0, 0, 0, RecoveryEnding.WHOLE, offset, offset, Span(), Records()
    )
