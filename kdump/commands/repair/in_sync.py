"""Which other replicas of a partition are in sync, by the newest metadata log at hand.

A replica that lacks records must never lead: all others would truncate their logs to its end. The
controller takes a broker that is down out of the ISR, unless it is the only member; it comes back
once it has fetched from a leader. While it is in the ISR, others may leave it first: after an
outage of all brokers, those are fenced or register one after the other, and the last one leads. So
what makes an empty log safe is an ISR with another member, and without this node.

Spec: ``ReplicationControlManager.handleBrokerFenced`` and ``handleBrokerShutdown``,
``PartitionChangeBuilder``; KIP-966. Before ELR, 3.9 takes a broker out by its fencing alone.
``ConfigurationControlManager.uncleanLeaderElectionEnabledForTopic`` also reads the properties of
controllers, which are not at hand. ``KafkaRaftClient.appendAsFollower`` flushes the metadata log of
voters alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kdump.audit.facts.cluster import (
    ALL_BROKERS,
    ClusterImage,
    Node,
    Replicas,
    read_cluster,
)
from kdump.audit.facts.small_files import PartitionFacts
from kdump.errors import Refused, UsageError
from kdump.format.lines.text import printable, time_text
from kdump.metadata.log import metadata_partition, written_ms
from kdump.storage.logdir import (
    LogDirectory,
    Partition,
    is_metadata_log,
    open_path,
    read_partition,
)
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_UNCLEAN: Final = "unclean.leader.election.enable"
_OWN: Final = "the metadata log of this node"


@frozen
class MetadataCopy:
    """The metadata log at ``path``, which was last written at ``written_ms``; None if unknown."""

    path: AnyPath
    image: ClusterImage
    written_ms: int | None

    @property
    def age_text(self) -> str:
        """How far the log goes, and when it was last written."""
        when = "" if self.written_ms is None else f", written {time_text(self.written_ms)}"
        return f"{printable(str(self.path))}, up to offset {self.image.end_offset}{when}"


def newest_copy(paths: Iterable[AnyPath]) -> MetadataCopy | None:
    """Return the metadata log at ``paths`` that goes furthest, None without a path.

    Each is a log directory, or a metadata log. Raises UsageError for another path, SourceError.
    """
    return max(map(_read, paths), key=lambda copy: copy.image.end_offset, default=None)


def _read(path: AnyPath) -> MetadataCopy:
    content = open_path(path)
    if isinstance(content, LogDirectory):
        found = metadata_partition(content)
        partition = None if found is None else read_partition(found)
    else:
        is_log = isinstance(content, Partition) and is_metadata_log(content)
        partition = content if isinstance(content, Partition) and is_log else None
    if partition is None:
        raise UsageError(
            f"{path}: expected a metadata log, __cluster_metadata-0, or a log directory with one, "
            "found none"
        )
    return MetadataCopy(partition.path, read_cluster(partition), written_ms(partition))


def others_in_sync(
    facts: PartitionFacts, node: Node, given: MetadataCopy | None, *, by_user: bool
) -> str:
    """Return a sentence on who else is in sync with the replica of ``node``.

    ``given`` is the newest metadata log of other nodes, None without one. ``by_user``: the user
    says that others are in sync, which the metadata log of ``node`` can still deny. Raises Refused
    if no other replica is known to be in sync.
    """
    path, name = facts.partition.path, facts.partition.name
    if name is None or name.suffix or facts.successor is not None:
        raise Refused(
            f"{path}: expected a current log, found one that a startup replaces or ignores"
        )
    metadata = None if facts.metadata is None else facts.metadata.value
    if metadata is None:
        raise Refused(f"{path}: expected partition.metadata, without which a startup sets it aside")
    topic_id, own = metadata.topic_id, node.image
    if by_user:
        known = node.replicas(name.topic, name.partition)
        if known is not None and known.nodes == (node.node_id,):
            raise Refused(f"{path}: by the metadata log of this node it is the only replica")
        ended = "" if known is None else f"; {_OWN} ends with: {_state_text(known)}"
        return f"by --others-in-sync, another replica is in sync{ended}"
    newer = given if own is None or _reaches(given, own) else None
    image = newer.image if newer is not None else own
    if image is None:
        raise Refused(
            f"{path}: no metadata log says which replicas are in sync: name one of a controller "
            "(--metadata), or say that others are in sync (--others-in-sync)"
        )
    place = _OWN if newer is None else str(newer.path)
    if image.problem is not None:
        raise Refused(f"{path}: {place} could not be read whole: {image.problem}")
    found = image.replicas.get(topic_id, {}).get(name.partition)
    if found is None:
        raise Refused(f"{path}: {place} has no partition {name.partition} of topic id {topic_id}")
    if node.node_id is None or node.node_id not in found.nodes:
        raise Refused(f"{path}: node {node.node_id} is no replica of it by {place}")
    state = _state_text(found)
    if not {*found.in_sync} - {node.node_id}:
        raise Refused(
            f"{path}: no other replica is in sync by {place} ({state}): this one would lead with "
            "an empty log, and the others would truncate theirs to it"
        )
    if node.node_id in found.in_sync:
        raise Refused(
            f"{path}: {place} has this node in the ISR ({state}), and the others may leave it "
            "before this one does: name a metadata log from after that, of a controller that runs "
            "(--metadata)"
        )
    if found.leader < 0 and _elects_any(image, name.topic):
        raise Refused(
            f"{path}: no member of the ISR runs by {place} ({state}), and unclean elections are "
            "enabled: this one would lead with an empty log; start another broker first"
        )
    if newer is None and not facts.clean:
        raise Refused(
            f"{path}: expected that this node was shut down cleanly, since brokers do not flush "
            f"the end of their metadata log ({state}): name that of a controller (--metadata)"
        )
    # The end of a log that grows is not in it, since it is part of what the user agrees to.
    return f"another replica is in sync{f' by {_OWN}' if newer is None else ''}: {state}"


def _reaches(given: MetadataCopy | None, own: ClusterImage) -> bool:
    """Return whether a metadata log knows all that the node knew when it stopped."""
    return given is not None and given.image.end_offset >= own.end_offset


def _elects_any(image: ClusterImage, topic: str) -> bool:
    """Return whether a replica out of sync may lead, by the configs that the cluster has."""
    for configs in (image.topic_configs.get(topic, {}), image.broker_configs.get(ALL_BROKERS, {})):
        if _UNCLEAN in configs:
            return configs[_UNCLEAN].lower() == "true"
    return False


def _state_text(replicas: Replicas) -> str:
    leader = "none" if replicas.leader < 0 else str(replicas.leader)
    eligible = f", ELR {_nodes(replicas.eligible)}" if replicas.eligible else ""
    return f"ISR {_nodes(replicas.in_sync)}{eligible}, leader {leader}"


def _nodes(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(nodes))) or "empty"
