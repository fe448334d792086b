"""Checks of the KRaft metadata log: snapshots, ``quorum-state``.

Spec: ``KafkaMetadataLog.recoverSnapshots``, ``RecordsSnapshotReader``, ``FileQuorumStateStore``;
KOD 9, check 36.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.audit import codes
from kdump.audit.facts.metadata_log import MetadataSnapshot
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, judged
from kdump.errors import DecodeError


def check_quorum_state(facts: PartitionFacts) -> Iterator[Finding]:
    """Judge the form of quorum-state."""
    read = facts.quorum_state
    if read is not None and isinstance(read.error, DecodeError):
        yield judged(
            codes.QUORUM_STATE_MALFORMED, read.path, "a line of JSON", f"an error: {read.error}"
        )


def check_metadata_snapshots(
    facts: PartitionFacts,
    snapshots: Sequence[MetadataSnapshot],
    first_base: int | None,
    log_end: int | None,
) -> Iterator[Finding]:
    """Judge the snapshots of the metadata log, which begins at ``first_base``, by age.

    Unlike other logs it begins at its first segment, whatever a checkpoint says.
    """
    newest = snapshots[-1] if snapshots else None
    for snapshot in snapshots:
        if snapshot.fault is not None:
            last = snapshot is newest
            code = codes.METADATA_SNAPSHOT_DAMAGED if last else codes.METADATA_SNAPSHOT_DAMAGED_OLD
            yield judged(code, snapshot.path, "a whole snapshot", snapshot.fault)
    if first_base and (newest is None or newest.end_offset < first_base):
        reached = "none" if newest is None else f"a snapshot up to {newest.end_offset}"
        yield judged(
            codes.METADATA_SNAPSHOT_MISSING,
            facts.partition.path,
            f"a snapshot up to {first_base} or more, where the log begins",
            reached,
        )
    beyond = facts.stopped and newest is not None and log_end is not None
    if beyond and newest is not None and log_end is not None and newest.end_offset > log_end:
        yield judged(
            codes.METADATA_SNAPSHOT_BEYOND_END,
            newest.path,
            f"an end offset up to {log_end}, where the log ends",
            str(newest.end_offset),
        )
