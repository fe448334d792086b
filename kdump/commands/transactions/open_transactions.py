"""The open transactions of a log, as a broker that loads it finds them.

A broker takes the newest producer snapshot, and replays the segments behind it.

Spec: ``ProducerStateManager.truncateAndReload``, ``LogLoader``, ``UnifiedLog.lastStableOffset``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from kdump.audit.facts.small_files import DirectoryFacts, read_producer_snapshots
from kdump.audit.replay.replay import OpenTransaction, replay
from kdump.audit.survey.survey import survey
from kdump.coordinators.extents import log_end, log_start
from kdump.errors import SourceError
from kdump.format.snapshot import ProducerEntries
from kdump.storage.access import open_source
from kdump.storage.logdir import Partition, Segment, list_partition
from kdump.storage.paths import AnyPath
from kdump.storage.selection import entry_position
from kdump.storage.walk import Damage, walk
from kdump.values import frozen


@frozen
class LogTransactions:
    """The open transactions of the log at ``path``, by first offset.

    ``stable_offset`` is the last stable offset, and ``waiting_bytes`` the bytes of the log from it
    on. ``damaged`` says that damage lies in what was read: then the marker of a transaction may be
    lost in it.
    """

    path: AnyPath
    open: tuple[OpenTransaction, ...]
    stable_offset: int
    end_offset: int
    waiting_bytes: int
    damaged: bool


@frozen
class LogTask:
    """A partition whose open transactions are read."""

    path: AnyPath
    directory: DirectoryFacts | None


def read_transactions(task: LogTask) -> LogTransactions | SourceError:
    """Return the open transactions of a partition, or the error that made it unreadable."""
    partition = list_partition(task.path)
    if isinstance(partition, SourceError):
        return partition
    start = log_start(partition, task.directory)
    if not partition.segments:
        return LogTransactions(task.path, (), start, start, 0, damaged=False)
    try:
        return _read(partition, start)
    except SourceError as error:
        return error


def _read(partition: Partition, start: int) -> LogTransactions:
    end = log_end(partition.segments[-1])
    known: Mapping[int, ProducerEntries] = {
        offset: read.value
        for offset, read in read_producer_snapshots(partition).items()
        if read.value is not None
    }
    damaged = False
    if end in known:
        found = tuple(sorted(_of_snapshot(known[end]), key=lambda each: each.first_offset))
    else:
        bases = [segment.base_offset for segment in partition.segments]
        base = max((offset for offset in known if offset in bases), default=bases[0])
        surveys = [
            survey(
                segment,
                lambda _: None,
                mapped=False,
                sealed=segment is not partition.segments[-1],
                deep=False,
            )
            for segment in partition.segments
            if segment.base_offset >= base
        ]
        replayed = replay(surveys, known.get(base, ()))
        found, end, damaged = replayed.open, replayed.end_offset, replayed.doubt is not None
    stable = max(found[0].first_offset, start) if found else end
    waiting = _bytes_from(partition.segments, stable) if found else 0
    return LogTransactions(partition.path, found, stable, max(end, stable), waiting, damaged)


def _of_snapshot(entries: ProducerEntries) -> Iterator[OpenTransaction]:
    for entry in entries:
        if entry.current_txn_first_offset >= 0:
            yield OpenTransaction(
                entry.producer_id,
                entry.producer_epoch,
                entry.current_txn_first_offset,
                entry.last_offset,
                entry.timestamp,
            )


def _bytes_from(segments: Sequence[Segment], offset: int) -> int:
    """Return the bytes of the logs from the batch that holds ``offset`` on."""
    below = len(list(takewhile(lambda segment: segment.base_offset <= offset, segments)))
    first = segments[max(below - 1, 0)]
    with open_source(first.log, mapped=False) as source:
        total = source.size - _position_of(first, offset)
    for segment in segments[max(below, 1) :]:
        with open_source(segment.log, mapped=False) as source:
            total += source.size
    return total


def _position_of(segment: Segment, offset: int) -> int:
    """Return the position of the batch that holds ``offset``, or of the end of the log."""
    with open_source(segment.log, mapped=False) as source:
        start = entry_position(source, segment.index, segment.base_offset, offset)
        for piece in walk(source, segment.base_offset, start):
            if not isinstance(piece, Damage):
                for batch in piece:
                    if batch.last_offset >= offset:
                        return batch.position
        return source.size
