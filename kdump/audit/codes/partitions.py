"""Finding codes of a partition's small files and of directory names.

Spec: what brokers of 3.9 to 4.3 do and log. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REPLICA_FIRST, FindingCode, Outcome, Severity

PARTITION_METADATA_MALFORMED: Final = FindingCode(
    "partition-metadata-malformed",
    Severity.ERROR,
    "A partition.metadata does not follow its format, or holds the zero uuid.",
    "Takes the whole log directory offline, and stops if it has no other.",
    "While the broker is stopped, kdump reindex writes it with the id that the metadata log has; "
    "else write the one that kafka-topics.sh --describe says: version: 0, then topic_id: ID.",
    (
        "Error while reading partition metadata file {}",
        "Malformed line in partition metadata file [{}]: {}",
        "Unrecognized version of partition metadata file ({}): {}",
        "Invalid topic ID in partition metadata file ({})",
    ),
    check=24,
    stops=Outcome.OFFLINE,
)
PARTITION_METADATA_FATAL: Final = FindingCode(
    "partition-metadata-fatal",
    Severity.ERROR,
    "A partition.metadata is empty or lacks its second line, or its topic id is no uuid.",
    "Does not start.",
    "While the broker is stopped, kdump reindex writes it with the id that the metadata log has; "
    "else write the one that kafka-topics.sh --describe says: version: 0, then topic_id: ID.",
    (
        "Input string `{}` decoded as {} bytes, which is not equal to the expected 16 bytes",
        "PartitionMetadataReadBuffer.read",
    ),
    check=24,
    stops=Outcome.REFUSES,
)
TOPIC_ID_MISSING: Final = FindingCode(
    "topic-id-missing",
    Severity.ERROR,
    "A partition of a KRaft node holds records but has no partition.metadata.",
    "Renames the directory to -stray and starts the replica with nothing: what no other replica "
    "has is not served any more.",
    "Before a broker starts, kdump reindex writes the file, with the id that the metadata log has. "
    "Without that at hand write it: version: 0, then topic_id: and the id that kafka-topics.sh "
    "--describe says, without a newline at the end.",
    ("The topicId does not exist in {}, treat it as a stray log",),
    check=24,
)
TOPIC_ID_MISSING_EMPTY: Final = FindingCode(
    "topic-id-missing-empty",
    Severity.INFO,
    "An empty partition has no partition.metadata: the broker stopped just after creating it.",
    "Renames the directory to -stray and creates it anew.",
    "Nothing to do.",
    ("The topicId does not exist in {}, treat it as a stray log",),
    check=24,
)
PARTITION_STRAY: Final = FindingCode(
    "partition-stray",
    Severity.WARNING,
    "The node's own metadata log says that this partition is not, or not any more, on this node.",
    "Renames the directory to -stray, serves it no more, and keeps it.",
    "If the topic was deleted or moved while the broker was down, all is well. If this directory "
    "is from another cluster or from a backup, think before a broker starts.",
    (
        "Found stray log dir {}: the current replica assignment {} does not contain the local "
        "brokerId {}.",
        "Found stray log dir {}: the topicId {} does not exist in the metadata image",
        "Log in {} marked stray and renamed to {}",
    ),
    check=24,
)
PARTITION_STRAY_CUT: Final = FindingCode(
    "partition-stray-cut",
    Severity.ERROR,
    "The node's metadata log is damaged, and its records about this partition stand at the damage "
    "or behind it.",
    "Cuts its metadata log at the damage, unless another controller leads and sends those records. "
    "Then it knows no such topic, renames the directory to -stray and serves it no more.",
    "Start another controller first if there is one. If this is the only one, copy the whole log "
    "directory before a broker starts on it, and then bring the metadata log back from a copy.",
    (
        "Found stray log dir {}: the topicId {} does not exist in the metadata image",
        "Log in {} marked stray and renamed to {}",
    ),
    check=24,
)
TOPIC_ID_MISMATCH: Final = FindingCode(
    "topic-id-mismatch",
    Severity.ERROR,
    "A partition.metadata has the id of another topic than the directory's name says.",
    "Stops taking over its replicas when it comes to this one: many others are not served either.",
    "Find out from which partition the file, or the whole directory, was copied.",
    (
        "Tried to assign topic ID {} to log for topic partition {},but log already contained "
        "topic ID {}",
        "Topic ID in memory: {} does not match the topic ID for partition {} provided in the "
        "request: {}",
        "due to InconsistentTopicIdException",
    ),
    check=24,
)
SEGMENT_BYTES_SMALL: Final = FindingCode(
    "segment-bytes-small",
    Severity.INFO,
    "The topic's segment.bytes is below 1 MiB, which brokers up to 4.0 accept.",
    "Starts up to 4.0; 4.3 does not.",
    "Raise segment.bytes before an upgrade beyond 4.0.",
    ("Invalid value {} for configuration segment.bytes: Value must be at least 1048576",),
)
FILE_NAME_REFUSED: Final = FindingCode(
    "file-name-refused",
    Severity.ERROR,
    "A file in a partition ends like one of a segment's, or of a metadata snapshot, but its name "
    "does not begin with a number of 64 bits.",
    "Does not start.",
    "Move the file away.",
    (
        'java.lang.NumberFormatException: For input string: "{}"',
        "java.lang.StringIndexOutOfBoundsException: begin 0, end 20, length {}",
    ),
    check=29,
    stops=Outcome.REFUSES,
)
FILE_NAME_UNPADDED: Final = FindingCode(
    "file-name-unpadded",
    Severity.ERROR,
    "A segment's number is not written with 20 digits.",
    "Ignores what is in the file, and creates an empty segment at its number: records from there "
    "to the next segment are skipped, or the log ends there.",
    "Move the file away, or give it its 20 digits if it belongs there.",
    check=29,
)
LOG_TOO_LARGE: Final = FindingCode(
    "log-too-large",
    Severity.ERROR,
    "A segment is larger than 2147483647 bytes.",
    "Does not start.",
    REPLICA_FIRST,
    ("The size of segment {} ({}) is larger than the maximum allowed segment size of {}",),
    check=30,
    stops=Outcome.REFUSES,
)
EPOCHS_MALFORMED: Final = FindingCode(
    "epochs-malformed",
    Severity.ERROR,
    "A leader-epoch-checkpoint does not follow its format: version, count, then two fields a line.",
    "Takes the whole log directory offline, and stops if it has no other.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    (
        "Malformed line in checkpoint file [{}]: {}",
        "Expected [{}] entries in checkpoint file [{}], but found only [{}]",
        "Error while reading checkpoint file {}",
    ),
    check=22,
    stops=Outcome.OFFLINE,
)
EPOCHS_NUMBER: Final = FindingCode(
    "epochs-number",
    Severity.ERROR,
    "An epoch or offset in leader-epoch-checkpoint is no number, or is negative.",
    "Does not start.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches.",
    (
        'java.lang.NumberFormatException: For input string: "{}"',
        "Received invalid partition leader epoch entry {}",
    ),
    check=22,
    stops=Outcome.REFUSES,
)
EPOCHS_ORDER: Final = FindingCode(
    "epochs-order",
    Severity.WARNING,
    "The epochs or offsets of leader-epoch-checkpoint do not rise.",
    "Drops the earlier lines that contradict a later one.",
    "Nothing is lost here; a follower may have to cut more than it needs when it next compares "
    "epochs.",
    ("New epoch entry {} caused truncation of conflicting entries {}",),
    check=22,
)
EPOCHS_BEYOND_END: Final = FindingCode(
    "epochs-beyond-end",
    Severity.WARNING,
    "A leader-epoch-checkpoint has an epoch that starts behind the log's end.",
    "Drops the line.",
    "The end of the log may be lost, as after a power failure: start another replica first.",
    ("Cleared entries {} from epoch cache after truncating to end offset {}",),
    check=22,
)
LOG_START_BEYOND_END: Final = FindingCode(
    "log-start-beyond-end",
    Severity.ERROR,
    "The checkpoint says that the log starts behind its end: segments are missing, or the "
    "directory is from a backup.",
    "DELETES ALL SEGMENTS of the partition and begins a new one at the checkpoint's offset, clean "
    "stop or not.",
    "Do not start a broker on it. If another replica is in sync, or the missing segments are in a "
    "backup, begin with those; else kdump reindex removes the line, and the log starts at its "
    "first segment.",
    (
        "Deleting all segments because logEndOffset ({}) is smaller than logStartOffset {}",
        "This could happen if segment files were deleted from the file system",
    ),
    check=25,
)
RECOVERY_POINT_BEYOND_END: Final = FindingCode(
    "recovery-point-beyond-end",
    Severity.ERROR,
    "Records up to the recovery point were on the disk, but the log ends before it.",
    "Lowers the recovery point; recovers the last segment alone after an unclean stop.",
    "The end of the log is lost, as where a backup was restored or a segment was deleted by hand: "
    "start another replica first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BEYOND_END: Final = FindingCode(
    "high-watermark-beyond-end",
    Severity.ERROR,
    "Records up to the high watermark were on all replicas in sync, but the log ends before it.",
    "Lowers the high watermark to the log's end.",
    "The end of the log is lost here, as after a power failure: start another replica first.",
    check=26,
    loses=True,
)
HIGH_WATERMARK_BELOW_START: Final = FindingCode(
    "high-watermark-below-start",
    Severity.INFO,
    "The checkpointed high watermark is lower than the log's start.",
    "Raises it to the log's start.",
    "Nothing to do.",
    check=26,
)
CLEANER_OFFSET_BEYOND_END: Final = FindingCode(
    "cleaner-offset-beyond-end",
    Severity.WARNING,
    "The cleaner's checkpoint lies behind the log's end.",
    "Cleans the partition from its start again.",
    "The end of the log may be lost: see whether other checkpoints say so too.",
    ("The last checkpoint dirty offset for partition {} is {}, which is larger than the log end",),
    check=27,
)
CLEANER_OFFSET_BELOW_START: Final = FindingCode(
    "cleaner-offset-below-start",
    Severity.INFO,
    "The cleaner's checkpoint lies before the log's start, as retention or DeleteRecords leave it.",
    "Begins at the log's start.",
    "Nothing to do.",
    ("Resetting first dirty offset of {} to log start offset {} since the checkpointed offset {}",),
    check=27,
)
LEFTOVER_DELETED: Final = FindingCode(
    "leftover-deleted",
    Severity.INFO,
    "Files of deleted segments that a broker had no time to remove.",
    "Removes them at start.",
    "To free the space they can go. To keep their data, copy them before a broker starts.",
    ("Deleting stray temporary file {}",),
    check=28,
)
LEFTOVER_CLEANED: Final = FindingCode(
    "leftover-cleaned",
    Severity.INFO,
    "What the cleaner, or the splitting of a segment, had not finished: the originals are there.",
    "Removes it at start.",
    "Nothing to do; it can go to free the space.",
    ("Deleting stray .clean file {}",),
    check=28,
)
LEFTOVER_TEMPORARY: Final = FindingCode(
    "leftover-temporary",
    Severity.INFO,
    "A file that was being written when the broker died; the one that it was to replace is whole.",
    "Ignores it, or removes it at start.",
    "Nothing to do.",
    check=28,
)
SWAP_DISCARDED: Final = FindingCode(
    "swap-discarded",
    Severity.INFO,
    "A .swap file stands at or behind a .cleaned file: a segment was not split to the end.",
    "Removes both at start and keeps the original.",
    "Nothing to do.",
    ("Deleting invalid swap file {} minCleanedFileOffset: {}",),
    check=28,
)
SWAP_PENDING: Final = FindingCode(
    "swap-pending",
    Severity.INFO,
    "A cleaned or split segment was to replace others when the broker died.",
    "Finishes that at start: deletes the files that it replaces and renames it.",
    "Nothing to do.",
    (
        "Found log file {} from interrupted swap operation, which is recoverable from",
        "Deleting segment files {} that is compacted but has not been deleted yet.",
        "Recovering file {} by renaming from {} files.",
    ),
    check=28,
)
SWAP_DELETES: Final = FindingCode(
    "swap-deletes",
    Severity.ERROR,
    "A .swap file will replace segments, and holds fewer records than they do. The topic was never "
    "compacted, or its settings are unknown and nothing shows compaction.",
    "Deletes those segments at start and renames the .swap file, clean stop or not.",
    "Move the .swap files of that number away before a broker starts.",
    (
        "Deleting segment files {} that is compacted but has not been deleted yet.",
        "Recovering file {} by renaming from {} files.",
    ),
    check=28,
)
SWAP_SHORTENED: Final = FindingCode(
    "swap-shortened",
    Severity.WARNING,
    "A .swap file will replace segments, and holds fewer records than they do. Nothing decides "
    "whether compaction left them out: the settings of the topic are unknown, or batches look "
    "cleaned although it is not compacted.",
    "Deletes those segments at start and renames the .swap file, clean stop or not.",
    "Verify the partition in its log directory, where the metadata log has the settings of the "
    "topic. If it was never compacted, move the .swap files of that number away before a broker "
    "starts.",
    (
        "Deleting segment files {} that is compacted but has not been deleted yet.",
        "Recovering file {} by renaming from {} files.",
    ),
    check=28,
)
SWAP_OVERLAPS: Final = FindingCode(
    "swap-overlaps",
    Severity.ERROR,
    "A .swap file begins inside the offsets of a segment that it will not replace.",
    "Renames it at start, and has those offsets twice.",
    "Move the .swap files of that number away before a broker starts.",
    ("Recovering file {} by renaming from {} files.",),
    check=28,
)
SNAPSHOT_UNREADABLE: Final = FindingCode(
    "snapshot-unreadable",
    Severity.WARNING,
    "A producer snapshot does not match its checksum or its format.",
    "Deletes it, takes the next older one, and reads all batches behind that.",
    "Nothing is lost; the start takes longer, unless kdump reindex writes it anew before.",
    (
        "Failed to load producer snapshot from '{}'",
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}",
        "Snapshot contained an unknown file version {}",
    ),
    check=19,
)
SNAPSHOT_STRAY: Final = FindingCode(
    "snapshot-stray",
    Severity.INFO,
    "A producer snapshot stands at no segment's start, and is not the one of the log's end.",
    "Removes it at start (since 2.8).",
    "Nothing to do.",
    ("Deleted producer state snapshot {}",),
    check=21,
)
