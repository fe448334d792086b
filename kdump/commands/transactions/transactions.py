"""Transactions of coordinators beside the logs that they write to: which are late, which hang.

Spec: ``TransactionsCommand.FindHangingTransactionsCommand`` (KIP-664), ``TransactionStateManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum

from kdump.audit.facts.coordinator import TopicPartition, TransactionStatus
from kdump.audit.replay.replay import OpenTransaction
from kdump.audit.targets.scope import Scope, directories_of
from kdump.commands.transactions.open_transactions import (
    LogTask,
    LogTransactions,
    read_transactions,
)
from kdump.commands.transactions.transaction_state import OPEN_STATES, TransactionState, read_states
from kdump.coordinators.extents import find_logs
from kdump.coordinators.log import LogFault, Undecodable
from kdump.coordinators.partitions import (
    CoordinatorPartition,
    absent_partitions,
    partition_count,
    read_partitions,
)
from kdump.errors import KdumpError, SourceError
from kdump.storage import workers
from kdump.storage.names import CLUSTER_METADATA_TOPIC, TRANSACTION_TOPIC
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class TransactionVerdict(StrEnum):
    """What becomes of a transaction.

    ONGOING         Its producer may still end it; the coordinator aborts it after its timeout.
    LATE            It is older than its timeout: a coordinator that runs aborts it.
    MARKER_MISSING  The coordinator has decided, and has yet to write the marker.
    HANGING         It is open in a log, and no coordinator has to end it.
    UNKNOWN         It is open in a log, and the coordinator's log is not at hand.
    """

    ONGOING = "ongoing"
    LATE = "late"
    MARKER_MISSING = "marker missing"
    HANGING = "hanging"
    UNKNOWN = "unknown"


@frozen
class PartitionTransaction:
    """A transaction in a partition.

    ``state`` is that of its coordinator, None where no coordinator knows it. ``found`` is the open
    transaction in the log, None where the log has none or is not at hand; ``log`` is None if it is
    not at hand.
    """

    topic: str
    partition: int
    state: TransactionState | None
    found: OpenTransaction | None
    log: LogTransactions | None
    verdict: TransactionVerdict

    @property
    def producer_id(self) -> int:
        """The id of its producer."""
        if self.found is not None:
            return self.found.producer_id
        assert self.state is not None
        return self.state.producer_id

    @property
    def holds_stable_offset(self) -> bool:
        """Whether the last stable offset of the log waits for it."""
        return self.log is not None and self.found is not None and self.found is self.log.open[0]


@frozen
class Transactions:
    """All transactions of the paths of a command.

    ``whole`` says that all partitions of the coordinators' topic were read without a fault.
    ``logs`` counts the partitions whose logs were read. ``now_ms`` is the time by which ages count:
    the present, or for a stopped node the time of its last write.
    """

    states: tuple[TransactionState, ...]
    open: tuple[PartitionTransaction, ...]
    partitions: tuple[int, ...]
    whole: bool
    logs: int
    faults: tuple[LogFault, ...]
    undecodable: tuple[tuple[AnyPath, Undecodable], ...]
    now_ms: int


def find_transactions(
    scope: Scope, *, jobs: int, on_progress: Callable[[int], None]
) -> Transactions:
    """Read the coordinators' topic and the logs of a scope, with at most ``jobs`` workers.

    ``on_progress`` gets the count of partitions that were read. Raises KdumpError.
    """
    partitions = CoordinatorPartition.find(scope, TRANSACTION_TOPIC)
    states: list[TransactionState] = []
    faults = [*absent_partitions(scope, TRANSACTION_TOPIC).values()]
    undecodable: list[tuple[AnyPath, Undecodable]] = []
    with closing(read_partitions(partitions, jobs=jobs, on_progress=lambda _: None)) as loaded:
        for partition, path, log in loaded:
            found, unread = read_states(log, partition.number)
            states.extend(found)
            undecodable.extend((path, each) for each in unread)
            faults.extend(partition.faults(log))
            on_progress(1)
    count = partition_count(scope, TRANSACTION_TOPIC)
    numbers = tuple(partition.number for partition in partitions)
    whole = count is not None and set(numbers) >= set(range(count))
    whole = whole and not faults and not undecodable
    logs = _read_logs(scope, jobs, faults, on_progress)
    now_ms = _now_ms(scope)
    return Transactions(
        tuple(states),
        tuple(_join(states, logs, now_ms, whole=whole)),
        numbers,
        whole,
        len(logs),
        tuple(faults),
        tuple(undecodable),
        now_ms,
    )


def _read_logs(
    scope: Scope, jobs: int, faults: list[LogFault], on_progress: Callable[[int], None]
) -> Mapping[TopicPartition, LogTransactions]:
    """Return the open transactions of each partition, of its longest copy."""
    tasks = [
        (place, LogTask(path, directory))
        for place, copies in find_logs(directories_of(scope.roots)).items()
        if place[0] not in (CLUSTER_METADATA_TOPIC, TRANSACTION_TOPIC)
        for path, directory in copies
    ]

    def work(
        task: tuple[TopicPartition, LogTask], _: Callable[[int], None]
    ) -> LogTransactions | SourceError:
        return read_transactions(task[1])

    logs: dict[TopicPartition, LogTransactions] = {}
    with closing(workers.run(work, tasks, jobs)) as results:
        for result in results:
            place, task = result.task
            value = result.value
            on_progress(1)
            if isinstance(value, KdumpError | workers.WorkerDied):
                reason = value.label if isinstance(value, workers.WorkerDied) else str(value)
                faults.append(LogFault(task.path, None, None, reason, damaged=False))
            elif place not in logs or value.end_offset > logs[place].end_offset:
                logs[place] = value
    return logs


def _join(
    states: Iterable[TransactionState],
    logs: Mapping[TopicPartition, LogTransactions],
    now_ms: int,
    *,
    whole: bool,
) -> Iterator[PartitionTransaction]:
    by_producer = {state.producer_id: state for state in states}
    joined: set[tuple[int, TopicPartition]] = set()
    for place, log in sorted(logs.items()):
        for found in log.open:
            state = by_producer.get(found.producer_id)
            joined.add((found.producer_id, place))
            verdict = _verdict(state, place, now_ms, whole=whole)
            yield PartitionTransaction(*place, state, found, log, verdict)
    for state in by_producer.values():
        for place in sorted(state.partitions) if state.status in OPEN_STATES else ():
            log_of_place = logs.get(place)
            marked = state.status != TransactionStatus.ONGOING and log_of_place is not None
            if (state.producer_id, place) not in joined and not marked:
                verdict = _verdict(state, place, now_ms, whole=whole)
                yield PartitionTransaction(*place, state, None, log_of_place, verdict)


def _verdict(
    state: TransactionState | None, place: TopicPartition, now_ms: int, *, whole: bool
) -> TransactionVerdict:
    if state is None:
        return TransactionVerdict.HANGING if whole else TransactionVerdict.UNKNOWN
    if state.status not in OPEN_STATES or place not in state.partitions:
        return TransactionVerdict.HANGING
    if state.status != TransactionStatus.ONGOING:
        return TransactionVerdict.MARKER_MISSING
    late = state.start_ms is not None and now_ms > state.start_ms + state.timeout_ms
    return TransactionVerdict.LATE if late else TransactionVerdict.ONGOING


def _now_ms(scope: Scope) -> int:
    directories: Sequence[int] = [
        facts.written_ms if facts.stopped else scope.context.now_ms
        for facts in directories_of(scope.roots)
    ]
    return max(directories, default=0) or scope.context.now_ms
