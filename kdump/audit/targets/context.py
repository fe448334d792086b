"""The node and the settings of each partition.

Spec: ``LogManager``, ``LogConfig``; KOD 1. A setting without a source is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain

from kdump.audit.facts.cluster import ClusterImage, Configs, Node, find_cluster
from kdump.audit.facts.coordinator import find_coordinator
from kdump.audit.facts.metadata_log import (
    MissingMetadata,
    Sighted,
    is_emptied,
    is_whole,
    missing_metadata,
)
from kdump.audit.facts.remote_storage import find_remote_storage
from kdump.audit.facts.settings import (
    Overrides,
    Sources,
    log_directories,
    metadata_directory,
    named_directories,
    topic_settings,
)
from kdump.audit.facts.small_files import DirectoryFacts, TopicSettings, read_small
from kdump.audit.targets.future_logs import FutureFate, FutureLog, find_future_logs
from kdump.audit.targets.node_directories import copies, siblings
from kdump.audit.targets.target import Target, identity
from kdump.format.properties import decode_partition_metadata
from kdump.metadata.log import metadata_partition
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    PARTITION_METADATA,
    TRANSACTION_TOPIC,
    DirectoryName,
)
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_KRAFT_VERSION = 1


@frozen
class Context:
    """The facts about nodes and settings that the verification of partitions uses.

    ``nodes`` has the node of each log directory by its path, ``siblings`` the directories of each
    node together. ``config`` are the pairs of ``server.properties``, None without it. ``now_ms`` is
    the time by this machine's clock. ``strays`` has, for partitions with several directories, those
    that a start sets aside. ``futures`` has the future logs of all nodes. ``missing`` has the
    metadata logs that are gone, by the path of the node's first directory. ``beyond`` are further
    log directories of the node of ``config``. ``repeated`` has log directories that ``config``
    names again, each with its first spelling, and ``metadata_directory`` is the one of the metadata
    log, None if it is unknown or if there are log directories that ``config`` does not name.
    ``wanted`` are settings that override all others.
    """

    now_ms: int
    config: Configs | None = None
    siblings: tuple[tuple[DirectoryFacts, ...], ...] = ()
    nodes: Mapping[AnyPath, Node] = field(default_factory=dict)
    strays: frozenset[AnyPath] = frozenset()
    futures: tuple[FutureLog, ...] = ()
    missing: Mapping[AnyPath, MissingMetadata] = field(default_factory=dict)
    beyond: tuple[LogDirectory, ...] = ()
    repeated: tuple[tuple[AnyPath, AnyPath], ...] = ()
    metadata_directory: AnyPath | None = None
    wanted: Overrides = field(default_factory=Overrides)

    def node(self, target: Target) -> Node:
        """Return the node that a partition belongs to; an unknown node if there is none."""
        return Node() if target.directory is None else self.node_of(target.directory)

    def node_of(self, directory: DirectoryFacts) -> Node:
        """Return the node of a log directory; an unknown node if there is none."""
        return self.nodes.get(directory.directory.path, Node())

    @property
    def node_ids(self) -> dict[AnyPath, int | None]:
        """The node id of each log directory, by its path."""
        return {path: node.node_id for path, node in self.nodes.items()}

    def about(self, targets: Iterable[Target]) -> Context:
        """Return what the verification of the targets uses that are in directories of these."""
        paths = {each.directory.directory.path for each in targets if each.directory is not None}
        nodes = {path: self.nodes[path] for path in paths if path in self.nodes}
        futures = tuple(
            future
            for future in self.futures
            if {future.path.parent, future.current and future.current.parent} & paths
        )
        bare = replace(self, siblings=(), strays=frozenset(), missing={}, beyond=())
        return replace(bare, futures=futures, nodes=nodes)

    def successor(self, target: Target) -> FutureLog | None:
        """Return the future log that a start makes the current log in place of ``target``."""
        return next((future for future in self._promoted if future.current == target.path), None)

    def is_promoted_alone(self, target: Target) -> bool:
        """Return whether ``target`` is a future log that becomes the only log of its partition."""
        return any(
            future.current is None and future.path == target.path for future in self._promoted
        )

    @property
    def _promoted(self) -> Iterator[FutureLog]:
        return (future for future in self.futures if future.fate is FutureFate.PROMOTED)

    @property
    def kraft(self) -> bool:
        """Whether the configuration is of a node without ZooKeeper, as all nodes since 4.0."""
        config = self.config or {}
        return "process.roles" in config or "zookeeper.connect" not in config

    def settings(self, target: Target) -> TopicSettings:
        """Return the settings of the partition's topic."""
        return self.wanted.over(self._read_settings(target))

    def _read_settings(self, target: Target) -> TopicSettings:
        name = None if target.partition is None else target.partition.name
        return TopicSettings() if name is None else self.settings_of(name, target.directory)

    def settings_of(self, name: DirectoryName, directory: DirectoryFacts | None) -> TopicSettings:
        """Return the settings of the topic of ``name``, a partition in a log directory if any."""
        node = Node() if directory is None else self.node_of(directory)
        cleaned = None if directory is None else directory.cleaner_offsets
        return topic_settings(
            name.topic,
            Sources(node.image, self.config, node.node_id),
            cleaned=cleaned is not None and (name.topic, name.partition) in (cleaned.value or {}),
        )


def read_context(
    directories: Sequence[DirectoryFacts],
    config: Configs | None,
    now_ms: int,
    beyond: Iterable[LogDirectory] = (),
) -> Context:
    """Group log directories by node, and read their metadata logs.

    With a ``config``, all of them are directories of its node, and so are those ``beyond``: of
    these, only the transaction log and that of remote storage are read, and the metadata log if no
    other has one. If a
    directory is spelled in several ways, the first one counts.
    """
    beyond = tuple(beyond)
    nodes: dict[AnyPath, Node] = {}
    strays: set[AnyPath] = set()
    futures: list[FutureLog] = []
    by_identity: dict[object, list[DirectoryFacts]] = defaultdict(list)
    # A directory that is given twice, by a link or a second mount, must not look like two replicas.
    for facts in directories:
        by_identity[identity(facts.directory.path) or facts.directory.path].append(facts)
    distinct = [same[0] for same in by_identity.values()]
    groups = tuple(map(tuple, siblings(distinct, same_node=config is not None)))
    known_image: ClusterImage | None = None
    sights: dict[AnyPath, Sighted] = {}
    for group in groups:
        metas = [facts.meta.value for facts in group if facts.meta is not None]
        known = next((meta for meta in metas if meta is not None), None)
        directories_of_node = [*(facts.directory for facts in group), *beyond]
        logs = (metadata_partition(directory) for directory in directories_of_node)
        path = next((log for log in logs if log is not None), None)
        image = find_cluster(directories_of_node)
        emptied = any(map(is_emptied, group))
        sighted = Sighted(directories_of_node, known, path, image, is_whole(group), emptied)
        sights[group[0].directory.path] = sighted
        if sighted.blank:
            image = None
        if image is not None:
            # The images of a cluster's nodes are nearly equal: what is equal is held once.
            known_image = image = image if known_image is None else image.sharing(known_image)
        numbers = None if image is None else image.partitions(TRANSACTION_TOPIC)
        node = Node(
            kraft=known is not None and known.version == _KRAFT_VERSION,
            node_id=None if known is None else known.node_id,
            image=image,
            coordinator=find_coordinator(directories_of_node, numbers),
            remote=find_remote_storage(directories_of_node),
        )
        nodes.update((facts.directory.path, node) for facts in group)
        strays.update(_strays(group, node))
        futures += find_future_logs(group, beyond, node)
    for first, *others in by_identity.values():
        nodes.update((facts.directory.path, nodes[first.directory.path]) for facts in others)
    missing = {}
    for path, sighted in sights.items():
        others_given = (other for other in sights.values() if other is not sighted)
        found = missing_metadata(sighted, others_given, config)
        if found is not None:
            missing[path] = found
    named = () if config is None else named_directories(config)
    every = () if config is None else log_directories(config)
    own = None if config is None else metadata_directory(config)
    return Context(
        now_ms,
        config,
        groups,
        nodes,
        frozenset(strays),
        tuple(futures),
        missing,
        beyond,
        tuple(_repeated(named)),
        None if own is None else _spelled(own, every, distinct),
    )


def all_in_sight(config: Configs | None, paths: Iterable[AnyPath]) -> bool:
    """Return whether ``paths`` are the log directories that ``config`` names, and no copies."""
    if config is None:
        return False
    named = {identity(path) for path in log_directories(config)}
    return None not in named and named == {identity(path) for path in paths}


def _repeated(named: Sequence[AnyPath]) -> Iterator[tuple[AnyPath, AnyPath]]:
    """Yield the paths that name a directory again, with the path that named it first."""
    first: dict[object, AnyPath] = {}
    for path in named:
        known = first.setdefault(identity(path) or path, path)
        if known is not path:
            yield path, known


def _spelled(
    path: AnyPath, named: Iterable[AnyPath], directories: Iterable[DirectoryFacts]
) -> AnyPath | None:
    """Return the path at which ``directories`` have the directory ``path``.

    Return None if not all of them are ``named``: they are copies then.
    """
    paths = {identity(facts.directory.path): facts.directory.path for facts in directories}
    if not paths.keys() <= {identity(each) for each in (path, *named)}:
        return None
    return paths.get(identity(path), path)


def _strays(directories: Sequence[DirectoryFacts], node: Node) -> Iterator[AnyPath]:
    for path in chain.from_iterable(copies(directories)):
        name, file = directory_name(path), path / PARTITION_METADATA
        if name is None or name.topic == CLUSTER_METADATA_TOPIC:
            continue
        read = read_small(file, decode_partition_metadata) if file.exists() else None
        if read is None:
            is_stray = node.sets_aside(None, name.partition)
        else:
            known = read.value
            is_stray = known is not None and node.sets_aside(known.topic_id, name.partition)
        if is_stray:
            yield path
