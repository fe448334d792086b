"""What the test process holds open; what others of its session hold may be closed at any time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def descriptors() -> set[tuple[str, str]]:
    """The numbers of open files, and what these are."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that has listed them is closed by now
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


@contextmanager
def none_left_open() -> Iterator[None]:
    """Fails if more is open at the end than before."""
    before = descriptors()
    yield
    assert not descriptors() - before
