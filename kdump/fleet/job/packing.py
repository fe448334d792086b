"""Packing of small tasks into tasks of about one size.

6,000 tiny segments took 70.7 s as a task of Spark each, and 0.5 s in 8 tasks: the number of tasks
decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from kdump.storage.logdir import MAX_LOG_BYTES

#: The bounds of a pack: less does not pay for a task, more is long to be done again.
_LEAST_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 512 << 20
#: Packs for each core: the last ones to end then leave others idle for a short time only.
_SHARES: Final = 3
#: How often the largest size of a pack is looked for between bounds, until all are about as large.
_HALVINGS: Final = 8
#: To open and judge a file takes as long as to read so many bytes of one that is open.
FILE_BYTES: Final = 512 << 10


def most_together(sizes: Sequence[int], cores: int) -> int:
    """Return how much one task may read of what is better read by one, ``FILE_BYTES`` a file.

    It may be more than a pack holds, as a segment may be, if each core still gets some tasks.
    """
    share = _total(sizes) // (_SHARES * cores)
    return min(max(share, _LEAST_BYTES), MAX_LOG_BYTES)


def packs(sizes: Sequence[int], cores: int) -> list[range]:
    """Share out tasks by the bytes that each reads; what comes are neighbouring numbers of tasks.

    A task larger than a pack should be is alone in its own.
    """
    total = _total(sizes)
    most = min(max(ceil(total / (_SHARES * cores)), _LEAST_BYTES), _MOST_BYTES)
    found = _packs(sizes, most)
    count = len(found)
    if count > cores:  # the same for each core: at the end none works while others wait
        count = ceil(count / cores) * cores
    least = min(total // max(count, 1), most)
    for _ in range(_HALVINGS):
        middle = (least + most) // 2
        smaller = _packs(sizes, middle)
        if len(smaller) <= count:
            found, most = smaller, middle
        else:
            least = middle
    return found


def _packs(sizes: Sequence[int], most: int) -> list[range]:
    """Packs of at most so many bytes, each as large as it can be."""
    found = []
    start = held = 0
    for number, size in enumerate(sizes):
        cost = size + FILE_BYTES
        if number > start and held + cost > most:
            found.append(range(start, number))
            start, held = number, 0
        held += cost
    if start < len(sizes):
        found.append(range(start, len(sizes)))
    return found


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes) + FILE_BYTES * len(sizes)
