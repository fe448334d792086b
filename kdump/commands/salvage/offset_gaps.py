"""The offsets that a salvage leaves out, and the pieces that held them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kdump.commands.salvage.selection import PieceSelection
from kdump.commands.salvage.stretches import Left, Stretch, Why
from kdump.storage.walk import Reason
from kdump.values import frozen


@frozen
class OffsetGap:
    """Missing offsets ``first`` to ``last``; ``last`` is None if the end is unknown.

    ``left`` is the first piece in the gap that was not taken, None without one. ``pieces`` counts
    all such pieces, and ``size`` their bytes.
    """

    first: int
    last: int | None
    left: Left | None
    pieces: int
    size: int

    @property
    def count(self) -> int | None:
        """The number of offsets, which is the most records that can be missing."""
        return None if self.last is None else self.last - self.first + 1


def offset_gaps(selection: PieceSelection, *, whole: bool) -> Iterator[OffsetGap]:
    """Yield the gaps of a selection in order. ``whole``: missing offsets count as lost."""
    left: list[Left] = []
    following = selection.segments[0].base_offset if selection.segments else 0
    begun = False
    for piece in selection.pieces:
        if isinstance(piece, Left):
            left.append(piece)
            continue
        if piece.first_offset > following and (left or (whole and begun)):
            yield _gap(following, piece.first_offset - 1, left)
        following, left, begun = piece.last_offset + 1, [], True
    at_end = [piece for piece in left if _may_hold(piece, following)]
    if at_end:
        yield _gap(following, None, at_end)


def batch_gaps(selection: PieceSelection) -> int:
    """Return the number of gaps between batches of a log that no other piece lies in."""
    return sum(
        isinstance(piece, Stretch)
        and isinstance(following, Stretch)
        and piece.log == following.log
        and piece.last_offset + 1 < following.first_offset
        for piece, following in pairwise(selection.pieces)
    )


def missing_segments(selection: PieceSelection, gaps: Iterable[OffsetGap]) -> Iterator[int]:
    """Yield the first offsets of those ``gaps`` in which segments are missing."""
    ends = {stretch.log: stretch.last_offset + 1 for stretch in selection.stretches}
    following = set(ends.values())
    return (gap.first for gap in gaps if gap.left is None and gap.first in following)


def _may_hold(left: Left, following: int) -> bool:
    """Return whether a piece after the last taken batch may hold further offsets."""
    if left.why is Reason.PREALLOCATED or not left.size:
        return False
    backwards = left.why in (Why.BACKWARDS, Why.HUNTED)
    return not (backwards and left.last_offset is not None and left.last_offset < following)


def _gap(first: int, last: int | None, left: list[Left]) -> OffsetGap:
    return OffsetGap(
        first, last, left[0] if left else None, len(left), sum(piece.size for piece in left)
    )
