"""A table for each group, with the columns of Kafka's tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kdump.audit.commands import verify_command
from kdump.commands.groups.consumption import ConsumptionRow, OffsetsPartition
from kdump.commands.groups.group import Group, Member
from kdump.commands.groups.summary import GroupsSummary
from kdump.coordinators.log import LogFault
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.paths import AnyPath
from kdump.ui.coordinator_logs import undecodable_text
from kdump.ui.table import NONE, table
from kdump.ui.units import count_text

_HEAD: Final = (
    "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-START-OFFSET", "LOG-END-OFFSET", "LAG",
    "COMMITTED", "EXPIRES", "CONSUMER-ID", "HOST", "CLIENT-ID", "METADATA", "NOTE",
)  # fmt: skip
#: The first columns, which are printed even if they hold nothing.
_ALWAYS: Final = 6


class TextGroups:
    """Prints the groups of each partition as soon as they are known."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._summary = GroupsSummary()

    def add(self, found: OffsetsPartition) -> None:
        """Print the groups of a partition, and what could not be read of it."""
        self._summary.add(found)
        for path in found.passed_over:
            self._emit(
                printable(
                    f"{OFFSETS_TOPIC}-{found.partition}: {path} is passed over: its leader epoch "
                    f"or its end is not above those of {found.path}"
                )
            )
        for fault in found.faults:
            self._emit(printable(_fault_text(fault, found.path)))
        for undecodable in found.undecodable:
            self._emit(printable(undecodable_text(found.path, undecodable)))
        for group, rows in found.groups:
            self._emit(printable(_title(group)))
            if rows:
                for line in table(_HEAD, list(map(_cells, rows)), _ALWAYS):
                    self._emit(line)
            for member in group.members:
                if not any(row.member == member for row in rows):
                    self._emit(printable(f"  member {_member_text(member)}"))
            self._emit("")

    def finish(self) -> int:
        """Print what was read, and return the exit code."""
        summary = self._summary
        outside = f", {summary.outside:,} outside of their log" if summary.outside else ""
        self._emit(
            f"{count_text(summary.groups, 'group')} with "
            f"{count_text(summary.offsets, 'committed offset')}{outside}, in "
            f"{count_text(summary.partitions, 'partition')} of {OFFSETS_TOPIC}"
        )
        return summary.exit_code


def _title(group: Group) -> str:
    kind = group.kind.value
    if group.protocol_type not in (None, kind):
        kind += f" ({group.protocol_type})"
    elif group.kind == "classic":
        kind += ", without members' protocol"
    parts = [f"{group.group_id}: {kind}", group.state.value]
    if group.epoch is not None:
        parts.append(f"{'generation' if group.kind == 'classic' else 'epoch'} {group.epoch}")
    if group.protocol:
        parts.append(f"assignor {group.protocol}")
    parts.append(count_text(len(group.members), "member"))
    if group.since_ms is not None:
        parts.append(f"since {time_text(group.since_ms)}")
    return f"GROUP {', '.join(parts)}; {OFFSETS_TOPIC}-{group.partition}"


def _cells(row: ConsumptionRow) -> tuple[str, ...]:
    committed, member, extent = row.committed, row.member, row.extent
    notes = [] if row.outside is None else [f"offset {row.outside.value}"]
    if row.in_remote_storage:
        notes.append("offset in remote storage")
    if row.uncommitted:
        notes.append("offset in an open transaction")
    return (
        row.topic,
        str(row.partition),
        NONE if row.offset is None else str(row.offset),
        NONE if extent is None or extent.start is None else str(extent.start),
        NONE if extent is None else str(extent.end),
        NONE if row.lag is None else str(row.lag),
        NONE if committed is None else time_text(committed.commit_ms),
        NONE if row.expires_ms is None else time_text(row.expires_ms),
        NONE if member is None else member.member_id,
        NONE if member is None else member.host,
        NONE if member is None else member.client_id,
        NONE if committed is None or not committed.metadata else committed.metadata,
        ", ".join(notes) or NONE,
    )


def _member_text(member: Member) -> str:
    instance = "" if member.instance_id is None else f", instance {member.instance_id}"
    return f"{member.member_id}, client {member.client_id} at {member.host}{instance}"


def _fault_text(fault: LogFault, path: AnyPath) -> str:
    where = "" if fault.position is None else f" at position {fault.position}"
    size = "" if fault.size is None else f", {count_text(fault.size, 'byte')}"
    if not fault.damaged:
        return f"incomplete: {fault.path}{where}{size}: {fault.reason}"
    return (
        f"damage: {fault.path}{where}{size}: {fault.reason}. The groups below are those of sound "
        f"records; a coordinator may not load this partition: {shell_text(verify_command(path))}"
    )
