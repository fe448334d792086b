"""The snapshots of a loader: what it costs does not grow with the square of the segments."""

from __future__ import annotations

import time

from kdump.audit.startup.snapshot_reload import Snapshots


def recovered(count: int) -> tuple[Snapshots, float]:
    """Recovery of that many segments in a row, and its time."""
    bases, snapshots = list(range(0, 10 * count, 10)), Snapshots({})
    start = time.process_time()
    for base in bases:
        for _ in snapshots.rebuild(bases, 0, base, clean=False):
            pass
        snapshots.map_end = base + 10
        snapshots.take()
    return snapshots, time.process_time() - start


def test_every_segment_gets_its_snapshot_in_linear_time() -> None:
    few, once = recovered(2_000)
    many, longer = recovered(64_000)
    assert few.offsets == frozenset(range(10, 20_010, 10))
    assert len(many.offsets) == 64_000
    assert longer < 32 * 4 * once + 1
