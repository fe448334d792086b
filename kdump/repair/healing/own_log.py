"""A segment of the log under repair: its sound batches and the damage between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from kdump.audit.survey.survey import Survey
from kdump.format.batch import RecordBatch
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.source import Source
from kdump.storage.walk import Damage, sound_batch, walk
from kdump.values import frozen

#: The size of the window for a log of which only the first and the last batch are read.
_ENDS_BYTES: Final = 128 << 10
#: How many batches at each end of an island are looked for in copies.
_SAMPLES: Final = 8


@frozen
class Island:
    """Neighbouring sound batches from position ``start`` up to ``end``, exclusive.

    ``samples`` are the first and the last of them, in order. ``hunted``: a search has found them,
    so that they may lie inside the value of a damaged record.
    """

    start: int
    end: int
    samples: tuple[RecordBatch, ...]
    hunted: bool

    @property
    def first(self) -> RecordBatch:
        """The first batch."""
        return self.samples[0]

    @property
    def last(self) -> RecordBatch:
        """The last batch."""
        return self.samples[-1]


@frozen
class OwnSegment:
    """A segment of ``size`` bytes. The ``islands`` ascend; all between them is damaged."""

    segment: Segment
    size: int
    islands: tuple[Island, ...]

    @property
    def base_offset(self) -> int:
        """The offset in its name."""
        return self.segment.base_offset

    @property
    def first(self) -> RecordBatch | None:
        """The batch at its start, None unless it is sound."""
        starts = bool(self.islands) and self.islands[0].start == 0
        return self.islands[0].first if starts else None

    @property
    def last(self) -> RecordBatch | None:
        """The last sound batch, None without any."""
        return self.islands[-1].last if self.islands else None

    @property
    def sound_end(self) -> int:
        """The position after the last sound batch."""
        return self.islands[-1].end if self.islands else 0

    @property
    def end_offset(self) -> int:
        """The offset after the last sound batch; the base offset without one."""
        return self.islands[-1].last.last_offset + 1 if self.islands else self.base_offset

    @property
    def damages(self) -> Iterator[tuple[int, int]]:
        """The start and the end of each damaged stretch."""
        position = 0
        for island in self.islands:
            if island.start > position:
                yield position, island.start
            position = island.end
        if position < self.size:
            yield position, self.size


def own_segment(survey: Survey) -> OwnSegment:
    """Return the segment of a survey of a whole log; a damaged log is read again.

    Raises SourceError.
    """
    segment = survey.segment
    if survey.damages or survey.last_position is None:
        with open_source(segment.log, mapped=False, sealed=True) as source:
            return read_segment(segment, source)
    with open_source(segment.log, mapped=False, window_bytes=_ENDS_BYTES) as source:
        first = sound_batch(source, segment.base_offset, 0)
        last = sound_batch(source, segment.base_offset, survey.last_position)
        if first is None or last is None:  # its offsets do not fit the name of the segment
            return read_segment(segment, source)
        samples = (first,) if first == last else (first, last)
        return OwnSegment(segment, source.size, (Island(0, source.size, samples, False),))


def read_segment(segment: Segment, source: Source) -> OwnSegment:
    """Return what a walk over ``source``, the log of ``segment``, finds. Raises SourceError."""
    return OwnSegment(segment, source.size, tuple(_islands(source, segment.base_offset)))


def _islands(source: Source, base_offset: int) -> Iterator[Island]:
    start, hunted = 0, False
    heads: list[RecordBatch] = []
    tails: deque[RecordBatch] = deque(maxlen=_SAMPLES)
    for piece in walk(source, base_offset):
        if isinstance(piece, Damage):
            if heads:
                yield Island(start, piece.position, _samples(heads, tails), hunted)
            heads, tails = [], deque(maxlen=_SAMPLES)
            continue
        if not heads:
            start, hunted = piece.position, piece.hunted
        heads += (piece[row] for row in range(min(_SAMPLES - len(heads), len(piece))))
        tails.extend(piece[row] for row in range(max(len(piece) - _SAMPLES, 0), len(piece)))
    if heads:
        yield Island(start, source.size, _samples(heads, tails), hunted)


def _samples(heads: list[RecordBatch], tails: Iterable[RecordBatch]) -> tuple[RecordBatch, ...]:
    known = {batch.position: batch for batch in (*heads, *tails)}
    return tuple(known[position] for position in sorted(known))
