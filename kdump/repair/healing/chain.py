"""The batches that follow a batch, from the first copies that have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from kdump.errors import SourceError
from kdump.format.batch import BatchTable, RecordBatch
from kdump.repair.healing.alignment import BatchRun, add_run
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.lineage import AllowedBatches, epoch_in
from kdump.repair.healing.reading import (
    Place,
    find,
    is_same,
    pieces_from,
    place_of_offset,
    place_of_segment_with,
)
from kdump.storage.walk import Damage
from kdump.values import frozen

AllowedAfter = Callable[[PartitionCopy, RecordBatch | None], AllowedBatches | None]
"""Returns what may be taken from a copy behind a batch, or from any on; None for nothing."""

OnError = Callable[[PartitionCopy, SourceError], None]
"""Called with a copy that cannot be read."""


@frozen
class Chain:
    """The batches that follow a batch: ``runs`` in order.

    ``complete``: they reach up to the batch behind, or to the offset where it begins.
    """

    runs: tuple[BatchRun, ...]
    complete: bool


@frozen
class Follower:
    """Finds batches below offset ``stop`` in ``copies``; None for no end.

    ``behind`` is the batch at ``stop``: a copy that has another one there gives nothing. ``proven``
    says whether a copy is of the same lineage up to there. ``epochs_known``: the leader epochs of
    the log say where each of them ends. ``over_gaps``: without an end, batches behind a gap are
    those of ``allowed`` copies.
    """

    copies: Sequence[PartitionCopy]
    stop: int | None
    behind: RecordBatch | None
    proven: Callable[[PartitionCopy], bool]
    allowed: AllowedAfter
    on_error: OnError
    epochs_known: bool = True
    over_gaps: bool = False

    def follow(self, last: RecordBatch, *, known: bool = True) -> Chain:
        """Return the batches behind ``last``. Unless it is ``known``, none that follow at once."""
        runs: list[BatchRun] = []
        found = (self._next(last, 0) if known else []) or self._skip(last, 0)
        while found:
            for run in found:
                add_run(runs, run)
            last = found[-1].last
            if self.stop is not None and last.last_offset + 1 >= self.stop:
                return Chain(tuple(runs), complete=True)
            at = runs[-1].at + runs[-1].size
            found = self._next(last, at) or self._skip(last, at)
        return Chain(tuple(runs), complete=False)

    def start(self, offset: int) -> Chain:
        """Return the batches from the one that holds ``offset`` on, of copies with ``behind``."""
        for copy in self.copies:
            rules = self.allowed(copy, None)
            if rules is None:
                continue
            try:
                place = self._place_beyond(copy, offset)
                if place is None or not self._is_proven(copy):
                    continue
                runs = self._read(copy, place, 0, rules)
            except SourceError as error:
                self.on_error(copy, error)
                continue
            if runs:
                chain = self.follow(runs[-1].last)
                at = runs[-1].at + runs[-1].size
                runs += (replace(run, at=run.at + at) for run in chain.runs)
                return Chain(tuple(runs), chain.complete)
        return Chain((), complete=False)

    def _next(self, last: RecordBatch, at: int) -> list[BatchRun]:
        """Return what the first copy has that continues behind ``last``."""
        for copy in self.copies:
            rules = self.allowed(copy, last)
            if rules is None:
                continue
            try:
                place = self._place(copy, last)
                sure = place is not None and self._is_sure(copy, last)
                found = self._read(copy, place, at, rules) if place is not None and sure else []
            except SourceError as error:
                self.on_error(copy, error)
                continue
            if found:
                return found
        return []

    def _place(self, copy: PartitionCopy, last: RecordBatch) -> Place | None:
        """Return the place behind ``last``, also where the copy has it damaged.

        The leader of an epoch wrote one record at each offset. So the next batch follows ``last``
        if it is of the same epoch, or if the copy has ``last`` in its epoch.
        """
        found = find(copy, last)
        if found.after is not None or found.is_other:
            return found.after
        place = place_of_offset(copy, last.last_offset + 1)
        if place is None or epoch_in(copy, last.last_offset) == last.leader_epoch:
            return place
        first = next((piece for _, piece in pieces_from(copy, place)), None)
        if isinstance(first, BatchTable) and first[0].leader_epoch == last.leader_epoch >= 0:
            return place
        return None

    def _read(
        self, copy: PartitionCopy, place: Place, at: int, rules: AllowedBatches
    ) -> list[BatchRun]:
        runs: list[BatchRun] = []
        for number, piece in pieces_from(copy, place):
            if isinstance(piece, Damage) or piece.hunted:
                break
            table = piece
            if self.stop is not None:
                count = bisect_left(piece.column("base_offset"), self.stop)
                table = piece.first(count) if count < len(piece) else piece
                if count < len(piece) and self._differs(piece[count]):
                    return []
            rows = next(rules.ranges(table), None) if len(table) else None
            if rows is None or rows[0] > 0:
                break
            run = BatchRun.of(copy, number, table, rows, at)
            if self.stop is not None and run.last.last_offset >= self.stop:
                return []
            add_run(runs, run)
            at += run.size
            if rows[1] < len(piece):
                break
        return runs

    def _skip(self, last: RecordBatch, at: int) -> list[BatchRun]:
        """Return the nearest batches that any copy of the same lineage has behind a gap."""
        if self.stop is None and not self.over_gaps:
            return []
        nearest: list[BatchRun] = []
        for copy in self.copies:
            rules = self.allowed(copy, last)
            if rules is None:
                continue
            try:
                place = self._place_beyond(copy, last.last_offset + 1)
                if place is None or not self._is_proven(copy):
                    continue
                rules.skip()
                found = self._read(copy, place, at, rules)
            except SourceError as error:
                self.on_error(copy, error)
                continue
            if not found or found[0].first_offset <= last.last_offset:
                continue
            if not nearest or found[0].first_offset < nearest[0].first_offset:
                nearest = found
        return nearest

    def _is_sure(self, copy: PartitionCopy, last: RecordBatch) -> bool:
        """Return whether the lineages of a copy and of the log do not part behind ``last``.

        They may part where its leader epoch ends, unknown where, before the batch behind.
        """
        if self.stop is None:
            return True
        same = self.behind is not None and self.behind.leader_epoch == last.leader_epoch
        return (last.leader_epoch >= 0 and (self.epochs_known or same)) or self.proven(copy)

    def _is_proven(self, copy: PartitionCopy) -> bool:
        return (self.stop is None and self.over_gaps) or self.proven(copy)

    def _place_beyond(self, copy: PartitionCopy, offset: int) -> Place | None:
        """Return the place of the first batch of a copy that reaches ``offset``."""
        start = place_of_segment_with(copy, offset)
        for number, piece in () if start is None else pieces_from(copy, start):
            if isinstance(piece, Damage) or piece.hunted:
                continue
            row = bisect_left(piece.column("last_offset"), offset)
            if row < len(piece):
                return Place(number, piece[row].position)
        return None

    def _differs(self, batch: RecordBatch) -> bool:
        return self.behind is not None and not is_same(batch, self.behind)
