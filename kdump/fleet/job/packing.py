"""Packing of small tasks into tasks of about one size, and the size of jobs.

Measured: 6,000 tiny segments took 70.7 s as one task of Spark each, and 0.5 s in 8 tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from kdump.storage.logdir import MAX_LOG_BYTES

#: The bounds of a pack: less is not worth a task, and of more a retry takes too long.
_LEAST_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 512 << 20
#: Packs for each core, so that cores are idle only for a short time at the end.
_PACKS_PER_CORE: Final = 3
#: Steps of the binary search for the smallest size limit that does not need more packs.
_HALVINGS: Final = 8
#: The cost of opening and checking a file, in bytes read from an open file.
FILE_BYTES: Final = 512 << 10

#: The time for which a job has work: its start costs less than 2 % of that.
_JOB_SECONDS: Final = 5.0
#: How much a job may be larger or smaller than the one before.
_STEP: Final = 4
#: Packs of the largest job for each core.
_MOST_PACKS_PER_CORE: Final = 16


def task_cost(size: int) -> int:
    """Return the cost of a task that reads ``size`` bytes, in bytes read."""
    return size + FILE_BYTES


def max_task_bytes(total_cost: int, cores: int) -> int:
    """Return the largest cost of a partition that one task reads, ``FILE_BYTES`` a file included.

    It may exceed the size of a pack, as a segment may, if each core still gets some tasks.
    ``total_cost`` is that of all files.
    """
    share = total_cost // (_PACKS_PER_CORE * cores)
    return min(max(share, _LEAST_BYTES), MAX_LOG_BYTES)


class JobSize:
    """The cost of the tasks that one job gets, in bytes read.

    The first jobs are as small as is worth it. The others are about as large as is done in
    ``_JOB_SECONDS``, so that results come in all the time, and a job's start costs little.
    """

    def __init__(self, cores: int, now: float) -> None:
        self._least = _PACKS_PER_CORE * cores * _LEAST_BYTES
        self._most = _MOST_PACKS_PER_CORE * cores * _MOST_BYTES
        self._last_end = now
        self.cost = self._least

    def adapt(self, cost: int, now: float) -> None:
        """Choose the next size at the time ``now``, when a job of this ``cost`` has ended."""
        seconds = max(now - self._last_end, 1e-3)
        self._last_end = now
        # Of two jobs at a time, one may end just after the other: no single time is trusted.
        wanted = min(max(cost / seconds * _JOB_SECONDS, self.cost / _STEP), self.cost * _STEP)
        self.cost = min(max(int(wanted), self._least), self._most)


def pack_tasks(sizes: Sequence[int], cores: int) -> list[range]:
    """Return packs of neighbouring tasks, as ranges of task numbers; ``sizes`` in bytes.

    A task larger than the size limit is alone in its pack.
    """
    total = sum(map(task_cost, sizes))
    most = min(max(ceil(total / (_PACKS_PER_CORE * cores)), _LEAST_BYTES), _MOST_BYTES)
    packs = _fill_packs(sizes, most)
    count = len(packs)
    if count > cores:  # a multiple of the cores, so that all end at about the same time
        count = ceil(count / cores) * cores
    least = min(total // max(count, 1), most)
    for _ in range(_HALVINGS):
        middle = (least + most) // 2
        smaller = _fill_packs(sizes, middle)
        if len(smaller) <= count:
            packs, most = smaller, middle
        else:
            least = middle
    return packs


def _fill_packs(sizes: Sequence[int], most: int) -> list[range]:
    """Return packs of at most ``most`` bytes, each as large as possible."""
    packs = []
    start = pack_bytes = 0
    for number, size in enumerate(sizes):
        cost = task_cost(size)
        if number > start and pack_bytes + cost > most:
            packs.append(range(start, number))
            start, pack_bytes = number, 0
        pack_bytes += cost
    if start < len(sizes):
        packs.append(range(start, len(sizes)))
    return packs
