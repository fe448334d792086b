"""The columns of committed offsets, and reports of groups: text, JSON Lines and CSV.

The columns of text are those of Kafka's tool. Scripts rely on JSON: fields may be added, but none
is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

from kdump.audit.commands import verify_command
from kdump.commands.groups.consumption import ConsumptionRow, OffsetsPartition
from kdump.commands.groups.group import Group, GroupKind, Member
from kdump.commands.groups.summary import GroupsSummary
from kdump.coordinators.extents import Extent
from kdump.coordinators.log import LogFault
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable, time_text
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.coordinator_logs import fault_fields, undecodable_text
from kdump.ui.paragraphs import wrap
from kdump.ui.table import NONE, Column, ReportTable
from kdump.ui.units import count_text


def _notes(row: ConsumptionRow) -> str:
    notes = [] if row.outside is None else [f"offset {row.outside.value}"]
    if row.in_remote_storage:
        notes.append("offset in remote storage")
    if row.uncommitted:
        notes.append("offset in an open transaction")
    return ", ".join(notes) or NONE


def _ranges(extent: Extent) -> list[dict[str, int]]:
    return [{"first_offset": first, "last_offset": last} for first, last in extent.remote]


_OFFSETS: Final = ReportTable[ConsumptionRow](
    "offset",
    (
        Column("TOPIC", "topic", lambda row: row.topic, csv=True),
        Column("PARTITION", "partition", lambda row: row.partition, csv=True),
        Column("CURRENT-OFFSET", None, lambda row: row.offset),
        Column(None, "offset", lambda row: row.committed and row.committed.offset, csv=True),
        Column(None, "share_start_offset", lambda row: row.share_start),
        Column(None, "share_complete", lambda row: row.share_complete),
        Column(None, "leader_epoch", lambda row: row.committed and row.committed.leader_epoch),
        Column(None, "metadata", lambda row: row.committed and row.committed.metadata),
        Column(None, "topic_id", lambda row: row.committed and row.committed.topic_id),
        Column(
            "COMMITTED", "commit_ms", lambda row: row.committed and row.committed.commit_ms,
            time_text,
        ),
        Column("EXPIRES", "expires_ms", lambda row: row.expires_ms, time_text),
        Column(None, "record_offset", lambda row: row.committed and row.committed.record_offset),
        Column("LOG-START-OFFSET", "log_start_offset", lambda row: row.extent and row.extent.start),
        Column("LOG-END-OFFSET", "log_end_offset", lambda row: row.extent and row.extent.end),
        Column("LAG", "lag", lambda row: row.lag),
        Column(None, "outside", lambda row: row.outside and row.outside.value),
        Column(None, "remote", lambda row: row.extent and _ranges(row.extent)),
        Column(None, "in_remote_storage", lambda row: row.in_remote_storage),
        Column(None, "open_transaction", lambda row: row.uncommitted),
        Column("CONSUMER-ID", "member_id", lambda row: row.member and row.member.member_id),
        Column("HOST", None, lambda row: row.member and row.member.host),
        Column("CLIENT-ID", None, lambda row: row.member and row.member.client_id),
        Column("METADATA", None, lambda row: (row.committed and row.committed.metadata) or NONE),
        Column("NOTE", None, _notes),
    ),
    key=2,
    heads=("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-START-OFFSET", "LOG-END-OFFSET", "LAG"),
    always=6,
)  # fmt: skip


class TextGroups:
    """Prints the groups of each partition as soon as they are known; ``wide`` as of a table."""

    def __init__(self, emit: Callable[[str], None], *, wide: bool) -> None:
        self._emit = emit
        self._wide = wide
        self._summary = GroupsSummary()

    def add(self, found: OffsetsPartition) -> None:
        """Print the groups of a partition, and what could not be read of it."""
        self._summary.add(found)
        for path in found.passed_over:
            self._emit(
                printable(
                    f"{OFFSETS_TOPIC}-{found.partition}: {path} is skipped: {found.path} has a "
                    "higher leader epoch, or the same one and the same or a higher end offset"
                )
            )
        for fault in found.faults:
            self._emit(printable(_fault_text(fault, found.path)))
        for undecodable in found.undecodable:
            self._emit(printable(undecodable_text(found.path, undecodable)))
        for group, rows in found.groups:
            self._print(_title(group))
            if rows:
                for line in _OFFSETS.text(rows, wide=self._wide):
                    self._emit(line)
            for member in group.members:
                if not any(row.member == member for row in rows):
                    self._print(f"member {_member_text(member)}", 2)
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

    def _print(self, text: str, indent: int = 0) -> None:
        for line in wrap(printable(text), indent):
            self._emit(line)


class JsonGroups:
    """Emits the header at once, and the groups of each partition as soon as they are known."""

    def __init__(self, emit: Callable[[str], None], paths: Iterable[AnyPath]) -> None:
        self._emit = emit
        self._summary = GroupsSummary()
        emit(jsonl.line("header", jsonl.header("groups", paths)))

    def add(self, found: OffsetsPartition) -> None:
        """Emit the lines of a partition."""
        self._summary.add(found)
        self._emit(
            jsonl.line(
                "partition",
                {
                    "partition": found.partition,
                    **jsonl.path_field(found.path),
                    "passed_over": [jsonl.path_value(path) for path in found.passed_over],
                    "faults": list(map(fault_fields, found.faults)),
                    "undecodable": [asdict(each) for each in found.undecodable],
                },
            )
        )
        for group, rows in found.groups:
            self._emit(jsonl.line("group", _group_fields(group)))
            for row in rows:
                self._emit(_OFFSETS.json(row, group=group.group_id))

    def finish(self) -> int:
        """Emit the last line, and return the exit code."""
        summary = self._summary
        self._emit(jsonl.line("summary", {"exit": summary.exit_code, **asdict(summary)}))
        return summary.exit_code


class CsvGroups:
    """Emits the committed offsets as ``kafka-consumer-groups.sh --reset-offsets`` takes them.

    Only classic and consumer groups have such offsets.

    Spec: ``CsvUtils.CsvRecordWithGroup`` (KIP-379).
    """

    def __init__(self, emit: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._emit = emit
        self._warn = warn
        self._summary = GroupsSummary()
        self._with_metadata = 0

    def add(self, found: OffsetsPartition) -> None:
        """Emit the offsets of a partition, and warn of what could not be read."""
        self._summary.add(found)
        for fault in found.faults:
            kind = "damage" if fault.damaged else "incomplete"
            self._warn(f"{kind}: {fault.path}: {fault.reason}")
        for group, rows in found.groups:
            if group.kind not in (GroupKind.CLASSIC, GroupKind.CONSUMER):
                if rows:
                    partitions = count_text(len(rows), "partition")
                    self._warn(
                        f"{group.kind.value} group {group.group_id} with {partitions} is left out: "
                        "kafka-consumer-groups.sh does not take its offsets"
                    )
                continue
            for row in rows:
                if row.committed is not None:
                    self._emit(_OFFSETS.csv(row, group.group_id))
                    self._with_metadata += bool(row.committed.metadata)

    def finish(self) -> int:
        """Warn of what the lines have no room for, and return the exit code."""
        if self._with_metadata:
            commits = count_text(self._with_metadata, "commit")
            self._warn(f"the metadata of {commits} is left out: --format json has it")
        return self._summary.exit_code


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


def _member_text(member: Member) -> str:
    instance = "" if member.instance_id is None else f", instance {member.instance_id}"
    return f"{member.member_id}, client {member.client_id} at {member.host}{instance}"


def _fault_text(fault: LogFault, path: AnyPath) -> str:
    where = "" if fault.position is None else f" at position {fault.position}"
    size = "" if fault.size is None else f", {count_text(fault.size, 'byte')}"
    if not fault.damaged:
        return f"incomplete: {fault.path}{where}{size}: {fault.reason}"
    return (
        f"damage: {fault.path}{where}{size}: {fault.reason}. The groups below come from valid "
        f"records; a coordinator may not load this partition: {shell_text(verify_command(path))}"
    )


def _group_fields(group: Group) -> dict[str, object]:
    return {
        "group": group.group_id,
        "kind": group.kind.value,
        "state": group.state.value,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "epoch": group.epoch,
        "state_since_ms": group.since_ms,
        "partition": group.partition,
        "members": [_member_fields(member) for member in group.members],
    }


def _member_fields(member: Member) -> dict[str, Any]:
    assignments = member.assignments
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignments": assignments and [asdict(assignment) for assignment in assignments],
    }
