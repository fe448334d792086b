"""The copies of partitions at the paths of a command, and the stages of their comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kdump.audit.facts.cluster import ClusterImage, Replicas
from kdump.audit.facts.coordinator import TopicPartition
from kdump.audit.facts.own_replicas import served, set_aside
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.targets.context import Context
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import identity, log_cost
from kdump.audit.verdicts.verdict import Verdict
from kdump.copies.comparison import Comparison, NodeDirectory, compare
from kdump.copies.copy import Copy, copy_of
from kdump.errors import UsageError
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.values import frozen


@frozen
class CopyGroup:
    """The copies of one partition, as numbers of targets of a scope.

    ``topic_id`` and ``replicas`` are those of the newest metadata log at hand, None where it does
    not have the topic.
    """

    numbers: tuple[int, ...]
    topic_id: str | None
    replicas: Replicas | None


def identities(paths: Sequence[AnyPath]) -> list[object]:
    """Return of each directory what is equal in all its spellings, None without a directory."""
    return list(map(identity, paths))


def group_copies(
    scope: Scope, identify: Callable[[Sequence[AnyPath]], Sequence[object]] = identities
) -> list[CopyGroup]:
    """Return the copies of each partition in a scope, by topic and number.

    Directories that a broker is about to delete or has set aside are left out of log directories,
    and so is a directory that came before in another spelling: ``identify`` is ``identities``, here
    or where the paths can be seen. It gets those of the file system; others have one spelling.
    Raises UsageError for a path that is a segment, or the metadata log.
    """
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    known: dict[int, object] = {}
    pairs = zip(scope.roots, scope.parts, strict=True)
    for number, (root, target) in enumerate((root, each) for root, part in pairs for each in part):
        alone, name = target.path == root.path, directory_name(target.path)
        if name is None:
            raise UsageError(
                f"{target.path}: expected a partition or a log directory, found a segment or a "
                "directory whose name is not that of a partition; to compare such a directory, "
                "give a symbolic link to it that is named TOPIC-PARTITION"
            )
        if name.topic == CLUSTER_METADATA_TOPIC:
            if alone:
                raise UsageError(
                    f"{target.path}: expected a partition of a topic, found the metadata log: "
                    "kdump quorum compares its replicas"
                )
            continue
        if alone or not name.suffix:
            groups[name.topic, name.partition].append(number)
            known[number] = target.path
    local = {number: path for number, path in known.items() if isinstance(path, Path)}
    if local:
        known.update(zip(local, identify([*local.values()]), strict=True))
    images = [node.image for node in scope.context.nodes.values() if node.image is not None]
    newest = max(images, key=lambda image: image.end_offset, default=None)
    return [
        CopyGroup(_distinct(numbers, known), *_assignment(newest, *partition))
        for partition, numbers in sorted(groups.items())
    ]


@frozen
class CopyStages:
    """The stages of a comparison: a verdict becomes a copy, and the copies of a group are compared.

    Of logs whose digests differ, the second stage reads the headers once more. ``node_ids`` are as
    for ``copy_of``, and ``directories`` the whole log directories at hand.
    """

    node_ids: Mapping[AnyPath, int | None]
    directories: tuple[NodeDirectory, ...]

    @classmethod
    def of(cls, scope: Scope) -> CopyStages:
        """Return the stages of a comparison of copies in a scope."""
        return cls(scope.context.node_ids, tuple(whole_directories(scope)))

    def conclude(self, verdict: Verdict, pace: Pace | None = None) -> Copy:
        """Return the copy that a verdict is on."""
        return copy_of(verdict, self.node_ids, pace)

    def weight(self, copy: Copy) -> frozenset[tuple[bytes | None, int]]:
        """Return the digests of the logs, with what it costs to read each."""
        return frozenset(
            (segment.digest, log_cost(segment.log, segment.size)) for segment in copy.segments
        )

    def cost(self, weights: Sequence[frozenset[tuple[bytes | None, int]]]) -> int:
        """Return the cost of reading the logs whose digests differ."""
        same = frozenset.intersection(*weights)
        return sum(cost for logs in weights for _, cost in logs - same)

    def combine(
        self,
        group: CopyGroup,
        copies: Sequence[Copy],
        pace: Pace | None = None,
        lost: str | None = None,
    ) -> Comparison:
        """Compare the copies; if ``lost``, say that no logs were compared."""
        unread = lost and (
            f"the logs of the replicas: expected a comparison of an executor, found {lost}"
        )
        return compare(copies, group.topic_id, group.replicas, self.directories, pace, unread)


def whole_directories(scope: Scope) -> Iterator[NodeDirectory]:
    """Yield the log directories of a scope that are read as a whole."""
    for root in scope.roots:
        if isinstance(root.content, LogDirectory) and root.directory is not None:
            node_id = scope.context.node_of(root.directory).node_id
            meta = root.directory.identity
            if node_id is not None:
                directory_id = None if meta is None else meta.directory_id
                yield NodeDirectory(node_id, directory_id, _aside(root.directory, scope.context))


def _aside(facts: DirectoryFacts, context: Context) -> tuple[tuple[TopicPartition, AnyPath], ...]:
    """Return the replicas that a stopped node has only as ``-stray`` or ``-delete``, those here."""
    if not facts.stopped:
        return ()
    same = next((group for group in context.siblings if facts in group), (facts,))
    existing = {each for sibling in same for each in served(sibling.directory)}
    found = set_aside([facts.directory], context.node_of(facts), existing)
    return tuple((partition, path) for partition, paths in found.items() for path in paths)


def _distinct(numbers: Iterable[int], known: Mapping[int, object]) -> tuple[int, ...]:
    """Return ``numbers`` without those of directories that came before, as they are ``known``."""
    first: dict[object, int] = {}
    for number in numbers:
        same = known[number]
        first.setdefault(number if same is None else same, number)
    return tuple(first.values())


def _assignment(
    image: ClusterImage | None, topic: str, partition: int
) -> tuple[str | None, Replicas | None]:
    """Return the topic id and the replicas of a partition in the newest metadata log at hand."""
    topic_id = None if image is None else image.topics.get(topic)
    if image is None or topic_id is None:
        return None, None
    return topic_id, image.replicas.get(topic_id, {}).get(partition)
