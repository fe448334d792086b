"""Which processes tests have started; others than workers live through a whole session."""

from __future__ import annotations

import os
from pathlib import Path


def children() -> set[int]:
    """The pids of all children, ended ones that nobody waited for too."""
    return {pid for pid, parent in _parents().items() if parent == os.getpid()}


def family(pid: int) -> set[int]:
    """A process, its children, theirs, and so on."""
    parents = _parents()
    found, more = set[int](), {pid}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in more} - found
    return found


def _parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:  # ended meanwhile
            continue
        # The name in parentheses may hold anything; behind it come the state and the parent.
        found[int(status.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return found
