"""Topics, replicas and configs from the node's own metadata log.

Spec: ``MetadataImage``, ``TopicsDelta``, ``ConfigurationsDelta``; KIP-866 and KIP-868 for metadata
transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Final

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.facts.remote_storage import RemoteStorage
from kdump.audit.facts.small_files import read_small
from kdump.errors import SourceError
from kdump.format.properties import QuorumState, decode_quorum_state
from kdump.metadata.builder import RecordType
from kdump.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kdump.metadata.log import MetadataSnapshot, Stop, metadata_partition, read_snapshots
from kdump.metadata.replay import MetadataReplay, Note, replay_torn
from kdump.storage.logdir import LogDirectory, Partition, read_partition
from kdump.storage.names import FileKind
from kdump.values import frozen

Configs = Mapping[str, str]
"""Values by the name of the setting."""

ALL_BROKERS: Final = ""
"""The resource name of the dynamic configs of all brokers."""

#: The prefix of reserved ids, which name no directory (``DirectoryId.reserved``): 15 bytes of 0.
_NO_DIRECTORY: Final = 20 * "A"


#: The types of the records that the image is made of.
_IMAGE_TYPES: Final = frozenset(
    {
        RecordType.REGISTER_BROKER,
        RecordType.UNREGISTER_BROKER,
        RecordType.BROKER_REGISTRATION_CHANGE,
        RecordType.TOPIC,
        RecordType.PARTITION,
        RecordType.CONFIG,
        RecordType.PARTITION_CHANGE,
        RecordType.REMOVE_TOPIC,
        RecordType.BEGIN_TRANSACTION,
        RecordType.END_TRANSACTION,
        RecordType.ABORT_TRANSACTION,
        RecordType.CLEAR_ELR,
        RecordType.FEATURE_LEVEL,
        RecordType.REMOVE_FEATURE_LEVEL,
        RecordType.REGISTER_CONTROLLER,
        RecordType.UNREGISTER_CONTROLLER,
    }
)
#: The types of the records that are read: a start applies all of them. One byte is a type here.
_TYPES: Final = frozenset(range(1 << 8)) - {RecordType.NO_OP}


@frozen
class Replicas:
    """The replicas of a partition: node ids, and the ids of their log directories if recorded.

    ``in_sync`` are the replicas in sync when the record was written, ``eligible`` those that may
    lead all the same (KIP-966), ``last_eligible`` the last of these. ``adding`` are the replicas
    that a reassignment adds, ``removing`` those that it removes. ``established``: the partition was
    not just created, for it changed since or is in a snapshot. ``leader`` is -1 for none.
    """

    nodes: tuple[int, ...]
    directories: tuple[str, ...] = ()
    in_sync: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_eligible: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    established: bool = False
    removing: tuple[int, ...] = ()
    leader: int = -1

    def directory_of(self, node: int, *, lost: str | None = None) -> str | None:
        """Return the id of the log directory of a replica; None if the cluster does not have it.

        ``lost`` is a reserved id that counts all the same.
        """
        if node not in self.nodes or len(self.directories) != len(self.nodes):
            return None
        known = self.directories[self.nodes.index(node)]
        return None if known != lost and known.startswith(_NO_DIRECTORY) else known

    def leads_alone(self, node: int) -> bool:
        """Return whether no other replica than that of ``node`` may lead."""
        may_lead = self.in_sync or self.eligible or self.last_eligible
        return self.nodes == (node,) or may_lead == (node,)

    def had_log(self, node: int) -> bool:
        """Return whether the replica of ``node`` certainly had a log.

        A replica is in sync from the start only on a broker that runs, which creates the log at
        once. One that was assigned to a broker that was down, or is being added, may have none.
        """
        members = (*self.in_sync, *self.eligible, *self.last_eligible)
        return self.established and (self.nodes == (node,) or node in members)


@frozen
class Copies:
    """The other nodes that hold a partition, and which of them were in sync."""

    nodes: tuple[int, ...]
    in_sync: tuple[int, ...]


@frozen
class ClusterImage:
    """The content of the metadata log up to ``end_offset``, which is exclusive.

    Topic ids are uuids as text. ``topics`` has ids by name, ``names`` names by id. ``deleted`` has
    the ids that were removed after the snapshot, ``replicas`` those of each topic id by partition.
    ``broker_configs`` are by node id as text, or ``ALL_BROKERS``. ``problem`` says what could not
    be read: topics that are not in the image may then exist. ``left`` are the partitions, by topic
    id, whose records remain when the next start cuts the log at its damage; None if it cuts
    nothing. ``torn`` says that the newest snapshot ends early: ``left`` are then those that a start
    finds in it and in the log after it, and no leader sends the others. ``leader`` is the last
    controller that led. ``voters`` are the ids of the voters, None if neither the log nor
    ``quorum-state`` names them. ``directories`` are the ids of the log directories that each broker
    has registered, by node id. ``features`` are the finalized levels by the name of the feature.
    ``supported`` are the least and the highest level of each feature that a node supported when it
    last registered, by node id. ``unreplayable`` are the records that a start cannot apply, up to
    the first damage or gap.
    """

    end_offset: int
    topics: Mapping[str, str]
    names: Mapping[str, str]
    deleted: frozenset[str]
    replicas: Mapping[str, Mapping[int, Replicas]]
    topic_configs: Mapping[str, Configs]
    broker_configs: Mapping[str, Configs]
    problem: str | None
    left: frozenset[tuple[str, int]] | None = None
    leader: int | None = None
    voters: frozenset[int] | None = None
    directories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    torn: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    supported: Mapping[int, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    unreplayable: tuple[Note, ...] = ()

    @property
    def blank(self) -> bool:
        """Whether the log has no record, and nothing shows that damage or a gap replaces some."""
        return not self.end_offset and self.complete

    @property
    def complete(self) -> bool:
        """Whether the image has all topics that exist."""
        return self.problem is None

    def sharing(self, other: ClusterImage) -> ClusterImage:
        """Return the image with the objects of another one for what is equal in both.

        The metadata logs of the brokers of one cluster are mostly equal.
        """
        replicas = {
            topic_id: other.replicas[topic_id] if other.replicas.get(topic_id) == found else found
            for topic_id, found in self.replicas.items()
        }
        return replace(
            self,
            topics=other.topics if self.topics == other.topics else self.topics,
            names=other.names if self.names == other.names else self.names,
            replicas=replicas,
        )

    def partitions(self, topic: str) -> Collection[int] | None:
        """Return the numbers of a topic's partitions; None if they are not certain."""
        replicas = self.replicas.get(self.topics.get(topic, ""))
        return replicas if self.complete and replicas else None


@frozen
class Node:
    """The broker that a log directory belongs to, as far as known.

    ``kraft`` says that it has no ZooKeeper. ``image`` is None without a metadata log.
    ``coordinator`` has the partitions of ``__transaction_state`` that it holds, ``remote`` those of
    ``__remote_log_metadata``; each is None without any.
    """

    kraft: bool = False
    node_id: int | None = None
    image: ClusterImage | None = None
    coordinator: Coordinator | None = None
    remote: RemoteStorage | None = None

    def runs_from(self, level: int) -> bool:
        """Return whether its last registration shows that it supports a level of metadata.version.

        False if that is unknown.
        """
        if self.image is None or self.node_id is None:
            return False
        supported = self.image.supported.get(self.node_id, {})
        return supported.get("metadata.version", (0, 0))[1] >= level

    def sets_aside(self, topic_id: str | None, partition: int) -> bool:
        """Return whether a start certainly renames a partition's directory to ``-stray``.

        ``topic_id`` is that of its partition.metadata, None without that file.
        """
        if not self.kraft or topic_id is None:
            return self.kraft
        if self.image is None:
            return False
        replicas = self.image.replicas.get(topic_id, {}).get(partition)
        if replicas is None:
            return self.image.complete
        return self.node_id is not None and self.node_id not in replicas.nodes

    def loses(self, topic_id: str, partition: int) -> bool:
        """Return whether a start cuts the records of a partition from the metadata log.

        It does not if another controller led: the node fetches the records from it again before
        replicas are compared.
        """
        if self.image is None or self.image.left is None:
            return False
        led = self.image.torn or self.image.leader in (None, -1, self.node_id)
        return led and (topic_id, partition) not in self.image.left

    def holds(self, topic: str, partition: int) -> bool:
        """Return whether the metadata log names this node as a replica of a partition."""
        replicas = self.replicas(topic, partition)
        return replicas is not None and self.node_id in replicas.nodes

    def replicas(self, topic: str, partition: int) -> Replicas | None:
        """Return the replicas of a partition; None if the metadata log does not have it."""
        if self.image is None or topic not in self.image.topics:
            return None
        return self.image.replicas.get(self.image.topics[topic], {}).get(partition)

    def copies(self, topic: str, partition: int) -> Copies | None:
        """Return the other replicas of a partition; None if the metadata log does not have it."""
        replicas = self.replicas(topic, partition)
        if replicas is None or self.node_id is None:
            return None
        nodes = tuple(node for node in replicas.nodes if node != self.node_id)
        return Copies(nodes, tuple(node for node in nodes if node in replicas.in_sync))

    def leads_alone(self, topic: str, partition: int) -> bool:
        """Return whether no other replica of a partition may lead; False if that is unknown."""
        replicas = self.replicas(topic, partition)
        if replicas is None or self.node_id is None:
            return False
        return replicas.leads_alone(self.node_id)

    def other_replicas(
        self, topic: str, partition: int, directory_id: str | None
    ) -> tuple[int, ...] | None:
        """Return the other nodes of a partition that this node has in directory ``directory_id``.

        Return None if this node certainly does not have it there, or if that is unknown. If the
        cluster has no directory id for the replica, it may be in any directory of the node.
        """
        if self.image is None or not self.image.complete or self.node_id is None:
            return None
        replicas = self.replicas(topic, partition)
        if replicas is None or self.node_id not in replicas.nodes:
            return None
        if replicas.directory_of(self.node_id) not in (None, directory_id):
            return None
        return tuple(node for node in replicas.nodes if node != self.node_id)


def find_cluster(directories: Iterable[LogDirectory]) -> ClusterImage | None:
    """Read the metadata log in one of ``directories``; None if none has one."""
    for directory in directories:
        path = metadata_partition(directory)
        if path is not None:
            with suppress(SourceError):
                return read_cluster(read_partition(path))
    return None


def read_cluster(partition: Partition) -> ClusterImage:
    """Read the newest whole snapshot of a metadata partition, and the log after it."""
    replay = MetadataReplay(_TYPES, controls=True)
    left: frozenset[tuple[str, int]] | None = None
    problem: str | None = None
    end = 0
    every = read_snapshots(partition)
    remains = _torn_replay(partition, every[-1]) if every and every[-1].torn else None
    if remains is not None:
        left = _partitions(remains)
    snapshots = [snapshot for snapshot in every if snapshot.fault is None]
    old = frozenset[tuple[str, int]]()
    if snapshots:
        problem = _problem(replay, replay.read_snapshot(snapshots[-1]))
        end = snapshots[-1].end_offset
        old = _partitions(replay)
    covered = end
    whole, unreplayable = True, _stopping(replay)
    for segment in partition.segments:
        if segment.base_offset > end:
            problem = problem or f"offsets {end}..{segment.base_offset - 1} are not there"
            whole = False
        stop = replay.read_segment(segment.log, segment.base_offset, covered)
        if stop.cut and left is None:
            left = _partitions(replay)
        problem = problem or _problem(replay, stop)
        end = max(end, stop.offset)
        if whole:
            unreplayable = _stopping(replay)
            whole = not stop.reason
    state = _quorum_state(partition)
    history = replay.history
    dynamic = frozenset(voter.id for voter in history.voters[-1][1]) if history.voters else None
    listed = frozenset(() if state is None else state.current_voters)
    return ClusterImage(
        end_offset=end,
        topics=replay.builder.topics,
        names=replay.builder.names,
        deleted=frozenset(replay.builder.deleted),
        replicas={
            topic_id: {
                number: Replicas(
                    found.replicas,
                    found.directories,
                    found.in_sync,
                    found.eligible,
                    found.last_known_eligible,
                    found.adding,
                    found.partition_epoch > 0 or (topic_id, number) in old,
                    found.removing,
                    found.leader,
                )
                for number, found in partitions.items()
            }
            for topic_id, partitions in replay.builder.partitions.items()
        },
        topic_configs=_configs(replay, TOPIC_RESOURCE),
        broker_configs=_configs(replay, BROKER_RESOURCE),
        problem=problem,
        left=left,
        leader=None if state is None else state.leader_id,
        voters=dynamic or history.electors or listed or None,
        directories={number: each.directories for number, each in replay.builder.brokers.items()},
        torn=remains is not None,
        features=_features(replay),
        supported=_supported(replay),
        unreplayable=unreplayable,
    )


def _torn_replay(partition: Partition, snapshot: MetadataSnapshot) -> MetadataReplay | None:
    """Return what a start makes of a torn snapshot.

    Return None if the log after it has records about what is gone: a controller stops there.
    """
    replay = replay_torn(partition, snapshot)
    return None if replay.notes else replay


def _partitions(replay: MetadataReplay) -> frozenset[tuple[str, int]]:
    return frozenset(
        (topic_id, number)
        for topic_id, partitions in replay.builder.partitions.items()
        for number in partitions
    )


def _problem(replay: MetadataReplay, stop: Stop) -> str | None:
    """Return what could not be read up to ``stop``, None if nothing is missing."""
    lost = (
        note.reason
        for note in replay.notes
        if note.lost and (note.type_id is None or note.type_id in _IMAGE_TYPES)
    )
    return next(lost, None) or stop.reason or None


def _stopping(replay: MetadataReplay) -> tuple[Note, ...]:
    """Return the records that a start cannot apply."""
    found = (*replay.notes, *replay.refusals)
    return tuple(sorted(found, key=lambda note: note.offset))


def _features(replay: MetadataReplay) -> dict[str, int]:
    """Return the finalized levels; that of kraft.version is in control records."""
    versions = replay.history.kraft_versions
    raft = {"kraft.version": versions[-1][1]} if versions else {}
    return replay.builder.features | raft


def _supported(replay: MetadataReplay) -> dict[int, dict[str, tuple[int, int]]]:
    """Return the levels that nodes support. A node with both roles registers the same twice."""
    builder = replay.builder
    features = {node: each.features for node, each in builder.controllers.items()}
    features |= {node: each.features for node, each in builder.brokers.items()}
    return {
        node: {each.name: (each.min_level, each.max_level) for each in found}
        for node, found in features.items()
    }


def _configs(replay: MetadataReplay, kind: int) -> dict[str, Configs]:
    configs = replay.builder.configs
    return {resource.name: values for resource, values in configs.items() if resource.type == kind}


def _quorum_state(partition: Partition) -> QuorumState | None:
    for entry in partition.entries:
        if entry.name.kind is FileKind.QUORUM_STATE and entry.name.suffix == "":
            return read_small(entry.path, decode_quorum_state).value
    return None
