"""Finding codes of backups and unfinished repairs.

Brokers ignore directories in a partition. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Severity

BACKUP_KEPT: Final = FindingCode(
    "backup-kept",
    Severity.INFO,
    "A repair by kdump has left its backup in the partition, below .kdump.",
    "Ignores it. Deleting the topic deletes it too.",
    "Nothing to do. kdump undo takes the repair back, or frees the space with --discard.",
)
BACKUPS_LINKED: Final = FindingCode(
    "backups-linked",
    Severity.WARNING,
    "A symbolic link stands in the place of .kdump, the directory of the backups of repairs.",
    "Ignores it.",
    "Move the link out of the partition. kdump does not follow it, and no repair begins: what it "
    "leads to can belong to another user, or be on another disk.",
)
HOLE_SALVAGED: Final = FindingCode(
    "hole-salvaged",
    Severity.INFO,
    "Offsets are missing that a salvage by kdump could not bring along: its receipt in the "
    "partition lists them.",
    "Does not notice. Consumers go on behind them.",
    "Nothing to do. kdump undo with --discard removes the receipt: then they count as missing.",
)
REPAIR_PENDING: Final = FindingCode(
    "repair-pending",
    Severity.ERROR,
    "A repair by kdump, or the undoing of one, was interrupted, or is at work just now: the "
    "partition is partly as it was before and partly as it will be.",
    "Loses no more records at its start than it would have before the repair. But then neither "
    "the repair nor its undo can go on.",
    "Before a broker starts, run the same command again to finish it, or kdump undo to take it "
    "back.",
)
