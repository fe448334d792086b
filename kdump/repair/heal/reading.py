"""The batches of a copy from a place on.

An index only shortens the search. A place is where a batch ends or a segment begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kdump.format.batch import BatchTable, RecordBatch
from kdump.repair.heal.copies import PartitionCopy
from kdump.storage.access import open_source
from kdump.storage.seek import entry_position
from kdump.storage.walk import Damage, walk


class Place(NamedTuple):
    """A position in the log of segment ``number`` of a copy."""

    number: int
    position: int


def is_same(batch: RecordBatch, other: RecordBatch) -> bool:
    """Return whether two batches are the same: offsets, leader epoch, checksum and size."""
    return _key(batch) == _key(other)


def _key(batch: RecordBatch) -> tuple[int, ...]:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.magic,
        batch.crc,
        batch.size,
    )


def place_after(copy: PartitionCopy, batch: RecordBatch) -> Place | None:
    """Return the place after ``batch`` in a copy; None if the copy does not have it.

    Raises SourceError.
    """
    number = _segment_with(copy, batch.base_offset)
    if number is None:
        return None
    segment = copy.segments[number]
    with open_source(segment.log, mapped=False, sealed=copy.is_sealed(number)) as source:
        offset, base = batch.base_offset, segment.base_offset
        start = entry_position(source, segment.index, base, offset)
        for position in dict.fromkeys((start, 0)):
            for piece in walk(source, base, position):
                if isinstance(piece, Damage) or piece[len(piece) - 1].base_offset < offset:
                    continue
                row = bisect_left(piece.column("base_offset"), offset)
                found = piece[min(row, len(piece) - 1)]
                if is_same(found, batch):
                    return Place(number, found.position + found.size)
                if not piece.hunted:
                    break
    return None


def place_of_segment(copy: PartitionCopy, base_offset: int) -> Place | None:
    """Return the start of the segment with this base offset, None without one."""
    number = _segment_with(copy, base_offset)
    if number is None or copy.segments[number].base_offset != base_offset:
        return None
    return Place(number, 0)


def pieces_from(copy: PartitionCopy, place: Place) -> Iterator[tuple[int, BatchTable | Damage]]:
    """Yield the batches and damages of a copy from ``place`` on, with the number of their segment.

    Raises SourceError.
    """
    position = place.position
    for number in range(place.number, len(copy.segments)):
        segment = copy.segments[number]
        with open_source(segment.log, mapped=False, sealed=copy.is_sealed(number)) as source:
            for piece in walk(source, segment.base_offset, position):
                yield number, piece
        position = 0


def _segment_with(copy: PartitionCopy, offset: int) -> int | None:
    """Return the number of the segment whose range holds an offset."""
    number = bisect_right([segment.base_offset for segment in copy.segments], offset) - 1
    return None if number < 0 else number
