"""The repair that heals each finding, if one does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode, Severity
from kdump.audit.commands import convert_command, reindex_command, salvage_command, truncate_command
from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.findings import Finding
from kdump.audit.survey.survey import Survey

#: The findings about files that are rebuilt from the log beside them.
REINDEXED: Final[frozenset[FindingCode]] = frozenset(
    {
        codes.INDEX_LENGTH,
        codes.INDEX_ORDER,
        codes.INDEX_MISPLACED,
        codes.INDEX_SKIPS,
        codes.INDEX_BEYOND_LOG,
        codes.INDEX_BEYOND_LOG_SEALED,
        codes.INDEX_MISSING,
        codes.INDEX_REBUILT,
        codes.INDEX_PADDED_CLEAN,
        codes.TIMEINDEX_LENGTH,
        codes.TIMEINDEX_ORDER,
        codes.TIMEINDEX_PADDED,
        codes.TIMEINDEX_SKIPS,
        codes.TIMEINDEX_BEYOND_LOG,
        codes.TIMEINDEX_TOO_LOW,
        codes.TIMEINDEX_TOO_HIGH,
        codes.TIMEINDEX_MISSING,
        codes.TIMEINDEX_PADDED_CLEAN,
        codes.TXNINDEX_LENGTH,
        codes.TXNINDEX_VERSION,
        codes.TXNINDEX_BELOW_SEGMENT,
        codes.TXNINDEX_ORDER,
        codes.TXNINDEX_UNFOUNDED,
        codes.TXNINDEX_MISSING_ENTRY,
        codes.TXNINDEX_STABLE_OFFSET,
        codes.TXNINDEX_STALE,
        codes.SNAPSHOT_UNREADABLE,
        codes.SNAPSHOT_DISAGREES,
        codes.LOG_START_BEYOND_END,
    }
)
#: The findings about leader-epoch-checkpoint that the batches can heal.
EPOCHS: Final[frozenset[FindingCode]] = frozenset(
    {
        codes.EPOCHS_MALFORMED,
        codes.EPOCHS_NUMBER,
        codes.EPOCHS_MISSING,
        codes.EPOCHS_MISMATCH,
    }
)
#: The findings about partition.metadata that the metadata log can heal.
TOPIC_IDS: Final[frozenset[FindingCode]] = frozenset(
    {
        codes.PARTITION_METADATA_MALFORMED,
        codes.PARTITION_METADATA_FATAL,
        codes.TOPIC_ID_MISSING,
    }
)
#: The findings at which truncation to the valid part cuts a log.
_CUT: Final[frozenset[FindingCode]] = frozenset(
    {
        codes.BATCH_CRC_MISMATCH,
        codes.BATCH_SIZE_IMPOSSIBLE,
        codes.TORN_TAIL,
        codes.TORN_TAIL_SEALED,
        codes.TORN_TAIL_CLEAN,
        codes.PREALLOCATED_TAIL_SEALED,
        codes.PREALLOCATED_TAIL_CLEAN,
        codes.MARKER_UNKNOWN,
        codes.MARKER_UNREADABLE,
        codes.TRANSACTION_MIXED,
    }
)
#: The findings at which truncation cuts a log only if recovery rejects the segment.
_DISORDER: Final[frozenset[FindingCode]] = frozenset(
    {
        codes.OFFSETS_NOT_INCREASING,
        codes.OFFSET_OVERFLOW,
        codes.BATCH_BELOW_SEGMENT,
        codes.BATCH_OFFSETS_INVERTED,
    }
)


def add_remedies(evidence: Evidence, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield ``findings`` with the repair that heals each, if one does.

    The findings of a lone segment stay as they are: repairs need a partition.
    """
    # The survey of each cut log, with the base offset of the next segment.
    cut = {finding.path for finding in findings if finding.code in _CUT | _DISORDER}
    surveys = {
        survey.segment.log: (survey, base)
        for survey, base in (evidence.neighbours if cut else ())
        if survey.segment.log in cut
    }
    for finding in findings:
        if evidence.facts is None or finding.code.severity is Severity.INFO:
            yield finding
        elif finding.code in REINDEXED | EPOCHS or (
            finding.code in TOPIC_IDS and topic_id_of(evidence.facts, evidence.node) is not None
        ):
            yield replace(finding, remedy=reindex_command(evidence.target.path))
        elif evidence.is_metadata_log:
            yield finding  # the quorum decides which records of it are valid
        elif finding.code is codes.LEADER_EPOCH_ABSENT:
            yield replace(finding, remedy=convert_command(evidence.target.path))
        elif finding.code in _CUT | _DISORDER and finding.path in surveys:
            survey, next_base = surveys[finding.path]
            if finding.code in _DISORDER and not _refused(survey):
                yield finding
            elif next_base is not None or _goes_on(survey, finding):
                yield replace(finding, remedy=salvage_command(evidence.target.path))
            else:
                yield replace(finding, remedy=truncate_command(evidence.target.path))
        else:
            yield finding


def topic_id_of(facts: PartitionFacts, node: Node) -> str | None:
    """Return the topic id that partition.metadata should have; None if the metadata log has none.

    A directory that a broker has renamed to -stray may belong to an older topic of the same name.
    """
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
