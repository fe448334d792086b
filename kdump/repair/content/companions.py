"""The files beside the logs of a new partition: epochs, indexes, snapshots, metadata.

Spec: ``LeaderEpochFileCache`` (KIP-101), ``ProducerStateManager``, ``TransactionIndex`` (KIP-98);
KOD 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kdump.audit.facts.small_files import PartitionFacts, read_small
from kdump.audit.replay.replay import Replay
from kdump.audit.survey.events import EpochRun
from kdump.format.checkpoint import EpochEntry, decode_readable_epochs, encode_epochs
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import encode_snapshot
from kdump.repair.content.epochs import load_epochs
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT, FileKind, format_file_name
from kdump.storage.paths import as_local


def companions(replayed: Replay, facts: PartitionFacts) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files beside new logs; ``facts`` are those of their source.

    ``replayed`` is the replay of the logs, at least one. A snapshot at the first base offset is
    included only if producers are known there.
    """
    bases = [segment.survey.segment.base_offset for segment in replayed.segments]
    for base, segment in zip(bases, replayed.segments, strict=True):
        if segment.aborted:
            name = format_file_name(FileKind.TXN_INDEX, base)
            yield name, TransactionIndex(segment.aborted).encode()
    for offset, state in replayed.states():
        if offset > bases[0] or state:
            entries = sorted(state.values())
            yield format_file_name(FileKind.SNAPSHOT, offset), encode_snapshot(entries)
    entries_of_log = epochs_of(replayed, facts)
    if facts.epochs is not None or entries_of_log:
        yield LEADER_EPOCH_CHECKPOINT, encode_epochs(entries_of_log)


def epochs_of(
    replayed: Replay, facts: PartitionFacts, more: Iterable[EpochEntry] = ()
) -> tuple[EpochEntry, ...]:
    """Return the leader epochs of the logs, and the entries of the source's file that fit them.

    ``more`` are entries of copies of the same lineage, which count for epochs that the file lacks.
    """
    own = known_epochs(facts)
    epochs = {entry.epoch for entry in own}
    known = [*own, *(entry for entry in more if entry.epoch not in epochs)]
    return merge_epochs(known, runs_of(replayed), replayed.epochs, replayed.end_offset)


def known_epochs(facts: PartitionFacts) -> tuple[EpochEntry, ...]:
    """Return the entries of leader-epoch-checkpoint; of a malformed one those that can be read.

    Batches do not show an epoch of which the cleaner or retention has removed all of them.
    """
    read = facts.epochs
    if read is None or read.value is not None:
        return () if read is None else read.value or ()
    return read_small(read.path, decode_readable_epochs).value or ()


def readable_files(facts: PartitionFacts) -> Iterator[Path]:
    """Yield the files beside the logs that can be read, and are copied unchanged."""
    if facts.metadata is not None and facts.metadata.error is None:
        yield as_local(facts.metadata.path)
    if facts.quorum_state is not None and facts.quorum_state.error is None:
        yield as_local(facts.quorum_state.path)
    for snapshot in facts.metadata_snapshots:
        if snapshot.fault is None:
            yield as_local(snapshot.path)


def merge_epochs(
    known: Iterable[EpochEntry],
    runs: Sequence[EpochRun],
    of_batches: Iterable[EpochEntry],
    log_end: int,
) -> tuple[EpochEntry, ...]:
    """Return the entries for a log with these ``runs``, whose batches give ``of_batches``.

    A ``known`` entry stays, with or without a batch, if all batches before it have lower epochs,
    and no batch after it does. A start drops those from ``log_end`` on, and of others that
    contradict each other the earlier ones.
    """
    fitting = (
        entry
        for entry in known
        if entry.epoch >= 0 and 0 <= entry.start_offset < log_end and _holds(entry, runs)
    )
    entries = {entry.epoch: entry for entry in load_epochs(fitting)}
    for entry in of_batches:
        entries.setdefault(entry.epoch, entry)
    rising: list[EpochEntry] = []
    for entry in sorted(entries.values(), key=lambda entry: entry.epoch):
        while rising and rising[-1].start_offset >= entry.start_offset:
            rising.pop()  # as a broker does when a later epoch starts at or before this offset
        rising.append(entry)
    return tuple(rising)


def _holds(entry: EpochEntry, runs: Sequence[EpochRun]) -> bool:
    for run in runs:
        if run.epoch < entry.epoch and run.last_offset >= entry.start_offset:
            return False
        if run.epoch >= entry.epoch and run.first_offset < entry.start_offset:
            return False
    return True


def runs_of(replayed: Replay) -> list[EpochRun]:
    """Return the runs of batches with a leader epoch, in the order of the log."""
    return [
        run
        for segment in replayed.segments
        for run in segment.survey.events.epochs()
        if run.epoch >= 0
    ]
