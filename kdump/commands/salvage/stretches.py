"""Stretches of batches that a salvage reads, and the pieces between them.

The pieces of a log tile it: every byte lies in exactly one ``Stretch`` or one ``Left``.

Spec: ``LogSegment``; KOD 3.6.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from typing import Final

from kdump.errors import SourceError
from kdump.format.batch import BatchTable
from kdump.format.kernel import recovery as _recovery
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk
from kdump.values import frozen

_RECORDS: Final = _recovery.COUNT_FIELDS.index("records")


class Why(Enum):
    """The reason why a sound batch, or a part of a log, is not taken."""

    HUNTED = "hunted"  # found by a search after damage: it may lie inside a record's value
    BACKWARDS = "backwards"  # batches that are taken have its offsets, or higher ones before it
    INVERTED = "inverted"  # its last offset lies below its base offset
    OUT_OF_RANGE = "out-of-range"  # no segment of this base offset can hold it
    WRAPPER = "wrapper"  # an old wrapper that cannot be decompressed: a broker stops at it
    REFUSED = "refused"  # a broker that replays producers stops at it
    UNREAD = "unread"  # the file could not be read from here on


@frozen
class Stretch:
    """Neighbouring batches that are taken: bytes ``start`` to ``stop`` of log number ``log``.

    Their offsets rise. ``records`` counts at most one record for an old wrapper, whose header has
    no count.
    """

    log: int
    start: int
    stop: int
    first_offset: int
    last_offset: int
    batches: int
    records: int


@frozen
class Left:
    """Bytes ``start`` to ``stop`` of log number ``log`` that are not taken, and why.

    The offsets are None for damage, which has no batches. ``marker``: the damage begins with the
    header of a transaction marker.
    """

    log: int
    start: int
    stop: int
    why: Reason | Why
    first_offset: int | None = None
    last_offset: int | None = None
    batches: int = 0
    records: int = 0
    marker: bool = False

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.stop - self.start


Piece = Stretch | Left

Opener = Callable[[Segment], Source]
"""Opens the log of a segment. Raises SourceError."""


def open_log(segment: Segment) -> Source:
    """Open the log of a segment as it is on disk. Raises SourceError."""
    return open_source(segment.log, mapped=False)


def as_left(stretch: Stretch, why: Why) -> Left:
    """Return the stretch as a piece that is not taken."""
    return Left(
        stretch.log,
        stretch.start,
        stretch.stop,
        why,
        stretch.first_offset,
        stretch.last_offset,
        stretch.batches,
        stretch.records,
    )


def split(
    segment: Segment, stretch: Stretch, field: str, bound: int, opener: Opener = open_log
) -> tuple[Stretch | None, Stretch | None]:
    """Split a stretch of ``segment`` before the first batch whose ``field`` is above ``bound``.

    Returns both parts, None for an empty one. ``field`` must rise from batch to batch. ``opener``
    opens the log. Raises SourceError.
    """
    sums = Sum(stretch.log), Sum(stretch.log)
    with opener(segment) as source:
        for table in _tables(source, segment, stretch):
            row = bisect_right(table.column(field), bound)
            for part, first, stop in ((sums[0], 0, row), (sums[1], row, len(table))):
                if first < stop:
                    part.add(table, first, stop)
    lower, upper = (part.stretch() for part in sums)
    if lower is not None:
        lower = replace(lower, first_offset=stretch.first_offset)
    elif upper is not None:
        upper = replace(upper, first_offset=stretch.first_offset)
    return lower, upper


def _tables(source: Source, segment: Segment, stretch: Stretch) -> Iterator[BatchTable]:
    """Yield the batches of a stretch. Raises SourceError if the log has changed."""
    position = stretch.start
    for piece in walk(source, segment.base_offset, stretch.start):
        if isinstance(piece, Damage):
            break
        if piece.end > stretch.stop:
            piece = piece.first(bisect_right(piece.column("position"), stretch.stop - 1))
        yield piece
        position = piece.end
        if position == stretch.stop:
            return
    raise SourceError(
        segment.log,
        f"{segment.log}: expected the batches up to position {stretch.stop} as they were read "
        f"before, found that they changed after {position}: run the command again",
    )


class Sum:
    """The running totals of the batches of one stretch."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._counter: array[int] | None = None
        self._start = self._stop = self._first = self.last_offset = 0

    def __bool__(self) -> bool:
        return self._counter is not None

    def add(
        self, table: BatchTable, first: int, stop: int, first_offset: int | None = None
    ) -> None:
        """Add rows ``first`` up to ``stop``; ``first_offset`` overrides that of the header."""
        if self._counter is None:
            if first_offset is None:
                first_offset = table[first].base_offset
            before = max(first_offset - 1, -1)
            self._counter = array("q", [0, 0, 0, before, -1, -1, 0])
            self._start, self._first = table[first].position, first_offset
        _recovery.count(table.rows, first, stop, self._counter)
        last = table[stop - 1]
        self._stop, self.last_offset = last.position + last.size, last.last_offset

    def stretch(self) -> Stretch | None:
        """Return the stretch of all added batches, None without any."""
        if self._counter is None:
            return None
        return Stretch(
            self._log,
            self._start,
            self._stop,
            self._first,
            self.last_offset,
            self._counter[0],
            self._counter[_RECORDS],
        )
