"""Surveys as tasks for a worker or a Spark executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kdump.audit.checks.read_errors import killed
from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace

#: So many bytes of indexes that were built anew are kept of a partition; of others the digests.
_REBUILD_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """One segment of the group with the index ``target_index``; the rest is as for ``survey``."""

    target_index: int
    segment: Segment
    mapped: bool
    sealed: bool
    deep: bool
    settings: TopicSettings
    rebuild_room: int | None = None


def survey_tasks(
    number: int, target: Target, context: Context | None, *, deep: bool, rebuild: bool = False
) -> Iterator[SurveyTask]:
    """One task for each segment of a group, in their order; ``rebuild`` is as for ``verify``."""
    settings = TopicSettings() if context is None else context.settings(target)
    room = _REBUILD_BYTES // max(len(target.segments), 1) if rebuild else None
    for segment in target.segments:
        sealed = target.is_sealed(segment)
        yield SurveyTask(number, segment, target.stopped, sealed, deep, settings, room)


def surveyed(
    task: SurveyTask, report: Callable[[int], None], *, pace: Pace | None = None
) -> Survey:
    """Do the task."""
    return survey(
        task.segment,
        report,
        mapped=task.mapped,
        sealed=task.sealed,
        deep=task.deep,
        pace=pace,
        settings=task.settings,
        rebuild_room=task.rebuild_room,
    )


def surveyed_again(
    now: Target,
    suspects: Sequence[Segment],
    tasks: Iterable[SurveyTask],
    work: Callable[[SurveyTask, Callable[[int], None]], Survey],
) -> list[Survey | Finding]:
    """Do those of ``tasks`` that are of ``suspects`` once more, for the second look at a group."""
    unmapped = (replace(task, mapped=False) for task in tasks if task.segment in suspects)
    return [survey_of(now, outcome) for outcome in workers.run(work, unmapped, 1)]


def survey_of(target: Target, outcome: workers.Result[SurveyTask, Survey]) -> Survey | Finding:
    """Return what a worker's outcome is to the group's judge; raises the worker's KdumpError."""
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.Died):
        return killed(outcome.task.segment.log, value, target)
    return value
