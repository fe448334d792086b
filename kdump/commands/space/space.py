"""The space of log directories: file systems, topics, and what belongs to no log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from kdump.audit.facts.retention import Hold, RetentionConfigs
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.run.spread import Spread
from kdump.audit.sizes.file_systems import FileSystem, file_systems
from kdump.audit.sizes.files import TreeSpace
from kdump.audit.sizes.growth import Growth
from kdump.audit.sizes.leftovers import Leftover, LeftoverFiles, leftovers_of, other_entries
from kdump.audit.sizes.measure import PartitionSpace
from kdump.audit.sizes.tasks import measure_targets
from kdump.audit.targets.context import Context
from kdump.audit.targets.scope import Scope, directories_of
from kdump.audit.targets.target import without_nested
from kdump.commands.space.cleaner import CleanerTurn, CompactedPartition, cleaner_turns
from kdump.commands.space.sample import TopicSample, read_sample, sample_task
from kdump.commands.space.ways import Wish, find_ways
from kdump.errors import SourceError, UsageError
from kdump.storage.liveness import Process, UnlinkedFiles, unlinked_files
from kdump.storage.logdir import Segment
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.values import frozen


@dataclass(slots=True)
class TopicSpace:
    """The sums of a topic's partitions; fields are those of ``PartitionSpace``.

    ``held`` has the bytes of logs that retention leaves, by what holds the first of them, and
    ``until_ms`` the first time at which the age of a segment lets it go. ``compacted`` has the
    partitions if the topic is compacted. ``logs`` has the bytes of the logs of each partition, by
    its path, and ``sample`` what was asked for of them.
    """

    topic: str
    bytes: int = 0
    partitions: int = 0
    segments: int = 0
    linked: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    configs: RetentionConfigs | None = None
    due_bytes: int = 0
    due_segments: int = 0
    due_offsets: int = 0
    held: dict[Hold, int] = field(default_factory=lambda: defaultdict(int))
    until_ms: int | None = None
    growth: Growth = field(default_factory=Growth)
    compacted: list[CompactedPartition] = field(default_factory=list)
    logs: list[tuple[AnyPath, int]] = field(default_factory=list)
    sample: TopicSample | None = None

    @property
    def log_bytes(self) -> int:
        """The bytes of the logs alone."""
        return sum(size for _, size in self.logs)

    def add(self, found: PartitionSpace) -> None:
        """Add a partition of the topic."""
        self.bytes += found.own_bytes
        self.logs.append((found.path, found.log_bytes))
        self.partitions += 1
        self.segments += found.segments
        self.linked += found.linked
        self.oldest_ms = _least(self.oldest_ms, found.oldest_ms)
        if found.newest_ms is not None:
            self.newest_ms = max(found.newest_ms, self.newest_ms or 0)
        self.configs = found.configs
        self.due_bytes += found.due_bytes
        self.due_offsets += found.due_offsets
        self.growth += found.growth
        if found.name is not None and found.configs is not None and found.configs.compact:
            unfinished = ".cleaned" in found.beside
            self.compacted.append(
                CompactedPartition(
                    found.path, found.name, found.log_bytes, found.cleanable, unfinished
                )
            )
        if found.due is not None:
            self.due_segments += found.due.count
            if found.due.hold is not None:
                self.held[found.due.hold] += found.log_bytes - found.due_log_bytes
            self.until_ms = _least(self.until_ms, found.due.until_ms)


#: The orders of topics by name; each is one of keys that ascend, and names decide between equals.
ORDERS: Final[Mapping[str, Callable[[TopicSpace], float]]] = {
    "bytes": lambda topic: -topic.bytes,
    "name": lambda _: 0,
    "due": lambda topic: -topic.due_bytes,
    "growth": lambda topic: -topic.growth.day,
    "age": lambda topic: inf if topic.oldest_ms is None else topic.oldest_ms,
}


@dataclass(slots=True)
class LeftoverSpace:
    """The bytes of one kind of leftovers, the number of places, and the first of these."""

    kind: Leftover
    bytes: int
    places: int
    first: AnyPath


@frozen
class SpaceReport:
    """The space of log directories, by file system, by topic and by kind of leftovers.

    ``topics`` are in the order that was asked for, ``leftovers`` in that of their bytes. ``errors``
    are of what could not be read, ``unlocated`` are log directories whose file system does not tell
    its space. ``linked`` are bytes of files with other hard links, which are not in ``bytes``.
    ``wish`` is None unless bytes are to be free. ``cleaners`` are those of the nodes that have
    something to clean. ``unlinked`` are files of the log directories that were removed, and that
    processes still have open; they are in no other sum. Of ``uninspected`` processes that is
    unknown.
    """

    systems: tuple[FileSystem, ...]
    unlocated: tuple[DirectoryFacts, ...]
    topics: tuple[TopicSpace, ...]
    leftovers: tuple[LeftoverSpace, ...]
    errors: tuple[SourceError, ...]
    partitions: int
    bytes: int
    linked: int
    wish: Wish | None = None
    cleaners: tuple[CleanerTurn, ...] = ()
    unlinked: tuple[UnlinkedFiles, ...] = ()
    uninspected: tuple[Process, ...] = ()


@frozen
class Sampling:
    """That a sample of each topic is to be read, at ``pace``."""

    pace: Pace | None = None


def find_space(
    scope: Scope,
    spread: Spread,
    on_progress: Callable[[int], None] | None = None,
    *,
    selected: bool = False,
    free: int | None = None,
    order: str = "bytes",
    sampling: Sampling | None = None,
) -> SpaceReport:
    """Measure the partitions of ``scope``; each directory counts once. ``order``: of ``ORDERS``.

    With ``selected`` topics, what else is in log directories is left out. ``free`` asks for the
    retention that frees so many bytes, ``sampling`` for a sample of each topic. Raise UsageError
    for a path of a lone segment, and with ``free`` for several file systems.
    """
    for root in scope.roots:
        if isinstance(root.content, Segment):
            raise UsageError(
                f"{root.path}: expected a log directory or a partition directory, found a segment"
            )
    targets = [target for target in without_nested(scope.targets) if target.error is None]
    directories = directories_of(scope.roots)
    if free is not None:
        _check_one_system(directories)
    sums = _Sums(scope.context)
    sums.errors += [target.error for target in scope.targets if target.error is not None]
    for _, found in measure_targets(
        targets,
        scope.context,
        spread,
        listing=free is not None,
        cleaning=True,
        on_progress=on_progress,
    ):
        if isinstance(found, SourceError):
            sums.errors.append(found)
        else:
            sums.add(found)
    for left, tree in () if selected else other_entries(directories):
        sums.add_tree(left, tree)
    if sampling is not None:
        _sample_topics(sums.topics, spread, sampling)
    unlinked, uninspected = _unlinked(() if selected else directories)
    return SpaceReport(
        tuple(file_systems(directories, sums.growths)),
        tuple(facts for facts in directories if facts.space is None),
        tuple(sorted(sums.topics.values(), key=lambda each: (ORDERS[order](each), each.topic))),
        tuple(sorted(sums.leftovers.values(), key=lambda each: -each.bytes)),
        tuple(sums.errors),
        sums.partitions,
        sums.bytes,
        sums.linked,
        None if free is None else sums.wish(free, directories),
        cleaner_turns(
            (each for topic in sums.topics.values() for each in topic.compacted),
            directories,
            scope.context,
        ),
        unlinked,
        uninspected,
    )


def _sample_topics(topics: Mapping[str, TopicSpace], spread: Spread, sampling: Sampling) -> None:
    """Read a sample of each topic; what cannot be read is not in it.

    The metadata log is compressed by its own rules (``raft``), not by a config of a topic.
    """
    tasks = [
        sample_task(name, topic.logs)
        for name, topic in sorted(topics.items())
        if name != CLUSTER_METADATA_TOPIC
    ]
    sizes = [topics[task.topic].log_bytes for task in tasks]
    for number, found in spread(partial(read_sample, pace=sampling.pace), tasks, sizes):
        if isinstance(found, TopicSample):
            topics[tasks[number].topic].sample = found


def _unlinked(
    directories: Sequence[DirectoryFacts],
) -> tuple[tuple[UnlinkedFiles, ...], tuple[Process, ...]]:
    try:
        return unlinked_files([facts.directory.path for facts in directories])
    except SourceError:  # a directory has vanished: what cannot be read in it is said elsewhere
        return (), ()


class _Sums:
    """The sums over partitions, and over what else is in log directories."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._measured: list[PartitionSpace] = []
        self.topics: dict[str, TopicSpace] = {}
        self.leftovers: dict[Leftover, LeftoverSpace] = {}
        self.growths: dict[AnyPath, Growth] = defaultdict(Growth)
        self.errors: list[SourceError] = []
        self.partitions = self.bytes = self.linked = 0

    def add(self, found: PartitionSpace) -> None:
        """Add a partition; one that could not be listed is an error alone."""
        self.errors.extend(found.errors)
        if found.errors and not found.bytes:
            return
        self.partitions += 1
        self.bytes += found.bytes
        self.linked += found.linked
        for left in leftovers_of(found, self._context):
            self._add_leftover(left)
        self.growths[found.path.parent] += found.growth
        name = found.name
        if name is not None and not name.suffix:
            self.topics.setdefault(name.topic, TopicSpace(name.topic)).add(found)
        self._measured.append(found)

    def add_tree(self, left: LeftoverFiles, tree: TreeSpace) -> None:
        """Add what is beside the partitions."""
        self.errors += tree.errors
        self.bytes += tree.bytes
        self.linked += tree.linked
        self._add_leftover(left)

    def wish(self, free: int, directories: Sequence[DirectoryFacts]) -> Wish:
        """Return what frees so many bytes of the file system of ``directories``."""
        due_bytes = sum(topic.due_bytes for topic in self.topics.values())
        return find_ways(self._measured, self._context, directories, free, due_bytes)

    def _add_leftover(self, left: LeftoverFiles) -> None:
        if left.bytes:
            new = LeftoverSpace(left.kind, 0, 0, left.path)
            known = self.leftovers.setdefault(left.kind, new)
            known.bytes += left.bytes
            known.places += 1


def _check_one_system(directories: Sequence[DirectoryFacts]) -> None:
    devices = {facts.space.device for facts in directories if facts.space is not None}
    if len(devices) > 1:
        raise UsageError(
            f"--free: expected log directories on one file system, found {len(devices)} of them: "
            "name those of one as PATH, and the others by --config FILE"
        )


def _least(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return min(known, default=None)
