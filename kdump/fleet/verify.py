"""verify() and quick_pass() on Spark: what their namesakes in ``audit`` do, done by executors.

One stage surveys segments. The task that reads the last segment of a partition first lists the
directory once more and reads the small files, as they are just before that log is read. In the
stage behind it one task a partition judges what all the surveys have found, and forecasts.

Spec: none of Kafka's. What no executor has brought is a finding. It must never look at a disk of
the driver.
"""

from __future__ import annotations

import pickle
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.gathering import gather
from kdump.audit.groups import Group
from kdump.audit.judge import judge, killed
from kdump.audit.judged import Conclude, Judged, as_it_is
from kdump.audit.quick_pass import Small, glance
from kdump.audit.settling import settled
from kdump.audit.survey import Survey
from kdump.audit.survey_tasks import SurveyTask, survey_tasks, surveyed, surveyed_again
from kdump.fleet.ledger import Line, uncovered, unproved
from kdump.fleet.spread import Lost, counting, spread
from kdump.storage.logdir import Segment
from kdump.storage.pace import use_idle_io
from kdump.storage.workers import Died

if TYPE_CHECKING:
    from kdump.fleet.session import Session


#: To judge a segment takes as long as to read so many bytes of one.
_JUDGED_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is to be surveyed of a group: one segment, none where there is none.

    ``last`` is the group where the segment is the last one, None else.
    """

    group: int
    survey: SurveyTask | None
    stopped: bool
    last: Group | None
    context: Context
    deep: bool

    @property
    def path(self) -> Path | None:
        """The log that is to be read."""
        return None if self.survey is None else self.survey.segment.log


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What a partition's judge needs; ``now`` and ``facts`` come with the last segment.

    ``now`` is without the log directory, which may be large, and which the judge is given once.
    """

    surveys: tuple[Survey, ...]
    now: Group | None
    facts: PartitionFacts | None


@dataclass(frozen=True, slots=True)
class _Read:
    """What an executor brings: pickled evidence, which the driver only hands on, and its lines."""

    evidence: bytes
    lines: tuple[Line, ...]


@dataclass(slots=True)
class _Gathered:
    """All that was brought of one group; ``told`` are its logs that ``findings`` are about."""

    evidence: list[bytes] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    told: list[Path] = field(default_factory=list)

    def add(self, reading: _Reading, group: Group, found: _Read | Died | Lost) -> None:
        """Take in what came of one reading."""
        if isinstance(found, _Read):
            self.evidence.append(found.evidence)
            self.lines += found.lines
            return
        self.findings.append(_missing(group, reading.path or group.path, found))
        self.told += [] if reading.path is None else [reading.path]


@dataclass(frozen=True, slots=True)
class _Case:
    """A group that is to be judged."""

    group: Group
    evidence: tuple[bytes, ...]
    findings: tuple[Finding, ...]
    context: Context


def verify(
    session: Session,
    groups: Sequence[Group],
    *,
    deep: bool,
    context: Context,
    sizes: Mapping[Path, int],
    conclude: Conclude = as_it_is,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Judged]:
    """Survey and judge ``groups``, which are listed; every group comes out, in order.

    ``sizes`` are the bytes of logs by their paths. ``conclude`` is called by the executor, and
    travels there. ``on_progress`` gets counts of bytes of logs that were read since its last call.
    """
    narrow = _narrowed(groups, context)
    readings = [
        reading
        for number, group in enumerate(groups)
        for reading in _readings(number, group, narrow[number], deep=deep)
    ]
    costs = [0 if one.path is None else sizes.get(one.path, 0) for one in readings]
    gathered: dict[int, _Gathered] = defaultdict(_Gathered)
    told = None if on_progress is None else counting(sum(costs), on_progress)
    for number, found in spread(
        session, _read, readings, costs, careful=_unmapped, on_progress=told
    ):
        reading = readings[number]
        gathered[reading.group].add(reading, groups[reading.group], found)
    cases = []
    for number, group in enumerate(groups):
        of = gathered.pop(number)
        findings = (*of.findings, *uncovered(group, of.lines, of.told))
        cases.append(_Case(group, tuple(of.evidence), findings, narrow[number]))
    weights = [sum(_JUDGED_BYTES + len(each) for each in case.evidence) for case in cases]
    work = partial(_judge, deep=deep, conclude=conclude)
    yield from _in_order(
        spread(session, work, cases, weights),
        groups,
        lambda number, finding: _unjudged(cases[number], finding, conclude),
    )


def quick_pass(
    session: Session,
    groups: Sequence[Group],
    context: Context,
    *,
    conclude: Conclude = as_it_is,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[Judged]:
    """Look at the ends of ``groups``; every group comes out judged, in order.

    ``conclude`` is as for ``verify``. ``on_progress`` gets counts of groups since its last call.
    """
    narrow = _narrowed(groups, context)
    tasks = [_Glance(group, narrow[number]) for number, group in enumerate(groups)]
    told = None if on_progress is None else counting(len(groups), on_progress)
    work = partial(_glance, conclude=conclude)

    def instead(number: int, finding: Finding) -> Judged:
        return conclude(judge(groups[number], [finding], context=context, quick=True))

    found = spread(session, work, tasks, [0] * len(tasks), careful=_carefully, on_progress=told)
    yield from _in_order(found, groups, instead)


def _narrowed(groups: Sequence[Group], context: Context) -> list[Context]:
    """What of ``context`` is about each group; groups of one directory share it."""
    known: dict[Path | None, Context] = {}
    for group in groups:
        path = _directory(group)
        if path not in known:
            nodes = {} if path is None else {path: context.node(group)}
            known[path] = replace(context, siblings=(), strays=frozenset(), nodes=nodes)
    return [known[_directory(group)] for group in groups]


def _directory(group: Group) -> Path | None:
    return None if group.directory is None else group.directory.directory.path


def _readings(number: int, group: Group, context: Context, *, deep: bool) -> Iterator[_Reading]:
    tasks: list[SurveyTask | None] = [*survey_tasks(number, group, context, deep=deep)]
    *before, last = tasks or [None]
    for task in before:
        yield _Reading(number, task, group.stopped, None, context, deep)
    yield _Reading(number, last, group.stopped, group, context, deep)


def _unmapped(reading: _Reading) -> _Reading:
    # A file may have been cut while it was mapped: somebody writes there after all.
    if reading.survey is None:
        return reading
    return replace(reading, survey=replace(reading.survey, mapped=False))


def _read(reading: _Reading) -> _Read:
    if not reading.stopped:
        use_idle_io()
    now, facts = None, None
    tasks = [] if reading.survey is None else [reading.survey]
    if reading.last is not None:
        # Before the log, which a broker may go on writing, and not long before.
        now, facts = _beside(reading.last, reading.context)
        tasks += _rolled(reading.last, now, reading)
        now = replace(now, directory=None)
    surveys = tuple(surveyed(task, _untold) for task in tasks)
    host = socket.gethostname()
    lines = tuple(Line.of(survey, host) for survey in surveys)
    return _Read(pickle.dumps(_Evidence(surveys, now, facts)), lines)


def _beside(group: Group, context: Context) -> tuple[Group, PartitionFacts | None]:
    """What there is of a group by now, and the small files that go with it."""
    now = group if group.stopped else group.unlisted().listed()
    return now, gather(now, context)


def _rolled(then: Group, now: Group, reading: _Reading) -> list[SurveyTask]:
    """The segments that a broker has begun since the group was listed."""
    known = {segment.log for segment in then.segments}
    tasks = survey_tasks(reading.group, now, reading.context, deep=reading.deep)
    return [task for task in tasks if task.segment.log not in known]


def _untold(_: int) -> None:
    """Spark tells how many tasks are done, not how many bytes."""


def _judge(case: _Case, *, deep: bool, conclude: Conclude) -> Judged:
    def again(now: Group, suspects: Sequence[Segment]) -> list[Survey | Finding]:
        tasks = survey_tasks(0, now, case.context, deep=deep)
        return surveyed_again(now, suspects, tasks, surveyed)

    if not case.group.stopped:
        use_idle_io()
    surveys, now, facts = _opened(case.evidence)
    if now is None:  # whoever read the last segment has not come to an end
        now, facts = _beside(case.group, case.context)
    elif now.error is None:
        now = replace(now, directory=case.group.directory)
    # Of a running broker's logs those are left out that it has deleted since they were read.
    listed = {segment.log for segment in now.segments}
    kept = [survey for survey in surveys if survey.segment.log in listed]
    judged = judge(now, [*kept, *case.findings], facts, case.context)
    return _packed(conclude(settled(judged, case.context, again)))


def _opened(
    evidence: Sequence[bytes],
) -> tuple[list[Survey], Group | None, PartitionFacts | None]:
    surveys: list[Survey] = []
    now, facts = None, None
    for each in evidence:
        found: _Evidence = pickle.loads(each)
        surveys += found.surveys
        if found.now is not None:
            now, facts = found.now, found.facts
    return surveys, now, facts


def _unjudged(case: _Case, finding: Finding, conclude: Conclude) -> Judged:
    """What the surveys alone have shown, where no executor has brought a judgement."""
    surveys, _, _ = _opened(case.evidence)
    return conclude(judge(case.group, [*surveys, *case.findings, finding], context=case.context))


@dataclass(frozen=True, slots=True)
class _Glance:
    """A group to look at; ``careful`` is as for ``glance``."""

    group: Group
    context: Context
    careful: bool = False


def _carefully(task: _Glance) -> _Glance:
    return replace(task, careful=True)


def _glance(task: _Glance, *, conclude: Conclude) -> Judged:
    return _packed(
        glance(task.group, task.context, careful=task.careful, small=Small.ENDS, conclude=conclude)
    )


def _packed(judged: Judged) -> Judged:
    """The same without the log directory, which the driver has."""
    return replace(judged, group=replace(judged.group, directory=None))


def _in_order(
    results: Iterator[tuple[int, Judged | Died | Lost]],
    groups: Sequence[Group],
    instead: Callable[[int, Finding], Judged],
) -> Iterator[Judged]:
    """Put judgements in the order of ``groups``; ``instead`` makes one where none was brought."""
    ready: dict[int, Judged] = {}
    next_up = 0
    for number, found in results:
        group = groups[number]
        if isinstance(found, Judged):
            directory = None if found.group.error else group.directory
            ready[number] = replace(found, group=replace(found.group, directory=directory))
        else:
            ready[number] = instead(number, _missing(group, group.path, found))
        while next_up in ready:
            yield ready.pop(next_up)
            next_up += 1


def _missing(group: Group, path: Path, found: Died | Lost) -> Finding:
    """What is to be said of a path that no executor has brought a result of."""
    if isinstance(found, Died):
        return killed(path, found, group)
    return unproved(group, path, found.text)
