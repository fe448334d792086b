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
from dataclasses import dataclass, field

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.run.verification import SurveyTask, Verification, run_survey, survey_of
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict, keep_all
from kdump.storage import workers
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
    close_descriptors: Collection[int] = (),
) -> Generator[Verdict, None, None]:
    """Yield the verdict on each of ``targets``, in order, from surveys in at most ``jobs`` workers.

    ``deep``, ``rebuild``, ``digest``, ``statistics`` and ``context`` are those of a
    ``Verification``. ``known`` has the verdicts, by the index of their target, on targets that need
    no further read. ``conclude`` is called as soon as there is a verdict, so that what it leaves
    out is not held until the target's turn. The workers keep to ``pace`` together, and read when
    disks are idle if a broker may be using any of the targets. ``on_progress`` gets counts of log
    bytes that were read since its last call. Of segments that are ``left_out`` only the ends are
    read. Workers close ``close_descriptors``. Leaving early ends the workers. Raises KdumpError.
    """
    verification = Verification(context, deep, rebuild, digest, statistics)
    live = beside_broker(targets)

    def work(task: SurveyTask, report: Callable[[int], None]) -> Survey:
        if live:
            use_idle_io()
        return run_survey(task, report, pace=pace)

    reading: dict[int, _Reading] = {}
    known = known or {}
    empty: list[int] = []

    def tasks() -> Iterator[SurveyTask]:
        for number, target in enumerate(targets):
            if number not in known:
                # Shortly before the logs, because a broker may go on writing them.
                now = target.with_listing()
                facts, without = verification.facts(now), left_out(number, now)
                reading[number] = _Reading(now, facts, quick=bool(without))
                if not now.segments:
                    empty.append(number)
                yield from verification.tasks(now, number, without)

    def conclusion(number: int) -> tuple[int, Verdict]:
        of = reading.pop(number)
        verdict = verification.verdict(of.target, of.results, of.facts, work, quick=of.quick)
        return number, conclude(verdict)

    def verdicts() -> Generator[tuple[int, Verdict], None, None]:
        yield from known.items()
        outcomes = workers.run(
            work,
            tasks(),
            jobs,
            retry=_retry_unmapped,
            on_progress=on_progress,
            close_descriptors=close_descriptors,
        )
        with closing(outcomes):
            for outcome in outcomes:
                number = outcome.task.target_index
                of = reading[number]
                of.results.append(survey_of(of.target, outcome))
                if len(of.results) == len(of.target.segments):
                    yield conclusion(number)
                while empty:
                    yield conclusion(empty.pop(0))
        yield from map(conclusion, empty)

    with closing(verdicts()) as numbered:
        yield from workers.in_order(numbered)


@dataclass(slots=True)
class _Reading:
    """A target that is being read; ``quick``: of some segments only the ends are."""

    target: Target
    facts: PartitionFacts | None
    quick: bool
    results: list[Survey | Finding] = field(default_factory=list)


def _retry_unmapped(task: SurveyTask, died: workers.WorkerDied) -> SurveyTask | None:
    # The file was cut while it was mapped: a process writes there after all.
    return task.unmap() if died.of_map and task.mapped else None
