"""Messages about replicas: fetches, truncation, moves between directories.

Spec: AbstractFetcherThread, ReplicaManager, CoordinatorRuntime and TransactionStateManager of 3.9
to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, epochs, indexes, partition_files, read_errors, segments
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import (
    DISK,
    FETCHED,
    FETCHED_FROM,
    LEADER_LOG,
    ended,
)

ROWS: Final = (
    # Followers and consumers that find damage.
    BrokerMessage(
        "Found invalid messages during fetch for partition {partition} offset {offset}",
        "This follower received a corrupt batch from its leader and refused it. It wrote nothing "
        "and fetches the batch again: the replica makes no progress.",
        FETCHED_FROM,
        FETCHED,
        quoted=True,
    ),
    *answer_alike(
        "A consumer received a corrupt batch and stopped at this offset.",
        "Verify the partition on its leader: kdump verify reports the offset to seek to.",
        (),
        FETCHED,
        quoted=(
            "Record batch for partition {partition} at offset {offset} is invalid, cause: {}",
            "Encountered corrupt message when fetching offset {offset} for topic-partition "
            "{partition}",
        ),
    ),
    BrokerMessage(
        "Error while processing data for partition {partition} at offset {offset}",
        "This follower could not append the data that it fetched. It fetches the data again.",
        "The stack trace below the line names the cause.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Unexpected error occurred while processing data for partition {partition} at offset "
        "{offset}",
        "This follower could not append the data that it fetched. The broker marked the replica as "
        "failed, and the replica lags until the broker restarts.",
        "The stack trace below the line names the cause. Verify the partition here and on the "
        "leader.",
        (batches.OFFSETS_NOT_INCREASING, indexes.INDEX_BEYOND_LOG, indexes.TIMEINDEX_BEYOND_LOG),
        outer=True,
    ),
    BrokerMessage(
        "Unexpected error occurred during truncation for {partition} at offset {offset}",
        "This follower could not truncate its log. The broker marked the replica as failed.",
        "The stack trace below the line names the cause. Verify the partition.",
        (epochs.EPOCHS_MISMATCH,),
        outer=True,
    ),
    BrokerMessage(
        "Failed to truncate {partition} at offset {offset}",
        "This follower could not truncate its log, because its log directory failed.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Partition {partition} marked as failed",
        "The replica failed, and does not fetch until the broker restarts.",
        "Read the earlier line that led to this line.",
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Truncating {partition} to offset {offset} below high watermark {}",
        "A follower truncated acknowledged records that its leader did not have. The leader lost "
        "them, as after an unclean leader election or a power failure.",
        "If you need these records, stop the broker. Other replicas may still hold some of them.",
        (partition_files.HIGH_WATERMARK_BEYOND_END, epochs.EPOCHS_MISMATCH),
    ),
    BrokerMessage(
        "Reset fetch offset for partition {partition} from {offset} to current leader's latest",
        "A follower was ahead of its leader, and truncated its log to the leader's log end offset.",
        "After an unclean leader election, or if the leader lost its disk, records are lost: "
        "compare the replicas.",
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "The leader does not know the last leader epoch of a follower, or its log does not reach "
        "the follower's fetch offset. After a change of leader this happens once. If it recurs "
        "with the same offset, the replica stays out of the ISR.",
        "If the line recurs with the same offset, write a record to the partition, or restart the "
        "leader. If the replica still stays out, compare leader-epoch-checkpoint on both with "
        "kdump dump: kdump heal --from takes a line that one of them lacks from the other.",
        (
            "Current offset {offset} for partition {partition} is out of range, which typically "
            "implies a leader change",
            "Reset fetch offset for partition {partition} from {offset} to the current local "
            "replica's end offset",
        ),
        (epochs.EPOCHS_MISSING,),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Truncate fully and reset fetch offset for partition {partition} from {offset} to the "
        "current leader's start offset",
        "The log of a follower ended before its leader's log start offset. The follower dropped "
        "its log and fetches all records again.",
        "Nothing to do if retention deleted the records while the replica was down for a long "
        "time.",
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A follower compared leader epochs with its leader and found no common epoch. It truncated "
        "its log by offsets instead.",
        "Nothing to do after a change of leader. If the line recurs, verify the partition's "
        "leader-epoch-checkpoint on the follower and on the leader.",
        (
            "Based on replica's leader epoch, leader replied with an unknown offset in {partition}",
            "below any replica's tracked epochs for {partition}. The leader's offset only {offset}",
            "Leader or replica is on protocol version where leader epoch is not considered in the "
            "OffsetsForLeaderEpoch response. The leader's offset {offset} will be used for "
            "truncation in {partition}.",
        ),
        (epochs.EPOCHS_MISSING,),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A request for this partition failed while the broker read or wrote the log.",
        "The stack trace below the line names the cause. Verify the partition.",
        (
            "Error processing fetch with max size {} from {} on partition {partition}:",
            "Error processing append operation on partition {partition}",
            "Error processing delete records operation on partition {partition}",
            "Error when getting EpochEndOffset for {partition}",
            "Error while processing LeaderAndIsr request correlationId {} received from controller "
            "{} epoch {} for partition {partition}",
            "Error while processing LeaderAndIsr request with correlationId {} received from",
            "for partition {partition} due to an unexpected {} exception: {}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Unexpected offset in append to {partition}.",
        "The records that a follower fetched did not continue its log. The follower did not append "
        "them.",
        "Verify the partition here and on the leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Out of order offsets found in append to {partition}:",
        "The records that a leader sent have offsets that run backwards. The follower did not "
        "append them.",
        "Verify the partition on the leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Trying to roll a new log segment for topic partition {partition} with start offset "
        "{offset}",
        "The broker could not begin a new segment, because a segment with the same or a higher "
        "base offset already exists. The append failed.",
        "Verify the partition.",
        (batches.SEGMENTS_OVERLAP, batches.OFFSETS_NOT_INCREASING),
    ),
    *answer_alike(
        "The broker was about to roll a segment that already exists and has no records. It uses "
        "the existing segment.",
        "Nothing to do, unless the line recurs. In that case, the segment's indexes are full, and "
        "kdump verify shows why.",
        (
            "Trying to roll a new log segment with start offset {offset} =max(provided offset",
            "Trying to roll a new log segment with start offset {offset}=max(provided offset",
        ),
        (segments.INDEX_PADDED_CLEAN,),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Non-monotonic update of high watermark from {} to {}",
        "The broker lowered the high watermark, as it does when it truncates a log.",
        "Nothing to do if there is a line about truncation next to this line.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "High watermark {} update exceeds current log end offset {}",
        "The high watermark was above the log end offset.",
        "The end of the log may be lost: verify the partition.",
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
    ),
    *answer_alike(
        "The records that a follower fetched did not continue its log. The follower did not append "
        "them.",
        "Verify the partition.",
        ("Offset mismatch for partition {partition}: fetched offset = {offset}, log end",),
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Offset mismatch for the future replica {partition}: fetched offset = {offset}, log",
        "A move of this replica between log directories stopped: its -future log and its current "
        "log no longer agree. The current log is served as before.",
        "Cancel the move, and start it again: name the old log directory, then the new one, in the "
        "reassignment.",
    ),
    *answer_alike(
        "The leader could not send this follower its records, or this broker's log directory was "
        "offline.",
        LEADER_LOG,
        ("Disk error when trying to access log file on the disk.",),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    BrokerMessage(
        "This message has failed its CRC checksum, exceeds the valid size",
        "A broker answered that a message is corrupt, or that it has no key although its topic is "
        "compacted.",
        "If the broker answered a fetch, verify the partition on its leader. If it answered a "
        "producer, check whether the producer sends keys.",
        (batches.BATCH_CRC_MISMATCH,),
        outer=True,
    ),
    *answer_alike(
        "A thread that fetches from leaders, or moves replicas between log directories, ended. Its "
        "partitions lag until the broker restarts.",
        "The stack trace below the line names the cause. Verify the partition that it names.",
        (
            *ended("ReplicaFetcher replicaId={}"),
            *ended("ReplicaFetcherThread-{}", "kafka.server.ReplicaFetcherThread"),
            *ended("ReplicaAlterLogDirsThread-{}", "kafka.server.ReplicaAlterLogDirsThread"),
        ),
        outer=True,
    ),
    # Coordinators. They read a partition when the broker becomes its leader.
    *answer_alike(
        "The broker no longer served the partition when its coordinator read it.",
        "Nothing to do after a change of leader. If an earlier line says why the broker does not "
        "serve the partition, that line names the cause.",
        (
            "from {partition} because the partition is not online or is no longer the leader",
            "Could not load records from {partition} because the log does not exist.",
            "Cannot load coordinator {partition} in state {}",
            "Transaction expiration for partition {partition} failed because the log config was",
            "Attempted to load offsets and group metadata from {partition}, but found no log",
            "Attempted to load transaction metadata from {partition}, but found no log",
        ),
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "A coordinator could not read its partition. Groups or transactions of that partition get "
        "no answer until it is repaired, or another broker leads it.",
        "Verify the partition. If another replica is in sync, make that replica the leader first.",
        ("Replaying record {} from {partition} at offset {offset} with producer id",),
        (
            batches.BATCH_CRC_MISMATCH,
            batches.RECORDS_UNREADABLE,
            batches.BATCH_SIZE_IMPOSSIBLE,
            batches.RECORDS_UNDECODABLE,
        ),
        outer=True,
        quoted=(
            "Error loading offsets from {partition}",
            "Error loading transactions from transaction log {partition}",
            "Deserializing record {} from {partition} failed.",
            "Failed to load metadata from {partition} with epoch {} due to",
        ),
        unquoted=(
            batches.BATCH_CRC_MISMATCH,
            batches.RECORDS_UNREADABLE,
            batches.BATCH_SIZE_IMPOSSIBLE,
        ),
    ),
    *answer_alike(
        "A coordinator found a record that this release does not know, and ignored it, as after a "
        "downgrade.",
        "Nothing to do.",
        (
            "while loading offsets and group metadata from {partition}. Ignoring it.",
            "while loading transaction state from {partition}. Ignoring it.",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A batch of a coordinator's partition is larger than the coordinator's read buffer. The "
        "coordinator enlarged the buffer.",
        "Nothing to do.",
        (
            "Loaded metadata from {partition} with buffer larger ({} bytes) than",
            "Loaded offsets and group metadata from {partition} with buffer larger",
            "Loaded transaction metadata from {partition} with buffer larger",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A coordinator could not read a record of its partition. The record is corrupt, or from a "
        "later release.",
        "Run kdump verify --deep on the partition. If another replica is in sync, make that "
        "replica the leader first.",
        (
            "Could not read version from {}'s buffer.",
            "Could not read record with version {} from {}'s buffer due to",
            "from the transaction log message key",
            "from the transaction log message value",
            "Group metadata/offset entry key should not be null",
            "Transaction state log's key should not be null",
            "Unknown transaction state id {} from the transaction status message",
            "Unknown offset message version: {}",
            "Received an unknown record type {} in {}",
            "record for an unknown group type: {}",
        ),
        (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH),
    ),
    *answer_alike(
        "The offsets of a coordinator's partition did not rise.",
        "Verify the partition.",
        (
            "New last written offset {} of {partition} must be greater than {offset}",
            "New committed offset {} of {partition} must be",
            "New offset {} of {partition} must be smaller than {offset}",
        ),
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        "A coordinator could not write to its partition. Its clients try again.",
        "The stack trace below the line names the cause.",
        (
            "Failed to write records to {partition} due to an unexpected error: {}",
            "Failed to write the transaction marker to {partition} due to an unexpected error: {}",
            "Writing records to {partition} failed due to: {}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The state of a coordinator did not match its partition, or was no longer needed. The "
        "coordinator reads the partition again, or already did.",
        "Nothing to do.",
        (
            "The state machine of the coordinator {partition} is out of sync with the underlying",
            "Unloaded transaction metadata {} from {partition} as part of loading metadata",
            "Failed to unload metadata for {partition}",
            "Failed to unload coordinator for {partition} due to",
        ),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Received a tombstone record to delete ",
        "Records of __consumer_offsets contradict each other. Some are missing, as after a "
        "truncation at corrupt records, or a defect of the release wrote them that way. The groups "
        "of the partition get no answer.",
        "Verify the partition. If another replica is in sync, make that replica the leader first.",
        outer=True,
    ),
)
