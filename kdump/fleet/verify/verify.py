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

from kdump.audit.checks.read_errors import killed
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Group
from kdump.audit.verdicts.verdict import Conclude, Judged, as_it_is
from kdump.fleet.job.packing import FILE_BYTES, most_together
from kdump.fleet.job.spread import Lost, counting, spread
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import Line, uncovered, unproved
from kdump.fleet.verify.task import (
    Case,
    Done,
    Glance,
    Read,
    Reading,
    Whole,
    carefully,
    judge_results,
    judge_unjudged,
    inspect,
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
    groups: Sequence[Group],
    inventories: Sequence[Inventory],
    *,
    deep: bool,
    context: Context,
    conclude: Conclude = as_it_is,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Judged]:
    """Survey and judge ``groups``, of which ``inventories`` were taken; all come out, in order.

    ``conclude`` is called by the executor, and travels there. ``on_progress`` gets counts of bytes
    of logs that were read since its last call.
    """
    narrow = _narrowed(groups, context)
    tasks = [*_tasks(groups, inventories, narrow, session.cores, deep=deep)]
    costs = [_cost(task, inventories) for task in tasks]
    told = None
    if on_progress is not None:
        total_bytes = sum(sum(inventory.logs.values()) for inventory in inventories)
        told = counting(total_bytes, on_progress)
    ready: dict[int, Judged] = {}
    gathered: dict[int, _Gathered] = defaultdict(_Gathered)
    again: list[Reading] = []
    do = partial(work, conclude=conclude)
    for place, found in spread(session, do, tasks, costs, careful=unmapped, on_progress=told):
        task = tasks[place]
        if isinstance(task, Reading):
            gathered[task.number].add(task, groups[task.number], found)
        elif isinstance(found, Done) and not [
            *uncovered(task.group, task.inventory, found.lines, ())
        ]:
            ready[task.number] = found.judged
        else:
            group = task.inventory.open(task.group)
            again += readings(task.number, group, task.context, deep=deep)
    costs = [_cost(reading, inventories) for reading in again]
    for place, found in spread(session, do, again, costs, careful=Reading.unmapped):
        number = again[place].number
        gathered[number].add(again[place], groups[number], found)
    cases = {
        number: gathered.pop(number).case(groups[number], inventories[number], narrow[number])
        for number in sorted(gathered)
    }
    yield from _in_order(
        chain(ready.items(), _judged(session, cases, deep=deep, conclude=conclude)),
        groups,
        lambda number, finding: judge_unjudged(cases[number], finding, conclude),
    )


def _tasks(
    groups: Sequence[Group],
    inventories: Sequence[Inventory],
    contexts: Sequence[Context],
    cores: int,
    *,
    deep: bool,
) -> Iterator[Whole | Reading]:
    """What is to be done of each group: all at once, if it is not too much for one task."""
    sizes = [size for inventory in inventories for size in inventory.logs.values()]
    most = most_together(sizes, cores)
    for number, (group, inventory) in enumerate(zip(groups, inventories, strict=True)):
        whole = Whole(number, group, inventory, contexts[number], deep)
        if _cost(whole, inventories) + FILE_BYTES <= most:
            yield whole
        else:
            yield from readings(number, inventory.open(group), contexts[number], deep=deep)


def _cost(task: Whole | Reading, inventories: Sequence[Inventory]) -> int:
    """What a task reads, in bytes; each file but one takes as long as some of them."""
    logs = inventories[task.number].logs
    if isinstance(task, Reading):
        return 0 if task.path is None else logs.get(task.path.name, 0)
    return max(sum(FILE_BYTES + size for size in logs.values()) - FILE_BYTES, 0)


def _judged(
    session: Session, cases: Mapping[int, Case], *, deep: bool, conclude: Conclude
) -> Iterator[tuple[int, Judged | Died | Lost]]:
    numbers = list(cases)
    weights = [sum(_JUDGED_BYTES + len(each) for each in cases[one].evidence) for one in numbers]
    judging = partial(judge_results, deep=deep, conclude=conclude)
    for place, found in spread(session, judging, list(cases.values()), weights):
        yield numbers[place], found


@dataclass(slots=True)
class _Gathered:
    """All that was brought of one group; ``told`` are its logs that ``findings`` are about."""

    evidence: list[bytes] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    told: list[Path] = field(default_factory=list)

    def add(self, reading: Reading, group: Group, found: object) -> None:
        """Take in what came of one reading."""
        if isinstance(found, Read):
            self.evidence.append(found.evidence)
            self.lines += found.lines
            return
        assert isinstance(found, Died | Lost)
        self.findings.append(_missing(group, reading.path or group.path, found))
        self.told += [] if reading.path is None else [reading.path]

    def case(self, group: Group, inventory: Inventory, context: Context) -> Case:
        """What there is to judge by it; logs that nobody has read are told."""
        findings = (*self.findings, *uncovered(group, inventory, self.lines, self.told))
        return Case(inventory.open(group), tuple(self.evidence), findings, context)


def quick_pass(
    session: Session,
    groups: Sequence[Group],
    inventories: Sequence[Inventory],
    context: Context,
    *,
    conclude: Conclude = as_it_is,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Judged]:
    """Look at the ends of ``groups``; every group comes out judged, in order.

    ``conclude`` is as for ``verify``. ``on_progress`` gets counts of groups since its last call.
    """
    narrow = _narrowed(groups, context)
    tasks = list(map(Glance, groups, inventories, narrow))
    told = None if on_progress is None else counting(len(groups), on_progress)
    work = partial(inspect, conclude=conclude)

    def instead(number: int, finding: Finding) -> Judged:
        group = inventories[number].open(groups[number])
        return conclude(judge(group, [finding], context=context, quick=True))

    found = spread(session, work, tasks, [0] * len(tasks), careful=carefully, on_progress=told)
    yield from _in_order(found, groups, instead)


def _narrowed(groups: Sequence[Group], context: Context) -> list[Context]:
    """What of ``context`` is about each group; groups of one directory share it."""
    known: dict[Path | None, Context] = {}
    for group in groups:
        path = _directory(group)
        if path not in known:
            nodes = {} if path is None else {path: context.node(group)}
            known[path] = replace(context, siblings=(), strays=frozenset(), nodes=nodes)
    return [known[_directory(group)] for group in groups]


def _directory(group: Group) -> Path | None:
    return None if group.directory is None else group.directory.directory.path


def _in_order(
    results: Iterable[tuple[int, Judged | Died | Lost]],
    groups: Sequence[Group],
    instead: Callable[[int, Finding], Judged],
) -> Iterator[Judged]:
    """Put judgements in the order of ``groups``; ``instead`` makes one where none was brought."""
    ready: dict[int, Judged] = {}
    next_up = 0
    for number, found in results:
        group = groups[number]
        if isinstance(found, Judged):
            directory = None if found.group.error else group.directory
            ready[number] = replace(found, group=replace(found.group, directory=directory))
        else:
            ready[number] = instead(number, _missing(group, group.path, found))
        while next_up in ready:
            yield ready.pop(next_up)
            next_up += 1


def _missing(group: Group, path: Path, found: Died | Lost) -> Finding:
    """What is to be said of a path that no executor has brought a result of."""
    if isinstance(found, Died):
        return killed(path, found, group)
    return unproved(group, path, found.text)
