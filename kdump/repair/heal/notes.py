"""The notes of a plan to heal: what is taken from which copy, and what stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.repair.heal.draft import Draft
from kdump.repair.heal.result import LeftOffsets

#: The most places that are named.
_LISTED: Final = 20


def taken_notes(drafts: Sequence[Draft]) -> Iterator[str]:
    """Yield the stretches that are taken from copies."""
    runs = [(draft, run) for draft in drafts for run in draft.runs]
    for draft, run in runs[:_LISTED]:
        yield (
            f"{draft.segment.log.name}, position {run.at}: {run.size:,} bytes, offsets "
            f"{run.first_offset} to {run.last.last_offset}, from position {run.position} of "
            f"{run.log}"
        )
    if len(runs) > _LISTED:
        size = sum(run.size for _, run in runs[_LISTED:])
        yield f"{len(runs) - _LISTED:,} more stretches from copies, {size:,} bytes"


def left_notes(left: Sequence[LeftOffsets]) -> Iterator[str]:
    """Yield what stays damaged, because no copy has it."""
    for place in left[:_LISTED]:
        last = "" if place.last is None else str(place.last)
        span = f"offsets {place.first} to {last}" if last else f"offsets from {place.first} on"
        if place.size:
            yield (
                f"{place.name} stays damaged at position {place.position}: {place.size:,} bytes, "
                f"{span}, which no copy has"
            )
        else:
            yield f"{span} stay missing before {place.name}: no copy has them"
    if len(left) > _LISTED:
        yield f"{len(left) - _LISTED:,} more places stay damaged or missing"
