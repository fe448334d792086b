"""What was read and found, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from kdump.commands.groups.consumption import OffsetsPartition
from kdump.ui.exits import Ending


@dataclass
class GroupsSummary:
    """Counts over partitions of ``__consumer_offsets``.

    ``outside`` are offsets outside of their log, ``damaged`` and ``unread`` ranges of the logs of
    the topic, ``undecodable`` records that a coordinator cannot decode.
    """

    partitions: int = 0
    groups: int = 0
    offsets: int = 0
    outside: int = 0
    damaged: int = 0
    unread: int = 0
    undecodable: int = 0

    def add(self, found: OffsetsPartition) -> None:
        """Add a partition."""
        self.partitions += not found.absent
        self.groups += len(found.groups)
        rows = [row for _, rows in found.groups for row in rows]
        self.offsets += sum(row.committed is not None for row in rows)
        self.outside += sum(row.outside is not None for row in rows)
        self.damaged += sum(fault.damaged for fault in found.faults)
        self.unread += sum(not fault.damaged for fault in found.faults)
        self.undecodable += len(found.undecodable)

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        problems = bool(self.outside or self.damaged or self.undecodable)
        return Ending(unread=bool(self.unread), problems=problems).exit_code
