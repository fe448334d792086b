"""The proof that executors have read each log exactly once: a row for each reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kdump.audit.checks.read_errors import UNREADABLE, verify_again
from kdump.audit.findings import Detail, Finding
from kdump.audit.run.target_tasks import LedgerLine
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Target
from kdump.storage.paths import AnyPath


def coverage_findings(
    target: Target, inventory: Inventory, lines: Iterable[LedgerLine], reported: Iterable[AnyPath]
) -> Iterator[Finding]:
    """Yield a finding for each log of the ``inventory`` of a target that was not read exactly once.

    ``reported`` are logs without a line, which another finding explains.
    """
    counts = Counter(line.path.name for line in lines)
    counts.update(path.name for path in reported)
    for name in inventory.logs:
        if (count := counts[name]) != 1:
            yield missing_result(target, inventory.folder / name, f"{count} lines of the ledger")


def missing_result(target: Target, path: AnyPath, found: str) -> Finding:
    """Return the finding of a path for which no executor has sent a result."""
    detail = Detail("a single result of an executor", found)
    return Finding(UNREADABLE, path, detail=detail, remedy=verify_again(target.path))
