"""Checks of files that a start removes, and of files that are not Kafka's.

Spec: ``LogLoader.removeTempFilesAndCollectSwapFiles``; KOD 5, KOD 9 check 28.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import FindingCode, Severity
from kdump.audit.findings import Finding
from kdump.storage.logdir import EntryType, Partition
from kdump.storage.names import FileKind, Suffix
from kdump.storage.paths import AnyPath

FOREIGN_FILE: Final = FindingCode(
    "foreign-file",
    Severity.INFO,
    "The file does not belong to Kafka.",
    "The broker ignores the file. In a partition, the file is deleted together with the topic.",
    "Nothing to do.",
    check=28,
)
LEFTOVER_DELETED: Final = FindingCode(
    "leftover-deleted",
    Severity.INFO,
    "Files of deleted segments remain, because a broker had no time to remove them.",
    "The broker removes them at startup.",
    "To free space, delete the files. To preserve their data, copy them before a broker starts.",
    check=28,
)
LEFTOVER_CLEANED: Final = FindingCode(
    "leftover-cleaned",
    Severity.INFO,
    "Files of an unfinished cleaning, or of an unfinished split of a segment, remain. The original "
    "segments still exist.",
    "The broker removes them at startup.",
    "Nothing to do. To free space, you can delete the files, but not while the same log has a "
    ".swap file: the .cleaned files show the broker that a split is unfinished. Without them, the "
    "broker completes the swap although other parts of the split are missing (KAFKA-6264).",
    check=28,
)
LEFTOVER_TEMPORARY: Final = FindingCode(
    "leftover-temporary",
    Severity.INFO,
    "A broker died while it wrote this file. The file that it was to replace is complete.",
    "The broker ignores the file, or removes it at startup.",
    "Nothing to do.",
    check=28,
)


def check_leftovers(evidence: Evidence) -> Iterator[Finding]:
    """Report the files that a start removes or ignores, in one finding for each kind."""
    facts = evidence.facts
    if facts is None or not facts.stopped:
        return
    kinds: tuple[tuple[FindingCode, tuple[Suffix, ...]], ...] = (
        (LEFTOVER_DELETED, (".deleted",)),
        (LEFTOVER_CLEANED, (".cleaned",)),
        (LEFTOVER_TEMPORARY, (".tmp", ".part")),
    )
    for code, suffixes in kinds:
        yield from joint_finding(
            code, [path for path, suffix in suffixed_files(facts.partition) if suffix in suffixes]
        )


def check_foreign(evidence: Evidence) -> Iterator[Finding]:
    """Report, in one finding, the entries of a partition that do not belong to Kafka."""
    facts = evidence.facts
    if facts is None:
        return
    yield from joint_finding(
        FOREIGN_FILE,
        [
            entry.path
            for entry in facts.partition.entries
            if entry.name.kind is FileKind.UNKNOWN and entry.name.suffix == ""
        ],
    )


def suffixed_files(partition: Partition) -> list[tuple[AnyPath, Suffix]]:
    """Return all files with a suffix, sorted by path, including those of transient segments."""
    found: list[tuple[AnyPath, Suffix]] = [
        (entry.path, entry.name.suffix)
        for entry in partition.entries
        if entry.type is EntryType.FILE and entry.name.suffix
    ]
    for segment in partition.transient:
        files = (
            segment.log,
            segment.index,
            segment.time_index,
            segment.txn_index,
            segment.snapshot,
        )
        found += [(path, segment.suffix) for path in files if path is not None]
    return sorted(found)


def joint_finding(code: FindingCode, paths: Sequence[AnyPath]) -> Iterator[Finding]:
    """Yield one finding for all ``paths``, none without any."""
    if paths:
        yield Finding(code, paths[0], repeats=len(paths) - 1)


CHECKS: Final = (check_leftovers, check_foreign)
