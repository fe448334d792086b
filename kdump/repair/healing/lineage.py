"""The lineage of the log under repair, and the batches that it allows.

An offset and a leader epoch name one record, so that a batch of the right epoch at the right offset
is the one that the log had. Two logs that have one record in the same epoch are equal up to there.
So a batch of a later epoch is taken behind the log, if the copy has the end of the log in its
epoch.

Spec: ``LeaderEpochFileCache`` (KIP-101, KIP-279).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.events import EpochRun
from kdump.audit.survey.survey import Survey
from kdump.audit.verdicts.verdict import Verdict
from kdump.copies.lineage import LeaderEpochs, shared_end
from kdump.format.batch import BatchTable
from kdump.format.checkpoint import EpochEntry
from kdump.repair.healing.copies import HIGHEST, PartitionCopy
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT
from kdump.values import frozen

_MAGIC: Final = 2


@frozen
class OwnLineage:
    """The leader epochs of the log under repair.

    ``entries`` are those of its checkpoint, also those that begin at its end or behind it; none if
    it cannot be read. ``proof`` has them too, unless they contradict a batch, as ``contradiction``
    says. ``start`` is where they and its log start offset say that it begins, None if they do not.
    """

    entries: tuple[EpochEntry, ...]
    proof: tuple[EpochEntry, ...]
    start: int | None = None
    contradiction: str | None = None


def lineage_of(verdict: Verdict, facts: PartitionFacts) -> OwnLineage:
    """Return the leader epochs of a log by its checkpoint."""
    known = None if facts.epochs is None else facts.epochs.value
    if not known:
        # Batches do not show where an epoch began that begins in a gap.
        return OwnLineage((), ())
    found = _contradiction(known, verdict.surveys)
    if found is not None:
        return OwnLineage(known, (), contradiction=found)
    # Retention moves the first leader epoch to the log start.
    return OwnLineage(known, known, max(facts.log_start or 0, known[0].start_offset))


def _contradiction(entries: tuple[EpochEntry, ...], surveys: Sequence[Survey]) -> str | None:
    """Return how a checkpoint contradicts a batch of its log, None if it does not."""
    epochs = LeaderEpochs.of(entries, entries[0].start_offset, HIGHEST)
    for offset, epoch in (pair for survey in surveys for pair in _known_epochs(survey)):
        if epochs.epoch_at(offset) not in (None, epoch):
            return (
                f"{LEADER_EPOCH_CHECKPOINT} gives offset {offset} leader epoch "
                f"{epochs.epoch_at(offset)}, its batch has {epoch}: only later batches of the "
                "log show which replicas are of the same lineage, the file does not"
            )
    return None


def _known_epochs(survey: Survey) -> Iterator[tuple[int, int]]:
    """Yield offsets of a log with the leader epochs of their batches, where these change.

    Batches behind damage are left out: they may lie in the value of a damaged record.
    """
    end = min((gap.damage.position for gap in survey.gaps), default=None)
    for run in survey.events.epochs():
        if run.epoch >= 0 and (end is None or run.first_position < end):
            yield run.first_offset, run.epoch
            if end is None:
                yield run.last_offset, run.epoch


class AllowedBatches:
    """Tells which of the batches between two batches of the log can be taken from ``copy``.

    No entry of ``entries``, the leader epochs of the log, contradicts them, and they are of the
    epochs that the copy's own entries give: no checksum covers the epoch of a batch. It is at least
    ``lowest``, that of the batch before, and at most ``highest``; None for no bound. ``dense``:
    each batch begins where the one before ends, and has a record for each offset, as in a log that
    was never compacted.
    """

    def __init__(
        self,
        copy: PartitionCopy,
        entries: Sequence[EpochEntry],
        *,
        lowest: int,
        highest: int | None,
        dense: bool,
        next_offset: int | None,
    ) -> None:
        self._entries = [entry for entry in entries if entry.epoch >= 0 <= entry.start_offset]
        self._lowest, self._highest = lowest, highest
        self._limit, self.dense, self._epochs = copy.limit, dense, copy.leader_epochs
        self._next: int | None = next_offset

    def skip(self) -> None:
        """Pass over damage: the next offset is unknown."""
        self._next = None

    def ranges(self, table: BatchTable) -> Iterator[tuple[int, int]]:
        """Yield the rows of the next batches that can be taken: the first, and the one after."""
        usual = table.usual
        if usual is not None and self._allows(
            usual.first_offset, usual.last_offset, usual.leader_epoch, usual.records
        ):
            self._advance(usual.last_offset, usual.leader_epoch)
            yield 0, len(table)
            return
        start = 0
        for row, batch in enumerate(table):
            records = batch.count if batch.magic >= _MAGIC else None
            # No checksum covers the magic.
            if 0 <= batch.magic <= _MAGIC and self._allows(
                batch.base_offset, batch.last_offset, batch.leader_epoch, records
            ):
                self._advance(batch.last_offset, batch.leader_epoch)
                continue
            if start < row:
                yield start, row
            start = row + 1
            self.skip()
        if start < len(table):
            yield start, len(table)

    def _advance(self, last_offset: int, epoch: int) -> None:
        self._next, self._lowest = last_offset + 1, epoch

    def _allows(self, first: int, last: int, epoch: int, records: int | None) -> bool:
        if first > last or (self._limit is not None and last >= self._limit):
            return False
        if self._next is not None and (first < self._next or (self.dense and first > self._next)):
            return False
        if self.dense and records is not None and records != last - first + 1:
            return False
        if epoch < self._lowest or (self._highest is not None and epoch > self._highest):
            return False
        return self._fits(first, last, epoch)

    def _fits(self, first: int, last: int, epoch: int) -> bool:
        """Return whether the entries of both logs allow a batch."""
        if self._epochs is not None and epoch >= 0:
            known = (self._epochs.epoch_at(first), self._epochs.epoch_at(last))
            if any(each not in (None, epoch) for each in known):
                return False
        for number, entry in enumerate(self._entries if epoch >= 0 else ()):
            if number == 0 and epoch == entry.epoch:
                continue  # retention moves the first entry to the log start
            if entry.start_offset <= first:
                fits = epoch >= entry.epoch
            else:
                fits = epoch < entry.epoch and last < entry.start_offset
            if not fits:
                return False
        return True


def shares_epochs(own: Sequence[EpochEntry], copy: PartitionCopy, end: int) -> bool:
    """Return whether a copy has all offsets below ``end`` in the leader epochs of the log."""
    if not own or not copy.epochs or not copy.segments:
        return False
    start = max(own[0].start_offset, copy.epochs[0].start_offset)
    logs = (LeaderEpochs.of(entries, start, HIGHEST) for entries in (own, copy.epochs))
    return shared_end(*logs) >= end


def epochs_of_copies(
    copies: Iterable[PartitionCopy], runs: Sequence[EpochRun]
) -> tuple[EpochEntry, ...]:
    """Return the entries of copies that have all ``runs`` of a log in their epochs.

    Of an epoch without a batch these entries are all that is left.
    """
    entries: dict[int, EpochEntry] = {}
    for copy in copies:
        known = copy.leader_epochs
        if known is not None and all(
            known.epoch_at(offset) in (None, run.epoch)
            for run in runs
            for offset in (run.first_offset, run.last_offset)
        ):
            for entry in copy.epochs:
                entries.setdefault(entry.epoch, entry)
    return tuple(entries[epoch] for epoch in sorted(entries))


def epoch_in(copy: PartitionCopy, offset: int) -> int | None:
    """Return the leader epoch in which a copy has ``offset``, None if its epochs do not say so."""
    return None if copy.leader_epochs is None else copy.leader_epochs.epoch_at(offset)
