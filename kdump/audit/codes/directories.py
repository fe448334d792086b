"""Finding codes of log directories and the files at their top.

Spec: what brokers of 3.9 to 4.3 do and log. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import FindingCode, Outcome, Severity

FOREIGN_DIRECTORY: Final = FindingCode(
    "foreign-directory",
    Severity.ERROR,
    "A directory at the top of the log directory is not named like a partition, as lost+found "
    "where the log directory is the top of a file system.",
    "Does not start, whatever else is sound, and has then already removed the clean marker.",
    "Move it away, or let log.dirs name a directory below.",
    ("Found directory {}, '{}' is not in the form of topic-partition",),
    check=29,
    stops=Outcome.REFUSES,
)
PARTITION_TWICE: Final = FindingCode(
    "partition-twice",
    Severity.ERROR,
    "The same partition stands in two directories: a move between log directories was cut short, "
    "or somebody copied one.",
    "Does not start until one of them is gone.",
    "Compare their ends with kdump verify, and move the shorter or older one out of the log "
    "directory.",
    (
        "Duplicate log directories for {} are found in both {} and {}",
        "Duplicate log directories found: {}, {}",
        "Found unexpected metadata location in data directory",
    ),
    check=29,
    stops=Outcome.REFUSES,
)
CHECKPOINT_MALFORMED: Final = FindingCode(
    "checkpoint-malformed",
    Severity.ERROR,
    "An offset checkpoint does not follow its format: version, count, then three fields a line.",
    "Takes the whole log directory offline, and stops if it has no other.",
    "While the broker is stopped, kdump reindex of the log directory writes it from the lines that "
    "can be read. Partitions without a line are recovered whole after an unclean stop, or have "
    "deleted records back.",
    (
        "Error while reading checkpoint file {}",
        "Malformed line in checkpoint file [{}]: {}",
        "Expected [{}] entries in checkpoint file [{}], but found only [{}]",
        "Unrecognised version:{}, expected version: {} in checkpoint file at: {}",
    ),
    check=26,
    stops=Outcome.OFFLINE,
)
CHECKPOINT_NUMBER: Final = FindingCode(
    "checkpoint-number",
    Severity.WARNING,
    "A number in recovery-point-, log-start- or cleaner-offset-checkpoint does not parse.",
    "Takes recovery points and log starts for empty: every segment is recovered after an unclean "
    "stop, deleted records are back. With the cleaner's file its thread dies: no compaction.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "lines that can be read.",
    (
        "Error occurred while reading recovery-point-offset-checkpoint file of directory {}",
        "Error occurred while reading log-start-offset-checkpoint file of directory {}",
        "[kafka-log-cleaner-thread-{}]: Error due to",
    ),
    check=26,
)
HIGH_WATERMARK_NUMBER: Final = FindingCode(
    "high-watermark-number",
    Severity.ERROR,
    "A number in replication-offset-checkpoint does not parse.",
    "Starts, but serves no partition of the log directory.",
    "While the broker is stopped, kdump reindex of the log directory writes the file from the "
    "lines that can be read; for a partition without a line the broker takes its log start.",
    ("Unable to start fetching {} with topic ID {} due to NumberFormatException",),
    check=26,
)
CHECKPOINT_LINE_UNKNOWN: Final = FindingCode(
    "checkpoint-line-unknown",
    Severity.INFO,
    "A checkpoint has lines of partitions that are not in the log directory.",
    "Ignores them, and leaves them out when it writes the file anew.",
    "Nothing to do, unless those partitions should be here: then somebody removed them.",
    check=26,
)
REPLICA_MISSING: Final = FindingCode(
    "replica-missing",
    Severity.WARNING,
    "A checkpoint has a line of a partition, and the cluster's metadata name this node among its "
    "replicas, but its directory is not there: somebody removed it, or it is on a file system that "
    "is not mounted.",
    "Makes an empty replica, which copies everything from the leader.",
    "If nobody meant that, bring the directory back before the broker starts. Otherwise make sure "
    "that another replica is in sync.",
    check=26,
)
REPLICA_MISSING_ONLY: Final = FindingCode(
    "replica-missing-only",
    Severity.ERROR,
    "A checkpoint has a line of a partition, and the cluster's metadata know no other replica than "
    "that of this node, but its directory is not there.",
    "Makes an empty replica and leads it: offsets are given a second time, from 0 on.",
    "Bring the directory back before the broker starts, from a backup if need be.",
    check=26,
)
META_PROPERTIES_UNREADABLE: Final = FindingCode(
    "meta-properties-unreadable",
    Severity.ERROR,
    "A meta.properties does not follow its format, or lacks what it must have.",
    "Takes the log directory offline; does not start if it is the only one or the one with the "
    "metadata log.",
    "Compare it with the file in the node's other log directories: cluster.id and node.id are the "
    "same there, directory.id is not.",
    ("Error while reading meta.properties file {}", "No readable meta.properties files found."),
    stops=Outcome.REFUSES,
)
META_PROPERTIES_MISSING: Final = FindingCode(
    "meta-properties-missing",
    Severity.ERROR,
    "A log directory of a KRaft node has no meta.properties, although another one of it has.",
    "Does not start.",
    "If it is a new, empty directory, kafka-storage.sh format --ignore-formatted prepares it. If "
    "not, its file system may not be mounted.",
    ("No `meta.properties` found in {}",),
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_MISSING: Final = FindingCode(
    "log-directory-missing",
    Severity.ERROR,
    "A log directory that the configuration names is not there, or holds none of a broker's files.",
    "Does not start.",
    "Its file system may not be mounted: mount it, and verify again. If the directory is new, "
    "kafka-storage.sh format --ignore-formatted prepares it.",
    ("No `meta.properties` found in {}", "No readable meta.properties files found."),
    stops=Outcome.REFUSES,
)
LOG_DIRECTORY_BLANK: Final = FindingCode(
    "log-directory-blank",
    Severity.ERROR,
    "A log directory that the configuration of a broker with ZooKeeper names is not there, or "
    "holds none of a broker's files.",
    "Takes it for a new directory, and makes the replicas that it should hold again, empty. A "
    "follower fetches everything again; a leader gives offsets a second time, from 0 on.",
    "Its file system may not be mounted: mount it before the broker starts. If the directory is "
    "new, there is nothing to do.",
    ("Log directory {} not found, creating it.",),
)
META_PROPERTIES_MISMATCH: Final = FindingCode(
    "meta-properties-mismatch",
    Severity.ERROR,
    "The meta.properties of two log directories cannot belong to the same node.",
    "Does not start.",
    "Find out which directory was put there by mistake, or was copied.",
    (
        "Invalid cluster.id in: {}. Expected {}, but read {}",
        "Stored node id {} doesn't match previous node id {} in {}",
        "Duplicate directory ID {} found",
    ),
    stops=Outcome.REFUSES,
)
NODE_ID_MISMATCH: Final = FindingCode(
    "node-id-mismatch",
    Severity.ERROR,
    "The node.id in meta.properties is not that of server.properties.",
    "Does not start.",
    "Find out which of the two is wrong. A log directory of another node belongs to that node: its "
    "partitions are none of this node's.",
    (
        "Stored node id {} doesn't match previous node id {} in {}",
        "Configured broker.id {} doesn't match stored broker.id {} in meta.properties",
    ),
    stops=Outcome.REFUSES,
)
BOOTSTRAP_MALFORMED: Final = FindingCode(
    "bootstrap-malformed",
    Severity.ERROR,
    "A bootstrap.checkpoint does not follow its format, or has no metadata.version.",
    "Does not start.",
    "Copy the file of another controller. Where __cluster_metadata-0 holds records nothing is "
    "taken from this file: then move it away, and the broker starts.",
    (
        "No FeatureLevelRecord for metadata.version was found in the bootstrap metadata from {}",
        "unable to deserialize record at offset {}",
        "Unable to read control record at offset {}",
    ),
    stops=Outcome.REFUSES,
)
CLEAN_MARKER_LIVE: Final = FindingCode(
    "clean-marker-live",
    Severity.INFO,
    "The clean shutdown marker is there although a broker uses the directory: it is just starting "
    "or stopping, or somebody put the marker back.",
    "Looks for it only when it starts.",
    "If it stays while the broker runs, remove it: a crash would be taken for a clean stop.",
    check=37,
)
FOREIGN_FILE: Final = FindingCode(
    "foreign-file",
    Severity.INFO,
    "A file that is none of Kafka's.",
    "Ignores it. In a partition it goes when the topic is deleted.",
    "Nothing to do.",
    check=28,
)
DIRECTORY_DELETED: Final = FindingCode(
    "directory-deleted",
    Severity.INFO,
    "A partition that a broker is about to delete for good.",
    "Loads it without recovery and removes it a minute later.",
    "To free the space it can go. To keep the data, copy it before a broker starts.",
    check=28,
)
DIRECTORY_STRAY: Final = FindingCode(
    "directory-stray",
    Severity.INFO,
    "A partition that a broker has renamed, since the cluster did not assign it to this directory.",
    "Loads it and leaves it alone, for good.",
    "If nobody misses its data it can go; if somebody does, it is all still there.",
    ("Loaded stray log: {}", "Log in {} marked stray and renamed to {}"),
    check=28,
)
DIRECTORY_FUTURE: Final = FindingCode(
    "directory-future",
    Severity.INFO,
    "The copy of a partition that is being moved to this log directory.",
    "Goes on with the move.",
    "Nothing to do.",
    check=28,
)
