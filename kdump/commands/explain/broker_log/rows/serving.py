"""Messages of a running broker: appends, fetches, cleaning, retention, disk errors.

Spec: UnifiedLog, LocalLog, LogCleaner and LogCleanerManager of 3.9 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    batches,
    directory,
    file_types,
    futures,
    partition_files,
    read_errors,
    segments,
)
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import DISK, ended

_IO: Final = (
    "A read or write of this partition failed, and its log directory went offline. If the broker "
    "had no other log directory, it exited."
)
_CLEANER: Final = (
    "Until the broker restarts, it does not compact the partition, and the partition grows."
)

ROWS: Final = (
    # IOException in a partition. The message names the operation.
    *answer_alike(
        _IO,
        DISK,
        (
            "Error while appending records to {partition} in dir {dir}",
            "Error while flushing log for {partition} in dir {dir} with offset {offset}",
            "Error while rolling log segment for {partition} in dir {dir}",
            "Exception while reading from {partition} in dir {dir}",
            "Exception while increasing log start offset for {partition} to {offset} in dir {dir}",
            "Error while fetching offset by timestamp for {partition} in dir {dir}",
            "Error while deleting segments for {partition} in dir {dir}",
            "Error while deleting all segments for {partition} in dir {dir}",
            "Error while deleting log for {partition} in dir {dir}",
            "Error while deleting dir for {partition} in dir {dir}",
            "Error while renaming dir for {partition} in dir {dir}",
            "Error while deleting producer state snapshot {} for {partition} in dir {dir}",
            "Error while deleting producer state snapshots for {partition} in dir {dir}",
            "Error while taking producer state snapshot for {partition} in dir {dir}",
            "Error while flushing producer state snapshot {} for {partition} in dir {dir}",
            "Error while preparing active segment for close for {partition} in dir {dir}",
            "Error while closing log segments for {partition} in dir {dir}",
            "Error while truncating log to offset {offset} for {partition} in dir {dir}",
            "Error while truncating the entire log for {partition} in dir {dir}",
            "Error flushing topic {}",
            "Failed to clean up log for {partition} in dir {dir} due to IOException",
        ),
        (read_errors.UNREADABLE, futures.FUTURE_BESIDE_CURRENT),
        outer=True,
        quoted=("Error while renaming dir for {partition} in log dir {dir}",),
        unquoted=(read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Error trying to open or read the file {path}",
        _IO,
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    # The cleaner.
    BrokerMessage(
        "Unexpected exception thrown when cleaning log {}. Marking its partition ({partition}) as "
        "uncleanable",
        "The cleaner could not read this log. " + _CLEANER,
        "Run kdump verify --deep on the partition. The stack trace below the line shows the "
        "cleaner's error.",
        (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH, batches.BATCH_CODEC_UNKNOWN),
        outer=True,
    ),
    *answer_alike(
        "The broker could not read or write cleaner-offset-checkpoint. The log directory went "
        "offline.",
        DISK,
        (
            "Failed to access checkpoint file {} in dir {dir}",
            "Failed to access checkpoint file in dir {dir}",
        ),
        (directory.CHECKPOINT_MALFORMED, read_errors.UNREADABLE),
        outer=True,
    ),
    *answer_alike(
        "The cleaner thread ended. This broker compacts no topic until it restarts.",
        "The stack trace below the line names the cause. If the line has none, run kdump verify on "
        "the log directories: it checks cleaner-offset-checkpoint and the logs.",
        ended(
            "kafka-log-cleaner-thread-{}",
            "kafka.log.LogCleaner",
            "org.apache.kafka.storage.internals.log.LogCleaner",
        ),
        outer=True,
    ),
    BrokerMessage(
        "Resetting first dirty offset of {partition} to log start offset {offset} since the "
        "checkpointed offset {}",
        "The cleaner's checkpoint was below the log start offset.",
        "Nothing to do.",
        (partition_files.CLEANER_OFFSET_BELOW_START,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "The last checkpoint dirty offset for partition {partition} is {offset}, which is larger "
        "than the log end",
        "The cleaner's checkpoint was above the log end offset. The cleaner began again at the "
        "start of the log.",
        "The end of the log may be lost: verify the partition.",
        (partition_files.CLEANER_OFFSET_BEYOND_END,),
        quoted=True,
    ),
    BrokerMessage(
        "invalid messages during compaction.",
        "The cleaner found messages that it could not read, and omitted them.",
        "Verify the partition and compare it with another replica.",
        (batches.RECORDS_UNREADABLE,),
    ),
    *answer_alike(
        "The cleaner found a batch that is corrupt, or larger than any batch that a topic allows. "
        + _CLEANER,
        "Verify the partition.",
        (
            "Log segment may be corrupt, batch size {} > {} bytes left in segment for log segment "
            "{path} at position {position}",
            "Invalid batch size {} for log segment {path} at position {position}",
            "Could not determine next batch size for log segment {path} at position {position}",
            "Batch size {} < buffer size {}, but not processed for log segment {path} at position "
            "{position}",
            "Log segment may be corrupt, batch size {} > {} bytes left in segment for {}",
            "Invalid batch size {} for {}",
            "Could not determine next batch size for {}",
            "Batch size {} < buffer size {}, but not processed for {}",
            "This log contains a message larger than maximum allowable size of {}",
            "Failed to read from segment {} of partition {partition} while loading offset map",
        ),
        (batches.BATCH_SIZE_IMPOSSIBLE, batches.BATCH_CRC_MISMATCH),
    ),
    BrokerMessage(
        "Failed to calculate log cleaning stats for partition {partition}",
        "The cleaner could not calculate the cleaning statistics of this log. " + _CLEANER,
        "The stack trace below the line names the cause. Verify the partition.",
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Record batch from {partition} with last offset {offset} exceeded max record batch size {}",
        "The cleaner wrote a batch that is larger than max.message.bytes allows.",
        "Nothing to do, except for consumers of releases before 0.10.1.",
        kind=Subject.NOTE,
    ),
    # Retention.
    BrokerMessage(
        "contains future timestamp(s), making it ineligible to be deleted",
        "A segment has a timestamp in the future. Time-based retention keeps this segment and all "
        "later segments.",
        "Verify the partition: kdump verify reports the segments. kafka-delete-records.sh moves "
        "the log start offset past them.",
        (segments.TIMESTAMPS_FUTURE, segments.TIMESTAMPS_HOLD_RETENTION),
    ),
    BrokerMessage(
        "Empty active segment at {offset} was deleted and recreated due to {}",
        "Retention deleted a segment without records.",
        "Nothing to do.",
        kind=Subject.NOTE,
    ),
    # Scheduled tasks.
    *answer_alike(
        "A scheduled task of the broker failed. If the task is periodic, the broker tries it "
        "again.",
        "The stack trace below the line names the cause. Verify the partition that it names.",
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
        "A partition that the broker was deleting still had segments, or a mapped index.",
        "The name of the directory ends in -delete: the next startup removes the directory.",
        (
            "Can not delete directory when memory mapped buffer for log of {partition} is still",
            "Can not delete directory when log of {partition} is still open",
            "Can not delete directory when {} segments are still present",
        ),
        (file_types.DIRECTORY_DELETED,),
    ),
    # The local copies of indexes of tiered storage.
    *answer_alike(
        "The broker could not use remote-log-index-cache. This directory holds copies of indexes "
        "of segments in remote storage, and no records.",
        DISK,
        (
            "Unable to create directory {path} for RemoteIndexCache.",
            "Empty file name in remote index cache directory: {path}",
            "Error occurred while cleaning up expired entry",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
)
