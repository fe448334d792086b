"""Reads the copies of partitions at the paths of a command, and compares them.

The copies of one partition are read one after the other, so that its comparison is known early and
memory does not grow with partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from kdump.audit.facts.cluster import ClusterImage, Replicas
from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target, identity
from kdump.copies.comparison import Comparison, NodeDirectory, compare
from kdump.copies.copy import copy_of
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
                    "kdump quorum compares its copies"
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


def compare_copies(
    groups: Iterable[CopyGroup],
    targets: Mapping[int, Target],
    context: Context,
    directories: Collection[NodeDirectory],
    on_progress: Callable[[int], None] | None = None,
    *,
    jobs: int,
    pace: Pace | None = None,
) -> Generator[Comparison, None, None]:
    """Yield the comparison of each group, in order; ``targets`` are those of a scope, by number.

    ``directories`` are the whole log directories at hand; the rest is as for ``verify``.
    """
    groups, node_ids = list(groups), context.node_ids
    verdicts = verify(
        [targets[number] for group in groups for number in group.numbers],
        deep=False,
        jobs=jobs,
        digest=True,
        context=context,
        pace=pace,
        on_progress=on_progress,
    )
    with closing(verdicts):
        for group in groups:
            copies = [copy_of(next(verdicts), node_ids, pace) for _ in group.numbers]
            yield compare(copies, group.topic_id, group.replicas, directories, pace)


def compare_scope(
    scope: Scope,
    groups: Iterable[CopyGroup],
    on_progress: Callable[[int], None] | None = None,
    *,
    jobs: int,
    pace: Pace | None = None,
) -> Generator[Comparison, None, None]:
    """Yield the comparison of each group of a scope, in order; the rest is as for ``verify``."""
    targets, directories = dict(enumerate(scope.targets)), tuple(whole_directories(scope))
    return compare_copies(
        groups, targets, scope.context, directories, on_progress, jobs=jobs, pace=pace
    )


def whole_directories(scope: Scope) -> Iterator[NodeDirectory]:
    """Yield the log directories of a scope that are read as a whole."""
    for root in scope.roots:
        if isinstance(root.content, LogDirectory) and root.directory is not None:
            node_id = scope.context.node_of(root.directory).node_id
            meta = root.directory.identity
            if node_id is not None:
                yield NodeDirectory(node_id, None if meta is None else meta.directory_id)


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
