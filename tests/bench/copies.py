"""Measures ``kdump compare``: beside ``kdump verify`` of the same directories, and of manifests."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

from bench.commands import kdump, most_pss_mb
from bench.directory import write_sealed
from bench.report import Row
from bench.segments import MIB
from bench.timing import best, process
from support.forge_manifests import forge

_SEGMENT_BATCHES = 1024
_BATCH_BYTES = 16_000
_MOST_TIMES = 1.1

#: Two manifests of 64 GiB each, a sixteenth of 1 TiB; memory does not grow with the size.
_PARTITIONS, _SEGMENTS, _BATCHES = 4, 16, 67_700
_SHARE = 16
_TIB_SECONDS = 60.0
_PROCESSORS = 2
_TIB_MIB = 800.0
_PSS_MB = 400.0
_DIFFERENT = 4


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


def measure_manifests(directory: Path, repeat: int) -> Iterator[Row]:
    """Two manifests, of which one lags behind in a partition and differs in two others.

    The processor time is measured, half of which it takes on the wall where two are free.
    """
    files = directory / "node1.kdm", directory / "node2.kdm"
    altered, behind = {(1, 2), (2, _SEGMENTS - 1)}, {0: 1}
    size = forge(files[0], _PARTITIONS, _SEGMENTS, _BATCHES, idempotent=True)
    forge(
        files[1], _PARTITIONS, _SEGMENTS, _BATCHES, idempotent=True, altered=altered, behind=behind
    )
    of = f"{size / MIB / 1024:.1f} GiB"
    stored = files[0].stat().st_size / MIB
    yield Row("manifest size", f"{stored:.1f} MiB", of, stored, "MiB", most=_TIB_MIB / _SHARE)
    compare = kdump("compare", "--progress", "none", *files)
    (seconds,) = best(repeat, process(compare, _DIFFERENT), clock=_processor_seconds)
    against = f"two manifests of {of}"
    yield Row(
        "compare manifests",
        f"{seconds:.2f} s of a processor",
        against,
        seconds,
        "s",
        most=_PROCESSORS * _TIB_SECONDS / _SHARE,
    )
    memory = most_pss_mb(compare, _DIFFERENT)
    yield Row("compare manifests", f"{memory:.0f} MB", against, memory, "MB", most=_PSS_MB)


def _processor_seconds() -> float:
    """The processor time of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
