"""The topics of the fixtures: settings, and what each is there to show.

Spec: topic-level settings of ``org.apache.kafka.common.config.TopicConfig``.
Must never name a setting that one of the releases refuses without saying which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_YEAR_MS = 31_536_000_000


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; ``segment_bytes`` stands apart, as releases name that setting differently."""

    name: str
    shows: str
    segment_bytes: int
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)


TOPICS = (
    Topic("codec-none", "batches without compression, odd keys, values and headers", 5000),
    Topic("codec-gzip", "the same with gzip", 3000),
    Topic("codec-snappy", "the same with snappy", 3000),
    Topic("codec-lz4", "the same with lz4", 3000),
    Topic("codec-zstd", "the same with zstd", 3000),
    Topic(
        "log-append-time",
        "LogAppendTime, zstd and uncompressed batches in turn; short active indexes",
        2500,
        config={"message.timestamp.type": "LogAppendTime", "segment.index.bytes": "4096"},
    ),
    Topic(
        "idempotent",
        "two idempotent producers a round, one of them lz4; timestamps in 2033",
        3000,
        config={"message.timestamp.after.max.ms": str(1000 * _YEAR_MS)},
    ),
    Topic(
        "transactions",
        "three transactional producers beside each other, commits, aborts, records outside "
        "transactions, one transaction left hanging",
        4000,
    ),
    Topic("transfers", "the same transactions over two partitions", 3000, partitions=2),
    Topic(
        "compacted",
        "what the cleaner left: tombstones with a delete horizon, emptied batches, markers",
        3000,
        config={
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "86400000",
        },
    ),
    Topic(
        "deleted-records",
        "log start inside a batch: in a later segment (partition 0), in the first (1)",
        1500,
        partitions=2,
    ),
    Topic(
        "preallocated",
        "preallocated segments: a zero tail after the kill",
        4000,
        config={"preallocate": "true"},
    ),
    Topic("groups", "what the consumer groups read", 5000),
    Topic("never-written", "nothing", 5000),
    Topic(
        "a.b_c-1",
        "a name that looks like a partition's; default index interval; rolled by time",
        100000,
        config={"index.interval.bytes": "4096", "segment.ms": "43200000"},
    ),
)
"""One row a topic; the programs of ``java/`` write to them by name."""

# Small intervals, so that small segments have indexes; a segment lasts for decades, because
# transaction markers carry the broker's time and would each roll a log of older records.
_COMMON = {
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "segment.ms": str(30 * _YEAR_MS),
}


def config(topic: Topic, version: str) -> dict[str, str]:
    """The settings with which a broker of ``version`` creates ``topic``."""
    major = int(version.split(".")[0])
    # Kafka 4.3 refuses segment.bytes below 1 MiB but has an internal setting for tests.
    segment = "segment.bytes" if major < 4 else "internal.segment.bytes"
    return {**_COMMON, segment: str(topic.segment_bytes), **topic.config}
