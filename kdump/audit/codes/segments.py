"""Finding codes of the order of segments in a partition.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REPLICA_FIRST, Cure, FindingCode, Harm, Outcome, Severity

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
FIRST_SEGMENT_MISSING: Final = FindingCode(
    "first-segment-missing",
    Severity.ERROR,
    "The log begins after the first offset of leader-epoch-checkpoint, or index files are left of "
    "a segment before the first one. Neither retention, by the topic's configs, nor DeleteRecords "
    "explains it: segments were removed from the beginning of the log.",
    "The broker does not detect this. It begins the log at the first segment that is left. If this "
    "replica leads, all others take over its log start offset and delete these records too.",
    "Do not let this replica lead: start the broker of another replica first. While this broker is "
    "stopped, kdump heal takes the missing segments from another replica. Or put the files back if "
    "they were moved or are in a backup.",
    check=31,
    loses=True,
    harm=Harm.FOLLOWED,
)
LOG_START_UNEXPLAINED: Final = FindingCode(
    "log-start-unexplained",
    Severity.WARNING,
    "The log begins after the first offset of leader-epoch-checkpoint, and kdump cannot determine "
    "whether retention deleted the segments before. Retention leaves such a line only if the "
    "broker is killed within moments. The topic's configs are unknown, or what is left is too "
    "young.",
    "The broker does not detect this. It begins the log at the first segment that is left. If this "
    "replica leads, all others take over its log start offset and delete the records before it.",
    "Name the broker's server.properties with --config, so that kdump knows retention. Compare the "
    "replicas: kdump compare shows whether others begin earlier. If they do, one of them has to "
    "lead, and kdump heal takes the missing segments from it.",
    check=31,
)
SEGMENTS_GONE: Final = FindingCode(
    "segments-gone",
    Severity.ERROR,
    "A partition has no segment left, although checkpoints or producer snapshots show that it had "
    "records.",
    "The broker begins an empty log at the checkpointed log start offset, or at 0: offsets are "
    "assigned a second time. Records in remote storage are no longer served.",
    "Put the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
    harm=Harm.EMPTY,
)
RECORDS_IN_REMOTE_STORAGE: Final = FindingCode(
    "records-in-remote-storage",
    Severity.INFO,
    "Older records of the partition are in remote storage only. kdump does not read them.",
    "The broker serves them from remote storage.",
    "Nothing to do. Checks, comparisons and exports cover the segments on this disk.",
)
SEGMENTS_HOLE: Final = FindingCode(
    "segments-hole",
    Severity.ERROR,
    "Offsets between two segments are missing, in a topic that was never compacted. A segment was "
    "removed, or a broker rebuilt a missing .index of a damaged segment, which truncates that "
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
    "there, and no batch of the log shows compaction. The topic's settings are unknown.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Put the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
)
OFFSETS_MISSING: Final = FindingCode(
    "offsets-missing",
    Severity.WARNING,
    "Offsets are missing, and kdump cannot determine whether records are lost or compaction "
    "removed them. The topic's settings are unknown, or batches appear cleaned although the topic "
    "is not compacted. With --quick, most batches are not read.",
    "The broker does not detect this. Consumers continue after the missing offsets.",
    "Verify the partition without --quick, and in its log directory, where the metadata log has "
    "the topic's settings. Compare with another replica: kdump dump shows the offsets, counts and "
    "sequence numbers of its batches.",
    check=31,
)
BATCH_OFFSET_CHANGED: Final = FindingCode(
    "batch-offset-changed",
    Severity.ERROR,
    "The offset of a batch was changed. No checksum covers it. Offsets before the batch are "
    "missing, but its producer's sequence numbers continue without a gap.",
    "The broker serves the records under the changed offsets and continues after them.",
    "Compare with another replica: kdump dump shows the offsets of its batches. If they differ, "
    "start its broker first, and move this partition directory out of the log directory: this "
    "broker then fetches the whole partition from the leader.",
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
TIMESTAMPS_HOLD_RETENTION: Final = FindingCode(
    "timestamps-hold-retention",
    Severity.WARNING,
    "A segment has a timestamp in the future. Time-based retention therefore keeps later segments "
    "that are due for deletion.",
    "The broker keeps this segment and all later segments until retention.ms after that timestamp.",
    "Correct the client's clock. kafka-delete-records.sh moves the log start offset past the "
    "segment. retention.bytes also deletes the segment. For new records, "
    "message.timestamp.type=LogAppendTime prevents such timestamps.",
    check=7,
)
TIMESTAMPS_FUTURE: Final = FindingCode(
    "timestamps-future",
    Severity.INFO,
    "A segment has a timestamp that is more than an hour in the future.",
    "The broker keeps this segment and all later segments until retention.ms after that timestamp.",
    "Correct the client's clock.",
    check=7,
)
TORN_TAIL_CLEAN: Final = FindingCode(
    "torn-tail-clean",
    Severity.ERROR,
    "The last segment ends inside a batch, as no clean stop leaves it. The clean shutdown marker "
    "is not from the last stop, or something changed the file after it.",
    "The broker trusts the clean shutdown marker and appends new batches after the fragment: "
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
    "Zeros follow the last batch of the last segment, as no clean stop leaves them. The clean "
    "shutdown marker is not from the last stop, or something changed the file after it.",
    "The broker trusts the clean shutdown marker, reads on to the zeros, and does not start.",
    "While the broker is stopped, kdump truncate-to-valid removes the zeros.",
    check=37,
    stops=Outcome.REFUSES,
    cure=Cure.CUT,
)
INDEX_PADDED_CLEAN: Final = FindingCode(
    "index-padded-clean",
    Severity.WARNING,
    "The last segment's .index has unused space after its entries, as no clean stop leaves it. "
    "The clean shutdown marker is not from the last stop, or something changed the file after it.",
    "The broker counts the unused space as entries: lookups are slow. If the file has its full "
    "length, the next append rolls the segment.",
    "While the broker is stopped, kdump reindex rebuilds the file. Or remove .kafka_cleanshutdown: "
    "recovery then rebuilds the indexes of the last segment of every partition.",
    check=37,
    cure=Cure.REINDEX,
)
TIMEINDEX_PADDED_CLEAN: Final = FindingCode(
    "timeindex-padded-clean",
    Severity.ERROR,
    "The last segment's .timeindex has unused space after its entries, as no clean stop leaves "
    "it. The clean shutdown marker is not from the last stop, or something changed the file after "
    "it.",
    "The broker takes the last zeros for the segment's latest timestamp, which is then in 1970: "
    "time-based retention may delete the segment (KAFKA-10207, KAFKA-10471).",
    "While the broker is stopped, kdump reindex rebuilds the file. Or remove .kafka_cleanshutdown: "
    "recovery then rebuilds the indexes of the last segment of every partition.",
    check=37,
    cure=Cure.REINDEX,
)
