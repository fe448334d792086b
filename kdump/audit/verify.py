"""verify(): surveys every segment over a pool of workers, and judges each partition in turn.

Partitions come out in the order in which they were listed, however the workers finish. Where
files may have changed meanwhile, an error is looked at again before it is told.

Spec: none of Kafka's. A bad, unreadable or vanished file becomes a finding.
It must never map a file where a broker may be running, and never print.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from kdump.audit import codes
from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts, TopicSettings
from kdump.audit.findings import Detail, Finding
from kdump.audit.groups import Group
from kdump.audit.judge import Judged, again, judge
from kdump.audit.settling import settled
from kdump.audit.survey import Survey, survey
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.pace import Pace, use_idle_io


@dataclass(frozen=True, slots=True)
class _Task:
    group: int
    segment: Segment
    mapped: bool
    sealed: bool
    deep: bool
    settings: TopicSettings


def beside_broker(groups: Iterable[Group]) -> bool:
    """Whether a broker may be using any of ``groups``."""
    return not all(group.stopped for group in groups)


def verify(
    groups: Sequence[Group],
    *,
    deep: bool,
    jobs: int,
    facts: Mapping[Path, PartitionFacts] | None = None,
    context: Context | None = None,
    pace: Pace | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[Judged, None, None]:
    """Survey and judge ``groups`` in at most ``jobs`` workers; every group comes out, in order.

    ``facts`` are those that a quick pass has read, by the path of their group, and ``context`` is
    the same that it was given. The workers keep to
    ``pace`` together, and read when disks are idle if a broker may be using any of the groups.
    ``on_progress`` gets counts of bytes of logs that were read since its last call. Leaving early
    ends the workers.
    """
    live = beside_broker(groups)
    known = facts or {}

    def work(task: _Task, report: Callable[[int], None]) -> Survey:
        if live:
            use_idle_io()
        return survey(
            task.segment,
            report,
            mapped=task.mapped,
            sealed=task.sealed,
            deep=task.deep,
            pace=pace,
            settings=task.settings,
        )

    def again(now: Group, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = [task for task in _tasks((now,), context, deep=deep) if task.segment in suspects]
        unmapped = (replace(task, mapped=False) for task in tasks)
        return [_result(now, outcome) for outcome in workers.run(work, unmapped, 1)]

    results: dict[int, list[Survey | Finding]] = {number: [] for number in range(len(groups))}
    next_up = 0

    def complete() -> Iterator[Judged]:
        nonlocal next_up
        while next_up < len(groups) and len(results[next_up]) == len(groups[next_up].segments):
            group = groups[next_up]
            judged = judge(group, results.pop(next_up), known.get(group.path), context)
            yield settled(judged, context, again)
            next_up += 1

    outcomes = workers.run(
        work, _tasks(groups, context, deep=deep), jobs, retry=_unmapped, on_progress=on_progress
    )
    with closing(outcomes):
        for outcome in outcomes:
            group = groups[outcome.task.group]
            results[outcome.task.group].append(_result(group, outcome))
            yield from complete()
    yield from complete()


def _tasks(groups: Iterable[Group], context: Context | None, *, deep: bool) -> Iterator[_Task]:
    for number, group in enumerate(groups):
        settings = TopicSettings() if context is None else context.settings(group)
        for segment in group.segments:
            last = group.next_base is None and segment is group.segments[-1]
            yield _Task(number, segment, group.stopped, not last, deep, settings)


def _unmapped(task: _Task, died: workers.Died) -> _Task | None:
    # The file was cut while it was mapped: somebody writes there after all.
    if died.signal == signal.SIGBUS and task.mapped:
        return replace(task, mapped=False)
    return None


def _result(group: Group, outcome: workers.Outcome[_Task, Survey]) -> Survey | Finding:
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.Died):
        return Finding(
            codes.UNREADABLE,
            outcome.task.segment.log,
            detail=Detail("a reader that ends by itself", f"one that {value.label} killed"),
            remedy=again(group.path),
        )
    return value
