"""Answers that several messages share."""

from __future__ import annotations

from typing import Final

NOTHING: Final = "Nothing to do."
ALL: Final = "Run kdump next-start: it lists all reasons at once. A broker names only the first."
FIRST: Final = "Read the earlier line that led to this line. It names the cause."
OFFLINE: Final = (
    "The broker could not use this file and took the log directory offline. If it had no other log "
    "directory, it exited."
)
DISK: Final = (
    "The exception below the line names the cause: no free space, a disk error, missing "
    "permissions, or too many open files. Fix the cause, then restart the broker: a log directory "
    "that is offline stays offline until the restart."
)
BAD_BATCH: Final = (
    "If another replica is in sync, start its broker first. If no other replica has the records, "
    "run kdump verify, then kdump salvage, before recovery truncates the log there."
)
