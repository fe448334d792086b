"""Checks of batches and records: damage, offsets, segments that overlap, timestamps, undecodable
records.

Spec: KOD 9, checks 1 to 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.evidence import Evidence
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.survey.anomalies import Fault, FaultKind
from kdump.audit.survey.survey import LISTED, Gap, Survey
from kdump.format.batch import MAX_OFFSET_DELTA
from kdump.storage.walk import Damage, Reason

_FAULT_CODES: Final = {
    FaultKind.BACKWARDS: codes.OFFSETS_NOT_INCREASING,
    FaultKind.INVERTED: codes.BATCH_OFFSETS_INVERTED,
    FaultKind.MAGIC: codes.BATCH_MAGIC_UNKNOWN,
    FaultKind.CODEC: codes.BATCH_CODEC_UNKNOWN,
    FaultKind.BITS: codes.BATCH_ATTRIBUTES_UNKNOWN,
    FaultKind.MISCOUNTED: codes.BATCH_COUNT_MISMATCH,
    FaultKind.UNREADABLE: codes.RECORDS_UNREADABLE,
    FaultKind.CUT: codes.RECORDS_CUT_OFF,
    FaultKind.NULLS: codes.RECORDS_NULL_SIZES,
    FaultKind.DISORDER: codes.RECORDS_OFFSETS,
    FaultKind.LATE: codes.RECORDS_TIMESTAMPS,
    FaultKind.UNDECODABLE: codes.RECORDS_UNDECODABLE,
    FaultKind.LIMIT: codes.LIMIT,
}


def check_segments(evidence: Evidence) -> Iterator[Finding]:
    """Check each log by itself; another check covers missing offsets between its batches.

    A broker may be appending to the last log. If it is unknown whether the topic was compacted, a
    batch may have fewer records than offsets.
    """
    for survey, next_base in evidence.neighbours:
        yield from _segment(evidence, survey, next_base)


def check_sequence(evidence: Evidence) -> Iterator[Finding]:
    """Check how the segments of a partition follow each other."""
    for survey, following in pairwise(evidence.surveys):
        next_base = following.segment.base_offset
        if survey.last_offset is not None and survey.last_offset >= next_base:
            yield Finding(
                codes.SEGMENTS_OVERLAP,
                survey.segment.log,
                position=survey.last_position,
                offsets=Offsets(next_base, survey.last_offset),
                detail=Detail(
                    f"a last offset below {next_base}, where the next segment begins",
                    str(survey.last_offset),
                ),
                remedy=explain_command(codes.SEGMENTS_OVERLAP),
            )


def _segment(evidence: Evidence, survey: Survey, next_base: int | None) -> Iterator[Finding]:
    listed: Counter[Reason | FaultKind] = Counter()

    def repeats(kind: Reason | FaultKind) -> int:
        listed[kind] += 1
        return survey.counts[kind] - LISTED if listed[kind] == LISTED else 0

    for gap in survey.gaps:
        code = _damage_code(evidence, survey, gap.damage, sealed=next_base is not None)
        yield _damage(survey, gap, code, next_base, repeats(gap.damage.reason))
    left_out = {FaultKind.GAP}
    if evidence.compacted is not False:
        left_out.add(FaultKind.MISCOUNTED)
    for fault in survey.faults:
        if fault.kind not in left_out:
            yield _fault(survey, fault, repeats(fault.kind))
    yield from _overflow(survey)


def _may_be_unfinished(survey: Survey, damage: Damage) -> bool:
    """Return whether ``damage`` may be a half-written batch at the end of a preallocated file."""
    return survey.zero_tail and not damage.empty and damage.position + damage.size == survey.size


def _damage_code(
    evidence: Evidence, survey: Survey, damage: Damage, *, sealed: bool
) -> FindingCode:
    live, clean = evidence.live, evidence.stopped_cleanly
    if live and not sealed and _may_be_unfinished(survey, damage):
        return codes.TORN_TAIL_LIVE
    if not damage.is_tail:
        checksum = damage.reason is Reason.BAD_CHECKSUM
        return codes.BATCH_CRC_MISMATCH if checksum else codes.BATCH_SIZE_IMPOSSIBLE
    if sealed:
        return codes.TORN_TAIL_SEALED if damage.torn else codes.PREALLOCATED_TAIL_SEALED
    if damage.empty:
        return codes.PREALLOCATED_TAIL_CLEAN if clean else codes.PREALLOCATED_TAIL
    if live:
        return codes.TORN_TAIL_LIVE
    return codes.TORN_TAIL_CLEAN if clean else codes.TORN_TAIL


def _damage(
    survey: Survey, gap: Gap, code: FindingCode, next_base: int | None, repeats: int
) -> Finding:
    damage = gap.damage
    offsets = None
    if not damage.empty:
        next_offset = next_base if gap.offset_after is None else gap.offset_after
        last = None if next_offset is None else next_offset - 1
        # If no offset is missing between the neighbours the range would be empty.
        if last is None or last > gap.offset_before:
            offsets = Offsets(gap.offset_before + 1, last)
    detail = _damage_detail(gap, survey.size)
    return Finding(
        code,
        survey.segment.log,
        damage.position,
        damage.size,
        offsets,
        detail.as_live() if code is codes.TORN_TAIL_LIVE else detail,
        explain_command(code),
        repeats,
    )


def _damage_detail(gap: Gap, file_size: int) -> Detail:
    damage = gap.damage
    match damage.reason:
        case Reason.BAD_CHECKSUM:
            marker = ", in what was a transaction marker" if gap.marker else ""
            computed = f"{damage.computed_crc:08x}{marker}"
            return Detail(f"crc {damage.stored_crc:08x} as stored", computed)
        case Reason.IMPOSSIBLE_SIZE:
            left = file_size - damage.position
            return Detail(
                f"a batch of 61 bytes or more (before magic 2: 26) in the {left} bytes left",
                f"a batch of {damage.claimed_bytes} bytes",
            )
    if damage.empty:
        return Detail("the end of the file", f"{damage.size} zero bytes")
    claimed = damage.claimed_bytes
    return Detail(
        "a batch header" if claimed is None else f"a batch of {claimed} bytes",
        f"{damage.size} bytes and the end of the file",
    )


def _fault(survey: Survey, fault: Fault, repeats: int) -> Finding:
    batch, code = fault.batch, _FAULT_CODES[fault.kind]
    base = survey.segment.base_offset
    offsets = Offsets(batch.base_offset, batch.last_offset)
    match fault.kind:
        case FaultKind.BACKWARDS if batch.base_offset < base:
            code = codes.BATCH_BELOW_SEGMENT
            detail = Detail(f"a base offset of {base} or more", str(batch.base_offset))
        case FaultKind.BACKWARDS:
            detail = Detail(f"a base offset above {fault.reference}", str(batch.base_offset))
        case FaultKind.INVERTED:
            detail = Detail(f"a last offset of {batch.base_offset} or more", str(batch.last_offset))
        case FaultKind.MAGIC:
            detail = Detail("a magic of 0, 1 or 2", str(batch.magic))
        case FaultKind.CODEC:
            known = "4 (zstd)" if batch.magic > 1 else "3 (lz4)"
            detail = Detail(f"a codec of at most {known}", str(batch.codec_id))
        case FaultKind.BITS:
            unused = "7 to 15" if batch.magic > 1 else "4 to 7"
            bits = f"attributes 0x{batch.attributes & 0xFFFF:04x}"
            detail = Detail(f"attributes without any of the bits {unused}", bits)
        case FaultKind.MISCOUNTED:
            span = batch.last_offset - batch.base_offset + 1
            detail = Detail(f"a count of {span}, one record for each offset", str(batch.count))
        case FaultKind.DISORDER:
            detail = Detail(
                f"records with rising offsets from {batch.base_offset} to {batch.last_offset}",
                f"other offsets, the last {fault.reference}",
            )
        case FaultKind.LATE:
            detail = Detail(f"no timestamp above {batch.max_timestamp}", str(fault.reference))
        case FaultKind.UNDECODABLE:
            offsets = Offsets(fault.reference, fault.reference)
            detail = Detail("a record that its coordinator decodes", f"an error: {fault.text}")
        case FaultKind.NULLS:
            records = "1 record" if fault.reference == 1 else f"{fault.reference} records"
            detail = Detail("nulls of size -1", f"another size below 0 in {records}")
        case FaultKind.UNREADABLE | FaultKind.CUT | FaultKind.LIMIT:
            detail = Detail("records that can be read", f"an error: {fault.text}")
    return Finding(
        code,
        survey.segment.log,
        batch.position,
        batch.size,
        offsets,
        detail,
        explain_command(code),
        repeats,
    )


def _overflow(survey: Survey) -> Iterator[Finding]:
    # Any other batch beyond the limit is a fault: the offsets of the next batch run backwards.
    highest = survey.segment.base_offset + MAX_OFFSET_DELTA
    if survey.last_offset is not None and survey.last_offset > highest:
        yield Finding(
            codes.OFFSET_OVERFLOW,
            survey.segment.log,
            position=survey.last_position,
            offsets=Offsets(highest + 1, survey.last_offset),
            detail=Detail(f"a last offset of at most {highest}", str(survey.last_offset)),
            remedy=explain_command(codes.OFFSET_OVERFLOW),
        )
