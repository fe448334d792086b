"""The work of an executor: surveys of segments, verdicts of partitions.

A partition that is small is read and judged by one task. Of a larger one each segment is read by a
task of its own, and then one judges what all of these have found. The task that reads the last
segment first lists the directory once more and reads the small files, as they are just before that
log is read.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.run.gather import gather
from kdump.audit.run.prescan import Small, quick_verdict
from kdump.audit.run.reconcile import reconcile
from kdump.audit.run.tasks import SurveyTask, rerun_surveys, run_survey, survey_tasks
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Conclude, Verdict
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import Line
from kdump.storage.logdir import Segment
from kdump.storage.throttle import use_idle_io


@dataclass(frozen=True, slots=True)
class TargetTask:
    """A group that is read and judged at once; ``mapped`` is as for ``survey``."""

    number: int
    target: Target
    inventory: Inventory
    context: Context
    deep: bool
    mapped: bool = True

    def unmapped(self) -> TargetTask:
        """The same for a second attempt.

        A file may have been cut while it was mapped: somebody writes there after all.
        """
        return replace(self, mapped=False)


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """What is to be surveyed of a group: one segment, none where there is none.

    ``last`` is the group where the segment is the last one, None else.
    """

    number: int
    survey: SurveyTask | None
    stopped: bool
    last: Target | None
    context: Context
    deep: bool

    @property
    def path(self) -> Path | None:
        """The log that is to be read."""
        return None if self.survey is None else self.survey.segment.log

    def unmapped(self) -> SegmentTask:
        """The same for a second attempt, as for ``TargetTask``."""
        survey = self.survey
        return self if survey is None else replace(self, survey=replace(survey, mapped=False))


@dataclass(frozen=True, slots=True)
class VerdictTask:
    """A group that is to be judged by what was read of it: ``evidence`` is of readings."""

    target: Target
    evidence: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    context: Context


@dataclass(frozen=True, slots=True)
class Read:
    """What comes of a reading: pickled evidence, which the driver only hands on, and its lines."""

    evidence: bytes
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What comes of a whole group."""

    verdict: Verdict
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a partition's judge needs; ``now`` and ``facts`` come with the last segment.

    ``now`` is without the log directory, which may be large, and which the judge is given once.
    """

    surveys: tuple[Survey, ...] = ()
    now: Target | None = None
    facts: PartitionFacts | None = None

    def __add__(self, other: _Evidence) -> _Evidence:
        latest = self if other.now is None else other
        return _Evidence(self.surveys + other.surveys, latest.now, latest.facts)


def readings(
    number: int, target: Target, context: Context, *, deep: bool, mapped: bool = True
) -> Iterator[SegmentTask]:
    """What is to be read of a group; ``mapped`` is as for ``survey``."""
    tasks: list[SurveyTask | None] = [
        replace(task, mapped=mapped) for task in survey_tasks(number, target, context, deep=deep)
    ]
    *before, last = tasks or [None]
    for task in before:
        yield SegmentTask(number, task, target.stopped, None, context, deep)
    yield SegmentTask(number, last, target.stopped, target, context, deep)


def unmapped(task: TargetTask | SegmentTask) -> TargetTask | SegmentTask:
    """The same for a second attempt, of either kind."""
    return task.unmapped()


def work(task: TargetTask | SegmentTask, *, conclude: Conclude) -> TargetResult | Read:
    """Do a task of either kind."""
    return read(task) if isinstance(task, SegmentTask) else read_and_judge(task, conclude=conclude)


def read(reading: SegmentTask) -> Read:
    """Survey a segment."""
    evidence = _surveyed(reading)
    return Read(pickle.dumps(evidence), _lines(evidence))


def read_and_judge(whole: TargetTask, *, conclude: Conclude) -> TargetResult:
    """Survey all segments of a group, and judge it."""
    target, context, deep = whole.inventory.open(whole.target), whole.context, whole.deep
    evidence = _Evidence()
    for reading in readings(0, target, context, deep=deep, mapped=whole.mapped):
        evidence += _surveyed(reading)
    verdict = _judged(VerdictTask(target, (), (), context), evidence, deep=deep, conclude=conclude)
    return TargetResult(verdict, _lines(evidence))


def judge_results(task: VerdictTask, *, deep: bool, conclude: Conclude) -> Verdict:
    """Judge a group of which all segments were read."""
    return _judged(task, _opened(task.evidence), deep=deep, conclude=conclude)


def judge_unjudged(task: VerdictTask, finding: Finding, conclude: Conclude) -> Verdict:
    """What the surveys alone have shown, where ``finding`` says why nobody has judged them."""
    surveys = _opened(task.evidence).surveys
    return conclude(judge(task.target, [*surveys, *task.findings, finding], context=task.context))


def _surveyed(reading: SegmentTask) -> _Evidence:
    if not reading.stopped:
        use_idle_io()
    now, facts = None, None
    tasks = [] if reading.survey is None else [reading.survey]
    if reading.last is not None:
        # Before the log, which a broker may go on writing, and not long before.
        now, facts = _beside(reading.last, reading.context)
        tasks += _rolled(reading.last, now, reading)
        now = replace(now, directory=None)
    return _Evidence(tuple(run_survey(task, _untold) for task in tasks), now, facts)


def _lines(evidence: _Evidence) -> tuple[Line, ...]:
    host = socket.gethostname()
    return tuple(Line.of(survey, host) for survey in evidence.surveys)


def _beside(target: Target, context: Context) -> tuple[Target, PartitionFacts | None]:
    """What there is of a group by now, and the small files that go with it."""
    now = target if target.stopped else target.without_listing().with_listing()
    return now, gather(now, context)


def _rolled(then: Target, now: Target, reading: SegmentTask) -> list[SurveyTask]:
    """The segments that a broker has begun since the group was listed."""
    known = {segment.log for segment in then.segments}
    tasks = survey_tasks(reading.number, now, reading.context, deep=reading.deep)
    return [task for task in tasks if task.segment.log not in known]


def _untold(_: int) -> None:
    """Spark tells how many tasks are done, not how many bytes."""


def _opened(evidence: Iterable[bytes]) -> _Evidence:
    return sum(map(pickle.loads, evidence), _Evidence())


def _judged(task: VerdictTask, found: _Evidence, *, deep: bool, conclude: Conclude) -> Verdict:
    def again(now: Target, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = survey_tasks(0, now, task.context, deep=deep)
        return rerun_surveys(now, suspects, tasks, run_survey)

    if not task.target.stopped:
        use_idle_io()
    now, facts = found.now, found.facts
    if now is None:  # whoever read the last segment has not come to an end
        now, facts = _beside(task.target, task.context)
    elif now.error is None:
        now = replace(now, directory=task.target.directory)
    # Of a running broker's logs those are left out that it has deleted since they were read.
    listed = {segment.log for segment in now.segments}
    kept = [survey for survey in found.surveys if survey.segment.log in listed]
    verdict = judge(now, [*kept, *task.findings], facts, task.context)
    return _packed(conclude(reconcile(verdict, task.context, again)))


@dataclass(frozen=True, slots=True)
class QuickTask:
    """A group to look at; ``careful`` is as for ``quick_verdict``."""

    target: Target
    inventory: Inventory
    context: Context
    careful: bool = False


def carefully(task: QuickTask) -> QuickTask:
    """The same for a second attempt."""
    return replace(task, careful=True)


def inspect(task: QuickTask, *, conclude: Conclude) -> Verdict:
    """Look at the ends of a group."""
    target = task.inventory.open(task.target)
    return _packed(
        quick_verdict(
            target, task.context, careful=task.careful, small=Small.ENDS, conclude=conclude
        )
    )


def _packed(verdict: Verdict) -> Verdict:
    """The same without the log directory, which the driver has."""
    return replace(verdict, target=replace(verdict.target, directory=None))
