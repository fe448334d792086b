"""The files of the log directory that all partitions share: checkpoints, the marker.

Spec: ``OffsetCheckpointFile``, ``CleanShutdownFileHandler``; KOD 1.
"""

from __future__ import annotations

from pathlib import Path

from kdump.audit.facts.small_files import read_small
from kdump.errors import Refused
from kdump.format.checkpoint import OffsetEntry, decode_offsets, encode_offsets
from kdump.repair.transaction import disk
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.plan import Line, Plan, Rewrite
from kdump.storage.logdir import directory_name
from kdump.storage.names import CLEAN_MARKER, META_PROPERTIES


def marker_path(plan: Plan) -> Path:
    """Return the path of the clean shutdown marker of the plan's log directory."""
    return _above(plan) / CLEAN_MARKER


def checkpoint_path(plan: Plan, step: Line | Rewrite) -> Path:
    """Return the path of the checkpoint file of a step."""
    return _above(plan) / step.checkpoint


def line_of(checkpoint: Path, partition: Path) -> int | None:
    """Return the offset of a partition in a checkpoint file, None without a line.

    Raises Refused if the file cannot be decoded.
    """
    topic, number = _name(partition)
    found = None
    for entry in read_lines(checkpoint):
        if (entry.topic, entry.partition) == (topic, number):
            found = entry.offset
    return found


def set_line(checkpoint: Path, partition: Path, offset: int | None, plan_id: str) -> None:
    """Give a partition the line ``offset`` in a checkpoint file; None removes it.

    The file is replaced at once, and stays as it is if it has that line. Raises Refused, OSError.
    """
    if line_of(checkpoint, partition) == offset:
        return
    content = encode_offsets(replace_line(checkpoint, partition, offset))
    pattern = checkpoint if checkpoint.exists() else checkpoint.with_name(META_PROPERTIES)
    write_beside(checkpoint, content, Attributes.of(pattern), plan_id)


def write_beside(
    path: Path, content: bytes, like: Attributes, plan_id: str, mtime_ns: int | None = None
) -> None:
    """Replace a file at the top of a log directory at once. Raises OSError."""
    beside = beside_path(path, plan_id)
    disk.write_file(beside, [content], like, mtime_ns)
    disk.rename(beside, path)


def beside_path(path: Path, plan_id: str) -> Path:
    """Return where the new content of a file is written before it replaces the file."""
    # Brokers ignore unknown files at the top of a log directory.
    return path.with_name(f".kdump.{plan_id}.{path.name}")


def replace_line(checkpoint: Path, partition: Path, offset: int | None) -> list[OffsetEntry]:
    """Return the lines of a checkpoint file with a new offset for a partition; None removes it.

    The line keeps its index. Of several lines for the partition the last one counts.
    """
    topic, number = _name(partition)
    lines = list(read_lines(checkpoint))
    found = [
        index
        for index, entry in enumerate(lines)
        if (entry.topic, entry.partition) == (topic, number)
    ]
    new_lines = [] if offset is None else [OffsetEntry(topic, number, offset)]
    index = found[-1] if found else len(lines)
    return [*lines[:index], *new_lines, *lines[index + 1 :]]


def read_lines(checkpoint: Path) -> tuple[OffsetEntry, ...]:
    """Return the lines of a checkpoint file, none if it is missing.

    Raises Refused if it cannot be decoded.
    """
    if not checkpoint.exists():
        return ()
    read = read_small(checkpoint, decode_offsets)
    if read.value is None:
        raise Refused(
            f"{checkpoint}: expected an offset checkpoint, found another file: {read.error}"
        )
    return read.value


def _name(partition: Path) -> tuple[str, int]:
    name = directory_name(partition)
    if name is None:
        raise Refused(f"{partition}: expected a directory called <topic>-<partition>")
    return name.topic, name.partition


def _above(plan: Plan) -> Path:
    if plan.log_directory is None:
        raise Refused(
            f"{plan.partition}: expected a partition in a log directory, found that it is in none"
        )
    return plan.log_directory
