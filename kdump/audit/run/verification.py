"""Surveys as tasks for a worker or a Spark executor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace
from kdump.values import frozen

#: The most bytes of rebuilt indexes that are held of a partition; of further ones only digests are.
_REBUILD_BYTES: Final = 256 << 20


@frozen
class SurveyTask:
    """One segment of the target with the index ``target_index``; the rest is as for ``survey``.

    ``ends``: only the ends of its files are read. ``digest`` asks for a digest of the headers,
    ``statistics`` for those of a survey.
    """

    target_index: int
    segment: Segment
    mapped: bool
    sealed: bool
    deep: bool
    settings: TopicSettings
    rebuild_room: int | None = None
    ends: bool = False
    digest: bool = False
    statistics: bool = False


def survey_tasks(
    number: int,
    target: Target,
    context: Context | None,
    *,
    deep: bool,
    rebuild: bool = False,
    digest: bool = False,
    statistics: bool = False,
    left_out: Collection[int] = (),
) -> Iterator[SurveyTask]:
    """Yield one task for each segment of a target, in order.

    ``rebuild``, ``digest`` and ``statistics`` are as for ``verify``.
    ``left_out`` are the base offsets of segments of which only the ends are read.
    """
    settings = TopicSettings() if context is None else context.settings(target)
    room = _REBUILD_BYTES // max(len(target.segments), 1) if rebuild else None
    for segment in target.segments:
        sealed = target.is_sealed(segment)
        ends = segment.base_offset in left_out
        yield SurveyTask(
            number, segment, target.stopped, sealed, deep, settings, room, ends, digest, statistics
        )


def run_survey(
    task: SurveyTask, report: Callable[[int], None], *, pace: Pace | None = None
) -> Survey:
    """Run the task and return its survey; ``report`` gets counts of bytes that were read."""
    if task.ends:
        return quick_survey(
            task.segment,
            sealed=task.sealed,
            mapped=task.mapped,
            cleaned=task.settings.compacted,
            statistics=task.statistics,
        )
    return survey(
        task.segment,
        report,
        mapped=task.mapped,
        sealed=task.sealed,
        deep=task.deep,
        pace=pace,
        settings=task.settings,
        rebuild_room=task.rebuild_room,
        digest=task.digest,
        statistics=task.statistics,
    )


def rerun_surveys(
    target: Target,
    suspects: Sequence[Segment],
    tasks: Iterable[SurveyTask],
    work: Callable[[SurveyTask, Callable[[int], None]], Survey],
) -> list[Survey | Finding]:
    """Run those of ``tasks`` that are of ``suspects`` once more, for the recheck of a target."""
    unmapped = (replace(task, mapped=False) for task in tasks if task.segment in suspects)
    return [survey_of(target, outcome) for outcome in workers.run(work, unmapped, 1)]


def survey_of(target: Target, outcome: workers.Result[SurveyTask, Survey]) -> Survey | Finding:
    """Return the survey or finding in a worker's outcome; raises the worker's KdumpError."""
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.WorkerDied):
        return killed_reader(outcome.task.segment.log, value, target)
    return value
