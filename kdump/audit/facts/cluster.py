"""Topics, replicas and configs from the node's own metadata log.

Spec: ``MetadataImage``, ``TopicsDelta``, ``ConfigurationsDelta``; KIP-866 and KIP-868 for metadata
transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from kdump.audit.facts.coordinator import Coordinator
from kdump.audit.facts.metadata_log import Stop, metadata_records, read_snapshots
from kdump.audit.facts.small_files import read_small
from kdump.errors import SourceError
from kdump.format.messages.metadata import MetadataRecord
from kdump.format.properties import decode_quorum_state
from kdump.storage.logdir import LogDirectory, Partition, directory_name, read_partition
from kdump.storage.names import CLUSTER_METADATA_TOPIC, FileKind

Configs = Mapping[str, str]
"""Values by the name of the setting."""

ALL_BROKERS: Final = ""
"""The resource name of the dynamic configs of all brokers."""

_TOPIC_RESOURCE: Final = 2
_BROKER_RESOURCE: Final = 4


#: The prefix of reserved ids, which name no directory (``DirectoryId.reserved``): 15 bytes of 0.
_NO_DIRECTORY: Final = 20 * "A"


class _Type(IntEnum):
    """The types of the records that are read, by number."""

    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25


_TYPES: Final = frozenset(_Type)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of a partition: node ids, and the ids of their log directories if recorded.

    ``in_sync`` are the replicas in sync when the record was written.
    """

    nodes: tuple[int, ...]
    directories: tuple[str, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Copies:
    """The other nodes that hold a partition, and which of them were in sync."""

    nodes: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The content of the metadata log up to ``end_offset``, which is exclusive.

    Topic ids are uuids as text. ``topics`` has ids by name, ``names`` names by id. ``deleted`` has
    the ids that were removed after the snapshot, ``replicas`` those of each topic id by partition.
    ``broker_configs`` are by node id as text, or ``ALL_BROKERS``. ``problem`` says what could not
    be read: topics that are not in the image may then exist. ``left`` are the partitions, by topic
    id, whose records remain when the next start cuts the log at its damage; None if it cuts
    nothing. ``leader`` is the last controller that led.
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

    @property
    def complete(self) -> bool:
        """Whether the image has all topics that exist."""
        return self.problem is None

    def partitions(self, topic: str) -> Collection[int] | None:
        """Return the numbers of a topic's partitions; None if they are not certain."""
        replicas = self.replicas.get(self.topics.get(topic, ""))
        return replicas if self.complete and replicas else None


@dataclass(frozen=True, slots=True)
class Node:
    """The broker that a log directory belongs to, as far as known.

    ``kraft`` says that it has no ZooKeeper. ``image`` is None without a metadata log.
    ``coordinator`` has the partitions of ``__transaction_state`` that it holds, None without any.
    """

    kraft: bool = False
    node_id: int | None = None
    image: ClusterImage | None = None
    coordinator: Coordinator | None = None

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
        led = self.image.leader in (None, -1, self.node_id)
        return led and (topic_id, partition) not in self.image.left

    def copies(self, topic: str, partition: int) -> Copies | None:
        """Return the other replicas of a partition; None if the metadata log does not have it."""
        if self.image is None or self.node_id is None:
            return None
        replicas = self.image.replicas.get(self.image.topics.get(topic, ""), {}).get(partition)
        if replicas is None:
            return None
        nodes = tuple(node for node in replicas.nodes if node != self.node_id)
        return Copies(nodes, tuple(node for node in nodes if node in replicas.in_sync))

    def other_replicas(
        self, topic: str, partition: int, directory_id: str | None
    ) -> tuple[int, ...] | None:
        """Return the other nodes of a partition that this node has in directory ``directory_id``.

        Return None if this node certainly does not have it there, or if that is unknown. If the
        cluster has no directory id for the replica, it may be in any directory of the node.
        """
        if self.image is None or not self.image.complete or self.node_id is None:
            return None
        replicas = self.image.replicas.get(self.image.topics.get(topic, ""), {}).get(partition)
        if replicas is None or self.node_id not in replicas.nodes:
            return None
        if len(replicas.directories) == len(replicas.nodes):
            known = replicas.directories[replicas.nodes.index(self.node_id)]
            if known != directory_id and not known.startswith(_NO_DIRECTORY):
                return None
        return tuple(node for node in replicas.nodes if node != self.node_id)


def find_cluster(directories: Iterable[LogDirectory]) -> ClusterImage | None:
    """Read the metadata log in one of ``directories``; None if none has one."""
    for directory in directories:
        for path in directory.partition_paths:
            name = directory_name(path)
            if name is not None and (name.topic, name.suffix) == (CLUSTER_METADATA_TOPIC, ""):
                with suppress(SourceError):
                    return read_cluster(read_partition(path))
    return None


def read_cluster(partition: Partition) -> ClusterImage:
    """Read the newest whole snapshot of a metadata partition, and the log after it."""
    image = _Image()
    snapshots = [snapshot for snapshot in read_snapshots(partition) if snapshot.fault is None]
    if snapshots:
        image.read(metadata_records(snapshots[-1].path, 0, 0, _TYPES))
        image.end_offset = snapshots[-1].end_offset
    covered = image.end_offset
    for segment in partition.segments:
        if segment.base_offset > image.end_offset:
            image.note_problem(
                f"offsets {image.end_offset}..{segment.base_offset - 1} are not there"
            )
        records = metadata_records(segment.log, segment.base_offset, covered, _TYPES)
        image.end_offset = max(image.end_offset, image.read(records))
    return replace(image.freeze(), leader=_leader(partition))


def _leader(partition: Partition) -> int | None:
    for entry in partition.entries:
        if entry.name.kind is FileKind.QUORUM_STATE and entry.name.suffix == "":
            read = read_small(entry.path, decode_quorum_state)
            return None if read.value is None else read.value.leader_id
    return None


@dataclass(slots=True)
class _Image:
    """A ClusterImage during its read; ``pending`` are the records of an open transaction."""

    end_offset: int = 0
    topics: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    replicas: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    pending: list[MetadataRecord] | None = None
    problem: str | None = None
    left: frozenset[tuple[str, int]] | None = None

    def freeze(self) -> ClusterImage:
        return ClusterImage(
            self.end_offset,
            self.topics,
            self.names,
            frozenset(self.deleted),
            self.replicas,
            self.topic_configs,
            self.broker_configs,
            self.problem,
            self.left,
        )

    def note_problem(self, problem: str) -> None:
        """Record ``problem``, the part that could not be read, if it is the first one."""
        self.problem = self.problem or problem

    def read(self, records: Iterable[MetadataRecord | Stop]) -> int:
        """Apply ``records`` up to their Stop, and return its offset."""
        end = 0
        for record in records:
            if not isinstance(record, Stop):
                self._replay(record)
                continue
            end = record.offset
            if record.cut and self.left is None:
                self.left = frozenset(
                    (topic_id, number)
                    for topic_id, partitions in self.replicas.items()
                    for number in partitions
                )
            if record.reason:
                self.note_problem(record.reason)
        return end

    def _replay(self, record: MetadataRecord) -> None:
        if record.fields is None:
            self.note_problem(f"a record of type {record.type_id}, version {record.version}")
        elif record.type_id == _Type.BEGIN_TRANSACTION:
            self.pending = []
        elif record.type_id == _Type.ABORT_TRANSACTION:
            self.pending = None
        elif record.type_id == _Type.END_TRANSACTION:
            committed, self.pending = self.pending or [], None
            for pending in committed:
                self._apply(pending.type_id, pending.fields or {})
        elif self.pending is not None:
            self.pending.append(record)
        else:
            self._apply(record.type_id, record.fields)

    def _apply(self, type_id: int, fields: dict[str, Any]) -> None:
        match type_id:
            case _Type.TOPIC:
                self.topics[fields["name"]] = fields["topicId"]
                self.names[fields["topicId"]] = fields["name"]
            case _Type.PARTITION:
                replicas = self.replicas.setdefault(fields["topicId"], {})
                replicas[fields["partitionId"]] = Replicas(
                    tuple(fields["replicas"]),
                    tuple(fields.get("directories") or ()),
                    tuple(fields["isr"]),
                )
            case _Type.PARTITION_CHANGE:
                self._change(fields)
            case _Type.REMOVE_TOPIC:
                self._remove(fields["topicId"])
            case _Type.CONFIG:
                self._configure(fields)

    def _change(self, fields: dict[str, Any]) -> None:
        topic_id, partition = fields["topicId"], fields["partitionId"]
        replicas = self.replicas.get(topic_id, {})
        before = replicas.get(partition)
        if before is None:
            self.note_problem(
                f"the partition that a change of {topic_id}, partition {partition} is about"
            )
            return
        nodes, directories = fields["replicas"], fields.get("directories")
        in_sync = fields["isr"]
        replicas[partition] = Replicas(
            before.nodes if nodes is None else tuple(nodes),
            before.directories if directories is None else tuple(directories),
            before.in_sync if in_sync is None else tuple(in_sync),
        )

    def _remove(self, topic_id: str) -> None:
        self.deleted.add(topic_id)
        name = self.names.pop(topic_id, None)
        if name is not None:
            self.topic_configs.pop(name, None)
            if self.topics.get(name) == topic_id:
                del self.topics[name]
        self.replicas.pop(topic_id, None)

    def _configure(self, fields: dict[str, Any]) -> None:
        kinds = {_TOPIC_RESOURCE: self.topic_configs, _BROKER_RESOURCE: self.broker_configs}
        configs = kinds.get(fields["resourceType"])
        if configs is None:
            return
        values = configs.setdefault(fields["resourceName"], {})
        if fields["value"] is None:
            values.pop(fields["name"], None)
        else:
            values[fields["name"]] = fields["value"]
