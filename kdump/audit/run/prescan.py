"""The quick pass over all partitions that every run begins with.

Thousands of partitions take seconds: each is read, judged and summed up by a worker. What is found
here at the ends of logs is found again by the full pass. Where that is to follow, small partitions
are read whole at once: that takes little longer than to open their files a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from kdump.audit.checks.read_errors import killed
from kdump.audit.judge import judge
from kdump.audit.run.gather import gather
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.run.reconcile import reconcile
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, as_it_is
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import use_idle_io

#: The most bytes of logs that a partition may have to be read whole at once.
_SMALL_BYTES: Final = 1 << 20
#: The most groups of a task.
_GROUPS: Final = 16
#: Into how many tasks the groups are shared out for each worker, at the least.
_SHARES: Final = 8
#: Stands for the group that somebody asked for: that need not travel.
_ASKED_FOR: Final = Target(Path(), (), None, stopped=True, size=0)


class Small(Enum):
    """What is read of partitions that are small, and that no broker uses."""

    ENDS = "ends"  # as of the others
    HEADERS = "headers"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class _Task:
    """Some neighbouring groups; ``careful``: nothing is mapped, and ends alone are read."""

    numbers: range
    careful: bool = False


def quick_pass(
    targets: Sequence[Target],
    context: Context,
    *,
    jobs: int,
    small: Small = Small.ENDS,
    conclude: Conclude = as_it_is,
) -> Generator[Verdict, None, None]:
    """Look at ``targets`` in at most ``jobs`` workers; every group comes out judged, in order.

    Those that were read whole are not marked as ``quick``. Workers read when disks are idle if a
    broker may be using the group. Leaving early ends the workers. ``conclude`` is called by the
    worker, so that what it leaves out need not travel.
    """

    def work(task: _Task, report: Callable[[int], None]) -> list[Verdict]:
        each = [targets[number] for number in task.numbers]
        return [
            _packed(
                glance(one, context, careful=task.careful, small=small, conclude=conclude),
                one,
            )
            for one in each
        ]

    def done(
        tasks: Iterable[_Task],
    ) -> Generator[tuple[range, list[Verdict] | workers.Died], None, None]:
        with closing(workers.run(work, tasks, jobs)) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome.value, KdumpError):
                    raise outcome.value
                yield outcome.task.numbers, outcome.value

    def each() -> Generator[tuple[int, Verdict], None, None]:
        lost: list[int] = []
        with closing(done(_tasks(len(targets), jobs))) as found:
            for numbers, value in found:
                if isinstance(value, workers.Died):
                    lost += numbers
                else:
                    yield from zip(numbers, value, strict=True)
        # A mapped file may have been cut, because somebody writes there after all. Which one it was
        # shows when each is looked at alone.
        alone = (_Task(range(number, number + 1), careful=True) for number in lost)
        with closing(done(alone)) as found:
            for (number, *_), value in found:
                if isinstance(value, workers.Died):
                    target = targets[number]
                    findings = [killed(target.path, value, target)]
                    yield number, conclude(judge(target, findings, context=context, quick=True))
                else:
                    (one,) = value
                    yield number, one

    ready: dict[int, Verdict] = {}
    next_up = 0
    with closing(each()) as found:
        for number, one in found:
            ready[number] = _unpacked(one, targets[number])
            while next_up in ready:
                yield ready.pop(next_up)
                next_up += 1


def glance(
    target: Target,
    context: Context,
    *,
    careful: bool = False,
    small: Small = Small.ENDS,
    conclude: Conclude = as_it_is,
) -> Verdict:
    """Look at one group, or read it whole where it is small; ``careful``: never that, nor mapped.

    Reads when disks are idle if a broker may be using the group.
    """

    def inspect(
        target: Target, segments: Sequence[Segment], *, mapped: bool = False
    ) -> list[Survey]:
        cleaned = context.settings(target).compacted
        return [
            quick_survey(one, sealed=target.is_sealed(one), mapped=mapped, cleaned=cleaned)
            for one in segments
        ]

    def read(target: Target, segments: Sequence[Segment], *, mapped: bool = False) -> list[Survey]:
        settings = context.settings(target)
        return [
            survey(
                one,
                lambda _: None,
                mapped=mapped,
                sealed=target.is_sealed(one),
                deep=small is Small.RECORDS,
                settings=settings,
            )
            for one in segments
        ]

    if not target.stopped:
        use_idle_io()
    target = target.listed()
    # First, so that what a broker writes meanwhile does not outrun what is seen of the logs.
    facts = gather(target, context)
    is_small = target.stopped and target.size <= _SMALL_BYTES
    whole = small is not Small.ENDS and is_small and not careful
    surveys = read if whole else inspect
    found = surveys(target, target.segments, mapped=target.stopped and not careful)
    one = judge(target, found, facts, context, quick=not whole)
    return conclude(reconcile(one, context, surveys))


def _tasks(count: int, jobs: int) -> Iterator[_Task]:
    """Share out ``count`` groups: handing over a task takes as long as to judge a small one."""
    most = max(1, min(_GROUPS, count // (_SHARES * jobs)))
    for start in range(0, count, most):
        yield _Task(range(start, min(start + most, count)))


def _packed(verdict: Verdict, asked_for: Target) -> Verdict:
    if verdict.target is asked_for or verdict.target.pending:
        return replace(verdict, target=_ASKED_FOR)
    return replace(verdict, target=replace(verdict.target, directory=None))


def _unpacked(verdict: Verdict, asked_for: Target) -> Verdict:
    if verdict.target == _ASKED_FOR:
        return replace(verdict, target=asked_for)
    return replace(verdict, target=replace(verdict.target, directory=asked_for.directory))
