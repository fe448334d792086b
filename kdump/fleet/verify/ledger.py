"""The ledger: a row for each log that an executor has read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kdump.audit import codes
from kdump.audit.checks.read_errors import verify_again
from kdump.audit.findings import Detail, Finding
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import Target
from kdump.fleet.verify.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Line:
    """What was read of one log, and on which host; the offsets are None without a sound batch."""

    path: Path
    host: str
    bytes: int
    batches: int
    first_offset: int | None
    last_offset: int | None

    @classmethod
    def of(cls, survey: Survey, host: str) -> Line:
        """What a survey that was made on ``host`` comes to."""
        return cls(
            survey.segment.log,
            host,
            survey.read_bytes,
            survey.batches,
            survey.first_offset,
            survey.last_offset,
        )


def uncovered(
    target: Target, inventory: Inventory, lines: Iterable[Line], told: Iterable[Path]
) -> Iterator[Finding]:
    """Yield a finding for each log of a group's ``inventory`` that was not read just once.

    ``told`` are logs of which another finding says why there is no line.
    """
    counts = Counter(line.path.name for line in lines)
    counts.update(path.name for path in told)
    for name in inventory.logs:
        if (count := counts[name]) != 1:
            yield unproved(target, inventory.folder / name, f"{count} lines of the ledger")


def unproved(target: Target, path: Path, found: str) -> Finding:
    """Return the finding for what no executor has brought a result of."""
    detail = Detail("a single result of an executor", found)
    return Finding(codes.UNREADABLE, path, detail=detail, remedy=verify_again(target.path))
