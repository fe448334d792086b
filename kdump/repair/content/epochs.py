"""Leader epochs after a log ends elsewhere, and those of old messages.

Spec: ``LeaderEpochFileCache``, ``LogSegment.recover`` (KIP-101); KOD 5, step 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.audit.survey.survey import Survey
from kdump.format.checkpoint import EpochEntry


def epochs_after(
    entries: Sequence[EpochEntry], kept: Iterable[Survey], log_start: int, log_end: int
) -> tuple[EpochEntry, ...] | None:
    """What the checkpoint should say when the log is ``kept`` and ends at ``log_end``.

    None if the log gives no reason to change it. ``entries`` are not below 0.
    """
    loaded = _loaded(entries)
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


def old_epochs(
    known: Sequence[EpochEntry], newest: int, base_offset: int, next_base: int | None
) -> tuple[EpochEntry, ...]:
    """The leader epochs of the messages of magic 0 and 1 in a segment, which say none themselves.

    They are those that ``known`` entries give, 0 below all of them, and no lower than the
    ``newest`` of batches before the segment, -1 for none. The first entry starts at its base.

    A follower refuses batches of magic 2 without an epoch. The checkpoint needs no entry for 0: a
    leader answers for an epoch below its first one with that one's start. Without the entry other
    replicas of old messages go on truncating to the high watermark, not by an epoch made up.
    """
    found = [EpochEntry(max(newest, 0), base_offset)]
    for entry in _loaded(entry for entry in known if entry.epoch >= 0 <= entry.start_offset):
        if entry.epoch <= found[-1].epoch or not (
            next_base is None or entry.start_offset < next_base
        ):
            continue
        if entry.start_offset <= base_offset:
            found = [EpochEntry(entry.epoch, base_offset)]
        else:
            found.append(entry)
    return tuple(found)


def _loaded(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """What a loader takes of the entries of a file."""
    loaded: list[EpochEntry] = []
    for entry in entries:
        _assign(loaded, entry)
    return loaded


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
