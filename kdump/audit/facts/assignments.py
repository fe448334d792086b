"""The replicas of a node that the cluster assigns to a log directory that is not in sight.

Spec: KIP-858; ``DirectoryId``; ``LogManager.getOrCreateLog``, which makes a replica in another
directory if the one that the metadata log names is not among ``log.dirs``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kdump.audit.facts.cluster import ClusterImage
from kdump.values import frozen

#: ``DirectoryId.LOST``: the replica was in some directory that is offline.
LOST_DIRECTORY: Final = 21 * "A" + "g"


@frozen
class Unplaced:
    """The partitions that the cluster assigns to the directory ``directory_id`` of a node.

    They are in no directory that is in sight. ``alone`` are those of which no other replica may
    lead, ``shared`` the others, each as topic and partition in order.
    """

    directory_id: str
    alone: Sequence[tuple[str, int]]
    shared: Sequence[tuple[str, int]]


def unplaced(
    image: ClusterImage,
    node: int,
    in_sight: Collection[str],
    existing: Collection[tuple[str, int]],
) -> list[Unplaced]:
    """Return the replicas of ``node`` that are in directories that are not ``in_sight``.

    ``in_sight`` are ids of directories, ``existing`` the partitions that are in any of these. An id
    that is reserved names no directory: the replica may be anywhere, but for ``LOST_DIRECTORY``.
    """
    found: Mapping[str, tuple[list[tuple[str, int]], list[tuple[str, int]]]]
    found = defaultdict(lambda: ([], []))
    for topic_id, partitions in image.replicas.items():
        topic = image.names.get(topic_id)
        if topic is None:
            continue
        for partition, replicas in partitions.items():
            directory = replicas.directory_of(node, lost=LOST_DIRECTORY)
            if directory is None or directory in in_sight or (topic, partition) in existing:
                continue
            found[directory][not replicas.leads_alone(node)].append((topic, partition))
    return [
        Unplaced(directory, sorted(alone), sorted(shared))
        for directory, (alone, shared) in sorted(found.items())
    ]
