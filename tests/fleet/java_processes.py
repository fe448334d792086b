"""The processes of a Spark session: who they are, and that they end."""

from __future__ import annotations

import time
from pathlib import Path

#: How long an end may take, where the machine has other work.
SECONDS = 200


def descendants(pid: int) -> set[int]:
    """All processes that descend from one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, grown = {pid}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {pid}


def gone(pids: set[int], seconds: float = SECONDS) -> bool:
    """Whether the processes end in time."""
    until = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
