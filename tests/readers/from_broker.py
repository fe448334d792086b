"""Consumes partitions whole with librdkafka, and prints a JSON object a record.

Spec: ``confluent_kafka.Consumer``. The argument is the bootstrap address; standard input holds
``{"partitions": [[topic, partition], ...]}``.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64encode

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

PATIENCE_S = 90

TIMESTAMP_TYPES = {
    TIMESTAMP_NOT_AVAILABLE: "NoTimestampType",
    TIMESTAMP_CREATE_TIME: "CreateTime",
    TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
}


def read(bootstrap: str, partitions: list[tuple[str, int]]) -> None:
    """Print the records of all partitions, as they come, until each has come to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",  # the library asks for one also where nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        consumer.assign([TopicPartition(*one, OFFSET_BEGINNING) for one in partitions])
        left = set(partitions)
        deadline = time.monotonic() + PATIENCE_S
        while left:
            if time.monotonic() > deadline:
                sys.exit(f"no end of {sorted(left)} within {PATIENCE_S} s")
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                print(json.dumps(line(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((str(message.topic()), int(message.partition() or 0)))
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def line(message: Message) -> dict[str, object]:
    """The fields of a record."""
    timestamp_type, timestamp = message.timestamp()
    headers = message.headers() or []
    assert isinstance(headers, list), "a dict is for producers"
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp,
        "timestamp_type": TIMESTAMP_TYPES[timestamp_type],
        **field("key", message.key()),
        **field("value", message.value()),
        "headers": [field("key", key) | field("value", value) for key, value in headers],
    }


def field(name: str, raw: str | bytes | None) -> dict[str, str | None]:
    """A field of bytes under its name: base64, or null."""
    if raw is None:
        return {name: None}
    return {f"{name}_base64": b64encode(raw.encode() if isinstance(raw, str) else raw).decode()}


def main() -> None:
    """Read what standard input asks for."""
    read(sys.argv[1], [(topic, part) for topic, part in json.load(sys.stdin)["partitions"]])


if __name__ == "__main__":
    main()
