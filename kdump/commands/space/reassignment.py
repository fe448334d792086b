"""Reassignments that free a number of bytes on this node, and lose no record.

A partition moves to another log directory of the node, on another file system with more room. Or
the node gives up its replica, where all other replicas are in sync, and enough of them are left.
Neither is for partitions that are being reassigned or moved, nor for the metadata log.

Spec: ``ReassignPartitionsCommand`` (KIP-455, and KIP-113 for ``log_dirs``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kdump.audit.facts.cluster import Configs, Node, Replicas
from kdump.audit.facts.settings import (
    Sources,
    cordoned_directories,
    least_in_sync,
    named_directories,
)
from kdump.audit.facts.space import Space, read_space
from kdump.audit.sizes.measure import PartitionSpace
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import identity
from kdump.errors import SourceError
from kdump.metadata.log import metadata_partition, written_ms
from kdump.storage.logdir import LogDirectory, read_partition
from kdump.storage.names import CLUSTER_METADATA_TOPIC, DirectoryName
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The replicas that are left at least where a node gives up its own.
_LEAST_REPLICAS: Final = 2
_ANY: Final = "any"


@frozen
class Reassigned:
    """A partition at ``path``: its replicas from then on, and the log directories of these.

    ``directories`` are empty where the node gives up its replica. ``only_least``: no more replicas
    are left than ``min.insync.replicas``. ``bytes`` are those that it frees.
    """

    path: AnyPath
    name: DirectoryName
    bytes: int
    replicas: tuple[int, ...]
    directories: tuple[str, ...] = ()
    only_least: bool = False


@frozen
class Reassignment:
    """Partitions that are reassigned. ``bytes`` are those that this frees.

    ``known_ms`` is when the metadata log was last written, None if that is unknown.
    """

    partitions: tuple[Reassigned, ...]
    known_ms: int | None = None

    @property
    def bytes(self) -> int:
        """The bytes that it frees."""
        return sum(each.bytes for each in self.partitions)

    @property
    def targets(self) -> Mapping[str, Sequence[Reassigned]]:
        """The partitions that move, by the log directory that they move to."""
        found: dict[str, list[Reassigned]] = {}
        for each in self.partitions:
            for directory in {*each.directories} - {_ANY}:
                found.setdefault(directory, []).append(each)
        return found

    @property
    def json(self) -> dict[str, Any]:
        """The content of the file that the tool of Kafka takes."""
        return {"version": 1, "partitions": [_json(each) for each in self.partitions]}


def _json(each: Reassigned) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": each.name.topic,
        "partition": each.name.partition,
        "replicas": list(each.replicas),
    }
    return fields | ({"log_dirs": list(each.directories)} if each.directories else {})


@frozen
class _Replica:
    """A partition of this node, as the metadata log has it."""

    found: PartitionSpace
    name: DirectoryName
    node: Node
    node_id: int
    replicas: Replicas


def moves_between_directories(
    partitions: Iterable[PartitionSpace], context: Context, space: Space | None, wanted_bytes: int
) -> Reassignment | None:
    """Return what moves to other log directories, to free ``wanted_bytes`` of ``space``.

    A directory takes no more than leaves it with more room than the one that is freed. It frees
    less if there is no more room, and is None if there is none.
    """
    room = {directory: left for directory, left in _targets(context) if space is not None}
    freed = 0
    chosen = []

    def take(replica: _Replica) -> bool:
        nonlocal freed
        size = replica.found.own_bytes
        target = max(room, key=lambda each: room[each])
        free = freed + size + (0 if space is None else space.free_bytes)
        if room[target] - size < free:
            return False
        room[target] -= size
        freed += size
        nodes = replica.replicas.nodes
        places = tuple(str(target) if node == replica.node_id else _ANY for node in nodes)
        chosen.append(Reassigned(replica.found.path, replica.name, size, nodes, places))
        return True

    if room:
        _choose(list(_replicas(partitions, context)), wanted_bytes, take)
    return Reassignment(tuple(chosen)) if chosen else None


def replicas_given_up(
    partitions: Iterable[PartitionSpace], context: Context, wanted_bytes: int
) -> Reassignment | None:
    """Return the replicas that this node gives up, to free ``wanted_bytes``.

    It frees less if no more may go, and is None if none may.
    """
    chosen = []

    def take(replica: _Replica) -> bool:
        given_up = _given_up(replica, context)
        if given_up is not None:
            chosen.append(given_up)
        return given_up is not None

    _choose(list(_replicas(partitions, context)), wanted_bytes, take)
    return Reassignment(tuple(chosen), _known_ms(context)) if chosen else None


def _given_up(replica: _Replica, context: Context) -> Reassigned | None:
    if replica.name.topic.startswith("__"):
        return None
    left = tuple(node for node in replica.replicas.nodes if node != replica.node_id)
    sources = Sources(replica.node.image, context.config, replica.node_id)
    least = least_in_sync(replica.name.topic, sources)
    if not {*left} <= {*replica.replicas.in_sync} or len(left) < max(least, _LEAST_REPLICAS):
        return None
    size = replica.found.own_bytes
    return Reassigned(replica.found.path, replica.name, size, left, (), len(left) == least)


def _replicas(partitions: Iterable[PartitionSpace], context: Context) -> Iterator[_Replica]:
    """Yield the partitions that their node serves, and that stay where they are."""
    moving = {future.current for future in context.futures}
    for found in partitions:
        node, name = context.nodes.get(found.path.parent, Node()), found.name
        if (
            name is None
            or name.suffix
            or name.topic == CLUSTER_METADATA_TOPIC
            or found.path in context.strays
            or found.path in moving
            or not found.own_bytes
        ):
            continue
        replicas = node.replicas(name.topic, name.partition)
        if replicas is None or node.node_id is None or node.node_id not in replicas.nodes:
            continue
        if not replicas.adding and not replicas.removing:
            yield _Replica(found, name, node, node.node_id, replicas)


def _choose(replicas: list[_Replica], wanted_bytes: int, take: Callable[[_Replica], bool]) -> None:
    """Offer partitions to ``take`` until enough are taken.

    The next one is the smallest that is enough, or else the largest: few bytes move.
    """

    def size(replica: _Replica) -> int:
        return replica.found.own_bytes

    replicas.sort(key=lambda each: (size(each), str(each.found.path)))
    left = wanted_bytes
    while replicas and left > 0:
        index = min(bisect_left(replicas, left, key=size), len(replicas) - 1)
        replica = replicas.pop(index)
        if take(replica):
            left -= size(replica)


def _targets(context: Context) -> Iterator[tuple[AnyPath, int]]:
    """Yield the other log directories of the configuration that take partitions, and their room.

    Of several on one file system, the first.
    """
    config: Configs = context.config or {}
    node = next(iter(context.nodes.values()), Node())
    cordoned = cordoned_directories(Sources(node.image, config, node.node_id))
    if "*" in cordoned:
        return
    closed = {identity(Path(name)) for name in cordoned}
    named = {identity(path) for path in named_directories(config)} if config else set()
    given = {_device(path) for path in context.nodes}
    for directory in context.beyond:
        found = identity(directory.path)
        space = read_space(directory.path)
        if found not in named - closed or space is None or space.device in given:
            continue
        given.add(space.device)
        yield directory.path, space.free_bytes


def _device(path: AnyPath) -> int | None:
    space = read_space(path)
    return None if space is None else space.device


def _known_ms(context: Context) -> int | None:
    """Return when a metadata log in sight was last written, None if that is unknown."""
    directories: list[LogDirectory] = [*context.beyond]
    directories += [facts.directory for group in context.siblings for facts in group]
    for path in map(metadata_partition, directories):
        if path is not None:
            with suppress(SourceError):
                known = written_ms(read_partition(path))
                if known is not None:
                    return known
    return None
