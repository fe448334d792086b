"""Finding codes of log directories and the files at their top.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Harm, Outcome, Severity

FOREIGN_DIRECTORY: Final = FindingCode(
    "foreign-directory",
    Severity.ERROR,
    "A directory at the top of the log directory does not have the name of a partition. An example "
    "is lost+found, where the log directory is the top of a file system.",
    "The broker does not start, even if everything else is sound. By then it has already removed "
    "the clean shutdown marker.",
    "Move the directory away. Or move all of the broker's files into a subdirectory, and set "
    "log.dirs to that subdirectory.",
    check=29,
    stops=Outcome.REFUSES,
)
PARTITION_TWICE: Final = FindingCode(
    "partition-twice",
    Severity.ERROR,
    "Two directories hold the same partition: a move between log directories was interrupted, or a "
    "directory was copied.",
    "The broker does not start while both are there.",
    "Compare them with kdump verify and kdump dump. Keep the directory whose last batch has the "
    "higher leader epoch or, if these are equal, the one with the higher log end offset. Move the "
    "other one out of the log directory.",
    check=29,
    stops=Outcome.REFUSES,
)
CHECKPOINT_MALFORMED: Final = FindingCode(
    "checkpoint-malformed",
    Severity.ERROR,
    "An offset checkpoint does not follow its format: a version line, a count line, then lines of "
    "three fields.",
    "The broker takes the whole log directory offline, and stops if it has no other log directory.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines. Without its line, a partition loses its recovery point or its log start "
    "offset: the broker recovers the whole log after an unclean stop, or serves deleted records "
    "again.",
    check=26,
    stops=Outcome.OFFLINE,
)
CHECKPOINT_NUMBER: Final = FindingCode(
    "checkpoint-number",
    Severity.WARNING,
    "A number in recovery-point-offset-checkpoint, log-start-offset-checkpoint or "
    "cleaner-offset-checkpoint cannot be parsed.",
    "For recovery-point-offset-checkpoint, the broker uses 0 for every partition, and recovers "
    "every segment after an unclean stop. For log-start-offset-checkpoint, each log begins at its"
    " first segment, and deleted records come back. For cleaner-offset-checkpoint, the cleaner "
    "thread ends, and compaction stops.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines.",
    check=26,
)
HIGH_WATERMARK_NUMBER: Final = FindingCode(
    "high-watermark-number",
    Severity.ERROR,
    "A number in replication-offset-checkpoint cannot be parsed.",
    "The broker starts, but serves no partition of the log directory.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "readable lines. For a partition without a line, the broker takes the log start offset as the "
    "high watermark.",
    check=26,
    harm=Harm.UNSERVED,
)
CHECKPOINT_LINE_UNKNOWN: Final = FindingCode(
    "checkpoint-line-unknown",
    Severity.INFO,
    "A checkpoint has lines for partitions that are not in the log directory.",
    "The broker ignores these lines, and omits them when it next writes the file.",
    "Nothing to do, unless those partitions should be here: in that case they were removed.",
    check=26,
)
REPLICA_MISSING: Final = FindingCode(
    "replica-missing",
    Severity.WARNING,
    "The directory of a partition is missing, although a checkpoint has a line for it and the "
    "cluster's metadata names this node as a replica. It was removed, or it is on a file system "
    "that is not mounted.",
    "The broker creates an empty replica, which copies all records from the leader.",
    "If this was not intended, bring the directory back before the broker starts. Otherwise make "
    "sure that another replica is in sync.",
    check=26,
)
REPLICA_MISSING_ONLY: Final = FindingCode(
    "replica-missing-only",
    Severity.ERROR,
    "The directory of a partition is missing, although a checkpoint has a line for it. According "
    "to the cluster's metadata, no other replica may lead: this node has the only one, or the only "
    "one in sync, or in the ELR where none is in sync.",
    "The broker creates an empty replica and leads it: offsets are assigned a second time, "
    "starting at 0, and other replicas truncate their logs.",
    "Bring the directory back before the broker starts, from a backup if necessary.",
    check=26,
    harm=Harm.EMPTY,
)
REPLICA_DIRECTORY_MISSING: Final = FindingCode(
    "replica-directory-missing",
    Severity.WARNING,
    "The cluster's metadata assigns replicas of this node to a log directory that is not in sight: "
    "log.dirs no longer names it, or it is not among the paths. Other replicas may lead.",
    "If log.dirs does not name the directory, the broker creates the replicas again in another "
    "one, empty, and fetches all records from their leaders.",
    "If this was not intended, name the directory in log.dirs again before the broker starts. "
    "Otherwise make sure that the other replicas are in sync and run.",
    check=26,
    harm=Harm.REFETCHED,
)
REPLICA_DIRECTORY_MISSING_ONLY: Final = FindingCode(
    "replica-directory-missing-only",
    Severity.ERROR,
    "The cluster's metadata assigns replicas of this node to a log directory that is not in sight: "
    "log.dirs no longer names it, or it is not among the paths. No other replica may lead: this is "
    "the only one, or the only one in sync, or in the ELR where none is in sync.",
    "If log.dirs does not name the directory, the broker creates the replicas again in another "
    "one, empty, and leads them: offsets are assigned a second time, starting at 0, and other "
    "replicas truncate their logs.",
    "Name the directory in log.dirs again, or bring its file system back, before the broker "
    "starts. If the disk is lost and other replicas exist, kdump compare shows what these hold.",
    check=26,
    harm=Harm.EMPTY,
)
META_PROPERTIES_UNREADABLE: Final = FindingCode(
    "meta-properties-unreadable",
    Severity.ERROR,
    "A meta.properties does not follow its format, or lacks a required property.",
    "The broker does not start. Only where the file does not follow its format, and neither is "
    "the log directory with the metadata log nor the only one, it starts without the directory.",
    "Compare the file with meta.properties in the node's other log directories. There cluster.id "
    "and node.id are the same, and directory.id is not.",
    stops=Outcome.REFUSES,
)
META_PROPERTIES_OFFLINE: Final = FindingCode(
    "meta-properties-offline",
    Severity.ERROR,
    "A meta.properties does not follow its format. The metadata log is in another log directory.",
    "The broker takes the log directory offline, and continues with its other log directories.",
    "Compare the file with meta.properties in the node's other log directories. There cluster.id "
    "and node.id are the same, and directory.id is not.",
    stops=Outcome.OFFLINE,
)
META_PROPERTIES_MISSING: Final = FindingCode(
    "meta-properties-missing",
    Severity.ERROR,
    "A log directory of a KRaft node has no meta.properties, although another log directory of the "
    "node has one.",
    "The broker does not start.",
    "If the directory is new and empty, kafka-storage.sh format --ignore-formatted prepares it. "
    "Otherwise its file system may not be mounted.",
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_MISSING: Final = FindingCode(
    "log-directory-missing",
    Severity.ERROR,
    "A log directory that the configuration names does not exist, or holds none of a broker's "
    "files. Or it is a file, and may be the one of the metadata log.",
    "The broker does not start.",
    "Its file system may not be mounted: mount it, and verify again. If the directory is new, "
    "kafka-storage.sh format --ignore-formatted prepares it.",
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_BLANK: Final = FindingCode(
    "log-directory-blank",
    Severity.ERROR,
    "A broker that uses ZooKeeper has a log directory in its configuration that does not exist, or "
    "holds none of a broker's files.",
    "The broker treats it as a new directory and creates its replicas again, empty. A follower "
    "fetches all records again. A leader assigns offsets a second time, starting at 0.",
    "Its file system may not be mounted: mount it before the broker starts. If the directory is "
    "new, there is nothing to do.",
    harm=Harm.EMPTY,
)
LOG_DIRECTORY_FILE: Final = FindingCode(
    "log-directory-file",
    Severity.ERROR,
    "A log directory that the configuration names is a file.",
    "The broker takes the log directory offline, and continues with its other log directories. It "
    "stops if it has no other.",
    "Correct log.dirs, or move the file away. Its file system may not be mounted: mount it, and "
    "verify again.",
    stops=Outcome.OFFLINE,
)
META_PROPERTIES_MISMATCH: Final = FindingCode(
    "meta-properties-mismatch",
    Severity.ERROR,
    "The meta.properties of two log directories cannot belong to the same node.",
    "The broker does not start.",
    "Compare node.id, cluster.id and directory.id in the meta.properties of all log directories. "
    "Remove the directory that belongs to another node, or that is a copy, from log.dirs.",
    stops=Outcome.REFUSES,
)
DIRECTORY_ID_RESERVED: Final = FindingCode(
    "directory-id-reserved",
    Severity.ERROR,
    "The directory.id in a meta.properties is one of the first 100 UUIDs, which Kafka reserves.",
    "The broker does not start.",
    "Remove the line directory.id from the file: the broker writes a new id at its start. Or put "
    "back the id that kdump metadata shows for the directory.",
    stops=Outcome.REFUSES,
)
DIRECTORY_ID_TAKEN: Final = FindingCode(
    "directory-id-taken",
    Severity.ERROR,
    "The directory.id in a meta.properties is that of a log directory which another broker has "
    "registered: the log directory, or its meta.properties, is a copy.",
    "The broker does not start: the controller refuses to register it. The broker tries it for a "
    "minute (initial.broker.registration.timeout.ms) and ends.",
    "If the directory belongs to the other node, mount it there, or put back node.id. If it stays "
    "here, remove the line directory.id from the file: the broker writes a new id at its start.",
    stops=Outcome.REFUSES,
)
METADATA_LOG_MISPLACED: Final = FindingCode(
    "metadata-log-misplaced",
    Severity.ERROR,
    "The directory __cluster_metadata-0 is in another log directory than the one that the "
    "configuration names for it: metadata.log.dir, or the first of log.dirs.",
    "The broker does not start.",
    "Set metadata.log.dir to the log directory that holds __cluster_metadata-0.",
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_TWICE: Final = FindingCode(
    "log-directory-twice",
    Severity.ERROR,
    "The configuration names the same log directory twice, as through a symbolic link.",
    "The broker does not start.",
    "Remove one of the two from log.dirs.",
    stops=Outcome.REFUSES,
)
METADATA_LOG_FILE: Final = FindingCode(
    "metadata-log-file",
    Severity.ERROR,
    "A file, or a symbolic link to nothing, has the name __cluster_metadata-0.",
    "The broker does not start.",
    "If it is a link, mount the file system that it leads to. Otherwise put the directory back: an "
    "empty metadata log is not that of the cluster.",
    check=28,
    stops=Outcome.REFUSES,
)
PARTITION_IS_FILE: Final = FindingCode(
    "partition-is-file",
    Severity.ERROR,
    "A file, or a symbolic link to nothing, has the name of a replica that the cluster's metadata "
    "assigns to this log directory.",
    "The broker tries to create the replica's directory, and takes the whole log directory "
    "offline. It stops if it has no other log directory.",
    "If it is a link, mount the file system that it leads to. Otherwise put the directory back, or "
    "move the file away: the broker then creates the replica empty.",
    check=28,
    stops=Outcome.OFFLINE,
)
NODE_ID_MISMATCH: Final = FindingCode(
    "node-id-mismatch",
    Severity.ERROR,
    "The node.id in meta.properties differs from the node.id in server.properties.",
    "The broker does not start.",
    "If node.id in server.properties is wrong, correct it. If the directory belongs to another "
    "node, mount it there: it has the partitions of that node.",
    stops=Outcome.REFUSES,
)
BOOTSTRAP_MALFORMED: Final = FindingCode(
    "bootstrap-malformed",
    Severity.ERROR,
    "A bootstrap.checkpoint does not follow its format, or has no metadata.version.",
    "The broker does not start.",
    "Copy the file from another controller. If __cluster_metadata-0 holds records, the broker does "
    "not need this file: move it away, and the broker starts.",
    stops=Outcome.REFUSES,
)
REMOTE_CACHE_DAMAGED: Final = FindingCode(
    "remote-cache-damaged",
    Severity.ERROR,
    "The directory remote-log-index-cache is a file, or holds a file that does not belong there, "
    "or an index that is damaged. It has copies of the indexes of segments in remote storage.",
    "A broker with remote storage does not start. Without remote storage, the broker does not "
    "read the directory.",
    "Move remote-log-index-cache away. The broker makes it again, and fetches the indexes when it "
    "needs them.",
    stops=Outcome.REFUSES,
)
CLEAN_MARKER_LIVE: Final = FindingCode(
    "clean-marker-live",
    Severity.INFO,
    "The clean shutdown marker is there although a broker uses the directory. The broker is "
    "starting or stopping, or the marker was put back.",
    "The broker checks for the marker only when it starts.",
    "If the marker stays while the broker runs, remove it: otherwise a crash is taken for a clean "
    "stop.",
    check=37,
)
CLEAN_MARKER_DIRECTORY: Final = FindingCode(
    "clean-marker-directory",
    Severity.ERROR,
    "A directory that is not empty has the name of the clean shutdown marker.",
    "The broker cannot remove it and takes the whole log directory offline. It stops if it has no "
    "other log directory. An empty directory counts as the marker.",
    "Move the directory away. The next start then takes the shutdown for unclean.",
    check=29,
    stops=Outcome.OFFLINE,
)
FOREIGN_FILE: Final = FindingCode(
    "foreign-file",
    Severity.INFO,
    "The file does not belong to Kafka.",
    "The broker ignores the file. In a partition, the file is deleted together with the topic.",
    "Nothing to do.",
    check=28,
)
DIRECTORY_DELETED: Final = FindingCode(
    "directory-deleted",
    Severity.INFO,
    "A broker is about to delete this partition permanently.",
    "The broker loads the partition without recovery and removes it a minute later.",
    "To free space, you can delete the directory. To preserve its data, copy it before a broker "
    "starts.",
    check=28,
)
DIRECTORY_STRAY: Final = FindingCode(
    "directory-stray",
    Severity.INFO,
    "A broker renamed this partition: the cluster's metadata did not assign it to this broker, or "
    "it had no topic id.",
    "The broker loads the log, and recovers it after an unclean stop, but serves no record of it "
    "and never deletes it.",
    "If the records are not needed, delete the directory. If they are needed, copy them with kdump "
    "salvage.",
    check=28,
)
DIRECTORY_FUTURE: Final = FindingCode(
    "directory-future",
    Severity.INFO,
    "The directory is the copy of a partition that is being moved to this log directory.",
    "If the partition's current log is in another log directory, the broker continues the move, or "
    "completes it where the cluster's metadata already assigns the replica to this log directory.",
    "Nothing to do, unless another finding names the directory or its partition.",
    check=28,
)
FUTURE_BESIDE_CURRENT: Final = FindingCode(
    "future-beside-current",
    Severity.ERROR,
    "A log directory holds the -future log of a partition beside its current log, and the "
    "cluster's metadata assigns the replica to this log directory. A broker does not create this "
    "state: log directories were merged, or a directory was copied.",
    "The broker tries to rename the -future directory to the name of the current one, and does not "
    "start. The next try ends the same way.",
    "Compare the two with kdump verify and kdump dump, and move the directory whose log ends "
    "earlier out of the log directory. Without its current log, the broker takes the -future log "
    "for the current one.",
    check=29,
    stops=Outcome.REFUSES,
)
FUTURE_UNUSED: Final = FindingCode(
    "future-unused",
    Severity.WARNING,
    "A log directory holds the -future log of a partition beside its current log. The cluster's "
    "metadata assigns the replica to another log directory, or is not known.",
    "The broker starts and does not use the -future log. A broker without ZooKeeper reports the "
    "directory of the current log to the cluster, and then its next start fails.",
    "Compare the two with kdump verify and kdump dump, and move the directory whose log ends "
    "earlier out of the log directory.",
    check=29,
)
FUTURE_STRAY: Final = FindingCode(
    "future-stray",
    Severity.WARNING,
    "A -future log has no partition.metadata, or according to the node's own metadata log this "
    "node is not a replica of its partition. The current log of the partition remains.",
    "The broker renames the directory to -stray and ends the move.",
    "Start the move again if it is still wanted. The -stray directory can then be deleted.",
    check=24,
)
FUTURE_ALONE: Final = FindingCode(
    "future-alone",
    Severity.ERROR,
    "No log directory holds the current log of a partition of this node, and the start does not "
    "make the -future log the current one: it has no partition.metadata, or the cluster's metadata "
    "assigns the replica to another log directory.",
    "The broker creates an empty current log. If it leads, offsets are assigned a second time, and "
    "the -future log is truncated to the empty one or renamed to -stray.",
    "If another replica is in sync, start its broker first: this one fetches all records. "
    "Otherwise rename the directory to the partition's name and move it to the log directory that "
    "the metadata assigns, before a broker starts; kdump reindex writes a missing "
    "partition.metadata.",
    check=24,
    harm=Harm.EMPTY,
)
FUTURE_REPLACES: Final = FindingCode(
    "future-replaces",
    Severity.INFO,
    "A move between log directories is complete but for the last step: the cluster's metadata "
    "assigns the replica to the log directory with the -future log.",
    "The broker makes the -future log the current one, and deletes this log.",
    "Nothing to do.",
    check=28,
)
FUTURE_SHORTER: Final = FindingCode(
    "future-shorter",
    Severity.ERROR,
    "The cluster's metadata assigns the replica to the log directory with the -future log, which "
    "ends before the current log.",
    "The broker makes the -future log the current one, and deletes this log with the records that "
    "the -future log does not hold. It does so after a clean stop too.",
    "If another replica is in sync, the broker fetches the records again from its leader. "
    "Otherwise, before a broker starts, move the -future directory out of its log directory, and "
    "this directory into it: the broker then starts with this log.",
    check=28,
)
BROKER_DENIED: Final = FindingCode(
    "broker-denied",
    Severity.ERROR,
    "The broker's user may not open a file or directory, as after a restore by root or a start of "
    "the broker as root. The broker's user is the user that owns most partition directories.",
    "A running broker keeps the files that it has open. The next start takes the whole log "
    "directory offline, and the broker stops if it has no other log directory. If the broker may "
    "open the files of a partition but not change its directory, brokers from 4.0 on also truncate "
    "a segment that they recover to nothing, a further one at each start.",
    "Run the command of the finding as root: it gives the files to the broker's user. Then verify "
    "again. Start the broker only as its own user.",
    check=40,
    stops=Outcome.OFFLINE,
)
_FREE_SPACE: Final = (
    "Free space before the broker starts: first other files of the file system, then directories "
    "named -stray, and the backups that kdump undo lists. Remove no .log by hand. A larger file "
    "system, or a smaller reserve of an ext4 file system (tune2fs -m), helps too."
)
DISK_FULL: Final = FindingCode(
    "disk-full",
    Severity.ERROR,
    "The file system of a log directory has less free space, or fewer free inodes, than startup "
    "needs. Startup writes the indexes of segments that it recovers, producer snapshots, leader "
    "epochs, and the state of a controller.",
    "The broker does not start, or exits soon after startup. Where a page of a mapped index finds "
    "no space, the broker gets an InternalError. Brokers from 4.0 on truncate a segment to nothing "
    "if its recovery fails because a file cannot be written.",
    _FREE_SPACE,
    stops=Outcome.REFUSES,
)
DISK_SHORT: Final = FindingCode(
    "disk-short",
    Severity.ERROR,
    "Startup recovers segments, and the file system of the log directory has hardly more free "
    "space, or free inodes, than startup needs at least. Files that replace others, and new "
    "segments, take more for a moment.",
    "Brokers from 4.0 on that cannot write a file while they recover a segment truncate this "
    "segment to nothing, delete the segments after it, and continue. Earlier brokers take the log "
    "directory offline.",
    _FREE_SPACE,
    harm=Harm.EMPTIED,
)
DISK_LOW: Final = FindingCode(
    "disk-low",
    Severity.WARNING,
    "The file system of a log directory has little free space, or few free inodes.",
    "The broker takes the log directory offline as soon as a write fails, and exits if it has no "
    "other log directory.",
    "Free space before the broker needs it, or shorten the retention of large topics.",
)
