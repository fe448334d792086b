"""quick_pass(): a first look at everything, before anything large is read whole.

Thousands of partitions take seconds: each is read, judged and summed up by a worker. What is found
here at the ends of logs is found again by the full pass. Where that is to follow, small partitions
are read whole at once: that takes little longer than to open their files a second time.

Spec: none of Kafka's. It must never read more of a large partition than the ends of logs and
indexes.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from kdump.audit.context import Context
from kdump.audit.gathering import gather
from kdump.audit.groups import Group
from kdump.audit.judge import judge, killed
from kdump.audit.judged import Conclude, Judged, as_it_is
from kdump.audit.quick import quick_survey
from kdump.audit.settling import settled
from kdump.audit.survey import Survey, survey
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.pace import use_idle_io

#: The most bytes of logs that a partition may have to be read whole at once.
_SMALL_BYTES: Final = 1 << 20
#: Stands for the group that somebody asked for: that need not travel.
_ASKED_FOR: Final = Group(Path(), (), None, stopped=True, size=0)


class Small(Enum):
    """What is read of partitions that are small, and that no broker uses."""

    ENDS = "ends"  # as of the others
    HEADERS = "headers"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class _Task:
    group: int
    whole: bool
    mapped: bool


def quick_pass(
    groups: Sequence[Group],
    context: Context,
    *,
    jobs: int,
    small: Small = Small.ENDS,
    conclude: Conclude = as_it_is,
) -> Generator[Judged, None, None]:
    """Look at ``groups`` in at most ``jobs`` workers; every group comes out judged, in order.

    Those that were read whole are not marked as ``quick``. Workers read when disks are idle if a
    broker may be using the group. Leaving early ends the workers. ``conclude`` is called by the
    worker, so that what it leaves out need not travel.
    """

    def look(group: Group, segments: Sequence[Segment], *, mapped: bool = False) -> list[Survey]:
        return [quick_survey(one, sealed=group.is_sealed(one), mapped=mapped) for one in segments]

    def read(group: Group, segments: Sequence[Segment], *, mapped: bool = False) -> list[Survey]:
        settings = context.settings(group)
        return [
            survey(
                one,
                lambda _: None,
                mapped=mapped,
                sealed=group.is_sealed(one),
                deep=small is Small.RECORDS,
                settings=settings,
            )
            for one in segments
        ]

    def work(task: _Task, report: Callable[[int], None]) -> Judged:
        group = groups[task.group]
        if not group.stopped:
            use_idle_io()
        # First, so that what a broker writes meanwhile does not outrun what is seen of the logs.
        facts = gather(group, context)
        surveys = read if task.whole else look
        found = surveys(group, group.segments, mapped=task.mapped)
        judged = judge(group, found, facts, context, quick=not task.whole)
        return _packed(conclude(settled(judged, context, surveys)), group)

    def tasks() -> Iterator[_Task]:
        for number, group in enumerate(groups):
            is_small = group.stopped and group.size <= _SMALL_BYTES
            yield _Task(number, is_small and small is not Small.ENDS, mapped=group.stopped)

    ready: dict[int, Judged] = {}
    next_up = 0
    with closing(workers.run(work, tasks(), jobs, retry=_unmapped)) as outcomes:
        for outcome in outcomes:
            number, value = outcome.task.group, outcome.value
            if isinstance(value, KdumpError):
                raise value
            if isinstance(value, workers.Died):
                findings = [killed(groups[number].path, value, groups[number])]
                died = judge(groups[number], findings, context=context, quick=True)
                ready[number] = conclude(settled(died, context, look))
            else:
                ready[number] = _unpacked(value, groups[number])
            while next_up in ready:
                yield ready.pop(next_up)
                next_up += 1


def _unmapped(task: _Task, died: workers.Died) -> _Task | None:
    # A file was cut while it was mapped: somebody writes there after all. A full pass will see.
    if died.signal == signal.SIGBUS and task.mapped:
        return replace(task, whole=False, mapped=False)
    return None


def _packed(judged: Judged, asked_for: Group) -> Judged:
    if judged.group is asked_for:
        return replace(judged, group=_ASKED_FOR)
    return replace(judged, group=replace(judged.group, directory=None))


def _unpacked(judged: Judged, asked_for: Group) -> Judged:
    if judged.group == _ASKED_FOR:
        return replace(judged, group=asked_for)
    return replace(judged, group=replace(judged.group, directory=asked_for.directory))
