"""Finding codes of backups and unfinished repairs.

Brokers ignore directories in a partition. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Severity

BACKUP_KEPT: Final = FindingCode(
    "backup-kept",
    Severity.INFO,
    "A repair by kdump left its backup in the partition, in the directory .kdump.",
    "The broker ignores the backup. When the topic is deleted, the backup is deleted too.",
    "Nothing to do. kdump undo reverts the repair. With --discard, it removes the backup and frees "
    "the space.",
)
BACKUPS_LINKED: Final = FindingCode(
    "backups-linked",
    Severity.WARNING,
    "The .kdump of a partition, where repairs keep their backups, is a symbolic link.",
    "The broker ignores the link.",
    "Move the link out of the partition. kdump does not follow it and begins no repair: the target "
    "may belong to another user, or be on another disk.",
)
HOLE_SALVAGED: Final = FindingCode(
    "hole-salvaged",
    Severity.INFO,
    "Offsets are missing because kdump salvage could not copy their records. Its receipt in the "
    "partition lists these offsets.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Nothing to do. If kdump undo with --discard removes the receipt, kdump reports these offsets "
    "as missing.",
)
REPAIR_PENDING: Final = FindingCode(
    "repair-pending",
    Severity.ERROR,
    "A repair by kdump, or its undo, was interrupted or is still running: the partition is only "
    "partly changed.",
    "A broker that starts now loses no more records than it would have lost before the repair. But "
    "after that start, kdump can neither finish nor undo the repair.",
    "Before a broker starts, run the same command again to finish the repair, or kdump undo to "
    "revert it.",
)
