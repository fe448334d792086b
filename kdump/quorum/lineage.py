"""Two copies side by side: the offsets that they share, and their content.

An offset and a leader epoch name one record (KIP-595). Two logs are equal up to the first offset
that they have in different epochs; there a follower cuts its log.

Spec: ``RaftLog.validateOffsetAndEpoch``, ``truncateToEndOffset``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from kdump.copies.lineage import first_difference
from kdump.quorum.batches import MetadataBatches
from kdump.quorum.replica import MetadataReplica
from kdump.values import frozen


@frozen
class ReplicaLoss:
    """The records of a copy, from ``first`` up to the offset ``end``, that a leader does not have.

    ``changes`` are those of its ``records`` that change metadata. ``cut`` says that the start of
    the node itself cuts them from its log; otherwise the leader makes it cut them.
    """

    first: int
    end: int
    records: int
    changes: int
    cut: bool


def shared_end(replica: MetadataReplica, other: MetadataReplica) -> int:
    """Return the offset up to which two copies are equal by their epochs, after a start of both.

    Below a log start the epochs are not known: a snapshot of epoch E holds no record of a later
    epoch.
    """
    end = min(replica.end.offset, other.end.offset)
    for log, beside in ((replica, other), (other, replica)):
        late = (span.start for span in log.spans if span.epoch > beside.start_epoch)
        if beside.start_offset:
            first = next(late, end)
            if first < beside.start_offset:
                end = min(end, first)
    return min(end, first_difference(replica.spans, other.spans, end))


def different_content(replica: MetadataReplica, other: MetadataReplica) -> int | None:
    """Return the first offset, in the range that both logs share, whose batches differ.

    None if all are equal. Followers append the leader's batches as they are.
    """
    start, end = max(replica.start_offset, other.start_offset), shared_end(replica, other)
    columns = [_columns(each, start, end) for each in (replica, other)]
    if columns[0] == columns[1]:
        return None
    rows = [list(zip(*each, strict=True)) for each in columns]
    for row, beside in zip(*rows, strict=False):
        if row != beside:
            return int(min(row[0], beside[0]))
    longer = max(rows, key=len)
    return int(longer[min(map(len, rows))][0])


def _columns(replica: MetadataReplica, start: int, end: int) -> tuple[array[int], ...]:
    """Return bases, last offsets and checksums of the batches that lie whole in a range."""
    log = replica.log
    first = bisect_left(log.bases, start, 0, replica.started_batches)
    stop = bisect_left(log.bases, end, first, replica.started_batches)
    while stop > first and log.lasts[stop - 1] >= end:
        stop -= 1
    return log.bases[first:stop], log.lasts[first:stop], log.crcs[first:stop]


def losses(leader: MetadataReplica, replica: MetadataReplica) -> tuple[ReplicaLoss, ...]:
    """Return what of a copy is lost when another one leads; of the leader, what its start cuts."""
    found = []
    shared = shared_end(leader, replica)
    if replica.end.offset > shared:
        # A log is cut at the batch that holds the offset.
        log, count = replica.log, replica.started_batches
        first = bisect_left(log.lasts, shared, 0, count)
        if first < count:
            counts = log.count_from(shared, count)
            found.append(ReplicaLoss(log.bases[first], replica.end.offset, *counts, cut=False))
    tail = _tail(replica.log, replica.recovered, max(leader.end.offset, replica.end.offset))
    if tail is not None:
        found.append(tail)
    return tuple(loss for loss in found if loss.records)


def _tail(log: MetadataBatches, recovered: int, offset: int) -> ReplicaLoss | None:
    """Return the sound batches that a start cuts and that reach ``offset``, None without one."""
    first = next((i for i in range(recovered, len(log)) if log.lasts[i] >= offset), None)
    if first is None:
        return None
    records, changes = log.count_from(offset, len(log))
    return ReplicaLoss(log.bases[first], max(log.lasts[first:]) + 1, records, changes, cut=True)
