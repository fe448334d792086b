"""next_start(): derives the forecast of a partition from its verdict.

``forecast`` and ``startup.loader`` have what a broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from kdump.audit import codes
from kdump.audit.evidence import known_ends, neighbours
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import (
    Forecast,
    causes_of,
    forecast,
    harms_of,
    worst_outcome,
)
from kdump.audit.startup.future_loss import lost_to_successor
from kdump.audit.startup.inputs import read_log_facts, violations
from kdump.audit.startup.outcome import Outcome
from kdump.audit.startup.swap_loss import swap_loss
from kdump.audit.survey.recovery import Records
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.verdicts.loss import lost_now
from kdump.audit.verdicts.statistics import statistics_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment, is_metadata_log
from kdump.storage.objects.address import AnyPath
from kdump.values import frozen

#: The codes for which a broker renames a replica with records to ``-stray`` once it is loaded.
_SET_ASIDE: Final = (codes.TOPIC_ID_MISSING, codes.PARTITION_STRAY_CUT, codes.PARTITION_STRAY)


@frozen
class Assumptions:
    """Values that the user assumes instead of those in the files; None for those in the files."""

    clean: bool | None = None
    recovery_point: int | None = None
    log_start: int | None = None

    def apply(self, verdict: Verdict) -> Verdict:
        """Return ``verdict`` under these assumptions; a metadata log keeps its own values."""
        facts = verdict.facts
        if facts is None or is_metadata_log(facts.partition):
            return verdict
        facts = replace(
            facts,
            clean=facts.clean if self.clean is None else self.clean,
            recovery_point=_override(self.recovery_point, facts.recovery_point),
            log_start=_override(self.log_start, facts.log_start),
        )
        return replace(verdict, facts=facts)


@frozen
class _Scan:
    number: int
    segment: Segment
    mapped: bool
    sealed: bool
    settings: TopicSettings


def next_start(verdict: Verdict) -> Forecast | None:
    """Return what a broker does with the partition at its next start.

    Return None for a lone segment, and for a directory that cannot be listed.
    """
    facts = verdict.facts
    if facts is None:
        return None
    metadata = is_metadata_log(facts.partition)
    if metadata:  # a broker ignores its checkpoint lines
        facts = replace(facts, recovery_point=None, log_start=None)
    # If only a part of the log was read, the events are incomplete.
    complete = [survey for survey in verdict.surveys if survey.recovered is not None]
    replay = verdict.replay if len(complete) == len(verdict.surveys) else None
    objections = violations(facts, complete, replay)
    start = forecast(facts, read_log_facts(facts, verdict.surveys, objections, replay), objections)
    loss = swap_loss(facts, verdict.surveys) if start.replaced else None
    deleted_at_start = facts.partition.name is not None and facts.partition.name.suffix == "delete"
    if loss is not None and loss.certain and not deleted_at_start:
        start = replace(start, lost=start.lost + Records(loss.records))
    if metadata:
        return _metadata_log_forecast(start, facts, verdict.findings)
    if start.outcome is Outcome.STARTS:
        end = start.log_end_offset
        if end is None:  # recovery has not read it
            end = max(known_ends(verdict.surveys).values(), default=None)
        start = replace(start, lost=start.lost + Records(lost_to_successor(facts, end)))
    denied = [finding for finding in verdict.findings if finding.code is codes.BROKER_DENIED]
    if denied:
        causes = (*causes_of(denied), *start.causes)
        outcome = worst_outcome(causes)
        start = replace(
            start, outcome=outcome, causes=causes, log_start_offset=None, log_end_offset=None
        )
    codes_found = {finding.code for finding in verdict.findings}
    return replace(
        start,
        set_aside=next((code for code in _SET_ASIDE if code in codes_found), None),
        harms=frozenset() if deleted_at_start else frozenset(harms_of(verdict.findings)),
    )


def _metadata_log_forecast(
    start: Forecast, facts: PartitionFacts, findings: Iterable[Finding]
) -> Forecast:
    """Return the forecast of a metadata log: without it, or a file it needs, no broker starts."""
    refusals = list(causes_of(findings))
    known_paths = {cause.path for cause in refusals}
    refusals += (cause for cause in start.causes if cause.path not in known_paths)
    if refusals:
        causes = tuple(replace(cause, outcome=Outcome.REFUSES) for cause in refusals)
        return replace(
            start,
            outcome=Outcome.REFUSES,
            causes=causes,
            log_start_offset=None,
            log_end_offset=None,
        )
    end = max(
        (snapshot.end_offset for snapshot in facts.metadata_snapshots if snapshot.fault is None),
        default=0,
    )
    if start.log_end_offset is None or end <= start.log_end_offset:
        return start
    # The log starts again at the end of the snapshot, which holds all that is deleted.
    return replace(
        start,
        log_start_offset=end,
        log_end_offset=end,
        segments=(end,),
        deleted=tuple(sorted({*start.deleted, *start.segments})),
    )


def add_forecast(verdict: Verdict, *, segments: bool) -> Verdict:
    """Return the verdict with its forecast, and without the evidence for both.

    ``segments`` is as for ``Verdict.without_evidence``.
    """
    start = next_start(verdict)  # first: the copy below drops its evidence
    return replace(verdict.without_evidence(segments=segments), forecast=start)


@frozen
class Conclusion:
    """``add_forecast`` as a picklable conclusion: verdicts on ``paths`` keep their segments.

    With ``statistics``, verdicts have those of their surveys.
    """

    paths: frozenset[AnyPath]
    statistics: bool = False

    def __call__(self, verdict: Verdict) -> Verdict:
        """Return the verdict with its forecast."""
        found = None
        if self.statistics:
            target = verdict.target
            found = statistics_of(
                verdict.surveys,
                verdict.replay,
                segments=len(target.segments),
                quick=verdict.quick or target.error is not None,
            )
        concluded = add_forecast(verdict, segments=verdict.target.path in self.paths)
        return replace(concluded, statistics=found)


def read_recovered(
    verdicts: Sequence[Verdict],
    *,
    jobs: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """Survey the segments that recovery would read, and return ``verdicts`` with these surveys.

    The surveys of other segments stay. ``on_progress`` gets counts of bytes that were read since
    its last call. Raises KdumpError.
    """
    found: dict[int, dict[int, Survey]] = {}
    tasks = [
        task for number, verdict in enumerate(verdicts) for task in _recovery_scans(number, verdict)
    ]
    with closing(workers.run(_read, tasks, jobs, on_progress=on_progress)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome.value, KdumpError):
                raise outcome.value
            if isinstance(outcome.value, Survey):
                base = outcome.task.segment.base_offset
                found.setdefault(outcome.task.number, {})[base] = outcome.value
    return [
        _with_surveys(verdict, found.get(number, {})) for number, verdict in enumerate(verdicts)
    ]


def _recovery_scans(number: int, verdict: Verdict) -> list[_Scan]:
    facts = verdict.facts
    if facts is None:
        return []
    return [
        _Scan(number, survey.segment, verdict.target.stopped, next_base is not None, facts.settings)
        for survey, next_base in neighbours(verdict.target, verdict.surveys)
        if _is_recovered(facts, next_base) or survey.segment.index is None
    ]


def _is_recovered(facts: PartitionFacts, next_base: int | None) -> bool:
    if facts.clean:
        return False
    return next_base is None or next_base > (facts.recovery_point or 0)


def _read(task: _Scan, report: Callable[[int], None]) -> Survey:
    return survey(
        task.segment,
        report,
        mapped=task.mapped,
        sealed=task.sealed,
        deep=False,
        settings=task.settings,
    )


def _with_surveys(verdict: Verdict, surveys: dict[int, Survey]) -> Verdict:
    """Return ``verdict`` with ``surveys``, by base offset, in place of its own."""
    merged = tuple(surveys.get(survey.segment.base_offset, survey) for survey in verdict.surveys)
    lost = lost_now(verdict.target, merged, verdict.facts, verdict.findings)
    return replace(verdict, surveys=merged, lost=lost)


def _override(assumed: int | None, known: int | None) -> int | None:
    return known if assumed is None else assumed
