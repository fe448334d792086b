"""Checks of one log directory: foreign entries, checkpoints, the clean shutdown marker.

Spec: ``LogManager.loadLogs``, ``CheckpointFile``; KOD 9, checks 26, 28, 37.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from kdump.audit.checks import leftovers
from kdump.audit.commands import reindex_command
from kdump.audit.facts.small_files import DirectoryFacts, Offsets, Read
from kdump.audit.finding_code import FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.errors import DecodeError, MissingDirectoryError
from kdump.format.checkpoint import CheckpointNumberError
from kdump.storage.liveness import BrokerState
from kdump.storage.logdir import EntryType, directory_name, has_lines, holds_entries
from kdump.storage.names import CLEAN_MARKER, HIGH_WATERMARK_CHECKPOINT, FileKind
from kdump.storage.objects.remote_path import as_path

FOREIGN_DIRECTORY: Final = FindingCode(
    "foreign-directory",
    Severity.ERROR,
    "A directory at the top of the log directory does not have the name of a partition. For "
    "example, lost+found is there if the log directory is the root of a file system.",
    "The broker does not start, even if everything else is valid. Before it fails, it removes the "
    "clean shutdown file.",
    "Move the directory away. Or move all of the broker's files into a subdirectory, and set "
    "log.dirs to that subdirectory.",
    check=29,
    stops=Outcome.REFUSES,
)
CHECKPOINT_MALFORMED: Final = FindingCode(
    "checkpoint-malformed",
    Severity.ERROR,
    "An offset checkpoint does not follow its format: a version line, a count line, then lines of "
    "three fields.",
    "The broker takes the whole log directory offline, and exits if it has no other log directory.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines. Without its line, a partition loses its recovery point or its log start "
    "offset: the broker recovers the whole log after an unclean shutdown, or serves deleted "
    "records again.",
    check=26,
    stops=Outcome.OFFLINE,
)
CHECKPOINT_NUMBER: Final = FindingCode(
    "checkpoint-number",
    Severity.WARNING,
    "A number in recovery-point-offset-checkpoint, log-start-offset-checkpoint or "
    "cleaner-offset-checkpoint cannot be parsed.",
    "For recovery-point-offset-checkpoint, the broker uses 0 for every partition, and recovers "
    "every segment after an unclean shutdown. For log-start-offset-checkpoint, each log begins at "
    "its first segment, and deleted records come back. For cleaner-offset-checkpoint, the cleaner "
    "thread ends, and compaction stops.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines.",
    check=26,
)
HIGH_WATERMARK_NUMBER: Final = FindingCode(
    "high-watermark-number",
    Severity.ERROR,
    "A number in replication-offset-checkpoint cannot be parsed.",
    "The broker starts, but serves no partition of the log directory.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines. For a partition without a line, the broker takes the log start offset as the "
    "high watermark.",
    check=26,
    harm=Harm.UNSERVED,
)
CHECKPOINT_LINE_UNKNOWN: Final = FindingCode(
    "checkpoint-line-unknown",
    Severity.INFO,
    "A checkpoint has lines for partitions that are not in the log directory.",
    "The broker ignores these lines, and omits them when it next writes the file.",
    "Nothing to do, unless those partitions should be here: in that case they were removed.",
    check=26,
)
LOG_DIRECTORY_MISSING: Final = FindingCode(
    "log-directory-missing",
    Severity.ERROR,
    "A log directory that the configuration names does not exist, or holds none of a broker's "
    "files. Or it is a file, and may be the log directory with the metadata log.",
    "The broker does not start.",
    "Its file system may not be mounted: mount it, and verify again. If the directory is new, "
    "kafka-storage.sh format --ignore-formatted prepares it.",
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_BLANK: Final = FindingCode(
    "log-directory-blank",
    Severity.ERROR,
    "A broker that uses ZooKeeper has a log directory in its configuration that does not exist, or "
    "holds none of a broker's files.",
    "The broker treats it as a new directory and creates its replicas again, empty. A follower "
    "fetches all records again. A leader assigns offsets a second time, starting at 0.",
    "Its file system may not be mounted: mount it before the broker starts. If the directory is "
    "new, there is nothing to do.",
    harm=Harm.EMPTY,
)
LOG_DIRECTORY_FILE: Final = FindingCode(
    "log-directory-file",
    Severity.ERROR,
    "A log directory that the configuration names is a file.",
    "The broker takes the log directory offline, and continues with its other log directories. It "
    "exits if it has no other.",
    "Correct log.dirs, or move the file away. Its file system may not be mounted: mount it, and "
    "verify again.",
    stops=Outcome.OFFLINE,
)
CLEAN_MARKER_LIVE: Final = FindingCode(
    "clean-marker-live",
    Severity.INFO,
    "The clean shutdown file is there although a broker uses the directory. The broker is starting "
    "up or shutting down, or the file was put back.",
    "The broker checks for the file only at startup.",
    "If the file stays while the broker runs, remove it: otherwise the next startup takes a crash "
    "for a clean shutdown.",
    check=37,
)
CLEAN_MARKER_DIRECTORY: Final = FindingCode(
    "clean-marker-directory",
    Severity.ERROR,
    "A directory that is not empty has the name of the clean shutdown file.",
    "The broker cannot remove it and takes the whole log directory offline. It exits if it has no "
    "other log directory. An empty directory counts as the clean shutdown file.",
    "Move the directory away. The next startup then takes the shutdown for unclean.",
    check=29,
    stops=Outcome.OFFLINE,
)

#: The kinds of file that belong at the top of a log directory; Kafka writes no other kind there.
_TOP_KINDS: Final = frozenset(
    {
        FileKind.OFFSET_CHECKPOINT,
        FileKind.META_PROPERTIES,
        FileKind.CLEAN_MARKER,
        FileKind.LOCK,
        FileKind.BOOTSTRAP_SNAPSHOT,
        FileKind.KDUMP,
    }
)


def check_foreign_directories(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report directories at the top that are not partitions."""
    for entry in facts.directory.refused_directories:
        expected = "a directory whose name is a topic, '-' and a partition"
        yield file_finding(FOREIGN_DIRECTORY, entry.path, expected, entry.name.name)


def check_foreign_files(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report temporary files at the top, and files that do not belong to Kafka."""
    for entry in facts.directory.entries:
        if entry.type is EntryType.DIRECTORY:
            continue
        if entry.name.suffix == ".tmp":
            if facts.stopped:
                yield Finding(leftovers.LEFTOVER_TEMPORARY, entry.path)
        elif entry.name.kind not in _TOP_KINDS:
            yield Finding(leftovers.FOREIGN_FILE, entry.path)


def check_clean_marker(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report a clean shutdown marker beside a running broker, or one that cannot be removed."""
    if facts.clean_marker and facts.liveness.state is BrokerState.LIVE:
        yield Finding(CLEAN_MARKER_LIVE, facts.directory.path / CLEAN_MARKER)
    for entry in facts.directory.entries:
        directory = entry.type is EntryType.DIRECTORY and entry.name.name == CLEAN_MARKER
        if directory and holds_entries(entry.path):
            expected, found = "a file, or an empty directory", "a directory with entries"
            yield file_finding(CLEAN_MARKER_DIRECTORY, entry.path, expected, found)


def check_checkpoints(facts: DirectoryFacts) -> Iterator[Finding]:
    """Check the form of the four offset checkpoints."""
    # Only the repair of a partition rewrites them.
    hosted = any(map(has_lines, facts.directory.partition_paths))
    for read in facts.checkpoints:
        if isinstance(read.error, DecodeError):
            found = file_finding(
                _checkpoint_code(read),
                read.path,
                "lines of topic, partition, offset",
                f"an error: {read.error}",
            )
            remedy = reindex_command(facts.directory.path) if hosted else found.remedy
            yield replace(found, remedy=remedy)


def check_checkpoint_lines(facts: DirectoryFacts) -> Iterator[Finding]:
    """Report lines of partitions that do not exist; a running broker adds and removes lines."""
    if not facts.stopped:
        return
    names = map(directory_name, facts.directory.partition_paths)
    existing = {(name.topic, name.partition) for name in names if name is not None}
    for read in facts.checkpoints:
        unknown = sorted(key for key in read.value or () if key not in existing)
        if unknown:
            topic, partition = unknown[0]
            yield file_finding(
                CHECKPOINT_LINE_UNKNOWN,
                read.path,
                "partitions that are in the log directory",
                f"{topic}-{partition}",
                repeats=len(unknown) - 1,
            )


def missing_directory(error: MissingDirectoryError, *, kraft: bool, needed: bool) -> Finding:
    """Return the finding for a missing log directory that the configuration names.

    ``needed``: it may be the one of the metadata log.
    """
    code = LOG_DIRECTORY_MISSING if kraft else LOG_DIRECTORY_BLANK
    if error.is_file and not (kraft and needed):
        code = LOG_DIRECTORY_FILE
    expected = "the log directory that the configuration names"
    return file_finding(code, as_path(error.path), expected, error.found)


def _checkpoint_code(read: Read[Offsets]) -> FindingCode:
    if not isinstance(read.error, CheckpointNumberError):
        return CHECKPOINT_MALFORMED
    if read.path.name == HIGH_WATERMARK_CHECKPOINT:
        return HIGH_WATERMARK_NUMBER
    return CHECKPOINT_NUMBER


DIRECTORY_CHECKS: Final = (
    check_foreign_directories,
    check_foreign_files,
    check_clean_marker,
    check_checkpoints,
    check_checkpoint_lines,
)
