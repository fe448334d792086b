"""Messages about log directories as a whole, mostly at a start.

Spec: LogManager, LogDirFailureChannel, KafkaRaftServer and ReplicaManager of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import assigned_replicas, directory, file_types, node, read_errors, topic
from kdump.commands.explain.broker_log.message import BrokerMessage, FollowUp, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import ALL, DISK, FIRST, NOTHING

_STOPPED: Final = "The broker removed the clean shutdown file, and then did not start."

ROWS: Final = (
    BrokerMessage(
        "Found directory {entry}, '{}' is not in the form of topic-partition",
        "The log directory contained a directory that does not have the name of a "
        "partition. " + _STOPPED,
        "Move the directory away. Or move all of the broker's files into a subdirectory, and set "
        "log.dirs to that subdirectory. " + ALL,
        (directory.FOREIGN_DIRECTORY,),
        step=FollowUp.START,
        quoted=True,
    ),
    *answer_alike(
        "The log directory contained a directory that does not have the name of a partition. "
        "Brokers before 0.9 do not name it, and do not start.",
        "Move away what is not named TOPIC-NUMBER, such as lost+found. Or move all of the broker's "
        "files into a subdirectory, and set log.dirs to that subdirectory. " + ALL,
        (
            "java.lang.NumberFormatException: {}\n{}parseTopicPartitionName",
            "java.lang.StringIndexOutOfBoundsException: {}\n{}parseTopicPartitionName",
            "java.lang.StringIndexOutOfBoundsException: String index out of range: -1",
            "java.lang.StringIndexOutOfBoundsException: begin 0, end -1, length {}",
        ),
        (directory.FOREIGN_DIRECTORY,),
        step=FollowUp.START,
    ),
    *answer_alike(
        "Two log directories contained the same partition. " + _STOPPED,
        "Verify both directories, and move the one with the shorter or older log out of its log "
        "directory.",
        (),
        (node.PARTITION_TWICE,),
        step=FollowUp.START,
        quoted=(
            "Duplicate log directories for {partition} are found in both {path} and {second}",
            "Duplicate log directories found: {path}, {second}",
        ),
    ),
    BrokerMessage(
        "Found unexpected metadata location in data directory `{path}` (the configured metadata",
        "A log directory other than the configured one contained __cluster_metadata-0. The broker "
        "did not start.",
        "Check metadata.log.dir in server.properties. If that directory has a __cluster_metadata-0 "
        "too, move the other one away. If not, name the directory that has it.",
        (node.PARTITION_TWICE, node.METADATA_LOG_MISPLACED),
    ),
    BrokerMessage(
        "Duplicate log directory found: {}",
        "log.dirs names the same directory twice. The broker did not start.",
        "Correct log.dirs in server.properties.",
        kind=Subject.ELSEWHERE,
    ),
    # Log directories that the broker cannot use.
    BrokerMessage(
        "Failed to acquire lock on file .lock in {dir}. A Kafka instance in another process",
        "Another process holds the lock of this log directory: a running broker, or a repair by "
        "kdump. The broker did not start. In KRaft, it opened its metadata log before it found the "
        "lock, and may have written to it.",
        "Check which broker uses the directory. Do not delete .lock: without it, two brokers can "
        "write at the same time. If that broker runs in KRaft, stop it and verify "
        "__cluster_metadata-0.",
        kind=Subject.ELSEWHERE,
    ),
    BrokerMessage(
        "Failed to create data directory {dir}",
        "A log directory did not exist, and the broker could not create it.",
        "Mount its file system, or correct log.dirs and the permissions of the parent directory.",
        (read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "{dir} is not a readable log directory.",
        "The broker's user could not read a log directory, or the path is not a directory.",
        "Correct the owner and permissions of the directory and of the files in it. Then restart "
        "the broker.",
        (read_errors.UNREADABLE, directory.LOG_DIRECTORY_FILE),
        quoted=True,
        unquoted=(read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Failed to load {dir} during broker startup",
        "This log directory failed before the broker began to load it.",
        FIRST,
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    BrokerMessage(
        "Failed to create or validate data directory {dir}",
        "The broker could not create, read or resolve a log directory. The directory is offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Disk error while locking directory {dir}",
        "The broker could not open the .lock file of a log directory. The directory is offline.",
        "Correct the owner and permissions of .lock and of its directory. Check whether the file "
        "system is mounted read-only.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Shutdown broker because none of the specified log dirs from {dir} can be created or",
        "All log directories failed. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Error while loading log dir {dir}",
        "The broker could not read a file of this log directory while it loaded the logs. The "
        "directory is offline.",
        "The stack trace below the line names the file. " + DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "There was an error in one of the threads during logs loading",
        "The broker could not load a log, and did not start.",
        FIRST + " If there is no such line, the stack trace shows the failure. " + ALL,
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    BrokerMessage(
        "There was an error in one of the threads during LogManager shutdown",
        "The broker could not close a log. The next startup recovers that log.",
        DISK,
        outer=True,
    ),
    BrokerMessage(
        "The log dir {dir} is already offline due to a previous IO exception.",
        "The log directory went offline earlier.",
        FIRST,
        kind=Subject.CONSEQUENCE,
        decides=True,
    ),
    BrokerMessage(
        "Error while loading logs in {path} in {}ms",
        "The broker finished loading this partition, with or without success. Brokers of 4.x log "
        "this line for every partition.",
        "Nothing to do.",
        kind=Subject.NOTE,
        everywhere=True,
    ),
    # Consequences of an offline log directory.
    BrokerMessage(
        "Shutdown broker because all log dirs in {dir} have failed",
        "The last log directory went offline. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Shutdown broker because the metadata log dir {dir} has failed",
        "The log directory with the metadata log went offline. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Shutdown broker because some log directory has failed during migration mode: {dir}",
        "A log directory went offline during the migration from ZooKeeper. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Halting broker because dir {dir} is offline",
        "A log directory went offline. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "A log directory went offline. The broker does not serve its partitions until a restart.",
        FIRST,
        (
            "Stopping serving logs in dir {dir}",
            "Stopped serving logs in dir {dir}",
            "Stopping serving replicas in dir {dir} with uuid {} because the log directory",
            "Stopping serving replicas in dir {dir}",
            "Stopped serving replicas in dir {dir}",
            "Stopping cleaning logs in dir {dir}",
            "are offline due to failure on log directory {dir}",
            "because they are in the failed log directory {dir}",
        ),
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Unable to propagate directory failure disabled because directory {dir} has no UUID",
        "A log directory without a directory.id failed. The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Shutting down because couldn't communicate offline log dir {} with controllers",
        "A log directory went offline, and the broker could not reach a controller to report it. "
        "The broker exited.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "The replica is in a log directory that went offline.",
        FIRST,
        (
            "for partition {partition} as the local replica for the partition is in an offline",
            "Unable to delete replica {partition} because the local replica for the partition is",
            "Unable to bring up new local leader {partition} with topic id {} because it resides "
            "in an offline log directory",
            "for partition {partition} (last update controller epoch {}){} since the replica for "
            "the partition is offline due to storage error",
            "Unable to start fetching {partition} with topic ID {} due to a storage error",
            "Can not create log for {partition} because log directories {dir} are offline",
            "The current replica for {partition} is offline",
            "The future replica for {partition} is offline",
            "Failed to delete log for {} {partition} because it may be in one of the offline "
            "directories {dir}",
            "Can not create log {partition} because log directory {dir} is offline",
            "Can not create log {} because log directory {dir} is offline",
            "No log directories available. Tried {dir}",
            "Partition {partition} is in an offline log directory",
            "Partition {partition} is offline",
            "Log directory {dir} is offline",
            "No checkpoint file for log dir {dir}",
            "The memory mapped buffer for log of {partition} is already closed",
            "The log for {partition} is already closed",
            "Skipping creation of log because there are potentially offline log directories",
        ),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    *answer_alike(
        "The replica is not open on this broker.",
        FIRST,
        (
            "Log for partition {partition} is not available on broker {}",
            "Future log for partition {partition} is not available on broker {}",
        ),
        kind=Subject.CONSEQUENCE,
    ),
    # Stray partitions.
    BrokerMessage(
        "The topicId does not exist in {path}, treat it as a stray log",
        "A partition had no partition.metadata. The broker renamed its directory to -stray and "
        "does not serve it. The records are still there. The broker created an empty replica in "
        "its place.",
        "If you need the records, stop the broker and run kdump salvage on the -stray directory.",
        (topic.TOPIC_ID_MISSING, topic.TOPIC_ID_MISSING_EMPTY),
        quoted=True,
    ),
    BrokerMessage(
        "Found stray log dir {}: the current replica assignment {} does not contain the local "
        "brokerId {}.",
        "According to the cluster's metadata, this node is not a replica of this partition. The "
        "broker renamed the directory to -stray.",
        "Nothing to do if the partition was moved while the broker was down. The records are still "
        "in the -stray directory.",
        (topic.PARTITION_STRAY,),
        quoted=True,
    ),
    BrokerMessage(
        "Found stray log dir {}: the topicId {} does not exist in the metadata image",
        "The cluster does not know the topic id of this partition. The broker renamed the "
        "directory to -stray.",
        "Nothing to do if the topic was deleted while the broker was down. If the directory is "
        "from a backup or another cluster, or the metadata log lost records, the partition's "
        "records are still in the -stray directory.",
        (topic.PARTITION_STRAY, topic.PARTITION_STRAY_ONLY, topic.PARTITION_STRAY_CUT),
        quoted=True,
    ),
    *answer_alike(
        "The broker renamed a partition to -stray. Its topic id is missing, or the cluster's "
        "metadata does not assign it to this node. The broker does not serve the partition, but "
        "the records are still there.",
        "Nothing to do if the topic was deleted or moved. If you need the records, keep the -stray "
        "directory: kdump salvage reads it.",
        ("Log for partition {partition} is marked as stray and renamed to {path}",),
        (topic.PARTITION_STRAY, file_types.DIRECTORY_STRAY, topic.PARTITION_STRAY_CUT),
        quoted=("Log in {path} marked stray and renamed to {}",),
    ),
    BrokerMessage(
        "Loaded stray log: {path}",
        "A directory that an earlier startup renamed to -stray still exists.",
        "If you do not need its records, you can delete the directory.",
        (file_types.DIRECTORY_STRAY, assigned_replicas.REPLICA_SET_ASIDE_ONLY),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Found stray partitions {}",
        "According to the cluster's metadata, this node is not a replica of these partitions. The "
        "broker renamed their directories to -stray, or deleted them.",
        "Nothing to do if their topics were deleted or moved while the broker was down.",
        (topic.PARTITION_STRAY,),
    ),
    BrokerMessage(
        "Unable to stop stray partition {partition}",
        "The broker could not close a partition that the cluster's metadata does not assign to "
        "this node.",
        "The stack trace below the line names the cause.",
        (topic.PARTITION_STRAY,),
    ),
    BrokerMessage(
        "Failed to delete stray partition {partition} due to",
        "The broker could not delete a partition that the cluster's metadata does not assign to "
        "this node.",
        DISK,
        (topic.PARTITION_STRAY,),
    ),
    BrokerMessage(
        "does not have a topic ID, which is not allowed when running in KRaft mode.",
        "The directory of a replica, or a -future directory to which the broker was moving one, "
        "had no partition.metadata. The broker did not start.",
        "While the broker is stopped, kdump reindex --apply on the partition writes "
        "partition.metadata. If the partition also exists without -future, move the -future "
        "directory away instead. Releases from 3.7.1 on rename such a replica to -stray.",
        (topic.TOPIC_ID_MISSING,),
    ),
    # Deletion of whole logs.
    *answer_alike(
        "The broker could not delete a log, or deleted only a part of it.",
        DISK,
        (
            "Exception while deleting {} in dir {dir}",
            "Exception in kafka-delete-logs thread.",
            "Failed to schedule next delete in kafka-delete-logs thread",
            "Unable to delete replica {partition} because we got an unexpected",
        ),
        (read_errors.UNREADABLE,),
    ),
    # Moves between log directories.
    BrokerMessage(
        "Unable to alter log dirs for {partition}",
        "The broker refused to move a replica to another log directory.",
        "The stack trace below the line names the cause: the directory is offline, or is not in "
        "log.dirs.",
        kind=Subject.NOTE,
        outer=True,
    ),
    *answer_alike(
        "The broker refused to move a replica to another log directory. The replica is already "
        "there, or is being moved to a third directory.",
        NOTHING,
        (
            "Can not create the future log for {partition} without having a preferred",
            "Can not create the future log for {partition} in the current log directory",
            "The future log dir {dir} of {partition} is different from the requested log dir",
        ),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Error while changing replica dir for partition {partition}",
        "A move of a replica to another log directory failed.",
        "The stack trace below the line names the cause.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The broker could not describe a log directory, most likely because the directory is "
        "offline.",
        DISK,
        (
            "Unable to describe replica dirs for {dir}",
            "Error while describing replica in dir {dir}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Expected partition {partition} with topic id {} to exist, but it was missing. Creating...",
        "The directory of a replica that belongs on this broker was missing. The broker created an "
        "empty replica, which fetches all records from the leader.",
        "If this was not intended, check whether a file system is not mounted.",
        (node.REPLICA_MISSING, node.REPLICA_MISSING_ONLY),
    ),
    *answer_alike(
        "The broker could not create the directory of a replica. The log directory went offline.",
        DISK,
        (),
        (read_errors.UNREADABLE, node.PARTITION_IS_FILE),
        outer=True,
        quoted=(
            "Error while creating log for {partition} in dir {dir}",
            "Error while creating log for {} in dir {dir}",
        ),
        unquoted=(read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Disk error while loading ID {dir}",
        "The broker could not read the meta.properties of a log directory. The directory is "
        "offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "A directory in log.dirs or metadata.log.dir did not exist, or was a file. The node did "
        "not start.",
        "Mount its file system, or correct server.properties.",
        ("Path {dir} exists, but is not a directory.", "No such directory as {dir}"),
        (directory.LOG_DIRECTORY_MISSING,),
    ),
    *answer_alike(
        "A request to move a replica named a log directory that is not in log.dirs, or that "
        "accepts no new replicas.",
        "Correct the directory in the reassignment.",
        (
            "Log dir {dir} is not found in the config.",
            "The user-specified log directory is not found in the broker config.",
            "Log directory {dir} is cordoned",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "A controller did not accept the broker's report about the log directories of its "
        "replicas. The broker sends the report again.",
        "Nothing to do for the disks.",
        (
            "assignments failed; global error: {}. Retrying.",
            "handleResponse: no result in response for partition {}:{partition}.",
            "handleResponse: response contained topicIdPartition {}:{partition}, but this was",
            "handleResponse: error assigning {}:{partition}: {}",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "log.dirs and metadata.log.dir contradict each other. The node did not start.",
        "Correct server.properties.",
        (
            "Cannot specify more than one metadata log directory. Already specified {dir}",
            "You must specify at least one log directory.",
            "No metadata log directory was specified.",
            "Error: log directory {dir} is in both {}",
            "Error: metaLogDir {dir} does not appear in",
        ),
        kind=Subject.ELSEWHERE,
    ),
)
