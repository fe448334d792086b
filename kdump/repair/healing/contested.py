"""Batches whose offset or leader epoch contradicts their neighbours, laid beside a copy.

No checksum covers these two fields. A copy that has the same checksums in the same place has the
right ones, if they fit between the neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from kdump.format.batch import BatchTable, RecordBatch
from kdump.repair.healing.alignment import BatchRun, add_run
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.lineage import AllowedBatches
from kdump.repair.healing.reading import Place, find, is_same, pieces_from, place_of_offset
from kdump.storage.walk import Damage
from kdump.values import frozen

#: The most neighbours of a contest. One flipped bit makes three, as offsets jump and then fall.
_MOST: Final = 16


@frozen
class Contest:
    """Neighbouring batches of a segment of which some are wrong, but not which.

    ``before`` and ``after`` are the batches around them, None at damage and at the ends of the log.
    """

    before: RecordBatch | None
    batches: tuple[RecordBatch, ...]
    after: RecordBatch | None


def contradict(batch: RecordBatch, following: RecordBatch, *, dense: bool) -> bool:
    """Return whether two neighbours cannot both be right. ``dense``: the log has each offset."""
    gap = following.base_offset - batch.last_offset - 1
    return gap < 0 or (dense and gap > 0) or following.leader_epoch < batch.leader_epoch


def contests(
    pieces: Iterable[BatchTable | Damage],
    before: RecordBatch | None,
    after: RecordBatch | None,
    *,
    dense: bool,
) -> Iterator[Contest]:
    """Yield the contests of a segment between the last and the first batch of its neighbours."""
    group: list[RecordBatch] = []
    start, earlier, last = None, None, before
    for batch in chain(_batches(pieces), (after, None)):
        if last is not None and batch is not None and contradict(last, batch, dense=dense):
            if not group:
                start, group = earlier, [last]
            if len(group) <= _MOST:  # longer ones are no flipped bit
                group.append(batch)
        elif group:
            if group[0] is before:  # the contest of its own segment decides about it
                start = group.pop(0)
            end = group.pop() if group and group[-1] is after else batch
            if 0 < len(group) <= _MOST:
                yield Contest(start, tuple(group), end)
            group = []
        earlier, last = last, batch


def settle(contest: Contest, copy: PartitionCopy, allowed: AllowedBatches) -> list[BatchRun]:
    """Return the batches of a copy that differ from those of a contest; none if it has others.

    Raises SourceError.
    """
    first = contest.batches[0]
    if contest.before is not None:
        place = find(copy, contest.before).after
    else:
        place = place_of_offset(copy, first.base_offset) if first.position == 0 else None
    runs: list[BatchRun] = []
    laid = () if place is None else _laid(copy, place, allowed)
    found = list(zip(contest.batches, laid, strict=False))
    for own, (number, table) in found:
        batch = table[0]
        if _checked(own) != _checked(batch):
            return []
        if not is_same(own, batch):
            add_run(runs, BatchRun.of(copy, number, table, (0, 1), own.position))
    if len(found) < len(contest.batches):
        return []
    end, after = found[-1][1][1][0], contest.after
    fits = after is None or not contradict(end, after, dense=allowed.dense)
    return runs if fits else []


def _laid(
    copy: PartitionCopy, place: Place, allowed: AllowedBatches
) -> Iterator[tuple[int, BatchTable]]:
    """Yield the batches of a copy from a place on, as far as all are allowed."""
    for number, piece in pieces_from(copy, place):
        if isinstance(piece, Damage):
            return
        for row in range(len(piece)):
            table = piece.part(row, row + 1)
            if list(allowed.ranges(table)) != [(0, 1)]:
                return
            yield number, table


def _batches(pieces: Iterable[BatchTable | Damage]) -> Iterator[RecordBatch | None]:
    """Yield the batches of a log, and None where damage parts them."""
    for piece in pieces:
        if isinstance(piece, Damage) or piece.hunted:
            yield None
        else:
            yield from piece


def _checked(batch: RecordBatch) -> tuple[int, ...]:
    """Return what is the same in two batches with the same checked bytes."""
    return batch.magic, batch.crc, batch.size, batch.last_offset - batch.base_offset
