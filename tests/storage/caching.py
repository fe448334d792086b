"""What of a file the page cache holds. Shares no code with kdump."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path


def cached(path: Path) -> bytes:
    """A byte for each page of the file: 1 if the page cache holds it, 0 if not."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        prot = mmap.PROT_READ | mmap.PROT_WRITE  # ctypes takes the address of writable memory only
        mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, prot)
    states = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
    first = ctypes.c_char.from_buffer(mapped)
    address = ctypes.c_void_p(ctypes.addressof(first))
    assert libc.mincore(address, ctypes.c_size_t(len(mapped)), states) == 0
    del first
    mapped.close()
    return bytes(state & 1 for state in states)


def drop_cache(path: Path) -> None:
    """Write the file out, and let the page cache forget it."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def bring_in(path: Path, position: int, length: int) -> None:
    """Let the page cache hold these bytes of the file, and no others beside them."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead
    assert len(os.pread(descriptor, length, position)) == length
    os.close(descriptor)


def assert_left_as_it_was(before: bytes, after: bytes) -> None:
    """No page has come in. A few may have gone: systems take pages back at any time."""
    assert len(before) == len(after)
    pages = list(zip(before, after, strict=True))
    assert pages.count((0, 1)) == 0
    assert pages.count((1, 0)) <= sum(before) // 25
