"""The receipt of a salvage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kdump.audit.codes import TRANSACTION_END_LOST
from kdump.audit.replay.replay import OpenTransaction
from kdump.repair.newdir.output import Output, encode_identity, encode_output
from kdump.repair.salvage.logs import NewLog, log_name
from kdump.repair.salvage.lost_markers import TransactionEnd
from kdump.repair.salvage.offset_gaps import OffsetGap
from kdump.repair.salvage.selection import PieceSelection
from kdump.repair.salvage.stretches import Left, Stretch, Why
from kdump.repair.salvage.way_back import Command, way_back
from kdump.storage.walk import Reason

#: How many holes, and pieces that were not taken, are listed; all are counted.
LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Sums:
    """So many pieces, batches, records and bytes."""

    pieces: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0

    @classmethod
    def of(cls, pieces: Iterable[Stretch | Left]) -> Sums:
        """Those of ``pieces``."""
        count = batches = records = size = 0
        for piece in pieces:
            count += 1
            batches += piece.batches
            records += piece.records
            size += piece.stop - piece.start
        return cls(count, batches, records, size)


@dataclass(frozen=True, slots=True)
class Salvaged(Output):
    """What the salvage of a partition has written, and what not.

    ``logs`` are the new ones, ``log_end`` is the offset behind their last batch. ``open`` are
    transactions whose end is not there, ``ends`` those whose marker was lost. ``log_directory`` is
    the one that the partition stands in, None where the result does not replace the partition.
    """

    selection: PieceSelection
    logs: tuple[NewLog, ...]
    log_end: int
    offset_gaps: tuple[OffsetGap, ...]
    open: tuple[OpenTransaction, ...]
    ends: tuple[TransactionEnd, ...]
    log_directory: Path | None

    @property
    def last_stable_offset(self) -> int:
        """Where consumers of committed records stop."""
        return self.open[0].first_offset if self.open else self.log_end

    @property
    def way_back(self) -> tuple[Command, ...]:
        """The commands that put the result in the place of the partition, if it has one."""
        if self.log_directory is None:
            return ()
        return way_back(self.partition, self.destination, self.log_directory)

    @property
    def taken(self) -> Sums:
        """What was taken."""
        return Sums.of(self.selection.stretches)

    @property
    def left(self) -> dict[Reason | Why, Sums]:
        """What was not taken, by reason."""
        pieces: dict[Reason | Why, list[Left]] = defaultdict(list)
        for left in self.selection.left:
            pieces[left.why].append(left)
        return {why: Sums.of(each) for why, each in pieces.items()}


def encode(salvaged: Salvaged) -> dict[str, Any]:
    """Return ``salvaged`` as JSON has it, without its paths; lists are cut at ``LISTED``."""
    selection, taken = salvaged.selection, salvaged.taken
    left = [one for one in selection.left if one.size]
    fields = {
        "segments": _segments(salvaged),
        "taken": _sums(taken),
        "log_start_offset": salvaged.logs[0].base_offset,
        "log_end_offset": salvaged.log_end,
        "hole_count": len(salvaged.offset_gaps),
        "holes": [_gap(selection, one) for one in salvaged.offset_gaps[:LISTED]],
        "left_sums": {why.value: _sums(sums) for why, sums in salvaged.left.items()},
        "left": [_left(selection, one) for one in left[:LISTED]],
        "unread": list(selection.errors),
        "open_transactions": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            }
            for one in salvaged.open[:LISTED]
        ],
        "last_stable_offset": salvaged.last_stable_offset,
        "transaction_end_count": len(salvaged.ends),
        "transaction_ends": [_end(each) for each in salvaged.ends[:LISTED]],
    }
    return encode_output(salvaged, "salvage", fields)


def _end(each: TransactionEnd) -> dict[str, Any]:
    end = each.end
    return {
        "producer_id": end.producer,
        "first_offset": end.begin,
        "missing_first_offset": end.first,
        "missing_last_offset": end.last,
        "fate": end.fate.value,
        "code": TRANSACTION_END_LOST.name if each.lost else None,
        "marker_offset": each.marker,
        "read_committed": each.served,
    }


def _segments(salvaged: Salvaged) -> list[dict[str, Any]]:
    selection = salvaged.selection
    new = {log.number: log for log in salvaged.logs}
    told = []
    for number, (segment, identity) in enumerate(
        zip(selection.segments, selection.identities, strict=True)
    ):
        log = new.get(number)
        sums = Sums.of(() if log is None else log.stretches)
        told.append(
            {
                "log": segment.log.name,
                "identity": None if identity is None else encode_identity(identity),
                "new_log": None if log is None else log_name(log),
                **_sums(sums),
            }
        )
    return told


def _sums(sums: Sums) -> dict[str, int]:
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
