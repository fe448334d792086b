"""Leader epochs of a log that gets a new end, and those of old messages.

Spec: ``LeaderEpochFileCache``, ``LogSegment.recover`` (KIP-101); KOD 5, step 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdump.audit.survey.survey import Survey
from kdump.format.checkpoint import EpochEntry


def epochs_after(
    entries: Sequence[EpochEntry], surveys: Iterable[Survey], log_start: int, log_end: int
) -> tuple[EpochEntry, ...] | None:
    """Return the entries of the checkpoint for a log of ``surveys`` that ends at ``log_end``.

    Returns None if the checkpoint with ``entries`` fits the log. No entry may be negative.
    """
    loaded = load_epochs(entries)
    changed = list(loaded)
    for survey in surveys:
        for run in survey.events.epochs():
            if run.epoch > (changed[-1].epoch if changed else -1):
                _assign(changed, EpochEntry(run.epoch, run.first_offset))
    changed = [entry for entry in changed if entry.start_offset < log_end]
    if changed == loaded and all(entry.start_offset < log_end for entry in entries):
        return None
    return epochs_from(changed, log_start)


def epochs_from(entries: Sequence[EpochEntry], log_start: int) -> tuple[EpochEntry, ...]:
    """Return the entries of a log that begins at ``log_start``; ``entries`` ascend.

    Spec: ``LeaderEpochFileCache.truncateFromStartAsyncFlush``.
    """
    below = [entry for entry in entries if entry.start_offset <= log_start]
    if not below:
        return tuple(entries)
    return (EpochEntry(below[-1].epoch, log_start), *entries[len(below) :])


def old_epochs(
    known: Sequence[EpochEntry], newest: int, base_offset: int, next_base: int | None
) -> tuple[EpochEntry, ...]:
    """Return the leader epochs for the messages of magic 0 and 1 in a segment, which hold none.

    The epochs are those of the ``known`` entries, or 0 below the first entry. They are not lower
    than ``newest``, the epoch of batches before the segment, -1 for none. The first entry starts
    at the base offset.

    A follower refuses batches of magic 2 without an epoch. The checkpoint needs no entry for 0: for
    an epoch below its first entry a leader answers with the start of that entry. Without an entry
    for 0, other replicas of old messages still truncate to the high watermark.
    """
    epochs = [EpochEntry(max(newest, 0), base_offset)]
    for entry in load_epochs(entry for entry in known if entry.epoch >= 0 <= entry.start_offset):
        if entry.epoch <= epochs[-1].epoch or not (
            next_base is None or entry.start_offset < next_base
        ):
            continue
        if entry.start_offset <= base_offset:
            epochs = [EpochEntry(entry.epoch, base_offset)]
        else:
            epochs.append(entry)
    return tuple(epochs)


def load_epochs(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """Return the entries of a file that the loader accepts."""
    loaded: list[EpochEntry] = []
    for entry in entries:
        _assign(loaded, entry)
    return loaded


def _assign(entries: list[EpochEntry], entry: EpochEntry) -> None:
    """Add an entry as the loader does: remove later entries that contradict it."""
    last = entries[-1] if entries else None
    if last is not None and entry.epoch == last.epoch and entry.start_offset >= last.start_offset:
        return
    while entries and (
        entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset
    ):
        entries.pop()
    entries.append(entry)
