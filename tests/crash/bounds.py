"""Bounds the memory of this process and of the children that it forks, so that a test can fail."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")


@contextmanager
def memory_bound(size_bytes: int) -> Iterator[None]:
    """Who asks for more than ``size_bytes`` beyond what there is now meets a MemoryError inside.

    Address space counts, so mapped files do too. Nothing is bounded where there is no /proc.
    """
    if not _STATM.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
