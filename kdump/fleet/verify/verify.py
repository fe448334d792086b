"""verify() and the quick pass as stages of Spark.

A partition that is not too large is one task. Of a larger partition, and of one whose task has no
result, each segment is a task, and a later stage checks their results.

A missing result of an executor is a finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.fleet.job.packing import FILE_BYTES, max_task_bytes
from kdump.fleet.job.spread import LostTask, spread
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import Line, coverage_findings, missing_result
from kdump.fleet.verify.task import (
    Depth,
    QuickTask,
    SegmentResult,
    SegmentTask,
    TargetResult,
    TargetTask,
    VerdictTask,
    WithoutDirectory,
    inspect,
    make_careful,
    make_partial_verdict,
    make_verdict,
    run_task,
    segment_tasks,
    unmap,
)
from kdump.storage.objects.address import AnyPath
from kdump.storage.workers import WorkerDied, in_order, progress_counter

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

T = TypeVar("T")

#: The cost of checking a survey, in bytes read.
_SEGMENT_BYTES: Final = 256 << 10


def verify(
    session: Session,
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    *,
    deep: bool,
    statistics: bool = False,
    context: Context,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Verdict]:
    """Verify ``targets``, and yield the verdict of each, in order.

    ``conclude`` is for verdicts alone; the rest is as for ``conclusions``.
    """
    verdicts = conclusions(
        session,
        targets,
        inventories,
        Depth(deep, statistics=statistics),
        context=context,
        conclude=WithoutDirectory(conclude),
        on_progress=on_progress,
    )
    return map(_with_directory, verdicts, targets)


def conclusions(
    session: Session,
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    depth: Depth,
    *,
    context: Context,
    conclude: Callable[[Verdict], T],
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[T]:
    """Verify ``targets``, and yield the conclusion from the verdict of each, in order.

    ``inventories`` are those of the targets. ``conclude`` is pickled, and the executor calls it.
    ``on_progress`` gets counts of bytes of logs that were read since its last call.
    """
    contexts = _target_contexts(targets, context)
    tasks = [*_tasks(targets, inventories, contexts, session.cores, depth)]
    costs = [_cost(task, inventories) for task in tasks]
    report = None
    if on_progress is not None:
        total_bytes = sum(sum(inventory.logs.values()) for inventory in inventories)
        report = progress_counter(total_bytes, on_progress)
    ready: dict[int, T] = {}
    results: dict[int, _Results] = defaultdict(_Results)
    retries: list[SegmentTask] = []
    work = partial(run_task, conclude=conclude)
    for index, result in spread(session, work, tasks, costs, careful=unmap, on_progress=report):
        task = tasks[index]
        if isinstance(task, SegmentTask):
            results[task.number].add(task, targets[task.number], result)
        elif isinstance(result, TargetResult) and not [
            *coverage_findings(task.target, task.inventory, result.lines, ())
        ]:
            ready[task.number] = result.conclusion
        else:
            target = task.inventory.open(task.target)
            retries += segment_tasks(task.number, target, task.context, depth)
    costs = [_cost(task, inventories) for task in retries]
    for index, result in spread(session, work, retries, costs, careful=SegmentTask.unmap):
        number = retries[index].number
        results[number].add(retries[index], targets[number], result)
    verdict_tasks = {
        number: results.pop(number).verdict_task(
            targets[number], inventories[number], contexts[number]
        )
        for number in sorted(results)
    }
    found = _complete(
        chain(
            ready.items(),
            _run_verdict_tasks(session, verdict_tasks, depth, conclude),
        ),
        targets,
        lambda number, finding: conclude(make_partial_verdict(verdict_tasks[number], finding)),
    )
    yield from in_order(found)


def _tasks(
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    contexts: Sequence[Context],
    cores: int,
    depth: Depth,
) -> Iterator[TargetTask | SegmentTask]:
    """Yield the tasks of each target: one if its cost is below the limit, else one a segment."""
    sizes = [inventory.cost(name) for inventory in inventories for name in inventory.logs]
    most = max_task_bytes(sizes, cores)
    for number, (target, inventory) in enumerate(zip(targets, inventories, strict=True)):
        task = TargetTask(number, target, inventory, contexts[number], depth)
        if _cost(task, inventories) + FILE_BYTES <= most:
            yield task
        else:
            yield from segment_tasks(number, inventory.open(target), contexts[number], depth)


def _cost(task: TargetTask | SegmentTask, inventories: Sequence[Inventory]) -> int:
    """Return the cost of a task in bytes read; each file but the first adds ``FILE_BYTES``."""
    inventory = inventories[task.number]
    if isinstance(task, SegmentTask):
        return 0 if task.path is None else inventory.cost(task.path.name)
    return max(sum(FILE_BYTES + inventory.cost(name) for name in inventory.logs) - FILE_BYTES, 0)


def _run_verdict_tasks(
    session: Session,
    tasks: Mapping[int, VerdictTask],
    depth: Depth,
    conclude: Callable[[Verdict], T],
) -> Iterator[tuple[int, T | WorkerDied | LostTask]]:
    numbers = list(tasks)
    weights = [
        sum(_SEGMENT_BYTES + len(evidence) for evidence in task.evidence) for task in tasks.values()
    ]
    work = partial(make_verdict, depth=depth, conclude=conclude)
    for index, result in spread(session, work, list(tasks.values()), weights):
        yield numbers[index], result


@dataclass(slots=True)
class _Results:
    """The results of the segments of one target; ``findings`` are about the logs ``reported``."""

    evidence: list[bytes] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    reported: list[AnyPath] = field(default_factory=list)

    def add(self, task: SegmentTask, target: Target, result: object) -> None:
        """Add the result of one task."""
        if isinstance(result, SegmentResult):
            self.evidence.append(result.evidence)
            self.lines += result.lines
            return
        assert isinstance(result, WorkerDied | LostTask)
        self.findings.append(_missing(target, task.path or target.path, result))
        self.reported += [] if task.path is None else [task.path]

    def verdict_task(self, target: Target, inventory: Inventory, context: Context) -> VerdictTask:
        """Return the task that checks the target; logs that were not read become findings."""
        findings = (
            *self.findings,
            *coverage_findings(target, inventory, self.lines, self.reported),
        )
        return VerdictTask(inventory.open(target), tuple(self.evidence), findings, context)


def quick_pass(
    session: Session,
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    context: Context,
    *,
    statistics: bool = False,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Verdict]:
    """Read the ends of ``targets``, and yield the verdict of each, in order.

    ``conclude`` and ``statistics`` are as for ``verify``. ``on_progress`` gets counts of targets
    since its last call.
    """
    contexts = _target_contexts(targets, context)
    tasks = list(map(QuickTask, targets, inventories, contexts))
    report = None if on_progress is None else progress_counter(len(targets), on_progress)
    work = partial(inspect, conclude=conclude, statistics=statistics)

    def fallback(number: int, finding: Finding) -> Verdict:
        target = inventories[number].open(targets[number])
        return conclude(judge(target, [finding], context=context, quick=True))

    results = spread(
        session, work, tasks, [0] * len(tasks), careful=make_careful, on_progress=report
    )
    verdicts = in_order(_complete(results, targets, fallback))
    yield from map(_with_directory, verdicts, targets)


def _target_contexts(targets: Sequence[Target], context: Context) -> list[Context]:
    """Return the part of ``context`` about each target; targets of one directory share it."""
    context_by_directory: dict[AnyPath | None, Context] = {}
    for target in targets:
        path = _directory(target)
        if path not in context_by_directory:
            context_by_directory[path] = context.about([target])
    return [context_by_directory[_directory(target)] for target in targets]


def _directory(target: Target) -> AnyPath | None:
    return None if target.directory is None else target.directory.directory.path


def _complete(
    results: Iterable[tuple[int, T | WorkerDied | LostTask]],
    targets: Sequence[Target],
    fallback: Callable[[int, Finding], T],
) -> Iterator[tuple[int, T]]:
    """Yield results with the number of their target; ``fallback`` makes missing ones."""
    for number, result in results:
        if isinstance(result, WorkerDied | LostTask):
            target = targets[number]
            yield number, fallback(number, _missing(target, target.path, result))
        else:
            yield number, result


def _with_directory(verdict: Verdict, target: Target) -> Verdict:
    """Return the verdict on ``target`` with the log directory, which did not travel."""
    directory = None if verdict.target.error else target.directory
    return replace(verdict, target=replace(verdict.target, directory=directory))


def _missing(target: Target, path: AnyPath, result: WorkerDied | LostTask) -> Finding:
    """Return the finding of a path for which no executor has sent a result."""
    if isinstance(result, WorkerDied):
        return killed_reader(path, result, target)
    return missing_result(target, path, result.text)
