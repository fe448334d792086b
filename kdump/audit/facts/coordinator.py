"""The transaction coordinator's state from ``__transaction_state`` logs.

Its logs are compacted, may be damaged, and this node's copies may lag behind the leader's. Entries
of sound batches are facts, missing ones are not. So a fate follows only from entries with
consecutive offsets, from the first of a producer's epoch to a later epoch: these are all the
transactions of that epoch, and records of that epoch belong to those that name their partition. If
all of these ended the same way, it does not matter which of them a record belongs to. Since KIP-890
an epoch has a single transaction. A producer's last entry may not have been replicated, and is left
out; earlier entries have been, because the coordinator waits for that.

Spec: ``TransactionLog``, ``TransactionMetadata``, ``TransactionStateManager`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from kdump.errors import DecodeError, LimitError, SourceError
from kdump.format.batch import RecordTable
from kdump.format.messages.transactions import decode_transaction
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import LogDirectory, Segment, directory_name, read_partition
from kdump.storage.names import TRANSACTION_TOPIC
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

#: Above every epoch of a producer: its transactional id is deleted, or has another producer.
_GONE: Final = 1 << 15
#: The bytes of the producer id in a value, after the version.
_PRODUCER: Final = slice(2, 10)

TopicPartition = tuple[str, int]
"""A topic and the number of a partition."""


class TransactionStatus(IntEnum):
    """The states of a transaction."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


_ENDING: Final = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


class CoordinatorEntry(NamedTuple):
    """A state of a producer: its epoch, and the partitions of its transaction."""

    epoch: int
    status: int
    partitions: frozenset[TopicPartition] = frozenset()


class EpochOutcome(NamedTuple):
    """The common end of all transactions of an epoch in a partition, and their marker epochs."""

    committed: bool
    marker_epochs: frozenset[int]


@frozen
class History:
    """The entries of one producer.

    The entries of each of ``runs`` have no missing offset between them. ``current`` says that no
    damage follows the last entry.
    """

    runs: tuple[tuple[CoordinatorEntry, ...], ...] = ()
    current: bool = True

    def epoch_outcome(self, epoch: int, topic_partition: TopicPartition) -> EpochOutcome | None:
        """Return how transactions of ``epoch`` ended at ``topic_partition``; None if unknown."""
        for entries in self.runs:
            replicated = entries[:-1]
            first = next((at for at, entry in enumerate(replicated) if entry.epoch == epoch), None)
            if first is None or all(entry.epoch <= epoch for entry in replicated[first:]):
                continue
            if first or replicated[0].status == TransactionStatus.EMPTY:
                return _epoch_outcome(replicated[first:], epoch, topic_partition)
        return None

    def names(self, topic_partition: TopicPartition) -> bool | None:
        """Return whether a transaction has yet to end at ``topic_partition``; None if unknown."""
        last = self.runs[-1][-1] if self.runs else CoordinatorEntry(_GONE, TransactionStatus.DEAD)
        if (
            last.status in (TransactionStatus.ONGOING, *_ENDING)
            and topic_partition in last.partitions
        ):
            return True
        return False if self.current else None


def _epoch_outcome(
    entries: Sequence[CoordinatorEntry], epoch: int, topic_partition: TopicPartition
) -> EpochOutcome | None:
    commits: set[bool] = set()
    epochs: set[int] = set()
    for before, after in pairwise(entries):
        if (before.epoch, before.status) != (epoch, TransactionStatus.ONGOING):
            continue
        if after.status in _ENDING:
            if topic_partition in before.partitions | after.partitions:
                commits.add(after.status == TransactionStatus.PREPARE_COMMIT)
                epochs.add(after.epoch)
        elif after.status != TransactionStatus.ONGOING:
            return None
    return EpochOutcome(commits.pop(), frozenset(epochs)) if len(commits) == 1 else None


@dataclass(frozen=True)
class Coordinator:
    """The directories of the ``__transaction_state`` partitions of a node.

    ``whole`` says that no partition is missing. The partitions are read when a history is first
    requested; ``known`` has the histories of requested producers.
    """

    paths: tuple[AnyPath, ...]
    whole: bool
    known: dict[int, History] = field(default_factory=dict, compare=False)

    def histories(self, producers: Collection[int]) -> Mapping[int, History]:
        """Return the histories of ``producers``, and perhaps of others, by producer id."""
        wanted = frozenset(producers) - self.known.keys()
        if wanted:
            logs = [_Log(wanted) for _ in self.paths]
            for log, path in zip(logs, self.paths, strict=True):
                log.read(path)
            intact = self.whole and not any(log.damages for log in logs)
            self.known.update((producer, _history(producer, logs, intact)) for producer in wanted)
        return self.known


def find_coordinator(
    directories: Iterable[LogDirectory], partitions: Collection[int] | None
) -> Coordinator | None:
    """Return the coordinator whose partitions are in ``directories``; None without any.

    ``partitions`` are the numbers of all partitions of the topic, None if unknown.
    """
    found: dict[AnyPath, int] = {}
    for directory in directories:
        for path in directory.partition_paths:
            name = directory_name(path)
            if name is not None and (name.topic, name.suffix) == (TRANSACTION_TOPIC, ""):
                found[path] = name.partition
    if not found:
        return None
    whole = partitions is not None and set(found.values()) >= set(partitions)
    return Coordinator(tuple(found), whole)


class _Log:
    """The entries of ``producers`` in one partition, each with the index of its run."""

    def __init__(self, producers: frozenset[int]) -> None:
        self.entries: dict[int, list[tuple[int, CoordinatorEntry]]] = defaultdict(list)
        self.damages = 0
        self.damages_before: dict[int, int] = {}  # before the last entry of each producer
        self._producers = producers
        self._ids: dict[bytes, int] = {}
        self._run = 0
        self._next = -1

    def read(self, path: AnyPath) -> None:
        """Read the partition at ``path``."""
        try:
            for segment in read_partition(path).segments:
                self._segment(segment)
        except (DecodeError, LimitError, SourceError):
            self.damages += 1

    def _segment(self, segment: Segment) -> None:
        reader = RecordReader()
        with open_source(segment.log, mapped=False) as source:
            for piece in walk(source, segment.base_offset):
                if isinstance(piece, Damage):
                    self.damages += not piece.is_tail_of(source)
                    self._next = -1
                    continue
                for run in record_runs(piece, source, reader):
                    if isinstance(run, Unread):
                        raise run.error
                    if not run.batches[0].is_control:
                        self._records(run.block, run.rows)

    def _records(self, block: memoryview, rows: memoryview) -> None:
        for at in range(0, len(rows), RecordTable.WIDTH):
            offset, _, key, key_size, start, size = rows[at : at + 6]
            self._run += offset != self._next
            self._next = offset + 1
            value = block[start : start + max(size, 0)]
            producer = int.from_bytes(value[_PRODUCER], "big") if value else None
            if producer in self._producers or self._ids:
                self._record(bytes(block[key : key + max(key_size, 0)]), producer, value)

    def _record(self, key: bytes, producer: int | None, value: memoryview) -> None:
        before = self._ids.get(key)
        if before is not None and before != producer:
            del self._ids[key]
            self._add(before, CoordinatorEntry(_GONE, TransactionStatus.DEAD))
        if producer in self._producers and producer is not None:
            self._ids[key] = producer
            self._add(producer, _entry(value))

    def _add(self, producer: int, entry: CoordinatorEntry) -> None:
        self.entries[producer].append((self._run, entry))
        self.damages_before[producer] = self.damages


def _entry(value: memoryview) -> CoordinatorEntry:
    fields: dict[str, Any] = decode_transaction(value)
    partitions = (
        (topic["topic"], number)
        for topic in fields["transactionPartitions"] or ()
        for number in topic["partitionIds"]
    )
    return CoordinatorEntry(
        fields["producerEpoch"], fields["transactionStatus"], frozenset(partitions)
    )


def _history(producer: int, logs: Iterable[_Log], intact: bool) -> History:
    """Return the history of a producer; unknown if it is in several logs, which is not legal."""
    containing = [log for log in logs if producer in log.entries]
    if len(containing) != 1:
        return History(current=intact and not containing)
    (log,) = containing
    runs = groupby(log.entries[producer], key=lambda entry: entry[0])
    return History(
        tuple(tuple(entry for _, entry in same) for _, same in runs),
        log.damages_before[producer] == log.damages,
    )
