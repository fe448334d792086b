"""Messages of clients: librdkafka, sarama, the Python clients, and Java's consumer.

Spec: the sources of librdkafka, sarama, kafka-python and aiokafka, and Fetcher, CompletedFetch and
SubscriptionState of Kafka's own clients.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, indexes, partition_files
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike

_VERIFY: Final = (
    "Verify the partition on its leader: kdump verify reports the offset to seek to. If the "
    "partition is valid there, the network or the client's memory is at fault."
)
_OUT_OF_RANGE: Final = (
    "A consumer asked for an offset that is not in the log. Retention or DeleteRecords removed the "
    "records while the consumer lagged or was stopped, or the topic was created again, or the log "
    "lost its end."
)
_GROUPS: Final = (
    "Reset the group's offsets. On the brokers' disks, kdump groups shows committed offsets with "
    "the start and end of the logs. If the offset is after the end, records are lost there: verify "
    "the partition."
)

ROWS: Final = (
    # Checksums.
    *answer_alike(
        "sarama read a batch that does not match its checksum, or that it took for a message of an "
        "older format.",
        "If the Version in the client's configuration is older than the message format of the "
        "topic (as with: expected 0x0), set it to the brokers' release. Otherwise, verify the "
        "partition on its leader.",
        (
            "while consuming {topic}/{number}: kafka: error decoding packet: CRC didn't match",
            "kafka: error decoding packet: CRC didn't match",
        ),
        (batches.BATCH_CRC_MISMATCH,),
    ),
    *answer_alike(
        "A consumer received a batch that does not match its checksum, and stopped at this offset.",
        _VERIFY,
        (
            "error while consuming {topic}/{number}: kafka server: Message contents does not match",
            "kafka server: Message contents does not match its CRC",
            "Invalid CRC - {partition}",
            "Invalid CRC",
            "Record batch for partition {partition} at offset {offset} failed crc check",
            "Record for partition {partition} at offset {offset} failed crc check",
            "Message at offset {offset} ({} bytes) failed CRC32 check",
            "Message at relative offset {offset} ({} bytes) failed CRC32 check",
            "MessageSet at offset {offset} ({} bytes) failed CRC32C check",
            "MessageSet at offsets {offset}-{} ({} bytes) failed CRC32C check",
            "Encountered corrupt message when fetching topic-partition {partition}",
            "{topic} [{number}]: Broker: Invalid message",
            "Broker: Invalid message",
        ),
        (batches.BATCH_CRC_MISMATCH,),
    ),
    BrokerMessage(
        "Record for partition {partition} at offset {offset} is invalid, cause: {}",
        "A consumer received a corrupt batch and stopped at this offset.",
        _VERIFY,
        (batches.BATCH_CRC_MISMATCH,),
    ),
    BrokerMessage(
        "Error deserializing key/value for partition {partition} at offset {offset}",
        "A consumer could not read a record: its deserializer does not understand the key or the "
        "value, or the batch is corrupt: an exception below the line then says so.",
        "Check the consumer's deserializers. It can seek past the record.",
        kind=Subject.ELSEWHERE,
        outer=True,
    ),
    BrokerMessage(
        "Local: Bad message format",
        "librdkafka could not read a batch: it does not match its checksum, or its fields "
        "contradict each other.",
        _VERIFY,
        (batches.BATCH_CRC_MISMATCH, batches.BATCH_SIZE_IMPOSSIBLE, batches.RECORDS_UNREADABLE),
        outer=True,
    ),
    *answer_alike(
        "A consumer could not decompress a batch. It was written that way, or it is corrupt.",
        "Run kdump verify --deep on the partition: it reports the offset to seek to.",
        (
            "Decompression (codec {}) of MessageSet at {offset} of {} bytes failed",
            "Decompression (codec {}) of message at {offset} of {} bytes failed",
            "Local: Invalid compressed data",
            "Failed to decompress Gzip message at offset {offset}",
            "Failed to decompress Snappy message",
            "Corrupted compressed message",
            "Value of compressed message is None",
        ),
        (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH),
    ),
    BrokerMessage(
        "Failed to make progress reading messages at {partition}={offset}",
        "A consumer received bytes that hold no whole batch: the size field of a batch has an "
        "impossible value, or an index points to the wrong position.",
        _VERIFY,
        (batches.BATCH_SIZE_IMPOSSIBLE, indexes.INDEX_MISPLACED),
    ),
    BrokerMessage(
        "consumed offset: {offset} doesn't match fetch offset: {} for {topic}:{number}",
        "A consumer received offsets that do not continue the offsets before them.",
        "Verify the partition on its leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    BrokerMessage(
        "Protocol read buffer underflow at",
        "A response ended inside a message, because brokers truncate responses at the fetch size.",
        "Nothing to do if the line ends in (ok). If the consumer makes no progress, verify the "
        "partition.",
        kind=Subject.NOTE,
    ),
    # Truncation.
    *answer_alike(
        "The log ends before the position of a consumer. The leader lost records that the consumer "
        "had read, as after an unclean leader election or a power failure.",
        "If you need these records, stop the brokers that still have them before they follow the "
        "leader, and compare the replicas.",
        (
            "Partition log truncation detected at offset {offset}",
            "Partition log truncation detected at {}: broker end offset is {offset}",
            "{topic} [{number}]: Local: Partition log truncation detected",
            "Local: Partition log truncation detected",
            "Truncation detected for partition {partition} at offset {}",
            "Truncation detected for {partition} at position {offset}",
            "Detected log truncation with diverging offsets {}",
        ),
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
    ),
    # Positions that are not in the log, or not committed.
    *answer_alike(
        "A consumer has no position in the partition: its group never committed an offset there, "
        "its offsets expired, or the coordinator lost them. The consumer begins where "
        "auto.offset.reset says.",
        "For a new group, nothing to do. Otherwise stop the consumers. On the brokers' disks, "
        "kdump groups shows the offsets that the group has committed, and kdump groups --format "
        "csv writes them for kafka-consumer-groups.sh --reset-offsets --from-file.",
        (
            "Found no committed offset for partition {partition}",
            "Resetting offset for partition {partition} to position",
            "Resetting offset for partition {partition} to offset",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        _OUT_OF_RANGE,
        _GROUPS,
        (
            "{topic} [{number}]: offset reset (at offset {offset}",
            "{topic} [{number}]: Broker: Offset out of range",
            "error while consuming {topic}/{number}: kafka server: The requested offset is outside",
            "The requested offset is outside the range of offsets maintained by the server",
            "The requested offset is not within the range of offsets maintained by the server",
            "Fetch offset {offset} is out of range for topic-partition {partition}",
            "Fetch offset {offset} is out of range for partition {partition}",
            "Fetch offset {offset} is out of range for",
            "Fetch position FetchPosition{offset={offset}, {} is out of range for partition "
            "{partition}",
            "Fetch position {} is out of range for partition {partition}",
            "Cannot fetch offset {offset} (GroupId: {}, TopicPartition: {partition})",
            "Offsets out of range with no configured reset policy for partitions: {{partition}={}",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        _OUT_OF_RANGE,
        _GROUPS,
        (
            "Broker: Offset out of range",
            "OffsetOutOfRangeError",
            "OffsetOutOfRangeException: Fetch position",
            "OFFSET_OUT_OF_RANGE",
            "either the data was aged out by Kafka or the topic may have been deleted before",
        ),
        kind=Subject.NOTE,
        outer=True,
    ),
)
