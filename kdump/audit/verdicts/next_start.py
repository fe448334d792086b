"""next_start(): the forecast of a partition from its verdict.

What a broker does is in ``forecast`` and ``startup.loader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.evidence import neighbours
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast, causes_of, forecast
from kdump.audit.startup.inputs import read_log_facts, violations
from kdump.audit.startup.outcome import Outcome
from kdump.audit.startup.swap_loss import swap_loss
from kdump.audit.survey.recovery import Records
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.verdicts.loss import lost_now
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import KdumpError
from kdump.storage import workers
from kdump.storage.logdir import Segment, is_metadata_log

#: By these a replica that holds records is renamed to ``-stray`` once it is loaded.
_SET_ASIDE: Final = (codes.TOPIC_ID_MISSING, codes.PARTITION_STRAY_CUT, codes.PARTITION_STRAY)


@dataclass(frozen=True, slots=True)
class Assumed:
    """What somebody wants to be taken for given, whatever the files say; None for nothing."""

    clean: bool | None = None
    recovery_point: int | None = None
    log_start: int | None = None

    def apply(self, verdict: Verdict) -> Verdict:
        """The same partition under these assumptions; of a metadata log none are taken."""
        facts = verdict.facts
        if facts is None or is_metadata_log(facts.partition):
            return verdict
        facts = replace(
            facts,
            clean=facts.clean if self.clean is None else self.clean,
            recovery_point=_or(self.recovery_point, facts.recovery_point),
            log_start=_or(self.log_start, facts.log_start),
        )
        return replace(verdict, facts=facts)


@dataclass(frozen=True, slots=True)
class _Scan:
    number: int
    segment: Segment
    mapped: bool
    sealed: bool
    settings: TopicSettings


def next_start(verdict: Verdict) -> Forecast | None:
    """Say what a broker does with the partition at its next start.

    None for a lone segment, and a directory that cannot be listed.
    """
    facts = verdict.facts
    if facts is None:
        return None
    metadata = is_metadata_log(facts.partition)
    if metadata:  # whatever checkpoints say of it
        facts = replace(facts, recovery_point=None, log_start=None)
    # Of a log that was read in part the events are those of that part alone.
    whole = [one for one in verdict.surveys if one.recovered is not None]
    replayed = verdict.replay if len(whole) == len(verdict.surveys) else None
    objections = violations(facts, whole, replayed)
    made = forecast(facts, read_log_facts(facts, verdict.surveys, objections, replayed), objections)
    gone = swap_loss(facts, verdict.surveys) if made.replaced else None
    doomed = facts.partition.name is not None and facts.partition.name.suffix == "delete"
    if gone is not None and gone.certain and not doomed:
        made = replace(made, lost=made.lost + Records(gone.records))
    if metadata:
        return _of_metadata_log(made, facts, verdict.findings)
    found = {finding.code for finding in verdict.findings}
    return replace(made, set_aside=next((code for code in _SET_ASIDE if code in found), None))


def _of_metadata_log(
    made: Forecast, facts: PartitionFacts, findings: Iterable[Finding]
) -> Forecast:
    """The forecast of a metadata log, without which, or what it needs besides, no broker starts."""
    found = list(causes_of(findings))
    told = {cause.path for cause in found}
    found += (cause for cause in made.causes if cause.path not in told)
    if found:
        causes = tuple(replace(cause, outcome=Outcome.REFUSES) for cause in found)
        return replace(
            made,
            outcome=Outcome.REFUSES,
            causes=causes,
            log_start_offset=None,
            log_end_offset=None,
        )
    end = max((one.end_offset for one in facts.metadata_snapshots if one.fault is None), default=0)
    if made.log_end_offset is None or end <= made.log_end_offset:
        return made
    # It begins anew where the snapshot ends, which holds all that is thrown away.
    return replace(
        made,
        log_start_offset=end,
        log_end_offset=end,
        segments=(end,),
        deleted=tuple(sorted({*made.deleted, *made.segments})),
    )


def concluded(verdict: Verdict, *, segments: bool) -> Verdict:
    """The judgement with its forecast, and without the evidence for both.

    ``segments`` is as for ``Verdict.without_evidence``.
    """
    made = next_start(verdict)  # first: what it takes is gone when the rest is copied
    return replace(verdict.without_evidence(segments=segments), forecast=made)


@dataclass(frozen=True, slots=True)
class Concluding:
    """``concluded`` as a conclusion that can travel: ``paths`` are spelled out by segments."""

    paths: frozenset[Path]

    def __call__(self, verdict: Verdict) -> Verdict:
        """Conclude one judgement."""
        return concluded(verdict, segments=verdict.target.path in self.paths)


def scanned(
    looked: Sequence[Verdict],
    *,
    jobs: int,
    on_progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """Read the segments that recovery would read, and no others; the rest stays as it was seen.

    ``on_progress`` gets counts of bytes that were read since its last call.
    """
    found: dict[int, dict[int, Survey]] = {}
    tasks = [task for number, one in enumerate(looked) for task in _recovered(number, one)]
    with closing(workers.run(_read, tasks, jobs, on_progress=on_progress)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome.value, KdumpError):
                raise outcome.value
            if isinstance(outcome.value, Survey):
                base = outcome.task.segment.base_offset
                found.setdefault(outcome.task.number, {})[base] = outcome.value
    return [_with(one, found.get(number, {})) for number, one in enumerate(looked)]


def _recovered(number: int, verdict: Verdict) -> list[_Scan]:
    facts = verdict.facts
    if facts is None:
        return []
    return [
        _Scan(number, one.segment, verdict.target.stopped, next_base is not None, facts.settings)
        for one, next_base in neighbours(verdict.target, verdict.surveys)
        if _is_recovered(facts, next_base) or one.segment.index is None
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


def _with(verdict: Verdict, surveys: dict[int, Survey]) -> Verdict:
    """``verdict`` with what was read of it."""
    merged = tuple(surveys.get(one.segment.base_offset, one) for one in verdict.surveys)
    lost = lost_now(verdict.target, merged, verdict.facts, verdict.findings)
    return replace(verdict, surveys=merged, lost=lost)


def _or(given: int | None, known: int | None) -> int | None:
    return known if given is None else given
