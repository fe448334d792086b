"""The repair that heals each finding, where its cure asks for evidence.

The cure stands in the finding's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit.commands import (
    Remedy,
    convert_command,
    reindex_command,
    salvage_command,
    truncate_command,
)
from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import Cure, Severity
from kdump.audit.findings import Finding
from kdump.audit.survey.survey import Survey
from kdump.storage.logdir import is_metadata_log
from kdump.storage.names import CLUSTER_METADATA_ID

_CUTS: Final = (Cure.CUT, Cure.CUT_IF_REFUSED)


def add_remedies(evidence: Evidence, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield ``findings`` with the repair that heals each, if one does.

    The findings of a lone segment stay as they are: repairs need a partition.
    """
    # The survey of each cut log, with the base offset of the next segment.
    cut = {finding.path for finding in findings if finding.code.cure in _CUTS}
    surveys = {
        survey.segment.log: (survey, base)
        for survey, base in (evidence.neighbours if cut else ())
        if survey.segment.log in cut
    }
    for finding in findings:
        remedy = None
        if evidence.facts is not None and finding.code.severity is not Severity.INFO:
            remedy = _remedy(evidence, evidence.facts, finding, surveys.get(finding.path))
        yield finding if remedy is None else replace(finding, remedy=remedy)


def _remedy(
    evidence: Evidence,
    facts: PartitionFacts,
    finding: Finding,
    surveyed: tuple[Survey, int | None] | None,
) -> Remedy | None:
    """Return the repair of ``finding``; None for that which it has already."""
    partition, cure = evidence.target.path, finding.code.cure
    if cure in (Cure.REINDEX, Cure.EPOCHS) or (
        cure is Cure.TOPIC_ID and topic_id_of(facts, evidence.node) is not None
    ):
        return reindex_command(partition)
    if evidence.is_metadata_log:
        return None  # the quorum decides which records of it are valid
    if cure is Cure.CONVERT:
        return convert_command(partition)
    if cure not in _CUTS or surveyed is None:
        return None
    survey, next_base = surveyed
    if cure is Cure.CUT_IF_REFUSED and not _refused(survey):
        return None
    if next_base is not None or _goes_on(survey, finding):
        return salvage_command(partition)
    return truncate_command(partition)


def topic_id_of(facts: PartitionFacts, node: Node) -> str | None:
    """Return the topic id that partition.metadata should have; None if the metadata log has none.

    A directory that a broker has renamed to -stray may belong to an older topic of the same name.
    """
    if is_metadata_log(facts.partition):
        return CLUSTER_METADATA_ID
    name = facts.partition.name
    if name is None or name.suffix not in ("", "future") or node.image is None:
        return None
    topic_id = node.image.topics.get(name.topic)
    if topic_id is None or node.sets_aside(topic_id, name.partition):
        return None
    return topic_id


def _refused(survey: Survey) -> bool:
    """Return whether recovery would drop sound records, or stop, because of the offset order."""
    return survey.recovered is not None and survey.recovered.disordered


def _goes_on(survey: Survey, finding: Finding) -> bool:
    """Return whether a sound batch follows ``finding`` in its segment."""
    last, position = survey.last_position, finding.position
    return last is not None and position is not None and last > position
