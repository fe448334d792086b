"""The notes of a plan to heal: what is taken from which copy, and what stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.commands.heal.result import LeftOffsets
from kdump.format.lines.shell import shell_text
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.draft import Draft
from kdump.storage.paths import AnyPath, typed_text
from kdump.storage.walk import sound_batch

#: The note on a log that the cleaner may have compacted.
COMPACTED_NOTE: Final = (
    "the log may be compacted, so that copies hold other batches: only stretches of the same size "
    "between the same batches are taken"
)
#: The most places that are named.
_LISTED: Final = 20


def taken_notes(drafts: Sequence[Draft]) -> Iterator[str]:
    """Yield the stretches that are taken from copies. Raises SourceError."""
    runs = [(draft, run) for draft in drafts for run in draft.runs]
    for draft, run in runs[:_LISTED]:
        first, last = _offsets(draft, run)
        yield (
            f"{draft.segment.log.name}, position {run.at}: {run.size:,} bytes, offsets "
            f"{first} to {last}, from position {run.position} of {run.log}"
        )
    if len(runs) > _LISTED:
        size = sum(run.size for _, run in runs[_LISTED:])
        yield f"{len(runs) - _LISTED:,} more stretches from copies, {size:,} bytes"


def _offsets(draft: Draft, run: BatchRun) -> tuple[int, int]:
    """Return the first and the last offset of a run, of which only a part may be taken."""
    first, last = run.first_offset, run.last.last_offset
    with draft.open() as source:
        begin = sound_batch(source, draft.own.base_offset, run.at)
        behind = sound_batch(source, draft.own.base_offset, run.at + run.size)
    if begin is not None:
        first = begin.base_offset
    return first, last if behind is None else min(last, behind.base_offset - 1)


def compare_note(partition: AnyPath, copies: Iterable[AnyPath]) -> str:
    """Return the note on what heal does not compare, with the command that does."""
    command = shell_text(["kdump", "compare", *map(typed_text, (partition, *copies))])
    return (
        "batches whose checksums match stay, though no checksum covers offsets and leader epochs: "
        f"to see where copies differ, run {command}"
    )


def left_notes(left: Sequence[LeftOffsets], *, unread: bool) -> Iterator[str]:
    """Yield what stays damaged, because no copy has it. ``unread``: one could not be read."""
    copy = "no copy that could be read" if unread else "no copy"
    for place in left[:_LISTED]:
        last = "" if place.last is None else str(place.last)
        span = f"offsets {place.first} to {last}" if last else f"offsets from {place.first} on"
        if place.size:
            yield (
                f"{place.name} stays damaged at position {place.position}: {place.size:,} bytes, "
                f"{span}, which {copy} has"
            )
        else:
            yield f"{span} stay missing before {place.name}: {copy} has them"
    if len(left) > _LISTED:
        yield f"{len(left) - _LISTED:,} more places stay damaged or missing"
