"""Messages of a running broker: appends, fetches, cleaning, retention, disk errors.

Spec: UnifiedLog, LocalLog, LogCleaner and LogCleanerManager of 3.9 to 4.3.
"""

from __future__ import annotations

from typing import Final

from kdump.audit import codes
from kdump.audit.broker_log.answers import DISK
from kdump.audit.broker_log.message import Kind, Message, answer_alike

_IO: Final = (
    "A read or write of this partition failed, and its log directory went offline. With no other "
    "log directory the broker exited."
)
_CLEANER: Final = (
    "The partition is not compacted any more, until the broker is restarted, and grows."
)

ROWS: Final = (
    # What the operating system says.
    *answer_alike(
        Kind.DISK,
        "The file system is full. The log directory that was being written went offline.",
        "Free space, but do not remove a .log by hand: kdump verify --quick --info "
        "DIRECTORY lists what a broker removes by itself. Then restart the broker.",
        ("FileSystemException: {path}: No space left on device", "No space left on device"),
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
    *answer_alike(
        Kind.DISK,
        "The broker's user may not read or write this file. Its log directory went offline, or "
        "nothing started.",
        "Correct the owner and rights: files that root has made or restored are the usual cause.",
        (
            "java.nio.file.AccessDeniedException: {path}",
            "java.io.FileNotFoundException: {path} (Permission denied)",
            "Permission denied",
        ),
        (codes.UNREADABLE, codes.BROKER_DENIED),
    ),
    *answer_alike(
        Kind.DISK,
        "A file that the broker was to use, or its directory, was not there: something else "
        "removed or renamed it, or the file system is not mounted.",
        "Find out what: a job that cleans up, a second broker, a person. Then verify the log "
        "directory.",
        (
            "java.nio.file.NoSuchFileException: {path}",
            "java.io.FileNotFoundException: {path} (No such file or directory)",
        ),
    ),
    # IOException in a partition: what was at work.
    *answer_alike(
        Kind.DISK,
        _IO,
        DISK,
        (
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
            "Failed to clean up log for {partition} in dir {path} due to IOException",
        ),
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Error trying to open or read the file {path}",
        Kind.DISK,
        _IO,
        DISK,
        (codes.UNREADABLE,),
        outer=True,
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
        DISK,
        (codes.CHECKPOINT_MALFORMED, codes.UNREADABLE),
        outer=True,
    ),
    Message(
        "Failed to access checkpoint file in dir {path}",
        Kind.DISK,
        "cleaner-offset-checkpoint could not be read or written. The log directory went offline.",
        DISK,
        (codes.CHECKPOINT_MALFORMED, codes.UNREADABLE),
        outer=True,
    ),
    Message(
        "[kafka-log-cleaner-thread-{}]: Error due to",
        Kind.DISK,
        "The cleaner's thread ended: no topic of this broker is compacted until it restarts.",
        "A number in cleaner-offset-checkpoint that does not parse does this: stop the broker, "
        "and kdump reindex --apply of the log directory writes the file. Else the trace below the "
        "line says why.",
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
    *answer_alike(
        Kind.DISK,
        "The cleaner met a batch that is damaged, or larger than any that a topic allows. "
        + _CLEANER,
        "Verify the partition.",
        (
            "Log segment may be corrupt, batch size {} > {} bytes left in segment for log segment "
            "{path} at position {position}",
            "Invalid batch size {} for log segment {path} at position {position}",
            "Could not determine next batch size for log segment {path} at position {position}",
            "Batch size {} < buffer size {}, but not processed for log segment {path} at position "
            "{position}",
            "This log contains a message larger than maximum allowable size of {}",
            "Failed to read from segment {} of partition {partition} while loading offset map",
        ),
        (codes.BATCH_SIZE_IMPOSSIBLE, codes.BATCH_CRC_MISMATCH),
    ),
    Message(
        "Failed to calculate log cleaning stats for partition {partition}",
        Kind.DISK,
        "The cleaner could not weigh this log. " + _CLEANER,
        "The trace below the line says why; verify the partition.",
        (codes.UNREADABLE,),
        outer=True,
    ),
    Message(
        "Record batch from {partition} with last offset {offset} exceeded max record batch size {}",
        Kind.NOTE,
        "The cleaner wrote a batch that is larger than max.message.bytes allows.",
        "Nothing to do but for consumers of releases before 0.10.1.",
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
    # Regular tasks.
    *answer_alike(
        Kind.DISK,
        "A regular task of the broker failed. Those that repeat are tried again.",
        "The trace below the line says why; verify the partition that it names.",
        (
            "Uncaught exception in scheduled task 'kafka-{}'",
            "Uncaught exception in scheduled task 'highwatermark-checkpoint'",
            "Uncaught exception in scheduled task 'flush-{}'",
            "Uncaught exception in scheduled task 'delete-{}'",
            "Uncaught exception in scheduled task 'leader-epoch-cache-flush-{partition}'",
            "Uncaught exception in scheduled task 'PeriodicProducerExpirationCheck'",
        ),
        outer=True,
    ),
    *answer_alike(
        Kind.DISK,
        "A partition that was to be deleted still had segments, or an index that was mapped.",
        "The directory ends in -delete: the next start removes it.",
        (
            "Can not delete directory when memory mapped buffer for log of {partition} is still",
            "Can not delete directory when {} segments are still present",
        ),
        (codes.DIRECTORY_DELETED,),
    ),
    # The local copies of indexes of tiered storage.
    *answer_alike(
        Kind.DISK,
        "remote-log-index-cache could not be used. It holds copies of indexes of segments in "
        "remote storage; no record is in it.",
        DISK,
        (
            "Unable to create directory {path} for RemoteIndexCache.",
            "Empty file name in remote index cache directory: {path}",
            "Error occurred while cleaning up expired entry",
        ),
        (codes.UNREADABLE,),
        outer=True,
    ),
)
