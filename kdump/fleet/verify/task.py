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
from kdump.audit.run.prescan import Small, glance
from kdump.audit.run.reconcile import reconcile
from kdump.audit.run.tasks import SurveyTask, survey_tasks, surveyed, surveyed_again
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Group
from kdump.audit.verdicts.verdict import Conclude, Judged
from kdump.fleet.verify.inventory import Inventory
from kdump.fleet.verify.ledger import Line
from kdump.storage.logdir import Segment
from kdump.storage.throttle import use_idle_io


@dataclass(frozen=True, slots=True)
class Whole:
    """A group that is read and judged at once; ``mapped`` is as for ``survey``."""

    number: int
    group: Group
    inventory: Inventory
    context: Context
    deep: bool
    mapped: bool = True

    def unmapped(self) -> Whole:
        """The same for a second attempt.

        A file may have been cut while it was mapped: somebody writes there after all.
        """
        return replace(self, mapped=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be surveyed of a group: one segment, none where there is none.

    ``last`` is the group where the segment is the last one, None else.
    """

    number: int
    survey: SurveyTask | None
    stopped: bool
    last: Group | None
    context: Context
    deep: bool

    @property
    def path(self) -> Path | None:
        """The log that is to be read."""
        return None if self.survey is None else self.survey.segment.log

    def unmapped(self) -> Reading:
        """The same for a second attempt, as for ``Whole``."""
        survey = self.survey
        return self if survey is None else replace(self, survey=replace(survey, mapped=False))


@dataclass(frozen=True, slots=True)
class Case:
    """A group that is to be judged by what was read of it: ``evidence`` is of readings."""

    group: Group
    evidence: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    context: Context


@dataclass(frozen=True, slots=True)
class Read:
    """What comes of a reading: pickled evidence, which the driver only hands on, and its lines."""

    evidence: bytes
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What comes of a whole group."""

    judged: Judged
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a partition's judge needs; ``now`` and ``facts`` come with the last segment.

    ``now`` is without the log directory, which may be large, and which the judge is given once.
    """

    surveys: tuple[Survey, ...] = ()
    now: Group | None = None
    facts: PartitionFacts | None = None

    def __add__(self, other: _Evidence) -> _Evidence:
        latest = self if other.now is None else other
        return _Evidence(self.surveys + other.surveys, latest.now, latest.facts)


def readings(
    number: int, group: Group, context: Context, *, deep: bool, mapped: bool = True
) -> Iterator[Reading]:
    """What is to be read of a group; ``mapped`` is as for ``survey``."""
    tasks: list[SurveyTask | None] = [
        replace(task, mapped=mapped) for task in survey_tasks(number, group, context, deep=deep)
    ]
    *before, last = tasks or [None]
    for task in before:
        yield Reading(number, task, group.stopped, None, context, deep)
    yield Reading(number, last, group.stopped, group, context, deep)


def unmapped(task: Whole | Reading) -> Whole | Reading:
    """The same for a second attempt, of either kind."""
    return task.unmapped()


def work(task: Whole | Reading, *, conclude: Conclude) -> Done | Read:
    """Do a task of either kind."""
    return read(task) if isinstance(task, Reading) else read_and_judge(task, conclude=conclude)


def read(reading: Reading) -> Read:
    """Survey a segment."""
    evidence = _surveyed(reading)
    return Read(pickle.dumps(evidence), _lines(evidence))


def read_and_judge(whole: Whole, *, conclude: Conclude) -> Done:
    """Survey all segments of a group, and judge it."""
    group, context, deep = whole.inventory.open(whole.group), whole.context, whole.deep
    evidence = _Evidence()
    for reading in readings(0, group, context, deep=deep, mapped=whole.mapped):
        evidence += _surveyed(reading)
    judged = _judged(Case(group, (), (), context), evidence, deep=deep, conclude=conclude)
    return Done(judged, _lines(evidence))


def judge_results(case: Case, *, deep: bool, conclude: Conclude) -> Judged:
    """Judge a group of which all segments were read."""
    return _judged(case, _opened(case.evidence), deep=deep, conclude=conclude)


def judge_unjudged(case: Case, finding: Finding, conclude: Conclude) -> Judged:
    """What the surveys alone have shown, where ``finding`` says why nobody has judged them."""
    surveys = _opened(case.evidence).surveys
    return conclude(judge(case.group, [*surveys, *case.findings, finding], context=case.context))


def _surveyed(reading: Reading) -> _Evidence:
    if not reading.stopped:
        use_idle_io()
    now, facts = None, None
    tasks = [] if reading.survey is None else [reading.survey]
    if reading.last is not None:
        # Before the log, which a broker may go on writing, and not long before.
        now, facts = _beside(reading.last, reading.context)
        tasks += _rolled(reading.last, now, reading)
        now = replace(now, directory=None)
    return _Evidence(tuple(surveyed(task, _untold) for task in tasks), now, facts)


def _lines(evidence: _Evidence) -> tuple[Line, ...]:
    host = socket.gethostname()
    return tuple(Line.of(survey, host) for survey in evidence.surveys)


def _beside(group: Group, context: Context) -> tuple[Group, PartitionFacts | None]:
    """What there is of a group by now, and the small files that go with it."""
    now = group if group.stopped else group.unlisted().listed()
    return now, gather(now, context)


def _rolled(then: Group, now: Group, reading: Reading) -> list[SurveyTask]:
    """The segments that a broker has begun since the group was listed."""
    known = {segment.log for segment in then.segments}
    tasks = survey_tasks(reading.number, now, reading.context, deep=reading.deep)
    return [task for task in tasks if task.segment.log not in known]


def _untold(_: int) -> None:
    """Spark tells how many tasks are done, not how many bytes."""


def _opened(evidence: Iterable[bytes]) -> _Evidence:
    return sum(map(pickle.loads, evidence), _Evidence())


def _judged(case: Case, found: _Evidence, *, deep: bool, conclude: Conclude) -> Judged:
    def again(now: Group, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = survey_tasks(0, now, case.context, deep=deep)
        return surveyed_again(now, suspects, tasks, surveyed)

    if not case.group.stopped:
        use_idle_io()
    now, facts = found.now, found.facts
    if now is None:  # whoever read the last segment has not come to an end
        now, facts = _beside(case.group, case.context)
    elif now.error is None:
        now = replace(now, directory=case.group.directory)
    # Of a running broker's logs those are left out that it has deleted since they were read.
    listed = {segment.log for segment in now.segments}
    kept = [survey for survey in found.surveys if survey.segment.log in listed]
    judged = judge(now, [*kept, *case.findings], facts, case.context)
    return _packed(conclude(reconcile(judged, case.context, again)))


@dataclass(frozen=True, slots=True)
class Glance:
    """A group to look at; ``careful`` is as for ``glance``."""

    group: Group
    inventory: Inventory
    context: Context
    careful: bool = False


def carefully(task: Glance) -> Glance:
    """The same for a second attempt."""
    return replace(task, careful=True)


def inspect(task: Glance, *, conclude: Conclude) -> Judged:
    """Look at the ends of a group."""
    group = task.inventory.open(task.group)
    return _packed(
        glance(group, task.context, careful=task.careful, small=Small.ENDS, conclude=conclude)
    )


def _packed(judged: Judged) -> Judged:
    """The same without the log directory, which the driver has."""
    return replace(judged, group=replace(judged.group, directory=None))
