"""The leader epochs and the topic id that a plan writes.

Spec: ``LeaderEpochFileCache`` (KIP-101), ``PartitionMetadataFile`` (KIP-516); KOD 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kdump.audit.checks import epochs, partition_files, topic
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.remedies import EPOCHS, TOPIC_IDS, topic_id_of
from kdump.format.checkpoint import encode_epochs
from kdump.format.properties import encode_partition_metadata
from kdump.repair.content.companions import epochs_of
from kdump.repair.transaction.plan import Put, Stamp, Step
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA


def small_file_steps(
    evidence: Evidence, facts: PartitionFacts, files: Mapping[str, Stamp]
) -> tuple[list[Step], list[str]]:
    """Return the steps for the leader epoch checkpoint and partition.metadata, and notes.

    ``facts`` are those of the evidence, ``files`` those in the directory.
    """
    steps: list[Step] = []
    notes: list[str] = []
    found_codes = {finding.code for finding in _findings(evidence)}
    if found_codes & EPOCHS:
        if evidence.replay is None:
            notes.append(f"{LEADER_EPOCH_CHECKPOINT} stays as it is: not all of the log was read")
        else:
            content = encode_epochs(epochs_of(evidence.replay, facts))
            name = LEADER_EPOCH_CHECKPOINT
            steps.append(Put.of(name, content, replaces=name in files))
            notes.append(
                f"{name} gets the leader epochs of the batches in the log; an epoch without a "
                "batch is lost"
            )
    if found_codes & TOPIC_IDS:
        topic_id = topic_id_of(facts, evidence.node)
        name = PARTITION_METADATA
        if topic_id is None:
            notes.append(f"{name} stays as it is: no metadata log in reach has the topic")
        else:
            content = encode_partition_metadata(topic_id)
            steps.append(Put.of(name, content, replaces=name in files))
            notes.append(
                f"{name} gets topic id {topic_id}, the id of the topic in the metadata log. If "
                "the topic was deleted and created again, these records belong to the old topic"
            )
    return steps, notes


def _findings(evidence: Evidence) -> Iterator[Finding]:
    yield from partition_files.check_epoch_file(evidence)
    yield from epochs.check_epoch_checkpoint(evidence)
    yield from topic.check_partition_metadata(evidence)
    yield from topic.check_topic_id(evidence)
