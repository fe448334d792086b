"""The copy of a partition from which each offset is taken.

If copies hold an offset under different leader epochs, the highest epoch is right, as it is for
brokers. Otherwise the copy with the most offsets comes first, so that few others are needed.

Spec: ``LeaderEpochFileCache`` (KIP-101) for the epochs; the choice among equal epochs is kdump's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from kdump.tables.committed.ranges import Ranges
from kdump.values import frozen

Taken = tuple[tuple[Ranges, ...], ...]
"""The ranges that are taken from each file of each copy, ascending."""


class OffsetStretch(NamedTuple):
    """Offsets without a gap, ends included, under one leader epoch, -1 for none."""

    first: int
    last: int
    epoch: int


@frozen
class Conflict:
    """Offsets that copies hold under different leader epochs, of which the last was taken."""

    first: int
    last: int
    epochs: tuple[int, ...]


@frozen
class StaleOffsets:
    """Offsets that were taken although lower offsets have a higher leader epoch.

    They are from a copy that had not yet truncated its log where the new leader's log began.
    """

    first: int
    last: int
    epoch: int


@frozen
class MergedCopies:
    """The choice: the ranges that are taken, and what the manifest reports about it."""

    ranges: Taken
    conflicts: tuple[Conflict, ...]
    overtaken: tuple[StaleOffsets, ...]


def merge(copies: Sequence[Sequence[Sequence[OffsetStretch]]]) -> MergedCopies:
    """Choose a copy for each offset; each copy is a sequence of files, a file one of stretches."""
    sizes = [sum(s.last - s.first + 1 for file in copy for s in file) for copy in copies]
    # By offset: the stretches that begin there, and those that end just before it.
    begins: dict[int, list[tuple[int, int, int, int]]] = {}
    ends: dict[int, list[tuple[int, int, int, int]]] = {}
    for number, copy in enumerate(copies):
        for file_number, file in enumerate(copy):
            for stretch in file:
                candidate = (stretch.epoch, sizes[number], -number, -file_number)
                begins.setdefault(stretch.first, []).append(candidate)
                ends.setdefault(stretch.last + 1, []).append(candidate)
    taken: list[list[list[tuple[int, int]]]] = [[[] for _ in copy] for copy in copies]
    conflicts: list[Conflict] = []
    overtaken: list[StaleOffsets] = []
    highest = -1
    active: list[tuple[int, int, int, int]] = []
    before: list[tuple[int, int]] | None = None
    for start, stop in pairwise(sorted(begins.keys() | ends.keys())):
        for candidate in ends.get(start, ()):
            active.remove(candidate)
        active.extend(begins.get(start, ()))
        if not active:
            continue
        epoch, _, number, file_number = max(active)
        target = taken[-number][-file_number]
        if target is before:
            target[-1] = (target[-1][0], stop - 1)
        else:
            target.append((start, stop - 1))
            before = target
        epochs = tuple(sorted({candidate[0] for candidate in active if candidate[0] >= 0}))
        if len(epochs) > 1:
            _add_conflict(conflicts, Conflict(start, stop - 1, epochs))
        if 0 <= epoch < highest:
            _add_stale(overtaken, StaleOffsets(start, stop - 1, epoch))
        highest = max(highest, epoch)
    ranges = tuple(tuple(tuple(file) for file in copy) for copy in taken)
    return MergedCopies(ranges, tuple(conflicts), tuple(overtaken))


def _add_conflict(conflicts: list[Conflict], more: Conflict) -> None:
    last = conflicts[-1] if conflicts else None
    if last is not None and last.last + 1 == more.first and last.epochs == more.epochs:
        conflicts[-1] = Conflict(last.first, more.last, more.epochs)
    else:
        conflicts.append(more)


def _add_stale(overtaken: list[StaleOffsets], more: StaleOffsets) -> None:
    last = overtaken[-1] if overtaken else None
    if last is not None and last.last + 1 == more.first and last.epoch == more.epoch:
        overtaken[-1] = StaleOffsets(last.first, more.last, more.epoch)
    else:
        overtaken.append(more)
