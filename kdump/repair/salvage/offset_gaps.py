"""The offsets that a salvage leaves out, and what stood there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdump.repair.salvage.selection import PieceSelection
from kdump.repair.salvage.stretches import Left, Why
from kdump.storage.walk import Reason


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """Offsets ``first`` to ``last`` that are missing; ``last`` is None where nobody knows the end.

    ``left`` is the first piece there that was not taken, None where there is nothing; ``pieces``
    counts them all, and ``size`` is their bytes.
    """

    first: int
    last: int | None
    left: Left | None
    pieces: int
    size: int

    @property
    def count(self) -> int | None:
        """How many offsets they are, which is as many records at the most."""
        return None if self.last is None else self.last - self.first + 1


def offset_gaps(selection: PieceSelection, *, whole: bool) -> Iterator[OffsetGap]:
    """Yield the holes of what was picked, ascending. ``whole``: no cleaner was there."""
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
    behind = [one for one in left if _may_hold(one, following)]
    if behind:
        yield _gap(following, None, behind)


def _may_hold(left: Left, following: int) -> bool:
    """Whether something behind the last batch that is taken may hold further offsets."""
    if left.why is Reason.PREALLOCATED or not left.size:
        return False
    backwards = left.why in (Why.BACKWARDS, Why.HUNTED)
    return not (backwards and left.last_offset is not None and left.last_offset < following)


def _gap(first: int, last: int | None, left: list[Left]) -> OffsetGap:
    return OffsetGap(
        first, last, left[0] if left else None, len(left), sum(one.size for one in left)
    )
