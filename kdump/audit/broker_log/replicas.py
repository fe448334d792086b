"""Messages about replicas: fetches, truncation, moves between directories.

Spec: AbstractFetcherThread, ReplicaManager, CoordinatorRuntime and TransactionStateManager of 3.9
to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.answers import DISK
from kdump.audit.broker_log.message import Kind, Message, answer_alike

_LEADER: Final = (
    "Verify this partition on the leader: the batch is bad there, or an index leads to the wrong "
    "place. If it is sound there, the network or this machine's memory is at fault."
)
_FETCHED: Final = (
    codes.BATCH_CRC_MISMATCH,
    codes.BATCH_SIZE_IMPOSSIBLE,
    codes.INDEX_MISPLACED,
)

ROWS: Final = (
    # Followers and consumers that met damage.
    Message(
        "Found invalid messages during fetch for partition {partition} offset {offset}",
        Kind.DISK,
        "This follower got a damaged batch from its leader, refused it, and asks again: the "
        "replica does not go on. Nothing was written here.",
        _LEADER,
        _FETCHED,
    ),
    Message(
        "Record batch for partition {partition} at offset {offset} is invalid, cause: {}",
        Kind.DISK,
        "A consumer got a damaged batch and stopped at this offset.",
        "Verify the partition on its leader: it gives the offset to seek to.",
        _FETCHED,
    ),
    Message(
        "Encountered corrupt message when fetching offset {offset} for topic-partition {partition}",
        Kind.DISK,
        "A consumer got a damaged batch and stopped at this offset.",
        "Verify the partition on its leader: it gives the offset to seek to.",
        _FETCHED,
    ),
    Message(
        "Error while processing data for partition {partition} at offset {offset}",
        Kind.DISK,
        "What this follower fetched could not be appended, and it asks again.",
        "The trace below the line says why.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Unexpected error occurred while processing data for partition {partition} at offset "
        "{offset}",
        Kind.DISK,
        "What this follower fetched could not be appended: the replica was marked as failed, and "
        "stays behind until the broker restarts.",
        "The trace below the line says why; verify the partition here and on the leader.",
        (codes.OFFSETS_NOT_INCREASING, codes.INDEX_BEYOND_LOG, codes.TIMEINDEX_BEYOND_LOG),
        outer=True,
    ),
    Message(
        "Unexpected error occurred during truncation for {partition} at offset {offset}",
        Kind.DISK,
        "This follower could not cut its log: the replica was marked as failed.",
        "The trace below the line says why; verify the partition.",
        (codes.EPOCHS_MISMATCH,),
        outer=True,
    ),
    Message(
        "Failed to truncate {partition} at offset {offset}",
        Kind.DISK,
        "This follower could not cut its log, because its log directory failed.",
        DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Partition {partition} marked as failed",
        Kind.CONSEQUENCE,
        "The replica had failed, and does not fetch until the broker restarts.",
        "Read the line that it follows from.",
    ),
    Message(
        "Truncating {partition} to offset {offset} below high watermark {}",
        Kind.DISK,
        "A follower cut records that had been acknowledged: its leader did not have them. The "
        "leader lost them, as after an unclean election or a power failure.",
        "If these records are missed, stop the broker: what is left of them is on other replicas, "
        "if anywhere.",
        (codes.HIGH_WATERMARK_BEYOND_END, codes.EPOCHS_MISMATCH),
    ),
    Message(
        "Reset fetch offset for partition {partition} from {offset} to current leader's latest",
        Kind.NOTE,
        "A follower was ahead of its leader, and cut its log to the leader's end.",
        "After an unclean election or a leader that lost its disk, records are gone: compare the "
        "replicas.",
        (codes.HIGH_WATERMARK_BEYOND_END,),
    ),
    Message(
        "Truncate fully and reset fetch offset for partition {partition} from {offset} to the "
        "current leader's start offset",
        Kind.NOTE,
        "A follower was behind its leader's log start: it dropped its log and fetches all again.",
        "Nothing to do where retention overtook a replica that was down for long.",
    ),
    *answer_alike(
        Kind.NOTE,
        "A follower compared leader epochs with its leader and found no common one: it cut "
        "its log by offsets instead.",
        "Nothing to do after a change of leader. If it comes again, verify the partition's "
        "leader-epoch-checkpoint on both.",
        (
            "Based on replica's leader epoch, leader replied with an unknown offset in {partition}",
            "below any replica's tracked epochs for {partition}. The leader's offset only {offset}",
            "Leader or replica is on protocol version where leader epoch is not considered in the "
            "OffsetsForLeaderEpoch response. The leader's offset {offset} will be used for "
            "truncation in {partition}.",
        ),
        (codes.EPOCHS_MISSING,),
    ),
    *answer_alike(
        Kind.DISK,
        "A request for this partition failed while its log was read or written.",
        "The trace below the line says why; verify the partition.",
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
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Unexpected offset in append to {partition}.",
        Kind.DISK,
        "What a follower fetched did not continue its log. It was not appended.",
        "Verify the partition here and on the leader.",
        (codes.OFFSETS_NOT_INCREASING,),
    ),
    Message(
        "Out of order offsets found in append to {partition}:",
        Kind.DISK,
        "What a leader sent has offsets that run backwards. It was not appended.",
        "Verify the partition on the leader.",
        (codes.OFFSETS_NOT_INCREASING,),
    ),
    Message(
        "Trying to roll a new log segment for topic partition {partition} with start offset "
        "{offset}",
        Kind.DISK,
        "A new segment could not begin, because one of that or a later offset is there already. "
        "The append failed.",
        "Verify the partition.",
        (codes.SEGMENTS_OVERLAP, codes.OFFSETS_NOT_INCREASING),
    ),
    *answer_alike(
        Kind.NOTE,
        "A segment without records was to be rolled again, and is used as it is.",
        "Nothing to do, unless it repeats: then its indexes are full, and verify shows why.",
        (
            "Trying to roll a new log segment with start offset {offset} =max(provided offset",
            "Trying to roll a new log segment with start offset {offset}=max(provided offset",
        ),
        (codes.INDEX_PADDED_CLEAN,),
    ),
    Message(
        "Non-monotonic update of high watermark from {} to {}",
        Kind.NOTE,
        "The high watermark was lowered, as when a log is cut.",
        "Nothing to do if a line about truncation stands beside it.",
    ),
    Message(
        "High watermark {} update exceeds current log end offset {}",
        Kind.DISK,
        "The high watermark was behind the log's end.",
        "The end of the log may be lost: verify the partition.",
        (codes.HIGH_WATERMARK_BEYOND_END,),
    ),
    *answer_alike(
        Kind.DISK,
        "What a follower fetched did not continue its log. It was not appended.",
        "Verify the partition.",
        (
            "Offset mismatch for partition {partition}: fetched offset = {offset}, log end",
            "Offset mismatch for the future replica {partition}: fetched offset = {offset}, log",
        ),
        (codes.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        Kind.CONSEQUENCE,
        "The leader could not give this follower its records, or this broker's log directory was "
        "offline.",
        "Read the log of the leader at that time: it names the cause.",
        (
            "Disk error when trying to access log file on the disk.",
            "Error for partition {partition} at offset {offset}",
        ),
        outer=True,
    ),
    Message(
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a",
        Kind.DISK,
        "A broker answered that a message is damaged, or has no key although its topic is "
        "compacted.",
        "Of a fetch: verify the partition on its leader. Of a producer: see whether it sends keys.",
        (codes.BATCH_CRC_MISMATCH,),
        outer=True,
    ),
    *answer_alike(
        Kind.DISK,
        "A thread that copies from leaders or between log directories had ended: its partitions "
        "stay behind until the broker restarts.",
        "The trace below the line says why; verify the partition that it names.",
        (
            "[ReplicaFetcher replicaId={}]: Error due to",
            "[ReplicaAlterLogDirsThread-{}]: Error due to",
        ),
        outer=True,
    ),
    # Coordinators, which read their partitions when they become leaders.
    *answer_alike(
        Kind.CONSEQUENCE,
        "The partition was not served by this broker any more when its coordinator read it.",
        "Nothing to do after a change of leader. If a line before says why it is not served, "
        "that one names the cause.",
        (
            "from {partition} because the partition is not online or is no longer the leader",
            "Could not load records from {partition} because the log does not exist.",
            "Cannot load coordinator {partition} in state {}",
            "Transaction expiration for partition {partition} failed because the log config was",
            "Attempted to load offsets and group metadata from {partition}, but found no log",
            "Attempted to load transaction metadata from {partition}, but found no log",
        ),
    ),
    *answer_alike(
        Kind.DISK,
        "A coordinator could not read its partition: groups or transactions of that partition "
        "get no answer until it is repaired, or another broker leads it.",
        "Verify the partition. If another replica is in sync, move the leader there first.",
        (
            "Failed to load metadata from {partition} with epoch {} due to",
            "Error loading offsets from {partition}",
            "Error loading transactions from transaction log {partition}",
            "Deserializing record {} from {partition} failed.",
            "Replaying record {} from {partition} at offset {offset} with producer id",
        ),
        (codes.BATCH_CRC_MISMATCH, codes.RECORDS_UNREADABLE, codes.BATCH_SIZE_IMPOSSIBLE),
        outer=True,
    ),
    *answer_alike(
        Kind.NOTE,
        "A coordinator met a record that this release does not know, and passed it over, as "
        "after a downgrade.",
        "Nothing to do.",
        (
            "while loading offsets and group metadata from {partition}. Ignoring it.",
            "while loading transaction state from {partition}. Ignoring it.",
        ),
    ),
    *answer_alike(
        Kind.NOTE,
        "A batch of a coordinator's partition is larger than its read buffer, which was enlarged.",
        "Nothing to do.",
        (
            "Loaded metadata from {partition} with buffer larger ({} bytes) than",
            "Loaded offsets and group metadata from {partition} with buffer larger",
            "Loaded transaction metadata from {partition} with buffer larger",
        ),
    ),
    *answer_alike(
        Kind.DISK,
        "A record of a coordinator's partition could not be read: it is damaged, or of a later "
        "release.",
        "Run kdump verify --deep on the partition. If another replica is in sync, move the leader "
        "there first.",
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
        ),
        (codes.RECORDS_UNREADABLE, codes.BATCH_CRC_MISMATCH),
    ),
    *answer_alike(
        Kind.DISK,
        "The offsets of a coordinator's partition did not rise.",
        "Verify the partition.",
        (
            "New last written offset {} of {partition} must be greater than {offset}",
            "New committed offset {} of {partition} must be",
            "New offset {} of {partition} must be smaller than {offset}",
        ),
        (codes.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        Kind.DISK,
        "A coordinator could not write to its partition. Its clients try again.",
        "The trace below the line says why.",
        (
            "Failed to write records to {partition} due to an unexpected error: {}",
            "Failed to write the transaction marker to {partition} due to an unexpected error: {}",
            "Writing records to {partition} failed due to: {}",
        ),
        (codes.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        Kind.NOTE,
        "A coordinator was behind or ahead of its partition, or had no more use for what it held "
        "of it. It reads or has read the partition again.",
        "Nothing to do.",
        (
            "The state machine of the coordinator {partition} is out of sync with the underlying",
            "Unloaded transaction metadata {} from {partition} as part of loading metadata",
            "Failed to unload metadata for {partition}",
            "Failed to unload coordinator for {partition} due to",
        ),
    ),
    Message(
        "Received a tombstone record to delete {} but ",
        Kind.DISK,
        "Records of __consumer_offsets contradict each other: some are missing, as after damage "
        "that was cut off, or a defect of the release wrote them so. Its groups get no answer.",
        "Verify the partition. If another replica is in sync, move the leader there first.",
        outer=True,
    ),
)
