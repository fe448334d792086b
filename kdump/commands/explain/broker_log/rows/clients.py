"""Messages of clients: librdkafka, sarama, the Python clients, and Java's consumer.

Spec: the sources of librdkafka, sarama, kafka-python and aiokafka, and Fetcher, CompletedFetch and
SubscriptionState of Kafka's own clients.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, indexes, partition_files
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import LEADER_LOG

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


def _sarama(text: str) -> tuple[str, str]:
    """Return the patterns of an error of sarama, with the partition and without it."""
    return f"while consuming {{topic}}/{{number}}: {text}", text


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
            "Error deserializing {} for partition {partition} at offset {offset}{}\n{}Record is "
            "corrupt",
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
        "Error deserializing {} for partition {partition} at offset {offset}",
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
            "Decompression (codec {}) of MessageSet at offsets {offset}-{} of {} bytes failed",
            "Decompression (codec {}) of message at {offset} of {} bytes failed",
            "Local: Invalid compressed data",
            "Failed to decompress Gzip message at offset {offset}",
            "Failed to decompress Snappy message",
            "Failed to decompress Snappy payload for message at offset {offset}",
            "Failed to decompress Snappy payload for message",
            "Failed to decompress Snappy-java framed payload",
            "Failed to get length of Snappy compressed payload for message at offset {offset}",
            "{topic} [{number}]: Snappy decompression for message at offset {offset} failed",
            "Snappy decompression for message failed",
            "HC) decompress message (offset {offset})",
            "Unable to begin ZSTD decompression",
            "lz4f unable to decompress full payload",
            *_sarama("gzip: invalid checksum"),
            *_sarama("gzip: invalid header"),
            *_sarama("snappy: corrupt input"),
            *_sarama("flate: corrupt input"),
            *_sarama("magic number mismatch"),
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
    *answer_alike(
        "A client could not read a batch: its fields or records contradict each other, or end "
        "before their sizes say. It was written that way, or it is corrupt.",
        "Run kdump verify --deep on the partition: it reports the offset to seek to.",
        (
            "Found invalid number of record headers",
            "Found invalid record structure",
            "Invalid header key size",
            "Invalid negative header key size",
            "unconsumed bytes after all records consumed",
            "Control batch did not contain any records",
            "Invalid batch for partition {partition} at offset {offset} with control sequence set",
            "StopIteration raised unpacking messageset",
            "{topic} [{number}]: Ctrl message at {} has invalid key size",
        ),
        (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH),
    ),
    *answer_alike(
        "A client could not read a batch: it ended before its fields did, or a size in it is "
        "impossible. It is corrupt, or the client took it for a message of an older format.",
        "If the line recurs at the same offset, run kdump verify --deep on the partition: it "
        "reports the offset to seek to. For sarama, set Version to the brokers' release.",
        (
            *_sarama("kafka: insufficient data to decode packet, more bytes expected"),
            *_sarama("kafka: Insufficient data to decode packet, more bytes expected"),
            *_sarama("kafka: error decoding packet: "),
            *_sarama("kafka: Error while decoding packet: "),
            "Local: Read underflow",
            "kafka server: The message has a negative size",
            "Message at offset {offset} MessageSize {} < hdrsize",
            "Message at relative offset {offset} MessageSize {} < hdrsize",
            "{topic} [{number}] MessageSet at offset {offset} length {} < header size",
            "{topic} [{number}]: invalid MessageSetSize",
        ),
        (batches.BATCH_SIZE_IMPOSSIBLE, batches.RECORDS_UNREADABLE),
        outer=True,
    ),
    *answer_alike(
        "A client does not know the message format that a batch names. The batch is corrupt, or "
        "the client is older than the format.",
        _VERIFY,
        (
            *_sarama("kafka: error decoding packet: unknown magic byte"),
            "{topic} [{number}]: Unsupported Message(Set) MagicByte {} at offset {offset}",
            "Unsupported Message(Set) MagicByte {} at offset {offset}",
            "Unsupported Message(Set) MagicByte {} at offsets {offset}-",
        ),
        (batches.BATCH_MAGIC_UNKNOWN,),
    ),
    *answer_alike(
        "A client does not know the compression type that a batch names. The client is older than "
        "that type, or built without it, or the batch is corrupt.",
        "Update the client. If others cannot read the batch either, verify the partition on its "
        "leader.",
        (
            *_sarama("kafka: error decoding packet: invalid compression specified"),
            "{topic} [{number}]: Message at offset {offset} with unsupported compression codec",
            "UnsupportedCodecError: Unrecognized compression type",
            "UnsupportedCodecError: Unknown compression codec",
        ),
        (batches.BATCH_CODEC_UNKNOWN,),
    ),
    *answer_alike(
        "Java code read past the end of some bytes: a record or a batch ends before its sizes say.",
        "The stack trace shows what was read. Run kdump verify --deep on the partition that it, or "
        "the line above it, names.",
        ("java.nio.BufferUnderflowException", "BufferUnderflowException"),
        (batches.RECORDS_UNREADABLE, batches.RECORDS_UNDECODABLE),
        outer=True,
    ),
    BrokerMessage(
        "InvalidRecordException: ",
        "A record does not follow its format, or is not one that the reader accepts.",
        "If a consumer or a broker read it, run kdump verify --deep on the partition. If a "
        "producer got this answer, the broker refused the record and wrote nothing.",
        (batches.RECORDS_UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The leader could not answer the fetch of a consumer.",
        LEADER_LOG,
        (
            "Unknown server error while fetching offset {offset} for topic-partition {partition}",
            "Unexpected error code {} while fetching at offset {offset} from topic-partition "
            "{partition}",
            "Disk error when trying to access log file on disk",
        ),
        kind=Subject.CONSEQUENCE,
    ),
    *answer_alike(
        "A consumer and a broker did not know the same leader of a partition. The consumer asks "
        "again.",
        "Nothing to do after a change of leader.",
        (
            "Broker: Leader epoch is newer than broker epoch",
            "Broker: Leader epoch is older than broker epoch",
            *_sarama("kafka: response did not contain all the expected topic/partition blocks"),
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "The connection of a client delivered what it did not expect, or a batch is larger than "
        "the client allows.",
        "Check the network and the client's release, and message.max.bytes of the client.",
        (
            "broker bug, wire corruption, or version mismatch; this response is being dropped",
            "output would exceed message.max.bytes",
        ),
        kind=Subject.ELSEWHERE,
    ),
    BrokerMessage(
        "Protocol read buffer underflow",
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
            "Detected truncated partitions: {}",
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
