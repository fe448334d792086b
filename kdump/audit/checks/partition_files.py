"""Checks of a partition's small files, file names and checkpoint lines.

Spec: ``LogLoader``, ``UnifiedLog``, ``LeaderEpochFileCache``, ``ProducerStateManager``,
``LogCleanerManager``; KOD 9, checks 19, 21, 22, 25 to 27, 29, 30.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from kdump.audit import codes
from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.findings import Finding, Offsets, judged
from kdump.errors import DecodeError
from kdump.format.checkpoint import CheckpointNumberError, EpochEntry
from kdump.storage.logdir import MAX_LOG_BYTES, EntryType, Partition
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    EXTENSIONS,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
)

# --- names and sizes


def check_file_names(partition: Partition) -> Iterator[Finding]:
    """Judge names that a broker takes for a segment's: those without a number, or not padded."""
    metadata = partition.name is not None and partition.name.topic == CLUSTER_METADATA_TOPIC
    for entry in partition.entries:
        name = entry.name
        if entry.type is not EntryType.FILE:
            continue
        taken_away = name.suffix in (".cleaned", ".swap")
        loaded = name.suffix == "" and name.kind in EXTENSIONS
        snapshot = metadata and name.kind is FileKind.METADATA_SNAPSHOT
        if name.base_offset is None and (taken_away or loaded or snapshot):
            yield judged(
                codes.FILE_NAME_REFUSED, entry.path, "a number of 20 digits first", name.name
            )
        elif not name.canonical and (
            (loaded and name.kind is FileKind.LOG)
            or (name.suffix == ".swap" and name.kind in EXTENSIONS)
        ):
            yield judged(codes.FILE_NAME_UNPADDED, entry.path, "a number of 20 digits", name.name)


def check_log_sizes(sizes: Iterable[tuple[Path, int]]) -> Iterator[Finding]:
    """Judge the bytes of each ``.log`` against what a broker opens."""
    for path, size in sizes:
        if size > MAX_LOG_BYTES:
            yield judged(
                codes.LOG_TOO_LARGE,
                path,
                f"at most {MAX_LOG_BYTES} bytes",
                f"{size} bytes",
                size=size,
            )


# --- leader epochs and producer snapshots


def check_epoch_file(facts: PartitionFacts) -> Iterator[Finding]:
    """Judge leader-epoch-checkpoint by itself.

    Two epochs may begin at one offset: brokers before 2.1 wrote that.
    """
    read = facts.epochs
    if read is None:
        return
    if isinstance(read.error, DecodeError):
        number = isinstance(read.error, CheckpointNumberError)
        code = codes.EPOCHS_NUMBER if number else codes.EPOCHS_MALFORMED
        yield judged(code, read.path, "lines of epoch and offset", f"an error: {read.error}")
    for entry in read.value or ():
        if entry.epoch < 0 or entry.start_offset < 0:
            yield _epoch_finding(codes.EPOCHS_NUMBER, read, "numbers from 0 on", entry)
    for before, entry in pairwise(read.value or ()):
        if entry.epoch <= before.epoch or entry.start_offset < before.start_offset:
            expected = f"above epoch {before.epoch} and offset {before.start_offset}"
            yield _epoch_finding(codes.EPOCHS_ORDER, read, expected, entry)


def check_epoch_end(facts: PartitionFacts, log_end: int | None) -> Iterator[Finding]:
    """Judge the last leader epoch against the log's end, at which it may well begin."""
    read = facts.epochs
    if log_end is None or not facts.stopped or read is None or not read.value:
        return
    last = max(read.value, key=lambda entry: entry.start_offset)
    if last.start_offset > log_end:
        expected = f"offsets up to {log_end}, where the log ends"
        yield _epoch_finding(codes.EPOCHS_BEYOND_END, read, expected, last)


def _epoch_finding(
    code: codes.FindingCode, read: Read[tuple[EpochEntry, ...]], expected: str, entry: EpochEntry
) -> Finding:
    return judged(
        code, read.path, expected, f"epoch {entry.epoch} from offset {entry.start_offset}"
    )


def check_snapshot_files(facts: PartitionFacts) -> Iterator[Finding]:
    """Judge the form of the producer snapshots.

    Beside a broker the newest ones may just be written.
    """
    segments = facts.partition.segments
    active = segments[-1].base_offset if segments and not facts.stopped else None
    for offset, read in facts.snapshots.items():
        if isinstance(read.error, DecodeError) and (active is None or offset < active):
            yield judged(
                codes.SNAPSHOT_UNREADABLE,
                read.path,
                "a whole producer snapshot",
                f"an error: {read.error}",
            )


def check_stray_snapshots(facts: PartitionFacts) -> Iterator[Finding]:
    """Say which producer snapshots a start removes, once a partition."""
    segments = facts.partition.segments
    if not facts.stopped or not segments:
        return
    kept = {segment.base_offset for segment in segments}
    newest = max(facts.snapshots, default=-1)
    if newest > segments[-1].base_offset:
        kept.add(newest)
    stray = [read.path for offset, read in facts.snapshots.items() if offset not in kept]
    stray += [
        entry.path
        for entry in facts.partition.entries
        if entry.name.kind is FileKind.SNAPSHOT
        and entry.name.suffix == ""
        and entry.name.base_offset is not None
        and not entry.name.canonical
    ]
    if stray:
        yield judged(
            codes.SNAPSHOT_STRAY,
            min(stray),
            "a snapshot at a segment's start, or at the log's end",
            min(stray).name,
            repeats=len(stray) - 1,
        )


# --- checkpointed offsets


def check_log_start(facts: PartitionFacts, log_end: int | None) -> Iterator[Finding]:
    """Judge the checkpointed log start against the log's end; ``log_end`` as a start finds it.

    That it lies before the first segment is right with tiered storage, and later within a
    segment after records were deleted.
    """
    if log_end is None or not _comparable(facts) or facts.log_start is None:
        return
    if facts.log_start > log_end:
        segments = facts.partition.segments
        held = Offsets(segments[0].base_offset, log_end - 1) if segments else None
        yield judged(
            codes.LOG_START_BEYOND_END,
            _beside(facts, LOG_START_CHECKPOINT),
            f"a log start up to {log_end}, where the log ends",
            str(facts.log_start),
            offsets=held if held and held.first < log_end else None,
        )


def check_recovery_point(facts: PartitionFacts, log_end: int | None) -> Iterator[Finding]:
    """Judge the recovery point against the log's end."""
    yield from _beyond_end(
        codes.RECOVERY_POINT_BEYOND_END,
        facts,
        RECOVERY_POINT_CHECKPOINT,
        facts.recovery_point,
        log_end,
    )


def check_high_watermark(
    facts: PartitionFacts, first_base: int | None, log_end: int | None
) -> Iterator[Finding]:
    """Judge the high watermark against the log's start and end."""
    mark = facts.high_watermark
    yield from _beyond_end(
        codes.HIGH_WATERMARK_BEYOND_END, facts, HIGH_WATERMARK_CHECKPOINT, mark, log_end
    )
    start = _log_start(facts, first_base)
    if mark is not None and start is not None and mark < start and _comparable(facts):
        yield judged(
            codes.HIGH_WATERMARK_BELOW_START,
            _beside(facts, HIGH_WATERMARK_CHECKPOINT),
            f"a high watermark from {start} on, where the log starts",
            str(mark),
        )


def check_cleaner_offset(
    facts: PartitionFacts, first_base: int | None, log_end: int | None
) -> Iterator[Finding]:
    """Judge the cleaner's checkpoint against the log's start and end."""
    cleaned = facts.cleaner_offset
    yield from _beyond_end(
        codes.CLEANER_OFFSET_BEYOND_END, facts, CLEANER_CHECKPOINT, cleaned, log_end
    )
    start = _log_start(facts, first_base)
    if cleaned is not None and start is not None and cleaned < start and _comparable(facts):
        yield judged(
            codes.CLEANER_OFFSET_BELOW_START,
            _beside(facts, CLEANER_CHECKPOINT),
            f"an offset from {start} on, where the log starts",
            str(cleaned),
        )


def _beyond_end(
    code: codes.FindingCode,
    facts: PartitionFacts,
    checkpoint: str,
    offset: int | None,
    log_end: int | None,
) -> Iterator[Finding]:
    if log_end is None or offset is None or not _comparable(facts) or offset <= log_end:
        return
    yield judged(
        code,
        _beside(facts, checkpoint),
        f"an offset up to {log_end}, where the log ends",
        str(offset),
        offsets=Offsets(log_end, offset - 1),
    )


def _comparable(facts: PartitionFacts) -> bool:
    """Whether checkpoints and log are of the same moment, and a start holds them together."""
    return facts.stopped and facts.is_current


def _log_start(facts: PartitionFacts, first_base: int | None) -> int | None:
    # With tiered storage the log starts far below the first segment that is here.
    return first_base if facts.log_start is None else facts.log_start


def _beside(facts: PartitionFacts, checkpoint: str) -> Path:
    return facts.partition.path.parent / checkpoint
