"""Checks of a partition against the metadata of its topic.

Spec: ``PartitionMetadataFile``, ``LogManager.isStrayKraftReplica``, ``LogConfig``, KIP-516; KOD 9,
check 24, KOD 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.checks.configs import FIRST_4_1, MIN_SEGMENT_BYTES, is_small
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure, FindingCode, Harm, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.errors import DecodeError
from kdump.format.properties import FatalMetadataError
from kdump.storage.logdir import EntryType
from kdump.storage.names import PARTITION_METADATA, DirectoryName
from kdump.storage.paths import AnyPath

PARTITION_METADATA_MALFORMED: Final = FindingCode(
    "partition-metadata-malformed",
    Severity.ERROR,
    "A partition.metadata does not follow its format, or holds the zero UUID.",
    "The broker takes the whole log directory offline, and exits if it has no other log directory.",
    "While the broker is stopped, kdump reindex writes the file with the id from the metadata "
    "log, if that is in one of the log directories. Without that log, write two lines, version: 0 "
    "and topic_id: ID. kafka-topics.sh --describe shows the ID. In __cluster_metadata-0, the node "
    "also writes the file itself once it is deleted.",
    check=24,
    stops=Outcome.OFFLINE,
    cure=Cure.TOPIC_ID,
)
PARTITION_METADATA_FATAL: Final = FindingCode(
    "partition-metadata-fatal",
    Severity.ERROR,
    "A partition.metadata is empty, lacks its second line, or has a topic id that is not a UUID.",
    "The broker does not start.",
    "While the broker is stopped, kdump reindex writes the file with the id from the metadata "
    "log, if that is in one of the log directories. Without that log, write two lines, version: 0 "
    "and topic_id: ID. kafka-topics.sh --describe shows the ID. In __cluster_metadata-0, the node "
    "also writes the file itself once it is deleted.",
    check=24,
    stops=Outcome.REFUSES,
    cure=Cure.TOPIC_ID,
)
TOPIC_ID_MISSING: Final = FindingCode(
    "topic-id-missing",
    Severity.ERROR,
    "A partition of a KRaft node holds records but has no partition.metadata.",
    "The broker renames the directory to -stray and creates an empty replica. Records that no "
    "other replica has are no longer served.",
    "Before a broker starts, kdump reindex writes the file with the id from the metadata log. "
    "Without that log, write two lines, version: 0 and topic_id: ID. kafka-topics.sh --describe "
    "shows the ID.",
    check=24,
    cure=Cure.TOPIC_ID,
)
TOPIC_ID_MISSING_EMPTY: Final = FindingCode(
    "topic-id-missing-empty",
    Severity.INFO,
    "An empty partition has no partition.metadata: the broker exited just after it created the "
    "partition.",
    "The broker renames the directory to -stray and creates the partition again.",
    "Nothing to do.",
    check=24,
)
PARTITION_STRAY: Final = FindingCode(
    "partition-stray",
    Severity.WARNING,
    "According to the node's own metadata log, this node is not, or is no longer, a replica of "
    "this partition.",
    "The broker renames the directory to -stray and no longer serves it. It does not delete the "
    "directory.",
    "If the topic was deleted or moved while the broker was down, nothing is wrong. If this "
    "directory is from another cluster or a backup, decide whether it belongs here before a broker "
    "starts.",
    check=24,
)
PARTITION_STRAY_ONLY: Final = FindingCode(
    "partition-stray-only",
    Severity.ERROR,
    "According to the node's own metadata log, no topic has the topic id in a partition.metadata, "
    "and none with it was deleted. Under another topic id, this node has the replica of this "
    "partition, and no other replica may become leader.",
    "The broker renames the directory to -stray, and creates an empty replica that it leads. "
    "Records that no other replica has are no longer served.",
    "If only the file was copied here or changed, kdump reindex writes it with the id from the "
    "metadata log, before a broker starts. If the topic was deleted and created again, the records "
    "belong to the old topic: move the directory out of the log directory, and put the directory "
    "of the new topic in its place. Without that one, the new topic begins empty.",
    check=24,
    cure=Cure.TOPIC_ID,
)
PARTITION_STRAY_CUT: Final = FindingCode(
    "partition-stray-cut",
    Severity.ERROR,
    "The node's metadata log, or its newest snapshot, is corrupt, and the records about this "
    "partition are at or after the corruption.",
    "At startup, the node truncates its metadata log at the corruption. If another controller "
    "leads, the node fetches the missing records of the log from it, but not the missing records "
    "of a snapshot. Otherwise the node does not know the topic: it renames the directory to -stray "
    "and no longer serves it.",
    "If there is another controller, start it first. If this is the only controller, copy the "
    "whole log directory before a broker starts on it. Then restore the metadata log from a "
    "backup.",
    check=24,
)
TOPIC_ID_MISMATCH: Final = FindingCode(
    "topic-id-mismatch",
    Severity.ERROR,
    "The topic id in a partition.metadata belongs to a different topic than the directory's name.",
    "The broker stops opening its replicas when it reaches this partition: many other partitions "
    "are not served either.",
    "If only partition.metadata was copied here, write the id of the topic into it. If the whole "
    "directory was copied here, move it out of the log directory.",
    check=24,
    harm=Harm.UNSERVED,
)
SEGMENT_BYTES_SMALL: Final = FindingCode(
    "segment-bytes-small",
    Severity.INFO,
    "The topic's segment.bytes is below 1 MiB, which brokers up to 4.0 accept.",
    "Brokers up to 4.0 start. Brokers from 4.1 on do not start.",
    "Raise segment.bytes before you upgrade beyond 4.0.",
)


def check_partition_metadata(evidence: Evidence) -> Iterator[Finding]:
    """Check the form of partition.metadata."""
    read = None if evidence.facts is None else evidence.facts.metadata
    if read is not None and isinstance(read.error, DecodeError):
        fatal = isinstance(read.error, FatalMetadataError)
        code = PARTITION_METADATA_FATAL if fatal else PARTITION_METADATA_MALFORMED
        yield file_finding(code, read.path, "a version and a topic id", f"an error: {read.error}")


def check_topic_id(evidence: Evidence) -> Iterator[Finding]:
    """Check a partition's topic id against the metadata log.

    The check is skipped beside a running broker: topics come and go there. A broker writes the file
    before the first record, so that one killed just after creating the partition leaves empty logs.
    """
    facts, node = evidence.facts, evidence.node
    if facts is None or not node.kraft or not facts.stopped or not facts.is_current:
        return
    path = facts.partition.path / PARTITION_METADATA
    if facts.metadata is None:
        types = (
            entry.type for entry in facts.partition.entries if entry.name.name == PARTITION_METADATA
        )
        if next(types, EntryType.LINK) is not EntryType.LINK:  # a broker sees no file at a link
            return
        empty = all(survey.unwritten for survey in evidence.surveys)
        code = TOPIC_ID_MISSING_EMPTY if empty else TOPIC_ID_MISSING
        yield file_finding(code, path, "a file with the topic id", "no such file")
    elif facts.metadata.value is not None:
        yield from _against_image(evidence, facts, path, facts.metadata.value.topic_id)


def _against_image(
    evidence: Evidence, facts: PartitionFacts, path: AnyPath, topic_id: str
) -> Iterator[Finding]:
    node, name = evidence.node, facts.partition.name
    image = node.image
    if image is None or name is None:
        return
    replicas = image.replicas.get(topic_id, {}).get(name.partition)
    held = replicas is None or node.node_id is None or node.node_id in replicas.nodes
    known = replicas is not None or not image.complete
    if held and known and node.loses(topic_id, name.partition):
        where = "as far as startup reads it" if image.torn else "up to where startup truncates it"
        yield file_finding(
            PARTITION_STRAY_CUT,
            path,
            f"the topic id {topic_id} in the metadata log, {where}",
            "no record of it there",
        )
    elif replicas is None:
        if image.complete:
            deleted = topic_id in image.deleted
            only = not deleted and _is_only_replica(evidence, name)
            suffix = " of a deleted topic" if deleted else ""
            yield file_finding(
                PARTITION_STRAY_ONLY if only else PARTITION_STRAY,
                path,
                f"the topic id {image.topics.get(name.topic, 'of a topic that exists')}",
                f"{topic_id}{suffix}",
            )
    elif node.node_id is not None and node.node_id not in replicas.nodes:
        holders = ", ".join(map(str, replicas.nodes))
        yield file_finding(
            PARTITION_STRAY, path, f"node {node.node_id} as a replica", f"nodes {holders}"
        )
    elif image.names.get(topic_id) != name.topic:
        yield file_finding(
            TOPIC_ID_MISMATCH,
            path,
            f"the topic id {image.topics.get(name.topic, f'of {name.topic}')}",
            f"{topic_id} of {image.names.get(topic_id)}",
        )


def _is_only_replica(evidence: Evidence, name: DirectoryName) -> bool:
    """Return whether the cluster has the replica here, and lets no other one lead."""
    directory, node = evidence.target.directory, evidence.node
    meta = None if directory is None else directory.identity
    directory_id = None if meta is None else meta.directory_id
    others = node.other_replicas(name.topic, name.partition, directory_id)
    return others is not None and node.leads_alone(name.topic, name.partition)


def check_segment_bytes(evidence: Evidence) -> Iterator[Finding]:
    """Check the topic's segment.bytes against the minimum of newer brokers."""
    facts, image = evidence.facts, evidence.node.image
    if facts is None or image is None or not facts.is_current:
        return
    if facts.stopped and evidence.node.runs_from(FIRST_4_1):
        return  # an error of the node
    name = facts.partition.name
    if name is None:
        return
    text = image.topic_configs.get(name.topic, {}).get("segment.bytes", "")
    if is_small(text):
        yield file_finding(
            SEGMENT_BYTES_SMALL,
            facts.partition.path,
            f"a segment.bytes of {MIN_SEGMENT_BYTES} or more",
            text,
        )


CHECKS: Final = (check_partition_metadata, check_topic_id, check_segment_bytes)
