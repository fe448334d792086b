# ruff: noqa: E501
"""Lines that brokers of 3.9 to 4.4 log about their log directories, and what explains them.

Every call that logs at WARN or above, or throws what is logged, in the log, storage, raft, metadata
and coordinator modules of 3.9.1, 4.3.1 and 4.4.0, as far as it speaks of log directories or their files.
Values stand where the sources have variables.

Spec: the sources of core, storage, raft, metadata, server, the coordinators and clients.
A row: the line, what it is about, the first finding, path, partition and offset that it names.
"""

from __future__ import annotations

DISK, AFTER, NOTE, OTHER = "disk", "consequence", "note", "elsewhere"
D = "/var/lib/kafka/data"
LOG = f"{D}/t-0/00000000000000000100.log"
INDEX = f"{D}/t-0/00000000000000000100.index"
M = f"{D}/__cluster_metadata-0"
SNAPSHOT = f"{M}/00000000000000000042-0000000003.checkpoint"
IO_ERRORS = (
    "appending records to", "rolling log segment for", "deleting segments for", "deleting log for",
    "deleting dir for", "renaming dir for", "fetching offset by timestamp for",
    "deleting all segments for", "truncating the entire log for",
    "deleting producer state snapshots for",
)  # fmt: skip

Row = tuple[str, str, str | None, str | None, str | None, int | None]

#: What both releases log.
BOTH: tuple[Row, ...] = (
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
    (f"Failed to acquire lock on file .lock in {D}. A Kafka instance in another process or thread is using this directory.", OTHER, None, D, None, None),
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
    (f"Log segment may be corrupt, batch size 9 > 4 bytes left in segment for log segment {LOG} at position 91", DISK, "batch-size-impossible", LOG, "t-0", None),
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
    ("Expected partition t-0 with topic id x to exist, but it was missing. Creating...", DISK, "replica-missing", None, "t-0", None),
    ("Shutting down because couldn't communicate offline log dir x with controllers", AFTER, None, None, None, None),
    # meta.properties, raft, metadata
    (f"Error while reading meta.properties file {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"Error while writing meta.properties to {D}", DISK, "unreadable", D, None, None),
    (f"Invalid cluster.id in: {D}/meta.properties. Expected a, but read b", DISK, "meta-properties-mismatch", f"{D}/meta.properties", None, None),
    (f"Duplicate directory ID x found. It was the ID of {D}, but also of /e", DISK, "meta-properties-mismatch", D, None, None),
    (f"Epoch from quorum store file ({D}/__cluster_metadata-0/quorum-state) is 1, which is smaller than last written epoch 2 in the log", DISK, "quorum-state-malformed", f"{D}/__cluster_metadata-0/quorum-state", "__cluster_metadata-0", None),
    (f"Couldn't read OffsetAndEpoch(offset=1, epoch=1); expected to find snapshot file {D}/__cluster_metadata-0/00000000000000000001-0000000001.checkpoint", DISK, "metadata-snapshot-missing", f"{D}/__cluster_metadata-0/00000000000000000001-0000000001.checkpoint", "__cluster_metadata-0", None),
    ("Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start offset 9, but the latest snapshot is x", DISK, "metadata-snapshot-missing", None, None, None),
    (f"Error deleting snapshot files {D}/__cluster_metadata-0/00000000000000000001-0000000001.checkpoint and b", DISK, "unreadable", f"{D}/__cluster_metadata-0/00000000000000000001-0000000001.checkpoint", "__cluster_metadata-0", None),
    ("Encountered metadata loading fault: Error loading metadata log record from offset 9", DISK, "metadata-snapshot-damaged", None, None, 9),
    # coordinators
    ("Failed to load metadata from __consumer_offsets-3 with epoch 4 due to x.", DISK, "batch-crc-mismatch", None, "__consumer_offsets-3", None),
    ("Error loading transactions from transaction log __transaction_state-3", DISK, "batch-crc-mismatch", None, "__transaction_state-3", None),
    ("Attempted to load transaction metadata from __transaction_state-3, but found no log", AFTER, None, None, "__transaction_state-3", None),
    # the operating system
    ("java.io.IOException: No space left on device", DISK, "disk-full", None, None, None),
    ("java.io.IOException: Input/output error", DISK, "unreadable", None, None, None),
    # AbstractApiMessageSerde
    ("Failed to deserialize record with type 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Found 4 byte(s) of garbage after 12", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported.", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Could not deserialize metadata record due to unknown frame version 9(only frame version 9 is supported)", DISK, "metadata-snapshot-damaged", None, None, None),
    # AbstractFetcherThread
    ("Unexpected error occurred during truncation for t-0 at offset 9", DISK, "epochs-mismatch", None, "t-0", 9),
    ("Error in response for fetch request 7", OTHER, None, None, None, None),
    ("Error while processing data for partition t-0 at offset 9", DISK, "unreadable", None, "t-0", 9),
    ("Received 7 from the leader for partition t-0. This error may be returned transiently when the partition is being created or deleted, but it is not expected to persist.", OTHER, None, None, "t-0", None),
    ("Error for partition t-0 at offset 9", AFTER, None, None, "t-0", 9),
    ("Leader or replica is on protocol version where leader epoch is not considered in the OffsetsForLeaderEpoch response. The leader's offset 9 will be used for truncation in t-0.", NOTE, "epochs-missing", None, "t-0", 9),
    ("Based on replica's leader epoch, leader replied with epoch 9 below any replica's tracked epochs for t-0. The leader's offset only 7 will be used for truncation.", NOTE, "epochs-missing", None, "t-0", 7),
    ("Error getting offset for partition t-0", OTHER, None, None, "t-0", None),
    ("Error building remote log auxiliary state for t-0", OTHER, None, None, "t-0", None),
    # AbstractIndex
    ("Invalid max index size: 7", OTHER, None, None, None, None),
    (f"Integer overflow for offset: 9000000000 ({INDEX})", DISK, "offset-overflow", INDEX, "t-0", 9000000000),
    (f"Error unmapping index {INDEX}", NOTE, None, INDEX, "t-0", None),
    # AbstractLegacyRecordBatch
    ("Record size is less than the minimum record overhead (7)", DISK, "batch-size-impossible", None, None, None),
    ("Record size exceeds the largest allowable message size (9).", DISK, "batch-size-impossible", None, None, None),
    ("Invalid wrapper magic found in legacy deep record iterator 7", DISK, "records-unreadable", None, None, None),
    ("Invalid wrapper compressionType found in legacy deep record iterator 1", DISK, "records-unreadable", None, None, None),
    ("Found invalid compressed record set with null value (magic = 7)", DISK, "records-unreadable", None, None, None),
    ("Compressed message magic 9 does not match wrapper magic 9", DISK, "records-unreadable", None, None, None),
    ("Found invalid compressed record set with no inner records", DISK, "records-unreadable", None, None, None),
    ("Found invalid wrapper offset in compressed v1 message set, wrapper offset '7' is less than the last inner message offset '7' and it is not zero.", DISK, "records-unreadable", None, None, None),
    ("Inner messages must not be compressed", DISK, "records-unreadable", None, None, None),
    # AssignmentsManager
    ("handleResponse: 3 assignments failed; global error: NOT_CONTROLLER. Retrying.", OTHER, None, None, None, None),
    ("handleResponse: no result in response for partition eSxhGUWPRJKJoTIc7ymjZQ:t-0.", OTHER, None, None, "t-0", None),
    ("handleResponse: response contained topicIdPartition eSxhGUWPRJKJoTIc7ymjZQ:t-0, but this was not in the request.", OTHER, None, None, "t-0", None),
    ("handleResponse: error assigning eSxhGUWPRJKJoTIc7ymjZQ:t-0: UNKNOWN_TOPIC_ID.", OTHER, None, None, "t-0", None),
    # BatchFileReader
    ("Unable to read control record at offset 9", DISK, "bootstrap-malformed", None, None, 9),
    ("unable to deserialize record at offset 9", DISK, "bootstrap-malformed", None, None, 9),
    # BootstrapDirectory
    (f"Path {D} exists, but is not a directory.", DISK, "log-directory-missing", D, None, None),
    (f"No such directory as {D}", DISK, "log-directory-missing", D, None, None),
    # BootstrapMetadata
    (f"No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from the binary bootstrap metadata file: {D}/bootstrap.checkpoint", DISK, "bootstrap-malformed", f"{D}/bootstrap.checkpoint", None, None),
    # BrokerMetadataPublisher
    ("Encountered metadata publishing fault: Error applying topics delta in $deltaName", AFTER, None, None, None, None),
    ("Encountered metadata publishing fault: Error updating group coordinator with local changes in $deltaName", AFTER, None, None, None, None),
    ("Encountered metadata publishing fault: Error updating txn coordinator with local changes in $deltaName", AFTER, None, None, None, None),
    ("Encountered metadata publishing fault: Uncaught exception while publishing broker metadata from $deltaName", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting LogManager", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting ReplicaManager", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting GroupCoordinator", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting TransactionCoordinator", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting high watermark checkpoint thread during startup", AFTER, None, None, None, None),
    # BrokerServer
    ("Fatal error during broker startup. Prepare to shutdown", AFTER, None, None, None, None),
    ("Timed out waiting for the controller to approve controlled shutdown", OTHER, None, None, None, None),
    ("Fatal error during broker shutdown.", AFTER, None, None, None, None),
    # ByteBufferLogInputStream
    ("Record size 9 is less than the minimum record overhead (7)", DISK, "batch-size-impossible", None, None, None),
    ("Record size 9 exceeds the largest allowable message size (9).", DISK, "batch-size-impossible", None, None, None),
    ("Invalid magic found in record: 7", DISK, "batch-magic-unknown", None, None, None),
    # ByteBufferUnmapper
    (f"Unable to unmap the mapped buffer: {INDEX}", NOTE, None, INDEX, "t-0", None),
    # ByteUtils
    ("Varint is too long, the most significant bit in the 5th byte is set, converted value: 7", DISK, "records-unreadable", None, None, None),
    ("Varlong is too long, most significant bit in the 10th byte is set, converted value: 7", DISK, "records-unreadable", None, None, None),
    # CheckpointFile
    (f"Unrecognised version:7, expected version: 7 in checkpoint file at: {D}/recovery-point-offset-checkpoint", DISK, "checkpoint-malformed", f"{D}/recovery-point-offset-checkpoint", None, None),
    (f"Expected [7] entries in checkpoint file [{D}/recovery-point-offset-checkpoint], but found only [7]", DISK, "checkpoint-malformed", f"{D}/recovery-point-offset-checkpoint", None, None),
    (f"Malformed line in checkpoint file [{D}/recovery-point-offset-checkpoint]: 7", DISK, "checkpoint-malformed", f"{D}/recovery-point-offset-checkpoint", None, None),
    # CheckpointFileWithFailureHandler
    (f"Failed to write to checkpoint file {D}/recovery-point-offset-checkpoint. This is ok if the topic/partition is being deleted", NOTE, None, f"{D}/recovery-point-offset-checkpoint", None, None),
    # CompressionType
    ("Unknown compression type id: 7", DISK, "batch-codec-unknown", None, None, None),
    # ControlRecord
    ("Unknown control record type 7", DISK, "metadata-snapshot-damaged", None, None, None),
    # ControlRecordType
    ("Invalid version found for control record: 7. May indicate data corruption", DISK, "marker-unreadable", None, None, None),
    # ControllerServer
    ("Encountered fatal fault: caught exception", AFTER, "metadata-snapshot-damaged", None, None, None),
    ("Fatal error during controller shutdown.", AFTER, None, None, None, None),
    # CoordinatorLoaderImpl
    ("Loaded metadata from __consumer_offsets-3 with buffer larger (9 bytes) than configured buffer size (7 bytes).", NOTE, None, None, "__consumer_offsets-3", None),
    ("Unknown record type 7 while loading offsets and group metadata from __consumer_offsets-3. Ignoring it. It could be a left over from an aborted upgrade.", NOTE, None, None, "__consumer_offsets-3", None),
    ("Stopped loading records from __consumer_offsets-3 because the partition is not online or is no longer the leader.", AFTER, None, None, "__consumer_offsets-3", None),
    ("Could not load records from __consumer_offsets-3 because the log does not exist.", AFTER, None, None, "__consumer_offsets-3", None),
    # CoordinatorRecordSerde
    ("Could not read version from t-0's buffer.", DISK, "records-unreadable", None, None, None),
    ("Could not read record with version 9 from t-0's buffer due to: 7.", DISK, "records-unreadable", None, None, None),
    # CoordinatorRuntime
    ("Execution of 7 failed due to 9.", OTHER, None, None, None, None),
    ("Cannot load coordinator __consumer_offsets-3 in state 7.", AFTER, None, None, "__consumer_offsets-3", None),
    ("The state machine of the coordinator __consumer_offsets-3 is out of sync with the underlying log. The last written offset returned is 9 while the coordinator expected 7. The coordinator will be reloaded in order to re-synchronize the state machine.", NOTE, None, None, "__consumer_offsets-3", None),
    # DefaultRecord
    ("Invalid record size: expected 7 bytes in record payload, but the record payload reached EOF.", DISK, "records-unreadable", None, None, None),
    ("Invalid record size: expected 7 bytes in record payload, but instead the buffer has only 7 remaining bytes.", DISK, "records-unreadable", None, None, None),
    ("Found invalid number of record headers 7", DISK, "records-unreadable", None, None, None),
    ("Found invalid number of record headers. 7 is larger than the remaining size of the buffer", DISK, "records-unreadable", None, None, None),
    ("Invalid record size: expected to read 7 bytes in record payload, but instead read 7", DISK, "records-unreadable", None, None, None),
    ("Found invalid record structure", DISK, "records-unreadable", None, None, None),
    ("Invalid negative header key size 9", DISK, "records-unreadable", None, None, None),
    ("Reached end of input stream before skipping all bytes. Remaining bytes:7", DISK, "records-unreadable", None, None, None),
    # DefaultRecordBatch
    ("Record batch is corrupt (the size 9 is smaller than the minimum allowed overhead 61)", DISK, "batch-size-impossible", None, None, None),
    ("Record is corrupt (stored crc = 7, computed crc = 7)", DISK, "batch-crc-mismatch", None, None, None),
    ("Incorrect declared batch size, premature EOF reached", DISK, "records-unreadable", None, None, None),
    ("Found invalid record count 7 in magic v7 batch", DISK, "records-unreadable", None, None, None),
    ("Incorrect declared batch size, records still remaining in file", DISK, "records-unreadable", None, None, None),
    ("Failed to decompress record stream", DISK, "records-unreadable", None, None, None),
    ("Error checking for remaining bytes after reading batch", DISK, "records-unreadable", None, None, None),
    ("Failed to close record stream", DISK, "records-unreadable", None, None, None),
    # EndTransactionMarker
    ("Invalid version found for end transaction marker: 7. May indicate data corruption", DISK, "marker-unreadable", None, None, None),
    # FileLogInputStream
    (f"Failed to read record batch at position 91 from FileRecords(size=90, file={LOG}, start=0, end=90)", DISK, "unreadable", LOG, "t-0", None),
    (f"Failed to load record batch at position 91 from FileRecords(size=90, file={LOG}, start=0, end=90)", DISK, "unreadable", LOG, "t-0", None),
    (f"Found record size 0 smaller than minimum record overhead (14) in file {LOG}.", DISK, "batch-size-impossible", LOG, "t-0", None),
    # FileQuorumStateStore
    ("Deserialized node {} does not have data_version field", DISK, "quorum-state-malformed", None, None, None),
    ("data_version (9) is not within the min (7) and max (7) supported version", DISK, "quorum-state-malformed", None, None, None),
    (f"Error while reading the Quorum status from the file {M}/quorum-state", DISK, "quorum-state-malformed", f"{M}/quorum-state", "__cluster_metadata-0", None),
    ("Quorum state data version (9) is greater than the supported version (9)", DISK, "quorum-state-malformed", None, None, None),
    (f"Error while writing the Quorum status from the file {M}/quorum-state", DISK, "unreadable", f"{M}/quorum-state", "__cluster_metadata-0", None),
    (f"Error while deleting file {M}/quorum-state", DISK, "unreadable", f"{M}/quorum-state", "__cluster_metadata-0", None),
    ("Deserialized node 7 is not an object node", DISK, "quorum-state-malformed", None, None, None),
    # FileRawSnapshotReader
    (f"Unable to close snapshot reader 7 at {SNAPSHOT}", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Unable to Opens a snapshot file {SNAPSHOT}", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    # FileRawSnapshotWriter
    (f"Unable to set file ({SNAPSHOT}) as read-only", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Error freezing file snapshot, temp path = {SNAPSHOT}, snapshotId = OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Error closing snapshot writer, temp path = {SNAPSHOT}, snapshotId OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Error creating snapshot writer. path = {SNAPSHOT}, snapshotId OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Error calculating snapshot size. temp path = {SNAPSHOT}, snapshotId = OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    (f"Error writing file snapshot, temp path = {SNAPSHOT}, snapshotId = OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", SNAPSHOT, "__cluster_metadata-0", None),
    # FileRecords
    (f"Invalid position: 91 in read from FileRecords(size=90, file={LOG}, start=0, end=90)", DISK, "index-beyond-log", LOG, "t-0", None),
    (f"Slice from position 91 exceeds end position of FileRecords(size=90, file={LOG}, start=0, end=90)", DISK, "index-beyond-log", LOG, "t-0", None),
    ("Append of size 9 bytes is too large for segment with current file position at 9", DISK, "log-too-large", None, None, None),
    (f"Attempt to truncate log segment {LOG} to 9 bytes failed,  size of this log segment is 7 bytes.", DISK, "torn-tail", LOG, "t-0", None),
    (f"Size of FileRecords {LOG} has been truncated during write: old size 9, new size 9", DISK, "torn-tail", LOG, "t-0", None),
    (f"The size of segment {LOG} (7) is larger than the maximum allowed segment size of 7", DISK, "log-too-large", LOG, "t-0", None),
    # Kafka
    ("Halting Kafka.", AFTER, None, None, None, None),
    ("Exiting Kafka due to fatal exception during startup.", AFTER, None, None, None, None),
    ("Exiting Kafka due to fatal exception", AFTER, None, None, None, None),
    # KafkaMetadataLog
    ("Log doesn't have a last fetch epoch and there is a snapshot (OffsetAndEpoch(offset=42, epoch=3)). Expected the snapshot's end offset to match the log's end offset (9) and the log start offset (9)", DISK, "metadata-snapshot-beyond-end", None, None, None),
    ("Attempt to truncate to offset 9, which is below the current high watermark 7", DISK, "high-watermark-beyond-end", None, None, 9),
    ("Log's high watermark (7) is different from the local replica's high watermark (7)", NOTE, None, None, None, None),
    # KafkaRaftClient
    ("The leader requested truncation to offset 9, which is below the current high watermark 7", DISK, "high-watermark-beyond-end", None, None, 9),
    ("Full log truncation expected but didn't happen. Snapshot of 7, log end offset 9, last fetched 7", DISK, "metadata-snapshot-beyond-end", None, None, 9),
    ("Had an error during log cleaning", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Snapshot expected since next offset of listener is 7, log start offset is 9 and high-watermark is 12", DISK, "metadata-snapshot-missing", None, None, 7),
    # KafkaRaftClientDriver
    ("Unexpected error in raft IO thread", DISK, "metadata-snapshot-damaged", None, None, None),
    # KafkaRaftServer
    (f"Found unexpected metadata location in data directory `/e/__cluster_metadata-0` (the configured metadata directory is {D}).", DISK, "partition-twice", "/e/__cluster_metadata-0", "__cluster_metadata-0", None),
    (f"No `meta.properties` found in {D} (have you run `kafka-storage.sh` to format the directory?)", DISK, "meta-properties-missing", D, None, None),
    (f"Error: node ID not found in {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"Error: cluster ID not found in {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    # KafkaScheduler
    ("Uncaught exception in scheduled task 'kafka-log-retention'", DISK, None, None, None, None),
    # LeaderEpochFileCache
    ("Received invalid partition leader epoch entry 7", DISK, "epochs-number", None, None, None),
    # LegacyRecord
    ("Record is corrupt (crc could not be retrieved as the record is too small, size = 7)", DISK, "batch-size-impossible", None, None, None),
    # LocalLeaderEndPoint
    ("Error when getting EpochEndOffset for t-0", DISK, "unreadable", None, "t-0", None),
    # LocalLog
    (f"Error while renaming dir for t-0 in log dir {D}", DISK, "unreadable", D, "t-0", None),
    ("The memory mapped buffer for log of t-0 is already closed", AFTER, None, None, "t-0", None),
    ("Can not delete directory when 7 segments are still present", DISK, "directory-deleted", None, None, None),
    ("Can not delete directory when memory mapped buffer for log of t-0 is still open.", DISK, "directory-deleted", None, "t-0", None),
    ("Received request for offset 9 for partition t-0, but we only have log segments upto 5.", NOTE, None, None, "t-0", 9),
    ("Trying to roll a new log segment for topic partition t-0 with start offset 9 =max(provided offset = 9, LEO = 7) while it already exists. Existing segment is 7.", DISK, "segments-overlap", None, "t-0", 9),
    ("Trying to roll a new log segment for topic partition t-0 with start offset 9 =max(provided offset = 9, LEO = 7) lower than start offset of the active segment 9", DISK, "segments-overlap", None, "t-0", 9),
    (f"Found directory {D}/lost+found, 'lost+found' is not in the form of topic-partition or topic-partition.uniqueId-delete (if marked for deletion).\nKafka's log directories (and children) should only contain Kafka topic data.", DISK, "foreign-directory", f"{D}/lost+found", None, None),
    (f"The log dir {D} is already offline due to a previous IO exception.", AFTER, None, D, None, None),
    ("Failed to append records from position 91 in LogSegment(baseOffset=100, size=9)", DISK, "offset-overflow", None, None, None),
    # LogCleaner
    ("Failed to read from segment LogSegment(baseOffset=100, size=9) of partition t-0 while loading offset map", DISK, "batch-size-impossible", None, "t-0", None),
    ("Log cleaner threads should be at least 1", OTHER, None, None, None, None),
    ("Cannot use more than 2G of cleaner buffer space per cleaner thread, ignoring excess buffer space...", OTHER, None, None, None, None),
    (f"Could not determine next batch size for log segment {LOG} at position 91", DISK, "batch-size-impossible", LOG, "t-0", None),
    (f"Invalid batch size 9 for log segment {LOG} at position 91", DISK, "batch-size-impossible", LOG, "t-0", None),
    (f"Batch size 9 < buffer size 7, but not processed for log segment {LOG} at position 91", DISK, "batch-size-impossible", LOG, "t-0", None),
    ("This log contains a message larger than maximum allowable size of 7.", DISK, "batch-size-impossible", None, None, None),
    # LogCleanerManager
    ("Failed to calculate log cleaning stats for partition t-0", DISK, "unreadable", None, "t-0", None),
    ("Compaction for partition t-0 cannot be aborted and paused since it is in 7 state.", OTHER, None, None, "t-0", None),
    ("Compaction for partition t-0 cannot be resumed since it is not paused.", OTHER, None, None, "t-0", None),
    ("Compaction for partition t-0 cannot be resumed since it is in 7 state.", OTHER, None, None, "t-0", None),
    (f"Failed to access checkpoint file in dir {D}", DISK, "checkpoint-malformed", D, None, None),
    ("State for partition t-0 should exist.", OTHER, None, None, "t-0", None),
    ("In-progress partition t-0 cannot be in 7 state.", OTHER, None, None, "t-0", None),
    # LogLoader
    ("Deleting all segments because logEndOffset (7) is smaller than logStartOffset 7. This could happen if segment files were deleted from the file system.", DISK, "log-start-beyond-end", None, None, 7),
    ("Corruption found in segment 9, truncating to offset 9", DISK, "batch-crc-mismatch", None, None, 9),
    # LogManager
    ("Can not create the future log for t-0 without having a preferred log directory", NOTE, None, None, "t-0", None),
    ("Can not create the future log for t-0 in the current log directory of this partition", NOTE, None, None, "t-0", None),
    (f"No log directories available. Tried {D}", AFTER, None, D, None, None),
    ("Tried to assign topic ID 7 to log for topic partition t-0,but log already contained topic ID 7", DISK, "topic-id-mismatch", None, "t-0", None),
    (f"Can not create log t-0 because log directory {D} is offline", AFTER, None, D, "t-0", None),
    ("Exception in kafka-delete-logs thread.", DISK, "unreadable", None, None, None),
    ("Failed to schedule next delete in kafka-delete-logs thread", DISK, "unreadable", None, None, None),
    (f"The log dir Log(dir={D}/t-0.0123456789abcdef0123456789abcdef-future, topic=t, partition=0) does not have a topic ID, which is not allowed when running in KRaft mode.", DISK, "topic-id-missing", f"{D}/t-0.0123456789abcdef0123456789abcdef-future", "t-0.0123456789abcdef0123456789abcdef-future", None),
    ("The current replica for t-0 is offline", AFTER, None, None, "t-0", None),
    ("The future replica for t-0 is offline", AFTER, None, None, "t-0", None),
    (f"Log dir {D} is not found in the config.", OTHER, None, D, None, None),
    ("Error flushing topic 7", DISK, "unreadable", None, None, None),
    (f"Failed to load {D} during broker startup", AFTER, None, D, None, None),
    (f"Failed to create data directory {D}", DISK, "unreadable", D, None, None),
    (f"{D} is not a readable log directory.", DISK, "unreadable", D, None, None),
    (f"Disk error while loading ID {D}", DISK, "unreadable", D, None, None),
    (f"Duplicate log directories found: {D}/t-0, /e/t-0", DISK, "partition-twice", f"{D}/t-0", "t-0", None),
    (f"Duplicate log directories for t-0 are found in both {D}/t-0 and /e/t-0. It is likely because log directory failure happened while broker was replacing current replica with future replica. Recover broker from this failure by manually deleting one of the two directories for this partition. It is recommended to delete the partition in the log directory that is known to have failed recently.", DISK, "partition-twice", f"{D}/t-0", "t-0", None),
    ("There was an error in one of the threads during LogManager shutdown: 7", DISK, None, None, None, None),
    # LogSegment
    (f"Offset index file {INDEX} does not exist", DISK, "index-missing", INDEX, "t-0", None),
    (f"Delete of log {LOG}.deleted failed.", DISK, "unreadable", f"{LOG}.deleted", "t-0", None),
    # MemoryRecordsBuilder
    ("Illegal offset 9 following previous offset 9 (Offsets must increase monotonically).", DISK, "records-offsets", None, None, 9),
    # MetaProperties
    ("Unable to read directory.id as a Uuid: x", DISK, "meta-properties-unreadable", None, None, None),
    ("cluster.id was not found.", DISK, "meta-properties-unreadable", None, None, None),
    ("node.id was not found.", DISK, "meta-properties-unreadable", None, None, None),
    # MetaPropertiesEnsemble
    (f"Cannot specify more than one metadata log directory. Already specified {D}", OTHER, None, D, None, None),
    ("You must specify at least one log directory.", OTHER, None, None, None, None),
    (f"Error: log directory {D} is in both emptyLogDirs and errorLogDirs.", OTHER, None, D, None, None),
    (f"Error: log directory {D} is in both emptyLogDirs and logDirProps.", OTHER, None, D, None, None),
    (f"Error: log directory {D} is in both errorLogDirs and logDirProps.", OTHER, None, D, None, None),
    (f"Error: metaLogDir {D} does not appear in emptyLogDirs, errorLogDirs, or logDirProps.", OTHER, None, D, None, None),
    ("No readable meta.properties files found.", DISK, "meta-properties-unreadable", None, None, None),
    (f"Found unexpected version in {D}/meta.properties. ZK-based brokers that are not migrating only support version 0 (which is implicit when the `version` field is missing).", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"cluster.id was not specified in the v1 file: {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"node.id was not specified in {D}/meta.properties", DISK, "meta-properties-unreadable", f"{D}/meta.properties", None, None),
    (f"Stored node id 1 doesn't match previous node id 2 in {D}/meta.properties. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.", DISK, "meta-properties-mismatch", f"{D}/meta.properties", None, None),
    ("No metadata log directory was specified.", OTHER, None, None, None, None),
    (f"Encountered I/O error in metadata log directory {D}. Cannot continue.", DISK, "meta-properties-unreadable", D, None, None),
    # MetaPropertiesVersion
    ("Invalid meta.properties version string '7'", DISK, "meta-properties-unreadable", None, None, None),
    ("Unknown meta.properties version number 7", DISK, "meta-properties-unreadable", None, None, None),
    # MetadataBatchLoader
    ("Encountered BeginTransactionRecord while already in a transaction", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered EndTransactionRecord without having seen a BeginTransactionRecord", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered AbortTransactionRecord without having seen a BeginTransactionRecord", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered metadata loading fault: Error generating new metadata image from metadata delta between offset 9 and 7", AFTER, None, None, None, None),
    # MetadataLoader
    ("Encountered metadata loading fault: Unhandled error initializing new publishers", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Unhandled error initializing 7 with a snapshot at offset 9", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Unhandled error publishing the new metadata image ending at 9 with publisher 7", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Unhandled fault in MetadataLoader#handleCommit. Last image offset was 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered metadata loading fault: Unhandled fault in MetadataLoader#handleLoadSnapshot. Snapshot offset was 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered metadata loading fault: Error loading metadata log record 7 in snapshot at offset 9", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Encountered metadata loading fault: Unhandled error publishing the new leader change to 9 with publisher 7", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Attempted to install publisher 7, which is already installed.", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Attempted to install a new publisher named 7, but there is already a publisher with that name.", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Unhandled fault in MetadataLoader#installPublishers", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Attempted to remove publisher 7, which is not installed.", AFTER, None, None, None, None),
    ("Encountered metadata loading fault: Got unexpected exception while closing publisher 7", AFTER, None, None, None, None),
    # OffsetCheckpointFile
    (f"No checkpoint file for log dir {D}", AFTER, None, D, None, None),
    # OffsetIndex
    (f"Attempt to fetch the 7th entry from index {INDEX}, which has size 9", DISK, "changed-while-read", INDEX, "t-0", None),
    ("Attempt to append to a full index (size = 7).", DISK, "index-padded-clean", None, None, None),
    ("7 entries but file position in index is 7", DISK, "changed-while-read", None, None, None),
    (f"Corrupt index found, index file {INDEX} has non-zero size but the last offset is 9 which is less than the base offset 9", DISK, "index-order", INDEX, "t-0", None),
    (f"Index file {INDEX} is corrupt, found 7 bytes which is neither positive nor a multiple of 7", DISK, "index-length", INDEX, "t-0", None),
    # Partition
    ("Received request for offset 9 for partition t-0, but we only have log segments in the range 7 to 9.", NOTE, None, None, "t-0", 9),
    (f"The future log dir {D} of t-0 is different from the requested log dir /e", NOTE, None, D, "t-0", None),
    ("Log for partition t-0 is not available on broker 7", AFTER, None, None, "t-0", None),
    ("Future log for partition t-0 is not available on broker 7", AFTER, None, None, "t-0", None),
    ("Skipping creation of log because there are potentially offline log directories and log may already exist there. directoryId=7, topicId=7, targetLogDirectoryId=7", AFTER, None, None, None, None),
    # PartitionMetadataFile
    ("Tried to record topic ID x to file but had already recorded y", DISK, "topic-id-mismatch", None, None, None),
    # PartitionMetadataReadBuffer
    (f"Invalid topic ID in partition metadata file ({D}/t-0/partition.metadata)", DISK, "partition-metadata-malformed", f"{D}/t-0/partition.metadata", "t-0", None),
    # ProcessTerminatingFaultHandler
    ("Encountered fatal fault: 7", AFTER, None, None, None, None),
    # ProducerAppendInfo
    ("Out of order sequence number for producer 1000 at offset 9 in partition t-0: 7 (incoming seq. number), 7 (earliest seen sequence)", OTHER, None, None, "t-0", 9),
    ("Invalid sequence number for new epoch of producer 1000at offset 9 in partition t-0: 7 (request epoch), 7 (seq. number), 7 (current producer epoch)", OTHER, None, None, "t-0", 9),
    ("Out of order sequence number for producer 1000 at offset 9 in partition t-0: 7 (incoming seq. number), 7 (current end sequence number)", OTHER, None, None, "t-0", 9),
    ("Expected transactional write from producer 1000 at offset 9 in partition t-0", DISK, "transaction-mixed", None, "t-0", 9),
    ("Invalid coordinator epoch for producerId 1000 at offset 9 in partition t-0: 7 (zombie), 7 (current)", OTHER, None, None, "t-0", 9),
    # ProducerStateManager
    (f"Failed to load producer snapshot from '{D}/t-0/00000000000000000100.snapshot': x", DISK, "snapshot-unreadable", f"{D}/t-0/00000000000000000100.snapshot", "t-0", None),
    ("Attempted to complete transaction 7 on partition t-0 which was not started", DISK, "snapshot-disagrees", None, "t-0", None),
    ("Snapshot contained an unknown file version 9", DISK, "snapshot-unreadable", None, None, None),
    ("Snapshot is corrupt (CRC is no longer valid). Stored crc: 7. Computed crc: 7", DISK, "snapshot-unreadable", None, None, None),
    ("Snapshot failed schema validation: 7", DISK, "snapshot-unreadable", None, None, None),
    # PropertiesUtils
    ("Unable to read node.id as a base-10 number.", DISK, "meta-properties-unreadable", None, None, None),
    ("Failed to find node.id", DISK, "meta-properties-unreadable", None, None, None),
    # QuorumState
    ("Initialized quorum state (7) with a voted candidate but without a local id", DISK, "quorum-state-malformed", None, None, None),
    # RecordBatchIterator
    ("Unexpected EOF while attempting to read the next batch", DISK, "batch-size-impossible", None, None, None),
    # RecordsIterator
    ("Failed to read records into memory", DISK, "metadata-snapshot-damaged", None, None, None),
    ("DefaultRecordBatch expected by record type was 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Expected a record count for the records batch", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Unable to read record size", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Invalid non-positive frame size: 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Specified frame size, 7, is larger than the entire size of the batch, which is 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Unable to read 7 bytes, only read 7", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Failed to read record bytes", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Got timestamp delta of 7, but this is invalid because it is not 0 as expected.", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Got numHeaders of 7, but this is invalid because it is not 0 as expected.", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Got key in the record when no key was expected", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Missing value in the record when a value was expected", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Got an unexpected empty value in the record", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Missing key in the record when a key was expected", DISK, "metadata-snapshot-damaged", None, None, None),
    ("Got an unexpected empty key in the record", DISK, "metadata-snapshot-damaged", None, None, None),
    # RecordsSnapshotReader
    ("First batch is not a control batch with at least one record", DISK, "metadata-snapshot-damaged", None, None, None),
    ("First control record is not a snapshot header (7)", DISK, "metadata-snapshot-damaged", None, None, None),
    ("nextBatch was present when last contained log timestamp was not present: Batch(baseOffset=7, epoch=7, appendTimestamp=7, sizeInBytes=7, lastOffset=7)", DISK, "metadata-snapshot-damaged", None, None, None),
    # RemoteIndexCache
    (f"Unable to create directory {D}/remote-log-index-cache for RemoteIndexCache.", DISK, "unreadable", f"{D}/remote-log-index-cache", None, None),
    (f"Empty file name in remote index cache directory: {D}/remote-log-index-cache", DISK, "unreadable", f"{D}/remote-log-index-cache", None, None),
    # RemoteLogManager
    ("Error occurred while copying log segments of partition: 7", OTHER, None, None, None, None),
    # ReplicaAlterLogDirsThread
    ("Offset mismatch for the future replica t-0: fetched offset = 9, log end offset = 9.", DISK, None, None, "t-0", 9),
    # ReplicaFetcherThread
    ("Offset mismatch for partition t-0: fetched offset = 9, log end offset = 9.", DISK, "offsets-not-increasing", None, "t-0", 9),
    # ReplicaManager
    ("Error processing delete records operation on partition t-0", DISK, "unreadable", None, "t-0", None),
    (f"Log directory {D} is offline", AFTER, None, D, None, None),
    ("Unable to alter log dirs for t-0", NOTE, None, None, "t-0", None),
    ("Error while changing replica dir for partition t-0", DISK, "unreadable", None, "t-0", None),
    (f"Unable to describe replica dirs for {D}", DISK, "unreadable", D, None, None),
    (f"Error while describing replica in dir {D}", DISK, "unreadable", D, None, None),
    ("Error processing append operation on partition t-0", DISK, "unreadable", None, "t-0", None),
    ("Topic ID in the fetch session did not match the topic ID in the log.", NOTE, None, None, None, None),
    ("Error processing fetch with max size 9 from t-0 on partition t-0: 7", DISK, "unreadable", None, "t-0", None),
    (f"Unable to propagate directory failure disabled because directory {D} has no UUID", AFTER, None, D, None, None),
    (f"Stopped serving replicas in dir {D}", AFTER, None, D, None, None),
    ("Topic 7 exists, but its ID is 7, not 7 as expected", NOTE, None, None, None, None),
    ("Unable to delete replica t-0 because the local replica for the partition is in an offline log directory", AFTER, None, None, "t-0", None),
    ("Unable to delete replica t-0 because we got an unexpected 7 exception: 7", DISK, "unreadable", None, "t-0", None),
    # ReplicatedLog
    ("Log start offset (9) is greater than zero but latest snapshot was not found", DISK, "metadata-snapshot-missing", None, None, None),
    # SharedServer
    ("Unable to install metadata publishers", AFTER, None, None, None, None),
    ("Unable to install metadata publishers.", AFTER, None, None, None, None),
    ("Got exception while starting SharedServer", AFTER, "metadata-snapshot-damaged", None, None, None),
    # ShutdownableThread
    ("[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0]: Error due to", DISK, None, None, None, None),
    # SkimpyOffsetMap
    ("Attempted to add a new entry to a full offset map, entries: 7, slots: 7", OTHER, None, None, None, None),
    # SnapshotEmitter
    ("Not generating snapshot 00000000000000000042-0000000003.checkpoint because it already exists.", NOTE, None, None, None, None),
    ("Encountered error while writing snapshot 00000000000000000042-0000000003.checkpoint", DISK, "unreadable", None, None, None),
    # SnapshotGenerator
    ("Encountered metadata publishing fault: Not emitting snapshot 00000000000000000042-0000000003.checkpoint despite the fact that x because snapshots are disabled; x", AFTER, None, None, None, None),
    ("Encountered metadata publishing fault: KRaft snapshot file generation error", DISK, "unreadable", None, None, None),
    # Snapshots
    (f"Error renaming snapshot file from {SNAPSHOT}.part to {SNAPSHOT}.", DISK, "unreadable", f"{SNAPSHOT}.part", "__cluster_metadata-0", None),
    (f"Error creating temporary file, logDir = {M}, snapshotId = OffsetAndEpoch(offset=42, epoch=3).", DISK, "unreadable", f"{M}", "__cluster_metadata-0", None),
    # TierStateMachine
    ("Couldn't build the state from remote store for partition t-0, as remote log storage is not yet enabled", OTHER, None, None, "t-0", None),
    # TimeIndex
    (f"Attempt to fetch the 7th entry from time index {D}/t-0/00000000000000000100.timeindex which has size 9", DISK, "changed-while-read", f"{D}/t-0/00000000000000000100.timeindex", "t-0", None),
    ("Attempt to append to a full time index (size = 7).", DISK, "index-padded-clean", None, None, None),
    (f"Attempt to append a timestamp (7) to slot 2 no larger than the last timestamp appended (9) to {D}/t-0/00000000000000000100.timeindex", DISK, "timeindex-beyond-log", f"{D}/t-0/00000000000000000100.timeindex", "t-0", None),
    (f"Corrupt time index found, time index file ({D}/t-0/00000000000000000100.timeindex) has non-zero size but the last timestamp is 7 which is less than the first timestamp 9", DISK, "timeindex-order", f"{D}/t-0/00000000000000000100.timeindex", "t-0", None),
    (f"Corrupt time index found, time index file ({D}/t-0/00000000000000000100.timeindex) has non-zero size but the last offset is 7 which is less than the first offset 9", DISK, "timeindex-order", f"{D}/t-0/00000000000000000100.timeindex", "t-0", None),
    (f"Time index file {D}/t-0/00000000000000000100.timeindex is corrupt, found 7 bytes which is neither positive nor a multiple of 7", DISK, "timeindex-length", f"{D}/t-0/00000000000000000100.timeindex", "t-0", None),
    # TopicBasedRemoteLogMetadataManager
    ("Encountered error while initializing producer/consumer", OTHER, None, None, None, None),
    ("Encountered error while initializing topic-based RLMM resources", OTHER, None, None, None, None),
    # TransactionIndex
    (f"Last offset of aborted transaction 7 in index {D}/t-0/00000000000000000100.txnindex is less than start offset 9", DISK, "txnindex-below-segment", f"{D}/t-0/00000000000000000100.txnindex", "t-0", 9),
    (f"Failed read position from the transaction index {D}/t-0/00000000000000000100.txnindex", DISK, "unreadable", f"{D}/t-0/00000000000000000100.txnindex", "t-0", None),
    (f"Failed to read from the transaction index {D}/t-0/00000000000000000100.txnindex", DISK, "unreadable", f"{D}/t-0/00000000000000000100.txnindex", "t-0", None),
    (f"The last offset of appended transactions must increase sequentially, but 7 is not greater than current last offset 9 of index {D}/t-0/00000000000000000100.txnindex", DISK, "txnindex-order", f"{D}/t-0/00000000000000000100.txnindex", "t-0", 9),
    # TransactionStateManager
    ("Transaction expiration for partition __transaction_state-3 failed because the log config was not available, which likely means the partition is not online or is no longer local.", AFTER, None, None, "__transaction_state-3", None),
    ("Loaded transaction metadata from __transaction_state-3 with buffer larger (9 bytes) than configured transaction.state.log.load.buffer.size (7 bytes)", NOTE, None, None, "__transaction_state-3", None),
    ("Unloaded transaction metadata x from __transaction_state-3 as part of loading metadata at epoch 4", NOTE, None, None, "__transaction_state-3", None),
    # UnifiedLog
    (f"Exception while increasing log start offset for t-0 to 9 in dir {D}", DISK, "unreadable", D, "t-0", 9),
    ("Cannot increment the log start offset to 9 of partition t-0 since it is larger than the high watermark 7", OTHER, None, None, "t-0", 9),
    ("Record was not part of an ongoing transaction", OTHER, None, None, None, None),
    ("Append from Raft leader did not set the batch epoch correctly, expected 7 but the batch has 7", OTHER, None, None, None, None),
    ("The baseOffset of the record batch in the append to t-0 should be 0, but it is 7", OTHER, None, None, "t-0", None),
    ("Record is corrupt (stored crc = 7) in topic partition t-0.", DISK, "batch-crc-mismatch", None, "t-0", None),
    ("Out of order offsets found in append to t-0: 7", DISK, "offsets-not-increasing", None, "t-0", None),
    ("Cannot append record batch with illegal length 7 to log for t-0. A possible cause is a corrupted produce request.", OTHER, None, None, "t-0", None),
    ("Received request for offset 9 for partition t-0, but we only have log segments starting from offset: 7.", NOTE, None, None, "t-0", 9),
    ("Empty active segment at 9 was deleted and recreated due to 9", NOTE, None, None, None, 9),
    (f"Error while deleting producer state snapshot {D}/t-0/00000000000000000100.snapshot for t-0 in dir {D}", DISK, "unreadable", f"{D}/t-0/00000000000000000100.snapshot", "t-0", None),
    (f"Error while truncating log to offset 9 for t-0 in dir {D}", DISK, "unreadable", D, "t-0", 9),
    ("High watermark 7 update exceeds current log end offset 9", DISK, "high-watermark-beyond-end", None, None, None),
    ("Non-monotonic update of high watermark from 9 to 9", NOTE, None, None, None, None),
    ("The topic id 7 will not be persisted to the partition metadata file since the partition is deleted", NOTE, None, None, None, None),
    ("Message batch size is 9 bytes in append topartition t-0 which exceeds the maximum configured size of 7.", OTHER, None, None, "t-0", None),
    ("Unexpected offset in append to t-0. First offset 5 is less than the next offset 9. First 10 offsets in append: 5, last offset in append: 5. Log start offset = 0", DISK, "offsets-not-increasing", None, "t-0", None),
    ("Clearing leader epoch cache after unexpected append with message format v7", NOTE, None, None, None, None),
    ("Message batch size is 9 bytes in append to partition t-0, which exceeds the maximum configured segment size of 7.", OTHER, None, None, "t-0", None),
    # Utils
    (f"Failed to flush file {D}/t-0/00000000000000000100.snapshot", NOTE, None, f"{D}/t-0/00000000000000000100.snapshot", "t-0", None),
    ("Failed to read `log header` from file channel `x`. Expected to read 17 bytes, but reached end of file after reading 9 bytes. Started read from position 91.", DISK, "torn-tail", None, None, None),
    (f"Failed atomic move of {LOG}.swap to {LOG} retrying with a non-atomic move", NOTE, None, f"{LOG}.swap", "t-0", None),
    (f"Failed to flush directory {D}/t-0", NOTE, None, f"{D}/t-0", "t-0", None),
    # what is put together before it is logged or thrown
    (f"Error while creating log for t-0 in dir {D}", DISK, "unreadable", D, "t-0", None),
    (f"Error while creating log for t-0.0123456789abcdef0123456789abcdef-future in dir {D}", DISK, "unreadable", D, None, None),
    (f"Failed to clean up log for t-0 in dir {D} due to IOException", DISK, "unreadable", D, "t-0", None),
    (f"Error while reading partition metadata file {D}/t-0/partition.metadata", DISK, "partition-metadata-malformed", f"{D}/t-0/partition.metadata", "t-0", None),
    ("Deserializing record DefaultRecord(offset=9) from __consumer_offsets-3 failed.", DISK, "batch-crc-mismatch", None, "__consumer_offsets-3", None),
    ("Replaying record x from __consumer_offsets-3 at offset 9 with producer id -1 and producer epoch -1 failed.", DISK, "batch-crc-mismatch", None, "__consumer_offsets-3", 9),
    ("Epoch of producer 1 at offset 9 in t-0 is 2, which is smaller than the last seen epoch 3", NOTE, "producer-epoch-falls", None, "t-0", 9),
    ("Detected offset overflow at offset 9 in segment LogSegment(baseOffset=100, size=9)", DISK, "offset-overflow", None, None, 9),
    (f"requirement failed: Split operation is only permitted for segments with overflow, and the problem path is {LOG}", DISK, "batch-below-segment", LOG, "t-0", None),
    (f"requirement failed: Cannot split file {LOG}", DISK, "offset-overflow", LOG, "t-0", None),
    ("requirement failed: Transaction state log's key should not be null", DISK, "records-unreadable", None, None, None),
    ("org.apache.kafka.server.common.serialization.MetadataParseException: Error while reading frame version", DISK, "metadata-snapshot-damaged", None, None, None),
    ("org.apache.kafka.server.common.serialization.MetadataParseException: Value for type was too large.", DISK, "metadata-snapshot-damaged", None, None, None),
    ("java.lang.RuntimeException: Unknown metadata id 999", DISK, "metadata-snapshot-damaged", None, None, None),
    ("java.io.EOFException: File ended prematurely.", DISK, "quorum-state-malformed", None, None, None),
    (f"Exception while deleting Log(dir={D}/t-0, topicId=x, topic=t, partition=0, highWatermark=0) in dir {D}.", DISK, "unreadable", f"{D}/t-0", "t-0", None),
    (f"Broker 1 stopped fetcher for partitions t-0 and stopped moving logs for partitions  because they are in the failed log directory {D}.", AFTER, None, D, None, None),
    (f"Failed to delete log for future t-0 because it may be in one of the offline directories {D}", AFTER, None, D, "t-0", None),
    (f"Can not create log for t-0 because log directories {D} are offline", AFTER, None, D, "t-0", None),
    ("Partition t-0 is in an offline log directory", AFTER, None, None, "t-0", None),
    ("Disk error when trying to access log file on the disk.", AFTER, None, None, None, None),
    ("This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is otherwise corrupt.", DISK, "batch-crc-mismatch", None, None, None),
    ("Unable to start fetching t-0 with topic ID x due to IllegalStateException", DISK, None, None, "t-0", None),
    ("Uncaught exception in scheduled task 'flush-log'", DISK, None, None, None, None),
    ("Uncaught exception in scheduled task 'isr-expiration'", OTHER, None, None, None, None),
    ("Received a tombstone record to delete member m but did not receive ConsumerGroupTargetAssignmentMetadataValue tombstone.", DISK, "batch-crc-mismatch", None, None, None),
    ("Received an unknown record type 99 in x", DISK, "records-unreadable", None, None, None),
    ("Shutting down because we were unable to register with the controller quorum.", OTHER, None, None, None, None),
    ("Replaying record x to __consumer_offsets-3 failed due to: y.", OTHER, None, None, "__consumer_offsets-3", None),
    # the operating system and Java
    (f"java.nio.file.AccessDeniedException: {LOG}", DISK, "unreadable", LOG, "t-0", None),
    (f"java.io.FileNotFoundException: {LOG} (Permission denied)", DISK, "unreadable", LOG, "t-0", None),
    (f"java.nio.file.NoSuchFileException: {LOG}", DISK, None, LOG, "t-0", None),
    (f"java.nio.file.FileSystemException: {LOG}: No space left on device", DISK, "disk-full", LOG, "t-0", None),
    ("java.lang.InternalError: a fault occurred in an unsafe memory access operation", DISK, "disk-full", None, None, None),
)  # fmt: skip

#: What 3.9 logs and 4.x does not.
ONLY_3: tuple[Row, ...] = (
    # BootstrapMetadata
    (f"Bootstrap metadata.version before 3.3-IV0 are not supported. Can't load metadata from the binary bootstrap metadata file: {D}/bootstrap.checkpoint", DISK, "bootstrap-malformed", f"{D}/bootstrap.checkpoint", None, None),
    (f"No FeatureLevelRecord for metadata.version was found in the binary bootstrap metadata file: {D}/bootstrap.checkpoint", DISK, "bootstrap-malformed", f"{D}/bootstrap.checkpoint", None, None),
    # BrokerMetadataPublisher
    ("Encountered metadata publishing fault: Error updating group coordinator with deleted partitions in $deltaName", AFTER, None, None, None, None),
    # ControlRecordType
    ("Invalid value size found for end control record key. Must have at least 7 bytes, but found only 7", DISK, "marker-unreadable", None, None, None),
    # CoordinatorRuntime
    ("Writing records to __consumer_offsets-3 failed due to: 7.", DISK, "unreadable", None, "__consumer_offsets-3", None),
    ("Message batch size is 9 bytes in append to partition t-0 which exceeds the maximum configured size of 7.", OTHER, None, None, "t-0", None),
    # EndTransactionMarker
    ("Invalid value size found for end transaction marker. Must have at least 7 bytes, but found only 7", DISK, "marker-unreadable", None, None, None),
    ("Invalid control record type for end transaction marker7", DISK, "marker-unknown", None, None, None),
    # GroupMetadataManager
    ("Error loading offsets from __consumer_offsets-3", DISK, "batch-crc-mismatch", None, "__consumer_offsets-3", None),
    ("Attempted to load offsets and group metadata from __consumer_offsets-3, but found no log", AFTER, None, None, "__consumer_offsets-3", None),
    ("Loaded offsets and group metadata from __consumer_offsets-3 with buffer larger (7 bytes) than configured offsets.load.buffer.size (9 bytes)", NOTE, None, None, "__consumer_offsets-3", None),
    ("Unknown message key with version 9 while loading offsets and group metadata from __consumer_offsets-3. Ignoring it. It could be a left over from an aborted upgrade.", NOTE, None, None, "__consumer_offsets-3", None),
    # KafkaMetadataLog
    ("Inconsistent snapshot state: there must be a snapshot at an offset larger then the current log start offset ${log.logStartOffset}, but the latest snapshot is $latestSnapshotId", DISK, "metadata-snapshot-missing", None, None, None),
    # KafkaServer
    ("No broker ID found, and 7 is disabled.", OTHER, None, None, None, None),
    ("Failed to generate broker.id due to", OTHER, None, None, None, None),
    ("Failed to generate broker.id", OTHER, None, None, None, None),
    ("Fatal error during KafkaServer startup. Prepare to shutdown", AFTER, None, None, None, None),
    # LocalLog
    ("Record format version has been downgraded from 9 to 9.", NOTE, None, None, None, None),
    ("Trying to roll a new log segment with start offset 9 =max(provided offset = 9, LEO = 7) while it already exists and is active with size 0. Size of time index: 7, size of offset index: 7.", NOTE, "index-padded-clean", None, None, 9),
    ("Inconsistent segment sizes after split before: ${segment.log.sizeInBytes} after: $totalSizeOfNewSegments", DISK, "offset-overflow", None, None, None),
    # MetaPropertiesEnsemble
    (f"Invalid resrved directory ID AAAAAAAAAAAAAAAAAAAAAA found in {D}/meta.properties", DISK, "directory-id-reserved", f"{D}/meta.properties", None, None),
    # PartitionMetadataReadBuffer
    (f"Unrecognized version of partition metadata file + ({D}/t-0/partition.metadata): 7", DISK, "partition-metadata-malformed", f"{D}/t-0/partition.metadata", "t-0", None),
    # RaftManager
    ("Failed to delete metadata log", DISK, "unreadable", None, None, None),
    # RemoteIndexCache
    ("Error occurred while cleaning up expired entry", DISK, "unreadable", None, None, None),
    # RemoteLogManager
    ("Current task for topic-partition t-0 received error but it will be scheduled", OTHER, None, None, None, None),
    ("Error while cleaning segment 9, consider cleaning manually", OTHER, None, None, None, None),
    ("Error while cleaning segment after custom metadata size exceeded, consider cleaning manually", OTHER, None, None, None, None),
    # RemoteLogReader
    ("Error occurred while reading the remote data for t-0", OTHER, None, None, "t-0", None),
    # ReplicaFetcherThread
    ("Replication is failing due to a message that is greater than replica.fetch.max.bytes for partition t-0. This generally occurs when the max.message.bytes has been overridden to exceed this value and a suitably large message has also been sent. To fix this problem increase replica.fetch.max.bytes in your broker config to be equal or larger than your settings for max.message.bytes, both at a broker and topic level.", OTHER, None, None, "t-0", None),
    # ReplicaManager
    ("Unable to fetch data from remote storage", OTHER, None, None, None, None),
    ("Ignoring LeaderAndIsr request from controller 7 with correlation id 7 epoch 9 for partition t-0 as the local replica for the partition is in an offline log directory", AFTER, None, None, "t-0", None),
    ("Topic ID in memory: 7 does not match the topic ID for partition t-0 received: 7.", DISK, "topic-id-mismatch", None, "t-0", None),
    ("Skipped the become-leader state change with correlation id 7 from controller 7 epoch 9 for partition t-0 (last update controller epoch 9) since the replica for the partition is offline due to storage error 7", AFTER, None, None, "t-0", None),
    ("Error while processing LeaderAndIsr request correlationId 7 received from controller 7 epoch 9 for partition t-0", DISK, "unreadable", None, "t-0", None),
    ("Skipped the become-follower state change with correlation id 7 from controller 7 epoch 9 for partition t-0 (last update controller epoch 9) with leader 7 since the replica for the partition is offline due to storage error 7", AFTER, None, None, "t-0", None),
    ("Error while processing LeaderAndIsr request with correlationId 7 received from controller 7 epoch 9", DISK, "unreadable", None, None, None),
    ("Error while processing LeaderAndIsr request with correlationId 7 received from controller 7 epoch 9 when trying to update topic IDs in the fetchers", DISK, "unreadable", None, None, None),
    (f"Shutdown broker because some log directory has failed during migration mode: {D}", AFTER, None, D, None, None),
    ("Unable to stop stray partition t-0", DISK, "partition-stray", None, "t-0", None),
    ("Failed to delete stray partition t-0 due to 9 exception: 7", DISK, "partition-stray", None, "t-0", None),
    ("Ignoring StopReplica request (delete=7) from controller 7 with correlation id 7 epoch 9 for partition t-0 as the local replica for the partition is in an offline log directory", AFTER, None, None, "t-0", None),
    ("Ignoring StopReplica request (delete=true) from controller 7 with correlation id 7 epoch 9 for partition t-0 as the local replica for the partition is in an offline log directory", AFTER, None, None, "t-0", None),
    ("Ignoring StopReplica request (delete=true) from controller 7 with correlation id 7 epoch 9 for partition t-0 due to an unexpected 7 exception: 7", DISK, "unreadable", None, "t-0", None),
    # TierStateMachine
    ("Couldn't build the state from remote store for partition: t-0, currentLeaderEpoch: 1, leaderLocalLogStartOffset: 2, leaderLogStartOffset: 3, epoch: 4as the previous remote log segment metadata was not found", OTHER, None, None, "t-0", None),
    # TransactionLog
    ("Unknown version 9 from the transaction log message value", DISK, "records-unreadable", None, None, None),
    # TransactionStateManager
    ("Unknown message key with version 9 while loading transaction state from __transaction_state-3. Ignoring it. It could be a left over from an aborted upgrade.", NOTE, None, None, "__transaction_state-3", None),
    # UnifiedLog
    ("The record batch size in the append to t-0 is 7 bytes which exceeds the maximum configured value of 7.", OTHER, None, None, "t-0", None),
    ("7Deleting non-empty leader epoch cache due to incompatible message format 9", NOTE, None, None, None, None),
    (f"Error while trying to delete partition metadata file {D}/t-0/partition.metadata", DISK, "unreadable", f"{D}/t-0/partition.metadata", "t-0", None),
    ("Record batch from t-0 with last offset 9 exceeded max record batch size 5 after cleaning (new size is 7). Consumers with version earlier than 0.10.1.0 may need to increase their fetch sizes.", NOTE, None, None, "t-0", 9),
    ("Unknown offset message version: 9", DISK, "records-unreadable", None, None, None),
    ("Fatal error during KafkaServer shutdown.", AFTER, None, None, None, None),
    ("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed", OTHER, None, None, None, None),
    ("The write event x for the timer y failed due to z. Ignoring it. ", OTHER, None, None, None, None),
    ("requirement failed: Group metadata/offset entry key should not be null", DISK, "records-unreadable", None, None, None),
    ("requirement failed: offset map is too small to fit in even a single message, so log cleaning will never make progress.", OTHER, None, None, None, None),
    ("Found stray partitions t-0,u-1", DISK, "partition-stray", None, None, None),
)  # fmt: skip

#: What 4.x logs and 3.9 does not.
ONLY_4: tuple[Row, ...] = (
    # BrokerMetadataPublisher
    ("Encountered metadata publishing fault: Error updating share coordinator with local changes in $deltaName", AFTER, None, None, None, None),
    ("Encountered metadata publishing fault: Error updating share partition manager  with share version feature change in $deltaName", AFTER, None, None, None, None),
    ("Encountered fatal fault: Error starting Share coordinator", AFTER, None, None, None, None),
    # ControlRecordType
    ("Invalid value size found for control record key. Must have at least 7 bytes, but found only 7", DISK, "marker-unreadable", None, None, None),
    # CoordinatorRuntime
    ("Failed to write the transaction marker to __consumer_offsets-3 because it is too large to be persisted. Consider increasing the maximum batch size.", OTHER, None, None, "__consumer_offsets-3", None),
    ("Failed to write the transaction marker to __consumer_offsets-3 due to an unexpected error: 7.", DISK, "unreadable", None, "__consumer_offsets-3", None),
    ("Failed to unload metadata for __consumer_offsets-3 with epoch 9 due to 9.", NOTE, None, None, "__consumer_offsets-3", None),
    ("Failed to unload metadata for __consumer_offsets-3 due to 9.", NOTE, None, None, "__consumer_offsets-3", None),
    ("Failed to unload coordinator for __consumer_offsets-3 due to 9.", NOTE, None, None, "__consumer_offsets-3", None),
    ("Failed to write a batch of 7 record(s) to __consumer_offsets-3 because it is larger than the maximum batch size of 7 bytes. This usually means that a single record is too large. Consider increasing the maximum batch size.", OTHER, None, None, "__consumer_offsets-3", None),
    ("Failed to write records to __consumer_offsets-3 due to an unexpected error: 7.", DISK, "unreadable", None, "__consumer_offsets-3", None),
    # EndTransactionMarker
    ("Invalid control record type for end transaction marker 7", DISK, "marker-unknown", None, None, None),
    # LocalLog
    ("Trying to roll a new log segment with start offset 9=max(provided offset = 9, LEO = 7) while it already exists and is active with size 0. Size of time index: 7, size of offset index: 7.", NOTE, "index-padded-clean", None, None, 9),
    ("Inconsistent segment sizes after split before: 7 after: 7", DISK, "offset-overflow", None, None, None),
    # LogCleaner
    ("Invalid value for `log.cleaner.threads`: must be >= 1 starting from Kafka 5.0 since log cleaner is always enabled.", OTHER, None, None, None, None),
    # LogManager
    ("The config `log.cleaner.enable` is deprecated and will be removed in Kafka 5.0. Starting from Kafka 5.0, the log cleaner will always be enabled, and this config will be ignored.", OTHER, None, None, None, None),
    # MetaPropertiesEnsemble
    (f"Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAA found in {D}/meta.properties", DISK, "directory-id-reserved", f"{D}/meta.properties", None, None),
    # PartitionMetadataReadBuffer
    (f"Unrecognized version of partition metadata file ({D}/t-0/partition.metadata): 7", DISK, "partition-metadata-malformed", f"{D}/t-0/partition.metadata", "t-0", None),
    (f"Malformed line in partition metadata file [{D}/t-0/partition.metadata]: 7", DISK, "partition-metadata-malformed", f"{D}/t-0/partition.metadata", "t-0", None),
    # ProducerAppendInfo
    ("Invalid sequence number for producer 1000 at offset 9 in partition t-0: 7 (incoming seq. number). Expected sequence 0 for transactions v2 idempotent producer with no existing state.", OTHER, None, None, "t-0", 9),
    ("transactionVersion must be explicitly specified, cannot use default value TV_UNKNOWN for origin 7", OTHER, None, None, None, None),
    # RemoteIndexCache
    ("Error occurred while cleaning up expired entry: 7", DISK, "unreadable", None, None, None),
    # RemoteLogManager
    ("Current task for partition t-0 received error but it will be scheduled", OTHER, None, None, None, None),
    # ReplicaManager
    (f"Log directory {D} is cordoned", OTHER, None, D, None, None),
    ("Unable to fetch data from remote storage for remoteFetchInfo: 7", OTHER, None, None, None, None),
    ("Partition eSxhGUWPRJKJoTIc7ymjZQ:t-0's topic id doesn't match the one on disk y.'", DISK, "topic-id-mismatch", None, "t-0", None),
    # ShutdownableThread
    ("Stopped due to fatal error with exit code 7", OTHER, None, None, None, None),
    # TransactionLog
    ("Unknown version 9 from the transaction log message key", DISK, "records-unreadable", None, None, None),
    # TransactionState
    ("Unknown transaction state id 7 from the transaction status message", DISK, "records-unreadable", None, None, None),
    # UnifiedLog
    ("The record batch size in the append to t-0 is 7 bytes which exceeds the maximum configured value of 7).", OTHER, None, None, "t-0", None),
    ("Tried to assign topic ID 7 to log for topic partition t-0, but log already contained topic ID 7", DISK, "topic-id-mismatch", None, "t-0", None),
    ("Epoch of producer 1 at offset 9 in t-0 is 2, which is smaller than the last seen epoch 3 (TV1)", NOTE, "producer-epoch-falls", None, "t-0", 9),
    ("Epoch of producer 1 is 2, which is smaller than the last seen epoch 3", OTHER, None, None, None, None),
)  # fmt: skip

#: What 4.4 logs and earlier releases do not.
ONLY_4_4: tuple[Row, ...] = (
    ("There was an error in one of the threads during logs loading", AFTER, None, None, None, None),
    ("There was an error in one of the threads during LogManager shutdown", DISK, None, None, None, None),
    ("The log for t-0 is already closed", AFTER, None, None, "t-0", None),
    ("Can not delete directory when log of t-0 is still open.", DISK, "directory-deleted", None, "t-0", None),
    *((f"Error while {what} for t-0 in dir {D}", DISK, "unreadable", D, "t-0", None) for what in ("taking producer state snapshot", "flushing producer state snapshot x", "preparing active segment for close", "closing log segments")),
    ("Inconsistent snapshot state: there must be a snapshot at an offset larger than the current log start offset 7, but the latest snapshot is x", DISK, "metadata-snapshot-missing", None, None, None),
    (f"java.io.UncheckedIOException: Unable to read bootstrap metadata from {D}/bootstrap.checkpoint", DISK, "bootstrap-malformed", f"{D}/bootstrap.checkpoint", None, None),
    ("Encountered fatal fault: Error while loading bootstrap snapshot 00000000000000000000-0000000000", DISK, "metadata-snapshot-damaged", None, None, None),
    ("InvalidRecordException: Invalid record size: -5 is negative.", DISK, "records-unreadable", None, None, None),
    ("InvalidRecordException: Invalid record size: 2000 exceeds the configured maximum record size of 1000.", DISK, "records-unreadable", None, None, None),
    (f"Unexpected aborted transaction version 9 in transaction index {D}/t-0/00000000000000000100.txnindex, supported version range is 0 to 0", DISK, "txnindex-version", f"{D}/t-0/00000000000000000100.txnindex", "t-0", None),
    (f"Failed to delete log for t-0 because it may be in one of the offline directories {D}", AFTER, None, D, "t-0", None),
)  # fmt: skip

LINES = (*BOTH, *ONLY_3, *ONLY_4, *ONLY_4_4)
