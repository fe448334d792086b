"""Checks of offsets that are missing between and inside segments.

Compaction leaves such gaps. If the topic was never compacted, records are lost. If its settings are
unknown, the log itself is the evidence.

Spec: ``Cleaner``, ``UnifiedLog.append``; KOD 3.5, 9 (check 31).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import (
    FETCH_FROM_LEADER,
    ONE_VALUE,
    REPLICA_FIRST,
    FindingCode,
    Severity,
)
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.replay.replay import Replay
from kdump.audit.replay.sequences import GapEvidence, Sequences, sequence_evidence
from kdump.audit.survey.anomalies import FaultKind
from kdump.audit.survey.compaction import Compaction
from kdump.audit.survey.survey import LISTED, Survey, compaction_of
from kdump.format.batch import RecordBatch
from kdump.format.lines.shell import operand
from kdump.values import frozen

BATCHES_HOLE: Final = FindingCode(
    "batches-hole",
    Severity.ERROR,
    "Offsets between two batches of a segment are missing, in a topic that was never compacted. "
    "Batches were removed, or this replica fetched the log from a leader that lacked the same "
    "offsets.",
    "The broker does not detect this. Consumers continue at the next batch.",
    REPLICA_FIRST,
    check=31,
    loses=True,
)
SEGMENT_MISSING: Final = FindingCode(
    "segment-missing",
    Severity.ERROR,
    "Offsets between two segments are missing: the .log of a segment is gone, but other files of "
    "that segment are still there.",
    "The broker does not detect this. Consumers continue at the next segment.",
    "Put the .log back if it was moved or is in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
SEGMENTS_HOLE: Final = FindingCode(
    "segments-hole",
    Severity.ERROR,
    "Offsets between two segments are missing, in a topic that was never compacted. A segment was "
    "removed, or a broker rebuilt the missing .index of a corrupt segment: it then truncates this "
    "segment and keeps the later ones.",
    "The broker does not detect this. Consumers continue at the next segment.",
    "Put the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
RECORDS_MISSING: Final = FindingCode(
    "records-missing",
    Severity.ERROR,
    "Offsets that held records are missing: a producer's sequence numbers are not consecutive "
    "there, and no batch of the log shows compaction. The topic's configs are unknown.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Put the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
OFFSETS_MISSING: Final = FindingCode(
    "offsets-missing",
    Severity.WARNING,
    "Offsets are missing, and kdump cannot determine whether records are lost or compaction "
    "removed them. The topic's configs are unknown, or batches appear cleaned although the topic "
    "is not compacted. With --quick, most batches are not read.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Verify the partition without --quick, and in its log directory, where the metadata log has "
    "the topic's configs. Compare with another replica: kdump dump shows the offsets, counts and "
    "sequence numbers of its batches.",
    check=31,
)
BATCH_OFFSET_CHANGED: Final = FindingCode(
    "batch-offset-changed",
    Severity.ERROR,
    "The offset of a batch was changed. No checksum covers it. Offsets before the batch are "
    "missing, but the sequence numbers of its producer are consecutive.",
    "The broker serves the records under the changed offsets and continues after them.",
    "Compare with another replica: kdump dump shows the offsets of its batches. "
    + FETCH_FROM_LEADER
    + ONE_VALUE,
    check=31,
)
SEGMENTS_GAP: Final = FindingCode(
    "segments-gap",
    Severity.INFO,
    "Offsets between two segments are missing, as compaction leaves them.",
    "The broker continues at the next segment.",
    "Nothing to do.",
    check=31,
)

#: The most undecided gaps that are listed; the rest is counted.
_UNDECIDED: Final = 100


@frozen
class _Gap:
    """Missing offsets ``first`` to ``last``, before a batch of segment number ``number``.

    ``batch`` is that batch, None if it is the first of its segment. ``repeats`` counts further gaps
    in the segment that are not listed. ``out_of_order``: offsets of the gap are elsewhere in the
    segment, where they do not rise.
    """

    first: int
    last: int
    number: int
    batch: RecordBatch | None = None
    repeats: int = 0
    out_of_order: bool = False


def check_missing_offsets(evidence: Evidence) -> Iterator[Finding]:
    """Check offsets that are missing between segments and between the batches of a segment (31)."""
    facts = evidence.facts
    if facts is None:
        return
    undecided = list[Finding]()
    for finding in _findings(evidence, facts):
        if finding.code is not OFFSETS_MISSING:
            yield finding
        elif evidence.deleted_at_start:
            continue  # the topic's settings are deleted before its logs, whose gaps lose nothing
        elif len(undecided) < _UNDECIDED:
            undecided.append(_as_undecided_by_ends(finding, facts) if evidence.quick else finding)
        else:
            last = undecided[-1]
            undecided[-1] = replace(last, repeats=last.repeats + 1 + finding.repeats)
    yield from undecided


def _findings(evidence: Evidence, facts: PartitionFacts) -> Iterator[Finding]:
    surveys = evidence.surveys
    start = facts.start_offset  # no consumer reads below it
    found = (
        *_gaps_between_segments(surveys, facts, evidence.ends),
        *_gaps_inside_segments(surveys),
    )
    gaps = [gap for gap in found if gap.last >= start]
    if not gaps:
        return
    gaps.sort(key=lambda gap: gap.first)
    match compaction_of(surveys, facts.compacted):
        case Compaction.SHOWN:
            between = [gap for gap in gaps if gap.batch is None]
            for gap in between[:1]:
                yield _finding(SEGMENTS_GAP, surveys, gap, start, repeats=len(between) - 1)
        case Compaction.POSSIBLE:
            for gap in gaps:
                if not gap.out_of_order:
                    yield _finding(OFFSETS_MISSING, surveys, gap, start, repeats=gap.repeats)
        case verdict:
            evidence_by_gap = _sequence_evidence(gaps, evidence.replay)
            for gap, gap_evidence in zip(gaps, evidence_by_gap, strict=True):
                certain = verdict is Compaction.EXCLUDED
                code = _code(gap, facts, gap_evidence, certain=certain)
                if gap.out_of_order and code is not BATCH_OFFSET_CHANGED:
                    continue
                yield _finding(code, surveys, gap, start, gap_evidence.text, repeats=gap.repeats)


def _gaps_between_segments(
    surveys: Sequence[Survey], facts: PartitionFacts, ends: Mapping[int, int]
) -> Iterator[_Gap]:
    numbers = {survey.segment.base_offset: number for number, survey in enumerate(surveys)}
    for segment, following in pairwise(facts.partition.segments):
        end, base = ends.get(segment.base_offset), following.base_offset
        if base not in numbers:
            continue
        if end is not None and end < base:
            yield _Gap(end, base - 1, numbers[base])
        missing = surveys[numbers[base]].missing_at_start
        if missing is not None:
            yield _Gap(*missing, numbers[base])


def _gaps_inside_segments(surveys: Sequence[Survey]) -> Iterator[_Gap]:
    for number, survey in enumerate(surveys):
        faults = [fault for fault in survey.faults if fault.kind is FaultKind.GAP]
        backwards = [fault for fault in survey.faults if fault.kind is FaultKind.BACKWARDS]
        for at, fault in enumerate(faults, 1):
            more = survey.counts[FaultKind.GAP] - LISTED if at == LISTED else 0
            first, last = fault.reference + 1, fault.batch.base_offset - 1
            out_of_order = any(
                first <= other.batch.base_offset <= last
                if other.batch.position > fault.batch.position
                else other.reference >= first
                for other in backwards
            )
            yield _Gap(first, last, number, fault.batch, more, out_of_order)


def _sequence_evidence(gaps: Sequence[_Gap], replay: Replay | None) -> Sequence[GapEvidence]:
    if replay is None:
        return (GapEvidence(),) * len(gaps)
    return sequence_evidence(replay, [(gap.first, gap.last) for gap in gaps])


def _code(
    gap: _Gap, facts: PartitionFacts, gap_evidence: GapEvidence, *, certain: bool
) -> FindingCode:
    """Return the code for a gap; ``certain``: the topic was never compacted."""
    if gap.batch is None and any(
        entry.name.base_offset is not None and gap.first <= entry.name.base_offset <= gap.last
        for entry in facts.partition.orphans
    ):
        return SEGMENT_MISSING
    if gap_evidence.shows is Sequences.GO_ON:
        return BATCH_OFFSET_CHANGED
    if certain:
        return SEGMENTS_HOLE if gap.batch is None else BATCHES_HOLE
    return RECORDS_MISSING if gap_evidence.shows is Sequences.JUMP else OFFSETS_MISSING


def _as_undecided_by_ends(finding: Finding, facts: PartitionFacts) -> Finding:
    """Return the finding with the note that the deciding batches were not read, and a remedy."""
    detail = finding.detail
    if detail is not None:
        detail = Detail(detail.expected, f"{detail.found}; --quick reads the ends of logs alone")
    remedy = "kdump", "verify", operand(facts.partition.path)
    return replace(finding, detail=detail, remedy=remedy)


def _finding(
    code: FindingCode,
    surveys: Sequence[Survey],
    gap: _Gap,
    start: int,
    evidence: str = "",
    *,
    repeats: int = 0,
) -> Finding:
    """Return the finding for the part of a gap from ``start`` on, where consumers read."""
    because = f": {evidence}" if evidence else ""
    offsets = Offsets(max(gap.first, start), gap.last)
    if gap.batch is None and gap.first == surveys[gap.number].segment.base_offset:
        detail = Detail(f"a base offset of {gap.first}", f"{gap.last + 1}{because}")
        log = surveys[gap.number].segment.log
        return Finding(code, log, 0, None, offsets, detail, explain_command(code), repeats)
    if gap.batch is None:
        detail = Detail(
            f"records up to {gap.last}, before the next segment",
            f"an end at {gap.first}{because}",
        )
        log = surveys[gap.number - 1].segment.log
        return Finding(code, log, None, None, offsets, detail, explain_command(code), repeats)
    detail = Detail(f"a base offset of {gap.first}", f"{gap.last + 1}{because}")
    log, batch = surveys[gap.number].segment.log, gap.batch
    return Finding(
        code, log, batch.position, batch.size, offsets, detail, explain_command(code), repeats
    )


CHECKS: Final = (check_missing_offsets,)
