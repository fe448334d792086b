"""The committed records of a partition, read in one task.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98); as ``kdump export
--read-committed`` decides.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.errors import DecodeError, VanishedError
from kdump.export.committed import CommittedFilter
from kdump.export.plan import LogPlan, PlanTask, combine_logs, plan_log
from kdump.fleet.source.offsets import PartitionLogs
from kdump.storage.selection import HIGHEST
from kdump.tables.logs import Log

#: Leaves out markers alone.
WITHOUT_MARKERS: Final = CommittedFilter(array("q"), HIGHEST, ())


def committed_logs(
    partition: PartitionLogs, *, strict: bool
) -> tuple[tuple[Log, ...], CommittedFilter]:
    """Return the logs that are read up to the last stable offset, and the filter for their batches.

    Reads the headers of all logs of the partition, which has some. What a broker appends later is
    left out. Raise DecodeError if it is undecided how a transaction ended, and that is ``strict``.
    """
    plans = list(_plans(partition, None))
    found = _decide(plans, partition, strict=strict)
    lasts = {log.path: min(plan.last, found.end - 1) for log, plan in plans}
    return tuple(_log_up_to(log, lasts[log.path]) for log in partition.logs), found


def committed_until(
    partition: PartitionLogs, end: int, *, following: int, strict: bool
) -> CommittedFilter:
    """Return the filter for the batches below offset ``end``; it may not hold for later ones.

    All transactions before the evidence are decided. Headers are read up to the marker of the last
    transaction that begins below ``end``, if nothing may be lost. ``following`` is the base offset
    of the log after the evidence. Raise DecodeError as ``committed_logs`` does, and VanishedError
    for a log that is gone.
    """
    plans: list[tuple[Log, LogPlan]] = []
    whole = True
    for log, plan in _plans(partition, following):
        if not log.path.exists():
            raise VanishedError(log.path, f"{log.path}: expected a log, found nothing")
        plans.append((log, plan))
        whole &= not (plan.gaps or plan.holes)
        if whole and plan.last + 1 >= end:
            found = _decide(plans, partition, strict=False)
            if found.end >= end:
                return found
    return _decide(plans, partition, strict=strict) if plans else WITHOUT_MARKERS


def _plans(partition: PartitionLogs, following: int | None) -> Iterator[tuple[Log, LogPlan]]:
    """Read the headers of the evidence; ``following`` is the base offset of the log after it."""
    logs = partition.evidence
    bases = [*(log.base_offset for log in logs[1:]), following]
    for log, base in zip(logs, bases, strict=False):
        yield log, plan_log(PlanTask(log, False, base, partition.compacted))


def _decide(
    plans: Sequence[tuple[Log, LogPlan]], partition: PartitionLogs, *, strict: bool
) -> CommittedFilter:
    """Return the filter for the batches of logs in which a partition's transactions are decided."""
    transactions = combine_logs(
        [(log.base_offset, plan) for log, plan in plans], compacted=partition.compacted
    )
    found = CommittedFilter.from_copies([transactions])
    if found.undecided and partition.coordinator is not None:
        transactions = transactions.with_coordinator(
            partition.coordinator, partition.topic_partition
        )
        found = CommittedFilter.from_copies([transactions])
    if found.undecided and strict:
        _, offset = found.undecided[0]
        log, _ = plans[0]
        raise DecodeError(
            f"{log.path.parent}: expected the marker of the transaction from offset {offset} on, "
            "found damage that may hold it"
        )
    return found


def _log_up_to(log: Log, offset: int) -> Log:
    last = min(log.selection.last_offset, offset)
    return replace(log, selection=replace(log.selection, last_offset=last))
