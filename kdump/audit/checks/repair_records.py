"""Checks of backups and unfinished repairs in a partition.

KOD has no invariant of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from kdump.audit import codes
from kdump.audit.commands import resuming
from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Detail, Finding, explaining
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState

#: What says that offsets are missing.
_HOLES: Final = frozenset(
    {
        codes.BATCHES_HOLE,
        codes.BATCH_OFFSET_CHANGED,
        codes.OFFSETS_MISSING,
        codes.RECORDS_MISSING,
        codes.SEGMENTS_HOLE,
    }
)


def check_repair_records(evidence: Evidence) -> Iterator[Finding]:
    """Report the backup of each repair, and each repair that was interrupted."""
    facts = evidence.facts
    if facts is None or facts.repairs is None:
        return
    if facts.repairs_linked:
        path = facts.partition.path / FOLDERS
        yield Finding(
            codes.BACKUPS_LINKED,
            path,
            detail=Detail("a directory that a repair made", "a symbolic link"),
            remedy=explaining(codes.BACKUPS_LINKED),
        )
    for one in facts.repairs.value or ():
        match one.state:
            case RepairState.DONE:
                yield _backup(one, f"the backup of {_describe(one)}")
            case RepairState.PREPARED:
                yield _backup(
                    one,
                    f"{_describe(one)}, prepared and not begun: nothing was changed, the next "
                    "repair removes it",
                )
            case RepairState.PENDING | RepairState.UNDOING:
                yield _pending(facts, one)


def of_receipts(facts: PartitionFacts, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield ``findings`` as ``as_listed`` does, by the receipts in a partition."""
    repairs = None if facts.repairs is None else facts.repairs.value
    holes = [hole for one in repairs or () if one.state is RepairState.DONE for hole in one.gaps]
    return as_listed(holes, findings)


def as_listed(holes: Collection[tuple[int, int]], findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield ``findings``, but missing offsets inside one of ``holes`` as notes.

    ``holes`` are the first and last offsets that a receipt lists. It also has the transactions that
    end there: these are left out.
    """
    for finding in findings:
        at = finding.offsets
        if finding.code is codes.TRANSACTION_END_LOST and at is not None and at.last is not None:
            missing = at.last + 1
            if any(first <= missing <= last for first, last in holes):
                continue
        listed = (
            finding.code in _HOLES
            and not finding.repeats
            and at is not None
            and at.last is not None
            and any(first <= at.first and at.last <= last for first, last in holes)
        )
        if listed:
            remedy = explaining(codes.HOLE_SALVAGED)
            yield replace(finding, code=codes.HOLE_SALVAGED, remedy=remedy)
        else:
            yield finding


def _backup(one: RepairRecord, found: str) -> Finding:
    detail = Detail("nothing of a repair", found)
    return Finding(codes.BACKUP_KEPT, one.path, size=one.size_bytes, detail=detail)


def _pending(facts: PartitionFacts, one: RepairRecord) -> Finding:
    what = "the undo of " if one.state is RepairState.UNDOING else ""
    return Finding(
        codes.REPAIR_PENDING,
        one.path,
        size=one.size_bytes,
        detail=Detail("finished repairs", f"{what}{_describe(one)}, begun and not finished"),
        remedy=resuming(facts.partition.path, one),
    )


def _describe(one: RepairRecord) -> str:
    return f"{'a repair' if one.command is None else one.command} {one.id}"
