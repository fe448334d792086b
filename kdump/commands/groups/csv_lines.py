"""The offsets as ``kafka-consumer-groups.sh --reset-offsets --from-file`` takes them.

Spec: ``CsvUtils.CsvRecordWithGroup`` (KIP-379). Only classic and consumer groups have such offsets.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO

from kdump.commands.groups.consumption import OffsetsPartition
from kdump.commands.groups.group import GroupKind
from kdump.commands.groups.summary import GroupsSummary
from kdump.ui.units import count_text


class CsvGroups:
    """Emits a line for each committed offset."""

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
                    fields = group.group_id, row.topic, row.partition, row.committed.offset
                    self._emit(_line(fields))
                    self._with_metadata += bool(row.committed.metadata)

    def finish(self) -> int:
        """Warn of what the lines have no room for, and return the exit code."""
        if self._with_metadata:
            commits = count_text(self._with_metadata, "commit")
            self._warn(f"the metadata of {commits} is left out: --format json has it")
        return self._summary.exit_code


def _line(fields: tuple[str | int, ...]) -> str:
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
