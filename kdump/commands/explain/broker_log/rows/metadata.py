"""Messages about the metadata log, its snapshots and ``quorum-state``.

Spec: KafkaMetadataLog, KafkaRaftClient, QuorumState, the snapshot reader, MetadataLoader,
SharedServer and BootstrapDirectory (in 4.4 BootstrapMetadata) of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, metadata, node, partition_files, read_errors
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import ended

_FIRST: Final = (
    "Read the cause in the stack trace below the line, or in the line before it. kdump next-start "
    "lists all reasons at once."
)
_VOTERS: Final = (
    "If a majority of the other voters runs and has a leader, move this node's "
    "__cluster_metadata-0 away: the node then fetches all metadata from the leader. This also "
    "discards its vote. If it is the only voter, restore the directory from a backup."
)
_COMPARE: Final = (
    "Compare this node's metadata log with the logs of the other controllers: run kdump quorum and "
    "kdump metadata --diff. If a majority of them runs and has a leader, move this node's "
    "__cluster_metadata-0 away: the node then fetches all metadata from the leader. This also "
    "discards its vote."
)

ROWS: Final = (
    BrokerMessage(
        "Error while reading the Quorum status from the file {path}",
        "The file quorum-state does not follow its format. The node did not start.",
        "Deletion of the file discards the node's vote. Delete it only while the other voters have "
        "a leader.",
        (metadata.QUORUM_STATE_MALFORMED,),
        quoted=True,
    ),
    *answer_alike(
        "The file quorum-state does not follow its format, or it is from a later release or "
        "another node. The node did not start.",
        "Deletion of the file discards the node's vote. Delete it only while the other voters have "
        "a leader.",
        (
            "java.io.EOFException: File ended prematurely.",
            "Deserialized node {} is not an object node",
            "Deserialized node {} does not have data_version field",
            "data_version ({}) is not within the min ({}) and max ({}) supported version",
            "Quorum state data version ({}) is greater than the supported version ({})",
            "Initialized quorum state ({}) with a voted candidate but without a local id",
        ),
        (metadata.QUORUM_STATE_MALFORMED,),
    ),
    *answer_alike(
        "The node could not delete the metadata log or its quorum-state.",
        "Check the permissions and the system log.",
        ("Error while deleting file {path}", "Failed to delete metadata log"),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Error while writing the Quorum status from the file {path}",
        "The node could not write the file quorum-state. It exited.",
        "Check the free space and the system log. Then start the node.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The file quorum-state names other voters or another vote than the configuration of this "
        "node allows. The node did not start.",
        "Correct controller.quorum.voters and node.id if they were changed by mistake. Otherwise, "
        "deletion of the file discards the node's vote: delete it only while the other voters have "
        "a leader.",
        (
            "Configured voter set: {} is different from the voter set read from the state file",
            "with a voted candidate, which indicates this node was previously",
        ),
        (metadata.QUORUM_STATE_MALFORMED,),
    ),
    BrokerMessage(
        "Clearing local quorum state store after error loading state",
        "The node could not read the file quorum-state, and began again without its vote.",
        "Nothing to do if the quorum has a leader. Check the system log for disk errors.",
        (metadata.QUORUM_STATE_MALFORMED,),
        outer=True,
    ),
    *answer_alike(
        "quorum-state is older than the metadata log, as after the file was restored. The node "
        "used the epoch of the log.",
        "Find out where the file came from.",
        (
            "Epoch from quorum-state file is {}, which is smaller than last written epoch {}",
            "Epoch from quorum store file ({path}) is {}, which is smaller than last written epoch "
            "{}",
        ),
        (metadata.QUORUM_STATE_MALFORMED,),
    ),
    *answer_alike(
        "The metadata log does not begin at offset 0, and its snapshot was missing. The node did "
        "not start.",
        _VOTERS,
        (),
        (metadata.METADATA_SNAPSHOT_MISSING,),
        quoted=(
            "Inconsistent snapshot state: there must be a snapshot at an offset larger then the",
            "Inconsistent snapshot state: there must be a snapshot at an offset larger than the",
        ),
    ),
    *answer_alike(
        "A metadata snapshot is corrupt. The node did not start, or it stopped reading the "
        "snapshot.",
        _VOTERS,
        (
            "First batch is not a control batch with at least one record",
            "Error while loading snapshot {}",
            "Error while loading bootstrap snapshot {}",
        ),
        (metadata.METADATA_SNAPSHOT_DAMAGED,),
        quoted=(
            "First control record is not a snapshot header",
            "Record batch is corrupt",
        ),
    ),
    BrokerMessage(
        "Couldn't read {}; expected to find snapshot file {path}",
        "The metadata log names a snapshot, but the file of that snapshot was missing.",
        _VOTERS,
        (metadata.METADATA_SNAPSHOT_MISSING,),
    ),
    BrokerMessage(
        "Unable to Opens a snapshot file {path}",
        "The node could not open a metadata snapshot.",
        "Correct the owner and permissions of the file.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The node could not write or remove a metadata snapshot.",
        "Check the free space and the system log. The node writes the next snapshot by itself.",
        (
            "Error deleting snapshot files {path} and {}",
            "Error renaming snapshot file from {path} to {}",
            "Error creating temporary file, logDir = {path}, snapshotId = {}",
            "Error writing file snapshot, temp path = {path}, snapshotId = {}",
            "Error freezing file snapshot, temp path = {path}, snapshotId = {}",
            "Error creating snapshot writer. path = {path}, snapshotId {}",
            "Error calculating snapshot size. temp path = {path}, snapshotId = {}",
            "Error closing snapshot writer, temp path = {path}, snapshotId {}",
            "Unable to set file ({path}) as read-only",
            "Unable to close snapshot reader {} at {path}",
            "Encountered error while writing snapshot {}",
            "Encountered error while writing {}",
        ),
        (read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Log doesn't have a last fetch epoch and there is a snapshot ({}). Expected",
        "The metadata log and its snapshot do not match. The node did not start.",
        _VOTERS,
        (metadata.METADATA_SNAPSHOT_BEYOND_END,),
    ),
    BrokerMessage(
        "Attempt to truncate to offset {offset}, which is below the current high watermark",
        "The leader of the quorum lacks committed records. The node exited.",
        "Do not delete this directory: it may hold the records that the leader lost.",
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
    ),
    BrokerMessage(
        "Log's high watermark ({}) is different from the local replica's high watermark",
        "Two values for the high watermark of the metadata log differed for a moment.",
        "Nothing to do.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "was found in the bootstrap metadata from the binary bootstrap metadata file: {path}",
        "bootstrap.checkpoint is corrupt. The node did not start.",
        "Copy the file from a controller of the same cluster, or from a backup.",
        (node.BOOTSTRAP_MALFORMED,),
    ),
    BrokerMessage(
        "Unhandled fault in MetadataLoader#handleLoadSnapshot",
        "The node could not read a metadata snapshot to its end. The snapshot is corrupt, or from "
        "a later release.",
        "Try an older snapshot first: if one is complete and valid, and the metadata log begins "
        "before its end, move the corrupt snapshot away and start the node. Otherwise: " + _VOTERS,
        (metadata.METADATA_SNAPSHOT_DAMAGED, metadata.METADATA_UNREPLAYABLE),
        decides=True,
        quoted=True,
        unquoted=(metadata.METADATA_UNREPLAYABLE,),
    ),
    *answer_alike(
        "A controller could not apply a record of the metadata log or of a snapshot: it names "
        "something that does not exist, or contradicts an earlier record. The controller exits at "
        "this record, and again at each start.",
        _COMPARE,
        (
            "Unable to replay ",
            "RuntimeException: Can't find topic with ID {} to remove.",
            ".UnknownTopicIdException: Can't find topic with ID {} to remove.",
            "Next Producer ID from replayed record ({}) is not greater than",
            "Tried to create partition {}, but no partition with that id was found.",
            "Tried to create partition {}, but no topic with that ID was found.",
            "in order to clear its ELRs.",
            "Unable to find credential to delete: {}",
            "entry in isrMembers for {}",
            "isrMembers entry, so we can't",
            "entry in elrMembers for {}",
            "elrMembers entry, so we can't",
            "Detected in-progress transaction at offset {offset}, but the metadata.version",
            "Detected partial bootstrap records transaction at {offset}, but the metadata.version",
            "RuntimeException: Unhandled record type {}",
        ),
        (metadata.METADATA_REPLAY_STOPS, metadata.METADATA_UNREPLAYABLE),
    ),
    *answer_alike(
        "A node could not apply a record of the metadata log or of a snapshot: it names something "
        "that does not exist, or contradicts an earlier record. A controller exits at this record.",
        _COMPARE,
        (
            "RuntimeException: Unknown metadata record type {}",
            "Failed to find existing ACL with ID {}",
            "RuntimeException: An ACL with ID {} already exists.",
            "not found in aclsById.",
            "the ACL with ID {} {} aclsByResource",
            "IllegalStateException: Missing topic id {}",
            "Unable to delete topic with id {}: no such topic found.",
            "Unable to clear elr for topic with name {}: no such topic found.",
            "RuntimeException: Unable to find partition {}",
            "is not a valid leader recovery state",
            "is not a valid Zk migration state",
            "Unsupported ZkMigrationState {}",
            "The lengths for replicas and directories do not match.",
            "RuntimeException: Unknown security protocol {}",
            "Could not parse principal from `{}` (no colon is present",
            "Unable to apply {} record at offset {offset} on",
            "Unable to apply {} record from snapshot {} on standby controller",
            "Unable to handle record {} in batch ending at offset {offset}",
            "Error replaying record {}",
            "Unknown metadata record type {} in batch ending at offset {offset}",
            "Unhandled record {} with type {}",
            "Unable to locate topic with ID {}",
            "Unable to understand config resource type {}",
            "Tried to {} broker {}, but that broker was not registered",
            "Tried to {} broker {}, but the given epoch",
            "Found duplicate TopicRecord for",
            "cannot appear within a snapshot.",
            "Can't replay a BeginTransactionRecord at {offset}",
            "Can't replay an AbortTransactionRecord at {offset}",
            "Can't replay an EndTransactionRecord at {offset}",
        ),
        (metadata.METADATA_UNREPLAYABLE, metadata.METADATA_REPLAY_STOPS),
    ),
    *answer_alike(
        "The node could not apply records of the metadata log or of a snapshot. They are corrupt, "
        "or from a later release.",
        _VOTERS,
        (
            "Unhandled fault in MetadataLoader#handleCommit",
            "Unexpected error in raft IO thread",
            *ended("{}raft-io-thread"),
            "Had an error during log cleaning",
            "Append failed unexpectedly",
        ),
        (
            metadata.METADATA_SNAPSHOT_DAMAGED,
            batches.RECORDS_UNREADABLE,
            metadata.METADATA_UNREPLAYABLE,
        ),
        outer=True,
        quoted=(
            "Error loading metadata log record from offset {offset}",
            "Error loading metadata log record {} in snapshot",
        ),
        unquoted=(metadata.METADATA_SNAPSHOT_DAMAGED, batches.RECORDS_UNREADABLE),
    ),
    *answer_alike(
        "The node did not start.",
        _FIRST,
        (
            "Got exception while starting SharedServer",
            "Encountered fatal fault: caught exception",
        ),
        (metadata.METADATA_SNAPSHOT_DAMAGED,),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    *answer_alike(
        "The node, or a part of it, did not start, or it exited.",
        _FIRST,
        (
            "Encountered fatal fault: ",
            "Encountered metadata loading fault: ",
            "Encountered metadata publishing fault: ",
            "Exiting Kafka due to fatal exception",
            "Fatal error during broker startup. Prepare to shutdown",
            "Fatal error during KafkaServer startup. Prepare to shutdown",
            "Fatal error during KafkaServer shutdown.",
            "Unable to install metadata publishers",
            "Fatal error during broker shutdown.",
            "Fatal error during controller shutdown.",
            "Halting Kafka.",
        ),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    BrokerMessage(
        "Directories [{}] in broker {} marked offline, remaining directories",
        "A broker reported a log directory as offline.",
        "Read the log of that broker: it names the directory and the cause.",
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "The metadata log does not begin at offset 0, and its snapshot was missing. The node did "
        "not start, or it exited.",
        _VOTERS,
        (
            "Log start offset ({}) is greater than zero but latest snapshot was not found",
            "Snapshot expected since next offset of {} is {offset}, log start offset is {} and",
        ),
        (metadata.METADATA_SNAPSHOT_MISSING,),
    ),
    BrokerMessage(
        "The leader requested truncation to offset {offset}, which is below the current high",
        "The leader of the quorum lacks committed records. The node exited.",
        "Do not delete this directory: it may hold the records that the leader lost.",
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
    ),
    BrokerMessage(
        "expected but didn't happen. Snapshot of {}, log end offset {offset}",
        "The metadata log and a snapshot from the leader do not match. The node exited.",
        _VOTERS,
        (metadata.METADATA_SNAPSHOT_BEYOND_END,),
    ),
    *answer_alike(
        "The node could not read a record of the metadata log or of a snapshot. The record is "
        "corrupt, or from a later release.",
        _VOTERS,
        (
            "Unable to read record size",
            "IllegalArgumentException: Unexpected key size {}",
            "Invalid non-positive frame size: {}",
            "Specified frame size, {}, is larger than the entire size of the batch, which is {}",
            "Unable to read {} bytes, only read {}",
            "Failed to read record bytes",
            "Failed to read records into memory",
            "Got timestamp delta of {}, but this is invalid because it is not 0",
            "Got numHeaders of {}, but this is invalid because it is not 0",
            "Got key in the record when no key was expected",
            "Missing key in the record when a key was expected",
            "Missing value in the record when a value was expected",
            "Got an unexpected empty key in the record",
            "Got an unexpected empty value in the record",
            "Expected a record count for the records batch",
            "DefaultRecordBatch expected by record type was {}",
            "nextBatch was present when last contained log timestamp was not present",
            "Unknown control record type {}",
            "control record type({}), but found {}",
            "MetadataParseException: Failed to read variable-length",
            "#parse failed: {}",
            "Failed to deserialize record with type {}",
            "byte(s) of garbage after {}",
            "MetadataParseException: Error while reading {}",
            "MetadataParseException: Value for {} was too large",
            "Could not deserialize metadata record with frame version 0",
            "Could not deserialize metadata record due to unknown frame version {}",
            "Unknown metadata id {}",
            "Encountered BeginTransactionRecord while already in a transaction",
            "Encountered EndTransactionRecord without having seen a BeginTransactionRecord",
            "Encountered AbortTransactionRecord without having seen a BeginTransactionRecord",
        ),
        (metadata.METADATA_SNAPSHOT_DAMAGED, batches.RECORDS_UNREADABLE),
    ),
    *answer_alike(
        "bootstrap.checkpoint is corrupt, or from a preview release. The node did not start.",
        "Copy the file from a controller of the same cluster, or from a backup.",
        (
            "Can't load metadata from the binary bootstrap metadata file: {path}",
            "was found in the binary bootstrap metadata file: {path}",
            "unable to read control record at offset {offset}",
            "unable to read metadata record at offset {offset}",
            "Unsupported control record type {} at offset {offset}",
            "are not supported. Can't load metadata from {}",
        ),
        (node.BOOTSTRAP_MALFORMED,),
        quoted=(
            "Unable to read control record at offset {offset}",
            "unable to deserialize record at offset {offset}",
            "Unable to read bootstrap metadata from {path}",
            "No FeatureLevelRecord for metadata.version was found in {}",
        ),
    ),
    BrokerMessage(
        "KRaft snapshot file generation error",
        "The node did not write a metadata snapshot. It continues to run, and tries again later.",
        "The stack trace below the line names the cause. Check the free space and the system log.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Not emitting {} despite the fact that {} because snapshots are disabled",
        "An earlier error disabled metadata snapshots. The metadata log grows.",
        _FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Not generating {} because it already exists.",
        "A metadata snapshot of that offset already existed.",
        "Nothing to do.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Encountered quorum controller fault: ",
        "An error occurred in the controller, and another controller took over.",
        "The stack trace below the line names the cause.",
        kind=Subject.ELSEWHERE,
        outer=True,
    ),
)
