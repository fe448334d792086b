"""JSON Lines: a line for each group and each of its partitions.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from kdump.commands.groups.consumption import ConsumptionRow, OffsetsPartition
from kdump.commands.groups.group import Group, Member
from kdump.commands.groups.summary import GroupsSummary
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.coordinator_logs import fault_fields


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
                self._emit(jsonl.line("offset", _row_fields(group, row)))

    def finish(self) -> int:
        """Emit the last line, and return the exit code."""
        summary = self._summary
        self._emit(jsonl.line("summary", {"exit": summary.exit_code, **asdict(summary)}))
        return summary.exit_code


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


def _row_fields(group: Group, row: ConsumptionRow) -> dict[str, object]:
    committed, extent, member = row.committed, row.extent, row.member
    return {
        "group": group.group_id,
        "topic": row.topic,
        "partition": row.partition,
        "offset": committed and committed.offset,
        "share_start_offset": row.share_start,
        "share_complete": row.share_complete,
        "leader_epoch": committed and committed.leader_epoch,
        "metadata": committed and committed.metadata,
        "topic_id": committed and committed.topic_id,
        "commit_ms": committed and committed.commit_ms,
        "expires_ms": row.expires_ms,
        "record_offset": committed and committed.record_offset,
        "log_start_offset": extent and extent.start,
        "log_end_offset": extent and extent.end,
        "lag": row.lag,
        "outside": row.outside and row.outside.value,
        "remote": extent
        and [{"first_offset": first, "last_offset": last} for first, last in extent.remote],
        "in_remote_storage": row.in_remote_storage,
        "open_transaction": row.uncommitted,
        "member_id": member and member.member_id,
    }
