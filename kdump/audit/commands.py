"""The commands of kdump that findings and reports name, as argument vectors."""

from __future__ import annotations

from pathlib import Path

from kdump.format.lines.shell import operand
from kdump.storage.repair_record import RepairRecord, RepairState

Remedy = tuple[str, ...]
"""A command as an argv."""


def reindexing(partition: Path) -> Remedy:
    """Make indexes and producer snapshots anew."""
    return "kdump", "reindex", operand(partition)


def salvaging(partition: Path) -> Remedy:
    """Copy every sound batch, before and behind the damage."""
    return "kdump", "salvage", operand(partition), "--output", "DIR"


def truncating(partition: Path) -> Remedy:
    """Cut the log where recovery would."""
    return "kdump", "truncate-to-valid", operand(partition)


def converting(partition: Path) -> Remedy:
    """Bring batches to magic 2 with a leader epoch."""
    return "kdump", "convert-v0-v2", operand(partition)


def resuming(partition: Path, one: RepairRecord) -> Remedy:
    """Go on with a repair, or an undo, that was interrupted, with the consent that it needs."""
    if one.state is RepairState.UNDOING or one.command is None:
        return undoing(partition, one.id)
    confirm = ("--confirm", one.id) if one.lossy else ()
    return "kdump", one.command, operand(partition), "--apply", *confirm


def undoing(partition: Path, plan_id: str) -> Remedy:
    """Take a repair back, or finish that."""
    return "kdump", "undo", operand(partition), "--plan", plan_id, "--apply"
