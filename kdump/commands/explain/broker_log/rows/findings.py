"""Messages whose answer is that of the finding that leads to them.

Spec: brokers of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject


def _row(pattern: str, *leads: FindingCode) -> BrokerMessage:
    return BrokerMessage(
        pattern, Subject.DISK, leads[0].meaning, leads[0].advice, leads, quoted=True
    )


ROWS: Final = (
    _row(
        "Found record size {} smaller than minimum record overhead ({}) in file",
        codes.BATCH_SIZE_IMPOSSIBLE,
    ),
    _row(
        "Found record size 0 smaller than minimum record overhead ({}) in file",
        codes.PREALLOCATED_TAIL,
        codes.PREALLOCATED_TAIL_SEALED,
        codes.PREALLOCATED_TAIL_CLEAN,
    ),
    _row(
        "Attempt to append an offset {} to position {} no larger than the last offset appended",
        codes.OFFSETS_NOT_INCREASING,
    ),
    _row("Failed to load metadata from {} with epoch {} due to {}", codes.RECORDS_UNDECODABLE),
    _row(
        "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8",
        codes.INDEX_LENGTH,
    ),
    _row(
        "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple",
        codes.TIMEINDEX_LENGTH,
    ),
    _row(
        "Attempt to append an offset ({}) to slot {} no larger than the last offset appended",
        codes.TIMEINDEX_BEYOND_LOG,
    ),
    _row(
        "Found unexpected metadata location in data directory",
        codes.PARTITION_TWICE,
        codes.METADATA_LOG_MISPLACED,
    ),
    _row(
        "Created log for partition {} in {}",
        codes.REPLICA_DIRECTORY_MISSING,
        codes.REPLICA_DIRECTORY_MISSING_ONLY,
    ),
    _row("Log directory {} not found, creating it.", codes.LOG_DIRECTORY_BLANK),
    _row(
        "Stored node id {} doesn't match previous node id {} in {}",
        codes.META_PROPERTIES_MISMATCH,
        codes.NODE_ID_MISMATCH,
    ),
    _row("Duplicate directory ID {} found", codes.META_PROPERTIES_MISMATCH),
    _row("Broker {} is already registered with directory {}", codes.DIRECTORY_ID_TAKEN),
    _row(
        "java.nio.file.FileAlreadyExistsException: {}",
        codes.METADATA_LOG_FILE,
        codes.PARTITION_IS_FILE,
    ),
    _row(
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from {}",
        codes.BOOTSTRAP_MALFORMED,
    ),
    _row("java.nio.file.DirectoryNotEmptyException: {}", codes.FUTURE_BESIDE_CURRENT),
    _row(
        "Attempting to recover abandoned future log for {} at {} and removing {}",
        codes.FUTURE_REPLACES,
        codes.FUTURE_SHORTER,
    ),
    _row("Successfully recovered abandoned future log for {}", codes.FUTURE_REPLACES),
    _row(
        "a fault occurred in a recent unsafe memory access operation in compiled Java code",
        codes.DISK_FULL,
    ),
    _row("a fault occurred in an unsafe memory access operation", codes.DISK_FULL),
    _row(
        "java.io.FileNotFoundException: {} (Is a directory)",
        codes.FILE_IS_DIRECTORY,
        codes.INDEX_IS_DIRECTORY,
    ),
    _row("java.io.IOException: Is a directory", codes.FILE_IS_DIRECTORY),
    _row("java.nio.file.FileSystemException: {}: Is a directory", codes.SNAPSHOT_IS_DIRECTORY),
    _row(
        "Topic ID in memory: {} does not match the topic ID for partition {} provided in the "
        "request: {}",
        codes.TOPIC_ID_MISMATCH,
    ),
    _row(
        "Invalid value {} for configuration log.segment.bytes: Value must be at least 1048576",
        codes.SETTING_REFUSED,
    ),
    _row("Configuration 'log.dirs' values must not be empty.", codes.SETTING_REFUSED),
    _row("Failed to load producer snapshot from '{}'", codes.SNAPSHOT_UNREADABLE),
    _row(
        "Unhandled fault in MetadataLoader#handleLoadSnapshot. Snapshot offset was {}",
        codes.METADATA_SNAPSHOT_DAMAGED,
    ),
    _row(
        "Error loading metadata log record {} in snapshot at offset {}", codes.METADATA_UNREPLAYABLE
    ),
    _row(
        "Tried to apply FeatureLevelRecord {}, but this controller only supports versions {}",
        codes.FEATURE_UNSUPPORTED,
    ),
    _row("No MetadataVersion with feature level {}", codes.FEATURE_UNSUPPORTED),
    _row(
        "Unsupported metadata version - if you are currently upgrading your cluster",
        codes.FEATURE_UNSUPPORTED,
    ),
    _row(
        "Unexpected aborted transaction version {} in transaction index {}", codes.TXNINDEX_VERSION
    ),
    _row(
        "The last offset of appended transactions must increase sequentially, but {} is not",
        codes.TXNINDEX_ORDER,
    ),
)
