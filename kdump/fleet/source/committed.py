"""The committed records of a partition, read in one task.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98); as ``kdump export
--read-committed`` decides.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.fleet.source.offsets import PartitionLogs
from kdump.storage.selection import HIGHEST
from kdump.tables.committed.batches import CommittedFilter
from kdump.tables.committed.plan import LogPlan, PlanTask, combine_logs, plan_log
from kdump.tables.corruption import MARKER, CorruptRange, OnCorruption
from kdump.tables.logs import Log, utf8

#: Leaves out markers alone.
WITHOUT_MARKERS: Final = CommittedFilter(array("q"), HIGHEST, ())


def committed_records(partition: PartitionLogs, corrupt: OnCorruption) -> CommittedFilter:
    """Return the filter for the batches of a partition, up to the last stable offset.

    Reads the headers of all logs of the partition, which has some. What a broker appends later is
    left out. ``corrupt`` gets each transaction of which it is undecided how it ended. Raise
    SourceError.
    """
    plans = list(_plans(partition, None))
    found = _decide(plans, partition, corrupt)
    _, last = plans[-1]
    # By the filter, not the selection of the logs: damage behind the last batch is reported too.
    return replace(found, end=min(found.end, last.last + 1))


def committed_until(
    partition: PartitionLogs, end: int, *, following: int, corrupt: OnCorruption
) -> CommittedFilter:
    """Return the filter for the batches below offset ``end``; it may not hold for later ones.

    All transactions before the evidence are decided. Headers are read up to the marker of the last
    transaction that begins below ``end``, if nothing may be lost. ``following`` is the base offset
    of the log after the evidence. ``corrupt`` is as for ``committed_records``. Raise
    SourceError, VanishedError for a log that is gone.
    """
    plans: list[tuple[Log, LogPlan]] = []
    whole = True
    for log, plan in _plans(partition, following):
        plans.append((log, plan))
        whole &= not (plan.gaps or plan.holes)
        if whole and plan.last + 1 >= end:
            found = _decide(plans, partition, lambda _: None)
            if found.end >= end:
                return found
    return _decide(plans, partition, corrupt) if plans else WITHOUT_MARKERS


def _plans(partition: PartitionLogs, following: int | None) -> Iterator[tuple[Log, LogPlan]]:
    """Read the headers of the evidence; ``following`` is the base offset of the log after it.

    Raise SourceError.
    """
    logs = partition.evidence
    bases = [*(log.base_offset for log in logs[1:]), following]
    for log, base in zip(logs, bases, strict=False):
        plan = plan_log(PlanTask(log, False, base, partition.compacted))
        if plan.error is not None:
            raise plan.error
        yield log, plan


def _decide(
    plans: Sequence[tuple[Log, LogPlan]], partition: PartitionLogs, corrupt: OnCorruption
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
    origin = plans[0][0].origin
    path = utf8(str(plans[0][0].path.parent))
    left_out = iter(found.left_out)
    lasts = {(producer, first): last for producer, first, last in zip(*[left_out] * 3, strict=True)}
    for producer, offset in found.undecided:
        detail = "damage may hold the marker of this transaction"
        last = lasts[producer, offset]
        corrupt(
            CorruptRange(
                path,
                origin.topic,
                origin.partition,
                None,
                None,
                offset,
                None if last == HIGHEST else last,
                MARKER,
                detail,
            )
        )
    return found
