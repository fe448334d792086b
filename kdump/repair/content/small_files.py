"""The leader epochs and the topic id that a plan writes.

Spec: ``LeaderEpochFileCache`` (KIP-101), ``PartitionMetadataFile`` (KIP-516); KOD 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kdump.audit.checks import epochs, metadata, partition_files, topic
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure
from kdump.audit.findings import Finding
from kdump.audit.remedies import topic_id_of
from kdump.audit.replay.replay import Replay
from kdump.format.checkpoint import EpochEntry, encode_epochs
from kdump.format.properties import encode_partition_metadata
from kdump.repair.content.companions import epochs_of, runs_of
from kdump.repair.transaction.plan import Put, Stamp, Step
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA


def small_file_steps(
    evidence: Evidence,
    facts: PartitionFacts,
    files: Mapping[str, Stamp],
    more_epochs: Sequence[EpochEntry] = (),
) -> tuple[list[Step], list[str]]:
    """Return the steps for the leader epoch checkpoint and partition.metadata, and notes.

    ``facts`` are those of the evidence, ``files`` those in the directory, ``more_epochs`` the
    leader epochs of copies of the same lineage.
    """
    steps: list[Step] = []
    notes: list[str] = []
    cures = {finding.code.cure for finding in _findings(evidence)}
    if Cure.EPOCHS in cures:
        if evidence.replay is None:
            notes.append(f"{LEADER_EPOCH_CHECKPOINT} stays as it is: not all of the log was read")
        else:
            entries = epochs_of(evidence.replay, facts, more_epochs)
            name = LEADER_EPOCH_CHECKPOINT
            steps.append(Put.of(name, encode_epochs(entries), replaces=name in files))
            notes.append(_epochs_note(entries, evidence.replay, copies=bool(more_epochs)))
    if Cure.TOPIC_ID in cures:
        topic_id = topic_id_of(facts, evidence.node)
        name = PARTITION_METADATA
        if topic_id is None:
            notes.append(f"{name} stays as it is: no metadata log in reach has the topic")
        else:
            content = encode_partition_metadata(topic_id)
            steps.append(Put.of(name, content, replaces=name in files))
            notes.append(f"{name} gets topic id {topic_id}, {_origin_of_id(evidence)}")
    return steps, notes


def _origin_of_id(evidence: Evidence) -> str:
    """Return where the topic id comes from, and what it may be wrong about."""
    if evidence.is_metadata_log:
        return "the id of the metadata log of every cluster"
    return (
        "the id of the topic in the metadata log. If the topic was deleted and created again, "
        "these records belong to the old topic"
    )


def _epochs_note(entries: Sequence[EpochEntry], replayed: Replay, *, copies: bool) -> str:
    """Return what becomes of epochs of which the log has no batch."""
    with_batches = {run.epoch for run in runs_of(replayed)}
    kept = sum(entry.epoch not in with_batches for entry in entries)
    origin = "the old file or of a replica" if copies else "the old file"
    lines = f", and the lines of {kept} without a batch from {origin}" if kept else ""
    lost = "" if copies else ", unless heal takes its line from a replica"
    return (
        f"{LEADER_EPOCH_CHECKPOINT} gets the leader epochs of the batches in the log{lines}; any "
        f"other epoch without a batch is lost{lost}"
    )


def _findings(evidence: Evidence) -> Iterator[Finding]:
    yield from partition_files.check_epoch_file(evidence)
    yield from epochs.check_epoch_checkpoint(evidence)
    yield from topic.check_partition_metadata(evidence)
    yield from topic.check_topic_id(evidence)
    yield from metadata.check_metadata_topic_id(evidence)
