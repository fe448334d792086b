"""quick_pass(): a first look at everything, before anything is read whole.

Thousands of partitions take seconds: each is read, judged and summed up by a worker. What is found
here is found again by the full pass.

Spec: none of Kafka's. It must never read more than the ends of logs and indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.context import Context
from kdump.audit.findings import Detail, Finding
from kdump.audit.gathering import gather
from kdump.audit.groups import Group
from kdump.audit.judge import again, judge
from kdump.audit.judged import Conclude, Judged, as_it_is
from kdump.audit.quick import quick_survey
from kdump.audit.settling import settled
from kdump.audit.survey import Survey
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.pace import use_idle_io

#: Stands for the group that somebody asked for: that need not travel.
_ASKED_FOR: Final = Group(Path(), (), None, stopped=True, size=0)


def quick_pass(
    groups: Sequence[Group], context: Context, *, jobs: int, conclude: Conclude = as_it_is
) -> Generator[Judged, None, None]:
    """Look at ``groups`` in at most ``jobs`` workers; every group comes out judged, in order.

    Workers read when disks are idle if a broker may be using the group. Leaving early ends the
    workers. ``conclude`` is called by the worker, so that what it leaves out need not travel.
    """

    def work(number: int, report: Callable[[int], None]) -> Judged:
        group = groups[number]
        if not group.stopped:
            use_idle_io()
        # First, so that what a broker writes meanwhile does not outrun what is seen of the logs.
        facts = gather(group, context)
        surveys = _surveys(group, group.segments)
        judged = judge(group, surveys, facts, context, quick=True)
        return _packed(conclude(settled(judged, context, _surveys, quick=True)), group)

    ready: dict[int, Judged] = {}
    next_up = 0
    with closing(workers.run(work, range(len(groups)), jobs)) as outcomes:
        for outcome in outcomes:
            group, value = groups[outcome.task], outcome.value
            if isinstance(value, KdumpError):
                raise value
            if isinstance(value, workers.Died):
                ready[outcome.task] = conclude(_died(group, value, context))
            else:
                ready[outcome.task] = _unpacked(value, group)
            while next_up in ready:
                yield ready.pop(next_up)
                next_up += 1


def _packed(judged: Judged, asked_for: Group) -> Judged:
    if judged.group is asked_for:
        return replace(judged, group=_ASKED_FOR)
    return replace(judged, group=replace(judged.group, directory=None))


def _unpacked(judged: Judged, asked_for: Group) -> Judged:
    if judged.group == _ASKED_FOR:
        return replace(judged, group=asked_for)
    return replace(judged, group=replace(judged.group, directory=asked_for.directory))


def _died(group: Group, died: workers.Died, context: Context) -> Judged:
    detail = Detail("a reader that ends by itself", f"one that {died.label} killed")
    finding = Finding(codes.UNREADABLE, group.path, detail=detail, remedy=again(group.path))
    return settled(judge(group, [finding], context=context), context, _surveys, quick=True)


def _surveys(group: Group, segments: Sequence[Segment]) -> list[Survey]:
    return [
        quick_survey(one, sealed=group.next_base is not None or one is not group.segments[-1])
        for one in segments
    ]
