"""Ranges of offsets, and which offsets are in them.

Spec: none of Kafka's. It must never take ranges that overlap.
"""

from __future__ import annotations

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
