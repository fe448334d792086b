"""verify(): verifies all segments over a pool of workers, partition by partition.

The unit of work is a segment, because partitions may be large. Verdicts come out in the order in
which the partitions were listed, whatever the order in which workers finish. If files may have
changed since they were read, they are read again before an error is reported.

A bad, unreadable or vanished file becomes a finding.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing
from dataclasses import replace

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.run.gather import gather
from kdump.audit.run.reconcile import reconcile
from kdump.audit.run.tasks import SurveyTask, rerun_surveys, run_survey, survey_of, survey_tasks
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace, use_idle_io

LeftOut = Callable[[int, Target], Collection[int]]
"""Returns the base offsets of a target's segments that are left out, by the target's index."""


def leave_out_nothing(_: int, __: Target) -> Collection[int]:
    """Return no segment: all are read."""
    return ()


def beside_broker(targets: Iterable[Target]) -> bool:
    """Return whether a broker may be using any of ``targets``."""
    return not all(target.stopped for target in targets)


def verify(
    targets: Sequence[Target],
    *,
    deep: bool,
    jobs: int,
    rebuild: bool = False,
    digest: bool = False,
    statistics: bool = False,
    context: Context | None = None,
    known: Mapping[int, Verdict] | None = None,
    conclude: Conclude = keep_all,
    pace: Pace | None = None,
    on_progress: Callable[[int], None] | None = None,
    left_out: LeftOut = leave_out_nothing,
) -> Generator[Verdict, None, None]:
    """Yield the verdict on each of ``targets``, in order, from surveys in at most ``jobs`` workers.

    ``rebuild`` also rebuilds the indexes of each segment, for its survey, ``digest`` makes a digest
    of its headers, ``statistics`` makes those of its batches and of the reading. Without a
    ``context`` only the logs are verified. ``known`` has the verdicts, by the index of their
    target, on targets that need no further read. ``conclude`` is called as soon as there is a
    verdict, so that what it leaves out is not held until the target's turn. The workers keep to
    ``pace`` together, and read when disks are idle if a broker may be using any of the targets.
    ``on_progress`` gets counts of log bytes that were read since its last call. Of segments that
    are ``left_out`` only the ends are read. Leaving early ends the workers. Raises KdumpError.
    """
    live = beside_broker(targets)

    def work(task: SurveyTask, report: Callable[[int], None]) -> Survey:
        if live:
            use_idle_io()
        return run_survey(task, report, pace=pace)

    def resurvey(now: Target, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = survey_tasks(
            0, now, context, deep=deep, rebuild=rebuild, digest=digest, statistics=statistics
        )
        return rerun_surveys(now, suspects, tasks, work)

    listed: dict[int, Target] = {}
    partial: set[int] = set()
    facts: dict[int, PartitionFacts | None] = {}
    results: dict[int, list[Survey | Finding]] = {}
    known = known or {}
    empty: list[int] = []

    def tasks() -> Iterator[SurveyTask]:
        for number, target in enumerate(targets):
            if number not in known:
                # Shortly before the logs, because a broker may go on writing them.
                now = listed[number] = target.with_listing()
                results[number] = []
                facts[number] = None if context is None else gather(now, context, deep=deep)
                if not now.segments:
                    empty.append(number)
                without = left_out(number, now)
                if without:
                    partial.add(number)
                yield from survey_tasks(
                    number,
                    now,
                    context,
                    deep=deep,
                    rebuild=rebuild,
                    digest=digest,
                    statistics=statistics,
                    left_out=without,
                )

    def conclusion(number: int) -> tuple[int, Verdict]:
        verdict = judge(
            listed.pop(number),
            results.pop(number),
            facts.pop(number),
            context,
            quick=number in partial,
        )
        return number, conclude(reconcile(verdict, context, resurvey))

    def verdicts() -> Generator[tuple[int, Verdict], None, None]:
        yield from known.items()
        outcomes = workers.run(work, tasks(), jobs, retry=_retry_unmapped, on_progress=on_progress)
        with closing(outcomes):
            for outcome in outcomes:
                number = outcome.task.target_index
                results[number].append(survey_of(listed[number], outcome))
                if len(results[number]) == len(listed[number].segments):
                    yield conclusion(number)
                while empty:
                    yield conclusion(empty.pop(0))
        yield from map(conclusion, empty)

    with closing(verdicts()) as numbered:
        yield from workers.in_order(numbered)


def _retry_unmapped(task: SurveyTask, died: workers.WorkerDied) -> SurveyTask | None:
    # The file was cut while it was mapped: a process writes there after all.
    if died.of_map and task.mapped:
        return replace(task, mapped=False)
    return None
