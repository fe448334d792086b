"""Ranges of offsets: union, intersection, difference."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import chain

#: First and last offsets, both included, ascending.
Ranges = tuple[tuple[int, int], ...]


def packed(ranges: Ranges) -> array[int]:
    """Return ``ranges`` as the kernel takes them: one number behind the other."""
    return array("q", chain.from_iterable(ranges))


def join(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Return pairs in any order as ranges; pairs without an offset are left out."""
    ranges: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if ranges and first <= ranges[-1][1] + 1 and first <= last:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
        elif first <= last:
            ranges.append((first, last))
    return tuple(ranges)


def overlap(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the offsets that are in both."""
    result, start_index = [], 0
    for first, last in ranges:
        while start_index < len(others) and others[start_index][1] < first:
            start_index += 1
        index = start_index
        while index < len(others) and others[index][0] <= last:
            result.append((max(first, others[index][0]), min(last, others[index][1])))
            index += 1
    return tuple(result)


def subtract(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the offsets of ``ranges`` that are not in ``others``."""
    result, start_index = [], 0
    for first, last in ranges:
        while start_index < len(others) and others[start_index][1] < first:
            start_index += 1
        index, start = start_index, first
        while index < len(others) and others[index][0] <= last:
            if others[index][0] > start:
                result.append((start, others[index][0] - 1))
            start = others[index][1] + 1
            index += 1
        if start <= last:
            result.append((start, last))
    return tuple(result)
