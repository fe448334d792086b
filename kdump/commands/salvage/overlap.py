"""Resolving stretches whose offsets overlap or go backwards.

Of two such stretches the side with fewer batches is left out. Otherwise a single wrong base offset,
which no checksum covers, would cost all batches after it. A stretch of a transient segment,
which a broker has marked as deleted or not swapped in, is left out before any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kdump.commands.salvage.stretches import Opener, Piece, Stretch, Why, as_left, open_log, split
from kdump.storage.logdir import Segment

#: How often two sides are compared by reading again; after that the earlier side stays.
_MOST_COMPARISONS: Final = 1_000


def resolve_overlaps(
    segments: Sequence[Segment], pieces: Sequence[Piece], opener: Opener = open_log
) -> Iterator[Piece]:
    """Yield ``pieces`` of ``segments``, with overlapping stretches replaced by their parts.

    The offsets of the yielded stretches rise. ``opener`` opens the logs. Raises SourceError.
    """
    return _Overlaps(segments, opener).resolve_overlaps(pieces)


class _Overlaps:
    """Resolves the overlaps of the stretches of a partition."""

    def __init__(self, segments: Sequence[Segment], opener: Opener) -> None:
        self._segments, self._opener = segments, opener
        self._comparisons = 0
        # The parts of each piece; the stretches taken so far with the number of their piece.
        self._slots: list[list[Piece]] = []
        self._taken: list[tuple[int, Stretch]] = []

    def resolve_overlaps(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Yield ``pieces``, with overlapping stretches replaced by their parts."""
        self._slots = [[piece] for piece in pieces]
        for run in _runs(pieces):
            self._add(run)
        for slot in self._slots:
            yield from slot

    def _add(self, run: list[tuple[int, Stretch]]) -> None:
        first = run[0][1].first_offset
        if self._taken and self._taken[-1][1].last_offset >= first:
            if self._later_stays(run):
                self._drop_from(first)
            else:
                run = self._above(run, self._taken[-1][1].last_offset)
        self._taken += run

    def _later_stays(self, run: list[tuple[int, Stretch]]) -> bool:
        before, after = self._taken[-1][1], run[0][1]
        transient = [bool(self._segments[stretch.log].suffix) for stretch in (before, after)]
        if transient[0] != transient[1]:
            return transient[0]
        self._comparisons += 1
        if self._comparisons > _MOST_COMPARISONS:
            return False
        head = self._count_head(run, before.last_offset)
        tail = self._count_tail(after.first_offset, head)
        # Offsets of the next segment's range do not belong in the segment before it.
        return head > tail or (head == tail and before.log != after.log)

    def _count_head(self, run: list[tuple[int, Stretch]], last_offset: int) -> int:
        """Return how many batches of a run lie at or below an offset."""
        count = 0
        for _, stretch in run:
            if stretch.first_offset > last_offset:
                break
            if stretch.last_offset > last_offset:
                lower, _ = self._split(stretch, "base_offset", last_offset)
                return count + (0 if lower is None else lower.batches)
            count += stretch.batches
        return count

    def _count_tail(self, offset: int, most: int) -> int:
        """Return how many taken batches lie at or above an offset; exact up to ``most``."""
        count = 0
        for _, stretch in reversed(self._taken):
            if stretch.last_offset < offset or count > most:
                break
            if stretch.first_offset < offset:
                _, upper = self._split(stretch, "last_offset", offset - 1)
                return count + (0 if upper is None else upper.batches)
            count += stretch.batches
        return count

    def _drop_from(self, offset: int) -> None:
        """Leave out the taken batches at or above an offset."""
        while self._taken and self._taken[-1][1].last_offset >= offset:
            number, stretch = self._taken.pop()
            lower, upper = self._split(stretch, "last_offset", offset - 1)
            self._replace(number, stretch, lower, upper and as_left(upper, Why.BACKWARDS))
            if lower is not None:
                self._taken.append((number, lower))
                return

    def _above(self, run: list[tuple[int, Stretch]], last_offset: int) -> list[tuple[int, Stretch]]:
        """Return a run without its batches at or below an offset."""
        remaining = []
        for number, stretch in run:
            if stretch.first_offset > last_offset:
                remaining.append((number, stretch))
                continue
            lower, upper = self._split(stretch, "base_offset", last_offset)
            across = None
            if upper is not None and upper.first_offset <= last_offset:
                # The first batch is a wrapper, whose base offset is that of its last record.
                across, upper = self._split(upper, "position", upper.start)
            parts = [part and as_left(part, Why.BACKWARDS) for part in (lower, across)]
            self._replace(number, stretch, *parts, upper)
            if upper is not None:
                remaining.append((number, upper))
        return remaining

    def _replace(self, number: int, stretch: Stretch, *parts: Piece | None) -> None:
        slot = self._slots[number]
        at = slot.index(stretch)
        slot[at : at + 1] = [part for part in parts if part is not None]

    def _split(
        self, stretch: Stretch, field: str, bound: int
    ) -> tuple[Stretch | None, Stretch | None]:
        if field == "last_offset" and stretch.first_offset > bound:
            return None, stretch
        if field == "base_offset" and stretch.last_offset <= bound:
            return stretch, None
        return split(self._segments[stretch.log], stretch, field, bound, self._opener)


def _runs(pieces: Sequence[Piece]) -> Iterator[list[tuple[int, Stretch]]]:
    """Yield runs of stretches of one log with rising offsets, each with its number."""
    numbered = ((at, piece) for at, piece in enumerate(pieces) if isinstance(piece, Stretch))
    for _, in_log in groupby(numbered, key=lambda pair: pair[1].log):
        run: list[tuple[int, Stretch]] = []
        for at, stretch in in_log:
            if run and stretch.first_offset <= run[-1][1].last_offset:
                yield run
                run = []
            run.append((at, stretch))
        if run:
            yield run
