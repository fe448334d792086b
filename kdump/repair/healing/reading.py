"""The batches of a copy from a place on.

An index only shortens the search. A place is where a batch ends or a segment begins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kdump.format.batch import BatchTable, RecordBatch
from kdump.repair.healing.copies import PartitionCopy
from kdump.storage.access import open_source
from kdump.storage.rights import acting
from kdump.storage.selection import entry_position
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from kdump.values import frozen


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


@frozen
class Found:
    """The place after a batch in a copy, None if the copy does not have the batch.

    ``hunted``: a search has found it. ``is_other``: the copy has another batch there.
    """

    after: Place | None = None
    hunted: bool = False
    is_other: bool = False


def find(copy: PartitionCopy, batch: RecordBatch) -> Found:
    """Look for ``batch`` in a copy. Raises SourceError."""
    number = _segment_with(copy, batch.base_offset)
    if number is None:
        return Found()
    offset, is_other = batch.base_offset, False
    for found, hunted in _batches_at(copy, number, offset):
        if is_same(found, batch):
            return Found(Place(number, found.position + found.size), hunted)
        # No checksum covers the offset and the epoch: one flipped bit makes no other batch.
        differs = (found.crc, found.size) != (batch.crc, batch.size)
        is_other |= differs and not hunted and found.base_offset <= batch.last_offset
    return Found(is_other=is_other)


def place_of_offset(copy: PartitionCopy, offset: int) -> Place | None:
    """Return the place of the batch that begins with ``offset``, None without one.

    Raises SourceError.
    """
    number = _segment_with(copy, offset)
    for found, hunted in () if number is None else _batches_at(copy, number, offset):
        if found.base_offset == offset and not hunted:
            assert number is not None
            return Place(number, found.position)
    return None


def _batches_at(
    copy: PartitionCopy, number: int, offset: int
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield the first batch of a segment that reaches ``offset``, and whether it was hunted.

    Several where a search after damage has found some. A wrong index is read past.
    """
    segment = copy.segments[number]
    base = segment.base_offset
    with _open_log(copy, number) as source:
        with acting(copy.rights):
            start = entry_position(source, segment.index, base, offset)
        for position in dict.fromkeys((start, 0)):
            for piece in walk(source, base, position):
                if isinstance(piece, Damage):
                    continue
                row = bisect_left(piece.column("last_offset"), offset)
                if row < len(piece):
                    yield piece[row], piece.hunted
                    if not piece.hunted:
                        break


def place_of_segment(copy: PartitionCopy, base_offset: int) -> Place | None:
    """Return the start of the segment with this base offset, None without one."""
    number = _segment_with(copy, base_offset)
    if number is None or copy.segments[number].base_offset != base_offset:
        return None
    return Place(number, 0)


def place_of_segment_with(copy: PartitionCopy, offset: int) -> Place | None:
    """Return the start of the segment whose range holds ``offset``, or else of the first one."""
    number = _segment_with(copy, offset)
    return Place(number or 0, 0) if copy.segments else None


def pieces_from(copy: PartitionCopy, place: Place) -> Iterator[tuple[int, BatchTable | Damage]]:
    """Yield the batches and damages of a copy from ``place`` on, with the number of their segment.

    Raises SourceError.
    """
    position = place.position
    for number in range(place.number, len(copy.segments)):
        segment = copy.segments[number]
        with _open_log(copy, number) as source:
            for piece in walk(source, segment.base_offset, position):
                yield number, piece
        position = 0


def _open_log(copy: PartitionCopy, number: int) -> Source:
    with acting(copy.rights):
        log, sealed = copy.segments[number].log, copy.is_sealed(number)
        return open_source(log, mapped=False, sealed=sealed)


def _segment_with(copy: PartitionCopy, offset: int) -> int | None:
    """Return the number of the segment whose range holds an offset."""
    number = bisect_right([segment.base_offset for segment in copy.segments], offset) - 1
    return None if number < 0 else number
