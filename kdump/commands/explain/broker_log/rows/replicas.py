"""Messages about replicas: fetches, truncation, moves between directories.

Spec: AbstractFetcherThread and ReplicaManager of 3.9 to 4.4.
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
)
