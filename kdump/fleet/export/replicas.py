"""The copy of a partition from which each offset is taken.

Where copies hold an offset under different leader epochs, the highest epoch is right, as it is for
brokers. Else the copy with the most offsets comes first, so that few others are needed.

Spec: none of Kafka's for the choice; ``LeaderEpochFileCache`` (KIP-101) for the epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kdump.fleet.export.ranges import Ranges

Taken = tuple[tuple[Ranges, ...], ...]
"""The offsets that are taken from each file of each copy, ascending."""


class Stretch(NamedTuple):
    """Offsets, both ends included, all of which are there, under one leader epoch, -1 for none."""

    first: int
    last: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Offsets that copies hold under different leader epochs, of which the last was taken."""

    first: int
    last: int
    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Offsets that were taken behind ones of a higher leader epoch than theirs.

    They are of a copy that had not yet cut its log where the new leader's began.
    """

    first: int
    last: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Merged:
    """What was chosen."""

    ranges: Taken
    conflicts: tuple[Conflict, ...]
    overtaken: tuple[Overtaken, ...]


def merge(copies: Sequence[Sequence[Sequence[Stretch]]]) -> Merged:
    """Choose among ``copies``; each is a sequence of files, and a file one of stretches."""
    sizes = [sum(s.last - s.first + 1 for file in copy for s in file) for copy in copies]
    # At each offset where something changes: what ends before it, and what begins there.
    begins: dict[int, list[tuple[int, int, int, int]]] = {}
    ends: dict[int, list[tuple[int, int, int, int]]] = {}
    for number, copy in enumerate(copies):
        for place, file in enumerate(copy):
            for stretch in file:
                held = (stretch.epoch, sizes[number], -number, -place)
                begins.setdefault(stretch.first, []).append(held)
                ends.setdefault(stretch.last + 1, []).append(held)
    taken: list[list[list[tuple[int, int]]]] = [[[] for _ in copy] for copy in copies]
    conflicts: list[Conflict] = []
    overtaken: list[Overtaken] = []
    highest = -1
    active: list[tuple[int, int, int, int]] = []
    before: list[tuple[int, int]] | None = None
    for start, stop in pairwise(sorted(begins.keys() | ends.keys())):
        for held in ends.get(start, ()):
            active.remove(held)
        active.extend(begins.get(start, ()))
        if not active:
            continue
        epoch, _, number, place = max(active)
        chosen = taken[-number][-place]
        if chosen is before:
            chosen[-1] = (chosen[-1][0], stop - 1)
        else:
            chosen.append((start, stop - 1))
            before = chosen
        epochs = tuple(sorted({held[0] for held in active if held[0] >= 0}))
        if len(epochs) > 1:
            _add(conflicts, Conflict(start, stop - 1, epochs))
        if 0 <= epoch < highest:
            _overtake(overtaken, Overtaken(start, stop - 1, epoch))
        highest = max(highest, epoch)
    ranges = tuple(tuple(tuple(file) for file in copy) for copy in taken)
    return Merged(ranges, tuple(conflicts), tuple(overtaken))


def _add(conflicts: list[Conflict], more: Conflict) -> None:
    last = conflicts[-1] if conflicts else None
    if last is not None and last.last + 1 == more.first and last.epochs == more.epochs:
        conflicts[-1] = Conflict(last.first, more.last, more.epochs)
    else:
        conflicts.append(more)


def _overtake(overtaken: list[Overtaken], more: Overtaken) -> None:
    last = overtaken[-1] if overtaken else None
    if last is not None and last.last + 1 == more.first and last.epoch == more.epoch:
        overtaken[-1] = Overtaken(last.first, more.last, more.epoch)
    else:
        overtaken.append(more)
