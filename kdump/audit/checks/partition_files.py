"""Checks of a partition's small files and checkpoint lines.

Spec: ``LogLoader``, ``UnifiedLog``, ``LeaderEpochFileCache``, ``ProducerStateManager``,
``LogCleanerManager``; KOD 9, checks 19, 21, 22, 26.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts, Read
from kdump.audit.finding_code import Cure, FindingCode, Outcome, Severity
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.errors import DecodeError
from kdump.format.checkpoint import CheckpointNumberError, EpochEntry
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
)
from kdump.storage.paths import AnyPath

EPOCHS_MALFORMED: Final = FindingCode(
    "epochs-malformed",
    Severity.ERROR,
    "A leader-epoch-checkpoint does not follow its format: a version line, a count line, then "
    "lines of two fields.",
    "The broker takes the whole log directory offline, and exits if it has no other log directory.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    check=22,
    stops=Outcome.OFFLINE,
    cure=Cure.EPOCHS,
)
EPOCHS_NUMBER: Final = FindingCode(
    "epochs-number",
    Severity.ERROR,
    "An epoch or offset in leader-epoch-checkpoint is not a number, or is negative.",
    "The broker does not start.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    check=22,
    stops=Outcome.REFUSES,
    cure=Cure.EPOCHS,
)
EPOCHS_ORDER: Final = FindingCode(
    "epochs-order",
    Severity.WARNING,
    "The epochs or offsets of leader-epoch-checkpoint do not rise.",
    "The broker drops the earlier lines that contradict a later line.",
    "Nothing is lost here. When a follower next compares epochs, it may truncate more of its log "
    "than necessary.",
    check=22,
)
EPOCHS_BEYOND_END: Final = FindingCode(
    "epochs-beyond-end",
    Severity.WARNING,
    "A leader-epoch-checkpoint has an epoch that starts after the log end offset.",
    "The broker drops the line.",
    "The end of the log may be lost, as after a power failure. If another replica is in sync, "
    "start its broker first.",
    check=22,
)
LOG_START_BEYOND_END: Final = FindingCode(
    "log-start-beyond-end",
    Severity.ERROR,
    "The checkpointed log start offset lies after the log end offset. Segments are missing, or the "
    "directory is from a backup.",
    "The broker DELETES ALL SEGMENTS of the partition and begins an empty segment at the "
    "checkpointed offset. It does so after a clean shutdown too.",
    "Do not start a broker on this directory. If another replica is in sync, move this partition "
    "directory out of the log directory: the broker then fetches the whole partition from the "
    "leader. If a backup has the missing segments, put them back. Otherwise kdump reindex removes "
    "the line, and the log starts at its first segment.",
    check=25,
    cure=Cure.REINDEX,
)
RECOVERY_POINT_BEYOND_END: Final = FindingCode(
    "recovery-point-beyond-end",
    Severity.ERROR,
    "Records below the recovery point were on the disk, but the log ends before it.",
    "The broker lowers the recovery point. After an unclean shutdown it recovers only the last "
    "segment.",
    "The end of the log is lost, as after a backup was restored or a segment was deleted by hand. "
    "If another replica is in sync, start its broker first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BEYOND_END: Final = FindingCode(
    "high-watermark-beyond-end",
    Severity.ERROR,
    "Records below the high watermark were on all in-sync replicas, but the log ends before it.",
    "The broker lowers the high watermark to the log end offset.",
    "The end of the log is lost here, as after a power failure. If another replica is in sync, "
    "start its broker first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BELOW_START: Final = FindingCode(
    "high-watermark-below-start",
    Severity.INFO,
    "The checkpointed high watermark is below the log start offset.",
    "The broker raises it to the log start offset.",
    "Nothing to do.",
    check=26,
)
CLEANER_OFFSET_BEYOND_END: Final = FindingCode(
    "cleaner-offset-beyond-end",
    Severity.WARNING,
    "The cleaner's checkpoint lies after the log end offset.",
    "The broker cleans the partition again from its beginning.",
    "The end of the log may be lost. Check whether other checkpoints show the same.",
    check=27,
)
CLEANER_OFFSET_BELOW_START: Final = FindingCode(
    "cleaner-offset-below-start",
    Severity.INFO,
    "The cleaner's checkpoint lies before the log start offset, as after retention or "
    "DeleteRecords.",
    "The cleaner begins at the log start offset.",
    "Nothing to do.",
    check=27,
)
SNAPSHOT_UNREADABLE: Final = FindingCode(
    "snapshot-unreadable",
    Severity.WARNING,
    "A producer snapshot does not match its checksum or its format.",
    "The broker deletes the snapshot, loads the next older snapshot, and reads all batches after "
    "it.",
    "Nothing is lost. Startup takes longer, unless kdump reindex rewrites the snapshot first.",
    check=19,
    cure=Cure.REINDEX,
)
SNAPSHOT_STRAY: Final = FindingCode(
    "snapshot-stray",
    Severity.INFO,
    "A producer snapshot is neither at the base offset of a segment nor at the log end offset.",
    "The broker removes it at startup (since 2.8).",
    "Nothing to do.",
    check=21,
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
        code = EPOCHS_NUMBER if number else EPOCHS_MALFORMED
        yield file_finding(code, read.path, "lines of epoch and offset", f"an error: {read.error}")
    for entry in read.value or ():
        if entry.epoch < 0 or entry.start_offset < 0:
            yield _epoch_finding(EPOCHS_NUMBER, read, "numbers from 0 on", entry)
    for before, entry in pairwise(read.value or ()):
        if entry.epoch <= before.epoch or entry.start_offset < before.start_offset:
            expected = f"above epoch {before.epoch} and offset {before.start_offset}"
            yield _epoch_finding(EPOCHS_ORDER, read, expected, entry)


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
        yield _epoch_finding(EPOCHS_BEYOND_END, read, expected, last)


def _epoch_finding(
    code: FindingCode, read: Read[tuple[EpochEntry, ...]], expected: str, entry: EpochEntry
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
                SNAPSHOT_UNREADABLE,
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
            SNAPSHOT_STRAY,
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
        LOG_START_BEYOND_END,
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
        evidence, facts, RECOVERY_POINT_BEYOND_END, RECOVERY_POINT_CHECKPOINT, point
    )


def check_high_watermark(evidence: Evidence) -> Iterator[Finding]:
    """Check the high watermark against the log start and end offsets."""
    facts = evidence.facts
    if facts is None:
        return
    mark = facts.high_watermark
    yield from _beyond_end(
        evidence, facts, HIGH_WATERMARK_BEYOND_END, HIGH_WATERMARK_CHECKPOINT, mark
    )
    start = facts.log_start_offset
    if mark is not None and start is not None and mark < start and _is_comparable(facts):
        yield file_finding(
            HIGH_WATERMARK_BELOW_START,
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
    yield from _beyond_end(evidence, facts, CLEANER_OFFSET_BEYOND_END, CLEANER_CHECKPOINT, cleaned)
    start = facts.log_start_offset
    if cleaned is not None and start is not None and cleaned < start and _is_comparable(facts):
        yield file_finding(
            CLEANER_OFFSET_BELOW_START,
            _checkpoint_path(facts, CLEANER_CHECKPOINT),
            f"an offset from {start} on, where the log starts",
            str(cleaned),
        )


def _beyond_end(
    evidence: Evidence,
    facts: PartitionFacts,
    code: FindingCode,
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


def _checkpoint_path(facts: PartitionFacts, checkpoint: str) -> AnyPath:
    return facts.partition.path.parent / checkpoint


CHECKS: Final = (
    check_epoch_file,
    check_epoch_end,
    check_snapshot_files,
    check_stray_snapshots,
    check_log_start,
    check_recovery_point,
    check_high_watermark,
    check_cleaner_offset,
)
