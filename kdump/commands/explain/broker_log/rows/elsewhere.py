"""Frequent messages that do not concern log directories.

Spec: brokers and controllers of 3.9 to 4.4. These messages occur in logs of sound directories.
"""

from __future__ import annotations

from typing import Final

from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import ended

_NOTHING: Final = "Nothing to do for the disks: kdump cannot help here."


def _rows(happened: str, *patterns: str) -> tuple[BrokerMessage, ...]:
    return tuple(
        BrokerMessage(pattern, happened, _NOTHING, kind=Subject.ELSEWHERE) for pattern in patterns
    )


ROWS: Final = (
    *_rows("A controller became the active controller.", "Performing controller activation."),
    *_rows(
        "A connection was closed, or could not be established.",
        "Attempting to close NetworkClient that has already been closed",
        "Connection to node {} could not be established",
        "Unable to send broker heartbeat for {}",
        "sent a heartbeat request but received error",
        "Unable to register broker {}",
        "Shutting down because we were unable to register with the controller quorum",
        "Timed out waiting for the controller to approve controlled shutdown",
        "failed due to authentication error",
        "failed due to unsupported version error",
        "Error in response for fetch request",
    ),
    *_rows(
        "The broker released the lock of a log directory twice at shutdown.",
        "Exception while execution the action",
        "[BrokerServer id={}] null ({})\njava.nio.channels.ClosedChannelException",
    ),
    *_rows(
        "A config is deprecated, or has no effect.",
        "is deprecated",
        "rebalance protocol is enabled along",
        "Invalid value for `log.cleaner",
    ),
    *_rows(
        "A topic was being created or deleted at that time.",
        "from the leader for partition {partition}. This error may be returned transiently when",
    ),
    *_rows(
        "A message is larger than replica.fetch.max.bytes or max.message.bytes allows.",
        "Replication is failing due to a message that is greater than replica.fetch.max.bytes for "
        "partition {partition}.",
        "bytes in append to partition {partition}, which exceeds the maximum configured",
        "bytes in append to partition {partition} which exceeds the maximum configured",
        "bytes in append topartition {partition} which exceeds the maximum configured",
        "size in the append to {partition} is {} bytes which exceeds the maximum configured",
    ),
    *answer_alike(
        "A client sent bytes that are no request of Kafka's, or that end too early. The broker "
        "closed the connection.",
        _NOTHING,
        (
            "Processor got uncaught exception{}\n{}BufferUnderflowException",
            "Exception while processing request from {}\n{}BufferUnderflowException",
            "InvalidRequestException: Error getting request for apiKey",
            "InvalidRequestException: Error parsing request header",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *_rows(
        "A producer sent a batch that the producer's state does not allow.",
        "Out of order sequence number for producer {} at offset {offset} in partition {partition}:",
        "Invalid sequence number for new epoch of producer {}at offset {offset} in partition "
        "{partition}:",
    ),
    *answer_alike(
        "A producer sent a batch that did not match its checksum, or that the broker could not "
        "decompress. The broker refused it and wrote nothing.",
        "Test the memory and the network of that client, and its version. The log is valid.",
        (
            "Error processing ProducerRequest with correlation id {} from client {} on partition "
            "{partition}{}\n{}InvalidMessageException: ",
            "Error processing append operation on partition {partition}{}\n{}InvalidMessage"
            "Exception: ",
            "Error processing append operation on partition {partition}{}\n{}CorruptRecord"
            "Exception: ",
            "Error processing append operation on partition {partition}{}\n{}Failed to decompress",
            "Error processing append operation on partition {partition}{}\n{}\nCaused by: "
            "java.lang.NegativeArraySizeException",
            "Got error produce response with correlation id {} on topic-partition {partition}, "
            "{}. Error: CORRUPT_MESSAGE",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *_rows(
        "A producer sent a batch that the broker refused. It wrote nothing.",
        "Batch has an invalid offset range",
        "is not the same as the first batch",
        "Clients are not allowed to write control records",
        "Inconsistent batch offset range",
        "Invalid reported count for record batch",
        "Invalid sequence number {} in record batch with producerId",
        "Compacted topic cannot accept message without key",
        "Compressed outer record has more than one batch",
        "Compressed outer record should not have an inner record",
        "Record batch has no batches at all",
        "One or more records have been rejected",
        "of message is out of range. The timestamp should be within",
        "of message with offset {} is out of range. The timestamp should be within",
        "Invalid timestamp type in message",
        "magic does not match outer magic",
        "Idempotent records cannot be used with magic version",
        "Transactional records cannot be used with magic version",
        "Illegal length of message set {} Message set cannot be appended to log",
        "Error in validating messages while appending to log '{partition}'",
        "Error validating messages while appending to log {partition}",
        "The baseOffset of the record batch should be 0",
        "Message size is {} bytes which exceeds the maximum configured message size",
        "Message set size is {} bytes which exceeds the maximum configured segment size",
        "Message batch size is {} bytes which exceeds the maximum configured",
        "The record batch size is {} bytes which exceeds the maximum configured value",
        "Out of order sequence number for producerId",
        "Invalid sequence number for new epoch: {} (request epoch)",
        "Found no record of producerId=",
        "epoch is no longer valid. There is probably another producer with a newer epoch",
        "Invalid coordinator epoch: {} (zombie)",
    ),
    *_rows(
        "A request for offsets by time named a partition of an old message format.",
        "Cannot search offsets based on timestamp because message format version for partition "
        "{partition} is",
    ),
    *_rows(
        "A producer, a transaction or a reader made a request that the partition's state does not "
        "allow. The broker wrote nothing.",
        "Invalid coordinator epoch for producerId {} at offset {offset} in partition {partition}:",
        "Invalid sequence number for producer {} at offset {offset} in partition {partition}:",
        "which is smaller than the last seen epoch",
        "Record was not part of an ongoing transaction",
        "transactionVersion must be explicitly specified",
        "Cannot append record batch with illegal length {} to log for {partition}",
        "The baseOffset of the record batch in the append to {partition}",
        "Cannot increment the log start offset to {offset} of partition {partition} since",
        "record(s) to {partition} because it is larger than the maximum batch size of {}",
        "Failed to write the transaction marker to {partition} because it is too large",
        "Append from Raft leader did not set the batch epoch correctly",
    ),
    *answer_alike(
        "The memory of a cleaner thread is too small for a segment, and the thread ended. This "
        "broker compacts no topic until it restarts. The log is valid.",
        "Increase log.cleaner.dedupe.buffer.size or decrease log.cleaner.threads. Then restart the "
        "broker.",
        (
            "messages in segment {partition}/{} but offset map can fit only {}",
            "Unable to build the offset map for segment {partition}/{}",
            "but offset map can fit only",
            "offset map is too small to fit in even a single message",
            "Attempted to add a new entry to a full offset map",
            "Attempt to add a new entry to a full offset map",
        ),
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *_rows(
        "The size of the cleaner's memory does not suit the topic.",
        "Cannot use more than 2G of cleaner buffer space per cleaner thread",
    ),
    *_rows(
        "The broker tried to pause or stop the cleaner for a partition when this was not possible.",
        "Compaction for partition {partition} cannot be",
        "State for partition {partition} should exist.",
        "In-progress partition {partition} cannot be in",
    ),
    *_rows(
        "A config prevents startup.",
        "Invalid max index size: {}",
        "No broker ID found, and {} is disabled.",
        "Failed to generate broker.id",
        "Log cleaner threads should be at least 1",
    ),
    *answer_alike(
        "The broker could not reach tiered storage, or could not copy a segment to it.",
        _NOTHING,
        (
            "Error building remote log auxiliary state for {partition}",
            "Couldn't build the state from remote store for partition: {partition},",
            "Couldn't build the state from remote store for partition {partition},",
            "Unable to fetch data from remote storage",
            "Error occurred while reading the remote data for {partition} ",
            "Error occurred while reading the remote data for {}",
            "Error occurred while copying log segments of partition: {}",
            "received error but it will be scheduled",
            "Error while cleaning segment {}",
            "Encountered error while initializing topic-based RLMM resources",
            "Encountered error while initializing producer/consumer",
        ),
        kind=Subject.ELSEWHERE,
        outer=True,
    ),
    *_rows(
        "The broker could not hand over the leadership of its partitions before shutdown. It "
        "closed its logs.",
        "Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed",
        "Error during controlled shutdown, possibly because leader movement took longer",
    ),
    *_rows("A leader did not answer.", "Error getting offset for partition {partition}"),
    *_rows(
        "A controller lost the leadership of the metadata quorum during a request.",
        "failed with unknown server exception NotLeaderException",
        "Append failed because the replication is not the current leader",
    ),
    *(
        BrokerMessage(
            pattern,
            happened,
            "The stack trace below the line names the cause.",
            kind=Subject.ELSEWHERE,
            outer=True,
        )
        for pattern, happened in (
            ("Uncaught exception in scheduled task '{}'", "A scheduled task of the broker failed."),
            *((pattern, "A thread of the broker ended.") for pattern in ended("{}", "kafka.")),
            ("Stopped due to fatal error with exit code {}", "A thread of the broker ended."),
            ("Execution of {} failed due to {}", "A request to a coordinator failed."),
            ("Replaying record {} to {partition} failed due", "A request to a coordinator failed."),
            ("The write event {} for the timer {} failed due", "A timer of a coordinator failed."),
        )
    ),
)
