"""quick_pass(): a first look at everything, before anything is read whole.

Thousands of partitions take seconds. What is found here is found again by the full pass, which
takes over the facts.

Spec: none of Kafka's. It must never read more than the ends of large files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

from kdump.audit import codes
from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts
from kdump.audit.findings import Detail, Finding
from kdump.audit.gathering import gather
from kdump.audit.groups import Group
from kdump.audit.judge import Judged, again, judge
from kdump.audit.quick import quick_survey
from kdump.audit.settling import settled
from kdump.audit.survey import Survey
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.pace import use_idle_io


@dataclass(frozen=True, slots=True)
class _Glance:
    facts: PartitionFacts | None
    surveys: tuple[Survey, ...]


def quick_pass(
    groups: Sequence[Group], context: Context, *, jobs: int
) -> Generator[Judged, None, None]:
    """Look at ``groups`` in at most ``jobs`` workers; every group comes out judged, in order.

    Workers read when disks are idle if a broker may be using the group. Leaving early ends the
    workers.
    """

    def work(number: int, report: Callable[[int], None]) -> _Glance:
        group = groups[number]
        if not group.stopped:
            use_idle_io()
        surveys = tuple(_surveys(group, group.segments))
        return _Glance(gather(group, context), surveys)

    ready: dict[int, Judged] = {}
    next_up = 0
    with closing(workers.run(work, range(len(groups)), jobs)) as outcomes:
        for outcome in outcomes:
            judged = _judged(groups[outcome.task], outcome.value, context)
            ready[outcome.task] = settled(judged, context, _surveys, quick=True)
            while next_up in ready:
                yield ready.pop(next_up)
                next_up += 1


def _judged(group: Group, value: _Glance | KdumpError | workers.Died, context: Context) -> Judged:
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.Died):
        detail = Detail("a reader that ends by itself", f"one that {value.label} killed")
        died = Finding(codes.UNREADABLE, group.path, detail=detail, remedy=again(group.path))
        return judge(group, [died], context=context)
    return judge(group, value.surveys, value.facts, context, quick=True)


def _surveys(group: Group, segments: Sequence[Segment]) -> list[Survey]:
    return [
        quick_survey(one, sealed=group.next_base is not None or one is not group.segments[-1])
        for one in segments
    ]
