"""verify() and the quick pass as stages of Spark.

A partition that is not too large is one task. Of a larger partition, and of one whose task has no
result, each segment is a task, and one more task checks their results as soon as they are there.

A missing result of an executor is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.findings import Finding
from kdump.audit.run.prescan import unread_verdict
from kdump.audit.run.spread import LostTask
from kdump.audit.run.target_tasks import (
    LedgerLine,
    QuickTask,
    SegmentResult,
    SegmentTask,
    TargetResult,
    TargetTask,
    VerdictTask,
    WithoutDirectory,
    inspect,
    make_partial_verdict,
    run_task,
    segment_tasks,
)
from kdump.audit.run.verification import Verification
from kdump.audit.targets.context import Context
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.fleet.job.packing import FILE_BYTES, max_task_bytes, task_cost
from kdump.fleet.job.spread import Stream, StreamEntry
from kdump.fleet.verify.ledger import coverage_findings, missing_result
from kdump.history.evidence.directory import FleetState, directory_of
from kdump.history.evidence.memory import DirectoryMemory
from kdump.storage.paths import AnyPath
from kdump.storage.workers import WorkerDied, in_order, progress_counter

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")
U = TypeVar("U", TargetTask | SegmentTask | VerdictTask, QuickTask)

#: The cost of checking a survey, in bytes read.
_SEGMENT_BYTES: Final = 256 << 10


def verify(
    session: Session,
    pairs: Sequence[tuple[Target, Inventory]],
    *,
    deep: bool,
    statistics: bool = False,
    context: Context,
    state: FleetState | None = None,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Verdict, None, None]:
    """Verify the targets of ``pairs``, and yield the verdict of each, in order.

    ``conclude`` is for verdicts alone; the rest is as for ``conclusions``.
    """
    remembers = state is not None
    verdicts = conclusions(
        session,
        pairs,
        Verification(context, deep, digest=remembers, statistics=statistics or remembers),
        state=state,
        conclude=WithoutDirectory(conclude),
        on_progress=on_progress,
    )
    with closing(verdicts):
        yield from map(_with_directory, verdicts, pairs)


def conclusions(
    session: Session,
    pairs: Sequence[tuple[Target, Inventory]],
    verification: Verification,
    *,
    state: FleetState | None = None,
    conclude: Callable[[Verdict], T],
    on_progress: Callable[[int], None] | None = None,
) -> Generator[T, None, None]:
    """Verify targets, and yield the conclusion from the verdict of each, in order.

    ``pairs`` are the targets with their inventories. They are read one by one, shortly before
    executors get them, and a conclusion comes out when those before it have. With a ``state``
    sealed segments are left out that earlier runs have read; digests and statistics are then
    needed. ``conclude`` is pickled, and the executor calls it. ``on_progress`` gets counts of bytes
    of logs that were read since its last call. Closing the iterator ends the jobs.
    """
    total_bytes = total_cost = 0
    for _, inventory in pairs:
        total_bytes += sum(inventory.logs.values())
        total_cost += task_cost(_target_cost(inventory))
    report = None if on_progress is None else progress_counter(total_bytes, on_progress)

    def about(target: Target) -> Verification:
        """Return what executors need, to read the targets of one directory."""
        memories = None if state is None else DirectoryMemory(state.about(target))
        context = verification.context and verification.context.about([target])
        return replace(verification, context=context, memories=memories)

    plan = _Plan(
        pairs,
        _Shared(about),
        Stream(session, partial(run_task, conclude=conclude), _unmap),
        max_task_bytes(total_cost, session.cores),
    )

    def fallback(task: VerdictTask, finding: Finding) -> T:
        return conclude(make_partial_verdict(task, finding))

    with closing(plan.run(fallback, total_cost, report)) as found:
        yield from in_order(found)


_Task = TargetTask | SegmentTask | VerdictTask


class _Plan(Generic[T]):
    """The tasks of targets, and what becomes of their results.

    The verdict task of a large partition follows the last result of its segments, so that evidence
    is only held for partitions that are being read.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Target, Inventory]],
        verifications: _Shared[Verification],
        stream: Stream[tuple[int, _Task], _Task, TargetResult[T] | SegmentResult | T],
        most: int,
    ) -> None:
        self._pairs = pairs
        self._verifications = verifications
        self._stream = stream
        self._most = most  # the largest cost of a target that is one task
        self._parts: dict[int, _Parts] = {}

    def run(
        self,
        fallback: Callable[[VerdictTask, Finding], T],
        total_cost: int,
        on_progress: Callable[[float], None] | None,
    ) -> Generator[tuple[int, T], None, None]:
        """Yield the conclusion on each target with its number, in any order."""
        with closing(self._stream.run(self._entries(), total_cost, on_progress)) as results:
            for (number, task), result in results:
                match task:
                    case VerdictTask(target=target):
                        if isinstance(result, WorkerDied | LostTask):
                            yield number, fallback(task, _missing(target, target.path, result))
                        else:
                            yield number, cast("T", result)
                    case TargetTask(target=target, inventory=inventory):
                        if isinstance(result, TargetResult) and not [
                            *coverage_findings(target, inventory, result.lines, ())
                        ]:
                            yield number, result.conclusion
                        else:
                            for entry in self._segments(number, target, inventory):
                                self._stream.add(entry)
                    case SegmentTask():
                        self._add(number, task, result)

    def _entries(self) -> Iterator[StreamEntry[tuple[int, _Task], _Task]]:
        """Yield the tasks of each target: one below the cost limit, else one for each segment."""
        for number, (target, inventory) in enumerate(self._pairs):
            cost = _target_cost(inventory)
            if task_cost(cost) <= self._most:
                task = TargetTask(target, inventory, self._verifications.about(target))
                yield StreamEntry((number, task), task, cost)
            else:
                yield from self._segments(number, target, inventory)

    def _segments(
        self, number: int, target: Target, inventory: Inventory
    ) -> Iterator[StreamEntry[tuple[int, _Task], _Task]]:
        verification = self._verifications.about(target)
        tasks = segment_tasks(inventory.open(target), verification)
        self._parts[number] = _Parts(target, inventory, verification, len(tasks))
        for task in tasks:
            cost = 0 if task.path is None else inventory.cost(task.path.name)
            yield StreamEntry((number, task), task, cost)

    def _add(self, number: int, task: SegmentTask, result: object) -> None:
        parts = self._parts[number]
        parts.add(task, result)
        if not parts.missing:
            del self._parts[number]
            verdict_task = parts.verdict_task()
            size = sum(_SEGMENT_BYTES + len(evidence) for evidence in verdict_task.evidence)
            self._stream.add(StreamEntry((number, verdict_task), verdict_task, size))


def _target_cost(inventory: Inventory) -> int:
    """Return the cost of a whole target; each file but the first adds ``FILE_BYTES``."""
    return max(sum(FILE_BYTES + inventory.cost(name) for name in inventory.logs) - FILE_BYTES, 0)


@dataclass(slots=True)
class _Parts:
    """The results of the segments of one target, of which ``missing`` are still to come.

    ``findings`` are about the logs ``reported``.
    """

    target: Target
    inventory: Inventory
    verification: Verification
    missing: int
    evidence: list[bytes] = field(default_factory=list)
    lines: list[LedgerLine] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    reported: list[AnyPath] = field(default_factory=list)

    def add(self, task: SegmentTask, result: object) -> None:
        """Add the result of one task."""
        self.missing -= 1
        if isinstance(result, SegmentResult):
            self.evidence.append(result.evidence)
            self.lines += result.lines
            return
        assert isinstance(result, WorkerDied | LostTask)
        self.findings.append(_missing(self.target, task.path or self.target.path, result))
        self.reported += [] if task.path is None else [task.path]

    def verdict_task(self) -> VerdictTask:
        """Return the task that checks the target; logs that were not read become findings."""
        findings = (
            *self.findings,
            *coverage_findings(self.target, self.inventory, self.lines, self.reported),
        )
        target = self.inventory.open(self.target)
        return VerdictTask(target, tuple(self.evidence), findings, self.verification)


def quick_pass(
    session: Session,
    pairs: Sequence[tuple[Target, Inventory]],
    *,
    context: Context,
    statistics: bool = False,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Verdict, None, None]:
    """Read the ends of the targets of ``pairs``, and yield the verdict of each, in order.

    ``conclude`` and ``statistics`` are as for ``verify``. ``on_progress`` gets counts of targets
    since its last call.
    """
    contexts = _Shared(lambda target: context.about([target]))

    def entries() -> Iterator[StreamEntry[tuple[int, QuickTask], QuickTask]]:
        for number, (target, inventory) in enumerate(pairs):
            task = QuickTask(target, inventory, contexts.about(target))
            yield StreamEntry((number, task), task, 0)

    report = None if on_progress is None else progress_counter(len(pairs), on_progress)
    work = partial(inspect, conclude=WithoutDirectory(conclude), statistics=statistics)
    stream: Stream[tuple[int, QuickTask], QuickTask, Verdict] = Stream(session, work, _unmap)

    def verdict(task: QuickTask, result: Verdict | WorkerDied | LostTask) -> Verdict:
        if isinstance(result, Verdict):
            return result
        target = task.inventory.open(task.target)
        return conclude(unread_verdict(target, _missing(target, target.path, result), task.context))

    with closing(stream.run(entries(), task_cost(0) * len(pairs), report)) as results:
        verdicts = in_order((number, verdict(task, result)) for (number, task), result in results)
        yield from map(_with_directory, verdicts, pairs)


def _unmap(task: U) -> U:
    """Return a task for a second attempt: the first may have died of a mapped file."""
    return task.unmap()


class _Shared(Generic[T]):
    """Values that ``make`` returns, one for the targets of each directory, which share it."""

    def __init__(self, make: Callable[[Target], T]) -> None:
        self._make = make
        self._by_directory: dict[AnyPath, T] = {}

    def about(self, target: Target) -> T:
        """Return the value for ``target``."""
        path = directory_of(target)
        if path not in self._by_directory:
            self._by_directory[path] = self._make(target)
        return self._by_directory[path]


def _with_directory(verdict: Verdict, pair: tuple[Target, Inventory]) -> Verdict:
    """Return the verdict on a target with the log directory, which did not travel."""
    target, _ = pair
    return verdict.with_directory(None if verdict.target.error else target.directory)


def _missing(target: Target, path: AnyPath, result: WorkerDied | LostTask) -> Finding:
    """Return the finding of a path for which no executor has sent a result."""
    if isinstance(result, WorkerDied):
        return killed_reader(path, result, target)
    return missing_result(target, path, result.text)
