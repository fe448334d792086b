"""What a broker logs of its log directories as a whole, mostly when it starts.

Spec: LogManager, MetaPropertiesEnsemble, KafkaRaftServer, CheckpointFile, LogDirFailureChannel and
ReplicaManager of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.message import Kind, Message

_STOPPED: Final = "The broker did not start, and has removed the clean marker by then."
_ALL: Final = "Run kdump next-start: it lists every reason at once, where a broker names the first."
_META: Final = (
    "Compare the file with those of the node's other log directories, and with node.id in "
    "server.properties."
)
_OFFLINE: Final = (
    "The broker could not use this file and took the log directory offline. With no other log "
    "directory it exited."
)
_DISK: Final = (
    "Look at the system's log and the free space of that file system. Once the disk works, restart "
    "the broker: a log directory stays offline until then."
)
_FIRST: Final = "Read the line that it follows from: that one names the cause."

ROWS: Final = (
    Message(
        "Found directory {path}, '{}' is not in the form of topic-partition",
        Kind.DISK,
        "A directory that is no partition stood in the log directory. " + _STOPPED,
        "Move it away, or let log.dirs name a directory below. " + _ALL,
        (codes.FOREIGN_DIRECTORY,),
    ),
    Message(
        "Duplicate log directories for {partition} are found in both {path} and {}",
        Kind.DISK,
        "The same partition stood in two log directories. " + _STOPPED,
        "Verify both, and move the shorter or older copy out of its log directory.",
        (codes.PARTITION_TWICE,),
    ),
    Message(
        "Duplicate log directories found: {path}, {}",
        Kind.DISK,
        "The same partition stood in two log directories. " + _STOPPED,
        "Verify both, and move the shorter or older copy out of its log directory.",
        (codes.PARTITION_TWICE,),
    ),
    Message(
        "Found unexpected metadata location in data directory {}",
        Kind.DISK,
        "A second __cluster_metadata-0 stood in a log directory that is not the metadata log's. "
        "The broker did not start.",
        "See metadata.log.dir in server.properties, and move the one that it does not name away.",
        (codes.PARTITION_TWICE,),
    ),
    Message(
        "Duplicate log directory found: {}",
        Kind.ELSEWHERE,
        "log.dirs names the same directory twice. The broker did not start.",
        "Correct log.dirs in server.properties.",
    ),
    # Checkpoints.
    Message(
        "Unrecognised version:{}, expected version: {} in checkpoint file at: {path}",
        Kind.DISK,
        "A checkpoint file does not begin with its version. " + _OFFLINE,
        "Read the file; deleting an offset checkpoint while the broker is stopped costs recovery.",
        (codes.CHECKPOINT_MALFORMED, codes.EPOCHS_MALFORMED),
    ),
    Message(
        "Malformed line in checkpoint file [{path}]: {}",
        Kind.DISK,
        "A line of a checkpoint file does not follow its format. " + _OFFLINE,
        "Read the file, and see what it is for before it is deleted.",
        (
            codes.CHECKPOINT_MALFORMED,
            codes.EPOCHS_MALFORMED,
            codes.PARTITION_METADATA_MALFORMED,
        ),
    ),
    Message(
        "Expected [{}] entries in checkpoint file [{path}], but found only [{}]",
        Kind.DISK,
        "A checkpoint file has fewer lines than it announces: it was cut off. " + _OFFLINE,
        "Read the file, and see what it is for before it is deleted.",
        (codes.CHECKPOINT_MALFORMED, codes.EPOCHS_MALFORMED),
    ),
    Message(
        "Error while reading checkpoint file {path}",
        Kind.DISK,
        _OFFLINE,
        "The trace below the line says whether the disk or the content is at fault.",
        (codes.CHECKPOINT_MALFORMED, codes.EPOCHS_MALFORMED),
        outer=True,
    ),
    Message(
        "Error while writing to checkpoint file {path}",
        Kind.DISK,
        "A checkpoint file could not be written, and the log directory went offline.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "Failed to write to checkpoint file {path}. This is ok if the topic/partition is being",
        Kind.NOTE,
        "A checkpoint file of a partition could not be written because its directory was gone.",
        "Nothing to do if the topic was being deleted. Otherwise verify the partition.",
    ),
    Message(
        "Error occurred while reading recovery-point-offset-checkpoint file of directory {path}, "
        "resetting the recovery checkpoint to 0",
        Kind.DISK,
        "The recovery points could not be read, and were taken for 0: after an unclean stop every "
        "segment was recovered.",
        "If the start goes on, the file is written again. If a line before took the directory "
        "offline, correct or delete the file while the broker is stopped.",
        (codes.CHECKPOINT_NUMBER, codes.CHECKPOINT_MALFORMED),
        outer=True,
    ),
    Message(
        "Error occurred while reading log-start-offset-checkpoint file of directory {path}, "
        "resetting to the base offset of the first segment",
        Kind.DISK,
        "The log starts could not be read: each log began at its first segment, and records that "
        "were deleted with DeleteRecords are back.",
        "Delete these records again where that matters. If a line before took the directory "
        "offline, correct or delete the file while the broker is stopped.",
        (codes.CHECKPOINT_NUMBER, codes.CHECKPOINT_MALFORMED),
        outer=True,
    ),
    Message(
        "Disk error while writing recovery offsets checkpoint in directory {path}:",
        Kind.DISK,
        "The recovery points could not be written, and the log directory went offline.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "Disk error while writing log start offsets checkpoint in directory {path}:",
        Kind.DISK,
        "The log starts could not be written, and the log directory went offline.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "Error while writing to highwatermark file in directory {path}",
        Kind.DISK,
        "The high watermarks could not be written, because the log directory is or went offline.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "Unable to start fetching {partition} with topic ID {} due to NumberFormatException",
        Kind.DISK,
        "A number in replication-offset-checkpoint does not parse: the broker runs, but does not "
        "serve this partition, nor any other of that log directory.",
        "Stop the broker, delete replication-offset-checkpoint of that log directory, start it.",
        (codes.HIGH_WATERMARK_NUMBER,),
        everywhere=True,
    ),
    # meta.properties.
    Message(
        "Error while reading meta.properties file {path}",
        Kind.DISK,
        "A meta.properties could not be read, or lacks what it must have: its log directory was "
        "left out, and if it was the only one or that of the metadata log, nothing started.",
        _META,
        (codes.META_PROPERTIES_UNREADABLE,),
    ),
    Message(
        "No readable meta.properties files found.",
        Kind.DISK,
        "No log directory had a meta.properties that could be read. Nothing started.",
        _META + " On a new node kafka-storage.sh format makes it; a file system may be missing.",
        (codes.META_PROPERTIES_UNREADABLE, codes.LOG_DIRECTORY_MISSING),
    ),
    Message(
        "No `meta.properties` found in {path}",
        Kind.DISK,
        "A log directory had no meta.properties: it is new and empty, or its file system was not "
        "mounted. Nothing started.",
        "Mount it, or run kafka-storage.sh format --ignore-formatted for a new directory.",
        (codes.META_PROPERTIES_MISSING, codes.LOG_DIRECTORY_MISSING),
    ),
    Message(
        "Invalid cluster.id in: {path}. Expected {}, but read {}",
        Kind.DISK,
        "A log directory belongs to another cluster. Nothing started.",
        "Find out which directory was put there by mistake. " + _META,
        (codes.META_PROPERTIES_MISMATCH,),
    ),
    Message(
        "Stored node id {} doesn't match previous node id {} in {path}. If you moved",
        Kind.DISK,
        "A log directory belongs to another node, or node.id was changed. Nothing started.",
        _META,
        (codes.META_PROPERTIES_MISMATCH, codes.NODE_ID_MISMATCH),
    ),
    Message(
        "Duplicate directory ID {} found. It was the ID of {path}, but also of {}",
        Kind.DISK,
        "Two log directories have the same directory.id: one was copied. Nothing started.",
        "Move the copy out of log.dirs.",
        (codes.META_PROPERTIES_MISMATCH,),
    ),
    Message(
        "Invalid reserved directory ID {} found in {path}",
        Kind.DISK,
        "The directory.id of a meta.properties is one of those that name no directory. Nothing "
        "started.",
        _META,
        (codes.META_PROPERTIES_MISMATCH,),
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A meta.properties lacks what it must have, or holds what no release writes. Nothing "
            "started.",
            _META,
            (codes.META_PROPERTIES_UNREADABLE,),
        )
        for pattern in (
            "cluster.id was not specified in the v1 file: {path}",
            "node.id was not specified in {path}",
            "Error: node ID not found in {path}",
            "Error: cluster ID not found in {path}",
            "Invalid meta.properties version string '{}'",
            "Unknown meta.properties version number {}",
            "Failed to find node.id",
            "Failed to find cluster.id",
            "cluster.id was not found.",
            "node.id was not found.",
            "Unable to read directory.id as a Uuid: {}",
            "Found unexpected version in {path}. ZK-based brokers",
        )
    ),
    Message(
        "Encountered I/O error in metadata log directory {path}. Cannot continue.",
        Kind.DISK,
        "The log directory with the metadata log could not be read. Nothing started.",
        _DISK,
        (codes.META_PROPERTIES_UNREADABLE,),
    ),
    Message(
        "Error while writing meta.properties to {path}",
        Kind.DISK,
        "A meta.properties could not be written, and the log directory was left out.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    # Directories that could not be used.
    Message(
        "Failed to acquire lock on file .lock in {path}. A Kafka instance in another process",
        Kind.ELSEWHERE,
        "Another process holds this log directory: a broker that runs already, or a repair by "
        "kdump. The broker did not start, and has changed nothing.",
        "See which broker runs on it. Do not delete .lock: that lets two brokers write.",
    ),
    Message(
        "Failed to create data directory {path}",
        Kind.DISK,
        "A log directory was not there and could not be made.",
        "Mount its file system, or correct log.dirs and the rights of the directory above.",
        (codes.UNREADABLE,),
    ),
    Message(
        "{path} is not a readable log directory.",
        Kind.DISK,
        "A log directory could not be read by the broker's user, or is no directory.",
        "Correct its owner and rights (those of the files in it too), then restart the broker.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Failed to load {path} during broker startup",
        Kind.CONSEQUENCE,
        "This log directory had already failed when the broker came to it.",
        _FIRST,
        outer=True,
    ),
    Message(
        "Failed to create or validate data directory {path}",
        Kind.DISK,
        "A log directory could not be made, read or resolved. It is offline.",
        _DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Disk error while locking directory {path}",
        Kind.DISK,
        "The .lock of a log directory could not be opened. It is offline.",
        "Correct the owner and rights of .lock and of its directory; see whether the file system "
        "is mounted read-only.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Shutdown broker because none of the specified log dirs from {path} can be created or",
        Kind.CONSEQUENCE,
        "Every log directory had failed. The broker exited.",
        _FIRST,
    ),
    Message(
        "Error while loading log dir {path}",
        Kind.DISK,
        "A file of this log directory could not be read while its logs were loaded. It is offline.",
        "The trace below the line names the file. " + _DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "There was an error in one of the threads during logs loading:",
        Kind.CONSEQUENCE,
        "A log could not be loaded, and the broker did not start.",
        _FIRST + " Where none does, the trace says what failed. " + _ALL,
        outer=True,
    ),
    Message(
        "There was an error in one of the threads during LogManager shutdown:",
        Kind.DISK,
        "A log could not be closed: the next start recovers it.",
        _DISK,
        outer=True,
    ),
    Message(
        "The log dir {path} is already offline due to a previous IO exception.",
        Kind.CONSEQUENCE,
        "The log directory had gone offline before.",
        _FIRST,
        outer=True,
    ),
    Message(
        "Error while loading logs in {path} in {}ms",
        Kind.NOTE,
        "The broker was done with this partition, well or not: 4.x logs it for each.",
        "Nothing to do.",
        everywhere=True,
    ),
    # An offline log directory.
    Message(
        "Shutdown broker because all log dirs in {path} have failed",
        Kind.CONSEQUENCE,
        "The last log directory had gone offline. The broker exited.",
        _FIRST,
    ),
    Message(
        "Shutdown broker because the metadata log dir {path} has failed",
        Kind.CONSEQUENCE,
        "The log directory with the metadata log had gone offline. The broker exited.",
        _FIRST,
    ),
    Message(
        "Shutdown broker because some log directory has failed during migration mode: {path}",
        Kind.CONSEQUENCE,
        "A log directory had gone offline during the migration from ZooKeeper. The broker exited.",
        _FIRST,
    ),
    Message(
        "Halting broker because dir {path} is offline",
        Kind.CONSEQUENCE,
        "A log directory had gone offline. The broker exited.",
        _FIRST,
    ),
    *(
        Message(
            pattern,
            Kind.CONSEQUENCE,
            "A log directory had gone offline: its partitions are not served until a restart.",
            _FIRST,
        )
        for pattern in (
            "Stopping serving logs in dir {path}",
            "Stopped serving logs in dir {path}",
            "Stopping serving replicas in dir {path} with uuid {} because the log directory",
            "Stopping serving replicas in dir {path}",
            "Stopped serving replicas in dir {path}",
            "Stopping cleaning logs in dir {path}",
            "are offline due to failure on log directory {path}",
            "because they are in the failed log directory {path}.",
        )
    ),
    Message(
        "Unable to propagate directory failure disabled because directory {path} has no UUID",
        Kind.CONSEQUENCE,
        "A log directory without directory.id had failed. The broker exited.",
        _FIRST,
    ),
    Message(
        "Shutting down because couldn't communicate offline log dir {} with controllers",
        Kind.CONSEQUENCE,
        "A log directory had gone offline, and no controller could be reached to be informed. The "
        "broker exited.",
        _FIRST,
    ),
    *(
        Message(
            pattern,
            Kind.CONSEQUENCE,
            "The replica is in a log directory that had gone offline.",
            _FIRST,
            outer=True,
        )
        for pattern in (
            "for partition {partition} as the local replica for the partition is in an offline",
            "Unable to delete replica {partition} because the local replica for the partition is",
            "Unable to bring up new local leader {partition} with topic id {} because it resides "
            "in an offline log directory",
            "since the replica for the partition is offline due to storage error",
            "Unable to start fetching {partition} with topic ID {} due to a storage error",
            "Can not create log for {partition} because log directories {path} are offline",
            "The current replica for {partition} is offline",
            "The future replica for {partition} is offline",
            "because it may be in one of the offline directories {path}",
            "Skipping creation of log because there are potentially offline log directories",
        )
    ),
    # Strays.
    Message(
        "The topicId does not exist in {path}, treat it as a stray log",
        Kind.DISK,
        "A partition had no partition.metadata. The broker renamed it to -stray and serves it no "
        "more; its records are still there. It has made an empty replica in its place.",
        "If its records are missed, stop the broker and run kdump salvage on the -stray directory.",
        (codes.TOPIC_ID_MISSING, codes.TOPIC_ID_MISSING_EMPTY),
    ),
    Message(
        "Found stray log dir {}: the current replica assignment {} does not contain the local "
        "brokerId {}.",
        Kind.DISK,
        "The cluster does not have this partition on this node. The broker renamed it to -stray.",
        "Nothing to do if the partition was moved while the broker was down. Its records are "
        "still in the -stray directory.",
        (codes.PARTITION_STRAY,),
    ),
    Message(
        "Found stray log dir {}: the topicId {} does not exist in the metadata image",
        Kind.DISK,
        "The cluster does not know the topic id of this partition. It was renamed to -stray.",
        "Nothing to do if the topic was deleted while the broker was down. If the directory is "
        "from a backup or another cluster, or records of the metadata log were lost, its records "
        "are still in the -stray directory.",
        (codes.PARTITION_STRAY, codes.PARTITION_STRAY_CUT),
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "The broker renamed a partition to -stray: its topic id is missing, or the cluster "
            "does not have it on this node. It is not served; its records are still there.",
            "Nothing to do if the topic was deleted or moved. If its records are missed, keep the "
            "-stray directory: kdump salvage reads it.",
            (codes.PARTITION_STRAY, codes.DIRECTORY_STRAY, codes.PARTITION_STRAY_CUT),
        )
        for pattern in (
            "Log in {path} marked stray and renamed to {}",
            "Log for partition {partition} is marked as stray and renamed to {path}",
        )
    ),
    Message(
        "Loaded stray log: {path}",
        Kind.NOTE,
        "A directory that an earlier start had renamed to -stray is still there.",
        "If nobody misses its records it can go.",
        (codes.DIRECTORY_STRAY,),
    ),
    Message(
        "Found stray partitions {}",
        Kind.DISK,
        "The cluster does not have these partitions on this node: they became -stray or went.",
        "Nothing to do if their topics were deleted or moved while the broker was down.",
        (codes.PARTITION_STRAY,),
    ),
    Message(
        "Unable to stop stray partition {partition}",
        Kind.DISK,
        "A partition that the cluster does not have on this node could not be closed.",
        "The trace below the line says why.",
        (codes.PARTITION_STRAY,),
    ),
    Message(
        "Failed to delete stray partition {partition} due to",
        Kind.DISK,
        "A partition that the cluster does not have on this node could not be removed.",
        _DISK,
        (codes.PARTITION_STRAY,),
    ),
    Message(
        "does not have a topic ID, which is not allowed when running in KRaft mode.",
        Kind.DISK,
        "A partition had no partition.metadata. The broker did not start.",
        "Write the file, or move the directory away.",
        (codes.TOPIC_ID_MISSING,),
    ),
    # partition.metadata.
    *(
        Message(
            pattern,
            Kind.DISK,
            "A partition.metadata does not follow its format. The log directory went offline; "
            "with no other the broker exited.",
            "Write version: 0, then topic_id: and the id that kafka-topics.sh --describe prints.",
            (codes.PARTITION_METADATA_MALFORMED,),
        )
        for pattern in (
            "Malformed line in partition metadata file [{path}]: {}",
            "Unrecognized version of partition metadata file ({path}): {}",
            "Invalid topic ID in partition metadata file ({path})",
        )
    ),
    Message(
        "Error while reading partition metadata file {path}",
        Kind.DISK,
        "A partition.metadata could not be read. The log directory went offline; with no other "
        "the broker exited.",
        "The trace below the line says whether the disk or the content is at fault.",
        (codes.PARTITION_METADATA_MALFORMED,),
        outer=True,
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A partition.metadata is empty, cut off, or holds no topic id. The broker did not "
            "start. The line does not name the partition.",
            _ALL,
            (codes.PARTITION_METADATA_FATAL,),
        )
        for pattern in (
            "Input string `{}` decoded as {} bytes, which is not equal to the expected 16 bytes",
            "PartitionMetadataReadBuffer.read",
            "PartitionMetadataFile$PartitionMetadataReadBuffer",
            'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null',
        )
    ),
    Message(
        "Error while writing partition metadata file {path}",
        Kind.DISK,
        "A partition.metadata could not be written, and the log directory went offline.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "Error while trying to delete partition metadata file {path}",
        Kind.DISK,
        "A partition.metadata could not be deleted.",
        _DISK,
        (codes.UNREADABLE,),
    ),
    Message(
        "The topic id {} will not be persisted to the partition metadata file since the partition",
        Kind.NOTE,
        "The partition was being deleted.",
        "Nothing to do.",
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A partition.metadata has the id of another topic than the cluster has under this "
            "name: a copied file or directory, or a topic that was made again. The replica is not "
            "served.",
            "Find out where the directory is from before the file is changed.",
            (codes.TOPIC_ID_MISMATCH,),
        )
        for pattern in (
            "Tried to assign topic ID {} to log for topic partition {partition},but log already "
            "contained topic ID {}",
            "Topic ID in memory: {} does not match the topic ID for partition {partition} ",
            "due to InconsistentTopicIdException",
        )
    ),
    # Names of files.
    *(
        Message(
            pattern,
            Kind.DISK,
            "A name or a number could not be read as one: of a file in a partition, or in "
            "leader-epoch-checkpoint or another checkpoint. The broker did not start, or the part "
            "of it that read the file ended.",
            _ALL,
            (
                codes.FILE_NAME_REFUSED,
                codes.EPOCHS_NUMBER,
                codes.CHECKPOINT_NUMBER,
                codes.HIGH_WATERMARK_NUMBER,
            ),
        )
        for pattern in (
            'java.lang.NumberFormatException: For input string: "{}"',
            "java.lang.NumberFormatException: Cannot parse null string",
            "java.lang.StringIndexOutOfBoundsException: begin 0, end 20, length {}",
            "java.lang.StringIndexOutOfBoundsException: Range [0, 20) out of bounds for length {}",
        )
    ),
    Message(
        "Received invalid partition leader epoch entry {}",
        Kind.DISK,
        "A leader-epoch-checkpoint, or a batch of the log, has a negative leader epoch. A broker "
        "did not start; or a follower does not append the batch, and stays out of sync.",
        _ALL,
        (codes.EPOCHS_NUMBER, codes.LEADER_EPOCH_NEGATIVE, codes.LEADER_EPOCH_ABSENT),
    ),
    Message(
        "Invalid value {} for configuration segment.bytes: Value must be at least 1048576",
        Kind.ELSEWHERE,
        "A topic has segment.bytes below 1 MiB, which brokers from 4.1 on do not take. The broker "
        "did not start.",
        "Start the release from before the upgrade, raise segment.bytes of that topic, upgrade.",
        (codes.SEGMENT_BYTES_SMALL,),
    ),
    # The name of a file, in a message or a frame, tells codes apart that share one.
    *(
        Message(pattern, Kind.DISK, _OFFLINE, _ALL, found, outer=True)
        for pattern, found in (
            ("/leader-epoch-checkpoint", (codes.EPOCHS_MALFORMED, codes.EPOCHS_NUMBER)),
            ("-offset-checkpoint", (codes.CHECKPOINT_MALFORMED, codes.CHECKPOINT_NUMBER)),
            ("/partition.metadata", (codes.PARTITION_METADATA_MALFORMED,)),
            ("LeaderEpochCheckpointFile", (codes.EPOCHS_MALFORMED, codes.EPOCHS_NUMBER)),
            ("OffsetCheckpoints", (codes.HIGH_WATERMARK_NUMBER,)),
            ("offsetFromFile", (codes.FILE_NAME_REFUSED,)),
        )
    ),
    # Deletion of whole logs.
    *(
        Message(
            pattern,
            Kind.DISK,
            "A log that was to be deleted could not be removed, or not whole.",
            _DISK,
            (codes.UNREADABLE,),
        )
        for pattern in (
            "Exception while deleting {} in dir {path}.",
            "Exception in kafka-delete-logs thread.",
            "Failed to schedule next delete in kafka-delete-logs thread",
            "Unable to delete replica {partition} because we got an unexpected",
        )
    ),
)
