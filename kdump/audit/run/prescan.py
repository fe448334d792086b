"""The quick pass over all partitions that every run begins with.

Thousands of partitions take seconds: a worker reads, checks and summarizes each. The full pass
repeats what this pass finds at the ends of logs. If a full pass follows, small partitions are read
completely at once: that takes little longer than to open their files a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.run.ahead import ask_for_listings, ask_for_partition
from kdump.audit.run.gather import gather
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.run.reconcile import reconcile
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import use_idle_io
from kdump.values import frozen

#: The largest size of a partition's logs, in bytes, at which they are read completely at once.
_SMALL_BYTES: Final = 1 << 20
#: The largest number of targets in a task.
_TARGETS: Final = 16
#: The smallest number of tasks for each worker.
_SHARES: Final = 8
#: The placeholder of the requested target, which need not travel.
_REQUESTED: Final = Target(Path(), (), None, stopped=True, size=0)


class Small(Enum):
    """The parts that are read of small partitions that no broker uses."""

    ENDS = "ends"  # as for large partitions
    HEADERS = "headers"
    RECORDS = "records"


@frozen
class _Task:
    """Some neighbouring targets; ``careful``: nothing is mapped, and only ends are read."""

    numbers: range
    careful: bool = False


def quick_pass(
    targets: Sequence[Target],
    context: Context,
    *,
    jobs: int,
    small: Small = Small.ENDS,
    statistics: bool = False,
    conclude: Conclude = keep_all,
) -> Generator[Verdict, None, None]:
    """Yield a quick verdict on each of ``targets``, in order, from at most ``jobs`` workers.

    The verdicts on targets that were read completely are not marked as ``quick``. Workers read when
    disks are idle if a broker may be using the target. Leaving early ends the workers. The worker
    calls ``conclude``, so that what it leaves out need not travel. ``statistics`` is as for
    ``verify``. Raises KdumpError.
    """

    def work(task: _Task, report: Callable[[int], None]) -> list[Verdict]:
        task_targets = [targets[number] for number in task.numbers]
        ask_for_listings(target.path for target in task_targets if target.pending)
        return [
            _pack(
                quick_verdict(
                    target,
                    context,
                    careful=task.careful,
                    small=small,
                    statistics=statistics,
                    conclude=conclude,
                ),
                target,
            )
            for target in task_targets
        ]

    def results(
        tasks: Iterable[_Task],
    ) -> Generator[tuple[range, list[Verdict] | workers.WorkerDied], None, None]:
        with closing(workers.run(work, tasks, jobs)) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome.value, KdumpError):
                    raise outcome.value
                yield outcome.task.numbers, outcome.value

    def verdicts() -> Generator[tuple[int, Verdict], None, None]:
        lost: list[int] = []
        with closing(results(_tasks(len(targets), jobs))) as results_by_task:
            for numbers, value in results_by_task:
                if isinstance(value, workers.WorkerDied):
                    lost += numbers
                else:
                    yield from zip(numbers, value, strict=True)
        # A mapped file may have been cut, because a process writes there after all. Reading each
        # target alone shows which file it was.
        alone = (_Task(range(number, number + 1), careful=True) for number in lost)
        with closing(results(alone)) as results_by_task:
            for (number, *_), value in results_by_task:
                if isinstance(value, workers.WorkerDied):
                    target = targets[number]
                    finding = killed_reader(target.path, value, target)
                    yield number, conclude(unread_verdict(target, finding, context))
                else:
                    (verdict,) = value
                    yield number, verdict

    with closing(verdicts()) as numbered:
        yield from workers.in_order(
            (number, _unpack(verdict, targets[number])) for number, verdict in numbered
        )


def quick_verdict(
    target: Target,
    context: Context,
    *,
    careful: bool = False,
    small: Small = Small.ENDS,
    statistics: bool = False,
    conclude: Conclude = keep_all,
) -> Verdict:
    """Return the verdict on one target from the ends of its logs, or from all of a small target.

    ``careful`` reads only ends, and maps no file. The function reads when disks are idle if a
    broker may be using the target.
    """

    def inspect(
        target: Target, segments: Sequence[Segment], *, mapped: bool = False
    ) -> list[Survey]:
        cleaned = context.settings(target).compacted
        return [
            quick_survey(
                segment,
                sealed=target.is_sealed(segment),
                mapped=mapped,
                cleaned=cleaned,
                statistics=statistics,
            )
            for segment in segments
        ]

    def read(target: Target, segments: Sequence[Segment], *, mapped: bool = False) -> list[Survey]:
        settings = context.settings(target)
        return [
            survey(
                segment,
                lambda _: None,
                mapped=mapped,
                sealed=target.is_sealed(segment),
                deep=small is Small.RECORDS,
                settings=settings,
                statistics=statistics,
            )
            for segment in segments
        ]

    if not target.stopped:
        use_idle_io()
    target = target.with_listing()
    is_small = target.stopped and target.size <= _SMALL_BYTES
    read_all = small is not Small.ENDS and is_small and not careful
    if target.partition is not None:
        ask_for_partition(target.partition, whole=read_all)
    # Before the logs, so that the small files are not newer than the logs that are read.
    facts = gather(target, context, deep=read_all and small is Small.RECORDS)
    surveys = read if read_all else inspect
    results = surveys(target, target.segments, mapped=target.stopped and not careful)
    verdict = judge(target, results, facts, context, quick=not read_all)
    return conclude(reconcile(verdict, context, surveys))


def unread_verdict(target: Target, finding: Finding, context: Context) -> Verdict:
    """Return the quick verdict on a target that was not read; ``finding`` says why."""
    return judge(target, [finding], context=context, quick=True)


def _tasks(count: int, jobs: int) -> Iterator[_Task]:
    """Yield tasks for ``count`` targets: to hand over a task takes as long as a small target."""
    most = max(1, min(_TARGETS, count // (_SHARES * jobs)))
    for start in range(0, count, most):
        yield _Task(range(start, min(start + most, count)))


def _pack(verdict: Verdict, requested: Target) -> Verdict:
    if verdict.target is requested or verdict.target.pending:
        return replace(verdict, target=_REQUESTED)
    return verdict.with_directory(None)


def _unpack(verdict: Verdict, requested: Target) -> Verdict:
    if verdict.target == _REQUESTED:
        return replace(verdict, target=requested)
    return verdict.with_directory(requested.directory)
