# ruff: noqa: E501
"""Lines that brokers of 3.9 and 4.x log about their log directories, and what explains them.

Spec: the sources of core, storage, raft, metadata, server and the coordinators, 3.9.1 and 4.3.1.
A row: the line, what it is about, the first finding, path, partition and offset that it names.
"""

from __future__ import annotations

DISK, AFTER, NOTE = "disk", "consequence", "note"
D = "/var/lib/kafka/data"
LOG = f"{D}/t-0/00000000000000000100.log"
INDEX = f"{D}/t-0/00000000000000000100.index"
IO_ERRORS = (
    "appending records to", "rolling log segment for", "deleting segments for", "deleting log for",
    "deleting dir for", "renaming dir for", "fetching offset by timestamp for",
    "deleting all segments for", "truncating the entire log for",
    "deleting producer state snapshots for",
)  # fmt: skip

Row = tuple[str, str, str | None, str | None, str | None, int | None]

LINES: tuple[Row, ...] = (
    # LogLoader, LogSegment
    (f"Found an orphaned index file {INDEX}, with no corresponding log file.", DISK, "index-orphan", INDEX, "t-0", None),
    (f"Could not find offset index file corresponding to log file {LOG}, recovering segment and rebuilding index files...", DISK, "index-missing", LOG, "t-0", None),
    (f"Found a corrupted index file corresponding to log file {LOG} due to Index file {INDEX} is corrupt, found 9 bytes which is neither positive nor a multiple of 8}}, recovering segment and rebuilding index files...", DISK, "index-length", LOG, "t-0", None),
    ("[LogLoader partition=t-0, dir=/d] Deleting all segments because logEndOffset (7) is smaller than logStartOffset 90. This could happen if segment files were deleted from the file system.", DISK, "log-start-beyond-end", "/d/t-0", "t-0", 90),
    ("Found invalid offset during recovery. Deleting the corrupt segment and creating an empty one with starting offset 42", DISK, "offsets-not-increasing", None, None, 42),
    ("[LogLoader partition=t-0, dir=/d] Corruption found in segment 100, truncating to offset 142", DISK, "batch-crc-mismatch", "/d/t-0", "t-0", 142),
    (f"Found invalid messages in log segment {LOG} at byte offset 91.", DISK, "batch-crc-mismatch", LOG, "t-0", None),
    ("[LogLoader partition=t-0, dir=/d] Recovering unflushed segment 100. 0/3 recovered for t-0.", NOTE, None, "/d/t-0", "t-0", 100),
    ("Deleting segments as part of log recovery: LogSegment(baseOffset=100, size=9)", DISK, "batch-crc-mismatch", None, None, None),
    ("Caught segment overflow error: Detected offset overflow at offset 5 in segment X. Split segment and retry.", NOTE, "offset-overflow", None, None, 5),
    (f"Could not read file {LOG}", DISK, "unreadable", LOG, "t-0", None),
    # ProducerStateManager, indexes, epochs
    (f"[ProducerStateManager partition=t-0] Failed to load producer snapshot from '{D}/t-0/00000000000000000100.snapshot': Snapshot is corrupt (CRC is no longer valid). Stored crc: 1. Computed crc: 2", DISK, "snapshot-unreadable", f"{D}/t-0/00000000000000000100.snapshot", "t-0", None),
    ("New epoch entry EpochEntry(epoch=3, startOffset=1) caused truncation of conflicting entries [x]. Cache now contains 0 entries.", DISK, "epochs-order", None, None, None),
    (f"Attempt to append an offset 7 to position 2 no larger than the last offset appended (9) to {INDEX}", DISK, "offsets-not-increasing", INDEX, "t-0", 7),
    (f"Attempt to append an offset (7) to slot 2 no larger than the last offset appended (9) to {INDEX}", DISK, "timeindex-beyond-log", INDEX, "t-0", 7),
    ("java.lang.IllegalArgumentException: Attempt to append to a full time index (size = 33).", DISK, "index-padded-clean", None, None, None),
    (f"Unexpected aborted transaction version 9 in transaction index {D}/t-0/00000000000000000100.txnindex, current version is 0", DISK, "txnindex-version", f"{D}/t-0/00000000000000000100.txnindex", "t-0", None),
    # LogManager and LogDirFailureChannel
    (f"Shutdown broker because none of the specified log dirs from {D} can be created or validated", AFTER, None, D, None, None),
    (f"Shutdown broker because all log dirs in {D} have failed", AFTER, None, D, None, None),
    (f"Stopping serving logs in dir {D}", AFTER, None, D, None, None),
    (f"Logs for partitions t-0 are offline and logs for future partitions  are offline due to failure on log directory {D}", AFTER, None, D, None, None),
    (f"Loaded stray log: {D}/t-0.0123456789abcdef0123456789abcdef-stray", NOTE, "directory-stray", f"{D}/t-0.0123456789abcdef0123456789abcdef-stray", "t-0.0123456789abcdef0123456789abcdef-stray", None),
    (f"Log in {D}/t-0 marked stray and renamed to {D}/t-0.x-stray", DISK, "partition-stray", f"{D}/t-0", "t-0", None),
    (f"Error while loading log dir {D}", DISK, "unreadable", D, None, None),
    (f"Error occurred while reading recovery-point-offset-checkpoint file of directory {D}, resetting the recovery checkpoint to 0", DISK, "checkpoint-number", D, None, None),
    (f"Error occurred while reading log-start-offset-checkpoint file of directory {D}, resetting to the base offset of the first segment", DISK, "checkpoint-number", D, None, None),
    ("There was an error in one of the threads during logs loading: java.lang.Error", AFTER, None, None, None, None),
    (f"Disk error while writing recovery offsets checkpoint in directory {D}: x", DISK, "unreadable", D, None, None),
    (f"Disk error while writing log start offsets checkpoint in directory {D}: x", DISK, "unreadable", D, None, None),
    (f"Exception while deleting Log(x) in dir {D}.", DISK, "unreadable", D, None, None),
    ("Log for partition t-0 is marked as stray and renamed to /d/t-0.x-stray", DISK, "partition-stray", "/d/t-0.x-stray", "t-0", None),
    (f"Failed to create or validate data directory {D}", DISK, "unreadable", D, None, None),
    (f"Disk error while locking directory {D}", DISK, "unreadable", D, None, None),
    (f"Failed to acquire lock on file .lock in {D}. A Kafka instance in another process or thread is using this directory.", "elsewhere", None, D, None, None),
    (f"Error while reading checkpoint file {D}/t-0/leader-epoch-checkpoint", DISK, "epochs-malformed", f"{D}/t-0/leader-epoch-checkpoint", "t-0", None),
    (f"Error while writing to checkpoint file {D}/recovery-point-offset-checkpoint", DISK, "unreadable", f"{D}/recovery-point-offset-checkpoint", None, None),
    (f"Error while writing partition metadata file {D}/t-0/partition.metadata", DISK, "unreadable", f"{D}/t-0/partition.metadata", "t-0", None),
    # UnifiedLog, LocalLog
    *((f"Error while {what} t-0 in dir {D}", DISK, "unreadable", D, "t-0", None) for what in IO_ERRORS),
    (f"Error while flushing log for t-0 in dir {D} with offset 9 (exclusive) and recovery point 9", DISK, "unreadable", D, "t-0", 9),
    (f"Exception while reading from t-0 in dir {D}", DISK, "unreadable", D, "t-0", None),
    (f"Newly rolled segment file {LOG} already exists; deleting it first", DISK, "segments-hole", LOG, "t-0", None),
    ("LogSegment(baseOffset=0, size=9) contains future timestamp(s), making it ineligible to be deleted", DISK, "timestamps-future", None, None, None),
    ("Truncating t-0 to offset 5 below high watermark 9", DISK, "high-watermark-beyond-end", None, "t-0", 5),
    # LogCleaner
    ("Unexpected exception thrown when cleaning log Log(x). Marking its partition (t-0) as uncleanable", DISK, "records-unreadable", None, "t-0", None),
    (f"Failed to access checkpoint file cleaner-offset-checkpoint in dir {D}", DISK, "checkpoint-malformed", D, None, None),
    (f"Stopping cleaning logs in dir {D}", AFTER, None, D, None, None),
    ("Resetting first dirty offset of t-0 to log start offset 9 since the checkpointed offset 4 is invalid.", NOTE, "cleaner-offset-below-start", None, "t-0", 9),
    ("The last checkpoint dirty offset for partition t-0 is 9, which is larger than the log end offset 4. Resetting to the log start offset 0.", DISK, "cleaner-offset-beyond-end", None, "t-0", 9),
    ("\tFound 3 invalid messages during compaction.", DISK, "records-unreadable", None, None, None),
    ("Log segment may be corrupt, batch size 9 > 4 bytes left in segment for t-0", DISK, "batch-size-impossible", None, None, None),
    # ReplicaManager, fetchers
    (f"Halting broker because dir {D} is offline", AFTER, None, D, None, None),
    (f"Stopping serving replicas in dir {D} with uuid Some(x) because the log directory has failed.", AFTER, None, D, None, None),
    (f"Error while writing to highwatermark file in directory {D}", DISK, "unreadable", D, None, None),
    (f"Shutdown broker because the metadata log dir {D} has failed", AFTER, None, D, None, None),
    ("Unable to start fetching t-0 with topic ID x due to NumberFormatException", DISK, "high-watermark-number", None, "t-0", None),
    ("Unable to start fetching t-0 with topic ID x due to a storage error y", AFTER, None, None, "t-0", None),
    ("Found invalid messages during fetch for partition t-0 offset 9", DISK, "batch-crc-mismatch", None, "t-0", 9),
    ("Unexpected error occurred while processing data for partition t-0 at offset 9", DISK, "offsets-not-increasing", None, "t-0", 9),
    ("Failed to truncate t-0 at offset 9", DISK, "unreadable", None, "t-0", 9),
    ("Partition t-0 marked as failed", AFTER, None, None, "t-0", None),
    ("Expected partition t-0 with topic id x to exist, but it was missing. Creating...", DISK, "replica-missing", None, None, None),
    ("Shutting down because couldn't communicate offline log dir x with controllers", AFTER, None, None, None, None),
    # meta.properties, raft, metadata
    (f"Error while reading meta.properties file {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"Error while writing meta.properties to {D}", DISK, "unreadable", D, None, None),
    (f"Invalid cluster.id in: {D}/meta.properties. Expected a, but read b", DISK, "meta-properties-mismatch", f"{D}/meta.properties", None, None),
    (f"Duplicate directory ID x found. It was the ID of {D}, but also of /e", DISK, "meta-properties-mismatch", D, None, None),
    (f"Epoch from quorum store file ({D}/__cluster_metadata-0/quorum-state) is 1, which is smaller than last written epoch 2 in the log", DISK, "quorum-state-malformed", f"{D}/__cluster_metadata-0/quorum-state", "__cluster_metadata-0", None),
    (f"Couldn't read OffsetAndEpoch(offset=1, epoch=1); expected to find snapshot file {D}/__cluster_metadata-0/1.checkpoint", DISK, "metadata-snapshot-missing", f"{D}/__cluster_metadata-0/1.checkpoint", "__cluster_metadata-0", None),
    ("Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start offset 9, but the latest snapshot is x", DISK, "metadata-snapshot-missing", None, None, None),
    (f"Error deleting snapshot files {D}/__cluster_metadata-0/a.checkpoint and b", DISK, "unreadable", f"{D}/__cluster_metadata-0/a.checkpoint", "__cluster_metadata-0", None),
    ("Encountered metadata loading fault: Error loading metadata log record from offset 9", DISK, "metadata-snapshot-damaged", None, None, 9),
    # coordinators
    ("Failed to load metadata from __consumer_offsets-3 with epoch 4 due to x.", DISK, "batch-crc-mismatch", None, "__consumer_offsets-3", None),
    ("Error loading transactions from transaction log __transaction_state-3", DISK, "batch-crc-mismatch", None, "__transaction_state-3", None),
    ("Attempted to load transaction metadata from __transaction_state-3, but found no log", AFTER, None, None, "__transaction_state-3", None),
    # the operating system
    ("java.io.IOException: No space left on device", DISK, None, None, None, None),
    ("java.io.IOException: Input/output error", DISK, "unreadable", None, None, None),
)  # fmt: skip
