"""Answers that several messages share."""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, indexes

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
#: The findings on the leader that make it send what a follower refuses.
FETCHED: Final = (
    batches.BATCH_CRC_MISMATCH,
    batches.BATCH_SIZE_IMPOSSIBLE,
    indexes.INDEX_MISPLACED,
)
FETCHED_FROM: Final = (
    "Verify this partition on the leader. Either the batch is corrupt there, or an index points to "
    "the wrong position. If the partition is valid there, the network or this machine's memory is "
    "at fault."
)
LEADER_LOG: Final = "Read the server.log of the leader from that time: it names the cause."


def ended(thread: str, *loggers: str) -> tuple[str, ...]:
    """Return the patterns of the line that ``thread`` of these loggers ended, in each release."""
    named = (f"[{thread}{mark} Error due to" for mark in ("],", "]:", "]"))
    return (*named, *(f"Error due to ({logger}" for logger in loggers))
