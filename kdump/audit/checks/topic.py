"""Checks of a partition against the metadata of its topic.

Spec: ``PartitionMetadataFile``, ``LogManager.isStrayKraftReplica``, ``LogConfig``, KIP-516; KOD 9,
check 24, KOD 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit import codes
from kdump.audit.evidence import Evidence, NodeEvidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding, file_finding
from kdump.errors import DecodeError
from kdump.format.properties import FatalMetadataError
from kdump.storage.names import PARTITION_METADATA
from kdump.storage.paths import AnyPath

_MIN_SEGMENT_BYTES: Final = 1 << 20
#: The first levels of metadata.version that only brokers from 4.0, 4.1 and 4.3 on support.
_FIRST_4_0: Final = 22
_FIRST_4_1: Final = 26
_FIRST_4_3: Final = 30
#: The sizes in ``server.properties``, each with the first level of the releases that refuse a
#: smaller value than the second number.
_SIZES: Final = {
    "log.segment.bytes": (_FIRST_4_0, _MIN_SEGMENT_BYTES),
    "metadata.log.segment.bytes": (_FIRST_4_1, 8 << 20),
}


def check_partition_metadata(evidence: Evidence) -> Iterator[Finding]:
    """Check the form of partition.metadata."""
    read = None if evidence.facts is None else evidence.facts.metadata
    if read is not None and isinstance(read.error, DecodeError):
        fatal = isinstance(read.error, FatalMetadataError)
        code = codes.PARTITION_METADATA_FATAL if fatal else codes.PARTITION_METADATA_MALFORMED
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
        if any(entry.name.name == PARTITION_METADATA for entry in facts.partition.entries):
            return  # it is no file
        empty = all(survey.unwritten for survey in evidence.surveys)
        code = codes.TOPIC_ID_MISSING_EMPTY if empty else codes.TOPIC_ID_MISSING
        yield file_finding(code, path, "a file with the topic id", "no such file")
    elif facts.metadata.value is not None:
        yield from _against_image(facts, node, path, facts.metadata.value.topic_id)


def _against_image(
    facts: PartitionFacts, node: Node, path: AnyPath, topic_id: str
) -> Iterator[Finding]:
    image, name = node.image, facts.partition.name
    if image is None or name is None:
        return
    replicas = image.replicas.get(topic_id, {}).get(name.partition)
    held = replicas is None or node.node_id is None or node.node_id in replicas.nodes
    known = replicas is not None or not image.complete
    if held and known and node.loses(topic_id, name.partition):
        where = "as far as a start reads it" if image.torn else "up to where a start cuts it"
        yield file_finding(
            codes.PARTITION_STRAY_CUT,
            path,
            f"the topic id {topic_id} in the metadata log, {where}",
            "no record of it there",
        )
    elif replicas is None:
        if image.complete:
            suffix = " of a deleted topic" if topic_id in image.deleted else ""
            yield file_finding(
                codes.PARTITION_STRAY,
                path,
                f"the topic id {image.topics.get(name.topic, 'of a topic that exists')}",
                f"{topic_id}{suffix}",
            )
    elif node.node_id is not None and node.node_id not in replicas.nodes:
        holders = ", ".join(map(str, replicas.nodes))
        yield file_finding(
            codes.PARTITION_STRAY, path, f"node {node.node_id} as a replica", f"nodes {holders}"
        )
    elif image.names.get(topic_id) != name.topic:
        yield file_finding(
            codes.TOPIC_ID_MISMATCH,
            path,
            f"the topic id {image.topics.get(name.topic, f'of {name.topic}')}",
            f"{topic_id} of {image.names.get(topic_id)}",
        )


def check_topic_settings(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check settings against what the release accepts that the node last registered with."""
    image, node = evidence.node.image, evidence.node
    if image is None or not evidence.stopped:
        return
    path = evidence.directories[0].directory.path
    for name, (level, least) in _SIZES.items():
        text = (evidence.config or {}).get(name, "")
        if node.runs_from(level) and _is_small(text, least):
            expected = f"a {name} of {least} or more"
            yield file_finding(codes.SETTING_REFUSED, path, expected, text)
    listed = (evidence.config or {}).get("log.dirs", "").strip()
    if node.runs_from(_FIRST_4_3) and listed and not all(map(str.strip, listed.split(","))):
        yield file_finding(codes.SETTING_REFUSED, path, "paths in log.dirs", "an empty one")
    if not node.runs_from(_FIRST_4_1):
        return
    for topic in sorted(image.topics):
        text = image.topic_configs.get(topic, {}).get("segment.bytes", "")
        if _is_small(text):
            expected = f"a segment.bytes of {_MIN_SEGMENT_BYTES} or more for topic {topic}"
            yield file_finding(codes.SETTING_REFUSED, path, expected, text)


def _is_small(text: str, least: int = _MIN_SEGMENT_BYTES) -> bool:
    """Return whether a segment size is below the minimum of newer brokers."""
    text = text.strip()
    return text.isascii() and text.isdigit() and int(text) < least


def check_segment_bytes(evidence: Evidence) -> Iterator[Finding]:
    """Check the topic's segment.bytes against the minimum of newer brokers."""
    facts, image = evidence.facts, evidence.node.image
    if facts is None or image is None or not facts.is_current:
        return
    if facts.stopped and evidence.node.runs_from(_FIRST_4_1):
        return  # an error of the node
    name = facts.partition.name
    if name is None:
        return
    text = image.topic_configs.get(name.topic, {}).get("segment.bytes", "")
    if _is_small(text):
        yield file_finding(
            codes.SEGMENT_BYTES_SMALL,
            facts.partition.path,
            f"a segment.bytes of {_MIN_SEGMENT_BYTES} or more",
            text,
        )
