"""Checks of the replicas that the cluster assigns to directories out of sight, or set aside.

Spec: KIP-858; ``LogManager.loadLog``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from kdump.audit.evidence import NodeEvidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.coordinator import TopicPartition
from kdump.audit.facts.own_replicas import (
    LOST_DIRECTORY,
    own_replicas,
    served,
    set_aside,
)
from kdump.audit.facts.small_files import read_small
from kdump.audit.finding_code import FindingCode, Harm, Severity
from kdump.audit.findings import Finding, file_finding
from kdump.format.properties import decode_meta_properties
from kdump.metadata.log import metadata_partition
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import META_PROPERTIES
from kdump.values import frozen

REPLICA_DIRECTORY_MISSING: Final = FindingCode(
    "replica-directory-missing",
    Severity.WARNING,
    "The cluster's metadata assigns replicas of this node to a log directory that kdump does not "
    "see: log.dirs no longer names it, or it is not among the paths. Other replicas may become "
    "leader.",
    "If log.dirs does not name the directory, the broker creates empty replicas in another log "
    "directory, and fetches all records from their leaders.",
    "If this was not intended, name the directory in log.dirs again before the broker starts. "
    "Otherwise make sure that the other replicas are online and in sync.",
    check=26,
    harm=Harm.REFETCHED,
)
REPLICA_DIRECTORY_MISSING_ONLY: Final = FindingCode(
    "replica-directory-missing-only",
    Severity.ERROR,
    "The cluster's metadata assigns replicas of this node to a log directory that kdump does not "
    "see: log.dirs no longer names it, or it is not among the paths. No other replica may become "
    "leader: this node has the only replica, or the only in-sync replica, or, while none is in "
    "sync, the only replica in the ELR.",
    "If log.dirs does not name the directory, the broker creates empty replicas in another log "
    "directory, and leads them: offsets are assigned a second time, starting at 0, and other "
    "replicas truncate their logs.",
    "Name the directory in log.dirs again, or bring its file system back, before the broker "
    "starts. If the disk is lost and other replicas exist, kdump compare shows which records they "
    "hold.",
    check=26,
    harm=Harm.EMPTY,
)
REPLICA_SET_ASIDE: Final = FindingCode(
    "replica-set-aside",
    Severity.WARNING,
    "The cluster's metadata assigns a replica to this node, which has it only in a directory that "
    "ends in -stray or -delete. A broker renamed it: the metadata that it had then did not assign "
    "the replica. Other replicas may become leader.",
    "The broker does not use the directory. It creates an empty replica, and fetches all records "
    "from the leader. It deletes a -delete directory a minute later.",
    "While the broker is stopped, rename the directory to TOPIC-PARTITION, and run kdump verify: "
    "the indexes of a renamed log may need kdump reindex. Without that, make sure that another "
    "replica is in sync.",
    check=26,
    harm=Harm.REFETCHED,
)
REPLICA_SET_ASIDE_ONLY: Final = FindingCode(
    "replica-set-aside-only",
    Severity.ERROR,
    "The cluster's metadata assigns a replica to this node, which has it only in a directory that "
    "ends in -stray or -delete. A broker renamed it: the metadata that it had then did not assign "
    "the replica. No other replica may become leader: this node has the only replica, or the only "
    "in-sync replica, or, while none is in sync, the only replica in the ELR.",
    "The broker does not use the directory. It creates an empty replica and leads it: offsets are "
    "assigned a second time, starting at 0, and other replicas truncate their logs. It deletes a "
    "-delete directory a minute later.",
    "While the broker is stopped, rename the directory to TOPIC-PARTITION, and run kdump verify: "
    "the indexes of a renamed log may need kdump reindex. Then the broker serves its records "
    "again.",
    check=26,
    harm=Harm.EMPTY,
)

#: The number of partitions that a finding names.
_NAMED: Final = 3


def check_assigned_directories(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report replicas that the cluster assigns to a directory of this node that is not in sight.

    Without a configuration, a running broker may have its other directories anywhere.
    """
    image, node = evidence.node.image, evidence.node.node_id
    if image is None or not image.complete or node is None:
        return
    if evidence.config is None and not evidence.stopped:
        return
    metas = [facts.identity for facts in evidence.directories]
    metas += (
        read_small(directory.path / META_PROPERTIES, decode_meta_properties).value
        for directory in evidence.beyond
    )
    ids = {meta.directory_id for meta in metas if meta is not None and meta.directory_id}
    if len(ids) < len(metas):
        return  # a directory without a readable id, which may be any
    directories = _directories(evidence)
    paths = chain.from_iterable(directory.partition_paths for directory in directories)
    names = (name for name in map(directory_name, paths) if name is not None and not name.suffix)
    existing = {(name.topic, name.partition) for name in names}
    existing |= set_aside(directories, evidence.node, existing).keys()
    home = next(filter(metadata_partition, directories), directories[0])
    for found in unplaced(evidence.node, ids, existing):
        for code, partitions in (
            (REPLICA_DIRECTORY_MISSING_ONLY, found.alone),
            (REPLICA_DIRECTORY_MISSING, found.shared),
        ):
            if partitions:
                yield file_finding(
                    code,
                    home.path / META_PROPERTIES,
                    _assigned_text(found.directory_id, partitions, node),
                    _in_sight_text(found.directory_id, evidence, len(ids)),
                    repeats=len(partitions) - 1,
                )


def check_set_aside(evidence: NodeEvidence) -> Iterator[Finding]:
    """Report replicas that are here only as ``-stray`` or ``-delete``."""
    node = evidence.node
    if not evidence.stopped or node.node_id is None:
        return
    directories = _directories(evidence)
    existing = set(chain.from_iterable(map(served, directories)))
    expected = f"a name without suffix, as the cluster assigns the replica to node {node.node_id}"
    for partition, paths in sorted(set_aside(directories, node, existing).items()):
        code = REPLICA_SET_ASIDE_ONLY if node.leads_alone(*partition) else REPLICA_SET_ASIDE
        yield from (file_finding(code, path, expected, path.name) for path in paths)


def _directories(evidence: NodeEvidence) -> list[LogDirectory]:
    return [facts.directory for facts in evidence.directories] + [*evidence.beyond]


def _assigned_text(directory_id: str, partitions: Sequence[TopicPartition], node: int) -> str:
    named = ", ".join(f"{topic}-{partition}" for topic, partition in partitions[:_NAMED])
    others = f" and {len(partitions) - _NAMED:,} more" if partitions[_NAMED:] else ""
    which = (
        "an offline log directory"
        if directory_id == LOST_DIRECTORY
        else f"the log directory with the id {directory_id}"
    )
    return f"{which}, to which the cluster assigns {named}{others} of node {node}"


def _in_sight_text(directory_id: str, evidence: NodeEvidence, count: int) -> str:
    """Return which directories are in sight, and whether others may be there all the same."""
    image, node = evidence.node.image, evidence.node.node_id
    registered = () if image is None or node is None else image.directories.get(node, ())
    if evidence.config is not None:
        return f"{count} in log.dirs, none of them with this id"
    text = f"{count} of its {len(registered)} registered directories" if registered else f"{count}"
    if directory_id in registered:
        return f"{text}: name the others too, or --config, if log.dirs still has them"
    return f"{text}, and none with this id registered"


NODE_CHECKS: Final = (check_assigned_directories, check_set_aside)


# --- The replicas of a node that the cluster assigns to a log directory that is not in sight.
# Spec: KIP-858; DirectoryId; LogManager.getOrCreateLog, which makes a replica in another directory
# if the one that the metadata log names is not among log.dirs.


@frozen
class Unplaced:
    """The partitions that the cluster assigns to the directory ``directory_id`` of a node.

    They are in no directory that is in sight. ``alone`` are those of which no other replica may
    lead, ``shared`` the others, each as topic and partition in order.
    """

    directory_id: str
    alone: Sequence[TopicPartition]
    shared: Sequence[TopicPartition]


def unplaced(
    node: Node, in_sight: Collection[str], existing: Collection[TopicPartition]
) -> list[Unplaced]:
    """Return the replicas of ``node`` that are in directories that are not ``in_sight``.

    ``in_sight`` are ids of directories, ``existing`` the partitions that are in any of these. An id
    that is reserved names no directory: the replica may be anywhere, but for ``LOST_DIRECTORY``.
    """
    found: Mapping[str, tuple[list[TopicPartition], list[TopicPartition]]]
    found = defaultdict(lambda: ([], []))
    for own in own_replicas(node):
        directory = own.directory_id
        if directory is not None and directory not in in_sight and own.partition not in existing:
            found[directory][not own.alone].append(own.partition)
    return [
        Unplaced(directory, sorted(alone), sorted(shared))
        for directory, (alone, shared) in sorted(found.items())
    ]
