"""Checks of the files of a partition by name and size: logs too large, indexes without a log.

Spec: ``LogLoader``, ``LocalLog.parseTopicPartitionName``; KOD 9, checks 14, 27, 30.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import REPLICA_FIRST, FindingCode, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.audit.startup.swaps import resolve_swaps
from kdump.storage.logdir import MAX_LOG_BYTES, EntryType
from kdump.storage.names import CLUSTER_METADATA_TOPIC, EXTENSIONS, FileKind

INDEX_ORPHAN: Final = FindingCode(
    "index-orphan",
    Severity.WARNING,
    "An index file exists without the .log of its segment.",
    "The broker deletes the index file at startup.",
    "If the .log was not deleted on purpose, a segment is missing: look for its .log before a "
    "broker starts.",
    check=12,
)
FILE_NAME_REFUSED: Final = FindingCode(
    "file-name-refused",
    Severity.ERROR,
    "A file in a partition has the extension of a segment file or metadata snapshot, but its name "
    "does not begin with a 64-bit number.",
    "The broker does not start.",
    "Move the file away.",
    check=29,
    stops=Outcome.REFUSES,
)
FILE_NAME_UNPADDED: Final = FindingCode(
    "file-name-unpadded",
    Severity.ERROR,
    "The number in the name of a segment file does not have 20 digits.",
    "The broker ignores the content of the file and creates an empty segment at that number. "
    "Consumers skip the records from that offset to the next segment, or the log ends there.",
    "Move the file away. If it belongs to the log, rename it so that its number has 20 digits.",
    check=29,
)
LOG_TOO_LARGE: Final = FindingCode(
    "log-too-large",
    Severity.ERROR,
    "A segment is larger than 2147483647 bytes.",
    "The broker does not start.",
    REPLICA_FIRST,
    check=30,
    stops=Outcome.REFUSES,
)


def check_log_sizes(evidence: Evidence) -> Iterator[Finding]:
    """Check the size of each ``.log`` against the limit of a broker."""
    for survey in evidence.surveys:
        if survey.size > MAX_LOG_BYTES:
            yield file_finding(
                LOG_TOO_LARGE,
                survey.segment.log,
                f"at most {MAX_LOG_BYTES} bytes",
                f"{survey.size} bytes",
                size=survey.size,
            )


def check_orphans(evidence: Evidence) -> Iterator[Finding]:
    """Report index files without their log; a running broker may be deleting the segment.

    Those that a pending swap replaces are of logs that a broker had just taken away when it was
    killed.
    """
    facts = evidence.facts
    if facts is None or evidence.live or evidence.deleted_at_start or not facts.partition.orphans:
        return
    ends = facts.swap_ends
    swaps = resolve_swaps(
        facts.partition, lambda swap: ends.get(swap.base_offset, swap.base_offset)
    )
    for entry in facts.partition.orphans:
        # A name that is not canonical a broker refuses, or opens under another name.
        if entry.name.canonical and entry.path not in swaps.replaced:
            expected = f"a file {entry.path.stem}.log beside it"
            yield file_finding(INDEX_ORPHAN, entry.path, expected, "none")


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
                FILE_NAME_REFUSED, entry.path, "a number of 20 digits first", name.name
            )
        elif not name.canonical and (
            (loaded and name.kind is FileKind.LOG)
            or (name.suffix == ".swap" and name.kind in EXTENSIONS)
        ):
            yield file_finding(FILE_NAME_UNPADDED, entry.path, "a number of 20 digits", name.name)


CHECKS: Final = (check_log_sizes, check_orphans, check_file_names)
