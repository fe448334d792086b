"""Copies of a partition with batches of five records each. Imports nothing of kdump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from support import forge
from support.forge import flip

Logs = Mapping[int, Sequence[bytes]]


def write(
    top: Path,
    segments: Logs,
    files: Mapping[str, bytes | None] | None = None,
    *,
    epochs: Logs | None = None,
) -> Path:
    """A partition whose epochs are those of ``epochs``, else of its own batches."""
    whole = segments if epochs is None else epochs
    rows = forge.epoch_rows(data for base in sorted(whole) for data in whole[base])
    content = {"leader-epoch-checkpoint": forge.checkpoint(rows), **(files or {})}
    return forge.write_partition(top, "orders", 0, segments, files=content)


def plain(first: int, last: int, epoch: int = 0, text: bytes = b"value") -> list[bytes]:
    """Batches of five records each."""
    return [
        forge.batch(
            offset,
            [forge.record(text + b" %d" % (offset + each)) for each in range(5)],
            base_timestamp=forge.TIMESTAMP + offset,
            leader_epoch=epoch,
        )
        for offset in range(first, last, 5)
    ]


def broken(data: Sequence[bytes], *numbers: int) -> list[bytes]:
    """The batches, of which some do not match their checksum."""
    return [flip(each, -1) if at in numbers else each for at, each in enumerate(data)]


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}
