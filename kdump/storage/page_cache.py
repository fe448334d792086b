"""The pages of an open file that the page cache holds.

Spec: mincore(2) of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_RESIDENT: Final = 1
_IS_RESIDENT: Final = bytes(state & _RESIDENT for state in range(256))
_ABSENT: Final = re.compile(rb"\0+")


def absent_runs(descriptor: int, position: int, length: int) -> list[tuple[int, int]] | None:
    """Return the runs of pages that are not in the page cache.

    They are those of the ``length`` bytes from ``position`` on, a multiple of the page size. A run
    is (position, count of bytes), in whole pages; runs are in order. None if the kernel does not
    say: it answers only for files that this process owns or may write to.
    """
    if sys.platform != "linux" or not _may_know(os.fstat(descriptor), descriptor):
        return None
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, position)
    if address == _MAP_FAILED:
        return None
    states = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
    try:
        if libc.mincore(address, length, states) != 0:
            return None
    finally:
        libc.munmap(address, length)
    return list(_runs(states.raw.translate(_IS_RESIDENT), position))


def _runs(states: bytes, position: int) -> Iterator[tuple[int, int]]:
    for run in _ABSENT.finditer(states):
        start, end = run.span()
        yield position + start * mmap.PAGESIZE, (end - start) * mmap.PAGESIZE


def _may_know(status: os.stat_result, descriptor: int) -> bool:
    # Of other files the kernel reports every page as cached, against side channels (since 5.2).
    if os.geteuid() in (0, status.st_uid):
        return True
    return os.access(f"/proc/self/fd/{descriptor}", os.W_OK, effective_ids=True)


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    libc.mmap.restype = pointer
    libc.mmap.argtypes = (pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    libc.mincore.argtypes = (pointer, size, ctypes.c_char_p)
    libc.munmap.argtypes = (pointer, size)
    return libc
