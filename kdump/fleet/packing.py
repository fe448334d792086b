"""packs(): which neighbouring tasks go together, so that Spark gets few tasks of about one size.

Spec: none of Kafka's. 6,000 tiny segments took 70.7 s as a task of Spark each, and 0.5 s in 8
tasks: the number of tasks decides. It must never change the order of tasks, nor leave one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

#: The bounds of a pack: less does not pay for a task, more is long to be done again.
_LEAST_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 512 << 20
#: Packs for each core: the last ones to end then leave others idle for a short time only.
_SHARES: Final = 3
#: To open and judge a file takes as long as to read so many bytes of one that is open.
FILE_BYTES: Final = 512 << 10


def most_bytes(sizes: Sequence[int], cores: int) -> int:
    """Return the bytes that a pack holds where so much is to be read, ``FILE_BYTES`` a file."""
    total = sum(sizes) + FILE_BYTES * len(sizes)
    return min(max(ceil(total / (_SHARES * cores)), _LEAST_BYTES), _MOST_BYTES)


def packs(sizes: Sequence[int], cores: int) -> Iterator[range]:
    """Share out tasks by the bytes that each reads; what comes are neighbouring numbers of tasks.

    A task larger than a pack should be is alone in its own.
    """
    most = most_bytes(sizes, cores)
    start = held = 0
    for number, size in enumerate(sizes):
        cost = size + FILE_BYTES
        if number > start and held + cost > most:
            yield range(start, number)
            start, held = number, 0
        held += cost
    if start < len(sizes):
        yield range(start, len(sizes))
