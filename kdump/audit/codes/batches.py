"""Finding codes of batches, their offsets and records.

Spec: what brokers of 3.9 to 4.3 do and log. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REPLICA_FIRST, SALVAGE_OR_CUT, FindingCode, Severity

_CUT: Final = (
    "Found invalid messages in log segment {} at byte offset {}",
    "Corruption found in segment {}, truncating to offset {}",
)
_FETCH: Final = (
    "Record batch for partition {} at offset {} is invalid, cause: {}",
    "Encountered corrupt message when fetching offset {} for topic-partition {}",
    "Found invalid messages during fetch for partition {} offset {}",
)
_OVERFLOW: Final = (
    "Detected offset overflow at offset {} in segment {}",
    "Split operation is only permitted for segments with overflow, and the problem path is {}",
)

BATCH_CRC_MISMATCH: Final = FindingCode(
    "batch-crc-mismatch",
    Severity.ERROR,
    "A batch does not match its checksum: nothing in it can be trusted.",
    "Consumers and followers stop at it. In recovery the segment is cut there and every later "
    "segment deleted, sound records included; after a clean stop nobody looks.",
    SALVAGE_OR_CUT,
    ("Record is corrupt (stored crc = {}, computed crc = {})", *_CUT, *_FETCH),
    check=2,
)
BATCH_SIZE_IMPOSSIBLE: Final = FindingCode(
    "batch-size-impossible",
    Severity.ERROR,
    "Where a batch should start stands a size that no batch has: too small, or reaching beyond "
    "the end of the file although sound batches follow.",
    "As for a bad checksum: consumers and followers stop, recovery cuts there and deletes every "
    "later segment.",
    SALVAGE_OR_CUT,
    (
        "Found record size {} smaller than minimum record overhead ({}) in file",
        "Record batch is corrupt (the size {} is smaller than the minimum allowed overhead {})",
        "Record size {} is less than the minimum record overhead ({})",
        "Record is corrupt (crc could not be retrieved as the record is too small, size = {})",
        *_CUT,
        *_FETCH,
    ),
    check=1,
)
TORN_TAIL: Final = FindingCode(
    "torn-tail",
    Severity.WARNING,
    "The last segment ends inside a batch: its writer died while it appended.",
    "After an unclean stop recovery cuts the fragment off, and no whole batch is lost. With a "
    "clean marker it stays, and new batches are appended behind it.",
    "Let an unclean start heal it, or kdump truncate-to-valid. If the clean marker is there, "
    "something else cut the file: start another replica first.",
    ("Corruption found in segment {}, truncating to offset {}",),
    check=1,
)
TORN_TAIL_SEALED: Final = FindingCode(
    "torn-tail-sealed",
    Severity.ERROR,
    "A segment that is not the last one ends inside a batch: its end is lost.",
    "Consumers cannot read the offsets up to the next segment. In recovery the fragment is cut "
    "off and every later segment deleted, sound records included.",
    SALVAGE_OR_CUT,
    ("Corruption found in segment {}, truncating to offset {}",),
    check=1,
)
TORN_TAIL_LIVE: Final = FindingCode(
    "torn-tail-live",
    Severity.INFO,
    "The last segment ended inside a batch when it was read, beside a running broker: a batch "
    "was just being appended.",
    "Nothing: it completes the batch.",
    "Nothing to do. Verify again after the broker has stopped, if in doubt.",
    check=1,
)
PREALLOCATED_TAIL: Final = FindingCode(
    "preallocated-tail",
    Severity.INFO,
    "Zeros stand behind the last batch of the last segment, as with preallocate=true before the "
    "segment is rolled or cleanly closed.",
    "A running broker writes over them; recovery after an unclean stop cuts them off.",
    "Nothing to do.",
    ("Found record size 0 smaller than minimum record overhead ({}) in file", *_CUT),
    check=1,
)
PREALLOCATED_TAIL_SEALED: Final = FindingCode(
    "preallocated-tail-sealed",
    Severity.ERROR,
    "Zeros stand behind the last batch of a segment that is not the last one.",
    "Consumers that are served the zeros stop there. In recovery they are cut off and every "
    "later segment deleted, sound records included.",
    SALVAGE_OR_CUT,
    ("Found record size 0 smaller than minimum record overhead ({}) in file", *_CUT),
    check=1,
)
BATCH_MAGIC_UNKNOWN: Final = FindingCode(
    "batch-magic-unknown",
    Severity.ERROR,
    "A batch has a magic that no release writes. In batches of magic 2 no checksum covers it: most "
    "likely it was changed on disk, and the rest of the batch is sound.",
    "Takes any number above 2 for 2, serves the batch as it is, and recovery keeps it. Consumers "
    "and followers stop at it.",
    REPLICA_FIRST,
    ("Invalid magic found in record: {}",),
    check=3,
)
BATCH_CODEC_UNKNOWN: Final = FindingCode(
    "batch-codec-unknown",
    Severity.ERROR,
    "A batch matches its checksum, but names a codec that there is not, or not in its magic: it "
    "was written so.",
    "Serves it as it is, and recovery keeps it. Consumers stop at it until they seek past.",
    "Seek consumers past the batch. On a compacted topic it stalls the cleaner.",
    ("Unknown compression type id: {}",),
    check=3,
)
BATCH_ATTRIBUTES_UNKNOWN: Final = FindingCode(
    "batch-attributes-unknown",
    Severity.INFO,
    "Bits of a batch's attributes are set that mean nothing up to 4.3: a client set them, or a "
    "later release.",
    "Does not look at them, nor do consumers.",
    "Nothing to do.",
    check=3,
)
OFFSETS_NOT_INCREASING: Final = FindingCode(
    "offsets-not-increasing",
    Severity.ERROR,
    "A batch does not begin behind the end of the batch before it: offsets stand twice or run "
    "backwards.",
    "Recovery takes no offence, and the log ends at the last batch, even if that is lower. Where "
    "index entries fall on both places it empties the whole segment.",
    REPLICA_FIRST,
    (
        "Found invalid offset during recovery. Deleting the corrupt segment and creating an "
        "empty one with starting offset {}",
        "Attempt to append an offset {} to position {} no larger than the last offset appended",
    ),
    check=4,
)
BATCH_BELOW_SEGMENT: Final = FindingCode(
    "batch-below-segment",
    Severity.ERROR,
    "A batch begins below the offset in its segment's name.",
    "Lookups go wrong. A broker that must recover the segment does not start.",
    SALVAGE_OR_CUT,
    _OVERFLOW,
    check=4,
)
BATCH_OFFSETS_INVERTED: Final = FindingCode(
    "batch-offsets-inverted",
    Severity.ERROR,
    "A batch has a last offset that is lower than its first.",
    "Lookups go wrong. A broker that must recover the segment may refuse to start, or end the "
    "log at the wrong offset.",
    REPLICA_FIRST,
    _OVERFLOW,
    check=4,
)
OFFSET_OVERFLOW: Final = FindingCode(
    "offset-overflow",
    Severity.ERROR,
    "The last batch lies more than 2147483647 offsets above its segment's name, which no index "
    "entry can say: its offset is wrong, or cleaning merged too much (before 1.1).",
    "Recovery splits the segment, and takes over the offset even if it is wrong. Unrecovered, "
    "the next append fails.",
    SALVAGE_OR_CUT,
    (*_OVERFLOW, "Caught segment overflow error: {}"),
    check=4,
)
SEGMENTS_OVERLAP: Final = FindingCode(
    "segments-overlap",
    Severity.ERROR,
    "A segment reaches into the offsets of the next one: they exist twice.",
    "Nothing notices. Consumers that read through see those offsets twice or skip records.",
    REPLICA_FIRST,
    check=5,
)

BATCHES_HOLE: Final = FindingCode(
    "batches-hole",
    Severity.ERROR,
    "Offsets between two batches of a segment are missing, in a topic that was never compacted: "
    "batches were removed, or another broker's log had this hole when it was copied.",
    "Does not notice. Consumers go on at the next batch.",
    REPLICA_FIRST,
    check=31,
    loses=True,
)
BATCH_COUNT_MISMATCH: Final = FindingCode(
    "batch-count-mismatch",
    Severity.WARNING,
    "A batch has not as many records as offsets, in a topic that was never compacted: records were "
    "removed, or a client wrote it so to an old broker, which let it pass.",
    "Does not notice. Consumers read the records that are there.",
    "Compare with another replica before trusting this one.",
    check=6,
)

RECORDS_UNREADABLE: Final = FindingCode(
    "records-unreadable",
    Severity.ERROR,
    "A batch matches its checksum, but its records cannot be read: it was written so.",
    "Serves it as it is, and recovery keeps it. Consumers stop at it until they seek past.",
    "Seek consumers past the batch. On a compacted topic it stalls the cleaner.",
    (
        "Incorrect declared batch size, records still remaining in file",
        "Incorrect declared batch size, premature EOF reached",
        "Found invalid record structure",
        "Found invalid record count {} in magic v{} batch",
        "Found invalid number of record headers",
        "Invalid record size: expected {} bytes in record payload",
        "Failed to decompress record stream",
        "Received exception when fetching the next record from {}",
    ),
    check=6,
)
RECORDS_OFFSETS: Final = FindingCode(
    "records-offsets",
    Severity.ERROR,
    "The offsets of a batch's records do not rise, or leave the range that its header gives.",
    "Does not look. Consumers skip records, see them twice, or go on at the wrong offset.",
    "Seek consumers past the batch, if they must not see it.",
    check=6,
)
RECORDS_TIMESTAMPS: Final = FindingCode(
    "records-timestamps",
    Severity.ERROR,
    "A record has a later timestamp than its batch's header gives as the largest.",
    "Believes the header: lookups by time miss the record, and time-based retention may delete "
    "it early.",
    "Nothing heals it. Look records up by offset.",
    check=7,
)
