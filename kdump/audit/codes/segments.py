"""Finding codes of the order of segments in a partition.

Spec: the behaviour and the messages of brokers of 3.9 to 4.3. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REPLICA_FIRST, FindingCode, Outcome, Severity

SEGMENT_MISSING: Final = FindingCode(
    "segment-missing",
    Severity.ERROR,
    "Offsets between two segments are missing, and other files of the segment that held them are "
    "still there.",
    "Does not notice. Consumers go on at the next segment.",
    "Bring the .log back if it was moved or is in a backup. " + REPLICA_FIRST,
    ("Found an orphaned index file {}, with no corresponding log file.",),
    check=31,
    loses=True,
)
SEGMENTS_GONE: Final = FindingCode(
    "segments-gone",
    Severity.ERROR,
    "A partition has no segment left, although the checkpoints say that there were records.",
    "Begins the log anew at the checkpointed log start, or at 0: offsets are given a second time.",
    "Bring the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
SEGMENTS_HOLE: Final = FindingCode(
    "segments-hole",
    Severity.ERROR,
    "Offsets between two segments are missing, in a topic that was never compacted: a segment was "
    "removed, or recovery cut one and left those behind it.",
    "Does not notice. Consumers go on at the next segment.",
    "Bring the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
RECORDS_MISSING: Final = FindingCode(
    "records-missing",
    Severity.ERROR,
    "Offsets are missing, and records were there: a producer's sequence numbers jump behind them, "
    "and no batch of the log shows compaction. The settings of the topic are unknown.",
    "Does not notice. Consumers go on behind the missing offsets.",
    "Bring the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
OFFSETS_MISSING: Final = FindingCode(
    "offsets-missing",
    Severity.WARNING,
    "Offsets are missing, and nothing decides whether records are lost or compaction took them. "
    "The settings of the topic are unknown, or batches look cleaned although it is not compacted. "
    "With --quick most batches are not read.",
    "Does not notice. Consumers go on behind the missing offsets.",
    "Verify the partition without --quick, and in its log directory, where the metadata log has "
    "the settings of the topic. Compare with another replica before you trust this one.",
    check=31,
)
BATCH_OFFSET_CHANGED: Final = FindingCode(
    "batch-offset-changed",
    Severity.ERROR,
    "Offsets are missing, and the sequence numbers of the producer of the batch behind them go on "
    "without a break: its offset was changed, which no checksum covers.",
    "Serves the records under the changed offsets, and goes on behind them.",
    "Compare with another replica. If its offsets differ, start that one first.",
    check=31,
)
SEGMENTS_GAP: Final = FindingCode(
    "segments-gap",
    Severity.INFO,
    "Offsets between two segments are missing, as compaction leaves it.",
    "Goes on at the next segment.",
    "Nothing to do.",
    check=31,
)
TIMESTAMPS_HOLD_RETENTION: Final = FindingCode(
    "timestamps-hold-retention",
    Severity.WARNING,
    "A segment has a timestamp in the future: retention by time waits for it, and segments behind "
    "it are long due.",
    "Keeps this segment and all behind it, until retention.ms after that timestamp.",
    "Correct the client's clock. kafka-delete-records.sh moves the log's start past the segment; "
    "retention.bytes, or message.timestamp.type=LogAppendTime for new records, help too.",
    check=7,
)
TIMESTAMPS_FUTURE: Final = FindingCode(
    "timestamps-future",
    Severity.INFO,
    "A segment has a timestamp that lies more than an hour in the future.",
    "Keeps the segment, and all behind it, until retention.ms after that timestamp.",
    "Correct the client's clock.",
    check=7,
)
TORN_TAIL_CLEAN: Final = FindingCode(
    "torn-tail-clean",
    Severity.ERROR,
    "The last segment ends inside a batch although the broker was stopped cleanly: something else "
    "cut the file.",
    "Believes the marker, does not look, and appends behind the fragment: consumers and followers "
    "will stop there.",
    "If another replica is in sync, start that one first. Else kdump truncate-to-valid cuts the "
    "fragment off.",
    check=37,
)
PREALLOCATED_TAIL_CLEAN: Final = FindingCode(
    "preallocated-tail-clean",
    Severity.ERROR,
    "Zeros stand behind the last batch although the broker was stopped cleanly, which trims them.",
    "Believes the marker, reads on to the zeros, and does not start.",
    "While the broker is stopped, kdump truncate-to-valid cuts the zeros off.",
    ("Found record size 0 smaller than minimum record overhead ({}) in file",),
    check=37,
    stops=Outcome.REFUSES,
)
INDEX_PADDED_CLEAN: Final = FindingCode(
    "index-padded-clean",
    Severity.WARNING,
    "The last segment's .index has room behind its entries although the broker was stopped "
    "cleanly, which trims it: the marker is not of this stop.",
    "Counts the zeros as entries: looks up slowly, and rolls at the next append if the index has "
    "its full length.",
    "While the broker is stopped, kdump reindex rebuilds it. Or remove .kafka_cleanshutdown, so "
    "that recovery rebuilds the last indexes of all partitions.",
    check=37,
)
TIMEINDEX_PADDED_CLEAN: Final = FindingCode(
    "timeindex-padded-clean",
    Severity.ERROR,
    "The last segment's .timeindex has room behind its entries although the broker was stopped "
    "cleanly, which trims it: the marker is not of this stop.",
    "Takes the last zeros for the segment's newest timestamp, 1970: time-based retention may "
    "delete the segment (KAFKA-10207, KAFKA-10471).",
    "While the broker is stopped, kdump reindex rebuilds it. Or remove .kafka_cleanshutdown, so "
    "that recovery rebuilds the last indexes of all partitions.",
    check=37,
)
