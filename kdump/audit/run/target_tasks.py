"""A verification as tasks that travel: each reads segments, or gives the verdict on a target.

One task reads and checks a small target. Of a larger one, one task reads each segment, and a
further task checks the results of all of them. The task of the last segment first lists the
directory again and reads the small files, so that they are from just before that log is read.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Generic, TypeVar

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.run.prescan import quick_verdict
from kdump.audit.run.verification import Memory, SurveyTask, Verification, run_survey
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.remembered import NOTHING_REMEMBERED, Remembered
from kdump.audit.verdicts.verdict import Conclude, Verdict
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import use_idle_io
from kdump.values import frozen

T = TypeVar("T")


@frozen
class LedgerLine:
    """The reading of one log on ``host``; the offsets are None without a sound batch.

    ``bytes`` are those that this run read: 0 for a log that an earlier run has read.
    """

    path: AnyPath
    host: str
    bytes: int
    batches: int
    first_offset: int | None
    last_offset: int | None

    @classmethod
    def from_survey(cls, survey: Survey, host: str) -> LedgerLine:
        """Return the line of a survey that was made on ``host``."""
        return cls(
            survey.segment.log,
            host,
            survey.read_bytes if survey.read_ms is None else 0,
            survey.batches,
            survey.first_offset,
            survey.last_offset,
        )


@frozen
class TargetTask:
    """A target that one task reads and checks; without ``mapped`` no file is mapped."""

    target: Target
    inventory: Inventory
    verification: Verification
    mapped: bool = True

    def unmap(self) -> TargetTask:
        """Return the task for a second attempt, which maps nothing."""
        return replace(self, mapped=False)


@frozen
class SegmentTask:
    """A segment of a target to survey; ``survey`` is None for a target without segments.

    ``last`` is the target if the segment is its last one, else None. ``remembered`` is the target,
    without its listing, if runs remember the segment.
    """

    survey: SurveyTask | None
    stopped: bool
    verification: Verification
    last: Target | None
    remembered: Target | None

    @property
    def path(self) -> AnyPath | None:
        """The log to read."""
        return None if self.survey is None else self.survey.segment.log

    def unmap(self) -> SegmentTask:
        """Return the task for a second attempt, which maps nothing."""
        return self if self.survey is None else replace(self, survey=self.survey.unmap())


@frozen
class VerdictTask:
    """A target to check; ``evidence`` is that of its segments, pickled."""

    target: Target
    evidence: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    verification: Verification

    def unmap(self) -> VerdictTask:
        """Return the task for a second attempt: it maps nothing."""
        return self


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
    ``findings`` and ``unwritten`` come from a ``Memory``.
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


def segment_tasks(target: Target, verification: Verification) -> list[SegmentTask]:
    """Return a task for each segment of a target, at least one."""
    surveys: list[SurveyTask | None] = [*verification.tasks(target)]
    surveys = surveys or [None]
    remembers = verification.memories is not None and target.partition is not None
    small = target.without_listing() if remembers else None
    return [
        SegmentTask(
            survey,
            target.stopped,
            verification,
            target if survey is surveys[-1] else None,
            small if survey is not None and survey.sealed else None,
        )
        for survey in surveys
    ]


def run_task(
    task: TargetTask | SegmentTask | VerdictTask, *, conclude: Callable[[Verdict], T]
) -> TargetResult[T] | SegmentResult | T:
    """Run a task of any kind; ``conclude`` gets the verdict, also in a ``TargetResult``."""
    match task:
        case TargetTask():
            return _verify_target(task, conclude)
        case SegmentTask():
            return _survey_segment(task)
        case VerdictTask():
            return conclude(_make_verdict(task))


def _survey_segment(task: SegmentTask) -> SegmentResult:
    memory = None
    if task.remembered is not None and task.survey is not None:
        base = task.survey.segment.base_offset
        memory = task.verification.memory(task.remembered, base)
    evidence = _survey(task, memory)
    if memory is not None:
        memory.append()
        evidence = replace(evidence, findings=tuple(memory.findings), unwritten=memory.unwritten)
    return SegmentResult(pickle.dumps(evidence), _lines(evidence))


def _verify_target(task: TargetTask, conclude: Callable[[Verdict], T]) -> TargetResult[T]:
    target, verification = task.inventory.open(task.target), task.verification
    memory = _open_memory(target, verification)
    evidence = _Evidence()
    for segment in segment_tasks(target, verification):
        evidence += _survey(segment if task.mapped else segment.unmap(), memory)
    verdict = _verdict(VerdictTask(target, (), (), verification), evidence)
    if memory is not None:
        verdict = memory.conclude(verdict)
    return TargetResult(conclude(verdict), _lines(evidence))


def _make_verdict(task: VerdictTask) -> Verdict:
    evidence = _load_evidence(task.evidence)
    verdict = _verdict(task, evidence)
    memory = _open_memory(task.target, task.verification)
    if memory is not None:
        memory.findings += evidence.findings
        memory.unwritten += evidence.unwritten
        verdict = memory.conclude(verdict)
    return verdict


def make_partial_verdict(task: VerdictTask, finding: Finding) -> Verdict:
    """Return a verdict from the surveys alone; ``finding`` says why its task has no result."""
    surveys = _load_evidence(task.evidence).surveys
    results: list[Survey | Finding] = [*surveys, *task.findings, finding]
    return judge(task.target, results, context=task.verification.context)


@frozen
class WithoutDirectory:
    """``conclude`` without the log directory of the target, which the driver has."""

    conclude: Conclude

    def __call__(self, verdict: Verdict) -> Verdict:
        """Return the conclusion."""
        return self.conclude(verdict).with_directory(None)


def _open_memory(target: Target, verification: Verification) -> Memory | None:
    sealed = any(map(target.is_sealed, target.segments))
    return verification.memory(target) if sealed else None


def _survey(task: SegmentTask, memory: Memory | None) -> _Evidence:
    if not task.stopped:
        use_idle_io()
    now, facts = None, None
    tasks = [] if task.survey is None else [task.survey]
    if task.last is not None:
        # Shortly before the log is read, to which a broker may append.
        now, facts = _read_small_files(task.last, task.verification)
        if not now.stopped:
            # A broker has rolled further segments since the target was listed.
            known = {segment.log for segment in task.last.segments}
            further = task.verification.tasks(now)
            tasks += [each for each in further if each.segment.log not in known]
        now = replace(now, directory=None)
    surveys = (
        run_survey(each) if memory is None else memory.survey(each, run_survey) for each in tasks
    )
    return _Evidence(tuple(surveys), now, facts)


def _lines(evidence: _Evidence) -> tuple[LedgerLine, ...]:
    host = socket.gethostname()
    return tuple(LedgerLine.from_survey(survey, host) for survey in evidence.surveys)


def _read_small_files(
    target: Target, verification: Verification
) -> tuple[Target, PartitionFacts | None]:
    """List a target again, and read its small files."""
    now = target if target.stopped else target.without_listing().with_listing()
    return now, verification.facts(now)


def _load_evidence(evidence: Iterable[bytes]) -> _Evidence:
    return sum(map(pickle.loads, evidence), _Evidence())


def _verdict(task: VerdictTask, evidence: _Evidence) -> Verdict:
    if not task.target.stopped:
        use_idle_io()
    now, facts = evidence.now, evidence.facts
    if now is None:  # the task of the last segment has no result
        now, facts = _read_small_files(task.target, task.verification)
    elif now.error is None:
        now = replace(now, directory=task.target.directory)
    # Logs that a running broker has deleted are left out, not those that the cleaner was replacing
    # when they were read: these are back, or about to be, and are read again.
    listed = {segment.log for segment in now.segments}
    surveys = [
        each
        for each in evidence.surveys
        if each.segment.log in listed or (not each.complete and _is_replaced(each.segment.log))
    ]
    missed = [each.segment for each in surveys if each.segment.log not in listed]
    if missed:
        segments = sorted((*now.segments, *missed), key=lambda segment: segment.base_offset)
        now = replace(now, segments=tuple(segments))
    return task.verification.verdict(now, [*surveys, *task.findings], facts)


def _is_replaced(log: AnyPath) -> bool:
    """Return whether a log that was gone is there, or the file that gets its name."""
    return log.exists() or (log.parent / f"{log.name}.swap").exists()


@frozen
class QuickTask:
    """A target whose ends are read; a ``careful`` task maps no file."""

    target: Target
    inventory: Inventory
    context: Context
    careful: bool = False

    def unmap(self) -> QuickTask:
        """Return the task for a second attempt, which maps nothing."""
        return replace(self, careful=True)


def inspect(task: QuickTask, *, conclude: Conclude, statistics: bool = False) -> Verdict:
    """Return the verdict of the quick pass over a target, with ``statistics`` of its batches."""
    return quick_verdict(
        task.inventory.open(task.target),
        task.context,
        careful=task.careful,
        statistics=statistics,
        conclude=conclude,
    )
