"""The replicas that the metadata log assigns to a node, beside the directories that it has.

Spec: ``LogManager.loadLog``, which never takes a ``-stray`` or ``-delete`` directory for the log of
a replica; ``LogManager.getOrCreateLog``, which then creates an empty one; ``UnifiedLog``, which
shortens a topic name that is too long for such a directory's name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kdump.audit.facts.cluster import Node
from kdump.audit.facts.coordinator import TopicPartition
from kdump.audit.facts.metadata_log import is_whole
from kdump.audit.facts.small_files import DirectoryFacts, read_small
from kdump.format.properties import decode_partition_metadata
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC, PARTITION_METADATA, DirectoryName
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: ``DirectoryId.LOST``: the replica was in some directory that is offline.
LOST_DIRECTORY: Final = 21 * "A" + "g"
_ASIDE: Final = ("stray", "delete")


@frozen
class OwnReplica:
    """A partition of which a node has a replica.

    ``directory_id`` is that of its log directory; ``LOST_DIRECTORY`` if it went offline, None if
    the metadata log does not have it. ``alone``: no other replica may lead. ``had_log``: it
    certainly had a log. ``planned``: it may have none yet, since it was just assigned.
    """

    partition: TopicPartition
    directory_id: str | None
    alone: bool
    had_log: bool
    planned: bool


def own_replicas(node: Node) -> Iterator[OwnReplica]:
    """Yield the replicas of ``node``; none if the metadata log is not complete."""
    image, number = node.image, node.node_id
    if image is None or not image.complete or number is None:
        return
    for topic_id, partitions in image.replicas.items():
        topic = image.names.get(topic_id)
        for partition, replicas in partitions.items():
            if topic is not None and number in replicas.nodes:
                yield OwnReplica(
                    (topic, partition),
                    replicas.directory_of(number, lost=LOST_DIRECTORY),
                    replicas.leads_alone(number),
                    replicas.had_log(number),
                    not replicas.established or number in replicas.adding,
                )


def served(directory: LogDirectory, without: Container[AnyPath] = ()) -> Iterator[TopicPartition]:
    """Yield the partitions of which a start loads a log from ``directory``, or promotes one.

    Logs at the paths ``without`` are left out.
    """
    for name, path in _named(directory):
        known = name.suffix in ("", "future") and name.topic != CLUSTER_METADATA_TOPIC
        if known and path not in without:
            yield name.topic, name.partition


def renamed(directory: LogDirectory) -> Iterator[TopicPartition]:
    """Yield the names of partitions that are ``-stray`` or ``-delete``, whatever their topic id."""
    for name, _ in _named(directory):
        if name.suffix in _ASIDE:
            yield name.topic, name.partition


def set_aside(
    directories: Iterable[LogDirectory], node: Node, existing: Container[TopicPartition]
) -> Mapping[TopicPartition, Sequence[AnyPath]]:
    """Return the ``-stray`` and ``-delete`` directories of replicas that are not ``existing``.

    Only replicas of ``node`` count, of the topic id in the directory. Without one the name decides.
    """
    image = node.image
    found: dict[TopicPartition, list[AnyPath]] = defaultdict(list)
    if image is None or not image.complete:
        return found
    for directory in directories:
        for name, path in _named(directory):
            if name.suffix not in _ASIDE:
                continue
            topic_id = _topic_id(path)
            topic = name.topic if topic_id is None else image.names.get(topic_id)
            if topic is None or (topic, name.partition) in existing:
                continue
            if node.holds(topic, name.partition):
                found[topic, name.partition].append(path)
    return found


def unlisted_replicas(
    directories: Sequence[DirectoryFacts],
    node: Node,
    existing: Container[TopicPartition],
    *,
    configured: bool,
) -> Mapping[AnyPath, set[TopicPartition]]:
    """Return the replicas that had a log and are not ``existing``, by the path of their directory.

    A log directory without any partition lacks all that are assigned to it, in sync or not. From
    another one a replica may have moved to a directory that is not in sight. ``configured``: all
    log directories that the configuration of ``node`` names are in sight.
    """
    found: dict[AnyPath, set[TopicPartition]] = defaultdict(set)
    if node.image is None or node.node_id is None:
        return found
    if not configured and not is_whole(directories):
        return found  # some partitions of a node, as they are copied
    homes = {facts.identity.directory_id: facts for facts in directories if facts.identity}
    registered = node.image.directories.get(node.node_id, ())
    every = configured or set(registered) <= homes.keys()
    if configured or len(registered) == 1:
        homes[None] = directories[0]  # all of the node's directories are in sight
    for own in own_replicas(node):
        home = homes.get(own.directory_id)
        if home is None or own.partition in existing:
            continue
        emptied = not any(served(home.directory)) and not own.planned
        if (own.had_log and every) or emptied:
            found[home.directory.path].add(own.partition)
    return found


def _named(directory: LogDirectory) -> Iterator[tuple[DirectoryName, AnyPath]]:
    for path in directory.partition_paths:
        name = directory_name(path)
        if name is not None:
            yield name, path


def _topic_id(path: AnyPath) -> str | None:
    known = read_small(path / PARTITION_METADATA, decode_partition_metadata).value
    return None if known is None else known.topic_id
