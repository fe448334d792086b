"""The log directories of one node, and partitions in several of them.

Spec: ``MetaPropertiesEnsemble``, ``LogManager.loadLogs``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from kdump.audit.facts.small_files import DirectoryFacts
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath


def siblings(
    directories: Sequence[DirectoryFacts], *, same_node: bool
) -> Iterator[Sequence[DirectoryFacts]]:
    """Yield ``directories`` grouped by the node that they belong to.

    ``same_node`` says that all belong to one node, as when its configuration names them. Otherwise
    directories of the same cluster and node belong together if they have directory ids (3.7 and
    later). Of several with one id only the first belongs: the others are copies. Without an id,
    copies, and equal broker ids in clusters without a name, cannot be distinguished.
    """
    if same_node:
        if directories:
            yield directories
        return
    by_node: dict[object, list[DirectoryFacts]] = defaultdict(list)
    seen: set[tuple[object, str]] = set()
    for number, facts in enumerate(directories):
        meta = facts.identity
        key: object = number
        if meta is not None and meta.directory_id is not None:
            node = (meta.cluster_id, meta.node_id)
            if (node, meta.directory_id) not in seen:
                key = node
            seen.add((node, meta.directory_id))
        by_node[key].append(facts)
    yield from by_node.values()


def copies(directories: Sequence[DirectoryFacts]) -> Iterator[tuple[AnyPath, ...]]:
    """Yield the paths of each partition that has several in one node, ``-future`` ones apart."""
    paths_by_partition: dict[tuple[str, int, str], list[AnyPath]] = defaultdict(list)
    for path in chain.from_iterable(facts.directory.partition_paths for facts in directories):
        name = directory_name(path)
        if name is not None and name.suffix not in ("delete", "stray"):
            paths_by_partition[name.topic, name.partition, name.suffix].append(path)
    return (tuple(paths) for paths in paths_by_partition.values() if len(paths) > 1)
