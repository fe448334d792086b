"""The committed records of a partition, read in one task.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98); as ``kdump export
--read-committed`` decides.
"""

from __future__ import annotations

from dataclasses import replace

from kdump.errors import DecodeError
from kdump.export.committed import CommittedFilter
from kdump.export.plan import PlanTask, combine_logs, plan_log
from kdump.fleet.source.offsets import PartitionLogs
from kdump.tables.logs import Log


def committed_logs(
    partition: PartitionLogs, *, strict: bool
) -> tuple[tuple[Log, ...], CommittedFilter]:
    """Return the logs that are read up to the last stable offset, and the filter for their batches.

    Reads the headers of all logs of the partition, which has some. What a broker appends later is
    left out. Raise DecodeError if it is undecided how a transaction ended, and that is ``strict``.
    """
    logs = partition.evidence
    following = [*(log.base_offset for log in logs[1:]), None]
    plans = {
        log.path: plan_log(PlanTask(log, False, after, partition.compacted))
        for log, after in zip(logs, following, strict=True)
    }
    transactions = combine_logs(
        [(log.base_offset, plans[log.path]) for log in logs], compacted=partition.compacted
    )
    found = CommittedFilter.from_copies([transactions])
    if found.undecided and partition.coordinator is not None:
        transactions = transactions.with_coordinator(
            partition.coordinator, partition.topic_partition
        )
        found = CommittedFilter.from_copies([transactions])
    if found.undecided and strict:
        _, offset = found.undecided[0]
        raise DecodeError(
            f"{logs[0].path.parent}: expected the marker of the transaction from offset {offset} "
            "on, found damage that may hold it"
        )
    return tuple(
        _log_up_to(log, min(plans[log.path].last, found.end - 1)) for log in partition.logs
    ), found


def _log_up_to(log: Log, offset: int) -> Log:
    last = min(log.selection.last_offset, offset)
    return replace(log, selection=replace(log.selection, last_offset=last))
