"""Copies of a partition as values, of which nothing lies on a disk."""

from __future__ import annotations

from pathlib import Path

from kdump.audit.facts.cluster import Replicas
from kdump.copies.comparison import Comparison, NodeDirectory, compare
from kdump.copies.copy import Copy
from kdump.copies.lineage import LeaderEpochs
from kdump.format.checkpoint import EpochEntry
from support import forge

ID = forge.TOPIC_ID


def copy(
    node: int, end: int, *epochs: tuple[int, int], watermark: int = 0, topic_id: str = ID
) -> Copy:
    """A copy without batches, with epochs and the offsets at which they start."""
    known = LeaderEpochs.of((EpochEntry(*epoch) for epoch in epochs or [(0, 0)]), 0, end)
    return Copy(
        topic="t",
        partition=0,
        path=Path(f"node{node}/t-0"),
        node_id=node,
        live=False,
        topic_id=topic_id,
        epochs=known,
        started=known,
        starts=True,
        stray=False,
        start_loses=False,
        high_watermark=watermark,
        compacted=False,
        cleaner_offset=None,
        segments=(),
    )


def beside(
    *found: Copy, in_sync: tuple[int, ...], directories: tuple[NodeDirectory, ...] = ()
) -> Comparison:
    """Copies of nodes 1 to 3 beside each other."""
    replicas = Replicas((1, 2, 3), in_sync=in_sync)
    return compare(found, ID, replicas, directories)
