"""Checks of ``meta.properties``: its form, and the node and the directory that it names.

Spec: ``MetaPropertiesEnsemble.verify``, ``ClusterControlManager``; KOD 9, check 29.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import NodeEvidence
from kdump.audit.finding_code import FindingCode, Outcome, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.errors import DecodeError
from kdump.format.properties import MetaProperties, is_reserved_directory
from kdump.storage.names import META_PROPERTIES
from kdump.storage.paths import AnyPath

META_PROPERTIES_UNREADABLE: Final = FindingCode(
    "meta-properties-unreadable",
    Severity.ERROR,
    "A meta.properties does not follow its format, or lacks a required property.",
    "The broker does not start. There is one exception: if the file does not follow its format, "
    "and the log directory is neither the only one nor the one with the metadata log, the broker "
    "starts without this log directory.",
    "Correct the file: node.id is that of server.properties, cluster.id that of all nodes of the "
    "cluster, and directory.id that of this log directory alone, which kdump metadata shows. In "
    "meta.properties of the node's other log directories, only directory.id differs.",
    stops=Outcome.REFUSES,
)
META_PROPERTIES_OFFLINE: Final = FindingCode(
    "meta-properties-offline",
    Severity.ERROR,
    "A meta.properties does not follow its format. The metadata log is in another log directory.",
    "The broker takes the log directory offline, and continues with its other log directories.",
    "Correct the file: node.id is that of server.properties, cluster.id that of all nodes of the "
    "cluster, and directory.id that of this log directory alone, which kdump metadata shows. In "
    "meta.properties of the node's other log directories, only directory.id differs.",
    stops=Outcome.OFFLINE,
)
META_PROPERTIES_MISSING: Final = FindingCode(
    "meta-properties-missing",
    Severity.ERROR,
    "A log directory of a KRaft node has no meta.properties, although another log directory of the "
    "node has one.",
    "The broker does not start.",
    "If the directory has partitions, write the file again: node.id is that of server.properties, "
    "cluster.id that of all nodes of the cluster, and directory.id that of this log directory "
    "alone, which kdump metadata shows. If the directory is new and empty, kafka-storage.sh format "
    "--ignore-formatted prepares it. Otherwise its file system may not be mounted.",
    stops=Outcome.REFUSES,
)
META_PROPERTIES_MISMATCH: Final = FindingCode(
    "meta-properties-mismatch",
    Severity.ERROR,
    "The meta.properties of two log directories cannot belong to the same node.",
    "The broker does not start.",
    "Remove the directory that belongs to another node, or that is a copy, from log.dirs. Compare "
    "node.id, cluster.id and directory.id in the meta.properties of all log directories.",
    stops=Outcome.REFUSES,
)
DIRECTORY_ID_RESERVED: Final = FindingCode(
    "directory-id-reserved",
    Severity.ERROR,
    "The directory.id in a meta.properties is one of the first 100 UUIDs, which Kafka reserves.",
    "The broker does not start.",
    "Remove the line directory.id from the file: the broker writes a new id at startup. Or put "
    "back the id that kdump metadata shows for the directory.",
    stops=Outcome.REFUSES,
)
DIRECTORY_ID_TAKEN: Final = FindingCode(
    "directory-id-taken",
    Severity.ERROR,
    "Another broker has registered the directory.id in a meta.properties: the log directory, or "
    "its meta.properties, is a copy.",
    "The broker does not start: the controller refuses to register it. The broker retries for a "
    "minute (initial.broker.registration.timeout.ms) and exits.",
    "If the directory belongs to the other node, mount it there, or put back node.id. If it stays "
    "here, remove the line directory.id from the file: the broker writes a new id at startup.",
    stops=Outcome.REFUSES,
)
NODE_ID_MISMATCH: Final = FindingCode(
    "node-id-mismatch",
    Severity.ERROR,
    "The node.id in meta.properties differs from the node.id in server.properties.",
    "The broker does not start.",
    "If node.id in server.properties is wrong, correct it. If the directory belongs to another "
    "node, mount it there: it has the partitions of that node.",
    stops=Outcome.REFUSES,
)

_MUST_HAVE: Final = "version, node.id and cluster.id"


def check_meta_properties(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the form of each meta.properties.

    A node goes on without a directory whose file it cannot read, if it needs no other of it.
    """
    readable = any(facts.identity is not None for facts in evidence.directories)
    for facts in evidence.directories:
        if facts.meta is not None and isinstance(facts.meta.error, DecodeError):
            needed = evidence.metadata_directory in (None, facts.directory.path)
            code = META_PROPERTIES_UNREADABLE
            if readable and not needed:
                code = META_PROPERTIES_OFFLINE
            yield file_finding(code, facts.meta.path, _MUST_HAVE, f"an error: {facts.meta.error}")


def check_node(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the meta.properties of the directories of one node against each other."""
    first: MetaProperties | None = None
    ids: dict[str, AnyPath] = {}
    kraft = any(facts.is_kraft for facts in evidence.directories)
    for facts in evidence.directories:
        path, meta = facts.directory.path / META_PROPERTIES, facts.identity
        if facts.meta is None and kraft:
            yield file_finding(META_PROPERTIES_MISSING, path, "meta.properties", "no such file")
        if meta is None:
            continue
        if kraft and (meta.node_id is None or meta.cluster_id is None):
            yield file_finding(META_PROPERTIES_UNREADABLE, path, _MUST_HAVE, "not all of them")
        first = first or meta
        for name, expected, found in (
            ("cluster.id", first.cluster_id, meta.cluster_id),
            ("node.id", first.node_id, meta.node_id),
        ):
            if expected is not None and found is not None and expected != found:
                yield _mismatch(path, f"{name} {expected}, as in the others", str(found))
        if meta.directory_id is not None and is_reserved_directory(meta.directory_id):
            expected = "a directory.id that Kafka does not reserve"
            yield file_finding(DIRECTORY_ID_RESERVED, path, expected, meta.directory_id)
        elif meta.directory_id is not None:
            owner = ids.setdefault(meta.directory_id, facts.directory.path)
            if owner != facts.directory.path:
                expected = f"a directory.id of its own, not the one of {owner}"
                yield _mismatch(path, expected, meta.directory_id)


def check_node_id(evidence: NodeEvidence) -> Iterator[Finding]:
    """Check the node id in meta.properties against that of the node's configuration."""
    for name in ("node.id", "broker.id"):
        text = (evidence.config or {}).get(name, "").strip()
        if text.isascii() and text.isdigit():
            break
    else:
        return
    for facts in evidence.directories:
        meta = facts.identity
        if meta is not None and meta.node_id is not None and meta.node_id != int(text):
            yield file_finding(
                NODE_ID_MISMATCH,
                facts.directory.path / META_PROPERTIES,
                f"node id {text}, the {name} of the configuration",
                str(meta.node_id),
            )


def check_directory_owners(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report log directories whose id another node has registered (``ClusterControlManager``)."""
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or node is None or not evidence.stopped:
        return
    owners = {
        directory_id: owner
        for owner, directory_ids in image.directories.items()
        for directory_id in directory_ids
        if owner != node
    }
    for facts in evidence.directories:
        directory_id = None if facts.identity is None else facts.identity.directory_id
        owner = None if directory_id is None else owners.get(directory_id)
        if owner is not None:
            yield file_finding(
                DIRECTORY_ID_TAKEN,
                facts.directory.path / META_PROPERTIES,
                f"a directory.id of node {node}",
                f"{directory_id}, which node {owner} has registered",
            )


def _mismatch(path: AnyPath, expected: str, found: str) -> Finding:
    return file_finding(META_PROPERTIES_MISMATCH, path, expected, found)


NODE_CHECKS: Final = (check_meta_properties, check_node, check_node_id, check_directory_owners)
