"""Leader epochs side by side: where two logs part, and where a follower truncates its own.

An offset and a leader epoch name one record. Two logs are equal up to the first offset that they
have in different epochs.

Spec: ``LeaderEpochFileCache``, ``AbstractFetcherThread.getOffsetTruncationState``,
``Partition.readRecords`` (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kdump.format.checkpoint import EpochEntry
from kdump.values import frozen


class EpochSpan(NamedTuple):
    """The offsets from ``start`` up to ``end``, exclusive, that one leader epoch wrote."""

    epoch: int
    start: int
    end: int


@frozen
class Truncation:
    """The truncation of a follower's log to ``offset``.

    ``restart``: the log ends before the leader's start. The follower then drops it, and begins an
    empty one at ``offset``.
    """

    offset: int
    restart: bool = False


@frozen
class LeaderEpochs:
    """The leader epochs of a log, as a broker has them once the log is loaded.

    ``entries`` are those of ``leader-epoch-checkpoint`` between ``start``, the log start offset,
    and ``end``, the log end offset. Epochs and start offsets rise.
    """

    entries: tuple[EpochEntry, ...]
    start: int
    end: int

    @classmethod
    def of(cls, entries: Iterable[EpochEntry], start: int, end: int) -> LeaderEpochs:
        """Return the epochs that a broker has after it has loaded a log from ``start`` to ``end``.

        An entry is dropped if a later one has no greater epoch and start offset; the epoch at the
        log start begins there.
        """
        rising: list[EpochEntry] = []
        for entry in entries:
            while rising and (
                rising[-1].epoch >= entry.epoch or rising[-1].start_offset >= entry.start_offset
            ):
                rising.pop()
            rising.append(entry)
        inside = [entry for entry in rising if entry.start_offset < end]
        first = bisect_right([entry.start_offset for entry in inside], start) - 1
        if first >= 0:
            inside[: first + 1] = [EpochEntry(inside[first].epoch, start)]
        return cls(tuple(inside), start, end)

    @property
    def latest(self) -> int | None:
        """The last epoch; None without any."""
        return self.entries[-1].epoch if self.entries else None

    @property
    def spans(self) -> tuple[EpochSpan, ...]:
        """The offsets of each epoch."""
        ends = [*(entry.start_offset for entry in self.entries[1:]), self.end]
        return tuple(
            EpochSpan(entry.epoch, entry.start_offset, end)
            for entry, end in zip(self.entries, ends, strict=False)
        )

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch that wrote ``offset``; None if the log does not say so."""
        index = bisect_right([entry.start_offset for entry in self.entries], offset) - 1
        return self.entries[index].epoch if index >= 0 and offset < self.end else None

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to ``epoch``, and the offset at which it ends.

        If ``epoch`` is less than all, the answer is ``epoch`` and the start of the first one
        (``LeaderEpochFileCache.endOffsetFor``). If it is greater than all, the answer is the last
        one and the log end offset.
        """
        above = bisect_right([entry.epoch for entry in self.entries], epoch)
        end = self.end if above == len(self.entries) else self.entries[above].start_offset
        return (self.entries[above - 1].epoch if above else epoch), end

    def truncated(self, offset: int) -> LeaderEpochs:
        """Return the epochs of the log after a truncation to ``offset``."""
        entries = tuple(entry for entry in self.entries if entry.start_offset < offset)
        return replace(self, entries=entries, end=min(offset, self.end))

    def as_leader(self, epoch: int) -> LeaderEpochs:
        """Return the epochs after an election for ``epoch``, greater than all, before a write."""
        return replace(self, entries=(*self.entries, EpochEntry(epoch, self.end)))


def truncation(
    follower: LeaderEpochs, leader: LeaderEpochs, high_watermark: int = 0
) -> Truncation | None:
    """Return how a follower truncates its log before it fetches; None if it does not.

    ``high_watermark`` is that of the follower. If it has no epochs at all, it truncates to that,
    and to the end of the leader.
    """
    led = leader.as_leader(max(leader.latest or 0, follower.latest or 0) + 1)
    log = follower
    if log.latest is None:
        log = log.truncated(min(high_watermark, leader.end))
    while log.latest is not None and log.end >= leader.start:
        epoch, end = led.end_offset_for(log.latest)
        if epoch == log.latest and end >= log.end:
            break
        own_epoch, own_end = log.end_offset_for(epoch)
        # An epoch that the follower does not know: it asks again for the one before.
        log = log.truncated(min(own_end, end) if own_epoch == epoch else own_end)
    if log.end < leader.start:
        return Truncation(leader.start, restart=True)
    return Truncation(log.end) if log.end < follower.end else None


def shared_end(log: LeaderEpochs, other: LeaderEpochs) -> int:
    """Return the offset up to which two logs are of one lineage, by their epochs.

    It is the first offset that they have in different epochs, or else the end of the shorter one.
    """
    return first_difference(log.spans, other.spans, min(log.end, other.end))


def first_difference(spans: Sequence[EpochSpan], other: Sequence[EpochSpan], end: int) -> int:
    """Return the first offset that is in different epochs, ``end`` if there is none below it."""
    a = b = 0
    while a < len(spans) and b < len(other):
        start = max(spans[a].start, other[b].start)
        stop = min(spans[a].end, other[b].end)
        if start < stop and spans[a].epoch != other[b].epoch:
            return min(start, end)
        if spans[a].end <= other[b].end:
            a += 1
        else:
            b += 1
    return end
