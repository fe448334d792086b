"""A metadata log that is gone: whether the quorum of the cluster still has its records.

Spec: ``RaftManager``, ``KafkaRaftClient``: voters without records elect a leader among themselves,
which begins an empty log. Any other node fetches the log from the leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from kdump.audit.facts.cluster import ClusterImage, Configs
from kdump.audit.facts.settings import metadata_directory, voter_ids
from kdump.audit.facts.small_files import DirectoryFacts, read_small
from kdump.errors import SourceError
from kdump.format.checkpoint import decode_epochs
from kdump.format.properties import MetaProperties, decode_quorum_state
from kdump.storage.logdir import LogDirectory, directory_name, read_partition
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.names import CLUSTER_METADATA_TOPIC, FileKind
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_CONTROLLER = "controller"
_KRAFT_VERSION = 1


class QuorumFacts(Enum):
    """The quorum of a node whose metadata log is gone."""

    HOLDS = "holds"  # a majority of the voters may have the records
    LOST = "lost"  # a majority of the voters has no records
    UNKNOWN = "unknown"  # nothing given names the voters or the roles of the node


@frozen
class MissingMetadata:
    """The metadata log of a node, expected at ``path``, that has no record.

    ``found`` says what is there instead. ``voters`` are the ids of the voters, None if unknown;
    ``without`` are those whose log directories are given and have no record either.
    """

    path: AnyPath
    found: str
    quorum: QuorumFacts
    voters: frozenset[int] | None
    without: frozenset[int]


@frozen
class Sighted:
    """The log directories of one node, and what they show of its metadata log.

    ``path`` is the directory of the log, None without one. ``image`` is None too if the log could
    not be read. ``whole`` is that of ``is_whole``. ``emptied``: one of its directories has lost
    its partitions, by ``is_emptied``.
    """

    directories: Sequence[LogDirectory]
    meta: MetaProperties | None
    path: AnyPath | None
    image: ClusterImage | None
    whole: bool
    emptied: bool

    @property
    def blank(self) -> bool:
        """Whether there is no record of the metadata log, nor damage that replaces some."""
        return self.path is None if self.image is None else self.image.blank

    @property
    def served(self) -> bool:
        """Whether the node has partitions, which a start renames if it does not know them.

        Or it had some, by its checkpoints.
        """
        if self.emptied:
            return True
        names = (
            directory_name(path)
            for directory in self.directories
            for path in directory.partition_paths
        )
        return any(
            name is not None
            and name.topic != CLUSTER_METADATA_TOPIC
            and name.suffix in ("", "future")
            for name in names
        )


def is_whole(directories: Iterable[DirectoryFacts]) -> bool:
    """Return whether log directories are more than a copy of some partitions of a node.

    Up to 4.3, formatting writes bootstrap.checkpoint into each one. 4.4 writes none: there the
    recovery points name the partitions of a directory, of which a part lacks most. A directory
    without any partition is no copy of some. An anonymous manifest, which leaves out the metadata
    log, is never whole.
    """
    for facts in directories:
        directory, points = facts.directory, facts.recovery_points
        if not directory.partition_paths and facts.meta is not None:
            return True
        if any(entry.name.kind is FileKind.BOOTSTRAP_SNAPSHOT for entry in directory.entries):
            return True
        if isinstance(directory.path, ManifestPath) and directory.path.on_host() is None:
            continue
        found = map(directory_name, directory.partition_paths)
        names = [name for name in found if name and name.topic != CLUSTER_METADATA_TOPIC]
        here = {(name.topic, name.partition) for name in names}
        known = set() if points is None or points.value is None else set(points.value)
        renamed = bool(names) and all(name.suffix in ("stray", "delete") for name in names)
        if 2 * len(known & here) > len(known) or (renamed and points is not None and not known):
            return True
    return False


def is_emptied(facts: DirectoryFacts) -> bool:
    """Return whether a log directory holds no partition, although it has recovery points of some.

    A broker removes the recovery point of a partition that is deleted or moved. It leaves the high
    watermarks of a directory whose last partition went (``ReplicaManager.checkpointHighWatermarks``
    writes for directories that have one).
    """
    points = facts.recovery_points
    names = map(directory_name, facts.directory.partition_paths)
    held = (name for name in names if name is not None and name.suffix in ("", "future"))
    hosts = any(name.topic != CLUSTER_METADATA_TOPIC for name in held)
    return points is not None and bool(points.value) and not hosts


def missing_metadata(
    node: Sighted, others: Iterable[Sighted], config: Configs | None
) -> MissingMetadata | None:
    """Return the metadata log of ``node`` if it is gone; None if it is there, or never was.

    ``others`` are the nodes whose log directories are given too, ``config`` is of this node.
    """
    roles = _roles(config)
    if not node.blank or not (_is_kraft(node.meta) or roles) or not node.directories:
        return None
    others = tuple(others)
    found = _found(node)
    # Without directory ids, nothing but the node id groups the directories of one node.
    if found is None or any(_is_same(node, other) and not other.blank for other in others):
        return None
    path = node.path
    if path is None:
        name = f"{CLUSTER_METADATA_TOPIC}-0"
        path = node.directories[0].path / name
        if config is not None:
            expected = metadata_directory(config)
            if expected is None:
                return None
            if all(directory.path.absolute() != expected for directory in node.directories):
                if not expected.is_dir():
                    return None  # its log directory is missing, which is reported
            else:
                path = expected / name
    cluster = None if node.meta is None else node.meta.cluster_id
    nodes = [node, *(other for other in others if _cluster(other) in (None, cluster))]
    voters = _voters(nodes, config)
    blank = {other.meta.node_id for other in nodes if other.blank and other.meta is not None}
    without = frozenset(number for number in voters or () if number in blank)
    quorum = _quorum(voters, without, roles)
    if quorum is QuorumFacts.UNKNOWN and node.path is None and not (roles or node.whole):
        return None  # some partitions of a node, as they are copied
    return MissingMetadata(path, found, quorum, voters, without)


def _quorum(
    voters: frozenset[int] | None, without: frozenset[int], roles: frozenset[str]
) -> QuorumFacts:
    if voters is not None:
        return QuorumFacts.LOST if len(without) > len(voters) // 2 else QuorumFacts.HOLDS
    return QuorumFacts.HOLDS if roles and _CONTROLLER not in roles else QuorumFacts.UNKNOWN


def _found(node: Sighted) -> str | None:
    """Return what is there instead of records; None if the node may be new.

    A new node has no partitions. It writes the log with its first start, before quorum-state.
    """
    if node.path is None:
        return "no such directory" if node.served else None
    try:
        entries = read_partition(node.path).entries
    except SourceError:
        return None
    has_log = any(entry.name.kind is FileKind.LOG for entry in entries)
    shown = _epoch_texts({entry.name.kind: entry.path for entry in entries}, has_log=has_log)
    if not shown and not node.served:
        return None
    text = "a log without a record" if has_log else "no segment"
    return f"{text}, though {' and '.join(shown)}" if shown else text


def _epoch_texts(paths: Mapping[FileKind, AnyPath], *, has_log: bool) -> list[str]:
    texts = []
    if FileKind.QUORUM_STATE in paths and not has_log:
        state = read_small(paths[FileKind.QUORUM_STATE], decode_quorum_state).value
        if state is not None and state.leader_epoch > 0:
            texts.append(f"quorum-state has epoch {state.leader_epoch}")
    if FileKind.LEADER_EPOCHS in paths:
        epochs = read_small(paths[FileKind.LEADER_EPOCHS], decode_epochs).value
        if epochs:
            texts.append(f"leader-epoch-checkpoint has epoch {epochs[-1].epoch}")
    return texts


def _voters(nodes: Iterable[Sighted], config: Configs | None) -> frozenset[int] | None:
    listed = None if config is None else voter_ids(config)
    if listed:
        return listed
    images = (node.image for node in nodes if node.image is not None)
    return next((image.voters for image in images if image.voters), None)


def _roles(config: Configs | None) -> frozenset[str]:
    text = "" if config is None else config.get("process.roles", "")
    return frozenset(filter(None, map(str.strip, text.split(","))))


def _is_kraft(meta: MetaProperties | None) -> bool:
    return meta is not None and meta.version == _KRAFT_VERSION


def _is_same(node: Sighted, other: Sighted) -> bool:
    """Return whether both are directories, or copies of directories, of one node."""
    if node.meta is None or other.meta is None or node.meta.node_id is None:
        return False
    ids = [(each.cluster_id, each.node_id) for each in (node.meta, other.meta)]
    return ids[0] == ids[1]


def _cluster(node: Sighted) -> str | None:
    return None if node.meta is None else node.meta.cluster_id
