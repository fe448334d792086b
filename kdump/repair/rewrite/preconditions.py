"""The logs that a conversion refuses: damaged, out of order, overlapping."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from kdump.audit.survey.survey import Survey
from kdump.errors import Refused
from kdump.storage.walk import Damage, Reason


def not_convertible(path: Path, what: str) -> Refused:
    """The refusal of the log at ``path``, for which no conversion is."""
    return Refused(
        f"{path}: {what}: only sound logs are converted. kdump truncate-to-valid cuts a damaged "
        "log, kdump salvage copies its sound batches"
    )


def unreadable(path: Path, what: str) -> Refused:
    """The refusal of the log at ``path``, whose batches match their checksums, for their records.

    Brokers take such batches for sound, and so does most that repairs.
    """
    return Refused(
        f"{path}: {what}: only logs whose records can all be read are converted. kdump verify "
        "--deep lists the batches that cannot be read. kdump salvage leaves out batches that no "
        "reader can decode. It keeps the batches that a broker accepts, as kdump "
        "truncate-to-valid does"
    )


def damaged(path: Path, damage: Damage) -> Refused:
    """The refusal of the log at ``path`` for what stands in it instead of a batch."""
    return not_convertible(
        path,
        f"expected only sound batches, found damage at position {damage.position} "
        f"({damage.reason.value})",
    )


def refuse_damaged(surveys: Sequence[Survey], folder: Path) -> None:
    """Raise Refused where any log of the partition in ``folder`` is damaged or out of order."""
    for survey in surveys:
        log = folder / survey.segment.log.name
        if survey.damages:
            kinds = [reason.value for reason in Reason if survey.counts[reason]]
            raise not_convertible(
                log, f"expected only sound batches, found damage ({', '.join(kinds)})"
            )
        if not survey.ordered:
            raise not_convertible(
                log, "expected offsets that rise from batch to batch, found offsets that do not"
            )
    for before, behind in pairwise(surveys):
        if before.last_offset is not None and before.last_offset >= behind.segment.base_offset:
            raise not_convertible(
                folder / before.segment.log.name,
                f"expected the log to end before {behind.segment.log.name} begins, found offset "
                f"{before.last_offset}",
            )
