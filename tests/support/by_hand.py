"""Carries a plan out in the plainest way: no lock, no backup, nothing durable.

What comes of it is what ``kdump.repair.transaction.apply`` must come to as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from kdump.format.checkpoint import OffsetEntry, decode_offsets, encode_offsets
from kdump.repair.transaction.plan import (
    Cut,
    Line,
    Plan,
    Prefix,
    Put,
    PutMarker,
    Remove,
    TakeMarker,
)
from kdump.storage.logdir import directory_name
from kdump.storage.names import CLEAN_MARKER


def carry_out(plan: Plan) -> None:
    """Do all steps in their order, each on what the ones before have left."""
    above = plan.partition.parent
    for step in plan.steps:
        match step:
            case Remove(name):
                (plan.partition / name).unlink()
            case Put():
                _put(plan.partition / step.name, step)
            case Cut(name, size):
                path = plan.partition / name
                assert size < path.stat().st_size
                os.truncate(path, size)
            case Line():
                _change(above / step.checkpoint, plan.partition, step)
            case TakeMarker():
                (above / CLEAN_MARKER).unlink()
            case PutMarker():
                (above / CLEAN_MARKER).touch(exist_ok=False)


def _put(path: Path, put: Put) -> None:
    assert path.exists() == put.replaces
    content = put.content
    if isinstance(put.recipe, Prefix):
        content = path.read_bytes()[: put.recipe.size]
    assert content is not None
    assert len(content) == put.size
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _change(checkpoint: Path, partition: Path, line: Line) -> None:
    name = directory_name(partition)
    assert name is not None
    entries = list(decode_offsets(checkpoint.read_bytes()))
    before = [one for one in entries if (one.topic, one.partition) == (name.topic, name.partition)]
    assert [one.offset for one in before] == [line.before]
    assert line.after is not None
    changed = OffsetEntry(name.topic, name.partition, line.after)
    checkpoint.write_bytes(
        encode_offsets(changed if entry in before else entry for entry in entries)
    )
