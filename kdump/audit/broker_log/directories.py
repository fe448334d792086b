"""Messages about log directories as a whole, mostly at a start.

Spec: LogManager, LogDirFailureChannel, KafkaRaftServer and ReplicaManager of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.answers import ALL, DISK, FIRST, NOTHING
from kdump.audit.broker_log.message import Kind, Message, answer_alike

_STOPPED: Final = "The broker did not start, and has removed the clean marker by then."

ROWS: Final = (
    Message(
        "Found directory {path}, '{}' is not in the form of topic-partition",
        Kind.DISK,
        "A directory that is no partition stood in the log directory. " + _STOPPED,
        "Move it away, or let log.dirs name a directory below. " + ALL,
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
        "Found unexpected metadata location in data directory `{path}` (the configured metadata",
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
    # Directories that could not be used.
    Message(
        "Failed to acquire lock on file .lock in {path}. A Kafka instance in another process",
        Kind.ELSEWHERE,
        "Another process holds this log directory: a broker that runs already, or a repair by "
        "kdump. The broker did not start. In KRaft it had opened its metadata log before it met "
        "the lock, and may have written to it.",
        "See which broker runs on it. Do not delete .lock: that lets two brokers write. If that "
        "broker runs in KRaft, stop it and verify __cluster_metadata-0.",
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
        FIRST,
        outer=True,
    ),
    Message(
        "Failed to create or validate data directory {path}",
        Kind.DISK,
        "A log directory could not be made, read or resolved. It is offline.",
        DISK,
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
        FIRST,
    ),
    Message(
        "Error while loading log dir {path}",
        Kind.DISK,
        "A file of this log directory could not be read while its logs were loaded. It is offline.",
        "The trace below the line names the file. " + DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "There was an error in one of the threads during logs loading:",
        Kind.CONSEQUENCE,
        "A log could not be loaded, and the broker did not start.",
        FIRST + " Where none does, the trace says what failed. " + ALL,
        outer=True,
    ),
    Message(
        "There was an error in one of the threads during LogManager shutdown:",
        Kind.DISK,
        "A log could not be closed: the next start recovers it.",
        DISK,
        outer=True,
    ),
    Message(
        "The log dir {path} is already offline due to a previous IO exception.",
        Kind.CONSEQUENCE,
        "The log directory had gone offline before.",
        FIRST,
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
        FIRST,
    ),
    Message(
        "Shutdown broker because the metadata log dir {path} has failed",
        Kind.CONSEQUENCE,
        "The log directory with the metadata log had gone offline. The broker exited.",
        FIRST,
    ),
    Message(
        "Shutdown broker because some log directory has failed during migration mode: {path}",
        Kind.CONSEQUENCE,
        "A log directory had gone offline during the migration from ZooKeeper. The broker exited.",
        FIRST,
    ),
    Message(
        "Halting broker because dir {path} is offline",
        Kind.CONSEQUENCE,
        "A log directory had gone offline. The broker exited.",
        FIRST,
    ),
    *answer_alike(
        Kind.CONSEQUENCE,
        "A log directory had gone offline: its partitions are not served until a restart.",
        FIRST,
        (
            "Stopping serving logs in dir {path}",
            "Stopped serving logs in dir {path}",
            "Stopping serving replicas in dir {path} with uuid {} because the log directory",
            "Stopping serving replicas in dir {path}",
            "Stopped serving replicas in dir {path}",
            "Stopping cleaning logs in dir {path}",
            "are offline due to failure on log directory {path}",
            "because they are in the failed log directory {path}.",
        ),
    ),
    Message(
        "Unable to propagate directory failure disabled because directory {path} has no UUID",
        Kind.CONSEQUENCE,
        "A log directory without directory.id had failed. The broker exited.",
        FIRST,
    ),
    Message(
        "Shutting down because couldn't communicate offline log dir {} with controllers",
        Kind.CONSEQUENCE,
        "A log directory had gone offline, and no controller could be reached to be informed. The "
        "broker exited.",
        FIRST,
    ),
    *answer_alike(
        Kind.CONSEQUENCE,
        "The replica is in a log directory that had gone offline.",
        FIRST,
        (
            "for partition {partition} as the local replica for the partition is in an offline",
            "Unable to delete replica {partition} because the local replica for the partition is",
            "Unable to bring up new local leader {partition} with topic id {} because it resides "
            "in an offline log directory",
            "for partition {partition} (last update controller epoch {}){} since the replica for "
            "the partition is offline due to storage error",
            "Unable to start fetching {partition} with topic ID {} due to a storage error",
            "Can not create log for {partition} because log directories {path} are offline",
            "The current replica for {partition} is offline",
            "The future replica for {partition} is offline",
            "Failed to delete log for {} {partition} because it may be in one of the offline "
            "directories {path}",
            "Can not create log {partition} because log directory {path} is offline",
            "Can not create log {} because log directory {path} is offline",
            "No log directories available. Tried {path}",
            "Partition {partition} is in an offline log directory",
            "Partition {partition} is offline",
            "Log directory {path} is offline",
            "No checkpoint file for log dir {path}",
            "The memory mapped buffer for log of {partition} is already closed",
            "Skipping creation of log because there are potentially offline log directories",
        ),
        outer=True,
    ),
    *answer_alike(
        Kind.CONSEQUENCE,
        "The replica is not open on this broker.",
        FIRST,
        (
            "Log for partition {partition} is not available on broker {}",
            "Future log for partition {partition} is not available on broker {}",
        ),
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
    *answer_alike(
        Kind.DISK,
        "The broker renamed a partition to -stray: its topic id is missing, or the cluster "
        "does not have it on this node. It is not served; its records are still there.",
        "Nothing to do if the topic was deleted or moved. If its records are missed, keep the "
        "-stray directory: kdump salvage reads it.",
        (
            "Log in {path} marked stray and renamed to {}",
            "Log for partition {partition} is marked as stray and renamed to {path}",
        ),
        (codes.PARTITION_STRAY, codes.DIRECTORY_STRAY, codes.PARTITION_STRAY_CUT),
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
        DISK,
        (codes.PARTITION_STRAY,),
    ),
    Message(
        "does not have a topic ID, which is not allowed when running in KRaft mode.",
        Kind.DISK,
        "A -future directory, to which a replica was moved, had no partition.metadata. The broker "
        "did not start.",
        "If the partition is there without -future too, move the -future directory away. If not, "
        "it is the only copy here: write its partition.metadata.",
        (codes.TOPIC_ID_MISSING,),
    ),
    # Deletion of whole logs.
    *answer_alike(
        Kind.DISK,
        "A log that was to be deleted could not be removed, or not whole.",
        DISK,
        (
            "Exception while deleting {} in dir {path}.",
            "Exception in kafka-delete-logs thread.",
            "Failed to schedule next delete in kafka-delete-logs thread",
            "Unable to delete replica {partition} because we got an unexpected",
        ),
        (codes.UNREADABLE,),
    ),
    # Moves between log directories.
    Message(
        "Unable to alter log dirs for {partition}",
        Kind.NOTE,
        "A move of a replica to another log directory was refused.",
        "The trace below the line says why: a directory that is offline or not in log.dirs.",
        outer=True,
    ),
    *answer_alike(
        Kind.NOTE,
        "A move of a replica to another log directory was refused: it is there already, or moves "
        "to a third one.",
        NOTHING,
        (
            "Can not create the future log for {partition} without having a preferred",
            "Can not create the future log for {partition} in the current log directory",
            "The future log dir {path} of {partition} is different from the requested log dir",
        ),
    ),
    Message(
        "Error while changing replica dir for partition {partition}",
        Kind.DISK,
        "A move of a replica to another log directory failed.",
        "The trace below the line says why.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        Kind.DISK,
        "A log directory could not be described, most likely because it is offline.",
        DISK,
        (
            "Unable to describe replica dirs for {path}",
            "Error while describing replica in dir {path}",
        ),
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Expected partition {partition} with topic id {} to exist, but it was missing. Creating...",
        Kind.DISK,
        "The directory of a replica that this broker should have was not there. An empty one was "
        "made, which copies everything from the leader.",
        "If nobody meant that, see whether a file system was not mounted.",
        (codes.REPLICA_MISSING, codes.REPLICA_MISSING_ONLY),
    ),
    *answer_alike(
        Kind.DISK,
        "The directory of a replica could not be made, and the log directory went offline.",
        DISK,
        (
            "Error while creating log for {partition} in dir {path}",
            "Error while creating log for {} in dir {path}",
        ),
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Disk error while loading ID {path}",
        Kind.DISK,
        "The meta.properties of a log directory could not be read. It is offline.",
        DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        Kind.DISK,
        "A directory that log.dirs or metadata.log.dir names was not there, or is a file. Nothing "
        "started.",
        "Mount its file system, or correct server.properties.",
        ("Path {path} exists, but is not a directory.", "No such directory as {path}"),
        (codes.LOG_DIRECTORY_MISSING,),
    ),
    *answer_alike(
        Kind.ELSEWHERE,
        "A move of a replica named a log directory that log.dirs does not have, or that takes no "
        "new replicas.",
        "Correct the directory in the reassignment.",
        (
            "Log dir {path} is not found in the config.",
            "The user-specified log directory is not found in the broker config.",
            "Log directory {path} is cordoned",
        ),
    ),
    *answer_alike(
        Kind.ELSEWHERE,
        "A controller did not take a report of which log directories hold this broker's replicas. "
        "The broker reports again.",
        "Nothing to do for the disks.",
        (
            "assignments failed; global error: {}. Retrying.",
            "handleResponse: no result in response for partition {}:{partition}.",
            "handleResponse: response contained topicIdPartition {}:{partition}, but this was",
            "handleResponse: error assigning {}:{partition}: {}",
        ),
    ),
    *answer_alike(
        Kind.ELSEWHERE,
        "log.dirs and metadata.log.dir contradict each other. Nothing started.",
        "Correct server.properties.",
        (
            "Cannot specify more than one metadata log directory. Already specified {path}",
            "You must specify at least one log directory.",
            "No metadata log directory was specified.",
            "Error: log directory {path} is in both {}",
            "Error: metaLogDir {path} does not appear in",
        ),
    ),
)
