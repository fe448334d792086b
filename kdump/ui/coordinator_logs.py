"""Faults in the logs of coordinators, in text and in JSON."""

from __future__ import annotations

from kdump.coordinators.log import LogFault, Undecodable
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl


def fault_fields(fault: LogFault) -> dict[str, object]:
    """Return the JSON fields of a fault."""
    return {
        **jsonl.path_field(fault.path),
        "position": fault.position,
        "size": fault.size,
        "reason": fault.reason,
        "damaged": fault.damaged,
    }


def undecodable_text(path: AnyPath, found: Undecodable) -> str:
    """Return the line for a record that cannot be decoded, in the partition at ``path``."""
    return (
        f"{path}: record at offset {found.offset}: {found.reason}. "
        "A coordinator does not load this partition"
    )
