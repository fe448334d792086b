"""The logs of a healed partition, as pieces of their old logs and of copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kdump.repair.heal.alignment import Run
from kdump.repair.heal.own_log import OwnSegment, Part, PartsSource, read_segment
from kdump.storage.logdir import Segment
from kdump.values import frozen


@frozen
class Draft:
    """A log of ``size`` bytes: ``runs`` of copies, and between them the bytes of its old log.

    The runs ascend and do not overlap. ``own`` is what a walk over it finds. ``old_size`` is the
    size of its old log, None for a new log.
    """

    own: OwnSegment
    size: int
    old_size: int | None
    runs: tuple[Run, ...] = ()

    @property
    def segment(self) -> Segment:
        """The segment of the log."""
        return self.own.segment

    @property
    def changed(self) -> bool:
        """Whether the log differs from the old one."""
        return bool(self.runs) or self.size != self.old_size

    def parts(self) -> Iterator[Part]:
        """Yield its parts in order."""
        position = 0
        for run in self.runs:
            if run.at > position:
                yield Part(None, position, run.at - position)
            yield Part(run.log, run.position, run.size)
            position = run.at + run.size
        if position < self.size:
            yield Part(None, position, self.size - position)

    def open(self) -> PartsSource:
        """Return a source of its bytes. Raises SourceError."""
        return PartsSource(self.segment.log, self.parts())

    def with_runs(self, runs: Iterable[Run], size: int) -> Draft:
        """Return the draft with more runs, and ``size`` bytes. Raises SourceError."""
        together = tuple(sorted((*self.runs, *runs), key=lambda run: run.at))
        draft = replace(self, runs=together, size=size)
        with draft.open() as source:
            return replace(draft, own=read_segment(self.segment, source))


def new_draft(segment: Segment, runs: Iterable[Run]) -> Draft:
    """Return the log of a new segment that consists of ``runs``. Raises SourceError."""
    laid: list[Run] = []
    size = 0
    for run in runs:
        laid.append(replace(run, at=size))
        size += run.size
    empty = Draft(OwnSegment(segment, 0, ()), 0, None)
    return empty.with_runs(laid, size)


def uncovered(run: Run, covered: Iterable[Run]) -> Iterator[Run]:
    """Yield the parts of ``run`` that none of the runs in ``covered``, which ascend, covers."""
    at, stop = run.at, run.at + run.size
    for other in covered:
        if other.at + other.size <= at or other.at >= stop:
            continue
        if other.at > at:
            yield _part(run, at, other.at)
        at = other.at + other.size
    if at < stop:
        yield _part(run, at, stop)


def _part(run: Run, at: int, stop: int) -> Run:
    return replace(run, at=at, size=stop - at, position=run.position + at - run.at)
