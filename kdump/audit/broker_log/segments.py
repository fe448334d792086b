"""Messages about segments during loading, recovery and serving.

Spec: LogLoader, LogSegment and the record batches of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.answers import ALL, BAD_BATCH, DISK, NOTHING
from kdump.audit.broker_log.message import Kind, Message, answer_alike

_CUT_ADVICE: Final = (
    "If another replica is in sync, nothing is lost for the cluster. If this is the only copy, "
    "stop the broker within file.delete.delay.ms (a minute): kdump salvage also reads segments "
    "that are marked as .deleted. What was cut off inside the segment is gone."
)
_BATCHES: Final = (
    codes.BATCH_CRC_MISMATCH,
    codes.BATCH_SIZE_IMPOSSIBLE,
    codes.TORN_TAIL,
    codes.TORN_TAIL_SEALED,
    codes.PREALLOCATED_TAIL,
    codes.PREALLOCATED_TAIL_SEALED,
)

ROWS: Final = (
    Message(
        "Found invalid messages in log segment {path} at byte offset {position}",
        Kind.DISK,
        "Recovery found a batch that is damaged or cut off. It cuts the segment at this position, "
        "and deletes every later segment of the partition.",
        _CUT_ADVICE,
        _BATCHES,
    ),
    Message(
        "Corruption found in segment {}, truncating to offset {offset}",
        Kind.DISK,
        "Recovery has cut the log: it ends at this offset, and every later segment is deleted, "
        "with all sound records in it.",
        _CUT_ADVICE,
        _BATCHES,
    ),
    Message(
        "Deleting segments as part of log recovery: {}",
        Kind.DISK,
        "Recovery had cut a segment before, and has marked the later ones as .deleted: they go "
        "after file.delete.delay.ms, a minute.",
        _CUT_ADVICE,
        _BATCHES,
    ),
    Message(
        "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty "
        "one with starting offset {offset}",
        Kind.DISK,
        "Recovery met an offset that does not follow the one before. It has deleted the segment "
        "and put an empty one in its place.",
        _CUT_ADVICE,
        (codes.OFFSETS_NOT_INCREASING,),
    ),
    Message(
        "Deleting all segments because logEndOffset ({}) is smaller than logStartOffset {offset}",
        Kind.DISK,
        "The log ended before the checkpointed log start: the broker has deleted all segments of "
        "this partition and begun an empty one at that offset.",
        "The segments are .deleted files for file.delete.delay.ms, a minute: stop the broker and "
        "copy them if this is the only copy. Otherwise a replica in sync fills it again.",
        (codes.LOG_START_BEYOND_END,),
    ),
    Message(
        "This could happen if segment files were deleted from the file system",
        Kind.DISK,
        "The log ended before the checkpointed log start: the broker has deleted all segments.",
        "Somebody removed segments, or the directory is from a backup.",
        (codes.LOG_START_BEYOND_END,),
    ),
    # What a batch may be.
    Message(
        "Found record size 0 smaller than minimum record overhead ({}) in file {path}",
        Kind.DISK,
        "Zeros stand where a batch should begin: room that was preallocated, or lost by the disk. "
        "After an unclean stop recovery cuts them off; after a clean one the broker does not "
        "start.",
        BAD_BATCH,
        (
            codes.PREALLOCATED_TAIL,
            codes.PREALLOCATED_TAIL_SEALED,
            codes.PREALLOCATED_TAIL_CLEAN,
            codes.BATCH_SIZE_IMPOSSIBLE,
        ),
    ),
    Message(
        "Found record size {} smaller than minimum record overhead ({}) in file {path}",
        Kind.DISK,
        "Where a batch should begin stands a size that no batch has.",
        BAD_BATCH,
        (codes.BATCH_SIZE_IMPOSSIBLE,),
    ),
    Message(
        "Record is corrupt (stored crc = {}, computed crc = {})",
        Kind.DISK,
        "A batch did not match its checksum when it was read.",
        BAD_BATCH,
        (codes.BATCH_CRC_MISMATCH, codes.METADATA_SNAPSHOT_DAMAGED),
    ),
    Message(
        "Record is corrupt (stored crc = {}) in topic partition {partition}",
        Kind.DISK,
        "A batch that a client or a leader sent did not match its checksum, and was refused. "
        "Nothing was written.",
        "From a producer: test that client's memory and network. From a leader: verify the "
        "leader's partition.",
        (codes.BATCH_CRC_MISMATCH,),
    ),
    *answer_alike(
        Kind.DISK,
        "Where a batch should begin stands a size that no batch has.",
        BAD_BATCH,
        (
            "Record batch is corrupt (the size {} is smaller than the minimum allowed overhead {})",
            "Record size {} is less than the minimum record overhead ({})",
            "Record size {} exceeds the largest allowable message size ({})",
            "Record size is less than the minimum record overhead ({})",
            "Record size exceeds the largest allowable message size ({})",
            "Record is corrupt (crc could not be retrieved as the record is too small, size = {})",
            "Unexpected EOF while attempting to read the next batch",
        ),
        (codes.BATCH_SIZE_IMPOSSIBLE,),
    ),
    Message(
        "Invalid magic found in record: {}",
        Kind.DISK,
        "A batch has a magic that no release writes.",
        BAD_BATCH,
        (codes.BATCH_MAGIC_UNKNOWN,),
    ),
    Message(
        "Unknown compression type id: {}",
        Kind.DISK,
        "A batch names a codec that there is not.",
        "Seek consumers past the batch. On a compacted topic the cleaner stops there.",
        (codes.BATCH_CODEC_UNKNOWN,),
    ),
    *answer_alike(
        Kind.DISK,
        "The records of a batch could not be read, although its checksum may match: it was "
        "written so, or it is damaged.",
        "Run kdump verify --deep on the partition: it tells which. Consumers can seek past it.",
        (
            "Incorrect declared batch size, records still remaining in file",
            "Incorrect declared batch size, premature EOF reached",
            "Found invalid record structure",
            "Found invalid record count {} in magic v{} batch",
            "Found invalid number of record headers",
            "Invalid record size: expected {} bytes in record payload",
            "Failed to decompress record stream",
            "Error checking for remaining bytes after reading batch",
            "Invalid wrapper magic found in legacy deep record iterator",
            "Invalid wrapper compressionType found in legacy deep record iterator",
            "Found invalid compressed record set with",
            "Compressed message magic {} does not match wrapper magic {}",
            "Found invalid wrapper offset in compressed v1 message set",
            "Inner messages must not be compressed",
            "Invalid negative header key size {}",
            "Reached end of input stream before skipping all bytes",
            "Failed to close record stream",
            "java.io.IOException: Unable to skip exactly",
            "Varint is too long, the most significant bit in the 5th byte is set",
            "Varlong is too long, most significant bit in the 10th byte is set",
        ),
        (codes.RECORDS_UNREADABLE,),
    ),
    Message(
        "Received exception when fetching the next record from {partition}",
        Kind.DISK,
        "A consumer stopped at a record that it could not read.",
        "Run kdump verify --deep on the partition: it gives the offset to seek to.",
        (codes.RECORDS_UNREADABLE, codes.BATCH_CRC_MISMATCH),
        outer=True,
    ),
    Message(
        "Failed to read record batch at position {position} from {}",
        Kind.DISK,
        "A batch could not be read from the disk.",
        "Look at the system's log for errors of the disk.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Failed to load record batch at position {position} from {}",
        Kind.DISK,
        "A batch could not be read from the disk.",
        "Look at the system's log for errors of the disk.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "The size of segment {path} ({}) is larger than the maximum allowed segment size of {}",
        Kind.DISK,
        "A segment is larger than 2147483647 bytes. The broker did not start.",
        "If another replica is in sync, start that one first, and move this partition away.",
        (codes.LOG_TOO_LARGE,),
    ),
    Message(
        "Could not read file {path}",
        Kind.DISK,
        "A file of a partition could not be read by the broker's user. The log directory went "
        "offline.",
        "Correct the owner and rights of the file; if they are right, look at the system's log.",
        (codes.UNREADABLE, codes.BROKER_DENIED),
    ),
    # Overflow.
    Message(
        "Detected offset overflow at offset {offset} in segment {}",
        Kind.DISK,
        "An offset lies too far above its segment's name. Recovery splits the segment there.",
        "If the offset is wrong, it now counts: verify the partition.",
        (codes.OFFSET_OVERFLOW, codes.BATCH_BELOW_SEGMENT, codes.BATCH_OFFSETS_INVERTED),
    ),
    Message(
        "Split operation is only permitted for segments with overflow, and the problem path is "
        "{path}",
        Kind.DISK,
        "A batch begins below its segment's name, or ends before it begins. The broker did not "
        "start.",
        BAD_BATCH,
        (codes.BATCH_BELOW_SEGMENT, codes.BATCH_OFFSETS_INVERTED, codes.OFFSET_OVERFLOW),
    ),
    *answer_alike(
        Kind.NOTE,
        "A segment reached further than an index can say, and was split. No record went.",
        "If the offset was wrong, it now counts: verify the partition.",
        (
            "Caught segment overflow error: {}",
            "Caught segment overflow error during cleaning: {}",
            "Splitting overflowed segment {}",
        ),
        (codes.OFFSET_OVERFLOW,),
    ),
    # Leftovers and swaps.
    Message(
        "Deleting stray temporary file {path}",
        Kind.NOTE,
        "A .deleted file was left over, and is removed.",
        NOTHING,
        (codes.LEFTOVER_DELETED,),
    ),
    Message(
        "Deleting stray .clean file {path}",
        Kind.NOTE,
        "A .cleaned file was left over, and is removed.",
        NOTHING,
        (codes.LEFTOVER_CLEANED,),
    ),
    Message(
        "Deleting invalid swap file {path} minCleanedFileOffset: {}",
        Kind.NOTE,
        "A split of a segment was not done, and its .swap file is removed.",
        NOTHING,
        (codes.SWAP_DISCARDED,),
    ),
    Message(
        "Found log file {path} from interrupted swap operation, which is recoverable from",
        Kind.NOTE,
        "A cleaned or split segment was about to replace others when the broker stopped. The "
        "replacement was finished.",
        "Nothing to do on a compacted topic. On another, verify the partition.",
        (codes.SWAP_PENDING,),
    ),
    Message(
        "Deleting segment files {path} that is compacted but has not been deleted yet.",
        Kind.NOTE,
        "The broker has deleted a segment that a .swap file replaces.",
        "Nothing to do on a compacted topic. On another, records are lost: verify the partition.",
        (codes.SWAP_PENDING, codes.SWAP_SHORTENED, codes.SWAP_DELETES),
    ),
    Message(
        "Recovering file {path} by renaming from {} files.",
        Kind.NOTE,
        "The broker has put a .swap file in the place of the segments that it replaces.",
        "Nothing to do on a compacted topic. On another, verify the partition.",
        (
            codes.SWAP_PENDING,
            codes.SWAP_SHORTENED,
            codes.SWAP_DELETES,
            codes.SWAP_OVERLAPS,
        ),
    ),
    Message(
        "Newly rolled segment file {path} already exists; deleting it first",
        Kind.DISK,
        "A file of the name of a new segment was there already. The broker has deleted it.",
        "Find out what put it there: verify the partition for missing offsets.",
        (codes.SEGMENTS_HOLE,),
    ),
    # Progress.
    Message(
        "Recovering unflushed segment {offset}.",
        Kind.NOTE,
        "The broker was not stopped cleanly, and reads its last segments again.",
        "Nothing to do. kdump next-start forecasts how much is read, and how long that takes.",
        everywhere=True,
    ),
    Message(
        "Skipping recovery of {} logs from {path} since clean shutdown file was found",
        Kind.NOTE,
        "The broker was stopped cleanly: no log was recovered.",
        NOTHING,
    ),
    Message(
        "Attempting recovery for all logs in {path} since no clean shutdown file was found",
        Kind.NOTE,
        "The broker was not stopped cleanly: logs are recovered from their recovery points on.",
        "Nothing to do. kdump next-start forecasts how much is read, and how long that takes.",
    ),
    Message(
        "{partition}, dir={path}] Truncating to offset {offset}",
        Kind.NOTE,
        "A follower cut its log where its leader's differs, as after a change of leader.",
        NOTHING,
    ),
    Message(
        "Deleting segments as part of log truncation: {}",
        Kind.NOTE,
        "A follower cut its log where its leader's differs, and whole segments went.",
        "Compare the replicas if the cut goes below the high watermark: another line says so.",
    ),
    # Files that changed, or could not be changed.
    *answer_alike(
        Kind.DISK,
        "A file ended before what was to be read, or changed its length while the broker had it "
        "open.",
        "Find out what else writes in the directory. Stop the broker and verify the partition.",
        (
            "Failed to read `{}` from file channel `{}`. Expected to read {} bytes, but reached",
            "Attempt to truncate log segment {path} to {} bytes failed",
            "Size of FileRecords {path} has been truncated during write",
        ),
        (codes.TORN_TAIL, codes.CHANGED_WHILE_READ),
    ),
    *answer_alike(
        Kind.DISK,
        "An index led behind the end of its segment.",
        "With the broker stopped, kdump reindex rebuilds it; verify the partition before.",
        (
            "Slice from position {position} exceeds end position of {}",
            "Invalid position: {position} in read from {}",
        ),
        (codes.INDEX_BEYOND_LOG,),
    ),
    *answer_alike(
        Kind.DISK,
        "A segment that reached further than an index can say could not be split. The broker did "
        "not start.",
        BAD_BATCH,
        (
            "Inconsistent segment sizes after split before: {} after: {}",
            "Failed to append records from position {position} in {}",
        ),
        (codes.OFFSET_OVERFLOW,),
    ),
    Message(
        "Cannot split file {path}",
        Kind.DISK,
        "What was to be split is no segment. The broker did not start.",
        ALL,
        (codes.OFFSET_OVERFLOW,),
    ),
    Message(
        "Illegal offset {offset} following previous offset {} (Offsets must increase monoton",
        Kind.DISK,
        "Two records of a batch have the same offset, or run backwards: the batch cannot be "
        "written again.",
        "Run kdump verify --deep on the partition.",
        (codes.RECORDS_OFFSETS,),
    ),
    Message(
        "Append of size {} bytes is too large for segment with current file position at {}",
        Kind.DISK,
        "A segment would have grown past 2147483647 bytes. The append failed.",
        "Verify the partition: its active segment is larger than segment.bytes allows.",
        (codes.LOG_TOO_LARGE,),
    ),
    Message(
        "Delete of {} {path} failed.",
        Kind.DISK,
        "A file of a segment could not be deleted.",
        DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        Kind.NOTE,
        "A file or directory was renamed or deleted while it was to be written to the disk.",
        NOTHING,
        ("Failed to flush directory {path}", "Failed to flush file {path}"),
    ),
    Message(
        "Failed atomic move of {path} to {} retrying with a non-atomic move",
        Kind.NOTE,
        "A file could not be renamed at once, and the broker tried it by other means.",
        "Nothing to do, unless an error about the same file follows.",
        outer=True,
    ),
    Message(
        "Record format version has been downgraded from {} to {}.",
        Kind.NOTE,
        "message.format.version of a topic was lowered.",
        NOTHING,
    ),
    Message(
        "Received request for offset {offset} for partition {partition}, but we only have log "
        "segments",
        Kind.NOTE,
        "A reader asked for an offset that the log does not have.",
        "Nothing to do if retention or kafka-delete-records.sh overtook it. If the offset is "
        "behind the log's end, records are lost there: verify the partition.",
    ),
)
