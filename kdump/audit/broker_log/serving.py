"""What a running broker logs of its logs: appends, fetches, cleaning, retention, and disk errors.

Spec: UnifiedLog, LocalLog, LogCleaner, LogCleanerManager, AbstractFetcherThread and ReplicaManager
of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.message import Kind, Message

_IO: Final = (
    "A read or write of this partition failed, and its log directory went offline. With no other "
    "log directory the broker exited."
)
_DISK: Final = (
    "The exception below the line says why: no space, an error of the disk, rights, too many open "
    "files. Once that is solved, restart the broker: a log directory stays offline until then."
)
_LEADER: Final = (
    "Verify this partition on the leader: the batch is bad there, or an index leads to the wrong "
    "place. If it is sound there, the network or this machine's memory is at fault."
)
_FETCHED: Final = (
    codes.BATCH_CRC_MISMATCH,
    codes.BATCH_SIZE_IMPOSSIBLE,
    codes.INDEX_MISPLACED,
)
_CLEANER: Final = (
    "The partition is not compacted any more, until the broker is restarted, and grows."
)

ROWS: Final = (
    # What the operating system says.
    Message(
        "No space left on device",
        Kind.DISK,
        "The file system is full. The log directory that was being written went offline.",
        "Free space, but do not remove a .log by hand: kdump verify --quick --info lists what a "
        "broker removes by itself. Then restart the broker.",
    ),
    Message(
        "Disk quota exceeded",
        Kind.DISK,
        "The quota of the broker's user is used up. The log directory went offline.",
        "Free space or raise the quota. Then restart the broker.",
    ),
    Message(
        "Input/output error",
        Kind.DISK,
        "The disk failed at a read or write. The log directory went offline.",
        "Look at the system's log. Copy what can be read before the disk is used again.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Read-only file system",
        Kind.DISK,
        "The file system is mounted read-only, as after an error. The log directory went offline.",
        "Look at the system's log, and check the file system before it is mounted for writing.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Structure needs cleaning",
        Kind.DISK,
        "The file system is damaged. The log directory went offline.",
        "Unmount it and run its own check, then verify the log directory before a broker starts.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Stale file handle",
        Kind.DISK,
        "A network file system lost the file. The log directory went offline.",
        "Mount it again, and verify the log directory before a broker starts.",
        (codes.UNREADABLE,),
    ),
    Message(
        "Too many open files",
        Kind.ELSEWHERE,
        "The limit of open files was reached. A log directory may have gone offline by that.",
        "Raise the limit (LimitNOFILE, ulimit -n), then restart the broker. The disk is sound.",
    ),
    Message(
        "java.lang.OutOfMemoryError: Map failed",
        Kind.ELSEWHERE,
        "The limit of mapped areas was reached, which large numbers of indexes use up.",
        "Raise vm.max_map_count, then restart the broker. The disk is sound.",
    ),
    Message(
        "Permission denied",
        Kind.DISK,
        "The broker's user may not read or write a file. The log directory went offline.",
        "Correct the owner and rights: files that root has made or restored are the usual cause.",
        (codes.UNREADABLE,),
    ),
    # IOException in a partition: what was at work.
    *(
        Message(pattern, Kind.DISK, _IO, _DISK, (codes.UNREADABLE,), outer=True)
        for pattern in (
            "Error while appending records to {partition} in dir {path}",
            "Error while flushing log for {partition} in dir {path} with offset {offset}",
            "Error while rolling log segment for {partition} in dir {path}",
            "Exception while reading from {partition} in dir {path}",
            "Exception while increasing log start offset for {partition} to {offset} in dir {path}",
            "Error while fetching offset by timestamp for {partition} in dir {path}",
            "Error while deleting segments for {partition} in dir {path}",
            "Error while deleting all segments for {partition} in dir {path}",
            "Error while deleting log for {partition} in dir {path}",
            "Error while deleting dir for {partition} in dir {path}",
            "Error while renaming dir for {partition} in dir {path}",
            "Error while renaming dir for {partition} in log dir {path}",
            "Error while deleting producer state snapshot {} for {partition} in dir {path}",
            "Error while deleting producer state snapshots for {partition} in dir {path}",
            "Error while truncating log to offset {offset} for {partition} in dir {path}",
            "Error while truncating the entire log for {partition} in dir {path}",
            "Error flushing topic {}",
        )
    ),
    Message(
        "Error trying to open or read the file {path}",
        Kind.DISK,
        _IO,
        _DISK,
        (codes.UNREADABLE,),
        outer=True,
    ),
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
        _DISK,
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
    *(
        Message(
            pattern,
            Kind.NOTE,
            "A follower compared leader epochs with its leader and found no common one: it cut "
            "its log by offsets instead.",
            "Nothing to do after a change of leader. If it comes again, verify the partition's "
            "leader-epoch-checkpoint on both.",
            (codes.EPOCHS_MISSING,),
        )
        for pattern in (
            "Based on replica's leader epoch, leader replied with an unknown offset in {partition}",
            "below any replica's tracked epochs for {partition}.",
            "Leader or replica is on protocol version where leader epoch is not considered",
        )
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A request for this partition failed while its log was read or written.",
            "The trace below the line says why; verify the partition.",
            (codes.UNREADABLE,),
            outer=True,
        )
        for pattern in (
            "Error processing fetch with max size {} from {} on partition {partition}:",
            "Error processing append operation on partition {partition}",
            "Error processing delete records operation on partition {partition}",
        )
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
        "Trying to roll a new log segment for topic partition {partition} with start offset ",
        Kind.DISK,
        "A new segment could not begin, because one of that or a later offset is there already. "
        "The append failed.",
        "Verify the partition.",
        (codes.SEGMENTS_OVERLAP, codes.OFFSETS_NOT_INCREASING),
    ),
    Message(
        "Trying to roll a new log segment with start offset {offset} =max(provided offset",
        Kind.NOTE,
        "A segment without records was to be rolled again, and is used as it is.",
        "Nothing to do, unless it repeats: then its indexes are full, and verify shows why.",
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
    # The cleaner.
    Message(
        "Unexpected exception thrown when cleaning log {}. Marking its partition ({partition}) as "
        "uncleanable",
        Kind.DISK,
        "The cleaner could not read this log. " + _CLEANER,
        "Run kdump verify --deep on the partition: the trace below the line says what it met.",
        (codes.RECORDS_UNREADABLE, codes.BATCH_CRC_MISMATCH, codes.BATCH_CODEC_UNKNOWN),
        outer=True,
    ),
    Message(
        "Failed to access checkpoint file {} in dir {path}",
        Kind.DISK,
        "cleaner-offset-checkpoint could not be read or written. The log directory went offline.",
        _DISK,
        (codes.CHECKPOINT_MALFORMED, codes.UNREADABLE),
        outer=True,
    ),
    Message(
        "Failed to access checkpoint file in dir {path}",
        Kind.DISK,
        "cleaner-offset-checkpoint could not be read or written. The log directory went offline.",
        _DISK,
        (codes.CHECKPOINT_MALFORMED, codes.UNREADABLE),
        outer=True,
    ),
    Message(
        "[kafka-log-cleaner-thread-{}]: Error due to",
        Kind.DISK,
        "The cleaner's thread ended: no topic of this broker is compacted until it restarts.",
        "A number in cleaner-offset-checkpoint that does not parse does this: correct or delete "
        "the file while the broker is stopped. Else the trace below the line says why.",
        (codes.CHECKPOINT_NUMBER,),
    ),
    Message(
        "Resetting first dirty offset of {partition} to log start offset {offset} since the "
        "checkpointed offset {}",
        Kind.NOTE,
        "The cleaner's checkpoint lay before the log's start.",
        "Nothing to do.",
        (codes.CLEANER_OFFSET_BELOW_START,),
    ),
    Message(
        "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger "
        "than the log end",
        Kind.DISK,
        "The cleaner's checkpoint lay behind the log's end. The cleaner began again at the start.",
        "The end of the log may be lost: verify the partition.",
        (codes.CLEANER_OFFSET_BEYOND_END,),
    ),
    Message(
        "invalid messages during compaction.",
        Kind.DISK,
        "The cleaner met messages that it could not read, and left them out.",
        "Verify the partition and compare it with another replica.",
        (codes.RECORDS_UNREADABLE,),
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "The cleaner met a batch that is damaged, or larger than any that a topic allows. "
            + _CLEANER,
            "Verify the partition.",
            (codes.BATCH_SIZE_IMPOSSIBLE, codes.BATCH_CRC_MISMATCH),
        )
        for pattern in (
            "Log segment may be corrupt, batch size {} > {} bytes left in segment for {}",
            "Invalid batch size {} for {}",
            "Could not determine next batch size for {}",
            "This log contains a message larger than maximum allowable size of {}",
            "Failed to read from segment {} of partition {partition} while loading offset map",
        )
    ),
    Message(
        "Failed to calculate log cleaning stats for partition {partition}",
        Kind.DISK,
        "The cleaner could not weigh this log. " + _CLEANER,
        "The trace below the line says why; verify the partition.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    # Retention.
    Message(
        "contains future timestamp(s), making it ineligible to be deleted",
        Kind.DISK,
        "A segment has a timestamp in the future. Retention by time keeps it, and all behind it.",
        "Verify the partition: it gives the segments. kafka-delete-records.sh moves the log's "
        "start past them.",
        (codes.TIMESTAMPS_FUTURE, codes.TIMESTAMPS_HOLD_RETENTION),
    ),
    Message(
        "Empty active segment at {offset} was deleted and recreated due to {}",
        Kind.NOTE,
        "Retention removed a segment without records.",
        "Nothing to do.",
    ),
    # Coordinators, which read their partitions when they become leaders.
    *(
        Message(
            pattern,
            Kind.CONSEQUENCE,
            "The partition was not served by this broker any more when its coordinator read it.",
            "Nothing to do after a change of leader. If a line before says why it is not served, "
            "that one names the cause.",
        )
        for pattern in (
            "because the partition is not online or is no longer the leader",
            "Attempted to load offsets and group metadata from {partition}, but found no log",
            "Attempted to load transaction metadata from {partition}, but found no log",
        )
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A coordinator could not read its partition: groups or transactions of that partition "
            "get no answer until it is repaired, or another broker leads it.",
            "Verify the partition. If another replica is in sync, move the leader there first.",
            (codes.BATCH_CRC_MISMATCH, codes.RECORDS_UNREADABLE, codes.BATCH_SIZE_IMPOSSIBLE),
            outer=True,
        )
        for pattern in (
            "Failed to load metadata from {partition} with epoch {} due to",
            "Error loading offsets from {partition}",
            "Error loading transactions from transaction log {partition}",
        )
    ),
    *(
        Message(
            pattern,
            Kind.NOTE,
            "A coordinator met a record that this release does not know, and passed it over, as "
            "after a downgrade.",
            "Nothing to do.",
        )
        for pattern in (
            "while loading offsets and group metadata from {partition}. Ignoring it.",
            "while loading transaction state from {partition}. Ignoring it.",
        )
    ),
    *(
        Message(
            pattern,
            Kind.NOTE,
            "A batch of a coordinator's partition is larger than its read buffer, which was "
            "enlarged.",
            "Nothing to do.",
        )
        for pattern in (
            "Loaded metadata from {partition} with buffer larger ({} bytes) than",
            "Loaded offsets and group metadata from {partition} with buffer larger",
            "Loaded transaction metadata from {partition} with buffer larger",
        )
    ),
    # Moves between log directories.
    Message(
        "Unable to alter log dirs for {partition}",
        Kind.NOTE,
        "A move of a replica to another log directory was refused.",
        "The trace below the line says why: a directory that is offline or not in log.dirs.",
        outer=True,
    ),
    Message(
        "Error while changing replica dir for partition {partition}",
        Kind.DISK,
        "A move of a replica to another log directory failed.",
        "The trace below the line says why.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    *(
        Message(
            pattern,
            Kind.DISK,
            "A log directory could not be described, most likely because it is offline.",
            _DISK,
            (codes.UNREADABLE,),
            outer=True,
        )
        for pattern in (
            "Unable to describe replica dirs for {path}",
            "Error while describing replica in dir {path}",
        )
    ),
    Message(
        "to exist, but it was missing. Creating...",
        Kind.DISK,
        "The directory of a replica that this broker should have was not there. An empty one was "
        "made, which copies everything from the leader.",
        "If nobody meant that, see whether a file system was not mounted.",
        (codes.REPLICA_MISSING, codes.REPLICA_MISSING_ONLY),
    ),
)
