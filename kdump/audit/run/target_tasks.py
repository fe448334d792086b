"""The tasks of executors: each reads segments by ``audit.run.tasks``, or gives the verdict of a
partition.

One task reads and checks a small partition. Of a larger partition, one task reads each segment, and
a further task checks the results of all of them. The task of the last segment first lists the
directory again and reads the small files, so that they are from just before that log is read.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

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
from kdump.audit.verdicts.remembered import NOTHING_REMEMBERED, Remembered
from kdump.audit.verdicts.verdict import Conclude, Verdict
from kdump.fleet.state.directory import DirectoryState
from kdump.fleet.state.memory import Memory, PartitionState
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import LedgerLine
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import use_idle_io
from kdump.values import frozen

T = TypeVar("T")


@frozen
class Depth:
    """What is read of each log; the fields are as for ``audit.run.verify``.

    With ``state`` sealed segments are left out that earlier runs have read. Digests and statistics
    are then needed.
    """

    deep: bool
    digest: bool = False
    statistics: bool = False
    state: DirectoryState | None = None


@frozen
class TargetTask:
    """A target that one task reads and checks; ``mapped`` is as for ``survey``."""

    number: int
    target: Target
    inventory: Inventory
    context: Context
    depth: Depth
    mapped: bool = True

    def unmap(self) -> TargetTask:
        """Return the task for a second attempt, without mapping.

        The first attempt may have died because a mapped file was truncated.
        """
        return replace(self, mapped=False)


@frozen
class SegmentTask:
    """A segment of a target to survey; ``survey`` is None for a target without segments.

    ``last`` is the target if the segment is its last one, else None. ``state`` is for a sealed
    segment, None if runs remember nothing.
    """

    number: int
    survey: SurveyTask | None
    stopped: bool
    last: Target | None
    context: Context
    depth: Depth
    state: PartitionState | None = None

    @property
    def path(self) -> AnyPath | None:
        """The log to read."""
        return None if self.survey is None else self.survey.segment.log

    def unmap(self) -> SegmentTask:
        """Return the task for a second attempt, as for ``TargetTask``."""
        survey = self.survey
        return self if survey is None else replace(self, survey=replace(survey, mapped=False))


@frozen
class VerdictTask:
    """A target to check; ``evidence`` is that of its segments, pickled."""

    target: Target
    evidence: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    context: Context
    depth: Depth


@frozen
class SegmentResult:
    """The pickled evidence of a segment, which the driver only passes on, and its lines."""

    evidence: bytes
    lines: tuple[LedgerLine, ...]


@frozen
class TargetResult(Generic[T]):
    """The conclusion from the verdict on a whole target, and its lines."""

    conclusion: T
    lines: tuple[LedgerLine, ...]


@frozen
class _Evidence:
    """The evidence for a verdict; ``now`` and ``facts`` come from the task of the last segment.

    ``now`` is the target as listed then, without the log directory, which may be large.
    ``findings`` are on changes since an earlier run; ``unwritten`` is as for ``Memory``.
    """

    surveys: tuple[Survey, ...] = ()
    now: Target | None = None
    facts: PartitionFacts | None = None
    findings: tuple[Finding, ...] = ()
    unwritten: Remembered = NOTHING_REMEMBERED

    def __add__(self, other: _Evidence) -> _Evidence:
        latest = self if other.now is None else other
        return _Evidence(
            self.surveys + other.surveys,
            latest.now,
            latest.facts,
            self.findings + other.findings,
            self.unwritten + other.unwritten,
        )


def segment_tasks(
    number: int, target: Target, context: Context, depth: Depth, *, mapped: bool = True
) -> Iterator[SegmentTask]:
    """Yield a task for each segment of a target; ``mapped`` is as for ``survey``."""
    tasks: list[SurveyTask | None] = [
        replace(task, mapped=mapped) for task in _survey_tasks(number, target, context, depth)
    ]
    state = PartitionState.of(depth.state, target)
    *before, last = tasks or [None]
    for task in before:
        yield SegmentTask(number, task, target.stopped, None, context, depth, state)
    sealed = state if last is not None and last.sealed else None
    yield SegmentTask(number, last, target.stopped, target, context, depth, sealed)


def unmap(
    task: TargetTask | SegmentTask | VerdictTask,
) -> TargetTask | SegmentTask | VerdictTask:
    """Return ``task`` for a second attempt."""
    return task if isinstance(task, VerdictTask) else task.unmap()


def run_task(
    task: TargetTask | SegmentTask, *, conclude: Callable[[Verdict], T]
) -> TargetResult[T] | SegmentResult:
    """Run a task of either kind."""
    if isinstance(task, SegmentTask):
        return survey_segment(task)
    return verify_target(task, conclude=conclude)


def survey_segment(task: SegmentTask) -> SegmentResult:
    """Survey a segment, and return its evidence."""
    memory = None
    if task.state is not None and task.survey is not None:
        memory = task.state.open(task.context, task.survey.segment.base_offset)
    evidence = _survey(task, memory)
    if memory is not None:
        memory.append()
        evidence = replace(evidence, findings=tuple(memory.findings), unwritten=memory.unwritten)
    return SegmentResult(pickle.dumps(evidence), _lines(evidence))


def verify_target(task: TargetTask, *, conclude: Callable[[Verdict], T]) -> TargetResult[T]:
    """Survey all segments of a target, and return the conclusion from its verdict."""
    target, context, depth = task.inventory.open(task.target), task.context, task.depth
    memory = _open_memory(target, context, depth)
    evidence = _Evidence()
    for segment_task in segment_tasks(0, target, context, depth, mapped=task.mapped):
        evidence += _survey(segment_task, memory)
    verdict = _make_verdict(VerdictTask(target, (), (), context, depth), evidence)
    if memory is not None:
        verdict = memory.conclude(verdict)
    return TargetResult(conclude(verdict), _lines(evidence))


def make_verdict(task: VerdictTask, *, conclude: Callable[[Verdict], T]) -> T:
    """Return the conclusion for a target whose segments were read by other tasks."""
    evidence = _load_evidence(task.evidence)
    verdict = _make_verdict(task, evidence)
    memory = _open_memory(task.target, task.context, task.depth)
    if memory is not None:
        memory.findings += evidence.findings
        memory.unwritten += evidence.unwritten
        verdict = memory.conclude(verdict)
    return conclude(verdict)


def make_partial_verdict(task: VerdictTask, finding: Finding) -> Verdict:
    """Return a verdict from the surveys alone; ``finding`` says why its task has no result."""
    surveys = _load_evidence(task.evidence).surveys
    return judge(task.target, [*surveys, *task.findings, finding], context=task.context)


@frozen
class WithoutDirectory:
    """``conclude`` without the log directory of the target, which the driver has."""

    conclude: Conclude

    def __call__(self, verdict: Verdict) -> Verdict:
        """Return the conclusion."""
        return self.conclude(verdict).with_directory(None)


def _open_memory(target: Target, context: Context, depth: Depth) -> Memory | None:
    """Return the evidence of earlier runs; None if they remember nothing of such a target."""
    state = PartitionState.of(depth.state, target)
    if state is None or not any(map(target.is_sealed, target.segments)):
        return None
    return state.open(context)


def _survey(task: SegmentTask, memory: Memory | None) -> _Evidence:
    if not task.stopped:
        use_idle_io()
    now, facts = None, None
    tasks = [] if task.survey is None else [task.survey]
    if task.last is not None:
        # Shortly before the log is read, to which a broker may append.
        now, facts = _read_small_files(task.last, task.context, task.depth)
        if not task.last.stopped:
            tasks += _new_segments(task.last, now, task)
        now = replace(now, directory=None)
    surveys = (
        _read(survey_task) if memory is None else memory.survey(survey_task, _read)
        for survey_task in tasks
    )
    return _Evidence(tuple(surveys), now, facts)


def _lines(evidence: _Evidence) -> tuple[LedgerLine, ...]:
    host = socket.gethostname()
    return tuple(LedgerLine.from_survey(survey, host) for survey in evidence.surveys)


def _read_small_files(
    target: Target, context: Context, depth: Depth
) -> tuple[Target, PartitionFacts | None]:
    """List a target again, and read its small files."""
    now = target if target.stopped else target.without_listing().with_listing()
    return now, gather(now, context, deep=depth.deep)


def _new_segments(then: Target, now: Target, task: SegmentTask) -> list[SurveyTask]:
    """Return tasks for the segments that a broker has rolled since the target was listed."""
    known = {segment.log for segment in then.segments}
    tasks = _survey_tasks(task.number, now, task.context, task.depth)
    return [survey_task for survey_task in tasks if survey_task.segment.log not in known]


def _survey_tasks(
    number: int, target: Target, context: Context, depth: Depth
) -> Iterator[SurveyTask]:
    return survey_tasks(
        number,
        target,
        context,
        deep=depth.deep,
        digest=depth.digest,
        statistics=depth.statistics,
    )


def _read(task: SurveyTask) -> Survey:
    return run_survey(task, lambda _: None)  # Spark reports completed tasks, not bytes


def _load_evidence(evidence: Iterable[bytes]) -> _Evidence:
    return sum(map(pickle.loads, evidence), _Evidence())


def _make_verdict(task: VerdictTask, evidence: _Evidence) -> Verdict:
    depth = task.depth

    def survey_again(now: Target, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = _survey_tasks(0, now, task.context, depth)
        return rerun_surveys(now, suspects, tasks, run_survey)

    if not task.target.stopped:
        use_idle_io()
    now, facts = evidence.now, evidence.facts
    if now is None:  # the task of the last segment has no result
        now, facts = _read_small_files(task.target, task.context, depth)
    elif now.error is None:
        now = replace(now, directory=task.target.directory)
    # Logs that a running broker has deleted since they were read are left out.
    listed = {segment.log for segment in now.segments}
    surveys = [survey for survey in evidence.surveys if survey.segment.log in listed]
    verdict = judge(now, [*surveys, *task.findings], facts, task.context)
    return reconcile(verdict, task.context, survey_again)


@frozen
class QuickTask:
    """A target whose ends are read; ``careful`` is as for ``quick_verdict``."""

    target: Target
    inventory: Inventory
    context: Context
    careful: bool = False


def make_careful(task: QuickTask) -> QuickTask:
    """Return ``task`` for a second attempt."""
    return replace(task, careful=True)


def inspect(task: QuickTask, *, conclude: Conclude, statistics: bool = False) -> Verdict:
    """Return the verdict of the quick pass over a target; ``statistics`` is as for a survey."""
    target = task.inventory.open(task.target)
    verdict = quick_verdict(
        target,
        task.context,
        careful=task.careful,
        small=Small.ENDS,
        statistics=statistics,
        conclude=conclude,
    )
    return verdict.with_directory(None)
