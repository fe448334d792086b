"""A damaged stretch laid beside a copy of the same size.

The batches before and behind the stretch must be the same in both. The sound batches of the copy
between them are then those of the stretch, each at its position. If the copy has damage behind, its
batches must fill the stretch, and be of the leader epoch of the batch behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kdump.format.batch import BatchTable, RecordBatch
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.lineage import AllowedBatches
from kdump.repair.healing.reading import Place, is_same, pieces_from
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights
from kdump.storage.walk import Damage
from kdump.values import frozen


@frozen
class BatchRun:
    """Neighbouring sound batches of a copy: ``size`` bytes from ``position`` on of ``log``.

    ``at`` is the position that they get in the log under repair. ``segment`` is the base offset of
    their segment in the copy, ``last`` the last of them. ``rights`` are those to read ``log`` with.
    """

    at: int
    size: int
    log: AnyPath
    segment: int
    position: int
    first_offset: int
    last: RecordBatch
    rights: Rights | None

    @classmethod
    def of(
        cls, copy: PartitionCopy, number: int, table: BatchTable, rows: tuple[int, int], at: int
    ) -> BatchRun:
        """Return the run of some rows of a table from segment ``number`` of a copy."""
        first, last = table[rows[0]], table[rows[1] - 1]
        size = last.position + last.size - first.position
        segment = copy.segments[number]
        return cls(
            at,
            size,
            segment.log,
            segment.base_offset,
            first.position,
            first.base_offset,
            last,
            copy.rights,
        )

    def is_before(self, run: BatchRun) -> bool:
        """Return whether ``run`` continues this one in the same file."""
        return (self.log, self.position + self.size, self.at + self.size) == (
            run.log,
            run.position,
            run.at,
        )

    def joined(self, run: BatchRun) -> BatchRun:
        """Return both runs as one; ``run`` continues this one."""
        return replace(self, size=self.size + run.size, last=run.last)


class End(NamedTuple):
    """A batch behind a stretch, its position in the log under repair, and its island there."""

    position: int
    batch: RecordBatch
    island: int


def add_run(runs: list[BatchRun], run: BatchRun) -> None:
    """Append a run, or extend the last one by it."""
    if runs and runs[-1].is_before(run):
        runs[-1] = runs[-1].joined(run)
    else:
        runs.append(run)


def align(
    copy: PartitionCopy, place: Place, start: int, ends: Sequence[End], allowed: AllowedBatches
) -> tuple[int, list[BatchRun]] | None:
    """Lay a stretch that begins at position ``start`` beside a copy from ``place`` on.

    ``ends`` are the batches that may be behind it, by position. Returns the index of the first of
    them that the copy has at the same distance, or to which its batches lead, and the sound batches
    of the copy before it; None without one. Raises SourceError.
    """
    at, index = start, 0
    runs: list[BatchRun] = []
    for number, piece in pieces_from(copy, place):
        if isinstance(piece, Damage) and _fills(runs, start, at, ends[index], allowed):
            return index, runs
        stop = at + (piece.size if isinstance(piece, Damage) else piece.end - piece.position)
        while index < len(ends) and ends[index].position < stop:
            row = _row_of(piece, ends[index], at)
            if row is not None:
                _take(runs, copy, number, piece, row, at, allowed)
                return index, runs
            index += 1
        if index == len(ends):
            return None
        _take(runs, copy, number, piece, None, at, allowed)
        at = stop
    return (index, runs) if _fills(runs, start, at, ends[index], allowed) else None


def _fills(
    runs: Sequence[BatchRun], start: int, at: int, end: End, allowed: AllowedBatches
) -> bool:
    """Return whether runs fill a stretch from ``start`` to the batch ``end``, which is at ``at``.

    The leader of an epoch wrote one record at each offset of it.
    """
    if not runs or end.position != at or sum(run.size for run in runs) != at - start:
        return False
    last, behind = runs[-1].last, end.batch
    follows = last.last_offset + 1 == behind.base_offset
    return allowed.dense and follows and last.leader_epoch == behind.leader_epoch >= 0


def _row_of(piece: BatchTable | Damage, end: End, at: int) -> int | None:
    """Return the row of the batch behind the stretch in a piece of a copy, None without it."""
    if isinstance(piece, Damage):
        return None
    position = piece.position + end.position - at
    row = bisect_left(piece.column("position"), position)
    if row == len(piece) or piece[row].position != position:
        return None
    return row if is_same(piece[row], end.batch) else None


def _take(
    runs: list[BatchRun],
    copy: PartitionCopy,
    number: int,
    piece: BatchTable | Damage,
    stop: int | None,
    at: int,
    allowed: AllowedBatches,
) -> None:
    """Add the batches of a piece up to row ``stop`` that are allowed."""
    if isinstance(piece, Damage):
        allowed.skip()
        return
    table = piece if stop is None else piece.first(stop)
    if not len(table):
        return
    for rows in allowed.ranges(table):
        run_at = at + table[rows[0]].position - table.position
        add_run(runs, BatchRun.of(copy, number, table, rows, run_at))
