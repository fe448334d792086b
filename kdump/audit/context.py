"""What stands around a partition: the node that it belongs to, and what is legal for its topic.

Spec: ``LogManager``, ``LogConfig``; KOD 1. What nobody says stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kdump.audit.checks.directory import siblings
from kdump.audit.cluster import Configs, Node, find_cluster
from kdump.audit.facts import DirectoryFacts, TopicSettings
from kdump.audit.groups import Group
from kdump.audit.settings import Sources, topic_settings

_KRAFT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Context:
    """What is known beside the partitions themselves.

    ``nodes`` has the node of each log directory by its path, ``siblings`` the directories of each
    node together. ``config`` are the pairs of ``server.properties``, None without it. ``now_ms`` is
    the time by this machine's clock.
    """

    now_ms: int
    config: Configs | None = None
    siblings: tuple[tuple[DirectoryFacts, ...], ...] = ()
    nodes: Mapping[Path, Node] = field(default_factory=dict)

    def node(self, group: Group) -> Node:
        """The node that a partition belongs to; one of which nothing is known, if need be."""
        directory = group.directory
        return Node() if directory is None else self.nodes.get(directory.directory.path, Node())

    def settings(self, group: Group) -> TopicSettings:
        """What is legal for a partition."""
        name = None if group.partition is None else group.partition.name
        if name is None:
            return TopicSettings()
        node, directory = self.node(group), group.directory
        cleaned = None if directory is None else directory.cleaner_offsets
        return topic_settings(
            name.topic,
            Sources(node.image, self.config, node.node_id),
            cleaned=cleaned is not None and (name.topic, name.partition) in (cleaned.value or {}),
        )


def read_context(
    directories: Sequence[DirectoryFacts], config: Configs | None, now_ms: int
) -> Context:
    """Sort log directories by their nodes, and read what their metadata logs say.

    With a ``config`` they are all taken for directories of its node.
    """
    nodes: dict[Path, Node] = {}
    groups = tuple(tuple(group) for group in siblings(directories, one_node=config is not None))
    for group in groups:
        metas = [facts.meta.value for facts in group if facts.meta is not None]
        first = next((meta for meta in metas if meta is not None), None)
        node = Node(
            kraft=first is not None and first.version == _KRAFT_VERSION,
            node_id=None if first is None else first.node_id,
            image=find_cluster(facts.directory for facts in group),
        )
        nodes.update((facts.directory.path, node) for facts in group)
    return Context(now_ms, config, groups, nodes)
