"""The logs that a conversion refuses: damaged, out of order, overlapping."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kdump.audit.survey.survey import Survey
from kdump.errors import Refused
from kdump.storage.paths import AnyPath
from kdump.storage.walk import Damage, Reason


def unconvertible_log(path: AnyPath, what: str) -> Refused:
    """Return the refusal of the log at ``path``, which is damaged or out of order."""
    return Refused(
        f"{path}: {what}: only valid logs are converted. kdump truncate-to-valid truncates a "
        "corrupt log, kdump salvage copies its valid batches"
    )


def undecodable_records(path: AnyPath, what: str) -> Refused:
    """Return the refusal of the log at ``path``, whose records cannot be decoded.

    Its batches match their checksums: brokers and most repairs accept them as sound.
    """
    return Refused(
        f"{path}: {what}: only logs whose records can all be read are converted. kdump verify "
        "--deep lists the batches that cannot be read. kdump salvage leaves out batches that no "
        "reader can decode. It keeps the batches that a broker accepts, as kdump "
        "truncate-to-valid does"
    )


def damaged_log(path: AnyPath, damage: Damage) -> Refused:
    """Return the refusal of the log at ``path`` because of ``damage``."""
    return unconvertible_log(
        path,
        f"expected only valid batches, found corruption at position {damage.position} "
        f"({damage.reason.value})",
    )


def refuse_damaged(surveys: Sequence[Survey], folder: AnyPath) -> None:
    """Raise Refused if a log of the partition in ``folder`` is damaged or out of order."""
    for survey in surveys:
        log = folder / survey.segment.log.name
        if survey.damages:
            kinds = [reason.value for reason in Reason if survey.counts[reason]]
            raise unconvertible_log(
                log, f"expected only valid batches, found corruption ({', '.join(kinds)})"
            )
        if not survey.ordered:
            raise unconvertible_log(
                log, "expected offsets that rise from batch to batch, found offsets that do not"
            )
    for survey, following in pairwise(surveys):
        if survey.last_offset is not None and survey.last_offset >= following.segment.base_offset:
            raise unconvertible_log(
                folder / survey.segment.log.name,
                f"expected the log to end before {following.segment.log.name} begins, found offset "
                f"{survey.last_offset}",
            )
