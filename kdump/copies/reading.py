"""Reads the copies of partitions at the paths of a command, and compares them.

The copies of one partition are read one after the other, so that its comparison is known early and
memory does not grow with partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from operator import attrgetter

from kdump.audit.facts.cluster import Replicas
from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target, without_repeats
from kdump.copies.comparison import Comparison, NodeDirectory, compare
from kdump.copies.copy import Copy, copy_of, shows_compaction
from kdump.errors import UsageError
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.throttle import Pace


def group_copies(scope: Scope) -> list[tuple[Target, ...]]:
    """Return the copies of each partition in a scope, by topic and number.

    Directories that a broker is about to delete or has set aside are left out of log directories,
    and so is a directory that came before in another spelling. Raises UsageError for a path that is
    a segment, or the metadata log.
    """
    groups: dict[tuple[str, int], list[Target]] = defaultdict(list)
    for root, targets in zip(scope.roots, scope.parts, strict=True):
        for target in targets:
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
                groups[name.topic, name.partition].append(target)
    # A path may be that of a partition of another path.
    return [
        tuple(without_repeats(copies, attrgetter("path")) if len(copies) > 1 else copies)
        for _, copies in sorted(groups.items())
    ]


def compare_copies(
    groups: list[tuple[Target, ...]],
    scope: Scope,
    *,
    jobs: int,
    pace: Pace | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Comparison, None, None]:
    """Yield the comparison of each group, in order; the rest is as for ``verify``."""
    targets = [target for group in groups for target in group]
    verdicts = verify(
        targets,
        deep=False,
        jobs=jobs,
        digest=True,
        context=scope.context,
        pace=pace,
        on_progress=on_progress,
    )
    directories = tuple(_whole_directories(scope))
    with closing(verdicts):
        for group in groups:
            found = [next(verdicts) for _ in group]
            # Where one copy shows that the cleaner has worked, it may have worked on all.
            compacted = any(map(shows_compaction, found))
            copies = [
                copy_of(
                    verdict,
                    scope.context.node(verdict.target),
                    compacted=compacted,
                    pace=pace,
                )
                for verdict in found
            ]
            yield compare(copies, *_assignment(copies, scope.context), directories, pace)


def _whole_directories(scope: Scope) -> Iterator[NodeDirectory]:
    """Yield the log directories of a scope that are read as a whole."""
    for root in scope.roots:
        if isinstance(root.content, LogDirectory) and root.directory is not None:
            node_id = scope.context.node_of(root.directory).node_id
            meta = root.directory.identity
            if node_id is not None:
                yield NodeDirectory(node_id, None if meta is None else meta.directory_id)


def _assignment(copies: Sequence[Copy], context: Context) -> tuple[str | None, Replicas | None]:
    """Return the topic id and the replicas of a partition in the newest metadata log at hand."""
    images = [node.image for node in context.nodes.values() if node.image is not None]
    if not images:
        return None, None
    newest = max(images, key=lambda image: image.end_offset)
    topic_id = newest.topics.get(copies[0].topic)
    if topic_id is None:
        return None, None
    return topic_id, newest.replicas.get(topic_id, {}).get(copies[0].partition)
