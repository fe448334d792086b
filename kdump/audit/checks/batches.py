"""Checks of batches and records: damage, offsets, segments that overlap, timestamps, undecodable
records.

Spec: KOD 9, checks 1 to 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import (
    ONE_VALUE,
    REPLICA_FIRST,
    SALVAGE_OR_CUT,
    Cure,
    FindingCode,
    Outcome,
    Severity,
)
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.survey.anomalies import Fault, FaultKind
from kdump.audit.survey.survey import LISTED, Gap, Survey
from kdump.format.batch import MAX_OFFSET_DELTA
from kdump.storage.walk import Damage, Reason

BATCH_CRC_MISMATCH: Final = FindingCode(
    "batch-crc-mismatch",
    Severity.ERROR,
    "A batch does not match its checksum: nothing in the batch can be trusted.",
    "Consumers and followers stop at the batch. After an unclean shutdown, recovery reads the "
    "segments from the recovery point on: it truncates the segment at this batch and deletes every "
    "later segment, valid records included. Otherwise the broker does not check the batch at "
    "startup.",
    SALVAGE_OR_CUT,
    check=2,
    cure=Cure.CUT,
)
BATCH_SIZE_IMPOSSIBLE: Final = FindingCode(
    "batch-size-impossible",
    Severity.ERROR,
    "The size field of a batch has an impossible value. It is too small, or it extends past the "
    "end of the file although valid batches follow.",
    "Consumers and followers stop at the batch. After an unclean shutdown, recovery reads the "
    "segments from the recovery point on: it truncates the segment at this batch and deletes every "
    "later segment, valid records included.",
    SALVAGE_OR_CUT + ONE_VALUE,
    check=1,
    cure=Cure.CUT,
)
TORN_TAIL: Final = FindingCode(
    "torn-tail",
    Severity.WARNING,
    "The last segment ends inside a batch (a torn write): the broker died during the append, or "
    "the log was copied while a broker wrote to it.",
    "Recovery after an unclean shutdown removes the fragment. No whole batch is lost.",
    "Let recovery remove the fragment, or run kdump truncate-to-valid.",
    check=1,
    cure=Cure.CUT,
)
TORN_TAIL_SEALED: Final = FindingCode(
    "torn-tail-sealed",
    Severity.ERROR,
    "A segment that is not the last ends inside a batch: the end of the segment is lost.",
    "Consumers cannot read the offsets up to the next segment. Recovery removes the fragment and "
    "deletes every later segment, valid records included.",
    SALVAGE_OR_CUT,
    check=1,
    cure=Cure.CUT,
)
TORN_TAIL_LIVE: Final = FindingCode(
    "torn-tail-live",
    Severity.INFO,
    "The last segment ended inside a batch when kdump read it: a running broker was appending that "
    "batch.",
    "The broker completes the batch.",
    "Nothing to do. If in doubt, verify again after the broker has stopped.",
    check=1,
)
PREALLOCATED_TAIL: Final = FindingCode(
    "preallocated-tail",
    Severity.INFO,
    "Zeros follow the last batch of the last segment. With preallocate=true, a segment has them "
    "until it is rolled or closed cleanly. A power failure also leaves them, where appended data "
    "did not reach the disk.",
    "A running broker writes over the zeros. Recovery after an unclean shutdown removes them.",
    "If the topic has preallocate=true, there is nothing to do. If it does not, the end of the "
    "log may be lost: if another replica is in sync, start its broker first.",
    check=1,
)
PREALLOCATED_TAIL_SEALED: Final = FindingCode(
    "preallocated-tail-sealed",
    Severity.ERROR,
    "Zeros follow the last batch of a segment that is not the last.",
    "Consumers that receive the zeros stop there. Recovery removes the zeros and deletes every "
    "later segment, valid records included.",
    SALVAGE_OR_CUT,
    check=1,
    cure=Cure.CUT,
)
BATCH_MAGIC_UNKNOWN: Final = FindingCode(
    "batch-magic-unknown",
    Severity.ERROR,
    "The magic byte of a batch names a message format that no release writes. The checksum of "
    "message format v2 does not cover this byte: most likely it changed on disk, and the rest of "
    "the batch is valid.",
    "The broker treats any magic above 2 as message format v2 and serves the batch unchanged. "
    "Recovery leaves the batch in the log. Consumers and followers stop at it.",
    REPLICA_FIRST + ONE_VALUE,
    check=3,
)
BATCH_CODEC_UNKNOWN: Final = FindingCode(
    "batch-codec-unknown",
    Severity.ERROR,
    "A batch matches its checksum, but names a compression type that does not exist, or that its "
    "message format does not allow. It was written that way.",
    "The broker serves the batch unchanged, and recovery leaves it in the log. Consumers stop at "
    "the batch until they seek past it. If the compression type does not exist, a follower cannot "
    "append the batch: a new replica never gets in sync. On a compacted topic, the broker marks "
    "the partition as uncleanable, and does not compact it until a restart.",
    "Seek consumers past the batch.",
    check=3,
)
BATCH_ATTRIBUTES_UNKNOWN: Final = FindingCode(
    "batch-attributes-unknown",
    Severity.INFO,
    "The attributes of a batch have bits set that have no meaning in releases up to 4.4. A client "
    "or a later release set them.",
    "The broker and consumers ignore these bits.",
    "Nothing to do.",
    check=3,
)
OFFSETS_NOT_INCREASING: Final = FindingCode(
    "offsets-not-increasing",
    Severity.ERROR,
    "A batch does not begin after the end of the batch before it: offsets occur twice or run "
    "backwards.",
    "Recovery accepts the batch. The log end offset follows the last batch, even if this batch has "
    "lower offsets. If the index entries that recovery writes do not rise, recovery deletes all "
    "records of the segment.",
    REPLICA_FIRST + ONE_VALUE,
    check=4,
    cure=Cure.CUT_IF_REFUSED,
)
BATCH_BELOW_SEGMENT: Final = FindingCode(
    "batch-below-segment",
    Severity.ERROR,
    "A batch begins below the base offset in its segment's name.",
    "Lookups give wrong results. A broker that must recover the segment does not start.",
    SALVAGE_OR_CUT + ONE_VALUE,
    check=4,
    cure=Cure.CUT_IF_REFUSED,
)
BATCH_OFFSETS_INVERTED: Final = FindingCode(
    "batch-offsets-inverted",
    Severity.ERROR,
    "The last offset of a batch is lower than its first offset.",
    "Lookups give wrong results. A broker that must recover the segment may refuse to start, or "
    "end the log at the wrong offset.",
    REPLICA_FIRST,
    check=4,
    cure=Cure.CUT_IF_REFUSED,
)
OFFSET_OVERFLOW: Final = FindingCode(
    "offset-overflow",
    Severity.ERROR,
    "The last batch is more than 2147483647 offsets above its segment's base offset, which no "
    "index entry can express. Its offset is wrong, or the cleaner of an old broker merged too "
    "many segments (KAFKA-5413).",
    "Recovery splits the segment, and accepts the offset even if it is wrong. Without recovery, "
    "the next append fails.",
    "If the cleaner merged too many segments, every record is valid: recovery splits the segment "
    "and loses nothing. If the offset is wrong, the batch is corrupt. "
    + SALVAGE_OR_CUT
    + ONE_VALUE,
    check=4,
    cure=Cure.CUT_IF_REFUSED,
)
SEGMENTS_OVERLAP: Final = FindingCode(
    "segments-overlap",
    Severity.ERROR,
    "A segment extends into the offsets of the next segment: those offsets exist twice.",
    "The broker does not detect this. Consumers that read from one segment into the next see those "
    "offsets twice or skip records.",
    REPLICA_FIRST + ONE_VALUE,
    check=5,
)
BATCH_COUNT_MISMATCH: Final = FindingCode(
    "batch-count-mismatch",
    Severity.WARNING,
    "The number of records in a batch differs from its number of offsets, in a topic that was "
    "never compacted. Records were removed, or a client wrote the batch this way to an old broker, "
    "which accepted it.",
    "The broker does not detect this. Consumers read the records that are there.",
    "Compare with another replica: kdump dump shows the offsets, counts and sequence numbers of "
    "its batches.",
    check=6,
)
RECORDS_UNREADABLE: Final = FindingCode(
    "records-unreadable",
    Severity.ERROR,
    "A batch matches its checksum, but its records cannot be read. It was written that way.",
    "The broker serves the batch unchanged, and recovery leaves it in the log. Consumers stop at "
    "the batch until they seek past it. On a compacted topic, the broker marks the partition as "
    "uncleanable, and does not compact it until a restart.",
    "Seek consumers past the batch.",
    check=6,
)
RECORDS_CUT_OFF: Final = FindingCode(
    "records-cut-off",
    Severity.ERROR,
    "The last inner message of a wrapper message (message format v0 or v1) is incomplete. The "
    "wrapper matches its checksum: it was written that way.",
    "Java consumers read the messages before it, skip the incomplete message and continue after "
    "the wrapper, without an error. In message format v1 they count the offsets of these messages "
    "back from the offset of the wrapper: all are too high by the number of missing messages. "
    "Consumers of kafka-python and aiokafka stop. On a compacted topic, the cleaner drops the "
    "incomplete message when it drops another message of the wrapper.",
    "Send the missing message again from its source. No replica has more of it.",
    check=6,
)
RECORDS_NULL_SIZES: Final = FindingCode(
    "records-null-sizes",
    Severity.WARNING,
    "A key, a value or the value of a header has a negative size other than -1, the size of null. "
    "A client wrote it that way.",
    "The broker and Java consumers read null. So do kafka-python and aiokafka in message format "
    "v2. Consumers on librdkafka, such as confluent-kafka, stop before the record and report no "
    "error; if the null is the value of a header, they omit all headers of the record. In message "
    "formats v0 and v1, aiokafka stops too, and kafka-python reads an empty key or value.",
    "Nothing to do for Java consumers. Seek consumers on librdkafka past the batch. kdump export "
    "writes these records, with null.",
    check=6,
)
RECORDS_UNDECODABLE: Final = FindingCode(
    "records-undecodable",
    Severity.ERROR,
    "The coordinator of an internal topic cannot decode a record. The batch matches its checksum: "
    "it was written that way, by a later release or a faulty one.",
    "A coordinator of 4.0 and later does not load the partition: its groups, or its transactional "
    "ids, have no coordinator, and their clients wait. A group coordinator of 3.9 loads none of "
    "its groups, and answers that they have no offsets: consumers reset their position.",
    "Start the release that wrote the record. If no release reads it, save the offsets of the "
    "partition with kdump groups --format csv. Stop the brokers that have a replica of the "
    "partition, move these replicas out of the log directories, and start the brokers. Then commit "
    "the offsets again with kafka-consumer-groups.sh --reset-offsets --from-file. For "
    "__transaction_state, abort the transactions that then hang: kdump transactions --hanging "
    "shows the commands.",
    check=41,
)
RECORDS_OFFSETS: Final = FindingCode(
    "records-offsets",
    Severity.ERROR,
    "The offsets of a batch's records do not rise, or leave the range in the batch header.",
    "The broker does not check them. Consumers skip records, see them twice, or continue at the "
    "wrong offset.",
    "If consumers must not see the batch, seek them past it.",
    check=6,
)
RECORDS_TIMESTAMPS: Final = FindingCode(
    "records-timestamps",
    Severity.ERROR,
    "A record has a later timestamp than the largest timestamp in its batch header.",
    "The broker trusts the header: lookups by time miss the record, and time-based retention may "
    "delete it early.",
    "No repair corrects this. Find such records by offset.",
    check=7,
)
TORN_TAIL_CLEAN: Final = FindingCode(
    "torn-tail-clean",
    Severity.ERROR,
    "The last segment ends inside a batch, which no clean shutdown leaves. The clean shutdown file "
    "is not from the last shutdown, or the segment was changed after the shutdown.",
    "The broker trusts the clean shutdown file and appends new batches after the fragment: "
    "consumers and followers will stop there.",
    "While the broker is stopped, kdump truncate-to-valid removes the fragment. If another "
    "replica is in sync, start its broker first: this broker then fetches the lost end from the "
    "leader.",
    check=37,
    cure=Cure.CUT,
)
PREALLOCATED_TAIL_CLEAN: Final = FindingCode(
    "preallocated-tail-clean",
    Severity.ERROR,
    "Zeros follow the last batch of the last segment, which no clean shutdown leaves. The clean "
    "shutdown file is not from the last shutdown, or the segment was changed after the shutdown.",
    "The broker trusts the clean shutdown file, reads up to the zeros, and does not start.",
    "While the broker is stopped, kdump truncate-to-valid removes the zeros.",
    check=37,
    stops=Outcome.REFUSES,
    cure=Cure.CUT,
)
LIMIT: Final = FindingCode(
    "limit",
    Severity.INCOMPLETE,
    "A batch decompresses to more data than kdump reads at once: its records were not checked.",
    "The broker has no such limit. Consumers decompress the batch piece by piece.",
    "Find out whether a client sends such batches on purpose. If not, the batch may be a "
    "decompression bomb.",
)

_FAULT_CODES: Final = {
    FaultKind.BACKWARDS: OFFSETS_NOT_INCREASING,
    FaultKind.INVERTED: BATCH_OFFSETS_INVERTED,
    FaultKind.MAGIC: BATCH_MAGIC_UNKNOWN,
    FaultKind.CODEC: BATCH_CODEC_UNKNOWN,
    FaultKind.BITS: BATCH_ATTRIBUTES_UNKNOWN,
    FaultKind.MISCOUNTED: BATCH_COUNT_MISMATCH,
    FaultKind.UNREADABLE: RECORDS_UNREADABLE,
    FaultKind.CUT: RECORDS_CUT_OFF,
    FaultKind.NULLS: RECORDS_NULL_SIZES,
    FaultKind.DISORDER: RECORDS_OFFSETS,
    FaultKind.LATE: RECORDS_TIMESTAMPS,
    FaultKind.UNDECODABLE: RECORDS_UNDECODABLE,
    FaultKind.LIMIT: LIMIT,
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
                SEGMENTS_OVERLAP,
                survey.segment.log,
                position=survey.last_position,
                offsets=Offsets(next_base, survey.last_offset),
                detail=Detail(
                    f"a last offset below {next_base}, where the next segment begins",
                    str(survey.last_offset),
                ),
                remedy=explain_command(SEGMENTS_OVERLAP),
            )


def _segment(evidence: Evidence, survey: Survey, next_base: int | None) -> Iterator[Finding]:
    listed: Counter[Reason | FaultKind] = Counter()
    shown = Counter[Reason | FaultKind](gap.damage.reason for gap in survey.gaps)
    shown.update(fault.kind for fault in survey.faults)

    def repeats(kind: Reason | FaultKind) -> int:
        listed[kind] += 1
        return survey.counts[kind] - shown[kind] if listed[kind] == LISTED else 0

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
        return TORN_TAIL_LIVE
    if not damage.is_tail:
        checksum = damage.reason is Reason.BAD_CHECKSUM
        return BATCH_CRC_MISMATCH if checksum else BATCH_SIZE_IMPOSSIBLE
    if sealed:
        return TORN_TAIL_SEALED if damage.torn else PREALLOCATED_TAIL_SEALED
    if damage.empty:
        return PREALLOCATED_TAIL_CLEAN if clean else PREALLOCATED_TAIL
    if live:
        return TORN_TAIL_LIVE
    return TORN_TAIL_CLEAN if clean else TORN_TAIL


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
    detail = _with_mended(_damage_detail(gap, survey.size), gap)
    return Finding(
        code,
        survey.segment.log,
        damage.position,
        damage.size,
        offsets,
        detail.as_live() if code is TORN_TAIL_LIVE else detail,
        explain_command(code),
        repeats,
    )


def _with_mended(detail: Detail, gap: Gap) -> Detail:
    """Return the detail, with what shows that only fields outside the checksum are wrong."""
    mended = gap.mended
    if mended is None:
        return detail
    size = f"size {mended.size} and magic {mended.magic}"
    return Detail(detail.expected, f"{detail.found}; with {size} the checksum matches")


def _damage_detail(gap: Gap, file_size: int) -> Detail:
    damage = gap.damage
    match damage.reason:
        case Reason.BAD_CHECKSUM:
            marker = ", in a former transaction marker" if gap.marker else ""
            computed = f"{damage.computed_crc:08x}{marker}"
            return Detail(f"crc {damage.stored_crc:08x} as stored", computed)
        case Reason.IMPOSSIBLE_SIZE:
            left = file_size - damage.position
            return Detail(
                "a batch of 61 bytes or more (before message format v2: 26) in the "
                f"{left} bytes left",
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
            code = BATCH_BELOW_SEGMENT
            detail = Detail(f"a base offset of {base} or more", str(batch.base_offset))
        case FaultKind.BACKWARDS:
            detail = Detail(f"a base offset above {fault.reference}", str(batch.base_offset))
        case FaultKind.INVERTED:
            detail = Detail(f"a last offset of {batch.base_offset} or more", str(batch.last_offset))
        case FaultKind.MAGIC:
            detail = Detail("a magic of 0, 1 or 2", str(batch.magic))
        case FaultKind.CODEC:
            known = "4 (zstd)" if batch.magic > 1 else "3 (lz4)"
            detail = Detail(f"a compression type of at most {known}", str(batch.codec_id))
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
            OFFSET_OVERFLOW,
            survey.segment.log,
            position=survey.last_position,
            offsets=Offsets(highest + 1, survey.last_offset),
            detail=Detail(f"a last offset of at most {highest}", str(survey.last_offset)),
            remedy=explain_command(OFFSET_OVERFLOW),
        )


SEGMENT_CHECKS: Final = (check_segments,)
CHECKS: Final = (check_sequence,)
