"""Answers that several messages share."""

from __future__ import annotations

from typing import Final

NOTHING: Final = "Nothing to do."
ALL: Final = "Run kdump next-start: it lists every reason at once, where a broker names the first."
FIRST: Final = "Read the line that it follows from: that one names the cause."
OFFLINE: Final = (
    "The broker could not use this file and took the log directory offline. With no other log "
    "directory it exited."
)
DISK: Final = (
    "The exception below the line says why: no space, an error of the disk, rights, too many open "
    "files. Once that is solved, restart the broker: a log directory stays offline until then."
)
BAD_BATCH: Final = (
    "If another replica is in sync, start that one first. If this is the only copy, run kdump "
    "verify, then kdump salvage, before a recovery cuts the log there."
)
