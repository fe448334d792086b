"""Messages about segments during loading, recovery and serving.

Spec: LogLoader, LogSegment and the record batches of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    batches,
    broker_rights,
    file_names,
    indexes,
    leftovers,
    metadata,
    missing_offsets,
    partition_files,
    read_errors,
    swap_files,
)
from kdump.audit.startup import room
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import ALL, BAD_BATCH, DISK, NOTHING

_CUT_ADVICE: Final = (
    "If another replica is in sync, nothing is lost for the cluster. If no other replica has the "
    "records, stop the broker within file.delete.delay.ms (a minute). Then run kdump salvage, "
    "which also reads segments that are marked as .deleted. The truncated end of a segment is lost."
)
_BATCHES: Final = (
    batches.BATCH_CRC_MISMATCH,
    batches.BATCH_SIZE_IMPOSSIBLE,
    batches.TORN_TAIL,
    batches.TORN_TAIL_SEALED,
    batches.PREALLOCATED_TAIL,
    batches.PREALLOCATED_TAIL_SEALED,
)

ROWS: Final = (
    BrokerMessage(
        "Found invalid messages in log segment {path} at byte offset {position}",
        "Recovery found a corrupt or incomplete batch. It truncates the segment at this position "
        "and deletes every later segment of the partition.",
        _CUT_ADVICE,
        _BATCHES,
        quoted=True,
        unquoted=(batches.TORN_TAIL, batches.TORN_TAIL_SEALED),
    ),
    BrokerMessage(
        "Corruption found in segment {}, truncating to offset {offset}",
        "Recovery truncated the log, which now ends at this offset. It deleted every later "
        "segment, valid records included.",
        _CUT_ADVICE,
        _BATCHES,
        quoted=True,
    ),
    BrokerMessage(
        "Deleting segments as part of log recovery: {}",
        "Recovery truncated an earlier segment, and marked the later segments as .deleted. The "
        "broker deletes these files after file.delete.delay.ms, a minute.",
        _CUT_ADVICE,
        _BATCHES,
    ),
    BrokerMessage(
        "Found invalid offset during recovery. Deleting the corrupt segment and creating an empty "
        "one with starting offset {offset}",
        "Recovery found an offset that does not follow the offset before it, or, from 4.0 on, "
        "could not write a file. It deleted the segment and created an empty segment in its place.",
        _CUT_ADVICE,
        (batches.OFFSETS_NOT_INCREASING, room.DISK_SHORT),
        quoted=True,
    ),
    BrokerMessage(
        "Deleting all segments because logEndOffset ({}) is smaller than logStartOffset {offset}",
        "The log end offset was below the checkpointed log start offset. The broker deleted all "
        "segments of this partition and began an empty segment at the checkpointed offset.",
        "The segments remain as .deleted files for file.delete.delay.ms, a minute. If no other "
        "replica has them, stop the broker within that time and copy the files. Otherwise, the "
        "replica fetches the records again from an in-sync replica.",
        (partition_files.LOG_START_BEYOND_END,),
        quoted=True,
    ),
    BrokerMessage(
        "This could happen if segment files were deleted from the file system",
        "The log end offset was below the checkpointed log start offset. The broker deleted all "
        "segments.",
        "Find out which is true: a person or a program removed segments, or the directory is from "
        "a backup.",
        (partition_files.LOG_START_BEYOND_END,),
        quoted=True,
    ),
    # Batches and their records.
    BrokerMessage(
        "Found record size 0 smaller than minimum record overhead ({}) in file {path}",
        "The file has zeros where a batch should begin. The space was preallocated, or the disk "
        "lost its content. After an unclean shutdown, recovery removes the zeros. After a clean "
        "shutdown, the broker does not start.",
        BAD_BATCH,
        (
            batches.PREALLOCATED_TAIL,
            batches.PREALLOCATED_TAIL_SEALED,
            batches.PREALLOCATED_TAIL_CLEAN,
            batches.BATCH_SIZE_IMPOSSIBLE,
        ),
        quoted=True,
        unquoted=(batches.BATCH_SIZE_IMPOSSIBLE,),
    ),
    BrokerMessage(
        "Found record size {} smaller than minimum record overhead ({}) in file {path}",
        "Where a batch should begin, the size field has an impossible value.",
        BAD_BATCH,
        (batches.BATCH_SIZE_IMPOSSIBLE,),
        quoted=True,
    ),
    BrokerMessage(
        "Record is corrupt (stored crc = {}, computed crc = {})",
        "A batch did not match its checksum when it was read.",
        BAD_BATCH,
        (batches.BATCH_CRC_MISMATCH, metadata.METADATA_SNAPSHOT_DAMAGED),
        quoted=True,
        unquoted=(metadata.METADATA_SNAPSHOT_DAMAGED,),
    ),
    BrokerMessage(
        "Record is corrupt (stored crc = {}) in topic partition {partition}",
        "A batch from a client or a leader did not match its checksum. The broker refused the "
        "batch and wrote nothing.",
        "If a producer sent the batch, test the memory and network of that client. If a leader "
        "sent it, verify the leader's partition.",
        (batches.BATCH_CRC_MISMATCH,),
    ),
    *answer_alike(
        "Where a batch should begin, the size field has an impossible value.",
        BAD_BATCH,
        (
            "Record size {} exceeds the largest allowable message size ({})",
            "Record size is less than the minimum record overhead ({})",
            "Record size exceeds the largest allowable message size ({})",
            "Unexpected EOF while attempting to read the next batch",
        ),
        (batches.BATCH_SIZE_IMPOSSIBLE,),
        quoted=(
            "Record batch is corrupt (the size {} is smaller than the minimum allowed overhead {})",
            "Record size {} is less than the minimum record overhead ({})",
            "Record is corrupt (crc could not be retrieved as the record is too small, size = {})",
        ),
    ),
    BrokerMessage(
        "Invalid magic found in record: {}",
        "The magic byte of a batch names a message format that no release writes.",
        BAD_BATCH,
        (batches.BATCH_MAGIC_UNKNOWN,),
        quoted=True,
    ),
    BrokerMessage(
        "Unknown compression type id: {}",
        "A batch names a compression type that does not exist.",
        "Seek consumers past the batch. On a compacted topic, the broker does not compact the "
        "partition until a restart.",
        (batches.BATCH_CODEC_UNKNOWN,),
        quoted=True,
    ),
    *answer_alike(
        "The records of a batch could not be read, although the batch may match its checksum. It "
        "was written that way, or it is corrupt.",
        "Run kdump verify --deep on the partition to find out which. Consumers can seek past the "
        "batch.",
        (
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
        (batches.RECORDS_UNREADABLE,),
        quoted=(
            "Incorrect declared batch size, records still remaining in file",
            "Incorrect declared batch size, premature EOF reached",
            "Found invalid record structure",
            "Found invalid record count {} in magic v{} batch",
            "Found invalid number of record headers",
            "Invalid record size: expected {} bytes in record payload",
            "Invalid record size: {} is negative",
            "Failed to decompress record stream",
        ),
    ),
    *answer_alike(
        "A record of a compressed batch is larger than max.decompressed.message.bytes allows (by "
        "default, as much as Java can allocate). The config is below the size of a stored record, "
        "or the batch is corrupt. The broker does not compact the partition, and finds no offsets "
        "by timestamp there.",
        "If the topic or the broker sets max.decompressed.message.bytes, raise it. If not, run "
        "kdump verify --deep on the partition.",
        (),
        (batches.RECORDS_UNREADABLE,),
        quoted=("Invalid record size: {} exceeds the configured maximum record size of {}",),
    ),
    BrokerMessage(
        "Received exception when fetching the next record from {partition}",
        "A consumer stopped at a record that it could not read.",
        "Run kdump verify --deep on the partition: it reports the offset to seek to.",
        (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH),
        outer=True,
        quoted=True,
        unquoted=(batches.BATCH_CRC_MISMATCH,),
    ),
    *answer_alike(
        "The broker could not read a batch from the disk.",
        "Check the system log for disk errors.",
        (
            "Failed to read record batch at position {position} from {}",
            "Failed to load record batch at position {position} from {}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "The size of segment {path} ({}) is larger than the maximum allowed segment size of {}",
        "A segment is larger than 2147483647 bytes. The broker did not start.",
        "If another replica is in sync, start its broker first, and move this partition away.",
        (file_names.LOG_TOO_LARGE,),
        quoted=True,
    ),
    BrokerMessage(
        "Could not read file {path}",
        "The broker's user could not read a file of a partition. The log directory went offline.",
        "Correct the owner and permissions of the file. If they are correct, check the system log.",
        (read_errors.UNREADABLE, broker_rights.BROKER_DENIED),
        quoted=True,
    ),
    # Offset overflow.
    BrokerMessage(
        "Detected offset overflow at offset {offset} in segment {}",
        "An offset is too far above the base offset in its segment's name. Recovery splits the "
        "segment there.",
        "Recovery accepts the offset even if it is wrong: verify the partition.",
        (batches.OFFSET_OVERFLOW, batches.BATCH_BELOW_SEGMENT, batches.BATCH_OFFSETS_INVERTED),
        quoted=True,
    ),
    BrokerMessage(
        "Split operation is only permitted for segments with overflow, and the problem path is "
        "{path}",
        "A batch begins below the base offset in its segment's name, or its last offset is lower "
        "than its first. The broker did not start.",
        BAD_BATCH,
        (batches.BATCH_BELOW_SEGMENT, batches.BATCH_OFFSETS_INVERTED, batches.OFFSET_OVERFLOW),
        quoted=True,
    ),
    *answer_alike(
        "The offsets of a segment exceeded the range of an index. The broker split the segment, "
        "and lost no record.",
        "The broker accepted the offset even if it was wrong: verify the partition.",
        (
            "Caught segment overflow error during cleaning: {}",
            "Splitting overflowed segment {}",
        ),
        (batches.OFFSET_OVERFLOW,),
        kind=Subject.NOTE,
        quoted=("Caught segment overflow error: {}",),
    ),
    # Leftover files and swaps.
    BrokerMessage(
        "Deleting stray temporary file {path}",
        "The broker deleted a leftover .deleted file.",
        NOTHING,
        (leftovers.LEFTOVER_DELETED,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Deleting stray .clean file {path}",
        "The broker deleted a leftover .cleaned file.",
        NOTHING,
        (leftovers.LEFTOVER_CLEANED,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Deleting invalid swap file {path} minCleanedFileOffset: {}",
        "A split of a segment was unfinished. The broker deleted its .swap file.",
        NOTHING,
        (swap_files.SWAP_DISCARDED,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Found log file {path} from interrupted swap operation, which is recoverable from",
        "A cleaned or split segment was about to replace other segments when the broker died. The "
        "broker completed the replacement.",
        "Nothing to do if the topic is compacted. Otherwise, verify the partition.",
        (swap_files.SWAP_PENDING,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Deleting segment files {path} that is compacted but has not been deleted yet.",
        "The broker deleted a segment that a .swap file replaces.",
        "Nothing to do if the topic is compacted. Otherwise, records are lost: verify the "
        "partition.",
        (swap_files.SWAP_PENDING, swap_files.SWAP_SHORTENED, swap_files.SWAP_DELETES),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Recovering file {path} by renaming from {} files.",
        "The broker put a .swap file in the place of the segments that it replaces.",
        "Nothing to do if the topic is compacted. Otherwise, verify the partition.",
        (
            swap_files.SWAP_PENDING,
            swap_files.SWAP_SHORTENED,
            swap_files.SWAP_DELETES,
            swap_files.SWAP_OVERLAPS,
        ),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Newly rolled segment file {path} already exists; deleting it first",
        "A file with the name of a new segment already existed. The broker deleted it.",
        "Find out where the file came from. Verify the partition for missing offsets.",
        (missing_offsets.SEGMENTS_HOLE,),
    ),
    # Progress of recovery and truncation.
    BrokerMessage(
        "Recovering unflushed segment {offset}.",
        "The last shutdown was unclean. The broker reads its last segments again.",
        "Nothing to do. kdump next-start forecasts how much recovery reads and how long it takes.",
        kind=Subject.NOTE,
        everywhere=True,
    ),
    BrokerMessage(
        "Skipping recovery of {} logs from {path} since clean shutdown file was found",
        "The last shutdown was clean. The broker recovered no log.",
        NOTHING,
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Attempting recovery for all logs in {path} since no clean shutdown file was found",
        "The last shutdown was unclean. The broker recovers its logs from their recovery points "
        "on.",
        "Nothing to do. kdump next-start forecasts how much recovery reads and how long it takes.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "{partition}, dir={path}] Truncating to offset {offset}",
        "A follower truncated its log where it differs from its leader's log, as after a change of "
        "leader.",
        NOTHING,
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Deleting segments as part of log truncation: {}",
        "A follower truncated its log where it differs from its leader's log, and deleted whole "
        "segments.",
        "If the truncation goes below the high watermark, compare the replicas. Another line "
        "reports this case.",
        kind=Subject.NOTE,
    ),
    # Files that change during a read, and failed changes of files.
    *answer_alike(
        "A file ended before the bytes that the broker wanted to read, or its length changed while "
        "the broker had it open.",
        "Find out which other process writes to the directory. Stop the broker and verify the "
        "partition.",
        (
            "Failed to read `{}` from file channel `{}`. Expected to read {} bytes, but reached",
            "Attempt to truncate log segment {path} to {} bytes failed",
            "Size of FileRecords {path} has been truncated during write",
        ),
        (batches.TORN_TAIL, read_errors.CHANGED_WHILE_READ),
    ),
    *answer_alike(
        "An index pointed past the end of its segment.",
        "Verify the partition first. Then, while the broker is stopped, kdump reindex rebuilds the "
        "index.",
        (
            "Slice from position {position} exceeds end position of {}",
            "Invalid position: {position} in read from {}",
        ),
        (indexes.INDEX_BEYOND_LOG,),
    ),
    *answer_alike(
        "The offsets of a segment exceeded the range of an index, and the broker could not split "
        "the segment. It did not start.",
        BAD_BATCH,
        (
            "Inconsistent segment sizes after split before: {} after: {}",
            "Failed to append records from position {position} in {}",
        ),
        (batches.OFFSET_OVERFLOW,),
    ),
    BrokerMessage(
        "Cannot split file {path}",
        "The file that the broker was to split is not a segment. The broker did not start.",
        ALL,
        (batches.OFFSET_OVERFLOW,),
    ),
    BrokerMessage(
        "Illegal offset {offset} following previous offset {} (Offsets must increase monoton",
        "Two records of a batch have the same offset, or their offsets run backwards. The batch "
        "cannot be written again.",
        "Run kdump verify --deep on the partition.",
        (batches.RECORDS_OFFSETS,),
    ),
    BrokerMessage(
        "Append of size {} bytes is too large for segment with current file position at {}",
        "An append would have made a segment larger than 2147483647 bytes. The append failed.",
        "Verify the partition: its active segment is larger than segment.bytes allows.",
        (file_names.LOG_TOO_LARGE,),
    ),
    BrokerMessage(
        "Delete of {} {path} failed.",
        "The broker could not delete a file of a segment.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "A file or directory was renamed or deleted while the broker was flushing it to the disk.",
        NOTHING,
        ("Failed to flush directory {path}", "Failed to flush file {path}"),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Failed atomic move of {path} to {} retrying with a non-atomic move",
        "The broker could not rename a file atomically, and then tried a non-atomic move.",
        "Nothing to do, unless an error about the same file follows.",
        kind=Subject.NOTE,
        outer=True,
    ),
    BrokerMessage(
        "Record format version has been downgraded from {} to {}.",
        "The message.format.version of a topic was lowered.",
        NOTHING,
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Received request for offset {offset} for partition {partition}, but we only have log "
        "segments",
        "A client or follower requested an offset that is not in the log.",
        "Nothing to do if retention or kafka-delete-records.sh deleted the records. If the offset "
        "is after the log end offset, records are lost there: verify the partition.",
        kind=Subject.NOTE,
    ),
)
