"""Ranges of offsets: membership, intersection, difference."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

#: First and last offsets, both included, ascending.
Ranges = tuple[tuple[int, int], ...]


def within(offsets: npt.NDArray[np.int64], ranges: Ranges) -> npt.NDArray[np.bool_]:
    """Say of each of the ``offsets`` whether some range has it."""
    if not ranges:
        return np.zeros(len(offsets), bool)
    firsts, lasts = np.array(ranges, np.int64).T
    place = np.searchsorted(firsts, offsets, "right") - 1
    inside: npt.NDArray[np.bool_] = (place >= 0) & (offsets <= lasts[np.maximum(place, 0)])
    return inside


def joined(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Put pairs of any order into ranges; those without an offset are left out."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if found and first <= found[-1][1] + 1 and first <= last:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif first <= last:
            found.append((first, last))
    return tuple(found)


def overlap(ranges: Ranges, others: Ranges) -> Ranges:
    """Return what is in both."""
    found, at = [], 0
    for first, last in ranges:
        while at < len(others) and others[at][1] < first:
            at += 1
        here = at
        while here < len(others) and others[here][0] <= last:
            found.append((max(first, others[here][0]), min(last, others[here][1])))
            here += 1
    return tuple(found)


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Return what is in ``ranges`` alone."""
    found, at = [], 0
    for first, last in ranges:
        while at < len(others) and others[at][1] < first:
            at += 1
        here, start = at, first
        while here < len(others) and others[here][0] <= last:
            if others[here][0] > start:
                found.append((start, others[here][0] - 1))
            start = others[here][1] + 1
            here += 1
        if start <= last:
            found.append((start, last))
    return tuple(found)
