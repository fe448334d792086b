"""Checks of a partition's names, log sizes, small files and checkpoint lines.

Spec: ``LogLoader``, ``UnifiedLog``, ``LeaderEpochFileCache``, ``ProducerStateManager``,
``LogCleanerManager``; KOD 9, checks 19, 21, 22, 25 to 27, 29, 30.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.errors import DecodeError
from kdump.format.checkpoint import CheckpointNumberError, EpochEntry
from kdump.storage.logdir import (
    MAX_LOG_BYTES,
    DirectoryEntry,
    EntryType,
    Partition,
    holds_entries,
    is_metadata_log,
)
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    EXTENSIONS,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
)
from kdump.storage.paths import AnyPath

_SUFFIX_CODES: Final = {
    "delete": codes.DIRECTORY_DELETED,
    "stray": codes.DIRECTORY_STRAY,
    "future": codes.DIRECTORY_FUTURE,
}
#: The kinds of a partition's small files that every start reads.
_SMALL_KINDS: Final = frozenset({FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA})
#: What a node deletes from its metadata log before it writes, or reads, a file of the kind.
_DELETED_FIRST: Final = frozenset(
    {
        (FileKind.QUORUM_STATE, ".tmp"),
        (FileKind.METADATA_SNAPSHOT, ".part"),
        (FileKind.METADATA_SNAPSHOT, ".deleted"),
    }
)

# --- names and sizes


def check_file_names(evidence: Evidence) -> Iterator[Finding]:
    """Report names of segment files that lack a number, or whose number is not padded."""
    if evidence.facts is None:
        return
    partition = evidence.facts.partition
    metadata = partition.name is not None and partition.name.topic == CLUSTER_METADATA_TOPIC
    for entry in partition.entries:
        name = entry.name
        snapshot = metadata and name.kind is FileKind.METADATA_SNAPSHOT
        if entry.type is not EntryType.FILE and not snapshot:
            continue
        transient = name.suffix in (".cleaned", ".swap")
        loaded = name.suffix == "" and name.kind in EXTENSIONS
        if name.base_offset is None and (transient or loaded or snapshot):
            yield file_finding(
                codes.FILE_NAME_REFUSED, entry.path, "a number of 20 digits first", name.name
            )
        elif not name.canonical and (
            (loaded and name.kind is FileKind.LOG)
            or (name.suffix == ".swap" and name.kind in EXTENSIONS)
        ):
            yield file_finding(
                codes.FILE_NAME_UNPADDED, entry.path, "a number of 20 digits", name.name
            )


def check_types(evidence: Evidence) -> Iterator[Finding]:
    """Report directories with the name of a file that a start opens, and a link to nothing."""
    if evidence.facts is None:
        return
    partition = evidence.facts.partition
    bases = {segment.base_offset for segment in partition.segments}
    for entry in partition.entries:
        name = entry.name
        if _is_link_to_nothing(entry):
            yield file_finding(codes.FILE_IS_DIRECTORY, entry.path, "a file", "a link to nothing")
        if entry.type is not EntryType.DIRECTORY:
            continue
        if name.suffix:
            stops = _is_in_the_way(entry, evidence.facts)
        else:
            index = name.kind is FileKind.TXN_INDEX and name.base_offset in bases
            state = name.kind is FileKind.QUORUM_STATE and is_metadata_log(partition)
            snapshot = entry is _newest_snapshot(partition)
            stops = name.canonical and (index or state or snapshot or name.kind in _SMALL_KINDS)
        if stops:
            yield file_finding(codes.FILE_IS_DIRECTORY, entry.path, "a file", "a directory")
    for (offset, kind), path in evidence.facts.misnamed_directories.items():
        if kind is FileKind.SNAPSHOT:
            yield file_finding(codes.SNAPSHOT_IS_DIRECTORY, path, "a file", "a directory")
        elif offset in bases:
            yield file_finding(codes.INDEX_IS_DIRECTORY, path, "a file", "a directory")


def _is_link_to_nothing(entry: DirectoryEntry) -> bool:
    """Return whether an entry is a leader-epoch-checkpoint that a start does not find.

    It creates a file that is missing, and then reads it, unless the name exists.
    """
    path, name = entry.path, entry.name
    if (entry.type, name.kind, name.suffix) != (EntryType.OTHER, FileKind.LEADER_EPOCHS, ""):
        return False
    if not isinstance(path, Path) or not path.is_symlink():
        return False
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _is_in_the_way(entry: DirectoryEntry, facts: PartitionFacts) -> bool:
    """Return whether a directory has the name of a file that a start writes, or deletes.

    A new leader epoch is written at once. What is deleted may be a directory, if it is empty.
    """
    name, metadata = entry.name, is_metadata_log(facts.partition)
    if name.kind is FileKind.LEADER_EPOCHS:
        return name.suffix == ".tmp" and (facts.is_current or metadata)
    if not metadata:
        return False
    if name.kind is FileKind.PARTITION_METADATA:
        return name.suffix == ".tmp" and facts.metadata is None
    deleted = (name.kind, name.suffix) in _DELETED_FIRST
    return deleted and holds_entries(entry.path)


def _newest_snapshot(partition: Partition) -> DirectoryEntry | None:
    """Return the metadata snapshot that a node reads, by its name."""
    if not is_metadata_log(partition):
        return None
    by_end = {
        (entry.name.base_offset, entry.name.epoch): entry
        for entry in partition.entries
        if entry.name.kind is FileKind.METADATA_SNAPSHOT
        and entry.name.suffix == ""
        and entry.name.base_offset is not None
        and entry.name.epoch is not None
    }
    return by_end[max(by_end)] if by_end else None


def check_suffix(evidence: Evidence) -> Iterator[Finding]:
    """Report a ``-delete``, ``-stray`` or ``-future`` directory, with the bytes of its logs."""
    if evidence.facts is None:
        return
    partition = evidence.facts.partition
    if partition.name is not None and partition.name.suffix:
        code = _SUFFIX_CODES[partition.name.suffix]
        yield Finding(code, partition.path, size=evidence.log_bytes)


def check_log_sizes(evidence: Evidence) -> Iterator[Finding]:
    """Check the size of each ``.log`` against the limit of a broker."""
    for survey in evidence.surveys:
        if survey.size > MAX_LOG_BYTES:
            yield file_finding(
                codes.LOG_TOO_LARGE,
                survey.segment.log,
                f"at most {MAX_LOG_BYTES} bytes",
                f"{survey.size} bytes",
                size=survey.size,
            )


# --- leader epochs and producer snapshots


def check_epoch_file(evidence: Evidence) -> Iterator[Finding]:
    """Check the form of leader-epoch-checkpoint, and the order of its entries.

    Two epochs may begin at one offset: brokers before 2.1 wrote such entries.
    """
    read = None if evidence.facts is None else evidence.facts.epochs
    if read is None:
        return
    if isinstance(read.error, DecodeError):
        number = isinstance(read.error, CheckpointNumberError)
        code = codes.EPOCHS_NUMBER if number else codes.EPOCHS_MALFORMED
        yield file_finding(code, read.path, "lines of epoch and offset", f"an error: {read.error}")
    for entry in read.value or ():
        if entry.epoch < 0 or entry.start_offset < 0:
            yield _epoch_finding(codes.EPOCHS_NUMBER, read, "numbers from 0 on", entry)
    for before, entry in pairwise(read.value or ()):
        if entry.epoch <= before.epoch or entry.start_offset < before.start_offset:
            expected = f"above epoch {before.epoch} and offset {before.start_offset}"
            yield _epoch_finding(codes.EPOCHS_ORDER, read, expected, entry)


def check_epoch_end(evidence: Evidence) -> Iterator[Finding]:
    """Check the last leader epoch against the log end offset, at which it may begin."""
    facts, log_end = evidence.facts, evidence.log_end
    if facts is None or not facts.stopped or log_end is None:
        return
    read = facts.epochs
    if read is None or not read.value:
        return
    last = max(read.value, key=lambda entry: entry.start_offset)
    if last.start_offset > log_end:
        expected = f"offsets up to {log_end}, where the log ends"
        yield _epoch_finding(codes.EPOCHS_BEYOND_END, read, expected, last)


def _epoch_finding(
    code: codes.FindingCode, read: Read[tuple[EpochEntry, ...]], expected: str, entry: EpochEntry
) -> Finding:
    return file_finding(
        code, read.path, expected, f"epoch {entry.epoch} from offset {entry.start_offset}"
    )


def check_snapshot_files(evidence: Evidence) -> Iterator[Finding]:
    """Check the form of the producer snapshots.

    A running broker may be writing the newest snapshots.
    """
    facts = evidence.facts
    if facts is None:
        return
    segments = facts.partition.segments
    active = segments[-1].base_offset if segments and not facts.stopped else None
    for offset, read in facts.snapshots.items():
        if isinstance(read.error, DecodeError) and (active is None or offset < active):
            yield file_finding(
                codes.SNAPSHOT_UNREADABLE,
                read.path,
                "a whole producer snapshot",
                f"an error: {read.error}",
            )


def check_stray_snapshots(evidence: Evidence) -> Iterator[Finding]:
    """Report the producer snapshots that a start removes, in one finding."""
    facts = evidence.facts
    if facts is None or not facts.stopped or not facts.partition.segments:
        return
    segments = facts.partition.segments
    expected = {segment.base_offset for segment in segments}
    newest = max(facts.snapshots, default=-1)
    if newest > segments[-1].base_offset:
        expected.add(newest)
    stray = [read.path for offset, read in facts.snapshots.items() if offset not in expected]
    stray += [
        entry.path
        for entry in facts.partition.entries
        if entry.name.kind is FileKind.SNAPSHOT
        and entry.name.suffix == ""
        and entry.name.base_offset is not None
        and not entry.name.canonical
    ]
    if stray:
        yield file_finding(
            codes.SNAPSHOT_STRAY,
            min(stray),
            "a snapshot at a segment's start, or at the log's end",
            min(stray).name,
            repeats=len(stray) - 1,
        )


# --- checkpointed offsets


def check_log_start(evidence: Evidence) -> Iterator[Finding]:
    """Check the checkpointed log start offset against the log end offset.

    It may lie before the first segment with tiered storage, and inside a segment after records were
    deleted.
    """
    facts, log_end = evidence.facts, evidence.log_end
    if facts is None or log_end is None or not starts_past(facts, log_end):
        return
    segments = facts.partition.segments
    held = Offsets(segments[0].base_offset, log_end - 1) if segments else None
    yield file_finding(
        codes.LOG_START_BEYOND_END,
        _checkpoint_path(facts, LOG_START_CHECKPOINT),
        f"a log start up to {log_end}, where the log ends",
        str(facts.log_start),
        offsets=held if held and held.first < log_end else None,
    )


def starts_past(facts: PartitionFacts, log_end: int) -> bool:
    """Return whether the checkpointed log start is past ``log_end``: a start deletes the log."""
    return _is_comparable(facts) and facts.log_start is not None and facts.log_start > log_end


def check_recovery_point(evidence: Evidence) -> Iterator[Finding]:
    """Check the recovery point against the log end offset."""
    facts = evidence.facts
    if facts is None:
        return
    point = facts.recovery_point
    yield from _beyond_end(
        evidence, facts, codes.RECOVERY_POINT_BEYOND_END, RECOVERY_POINT_CHECKPOINT, point
    )


def check_high_watermark(evidence: Evidence) -> Iterator[Finding]:
    """Check the high watermark against the log start and end offsets."""
    facts = evidence.facts
    if facts is None:
        return
    mark = facts.high_watermark
    yield from _beyond_end(
        evidence, facts, codes.HIGH_WATERMARK_BEYOND_END, HIGH_WATERMARK_CHECKPOINT, mark
    )
    start = _log_start(evidence, facts)
    if mark is not None and start is not None and mark < start and _is_comparable(facts):
        yield file_finding(
            codes.HIGH_WATERMARK_BELOW_START,
            _checkpoint_path(facts, HIGH_WATERMARK_CHECKPOINT),
            f"a high watermark from {start} on, where the log starts",
            str(mark),
        )


def check_cleaner_offset(evidence: Evidence) -> Iterator[Finding]:
    """Check the cleaner's checkpoint against the log start and end offsets."""
    facts = evidence.facts
    if facts is None:
        return
    cleaned = facts.cleaner_offset
    yield from _beyond_end(
        evidence, facts, codes.CLEANER_OFFSET_BEYOND_END, CLEANER_CHECKPOINT, cleaned
    )
    start = _log_start(evidence, facts)
    if cleaned is not None and start is not None and cleaned < start and _is_comparable(facts):
        yield file_finding(
            codes.CLEANER_OFFSET_BELOW_START,
            _checkpoint_path(facts, CLEANER_CHECKPOINT),
            f"an offset from {start} on, where the log starts",
            str(cleaned),
        )


def _beyond_end(
    evidence: Evidence,
    facts: PartitionFacts,
    code: codes.FindingCode,
    checkpoint: str,
    offset: int | None,
) -> Iterator[Finding]:
    log_end = evidence.log_end
    if log_end is None or offset is None or not _is_comparable(facts) or offset <= log_end:
        return
    missing = Offsets(evidence.first_missing(log_end), offset - 1)
    yield file_finding(
        code,
        _checkpoint_path(facts, checkpoint),
        f"an offset up to {log_end}, where the log ends",
        str(offset),
        offsets=missing if missing.first < offset else None,
    )


def _is_comparable(facts: PartitionFacts) -> bool:
    """Return whether checkpoints and log are of the same moment, and a start compares them."""
    return facts.stopped and facts.is_current


def _log_start(evidence: Evidence, facts: PartitionFacts) -> int | None:
    # With tiered storage the log starts far below the first local segment.
    return evidence.first_base if facts.log_start is None else facts.log_start


def _checkpoint_path(facts: PartitionFacts, checkpoint: str) -> AnyPath:
    return facts.partition.path.parent / checkpoint
