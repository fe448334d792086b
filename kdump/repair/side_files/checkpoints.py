"""The offset checkpoints of a log directory that a plan writes.

A broker takes a missing line as offset 0.

Spec: ``OffsetCheckpointFile``, ``LogManager``; KOD 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit.checks.partition_files import starts_past
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import DirectoryFacts, Offsets, PartitionFacts, Read, read_small
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import DecodeError
from kdump.format.checkpoint import OffsetEntry, decode_readable_offsets, encode_offsets
from kdump.repair.content.extent import log_end_of
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.plan import Line, Rewrite, Step
from kdump.storage.logdir import directory_name, has_lines, read_partition
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DirectoryName,
)
from kdump.storage.paths import AnyPath, as_local

_WITHOUT: Final = {
    RECOVERY_POINT_CHECKPOINT: "are recovered completely after an unclean shutdown",
    HIGH_WATERMARK_CHECKPOINT: "start with the high watermark at their log start offset",
    LOG_START_CHECKPOINT: "start at their first segment: deleted records may be served again",
    CLEANER_CHECKPOINT: "are cleaned from their log start offset on",
}


def hosts(targets: Iterable[Target]) -> Mapping[Path, DirectoryFacts]:
    """Return the partitions whose plans include the checkpoints of their log directory.

    These are the first of ``targets`` in each log directory. The values are the log directories.
    """
    hosts_by_directory: dict[AnyPath, tuple[Path, DirectoryFacts]] = {}
    for target in targets:
        if target.directory is not None and has_lines(target.path):
            hosts_by_directory.setdefault(
                target.directory.directory.path, (as_local(target.path), target.directory)
            )
    return dict(hosts_by_directory.values())


def unreadable_checkpoints(directory: DirectoryFacts) -> list[Read[Offsets]]:
    """Return the checkpoint files of a log directory that cannot be decoded."""
    reads = (
        directory.recovery_points,
        directory.high_watermarks,
        directory.log_starts,
        directory.cleaner_offsets,
    )
    return [read for read in reads if read is not None and isinstance(read.error, DecodeError)]


def with_readable_checkpoints(directory: DirectoryFacts, node: Node) -> DirectoryFacts:
    """Return a log directory as it is once its unreadable checkpoint files are rewritten.

    Raises SourceError.
    """
    reads = {
        read.path.name: Read[Offsets](
            read.path,
            {
                key: entry.offset
                for key, entry in _lines(as_local(read.path), directory, node).items()
            },
        )
        for read in unreadable_checkpoints(directory)
    }
    return replace(
        directory,
        recovery_points=reads.get(RECOVERY_POINT_CHECKPOINT, directory.recovery_points),
        high_watermarks=reads.get(HIGH_WATERMARK_CHECKPOINT, directory.high_watermarks),
        log_starts=reads.get(LOG_START_CHECKPOINT, directory.log_starts),
        cleaner_offsets=reads.get(CLEANER_CHECKPOINT, directory.cleaner_offsets),
    )


def checkpoint_steps(directory: DirectoryFacts, node: Node) -> tuple[list[Step], list[str]]:
    """Return the steps for unreadable checkpoint files, and notes. Raises SourceError."""
    steps: list[Step] = []
    notes: list[str] = []
    for read in unreadable_checkpoints(directory):
        before = stamp_of(as_local(read.path))
        if before is None:
            continue
        lines = _lines(as_local(read.path), directory, node)
        content = encode_offsets(lines.values())
        steps.append(Rewrite.of(read.path.name, content, before))
        without = sum(map(has_lines, directory.directory.partition_paths)) - len(lines)
        notes.append(
            f"{read.path.name} gets {len(lines)} lines; {without} partitions have no line and "
            f"{_WITHOUT[read.path.name]}"
        )
    return steps, notes


def log_start_steps(verdict: Verdict, facts: PartitionFacts) -> tuple[list[Step], list[str]]:
    """Return the steps and notes for a log start offset that is beyond the log end."""
    end = log_end_of(verdict)
    before = facts.log_start
    if end is None or before is None or not starts_past(facts, end):
        return [], []
    step = Line(LOG_START_CHECKPOINT, before, None)
    note = (
        f"the line of this partition in {LOG_START_CHECKPOINT} was {before}, beyond the log end "
        "offset, for which a startup deletes all segments. Without the line the log starts at its "
        "first segment. Records at its end may be missing: if another replica is in sync, start "
        "its broker instead"
    )
    return [step], [note]


def _lines(path: Path, directory: DirectoryFacts, node: Node) -> dict[tuple[str, int], OffsetEntry]:
    """Return the readable lines of existing partitions, and the lines that the logs show."""
    readable = {
        (entry.topic, entry.partition): entry
        for entry in read_small(path, decode_readable_offsets).value or ()
    }
    lines: dict[tuple[str, int], OffsetEntry] = {}
    for partition in filter(has_lines, directory.directory.partition_paths):
        name = directory_name(partition)
        assert name is not None
        entry = readable.get((name.topic, name.partition))
        if entry is not None and entry.offset < 0:
            entry = None
        if path.name == LOG_START_CHECKPOINT and entry is not None:
            end = _log_end(partition)
            if end is None or entry.offset > end:
                entry = None
        elif entry is None and directory.clean_marker and _is_end(path.name, name, directory, node):
            end = _log_end(partition)
            entry = None if end is None else OffsetEntry(name.topic, name.partition, end)
        if entry is not None:
            lines[name.topic, name.partition] = entry
    return lines


def _is_end(checkpoint: str, name: DirectoryName, directory: DirectoryFacts, node: Node) -> bool:
    """Return whether a clean stop leaves the log end offset in a partition's line.

    A clean stop flushes all records. Records without other replicas are below the high watermark.
    """
    if checkpoint != HIGH_WATERMARK_CHECKPOINT:
        return checkpoint == RECOVERY_POINT_CHECKPOINT
    meta = None if directory.meta is None else directory.meta.value
    directory_id = None if meta is None else meta.directory_id
    return node.other_replicas(name.topic, name.partition, directory_id) == ()


def _log_end(partition: AnyPath) -> int | None:
    """Return the log end offset by the last segment, None if uncertain. Raises SourceError."""
    segments = read_partition(partition).segments
    if not segments:
        return None
    return quick_survey(segments[-1], sealed=False).known_end
