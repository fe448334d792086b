"""next_start(): derives the forecast of a partition from its verdict.

``forecast`` and ``startup.loader`` have what a broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from kdump.audit.checks.broker_rights import BROKER_DENIED
from kdump.audit.checks.file_types import FILE_IS_DIRECTORY
from kdump.audit.checks.futures import FUTURE_STARTS_LATER
from kdump.audit.checks.topic import (
    PARTITION_STRAY,
    PARTITION_STRAY_CUT,
    PARTITION_STRAY_ONLY,
    TOPIC_ID_MISSING,
)
from kdump.audit.evidence import known_ends, neighbours
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast, causes_of, forecast, harms_of, worst_outcome
from kdump.audit.startup.future_loss import lost_to_successor
from kdump.audit.startup.inputs import read_log_facts, violations
from kdump.audit.startup.outcome import Outcome
from kdump.audit.startup.swap_loss import swap_loss, unread_replaced
from kdump.audit.survey.recovery import Records, Span
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.verdicts.loss import lost_now
from kdump.audit.verdicts.statistics import statistics_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment, is_metadata_log
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.values import frozen

#: The codes for which a broker renames a replica with records to ``-stray`` once it is loaded.
_SET_ASIDE: Final = (
    TOPIC_ID_MISSING,
    PARTITION_STRAY_ONLY,
    PARTITION_STRAY_CUT,
    PARTITION_STRAY,
)


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
    stopped: bool
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
    if start.replaced and not deleted_at_start:
        unread = {*start.unread, *unread_replaced(facts, verdict.surveys)}
        start = replace(start, exact=start.exact and not unread, unread=tuple(sorted(unread)))
    if metadata:
        return _metadata_log_forecast(start, facts, verdict.findings)
    if start.outcome is Outcome.STARTS:
        end = start.log_end_offset
        if end is None:  # recovery has not read it
            end = max(known_ends(verdict.surveys).values(), default=None)
        lost = lost_to_successor(facts, end) + _lost_before_successor(verdict.findings)
        start = replace(start, lost=start.lost + Records(lost))
    # The loader sees no types of files, and no rights.
    loaded = start.outcome is Outcome.STARTS
    stopping = [
        finding
        for finding in verdict.findings
        if finding.code is BROKER_DENIED or (loaded and finding.code is FILE_IS_DIRECTORY)
    ]
    if stopping:
        causes = (*causes_of(stopping), *start.causes)
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


def _lost_before_successor(findings: Sequence[Finding]) -> Span:
    """Return the records before the future log that replaces this log."""
    lost = Span()
    for finding in findings:
        if finding.code is FUTURE_STARTS_LATER and finding.offsets is not None:
            first, last = finding.offsets.first, finding.offsets.last
            lost += Span(0 if last is None else last + 1 - first, first, last)
    return lost


def _metadata_log_forecast(
    start: Forecast, facts: PartitionFacts, findings: Sequence[Finding]
) -> Forecast:
    """Return the forecast of a metadata log: without it, or a file it needs, no broker starts."""
    by_path = {cause.path: cause for cause in start.causes}
    refusals = [by_path.pop(cause.path, cause) for cause in causes_of(findings)]
    refusals += by_path.values()
    if refusals:
        causes = tuple(replace(cause, outcome=Outcome.REFUSES) for cause in refusals)
        return replace(
            start,
            outcome=Outcome.REFUSES,
            causes=causes,
            log_start_offset=None,
            log_end_offset=None,
        )
    start = replace(start, harms=frozenset(harms_of(findings)))
    used = (each for each in facts.metadata_snapshots if each.fault is None or each.torn)
    end = max((snapshot.end_offset for snapshot in used), default=0)
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


def with_forecast(verdict: Verdict) -> Verdict:
    """Return the verdict with its forecast and all its evidence."""
    return replace(verdict, forecast=next_start(verdict))


def read_recovered(
    verdicts: Sequence[Verdict], *, jobs: int, mapped: bool = True, pace: Pace | None = None
) -> list[Verdict]:
    """Survey the segments on which the forecasts of ``verdicts`` depend.

    Return the verdicts with these surveys, and with forecasts from them. The surveys of other
    segments stay. What a segment holds may decide that a start reads another one: that is read,
    too. ``mapped`` maps the logs of stopped brokers; ``pace`` is as for ``open_source``. Raises
    KdumpError.
    """

    def read(task: _Scan, report: Callable[[int], None]) -> Survey:
        return survey(
            task.segment,
            report,
            mapped=mapped and task.stopped,
            sealed=task.sealed,
            deep=False,
            pace=pace,
            settings=task.settings,
        )

    known, seen = list(verdicts), [set[int]() for _ in verdicts]
    while True:
        tasks = list[_Scan]()
        for number, verdict in enumerate(known):
            for task in _scans(number, verdict):
                if task.segment.base_offset not in seen[number]:
                    seen[number].add(task.segment.base_offset)
                    tasks.append(task)
        if not tasks:
            return known
        found: dict[int, dict[int, Survey]] = {}
        with closing(workers.run(read, tasks, jobs)) as outcomes:
            for outcome in outcomes:
                if isinstance(outcome.value, KdumpError):
                    raise outcome.value
                if isinstance(outcome.value, Survey):
                    base = outcome.task.segment.base_offset
                    found.setdefault(outcome.task.number, {})[base] = outcome.value
        for number, surveys in found.items():
            known[number] = with_forecast(_with_surveys(known[number], surveys))


def _scans(number: int, verdict: Verdict) -> Iterator[_Scan]:
    """Yield the readings of the segments on which the forecast depends."""
    if verdict.facts is None or verdict.forecast is None:
        return
    stopped, settings = verdict.target.stopped, verdict.facts.settings
    unread = set(verdict.forecast.unread)
    for surveyed, next_base in neighbours(verdict.target, verdict.surveys):
        if surveyed.segment.base_offset in unread:
            yield _Scan(number, surveyed.segment, stopped, next_base is not None, settings)


def _with_surveys(verdict: Verdict, surveys: dict[int, Survey]) -> Verdict:
    """Return ``verdict`` with ``surveys``, by base offset, in place of its own."""
    merged = tuple(surveys.get(survey.segment.base_offset, survey) for survey in verdict.surveys)
    lost = lost_now(verdict.target, merged, verdict.facts, verdict.findings)
    return replace(verdict, surveys=merged, lost=lost)


def _override(assumed: int | None, known: int | None) -> int | None:
    return known if assumed is None else assumed
