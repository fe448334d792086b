"""The verdict on a partition whose logs a plan changes.

Spec: ``ProducerStateManager``, whose state a replay of the changed logs gives; KOD 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kdump.audit.evidence import replay_of
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.survey import Survey
from kdump.audit.verdicts.verdict import Verdict


def with_changed_logs(
    verdict: Verdict, facts: PartitionFacts, changed: Iterable[Survey]
) -> Verdict:
    """Return the verdict with the surveys, the segments and the replay of changed logs."""
    surveys = {survey.segment.base_offset: survey for survey in verdict.surveys}
    surveys |= {survey.segment.base_offset: survey for survey in changed}
    ordered = tuple(surveys[base] for base in sorted(surveys))
    segments = tuple(survey.segment for survey in ordered)
    partition = replace(facts.partition, segments=segments)
    # No repair runs beside a broker, so the broker counts as stopped.
    new_facts = replace(facts, partition=partition, stopped=True)
    target = replace(verdict.target, segments=segments, partition=partition, stopped=True)
    replayed = replay_of(target, ordered, new_facts, quick=False)
    return replace(verdict, target=target, surveys=ordered, facts=new_facts, replay=replayed)
