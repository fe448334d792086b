"""The partitions of a coordinator's topic, and the best copy of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Final

from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target
from kdump.coordinators.extents import log_start
from kdump.coordinators.log import CoordinatorLog, LoadTask, LogFault, Select, load
from kdump.errors import KdumpError, SourceError
from kdump.storage import workers
from kdump.storage.logdir import LogDirectory, directory_name
from kdump.storage.names import OFFSETS_TOPIC, TRANSACTION_TOPIC, format_directory_name
from kdump.storage.paths import AnyPath
from kdump.tables.logs import list_logs
from kdump.values import frozen

#: The setting with the number of partitions of each topic.
_SETTINGS: Final = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_TOPIC: "transaction.state.log.num.partitions",
}
_ABSENT: Final = (
    "expected this partition, which the cluster's metadata assigns to this log directory, found "
    "none: what it holds is not shown"
)


@frozen
class CoordinatorPartition:
    """A partition of a coordinator's topic, and all copies of it at hand, listed."""

    topic: str
    number: int
    copies: tuple[Target, ...]

    @classmethod
    def find(cls, scope: Scope, topic: str) -> list[CoordinatorPartition]:
        """Return the partitions of ``topic`` in a scope, by number."""
        found: dict[int, list[Target]] = defaultdict(list)
        for target in scope.targets:
            name = directory_name(target.path)
            if name is not None and (name.topic, name.suffix) == (topic, ""):
                found[name.partition].append(target.with_listing())
        return [cls(topic, number, tuple(copies)) for number, copies in sorted(found.items())]

    @property
    def size(self) -> int:
        """The bytes of the logs of all copies."""
        return sum(target.size for target in self.copies)

    def faults(self, log: CoordinatorLog) -> tuple[LogFault, ...]:
        """Return what was not read: copies that cannot be listed, and ranges of ``log``."""
        unlisted = (
            LogFault(target.path, None, None, str(target.error), damaged=False)
            for target in self.copies
            if target.error is not None
        )
        return (*unlisted, *log.faults)

    def others(self, path: AnyPath) -> tuple[AnyPath, ...]:
        """Return the paths of the copies but that at ``path``."""
        return tuple(target.path for target in self.copies if target.path != path)

    def tasks(self, select: Select | None) -> list[LoadTask]:
        """Return a task for each copy; ``select`` is as for ``LoadTask``."""
        return [
            LoadTask(
                tuple(list_logs([target])),
                0 if target.partition is None else log_start(target.partition, target.directory),
                select,
            )
            for target in self.copies
        ]


def partition_count(scope: Scope, topic: str) -> int | None:
    """Return the number of partitions of ``topic``, None if it is not certain."""
    for node in scope.context.nodes.values():
        numbers = None if node.image is None else node.image.partitions(topic)
        if numbers:
            return len(numbers)
    configured = (scope.context.config or {}).get(_SETTINGS[topic], "")
    return int(configured) if configured.isdecimal() and int(configured) else None


def absent_partitions(scope: Scope, topic: str) -> dict[int, LogFault]:
    """Return the partitions of ``topic`` that log directories of ``scope`` should have and lack.

    The cluster assigns them to these nodes, and none of their copies is at hand. Each has a fault
    with the path that its directory would have.
    """
    present = {partition.number for partition in CoordinatorPartition.find(scope, topic)}
    absent: dict[int, LogFault] = {}
    for root in scope.roots:
        if root.directory is None or not isinstance(root.content, LogDirectory):
            continue
        node, meta = scope.context.node_of(root.directory), root.directory.identity
        directory_id = None if meta is None else meta.directory_id
        numbers = None if node.image is None else node.image.partitions(topic)
        for number in numbers or ():
            held = node.other_replicas(topic, number, directory_id) is not None
            if held and number not in present:
                path = root.path / format_directory_name(topic, number)
                absent.setdefault(number, LogFault(path, None, None, _ABSENT, damaged=False))
    return absent


def read_partitions(
    partitions: Sequence[CoordinatorPartition],
    *,
    jobs: int,
    on_progress: Callable[[int], None],
    select: Select | None = None,
) -> Generator[tuple[CoordinatorPartition, AnyPath, CoordinatorLog], None, None]:
    """Read all copies in at most ``jobs`` workers; yield the best of each, in order.

    The best copy has the highest leader epoch, and of these the highest end. ``on_progress`` gets
    the bytes of each copy that was read. ``select`` is as for ``LoadTask``. Raises SourceError if a
    worker is killed.
    """

    def work(task: LoadTask, _: Callable[[int], None]) -> CoordinatorLog:
        return load(task)

    tasks = [task for partition in partitions for task in partition.tasks(select)]
    with closing(workers.run(work, tasks, jobs)) as results:
        numbered = ((result.index, result.value) for result in results)
        in_order = workers.in_order(numbered)
        for partition in partitions:
            logs: list[CoordinatorLog] = []
            for target in partition.copies:
                value = next(in_order)
                if isinstance(value, workers.WorkerDied):
                    died = f"{target.path}: {value.label} killed the process that read it"
                    raise SourceError(target.path, died)
                if isinstance(value, KdumpError):
                    raise value
                logs.append(value)
                on_progress(target.size)
            rank = [(log.epoch, log.end_offset) for log in logs]
            best = rank.index(max(rank))
            yield partition, partition.copies[best].path, logs[best]
