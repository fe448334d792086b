"""Messages about files of logs that only brokers before 3.0 log.

Spec: the classes of kafka.log, kafka.message and kafka.server of 0.8.2.2, 0.10.2.2, 1.1.1 and
2.8.2.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    batches,
    directory,
    file_names,
    indexes,
    missing_offsets,
    partition_files,
    read_errors,
    segments,
    topic,
    txn_indexes,
)
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import BAD_BATCH, DISK, FIRST, NOTHING

_CHECKPOINT: Final = (
    "Stop the broker and run kdump reindex --apply on the log directory: it writes the file from "
    "the readable lines."
)
_EXITED: Final = "The broker could not write to a log directory, and exited."

ROWS: Final = (
    # Loading and recovery.
    BrokerMessage(
        "Corruption found in segment {} of log {partition}, truncating to offset {offset}",
        "Recovery truncated the log, which now ends at this offset. It deleted every later "
        "segment, valid records included.",
        "If another replica is in sync, nothing is lost for the cluster. If this is the only "
        "replica, stop the broker within file.delete.delay.ms (a minute). Then run kdump salvage, "
        "which also reads segments that are marked as .deleted.",
        (
            batches.BATCH_CRC_MISMATCH,
            batches.BATCH_SIZE_IMPOSSIBLE,
            batches.TORN_TAIL,
            batches.TORN_TAIL_SEALED,
            batches.PREALLOCATED_TAIL,
            batches.PREALLOCATED_TAIL_SEALED,
        ),
    ),
    BrokerMessage(
        "Found invalid offset during recovery for log {partition}. Deleting the corrupt segment "
        "and creating an empty one with starting offset {offset}",
        "Recovery found an offset that does not follow the offset before it. It deleted the "
        "segment and created an empty segment in its place.",
        "If no other replica has the records, stop the broker within file.delete.delay.ms (a "
        "minute). Then run kdump salvage, which also reads segments that are marked as .deleted.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Could not find index file corresponding to log file {path}, rebuilding index",
        "A segment had no .index file. The broker read the whole segment and rebuilt its index.",
        "Nothing is lost unless a line about corruption follows.",
        (indexes.INDEX_MISSING,),
    ),
    BrokerMessage(
        "Found an orphaned index file, {path}, with no corresponding log file.",
        "An index file existed without the .log of its segment. The broker deleted the index file.",
        "If the .log was not deleted on purpose, a segment is missing: verify the partition.",
        (file_names.INDEX_ORPHAN, missing_offsets.SEGMENT_MISSING),
    ),
    *answer_alike(
        "An index held unused, preallocated space after an unclean shutdown. The broker rebuilt "
        "the index from the segment.",
        "Nothing is lost. Brokers from 2.0 on rarely log this line.",
        (
            "index file ({path}) has non-zero size but the last offset is {value} which is no "
            "larger than the base offset {value}",
            "index file ({path}) has non-zero size but the last offset is {value} which is no "
            "greater than the base offset {value}",
            "index file ({path}) has non-zero size but the last timestamp is 0 which is",
        ),
        kind=Subject.NOTE,
        decides=True,
    ),
    *answer_alike(
        "The last entry of an .index file is below the base offset in its segment's name: the "
        "index is corrupt. The broker rebuilt it from the segment.",
        "Nothing is lost unless a line about corruption follows. Check the disk, or what has "
        "written to the file.",
        (
            "index file ({path}) has non-zero size but the last offset is {} which is no larger "
            "than the base offset {}",
            "index file ({path}) has non-zero size but the last offset is {} which is no greater "
            "than the base offset {}",
        ),
        (indexes.INDEX_ORDER,),
        decides=True,
    ),
    BrokerMessage(
        "index file ({path}) has non-zero size but the last timestamp is {} which is no larger "
        "than the first timestamp {}",
        "The last timestamp of a .timeindex file is below the first: the index is corrupt. The "
        "broker rebuilt it from the segment.",
        "Nothing is lost unless a line about corruption follows. Check the disk, or what has "
        "written to the file.",
        (indexes.TIMEINDEX_ORDER,),
        decides=True,
    ),
    BrokerMessage(
        "index file ({path}) has non-zero size but the last offset is {value} and the base offset "
        "is {value}",
        "An index ends in unused, preallocated space. Brokers of 0.8 and 0.9 do not start with "
        "such an index.",
        "While the broker is stopped, kdump reindex rebuilds the index. Nothing is lost.",
        (segments.INDEX_PADDED_CLEAN, indexes.INDEX_ORDER),
        decides=True,
    ),
    BrokerMessage(
        "index file ({path}) has non-zero size but the last offset is {} and the base offset is {}",
        "The last entry of an .index file is below the base offset in its segment's name: the "
        "index is corrupt. Brokers of 0.8 and 0.9 do not start with such an index.",
        "While the broker is stopped, kdump reindex rebuilds the index.",
        (indexes.INDEX_ORDER,),
        decides=True,
    ),
    BrokerMessage(
        "Found a corrupted index file due to {}. deleting {path}, {} and rebuilding index",
        "An index failed its check. The broker read the whole segment and rebuilt its indexes.",
        "Nothing is lost unless a line about corruption follows.",
        (
            indexes.INDEX_LENGTH,
            indexes.INDEX_ORDER,
            indexes.TIMEINDEX_LENGTH,
            indexes.TIMEINDEX_ORDER,
        ),
        outer=True,
    ),
    BrokerMessage(
        "Index file {path} is corrupt, found {} bytes which is not positive or not a multiple of",
        "The last entry of an .index file is incomplete.",
        "Nothing is lost: kdump reindex rebuilds the file.",
        (indexes.INDEX_LENGTH,),
    ),
    BrokerMessage(
        "Time index file {path} is corrupt, found {} bytes which is not positive or not a multiple",
        "The last entry of a .timeindex file is incomplete.",
        "Nothing is lost: kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_LENGTH,),
        decides=True,
    ),
    *answer_alike(
        "An index has fewer entries than the broker tried to read.",
        "Find out which other process writes to the directory.",
        (
            "Attempt to fetch the {}th entry from an index of size {}",
            "Attempt to fetch the {}th entry from a time index of size {}",
            "Attempt to fetch the {}th entry from  time index {path} which has size {}",
        ),
        (read_errors.CHANGED_WHILE_READ,),
    ),
    BrokerMessage(
        "Attempt to append an timestamp ({}) to slot {} no larger than the last timestamp appended "
        "({}) to {path}",
        "A new entry of a .timeindex file had a lower timestamp than the last entry. The append "
        "failed.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_BEYOND_LOG, indexes.TIMEINDEX_TOO_HIGH),
    ),
    BrokerMessage(
        "should contain target timestamp {}, but does not.",
        "The last timestamp in a .timeindex file is later than the latest in its segment.",
        "Verify the partition. While the broker is stopped, kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_TOO_HIGH, indexes.TIMEINDEX_SKIPS),
    ),
    BrokerMessage(
        "Error when freeing index buffer",
        "The broker could not unmap an index.",
        NOTHING,
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Unexpected aborted transaction version {}, current version is {}",
        "An entry of a .txnindex file has a version other than 0. The broker did not start.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (txn_indexes.TXNINDEX_VERSION,),
    ),
    BrokerMessage(
        "Last offset of aborted transaction {} is less than start offset {offset}",
        "An entry of a .txnindex file ends below the base offset in its segment's name. The broker "
        "recovered the segment and rebuilt its indexes.",
        "Nothing is lost unless a line about invalid messages follows.",
        (txn_indexes.TXNINDEX_BELOW_SEGMENT,),
    ),
    BrokerMessage(
        "The last offset of appended transactions must increase sequentially",
        "The entries of a .txnindex file do not rise: the file extends past the end of the log.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (txn_indexes.TXNINDEX_ORDER,),
    ),
    # Producer snapshots.
    *answer_alike(
        "A producer snapshot is empty or ends early, as after a power failure. The broker did not "
        "start.",
        "Find the file with kdump verify DIRECTORY, and move it out of the partition while the "
        "broker is stopped: startup writes it again. Releases from 1.1 on delete it themselves.",
        (
            "SchemaException: Error reading field 'version':",
            "SchemaException: Error reading field 'crc':",
            "SchemaException: Error reading field 'producer_entries':",
        ),
        (partition_files.SNAPSHOT_UNREADABLE,),
    ),
    # Batches.
    BrokerMessage(
        "Message is corrupt (stored crc = {}, computed crc = {})",
        "A message did not match its checksum when it was read.",
        BAD_BATCH,
        (batches.BATCH_CRC_MISMATCH,),
    ),
    *answer_alike(
        "Where a message should begin, the size field has an impossible value.",
        BAD_BATCH,
        (
            "Message found with corrupt size ({})",
            "IllegalStateException: Invalid message size: {}",
            "Message size exceeds the largest allowable message size ({})",
            "Record size is smaller than minimum record overhead ({})",
        ),
        (batches.BATCH_SIZE_IMPOSSIBLE,),
    ),
    BrokerMessage(
        "Failed to read complete buffer for targetOffset {offset} startPosition {position} in "
        "{path}",
        "The segment ended inside a message that the broker looked for: the segment has lost its "
        "end, or an index pointed past its end.",
        "Verify the partition. While the broker is stopped, kdump reindex rebuilds the index.",
        (indexes.INDEX_BEYOND_LOG, batches.TORN_TAIL),
    ),
    *answer_alike(
        "The length of a segment changed while the broker had it open.",
        "Find out which other process writes to the directory. Stop the broker and verify the "
        "partition.",
        (
            "Attempt to truncate log segment to {} bytes failed",
            "Size of FileMessageSet {path} has been truncated during write",
        ),
        (batches.TORN_TAIL, read_errors.CHANGED_WHILE_READ),
    ),
    BrokerMessage(
        "UnknownCodecException: {} is an unknown compression codec",
        "A message names a compression type that does not exist.",
        "Seek consumers past the message. Verify the partition.",
        (batches.BATCH_CODEC_UNKNOWN,),
    ),
    *answer_alike(
        "A compressed message could not be read, although it may match its checksum. It was "
        "written that way, or it is corrupt.",
        "Run kdump verify --deep on the partition to find out which. Consumers can seek past it.",
        (
            "Compressed message magic does not match wrapper magic",
            "Block checksum mismatch",
            "Block size {} exceeded max: {}",
            "Stream ended prematurely",
            "Stream frame descriptor corrupted",
            "Stream unsupported (invalid magic bytes)",
            "Dependent block stream is unsupported",
            "Block size value must be between 4 and 7",
            "RuntimeException: Reserved bits must be 0",
            "RuntimeException: Reserved2 field must be 0",
            "RuntimeException: Reserved3 field must be 0",
        ),
        (batches.RECORDS_UNREADABLE,),
    ),
    BrokerMessage(
        "Offset returned by the message set is invalid {offset}",
        "A consumer received a negative offset.",
        "Verify the partition on its leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Out of order offsets found in {}",
        "The messages that a leader sent have offsets that run backwards, or below the end of the "
        "log. The follower did not append them.",
        "Verify the partition here and on the leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        "An offset is too far above the base offset in its segment's name. The append failed, or "
        "the cleaner ended.",
        "Verify the partition.",
        (
            "largest offset in message set can not be safely converted to relative offset",
            "Split operation is only permitted for segments with overflow",
        ),
        (batches.OFFSET_OVERFLOW, batches.BATCH_BELOW_SEGMENT),
        outer=True,
    ),
    BrokerMessage(
        "Request for offset {offset} but we only have log segments in the range",
        "A client or follower requested an offset that is not in the log.",
        "Nothing to do if retention or kafka-delete-records.sh deleted the records. If the offset "
        "is after the log end offset, records are lost there: verify the partition.",
        kind=Subject.NOTE,
    ),
    # Files that cannot be written, renamed or deleted.
    *answer_alike(
        _EXITED,
        DISK,
        (
            "Halting due to unrecoverable I/O error while handling produce request:",
            "Disk error during leadership change.",
            "Disk error while replicating data",
            "I/O exception in append to log '{partition}'",
            "Error writing to highwatermark file:",
            "Halting writes to offset checkpoint file because the underlying file system is",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The broker could not rename a file or directory: permissions are missing, another process "
        "moved it, or the broker runs on Windows, which does not rename open files.",
        "Check the owner and permissions, and which other process uses the log directory.",
        (
            "Failed to change the {} file suffix from {} to {} for log segment {offset}",
            "Failed to rename log directory from {path} to {}",
            "Failed to rename file {path}",
            "File rename from {path} to {} failed",
        ),
        (read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "The broker could not create or delete a file or a log.",
        DISK,
        (
            "Failed to create file {path}",
            "Error deleting the log for partition {partition}",
            "Exception in deleting {}. Moving it to the end of the queue.",
            "Error while deleting the clean shutdown file in dir {dir}",
            "Error while deleting the clean shutdown file {path}",
            "unable to delete {partition} due to an unexpected {} exception",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    # Checkpoints.
    *answer_alike(
        "A checkpoint file does not follow its format. The broker did not start, or the log "
        "directory is offline.",
        _CHECKPOINT + " For leader-epoch-checkpoint or partition.metadata, run it on the "
        "partition.",
        (
            "Malformed line in checkpoint file ({path}): {}",
            "Malformed line in offset checkpoint file: {}",
            "Expected {} entries in checkpoint file ({path}), but found only {}",
            "Expected {} entries but found only {}",
            "Unrecognized version of the checkpoint file ({path}): {}",
            "Unrecognized version of the highwatermark checkpoint file: {}",
        ),
        (
            directory.CHECKPOINT_MALFORMED,
            partition_files.EPOCHS_MALFORMED,
            topic.PARTITION_METADATA_MALFORMED,
        ),
    ),
    *answer_alike(
        "The broker could not read a checkpoint of its log directory, and continued without it: it "
        "recovers every segment, or begins each log at its first segment.",
        "If startup continues, the broker writes the file again. If not, stop the broker: kdump "
        "reindex --apply on the log directory writes it from the readable lines.",
        ("Error occured while reading recovery-point-offset-checkpoint file of directory {dir}",),
        (directory.CHECKPOINT_NUMBER, directory.CHECKPOINT_MALFORMED),
        outer=True,
        quoted=(
            "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}",
            "Error occurred while reading log-start-offset-checkpoint file of directory {dir}",
        ),
        unquoted=(directory.CHECKPOINT_MALFORMED,),
    ),
    BrokerMessage(
        "Resetting the recovery checkpoint to 0",
        "The broker could not read the recovery points and used 0 instead. After an unclean "
        "shutdown, it recovers every segment.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "The broker could not write the recovery points or the log start offsets. The log "
        "directory went offline.",
        DISK,
        (
            "Disk error while writing to recovery point file in directory {dir}",
            "Disk error while writing to logStartOffset file in directory {dir}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Resetting first dirty offset to log start offset {offset} since the checkpointed offset",
        "The cleaner's checkpoint was below the log start offset.",
        NOTHING,
        (partition_files.CLEANER_OFFSET_BELOW_START,),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Last clean offset is {} but segment base offset is {offset} for log {partition}",
        "The cleaner's checkpoint was below the log start offset, and the cleaner thread ended. "
        "This broker compacts no topic until it restarts.",
        "Stop the broker, remove the partition's line from cleaner-offset-checkpoint, and start "
        "the broker.",
        (partition_files.CLEANER_OFFSET_BELOW_START,),
    ),
    BrokerMessage(
        "Found null key in log segment {path} which is marked as dedupe",
        "A compacted topic holds a message without a key, and the cleaner thread ended.",
        "Have producers send keys. Upgrade the broker: later releases omit such messages.",
        kind=Subject.ELSEWHERE,
    ),
)
