"""The leader epochs that a loader would leave of a checkpoint once a log ends elsewhere.

Spec: ``LeaderEpochFileCache``, ``LogSegment.recover`` (KIP-101); KOD 5, step 6. It must never make
entries of a file that a broker refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.audit.survey import Survey
from kdump.format.checkpoint import EpochEntry


def epochs_after(
    entries: Sequence[EpochEntry], kept: Iterable[Survey], log_start: int, log_end: int
) -> tuple[EpochEntry, ...] | None:
    """What the checkpoint should say when the log is ``kept`` and ends at ``log_end``.

    None if the log gives no reason to change it. ``entries`` are not below 0.
    """
    loaded: list[EpochEntry] = []
    for entry in entries:
        _assign(loaded, entry)
    changed = list(loaded)
    for survey in kept:
        for run in survey.events.epochs():
            if run.epoch > (changed[-1].epoch if changed else -1):
                _assign(changed, EpochEntry(run.epoch, run.first_offset))
    changed = [entry for entry in changed if entry.start_offset < log_end]
    if changed == loaded and all(entry.start_offset < log_end for entry in entries):
        return None
    below = [entry for entry in changed if entry.start_offset <= log_start]
    if below:
        changed = [EpochEntry(below[-1].epoch, log_start), *changed[len(below) :]]
    return tuple(changed)


def _assign(entries: list[EpochEntry], new: EpochEntry) -> None:
    """Add an entry as a loader does: those that it contradicts go, from the end on."""
    last = entries[-1] if entries else None
    if last is not None and new.epoch == last.epoch and new.start_offset >= last.start_offset:
        return
    while entries and (
        entries[-1].epoch >= new.epoch or entries[-1].start_offset >= new.start_offset
    ):
        entries.pop()
    entries.append(new)
