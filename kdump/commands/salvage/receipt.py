"""The receipt of a salvage."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

from kdump.audit.checks.transactions import TRANSACTION_END_LOST
from kdump.audit.replay.replay import OpenTransaction
from kdump.commands.salvage.logs import SalvagedLog, log_name
from kdump.commands.salvage.lost_markers import TransactionEnd
from kdump.commands.salvage.offset_gaps import OffsetGap
from kdump.commands.salvage.selection import PieceSelection
from kdump.commands.salvage.stretches import Left, Stretch, Why
from kdump.repair.healing.alignment import BatchRun
from kdump.repair.healing.draft import Draft
from kdump.repair.newdir.output import NewDirectory, encode_identity, encode_output
from kdump.storage.paths import AnyPath, typed_text
from kdump.storage.walk import Reason
from kdump.values import frozen

#: The most gaps and pieces that a receipt lists; it counts all of them.
LISTED: Final = 1_000


@frozen
class SalvageSums:
    """Counts of pieces, batches, records and bytes."""

    pieces: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0

    @classmethod
    def of(cls, pieces: Iterable[Stretch | Left]) -> SalvageSums:
        """Return the sums of ``pieces``."""
        count = batches = records = size = 0
        for piece in pieces:
            count += 1
            batches += piece.batches
            records += piece.records
            size += piece.stop - piece.start
        return cls(count, batches, records, size)


@frozen
class Salvaged(NewDirectory):
    """The result of a salvage: the new logs, and the pieces that were left out.

    ``log_end`` is the offset after the last batch of ``logs``. ``open`` are the transactions
    without an end, ``ends`` the transactions whose marker was lost. ``log_directory`` is that of
    the partition, None if the result does not replace the partition. ``runs`` are the batches of
    other copies, with the log that they are in; ``copies`` are all copies, the partition first,
    none if there is only one.
    """

    selection: PieceSelection
    logs: tuple[SalvagedLog, ...]
    log_end: int
    offset_gaps: tuple[OffsetGap, ...]
    open: tuple[OpenTransaction, ...]
    ends: tuple[TransactionEnd, ...]
    log_directory: Path | None
    runs: tuple[tuple[Draft, BatchRun], ...] = ()
    copies: tuple[AnyPath, ...] = ()

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, where consumers with read_committed stop."""
        return self.open[0].first_offset if self.open else self.log_end

    @property
    def way_back(self) -> tuple[Command, ...]:
        """The commands that replace the partition by the result; none if it is not replaced."""
        if self.log_directory is None:
            return ()
        return way_back(self.partition, self.destination, self.log_directory)

    @property
    def taken(self) -> SalvageSums:
        """The sums of the pieces that were taken."""
        return SalvageSums.of(self.selection.stretches)

    @property
    def left(self) -> dict[Reason | Why, SalvageSums]:
        """The sums of the pieces that were not taken, by reason."""
        pieces: dict[Reason | Why, list[Left]] = defaultdict(list)
        for left in self.selection.left:
            pieces[left.why].append(left)
        return {why: SalvageSums.of(of_reason) for why, of_reason in pieces.items()}


def encode(salvaged: Salvaged) -> dict[str, Any]:
    """Return the JSON fields of ``salvaged``, without its paths; lists have at most ``LISTED``."""
    selection, taken = salvaged.selection, salvaged.taken
    left = [piece for piece in selection.left if piece.size]
    fields = {
        "segments": _segments(salvaged),
        "taken": _sums(taken),
        "log_start_offset": salvaged.logs[0].base_offset,
        "log_end_offset": salvaged.log_end,
        "hole_count": len(salvaged.offset_gaps),
        "holes": [_gap(selection, gap) for gap in salvaged.offset_gaps[:LISTED]],
        "left_sums": {why.value: _sums(sums) for why, sums in salvaged.left.items()},
        "left": [_left(selection, piece) for piece in left[:LISTED]],
        "unread": list(selection.errors),
        "open_transactions": [
            {
                "producer_id": transaction.producer_id,
                "producer_epoch": transaction.producer_epoch,
                "first_offset": transaction.first_offset,
                "last_offset": transaction.last_offset,
            }
            for transaction in salvaged.open[:LISTED]
        ],
        "last_stable_offset": salvaged.last_stable_offset,
        "transaction_end_count": len(salvaged.ends),
        "transaction_ends": [_end(transaction) for transaction in salvaged.ends[:LISTED]],
    }
    if salvaged.copies:
        fields["copies"] = [typed_text(path) for path in salvaged.copies]
        fields["taken_from"] = [_run(draft, run) for draft, run in salvaged.runs[:LISTED]]
    return encode_output(salvaged, "salvage", fields)


def _run(draft: Draft, run: BatchRun) -> dict[str, Any]:
    return {
        "log": draft.segment.log.name,
        "position": run.at,
        "bytes": run.size,
        "from": typed_text(run.log),
        "from_position": run.position,
    }


def _end(transaction: TransactionEnd) -> dict[str, Any]:
    end = transaction.end
    return {
        "producer_id": end.producer,
        "first_offset": end.begin,
        "missing_first_offset": end.first,
        "missing_last_offset": end.last,
        "fate": end.fate.value,
        "code": TRANSACTION_END_LOST.name if transaction.lost else None,
        "marker_offset": transaction.marker,
        "read_committed": transaction.served,
    }


def _segments(salvaged: Salvaged) -> list[dict[str, Any]]:
    selection = salvaged.selection
    new = {log.number: log for log in salvaged.logs}
    segments = []
    for number, (segment, identity) in enumerate(
        zip(selection.segments, selection.identities, strict=True)
    ):
        log = new.get(number)
        sums = SalvageSums.of(() if log is None else log.stretches)
        segments.append(
            {
                "log": segment.log.name,
                "identity": None if identity is None else encode_identity(identity),
                "new_log": None if log is None else log_name(log),
                **_sums(sums),
            }
        )
    return segments


def _sums(sums: SalvageSums) -> dict[str, int]:
    return {"batches": sums.batches, "records": sums.records, "bytes": sums.size}


def _gap(selection: PieceSelection, gap: OffsetGap) -> dict[str, Any]:
    return {
        "first_offset": gap.first,
        "last_offset": gap.last,
        "left": None if gap.left is None else _left(selection, gap.left),
        "pieces": gap.pieces,
        "bytes": gap.size,
    }


def _left(selection: PieceSelection, left: Left) -> dict[str, Any]:
    return {
        "log": selection.segments[left.log].log.name,
        "position": left.start,
        "size": left.size,
        "reason": left.why.value,
        "first_offset": left.first_offset,
        "last_offset": left.last_offset,
        "batches": left.batches,
        "records": left.records,
        "transaction_marker": left.marker,
    }


# --- The commands that replace the old partition by the new one.
# Spec: LogManager.loadLogs, which fails on a second directory of a partition.


Command = tuple[str, ...]


def way_back(partition: Path, destination: Path, log_directory: Path) -> tuple[Command, ...]:
    """Return the commands in order; ``partition`` is in ``log_directory``.

    The old partition moves beside ``destination``, outside of the log directory. The new one gets
    its owner. Paths are absolute, so that the commands work in any working directory.
    """
    origin, new, directory = (path.absolute() for path in (partition, destination, log_directory))
    final = directory / new.name
    free = _free(new)
    old = next(free)
    commands: list[Command] = [("mv", str(origin), str(old))]
    if origin != final and os.path.lexists(final):
        commands.append(("mv", str(final), str(next(free))))
    commands += [
        ("mv", str(new), str(final)),
        ("chown", "-R", f"--reference={old}", str(final)),
        ("kdump", "verify", str(directory)),
    ]
    return tuple(commands)


def _free(new: Path) -> Iterator[Path]:
    """Yield unused paths beside ``new``."""
    for number in count(1):
        path = new.with_name(f"{new.name}.old" + (f".{number}" if number > 1 else ""))
        if not os.path.lexists(path):
            yield path
