"""Checks of what kdump's own repairs have left in a partition.

Spec: none of Kafka's; KOD has no invariant of it. It must never change a repair's folder.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.audit import codes
from kdump.audit.facts import PartitionFacts
from kdump.audit.findings import Detail, Finding
from kdump.audit.remedies import resuming, undoing
from kdump.storage.kept import Kept, KeptState


def check_kept(facts: PartitionFacts) -> Iterator[Finding]:
    """Say of each repair whether its backup is kept, or it was interrupted."""
    if facts.repairs is None:
        return
    for one in facts.repairs.value or ():
        match one.state:
            case KeptState.DONE:
                yield _backup(one, f"the backup of {_told(one)}")
            case KeptState.PREPARED:
                yield _backup(
                    one,
                    f"{_told(one)}, prepared and not begun: nothing was changed, the next repair "
                    f"clears it",
                )
            case KeptState.PENDING | KeptState.UNDOING:
                yield _pending(facts, one)


def _backup(one: Kept, found: str) -> Finding:
    detail = Detail("nothing of a repair", found)
    return Finding(codes.BACKUP_KEPT, one.path, size=one.size_bytes, detail=detail)


def _pending(facts: PartitionFacts, one: Kept) -> Finding:
    path = facts.partition.path
    remedy, what = undoing(path, one.id), "the undoing of "
    if one.state is KeptState.PENDING:
        what = ""
        if one.command is not None:
            remedy = resuming(path, one.command)
    return Finding(
        codes.REPAIR_PENDING,
        one.path,
        size=one.size_bytes,
        detail=Detail("repairs that came to an end", f"{what}{_told(one)}, begun and not finished"),
        remedy=remedy,
    )


def _told(one: Kept) -> str:
    return f"{'a repair' if one.command is None else one.command} {one.id}"
