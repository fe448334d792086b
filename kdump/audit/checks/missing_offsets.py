"""Check of offsets that are missing in a log although nothing damaged stands in their place.

Compaction leaves such gaps. Where the topic was never compacted, records are lost. Where its
settings are unknown, the log itself is the evidence.

Spec: ``Cleaner``, ``UnifiedLog.append``, ``ProducerStateManager`` (KIP-98); KOD 3.5, 9 (check 31).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.facts import PartitionFacts
from kdump.audit.faults import FaultKind
from kdump.audit.findings import Detail, Finding, Offsets, explaining
from kdump.audit.replay import Replay, Replayed, ViolationKind
from kdump.audit.survey import LISTED, Survey
from kdump.format.batch import RecordBatch
from kdump.storage.logdir import is_metadata_log

_MAGIC: Final = 2


@dataclass(frozen=True, slots=True)
class _Gap:
    """Missing offsets ``first`` to ``last``, before a batch of segment number ``number``.

    ``batch`` is that batch, None where it is the first of its segment. ``repeats`` counts further
    gaps in the segment that are not listed.
    """

    first: int
    last: int
    number: int
    batch: RecordBatch | None = None
    repeats: int = 0


class _Compaction(Enum):
    """Whether the cleaner was at a log."""

    SHOWN = "shown"
    POSSIBLE = "possible"
    UNLIKELY = "unlikely"  # nothing shows it, and the settings are unknown
    EXCLUDED = "excluded"


class _Sequences(Enum):
    """What the sequence numbers of producers show at a gap."""

    JUMP = "jump"
    GO_ON = "go on"
    SILENT = "silent"


def check_missing_offsets(
    surveys: Sequence[Survey],
    facts: PartitionFacts,
    ends: Mapping[int, int],
    replay: Replay | None,
    *,
    quick: bool,
) -> Iterator[Finding]:
    """Judge offsets that are missing between segments and between the batches of a segment (31).

    ``surveys`` ascend by base offset; ``ends`` has the offset behind the last record by base
    offset, where it is known. ``replay`` is None where not all of the log was read. ``quick``: the
    surveys are of the ends alone.
    """
    start = facts.start_offset  # no consumer reads below it
    gaps = [
        gap for gap in (*_between(surveys, facts, ends), *_inside(surveys)) if gap.last >= start
    ]
    if not gaps:
        return
    gaps.sort(key=lambda gap: gap.first)
    match _verdict(surveys, facts, quick=quick):
        case _Compaction.SHOWN:
            between = [gap for gap in gaps if gap.batch is None]
            for gap in between[:1]:
                yield _finding(codes.SEGMENTS_GAP, surveys, gap, repeats=len(between) - 1)
        case _Compaction.POSSIBLE:
            for gap in gaps:
                yield _finding(codes.OFFSETS_MISSING, surveys, gap, repeats=gap.repeats)
        case verdict:
            for gap in gaps:
                certain = verdict is _Compaction.EXCLUDED
                code, evidence = _code(gap, facts, replay, certain=certain)
                yield _finding(code, surveys, gap, evidence, repeats=gap.repeats)


def _verdict(surveys: Sequence[Survey], facts: PartitionFacts, *, quick: bool) -> _Compaction:
    """What settings and batches say of compaction.

    The cleaner takes records out of batches, and sets delete horizons; both are under the checksum.
    Gaps between batches show less: compaction leaves many of them, and so do lost batches.
    """
    compacted = facts.settings.compacted
    if is_metadata_log(facts.partition):
        compacted = False
    holes = sum(survey.counts[FaultKind.HOLE] for survey in surveys)
    cleaned = any(
        survey.counts[FaultKind.MISCOUNTED] or survey.events.horizons.count for survey in surveys
    )
    if compacted or (compacted is None and (quick or cleaned)):
        return _Compaction.SHOWN
    if cleaned or (compacted is None and holes > 1):
        return _Compaction.POSSIBLE
    return _Compaction.EXCLUDED if compacted is False else _Compaction.UNLIKELY


def _between(
    surveys: Sequence[Survey], facts: PartitionFacts, ends: Mapping[int, int]
) -> Iterator[_Gap]:
    numbers = {survey.segment.base_offset: number for number, survey in enumerate(surveys)}
    for segment, following in pairwise(facts.partition.segments):
        end, base = ends.get(segment.base_offset), following.base_offset
        if end is not None and end < base and base in numbers:
            yield _Gap(end, base - 1, numbers[base])


def _inside(surveys: Sequence[Survey]) -> Iterator[_Gap]:
    for number, survey in enumerate(surveys):
        faults = [fault for fault in survey.faults if fault.kind is FaultKind.HOLE]
        for at, fault in enumerate(faults, 1):
            more = survey.counts[FaultKind.HOLE] - LISTED if at == LISTED else 0
            last = fault.batch.base_offset - 1
            yield _Gap(fault.reference + 1, last, number, fault.batch, more)


def _code(
    gap: _Gap, facts: PartitionFacts, replay: Replay | None, *, certain: bool
) -> tuple[FindingCode, str]:
    """The code for a gap, and what speaks for it; ``certain``: the topic was never compacted."""
    if gap.batch is None and any(
        entry.name.base_offset is not None and gap.first <= entry.name.base_offset <= gap.last
        for entry in facts.partition.orphans
    ):
        return codes.SEGMENT_MISSING, ""
    sequences, evidence = _Sequences.SILENT, ""
    if replay is not None:
        sequences, evidence = _sequences(gap, replay)
    if sequences is _Sequences.GO_ON:
        return codes.BATCH_OFFSET_CHANGED, evidence
    if certain:
        return codes.SEGMENTS_HOLE if gap.batch is None else codes.BATCHES_HOLE, evidence
    if sequences is _Sequences.JUMP:
        return codes.RECORDS_MISSING, evidence
    return codes.OFFSETS_MISSING, evidence


def _sequences(gap: _Gap, replay: Replay) -> tuple[_Sequences, str]:
    """What producers with batches on both sides of a gap show."""
    segment = replay.segments[gap.number]
    for violation in segment.violations:
        if (
            violation.kind is ViolationKind.SEQUENCE_BREAK
            and violation.offset > gap.last
            and violation.found != 0  # clients before 2.5 begin at 0 again
        ):
            return _Sequences.JUMP, (
                f"the sequence of producer {violation.producer_id} jumps from "
                f"{violation.expected - 1} to {violation.found} at offset {violation.offset}"
            )
    listed = sum(one.kind is ViolationKind.SEQUENCE_BREAK for one in segment.violations)
    if segment.counts[ViolationKind.SEQUENCE_BREAK] > listed:
        return _Sequences.SILENT, ""
    producer = _producer_behind(gap, segment)
    if producer is not None and _has_batches_before(replay, gap, producer):
        return _Sequences.GO_ON, f"the sequence of producer {producer[0]} goes on behind them"
    return _Sequences.SILENT, ""


def _producer_behind(gap: _Gap, segment: Replayed) -> tuple[int, int] | None:
    """The producer and epoch of the batch behind a gap, None where its sequence begins there."""
    if gap.batch is not None:
        batch = gap.batch
        known = batch.magic == _MAGIC and batch.producer_id >= 0 and batch.base_sequence > 0
        return (batch.producer_id, batch.producer_epoch) if known else None
    for run in segment.survey.events.producer_runs():
        if run.first_offset == segment.survey.first_offset and run.first_sequence > 0:
            return run.producer_id, run.producer_epoch
    return None


def _has_batches_before(replay: Replay, gap: _Gap, producer: tuple[int, int]) -> bool:
    return any(
        (run.producer_id, run.producer_epoch) == producer
        and run.first_offset < gap.first
        and run.last_sequence >= 0
        for segment in replay.segments[: gap.number + 1]
        for run in segment.survey.events.producer_runs()
    )


def _finding(
    code: FindingCode,
    surveys: Sequence[Survey],
    gap: _Gap,
    evidence: str = "",
    *,
    repeats: int = 0,
) -> Finding:
    because = f": {evidence}" if evidence else ""
    offsets = Offsets(gap.first, gap.last)
    if gap.batch is None:
        detail = Detail(
            f"records up to {gap.last}, before the next segment",
            f"an end at {gap.first}{because}",
        )
        log = surveys[gap.number - 1].segment.log
        return Finding(code, log, None, None, offsets, detail, explaining(code), repeats)
    detail = Detail(f"a base offset of {gap.first}", f"{gap.last + 1}{because}")
    log, batch = surveys[gap.number].segment.log, gap.batch
    return Finding(
        code, log, batch.position, batch.size, offsets, detail, explaining(code), repeats
    )
