"""Packing of small tasks into tasks of about one size.

Measured: 6,000 tiny segments took 70.7 s as one task of Spark each, and 0.5 s in 8 tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final

from kdump.storage.logdir import MAX_LOG_BYTES
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.objects.address import AnyPath

#: The bounds of a pack: less is not worth a task, and of more a retry takes too long.
_LEAST_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 512 << 20
#: Packs for each core, so that cores are idle only for a short time at the end.
_PACKS_PER_CORE: Final = 3
#: Steps of the binary search for the smallest size limit that does not need more packs.
_HALVINGS: Final = 8
#: The cost of opening and checking a file, in bytes read from an open file.
FILE_BYTES: Final = 512 << 10
#: Of a log in a manifest only headers are read: this times as fast.
_MANIFEST_TIMES: Final = 16


def log_cost(path: AnyPath, size: int) -> int:
    """Return the cost of a log of ``size`` bytes, or of one in a directory, in bytes read."""
    return size // _MANIFEST_TIMES if isinstance(path, ManifestPath) else size


def max_task_bytes(sizes: Sequence[int], cores: int) -> int:
    """Return the largest cost of a partition that one task reads, ``FILE_BYTES`` a file included.

    It may exceed the size of a pack, as a segment may, if each core still gets some tasks.
    """
    share = _total(sizes) // (_PACKS_PER_CORE * cores)
    return min(max(share, _LEAST_BYTES), MAX_LOG_BYTES)


def pack_tasks(sizes: Sequence[int], cores: int) -> list[range]:
    """Return packs of neighbouring tasks, as ranges of task numbers; ``sizes`` in bytes.

    A task larger than the size limit is alone in its pack.
    """
    total = _total(sizes)
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
        cost = size + FILE_BYTES
        if number > start and pack_bytes + cost > most:
            packs.append(range(start, number))
            start, pack_bytes = number, 0
        pack_bytes += cost
    if start < len(sizes):
        packs.append(range(start, len(sizes)))
    return packs


def _total(sizes: Sequence[int]) -> int:
    return sum(sizes) + FILE_BYTES * len(sizes)
