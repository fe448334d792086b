"""The full pass over a target, as stages: a survey of each segment, a verdict on the results.

The stages do not know where they run: ``verify`` carries them out in workers of this process, and
``target_tasks`` makes tasks of them that travel to executors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol

from kdump.audit.checks.read_errors import killed_reader
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.judge import judge
from kdump.audit.run.gather import gather
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.run.reconcile import reconcile
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.remembered import Remembered
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace
from kdump.values import frozen

#: The most bytes of rebuilt indexes that are held of a partition; of further ones only digests are.
_REBUILD_BYTES: Final = 256 << 20


@frozen
class SurveyTask:
    """One segment of the target with the index ``target_index``; ``survey`` has the other options.

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

    def unmap(self) -> SurveyTask:
        """Return the task for a second attempt: a mapped file may have been truncated."""
        return replace(self, mapped=False)


def run_survey(
    task: SurveyTask, report: Callable[[int], None] = lambda _: None, *, pace: Pace | None = None
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


def survey_of(target: Target, outcome: workers.Result[SurveyTask, Survey]) -> Survey | Finding:
    """Return the survey or finding in a worker's outcome; raises the worker's KdumpError."""
    value = outcome.value
    if isinstance(value, KdumpError):
        raise value
    if isinstance(value, workers.WorkerDied):
        return killed_reader(outcome.task.segment.log, value, target)
    return value


class Memory(Protocol):
    """What earlier runs have read of a partition, and what this task adds.

    ``findings`` are on changes since then that no broker makes. ``unwritten`` says what could not
    be kept for later runs.
    """

    findings: list[Finding]
    unwritten: Remembered

    def survey(self, task: SurveyTask, read: Callable[[SurveyTask], Survey]) -> Survey:
        """Return the survey of the segment of ``task``, which is read only if that is due."""

    def append(self) -> None:
        """Keep what is new for later runs."""

    def conclude(self, verdict: Verdict) -> Verdict:
        """Keep what is known of all segments, and return the verdict with what that adds to it."""


class Memories(Protocol):
    """What earlier runs have read of the partitions of a log directory."""

    def open(self, target: Target, context: Context, base: int | None) -> Memory:
        """Return that of a partition, or of its segment with the base offset ``base``."""


@frozen
class Verification:
    """The depth of the surveys, and the ``context`` of the verdicts.

    Without a ``context`` only the logs are verified. ``rebuild`` also rebuilds the indexes of each
    segment, for its survey, ``digest`` makes a digest of its headers, ``statistics`` makes those of
    its batches and of the reading. With ``memories``, which need both, sealed segments are left out
    that earlier runs have read; ``verify`` has none.
    """

    context: Context | None
    deep: bool = False
    rebuild: bool = False
    digest: bool = False
    statistics: bool = False
    memories: Memories | None = None

    def memory(self, target: Target, base: int | None = None) -> Memory | None:
        """Return what runs remember of a target, or of one of its segments; None of a lone one."""
        alone = target.partition is None and not target.pending
        if self.memories is None or self.context is None or alone:
            return None
        return self.memories.open(target.without_listing(), self.context, base)

    def tasks(
        self, target: Target, number: int = 0, left_out: Collection[int] = ()
    ) -> Iterator[SurveyTask]:
        """Yield one task for each segment of the target with the index ``number``, in order.

        ``left_out`` are the base offsets of segments of which only the ends are read.
        """
        settings = TopicSettings() if self.context is None else self.context.settings(target)
        room = _REBUILD_BYTES // max(len(target.segments), 1) if self.rebuild else None
        for segment in target.segments:
            yield SurveyTask(
                number,
                segment,
                target.stopped,
                target.is_sealed(segment),
                self.deep,
                settings,
                room,
                segment.base_offset in left_out,
                self.digest,
                self.statistics,
            )

    def facts(self, target: Target) -> PartitionFacts | None:
        """Return what the small files of a target say, shortly before its logs are read."""
        return None if self.context is None else gather(target, self.context, deep=self.deep)

    def verdict(
        self,
        target: Target,
        results: Sequence[Survey | Finding],
        facts: PartitionFacts | None,
        work: Callable[[SurveyTask, Callable[[int], None]], Survey] = run_survey,
        *,
        quick: bool = False,
    ) -> Verdict:
        """Return the verdict from the results for the segments, as ``judge`` gets them.

        ``work`` reads segments once more that may have changed since they were read.
        """

        def resurvey(now: Target, suspects: Sequence[Segment]) -> list[Survey | Finding]:
            again = (task.unmap() for task in self.tasks(now) if task.segment in suspects)
            return [survey_of(now, outcome) for outcome in workers.run(work, again, 1)]

        verdict = judge(target, results, facts, self.context, quick=quick)
        return reconcile(verdict, self.context, resurvey)
