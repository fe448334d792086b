"""Messages about checkpoints, ``partition.metadata`` and ``meta.properties``.

Spec: CheckpointFile, MetaPropertiesEnsemble, PartitionMetadataFile and OffsetCheckpoints of 3.9 to
4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    configs,
    directory,
    epochs,
    file_names,
    meta_properties,
    partition_files,
    read_errors,
    topic,
)
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import ALL, DISK, FIRST, OFFLINE

_META: Final = (
    "Compare the file with meta.properties in the node's other log directories, and with node.id "
    "in server.properties."
)

_BUILD: Final = (
    "Stop the broker. For an offset checkpoint, run kdump reindex --apply on the log directory: it "
    "writes the file from the readable lines. For leader-epoch-checkpoint, run kdump reindex "
    "--apply on the partition: it writes the file from the batches."
)
_NUMBER: Final = (
    "The broker could not parse the name of a file in a partition, or a number in "
    "leader-epoch-checkpoint or another checkpoint. The broker did not start, or the part of it "
    "that read the file ended."
)

ROWS: Final = (
    # Checkpoints.
    BrokerMessage(
        "Unrecognised version:{}, expected version: {} in checkpoint file at: {path}",
        "A checkpoint file does not begin with its version. " + OFFLINE,
        _BUILD,
        (directory.CHECKPOINT_MALFORMED, partition_files.EPOCHS_MALFORMED),
        quoted=True,
        unquoted=(partition_files.EPOCHS_MALFORMED,),
    ),
    BrokerMessage(
        "Malformed line in checkpoint file [{path}]: {}",
        "A line of a checkpoint file does not follow its format. " + OFFLINE,
        _BUILD,
        (
            directory.CHECKPOINT_MALFORMED,
            partition_files.EPOCHS_MALFORMED,
            topic.PARTITION_METADATA_MALFORMED,
        ),
        quoted=True,
        unquoted=(topic.PARTITION_METADATA_MALFORMED,),
    ),
    BrokerMessage(
        "Expected [{}] entries in checkpoint file [{path}], but found only [{}]",
        "A checkpoint file has fewer lines than it announces: it is incomplete. " + OFFLINE,
        _BUILD,
        (directory.CHECKPOINT_MALFORMED, partition_files.EPOCHS_MALFORMED),
        quoted=True,
    ),
    BrokerMessage(
        "Error while reading checkpoint file {path}",
        OFFLINE,
        "The stack trace below the line shows whether the disk or the content is at fault.",
        (directory.CHECKPOINT_MALFORMED, partition_files.EPOCHS_MALFORMED),
        outer=True,
        quoted=True,
    ),
    BrokerMessage(
        "Error while writing to checkpoint file {path}",
        "The broker could not write a checkpoint file. The log directory went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Failed to write to checkpoint file {path}. This is ok if the topic/partition is being",
        "The broker could not write a checkpoint file of a partition, because the directory no "
        "longer existed.",
        "Nothing to do if the topic was being deleted. Otherwise, verify the partition.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Error occurred while reading recovery-point-offset-checkpoint file of directory {dir}, "
        "resetting the recovery checkpoint to 0",
        "The broker could not read the recovery points and used 0 instead. After an unclean "
        "shutdown, it recovered every segment.",
        "If startup continues, the broker writes the file again. If an earlier line says that the "
        "directory went offline, stop the broker. Then run kdump reindex --apply on the log "
        "directory: it writes the file from the readable lines.",
        (directory.CHECKPOINT_NUMBER, directory.CHECKPOINT_MALFORMED),
        outer=True,
    ),
    BrokerMessage(
        "Error occurred while reading log-start-offset-checkpoint file of directory {dir}, "
        "resetting to the base offset of the first segment",
        "The broker could not read the log start offsets. Each log began at its first segment, and "
        "records that were deleted with DeleteRecords are back.",
        "If this matters, delete these records again. If an earlier line says that the directory "
        "went offline, stop the broker. Then run kdump reindex --apply on the log directory: it "
        "writes the file from the readable lines.",
        (directory.CHECKPOINT_NUMBER, directory.CHECKPOINT_MALFORMED),
        outer=True,
    ),
    BrokerMessage(
        "Disk error while writing recovery offsets checkpoint in directory {dir}:",
        "The broker could not write the recovery points. The log directory went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Disk error while writing log start offsets checkpoint in directory {dir}:",
        "The broker could not write the log start offsets. The log directory went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Error while writing to highwatermark file in directory {dir}",
        "The broker could not write the high watermarks, because the log directory was offline or "
        "went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Unable to start fetching {partition} with topic ID {} due to NumberFormatException",
        "A number in replication-offset-checkpoint cannot be parsed. The broker runs, but serves "
        "neither this partition nor any other partition of that log directory.",
        "Stop the broker, run kdump reindex --apply on that log directory, and start the broker.",
        (directory.HIGH_WATERMARK_NUMBER,),
        everywhere=True,
        quoted=True,
    ),
    BrokerMessage(
        "Unable to start fetching {partition} with topic ID {} due to {}Exception",
        "The broker could not open a replica as a follower. The replica does not fetch.",
        "The stack trace below the line names the cause. Verify the partition.",
        outer=True,
    ),
    BrokerMessage(
        "Unable to start fetching {partition} with topic ID {} due to",
        "The broker could not open a replica as a follower. The replica does not fetch.",
        FIRST,
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    # meta.properties.
    BrokerMessage(
        "Error while reading meta.properties file {path}",
        "The broker could not read a meta.properties, or the file lacks a required property. The "
        "log directory is offline. If it was the only log directory, or the one with the metadata "
        "log, the node did not start.",
        _META,
        (meta_properties.META_PROPERTIES_UNREADABLE, meta_properties.META_PROPERTIES_OFFLINE),
        quoted=True,
    ),
    BrokerMessage(
        "No readable meta.properties files found.",
        "No log directory had a readable meta.properties. The node did not start.",
        _META + " On a new node, kafka-storage.sh format creates the file. Otherwise, check "
        "whether a file system is not mounted.",
        (meta_properties.META_PROPERTIES_UNREADABLE, directory.LOG_DIRECTORY_MISSING),
        quoted=True,
    ),
    BrokerMessage(
        "No `meta.properties` found in {dir}",
        "A log directory had no meta.properties: it is new and empty, or its file system was not "
        "mounted. The node did not start.",
        "Mount the file system, or run kafka-storage.sh format --ignore-formatted for a new "
        "directory.",
        (meta_properties.META_PROPERTIES_MISSING, directory.LOG_DIRECTORY_MISSING),
        quoted=True,
    ),
    BrokerMessage(
        "Invalid cluster.id in: {path}. Expected {}, but read {}",
        "A log directory belongs to another cluster. The node did not start.",
        "Find out which directory was put there by mistake. " + _META,
        (meta_properties.META_PROPERTIES_MISMATCH,),
        quoted=True,
    ),
    BrokerMessage(
        "Stored node id {} doesn't match previous node id {} in {path}. If you moved",
        "A log directory belongs to another node, or node.id was changed. The node did not start.",
        _META,
        (meta_properties.META_PROPERTIES_MISMATCH, meta_properties.NODE_ID_MISMATCH),
    ),
    *answer_alike(
        "A log directory belongs to another node, or broker.id or node.id was changed. The node "
        "did not start.",
        _META + " Do not delete meta.properties to get past this: it says which node the records "
        "belong to.",
        ("Configured node.id `{}` doesn't match stored node.id `{}' in meta.properties",),
        (meta_properties.NODE_ID_MISMATCH,),
        quoted=("Configured broker.id {} doesn't match stored broker.id {} in meta.properties",),
    ),
    *answer_alike(
        "The log directories of this node belong to several nodes or clusters. The node did not "
        "start.",
        "Find out which directory was put there by mistake. " + _META,
        (
            "Failed to match broker.id across log.dirs.",
            "BrokerMetadata is not consistent across log.dirs.",
        ),
        (meta_properties.META_PROPERTIES_MISMATCH,),
    ),
    BrokerMessage(
        "The Cluster ID {} doesn't match stored clusterId {} in meta.properties",
        "The log directory belongs to another cluster than the one in ZooKeeper: ZooKeeper lost "
        "its data, zookeeper.connect names another cluster, or the directory is from elsewhere. "
        "The broker did not start.",
        "Restore ZooKeeper's data, or correct zookeeper.connect. If you delete meta.properties, "
        "the broker joins the other cluster, which may delete its partitions.",
        (meta_properties.META_PROPERTIES_MISMATCH,),
    ),
    *answer_alike(
        "Two nodes have different cluster ids: one was formatted with another id, has a disk of "
        "another cluster, or asks the controllers of another cluster. It cannot join.",
        "Compare cluster.id in meta.properties of all nodes, and controller.quorum.voters or "
        "controller.quorum.bootstrap.servers. Do not format a log directory that has records "
        "again.",
        (
            "Unexpected error INCONSISTENT_CLUSTER_ID in {} response",
            "returned error INCONSISTENT_CLUSTER_ID",
            "InconsistentClusterIdException: Expected cluster ID {}, but got cluster ID",
            ".errors.InconsistentClusterIdException",
        ),
        (meta_properties.META_PROPERTIES_MISMATCH,),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "The broker could not read a meta.properties, or the file did not exist although the log "
        "directory is in use. The log directory is offline, or the broker did not start.",
        "On a new log directory, nothing to do. Otherwise, check whether its file system is "
        "mounted. " + _META,
        (
            "Failed to read meta.properties file under dir {path} due to",
            "Failed to read meta.properties file under dir {path}",
            "Fail to read meta.properties under log directory {dir}",
            "Fail to read {} under log directory {dir}",
            "Cannot start server since `meta.properties` could not be loaded from {dir}",
        ),
        (meta_properties.META_PROPERTIES_UNREADABLE, meta_properties.META_PROPERTIES_MISSING),
    ),
    BrokerMessage(
        "No meta.properties file under dir {path}",
        "A log directory has no meta.properties yet: it is new. The broker writes the file.",
        "Nothing to do for a new log directory. Otherwise, check whether its file system is "
        "mounted.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Failed to write meta.properties due to",
        "The broker could not write a meta.properties.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Duplicate directory ID {} found. It was the ID of {path}, but also of {}",
        "Two log directories have the same directory.id: one is a copy. The node did not start.",
        "Move the copy out of log.dirs.",
        (meta_properties.META_PROPERTIES_MISMATCH,),
    ),
    *answer_alike(
        "The directory.id of a meta.properties is a reserved id that names no directory. The node "
        "did not start.",
        _META,
        ("Invalid resrved directory ID {} found in {path}",),
        (meta_properties.DIRECTORY_ID_RESERVED,),
        quoted=("Invalid reserved directory ID {} found in {path}",),
    ),
    *answer_alike(
        "A meta.properties lacks a required property, or has content that no release writes. The "
        "node did not start.",
        _META,
        (
            "cluster.id was not specified in the v1 file: {path}",
            "node.id was not specified in {dir}",
            "Error: node ID not found in {dir}",
            "Error: cluster ID not found in {dir}",
            "Invalid meta.properties version string '{}'",
            "Unknown meta.properties version number {}",
            "Failed to find node.id",
            "Failed to find cluster.id",
            "cluster.id was not found.",
            "node.id was not found.",
            "Unable to read directory.id as a Uuid: {}",
            "Unable to read {} as a base-10 number.",
            "Found unexpected version in {path}. ZK-based brokers",
            "Found unexpected version in loaded `meta.properties`: {}",
            "Unrecognized version of the server meta.properties file: {}",
            "Failed to find required property {}",
            "Failed to parse {} property as an int: {}",
            "RuntimeException: Expected version {}, but got version {}",
        ),
        (meta_properties.META_PROPERTIES_UNREADABLE,),
    ),
    BrokerMessage(
        "Encountered I/O error in metadata log directory {dir}. Cannot continue.",
        "The node could not read the log directory with the metadata log. It did not start.",
        DISK,
        (meta_properties.META_PROPERTIES_UNREADABLE, directory.LOG_DIRECTORY_MISSING),
        quoted=True,
        unquoted=(meta_properties.META_PROPERTIES_UNREADABLE,),
    ),
    BrokerMessage(
        "Error while writing meta.properties to {dir}",
        "The broker could not write a meta.properties. The log directory is offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    # partition.metadata.
    *answer_alike(
        "A partition.metadata does not follow its format. The log directory went offline. If the "
        "broker had no other log directory, it exited.",
        "Stop the broker and run kdump reindex --apply on the partition: it writes the file with "
        "the id from the metadata log. Without that log, write two lines, version: 0 and topic_id: "
        "ID. kafka-topics.sh --describe shows the ID.",
        ("Unrecognized version of partition metadata file + ({path}): {}",),
        (topic.PARTITION_METADATA_MALFORMED,),
        quoted=(
            "Malformed line in partition metadata file [{path}]: {}",
            "Unrecognized version of partition metadata file ({path}): {}",
            "Invalid topic ID in partition metadata file ({path})",
        ),
    ),
    BrokerMessage(
        "Error while reading partition metadata file {path}",
        "The broker could not read a partition.metadata. The log directory went offline. If the "
        "broker had no other log directory, it exited.",
        "The stack trace below the line shows whether the disk or the content is at fault.",
        (topic.PARTITION_METADATA_MALFORMED,),
        outer=True,
        quoted=True,
    ),
    *answer_alike(
        "A partition.metadata is empty or incomplete, or holds no topic id. The broker did not "
        "start. The line does not name the partition.",
        "Run kdump next-start on the log directory: it names the file. While the broker is "
        "stopped, kdump reindex --apply on the partition writes it with the id from the metadata "
        "log.",
        (
            "PartitionMetadataFile$PartitionMetadataReadBuffer",
            'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null',
        ),
        (topic.PARTITION_METADATA_FATAL,),
        quoted=(
            "Input string `{}` decoded as {} bytes, which is not equal to the expected 16 bytes",
            "PartitionMetadataReadBuffer.read",
        ),
    ),
    BrokerMessage(
        "Error while writing partition metadata file {path}",
        "The broker could not write a partition.metadata. The log directory went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Error while trying to delete partition metadata file {path}",
        "The broker could not delete a partition.metadata.",
        DISK,
        (read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "The topic id {} will not be persisted to the partition metadata file since the partition",
        "The partition was being deleted.",
        "Nothing to do.",
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "The topic id in a partition.metadata differs from the cluster's id for the topic of this "
        "name. The file or directory was copied, or the topic was created again. The broker does "
        "not serve the replica.",
        "Find out where the directory came from before you change the file.",
        (
            "Tried to assign topic ID {} to log for topic partition {partition}, but log already "
            "contained topic ID {}",
            "Tried to record topic ID {} to file but had already recorded {}",
            "Partition {}:{partition}'s topic id doesn't match the one on disk",
            "'s topic id doesn't match the one on disk",
            "Topic ID in memory: {} does not match the topic ID for partition {partition} ",
        ),
        (topic.TOPIC_ID_MISMATCH,),
        quoted=(
            "Tried to assign topic ID {} to log for topic partition {partition},but log already "
            "contained topic ID {}",
            "due to InconsistentTopicIdException",
        ),
    ),
    # Names of files.
    *answer_alike(
        _NUMBER,
        ALL,
        ("java.lang.NumberFormatException: Cannot parse null string",),
        (
            file_names.FILE_NAME_REFUSED,
            partition_files.EPOCHS_NUMBER,
            directory.CHECKPOINT_NUMBER,
            directory.HIGH_WATERMARK_NUMBER,
        ),
        quoted=('java.lang.NumberFormatException: For input string: "{}"',),
        unquoted=(directory.CHECKPOINT_NUMBER, directory.HIGH_WATERMARK_NUMBER),
    ),
    *answer_alike(
        _NUMBER,
        ALL,
        ("java.lang.StringIndexOutOfBoundsException: Range [0, 20) out of bounds for length {}",),
        (
            file_names.FILE_NAME_REFUSED,
            partition_files.EPOCHS_NUMBER,
            directory.CHECKPOINT_NUMBER,
            directory.HIGH_WATERMARK_NUMBER,
        ),
        quoted=("java.lang.StringIndexOutOfBoundsException: begin 0, end 20, length {}",),
        unquoted=(
            partition_files.EPOCHS_NUMBER,
            directory.CHECKPOINT_NUMBER,
            directory.HIGH_WATERMARK_NUMBER,
        ),
    ),
    BrokerMessage(
        "Received invalid partition leader epoch entry {}",
        "A leader-epoch-checkpoint, or a batch of the log, has a negative leader epoch. The broker "
        "did not start, or a follower does not append the batch and stays out of sync.",
        ALL,
        (partition_files.EPOCHS_NUMBER, epochs.LEADER_EPOCH_NEGATIVE, epochs.LEADER_EPOCH_ABSENT),
        quoted=True,
    ),
    BrokerMessage(
        "Invalid value {} for configuration segment.bytes: Value must be at least 1048576",
        "A topic has segment.bytes below 1 MiB, which brokers from 4.1 on do not accept. The "
        "broker did not start.",
        "Start the release from before the upgrade. Raise segment.bytes of that topic, then "
        "upgrade.",
        (configs.SETTING_REFUSED, topic.SEGMENT_BYTES_SMALL),
        kind=Subject.ELSEWHERE,
        quoted=True,
        unquoted=(configs.SETTING_REFUSED,),
    ),
    # The name of a file or class, in the message or in a frame of the stack trace, distinguishes
    # codes that share a message.
    *(
        BrokerMessage(pattern, OFFLINE, ALL, found, outer=True)
        for pattern, found in (
            (
                "/leader-epoch-checkpoint",
                (partition_files.EPOCHS_MALFORMED, partition_files.EPOCHS_NUMBER),
            ),
            ("-offset-checkpoint", (directory.CHECKPOINT_MALFORMED, directory.CHECKPOINT_NUMBER)),
            ("/partition.metadata", (topic.PARTITION_METADATA_MALFORMED,)),
            (
                "LeaderEpochCheckpointFile",
                (partition_files.EPOCHS_MALFORMED, partition_files.EPOCHS_NUMBER),
            ),
            ("OffsetCheckpoints", (directory.HIGH_WATERMARK_NUMBER,)),
            (
                "OffsetCheckpointFile",
                (directory.CHECKPOINT_NUMBER, directory.HIGH_WATERMARK_NUMBER),
            ),
            ("offsetFromFile", (file_names.FILE_NAME_REFUSED,)),
        )
    ),
    *answer_alike(
        "A request named a topic id that the topic of this name does not have, as after the topic "
        "was created again.",
        "Nothing to do, unless the line recurs: in that case, verify the log directory.",
        (
            "Topic ID in the fetch session did not match the topic ID in the log",
            "The log's topic ID did not match the topic ID in the request",
            "exists, but its ID is {}, not {} as expected",
        ),
        kind=Subject.NOTE,
    ),
)
