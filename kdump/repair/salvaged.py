"""Salvaged: what a salvage has written and what not, and the receipt of it, as JSON has it.

Spec: none of Kafka's. It must never hold a record's key or value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kdump.audit.codes import Severity
from kdump.audit.findings import Finding
from kdump.audit.replay import OpenTransaction
from kdump.repair.holes import Hole
from kdump.repair.picking import Picked
from kdump.repair.salvaged_logs import NewLog, log_name
from kdump.repair.stretches import Left, Stretch, Why
from kdump.storage.source import Identity
from kdump.storage.walk import Reason

#: How many holes, and pieces that were not taken, are listed; all are counted.
LISTED: Final = 1_000
_PROBLEMS: Final = frozenset({Severity.ERROR, Severity.WARNING, Severity.INCOMPLETE})


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
class Salvaged:
    """What the salvage of the partition at ``partition`` has written to ``target``, and what not.

    ``identity`` is the device and inode of ``partition``. ``logs`` are the new ones, ``log_end`` is
    the offset behind their last batch. ``files`` has size and SHA-256 of all that was written, by
    name. ``open`` are transactions whose end is not there, ``findings`` what verify says of the
    result.
    """

    id: str
    partition: Path
    target: Path
    identity: tuple[int, int]
    picked: Picked
    logs: tuple[NewLog, ...]
    log_end: int
    holes: tuple[Hole, ...]
    files: Mapping[str, tuple[int, str]]
    open: tuple[OpenTransaction, ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    begun_ns: int
    seconds: float

    @property
    def taken(self) -> Sums:
        """What was taken."""
        return Sums.of(self.picked.stretches)

    @property
    def left(self) -> dict[Reason | Why, Sums]:
        """What was not taken, by reason."""
        pieces: dict[Reason | Why, list[Left]] = defaultdict(list)
        for left in self.picked.left:
            pieces[left.why].append(left)
        return {why: Sums.of(each) for why, each in pieces.items()}

    @property
    def problems(self) -> int:
        """How many findings above info verify has about the result."""
        return sum(1 + one.repeats for one in self.findings if one.code.severity in _PROBLEMS)

    @property
    def broken(self) -> bool:
        """Whether one of these is an error."""
        return any(one.code.severity is Severity.ERROR for one in self.findings)

    @property
    def begun(self) -> str:
        """When it began, in ISO 8601."""
        return f"{datetime.fromtimestamp(self.begun_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def encode(salvaged: Salvaged) -> dict[str, Any]:
    """Return ``salvaged`` as JSON has it, without its paths; lists are cut at ``LISTED``."""
    picked, taken = salvaged.picked, salvaged.taken
    device, inode = salvaged.identity
    left = [one for one in picked.left if one.size]
    return {
        "id": salvaged.id,
        "command": "salvage",
        "begun": salvaged.begun,
        "seconds": salvaged.seconds,
        "source_identity": {"device": device, "inode": inode},
        "segments": _segments(salvaged),
        "taken": _sums(taken),
        "log_start_offset": salvaged.logs[0].base_offset,
        "log_end_offset": salvaged.log_end,
        "hole_count": len(salvaged.holes),
        "holes": [_hole(picked, one) for one in salvaged.holes[:LISTED]],
        "left_sums": {why.value: _sums(sums) for why, sums in salvaged.left.items()},
        "left": [_left(picked, one) for one in left[:LISTED]],
        "unread": list(picked.errors),
        "open_transactions": [
            {
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
            }
            for one in salvaged.open[:LISTED]
        ],
        "files": {
            name: {"size": size, "sha256": digest}
            for name, (size, digest) in sorted(salvaged.files.items())
        },
        "notes": list(salvaged.notes),
        "problems": salvaged.problems,
        "next": ["kdump", "verify"],
    }


def _segments(salvaged: Salvaged) -> list[dict[str, Any]]:
    picked = salvaged.picked
    new = {log.number: log for log in salvaged.logs}
    told = []
    for number, (segment, identity) in enumerate(
        zip(picked.segments, picked.identities, strict=True)
    ):
        log = new.get(number)
        sums = Sums.of(() if log is None else log.stretches)
        told.append(
            {
                "log": segment.log.name,
                "identity": None if identity is None else _identity(identity),
                "new_log": None if log is None else log_name(log),
                **_sums(sums),
            }
        )
    return told


def _identity(identity: Identity) -> dict[str, int]:
    return {
        "device": identity.device,
        "inode": identity.inode,
        "size": identity.size,
        "mtime_ns": identity.mtime_ns,
    }


def _sums(sums: Sums) -> dict[str, int]:
    return {"batches": sums.batches, "records": sums.records, "bytes": sums.size}


def _hole(picked: Picked, hole: Hole) -> dict[str, Any]:
    return {
        "first_offset": hole.first,
        "last_offset": hole.last,
        "left": None if hole.left is None else _left(picked, hole.left),
        "pieces": hole.pieces,
        "bytes": hole.size,
    }


def _left(picked: Picked, left: Left) -> dict[str, Any]:
    return {
        "log": picked.segments[left.log].log.name,
        "position": left.start,
        "size": left.size,
        "reason": left.why.value,
        "first_offset": left.first_offset,
        "last_offset": left.last_offset,
        "batches": left.batches,
        "records": left.records,
    }
