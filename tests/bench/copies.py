"""Measures ``kdump compare`` beside ``kdump verify`` of the same directories."""

from __future__ import annotations

from pathlib import Path

from bench.commands import kdump, most_pss_mb
from bench.directory import write_sealed
from bench.report import Row
from bench.timing import best, process

_SEGMENT_BATCHES = 1024
_BATCH_BYTES = 16_000
_MOST_TIMES = 1.1


def measure_compare(directory: Path, size_bytes: int, repeat: int) -> Row:
    """Two directories of this size together, of which one lags behind by a segment."""
    segments = max(size_bytes // 2 // (_SEGMENT_BATCHES * _BATCH_BYTES), 2)
    nodes = directory / "node1", directory / "node2"
    for node, path in enumerate(nodes, 1):
        write_sealed(
            path,
            partitions=1,
            segments=segments - (node - 1),
            batches=_SEGMENT_BATCHES,
            value_bytes=_BATCH_BYTES,
            node=node,
        )
    compare = kdump("compare", "--progress", "none", *nodes)
    verify = kdump("verify", "--progress", "none", *nodes)
    ours, theirs = best(repeat, process(compare), process(verify))
    memory = most_pss_mb(compare)
    return Row(
        "compare",
        f"{ours:.2f} s, {memory:.0f} MB",
        f"verify {theirs:.2f} s",
        ours / theirs,
        most=_MOST_TIMES,
    )
