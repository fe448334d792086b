"""verify() and the quick pass as stages of Spark.

A partition that is not too large is one task. Of a larger one, and of one whose task came to no
result, the segments are read apart, and a stage behind that judges what they have shown.

What no executor has brought is a finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.fleet.job.packing import FILE_BYTES, most_together
from kdump.fleet.job.spread import Lost, counting, spread
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import Line, uncovered, unproved
from kdump.fleet.verify.task import (
    QuickTask,
    Read,
    SegmentTask,
    TargetResult,
    TargetTask,
    VerdictTask,
    carefully,
    inspect,
    judge_results,
    judge_unjudged,
    readings,
    unmapped,
    work,
)
from kdump.storage.workers import Died

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session


#: To judge a segment takes as long as to read so many bytes of one.
_JUDGED_BYTES: Final = 256 << 10


def verify(
    session: Session,
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    *,
    deep: bool,
    context: Context,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Verdict]:
    """Survey and judge ``targets``, of which ``inventories`` were taken; all come out, in order.

    ``conclude`` is called by the executor, and travels there. ``on_progress`` gets counts of bytes
    of logs that were read since its last call.
    """
    narrow = _narrowed(targets, context)
    tasks = [*_tasks(targets, inventories, narrow, session.cores, deep=deep)]
    costs = [_cost(task, inventories) for task in tasks]
    told = None
    if on_progress is not None:
        total_bytes = sum(sum(inventory.logs.values()) for inventory in inventories)
        told = counting(total_bytes, on_progress)
    ready: dict[int, Verdict] = {}
    gathered: dict[int, _Results] = defaultdict(_Results)
    again: list[SegmentTask] = []
    do = partial(work, conclude=conclude)
    for place, found in spread(session, do, tasks, costs, careful=unmapped, on_progress=told):
        task = tasks[place]
        if isinstance(task, SegmentTask):
            gathered[task.number].add(task, targets[task.number], found)
        elif isinstance(found, TargetResult) and not [
            *uncovered(task.target, task.inventory, found.lines, ())
        ]:
            ready[task.number] = found.verdict
        else:
            target = task.inventory.open(task.target)
            again += readings(task.number, target, task.context, deep=deep)
    costs = [_cost(reading, inventories) for reading in again]
    for place, found in spread(session, do, again, costs, careful=SegmentTask.unmapped):
        number = again[place].number
        gathered[number].add(again[place], targets[number], found)
    verdict_tasks = {
        number: gathered.pop(number).verdict_task(
            targets[number], inventories[number], narrow[number]
        )
        for number in sorted(gathered)
    }
    yield from _in_order(
        chain(ready.items(), _judged(session, verdict_tasks, deep=deep, conclude=conclude)),
        targets,
        lambda number, finding: judge_unjudged(verdict_tasks[number], finding, conclude),
    )


def _tasks(
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    contexts: Sequence[Context],
    cores: int,
    *,
    deep: bool,
) -> Iterator[TargetTask | SegmentTask]:
    """What is to be done of each group: all at once, if it is not too much for one task."""
    sizes = [size for inventory in inventories for size in inventory.logs.values()]
    most = most_together(sizes, cores)
    for number, (target, inventory) in enumerate(zip(targets, inventories, strict=True)):
        whole = TargetTask(number, target, inventory, contexts[number], deep)
        if _cost(whole, inventories) + FILE_BYTES <= most:
            yield whole
        else:
            yield from readings(number, inventory.open(target), contexts[number], deep=deep)


def _cost(task: TargetTask | SegmentTask, inventories: Sequence[Inventory]) -> int:
    """What a task reads, in bytes; each file but one takes as long as some of them."""
    logs = inventories[task.number].logs
    if isinstance(task, SegmentTask):
        return 0 if task.path is None else logs.get(task.path.name, 0)
    return max(sum(FILE_BYTES + size for size in logs.values()) - FILE_BYTES, 0)


def _judged(
    session: Session, tasks: Mapping[int, VerdictTask], *, deep: bool, conclude: Conclude
) -> Iterator[tuple[int, Verdict | Died | Lost]]:
    numbers = list(tasks)
    weights = [sum(_JUDGED_BYTES + len(each) for each in tasks[one].evidence) for one in numbers]
    judging = partial(judge_results, deep=deep, conclude=conclude)
    for place, found in spread(session, judging, list(tasks.values()), weights):
        yield numbers[place], found


@dataclass(slots=True)
class _Results:
    """All that was brought of one group; ``told`` are its logs that ``findings`` are about."""

    evidence: list[bytes] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    told: list[Path] = field(default_factory=list)

    def add(self, reading: SegmentTask, target: Target, found: object) -> None:
        """Take in what came of one reading."""
        if isinstance(found, Read):
            self.evidence.append(found.evidence)
            self.lines += found.lines
            return
        assert isinstance(found, Died | Lost)
        self.findings.append(_missing(target, reading.path or target.path, found))
        self.told += [] if reading.path is None else [reading.path]

    def verdict_task(self, target: Target, inventory: Inventory, context: Context) -> VerdictTask:
        """What there is to judge by it; logs that nobody has read are told."""
        findings = (*self.findings, *uncovered(target, inventory, self.lines, self.told))
        return VerdictTask(inventory.open(target), tuple(self.evidence), findings, context)


def quick_pass(
    session: Session,
    targets: Sequence[Target],
    inventories: Sequence[Inventory],
    context: Context,
    *,
    conclude: Conclude = keep_all,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Verdict]:
    """Look at the ends of ``targets``; every group comes out judged, in order.

    ``conclude`` is as for ``verify``. ``on_progress`` gets counts of groups since its last call.
    """
    narrow = _narrowed(targets, context)
    tasks = list(map(QuickTask, targets, inventories, narrow))
    told = None if on_progress is None else counting(len(targets), on_progress)
    work = partial(inspect, conclude=conclude)

    def instead(number: int, finding: Finding) -> Verdict:
        target = inventories[number].open(targets[number])
        return conclude(judge(target, [finding], context=context, quick=True))

    found = spread(session, work, tasks, [0] * len(tasks), careful=carefully, on_progress=told)
    yield from _in_order(found, targets, instead)


def _narrowed(targets: Sequence[Target], context: Context) -> list[Context]:
    """What of ``context`` is about each group; groups of one directory share it."""
    known: dict[Path | None, Context] = {}
    for target in targets:
        path = _directory(target)
        if path not in known:
            nodes = {} if path is None else {path: context.node(target)}
            known[path] = replace(context, siblings=(), strays=frozenset(), nodes=nodes)
    return [known[_directory(target)] for target in targets]


def _directory(target: Target) -> Path | None:
    return None if target.directory is None else target.directory.directory.path


def _in_order(
    results: Iterable[tuple[int, Verdict | Died | Lost]],
    targets: Sequence[Target],
    instead: Callable[[int, Finding], Verdict],
) -> Iterator[Verdict]:
    """Put judgements in the order of ``targets``; ``instead`` makes one where none was brought."""
    ready: dict[int, Verdict] = {}
    next_up = 0
    for number, found in results:
        target = targets[number]
        if isinstance(found, Verdict):
            directory = None if found.target.error else target.directory
            ready[number] = replace(found, target=replace(found.target, directory=directory))
        else:
            ready[number] = instead(number, _missing(target, target.path, found))
        while next_up in ready:
            yield ready.pop(next_up)
            next_up += 1


def _missing(target: Target, path: Path, found: Died | Lost) -> Finding:
    """What is to be said of a path that no executor has brought a result of."""
    if isinstance(found, Died):
        return killed_reader(path, found, target)
    return unproved(target, path, found.text)
