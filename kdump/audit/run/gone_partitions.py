"""gone_partitions(): the partitions that a node should have here, and whose directories are gone.

The metadata log assigns them to a log directory in sight, or a checkpoint of that directory has
their lines: a broker writes a line for each of its logs, and none for one that it has deleted. Or a
future log alone is left of them, which is no log of a partition before startup makes it one.

Spec: ``LogManager.checkpointRecoveryOffsetsInDir`` and ``asyncDelete``; KIP-858.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from kdump.audit.facts.cluster import Node
from kdump.audit.facts.metadata_log import is_whole
from kdump.audit.facts.own_replicas import renamed, served, unlisted_replicas
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.targets.context import Context, all_in_sight
from kdump.audit.targets.future_logs import FutureFate, FutureLog
from kdump.audit.targets.target import Root, Target, TopicSelection
from kdump.storage.logdir import LogDirectory, Partition, directory_name
from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryName,
    format_directory_name,
)
from kdump.storage.paths import AnyPath, exists

Place = tuple[str, int]
"""A topic and the number of a partition."""


def gone_partitions(
    roots: Sequence[Root], context: Context, selection: TopicSelection
) -> list[Target]:
    """Return a target without any file for each selected partition that is gone, by path.

    Only log directories among ``roots`` that certainly no broker uses lack any: a broker that runs
    may be about to make or to remove them. A partition that another directory has is not gone.
    """
    given = {root.path for root in roots if isinstance(root.content, LogDirectory)}
    directories = [facts.directory for facts in chain.from_iterable(context.siblings)]
    directories += context.beyond
    aside = set(chain.from_iterable(map(renamed, directories)))
    alone = {future.path for future in futures_alone(context)}
    here = {place for directory in directories for place in served(directory, alone)}
    gone: dict[AnyPath, Target] = {}
    for siblings in context.siblings:
        own = [facts for facts in siblings if facts.directory.path in given]
        if not own or not all(facts.stopped for facts in siblings):
            continue
        places = [facts.directory.path for facts in siblings]
        places += (directory.path for directory in context.beyond)
        configured = all_in_sight(context.config, places)
        found = [*_assigned(own, context.node_of(siblings[0]), here, aside, configured=configured)]
        missing = context.missing.get(siblings[0].directory.path)
        # Without a configuration, the metadata log may be in another directory.
        if missing is not None and (
            exists(missing.path) or context.metadata_directory == missing.path.parent
        ):
            homes = (facts for facts in own if facts.directory.path == missing.path.parent)
            found += ((facts, (CLUSTER_METADATA_TOPIC, 0)) for facts in homes)
        for facts in own:
            names = (
                directory_name(path) for path in facts.directory.partition_paths if path in alone
            )
            found += ((facts, (name.topic, name.partition)) for name in names if name is not None)
        for facts, place in found:
            if place not in here:
                target = _target(facts, DirectoryName(*place))
                gone.setdefault(target.path, target)
    return [gone[path] for path in sorted(gone, key=str) if selection.selects(path)]


def futures_alone(context: Context) -> Iterator[FutureLog]:
    """Yield the future logs of which startup keeps no current log, whatever becomes of them.

    Where the current log may be in a log directory that is not in sight, there is none.
    """
    for future in context.futures:
        name = directory_name(future.path)
        if future.current is not None or name is None:
            continue
        if future.fate in (FutureFate.PROMOTED, FutureFate.EMPTIED):
            yield future
        elif future.fate is FutureFate.STRAY:
            node = context.nodes.get(future.path.parent, Node())
            if node.holds(name.topic, name.partition):
                yield future


def _assigned(
    directories: Sequence[DirectoryFacts],
    node: Node,
    here: Collection[Place],
    aside: Collection[Place],
    *,
    configured: bool,
) -> Iterator[tuple[DirectoryFacts, Place]]:
    """Yield partitions that log directories of a node should have, those ``here`` among them.

    Without a metadata log that says which partitions exist, the lines of a checkpoint say it,
    unless the directory is a copy of some partitions. A directory that is set ``aside`` then shows
    why a partition with a line is not here: a broker deletes it, or has made it a stray.
    """
    image = node.image
    known = image is not None and image.complete and node.node_id is not None
    for facts in directories:
        lines = next((read.value for read in facts.checkpoints if read.value is not None), {})
        directory_id = None if facts.identity is None else facts.identity.directory_id
        if not known and is_whole([facts]):
            yield from ((facts, place) for place in lines if place not in aside)
        for topic, number in lines:
            if node.other_replicas(topic, number, directory_id) is not None:
                yield facts, (topic, number)
    by_path = {facts.directory.path: facts for facts in directories}
    for path, places in unlisted_replicas(directories, node, here, configured=configured).items():
        yield from ((by_path[path], place) for place in places)


def _target(facts: DirectoryFacts, name: DirectoryName) -> Target:
    path = facts.directory.path / format_directory_name(name.topic, name.partition)
    partition = Partition(path, name, (), (), ())
    return Target(path, (), None, stopped=True, size=0, partition=partition, directory=facts)
