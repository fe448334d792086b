"""The batches that follow a batch, from the first copies that have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kdump.errors import SourceError
from kdump.format.batch import RecordBatch
from kdump.repair.heal.alignment import Run, add_run
from kdump.repair.heal.copies import PartitionCopy
from kdump.repair.heal.lineage import AllowedBatches
from kdump.repair.heal.reading import Place, is_same, pieces_from, place_after
from kdump.storage.walk import Damage
from kdump.values import frozen

AllowedAfter = Callable[[PartitionCopy, int, int], AllowedBatches | None]
"""Returns what may be taken from a copy behind an epoch, from an offset on; None for nothing."""

OnError = Callable[[PartitionCopy, SourceError], None]
"""Called with a copy that cannot be read."""


@frozen
class Chain:
    """The batches that follow a batch: ``runs`` in order.

    ``complete``: they reach up to the batch behind, or to the offset where it begins.
    """

    runs: tuple[Run, ...]
    complete: bool

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(run.size for run in self.runs)


def follow(
    copies: Sequence[PartitionCopy],
    last: RecordBatch,
    stop: int | None,
    behind: RecordBatch | None,
    allowed: AllowedAfter,
    on_error: OnError,
) -> Chain:
    """Return the batches behind ``last`` below offset ``stop``; None for no end.

    ``behind`` is the batch at ``stop``: a copy that has another one there gives nothing.
    """
    runs: list[Run] = []
    at, going = 0, True
    while going:
        going = False
        for copy in copies:
            found = _follow_in(copy, last, stop, behind, at, allowed, on_error)
            for run in found:
                add_run(runs, run)
            if found:
                last, at, going = found[-1].last, at + sum(run.size for run in found), True
                if stop is not None and last.last_offset + 1 >= stop:
                    return Chain(tuple(runs), complete=True)
    return Chain(tuple(runs), complete=False)


def _follow_in(
    copy: PartitionCopy,
    last: RecordBatch,
    stop: int | None,
    behind: RecordBatch | None,
    at: int,
    allowed: AllowedAfter,
    on_error: OnError,
) -> list[Run]:
    """Return the batches of one copy behind ``last``."""
    rules = allowed(copy, last.leader_epoch, last.last_offset + 1)
    if rules is None:
        return []
    try:
        place = place_after(copy, last)
        return [] if place is None else _read(copy, place, stop, behind, at, rules)
    except SourceError as error:
        on_error(copy, error)
        return []


def _read(
    copy: PartitionCopy,
    place: Place,
    stop: int | None,
    behind: RecordBatch | None,
    at: int,
    rules: AllowedBatches,
) -> list[Run]:
    runs: list[Run] = []
    for number, piece in pieces_from(copy, place):
        if isinstance(piece, Damage) or piece.hunted:
            break
        table = piece
        if stop is not None:
            bases = piece.column("base_offset")
            count = next((row for row, base in enumerate(bases) if base >= stop), len(piece))
            if count < len(piece):
                if behind is not None and not is_same(piece[count], behind):
                    return []
                table = piece.first(count)
        rows = next(rules.ranges(table), None) if len(table) else None
        if rows is None or rows[0] > 0:
            break
        if stop is not None and table[rows[1] - 1].last_offset >= stop:
            return []
        run = Run.of(copy, number, table, rows, at)
        add_run(runs, run)
        at += run.size
        if rows[1] < len(piece):
            break
    return runs
