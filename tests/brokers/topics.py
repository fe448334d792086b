"""The topics of the fixtures: settings, and what each is there to show.

Spec: topic-level settings of ``org.apache.kafka.common.config.TopicConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_YEAR_MS = 31_536_000_000
_NEWEST = "999"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the releases from ``since`` on and below ``before``.

    ``segment_bytes`` stands apart, as releases name that setting differently.
    """

    name: str
    shows: str
    segment_bytes: int
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    since: str = "0.8"
    before: str = _NEWEST


_COMPACT = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}

_MAGIC_0 = {"message.format.version": "0.9.0"}
_MAGIC_1 = {"message.format.version": "0.10.2"}

TOPICS = (
    Topic("codec-none", "batches without compression, odd keys, values and headers", 5000),
    Topic("codec-gzip", "the same with gzip", 3000),
    Topic("codec-snappy", "the same with snappy", 3000),
    Topic("codec-lz4", "the same with lz4", 3000),
    Topic("codec-zstd", "the same with zstd", 3000, since="2.1"),
    Topic(
        "log-append-time",
        "LogAppendTime, compressed and uncompressed batches in turn; short active indexes",
        2500,
        config={"message.timestamp.type": "LogAppendTime", "segment.index.bytes": "4096"},
        since="0.10",
    ),
    Topic(
        "idempotent",
        "two idempotent producers a round, one of them lz4; timestamps in 2033",
        3000,
        config={"message.timestamp.after.max.ms": str(1000 * _YEAR_MS)},
        since="0.11",
    ),
    Topic(
        "transactions",
        "three transactional producers beside each other, commits, aborts, records outside "
        "transactions, one transaction left hanging",
        4000,
        since="0.11",
    ),
    Topic(
        "transfers", "the same transactions over two partitions", 3000, partitions=2, since="0.11"
    ),
    Topic(
        "compacted",
        "what the cleaner left: tombstones, wrappers with gaps; of magic 2 a delete horizon, "
        "emptied batches, markers",
        3000,
        config=_COMPACT,
    ),
    Topic(
        "deleted-records",
        "log start inside a batch: in a later segment (partition 0), in the first (1)",
        1500,
        partitions=2,
        since="1.1",
    ),
    Topic(
        "preallocated",
        "preallocated segments: a zero tail after the kill",
        4000,
        config={"preallocate": "true"},
        since="0.9",
    ),
    Topic("groups", "what the consumer groups read", 5000, since="0.10"),
    Topic("never-written", "nothing", 5000),
    Topic(
        "a.b_c-1",
        "a name that looks like a partition's; default index interval; rolled by time",
        100000,
        config={"index.interval.bytes": "4096", "segment.ms": "43200000"},
    ),
    Topic(
        "magic-0",
        "messages and wrappers of magic 0 from a newer broker, all its codecs",
        3000,
        config=_MAGIC_0,
        since="0.10",
        before="3.0",
    ),
    Topic(
        "magic-1",
        "the same of magic 1",
        3000,
        config=_MAGIC_1,
        since="0.11",
        before="3.0",
    ),
    Topic(
        "magic-1-append-time",
        "magic 1 with LogAppendTime, in the wrappers and inside them",
        3000,
        config={**_MAGIC_1, "message.timestamp.type": "LogAppendTime"},
        since="0.11",
        before="3.0",
    ),
    Topic(
        "compacted-magic-0",
        "what the cleaner left of wrappers of magic 0",
        2000,
        config={**_COMPACT, **_MAGIC_0},
        since="0.10",
        before="3.0",
    ),
    Topic(
        "compacted-magic-1",
        "the same of magic 1",
        2000,
        config={**_COMPACT, **_MAGIC_1},
        since="0.11",
        before="3.0",
    ),
    Topic(
        "formats",
        "one segment with magic 0, 1, 2, 1, 0, 2, in this order, every codec in each",
        1000000,
        since="2.3",
        before="3.0",
    ),
    Topic("formats-rolled", "the same in small segments", 1500, since="2.3", before="3.0"),
    Topic(
        "client-0.8-kept",
        "what a client of 0.8.2.2 sent, kept as magic 0",
        3000,
        config=_MAGIC_0,
        since="2.3",
        before="3.0",
    ),
    Topic(
        "client-0.8-raised",
        "the same made magic 2, without times",
        3000,
        since="2.3",
        before="3.0",
    ),
    Topic(
        "client-0.10-kept",
        "what a client of 0.10.2.2 sent, kept as magic 1",
        3000,
        config=_MAGIC_1,
        since="2.3",
        before="3.0",
    ),
)
"""One row a topic; ``workload`` and the programs of ``java/`` write to them by name."""

# Small intervals, so that small segments have indexes; a segment lasts for decades, because
# transaction markers carry the broker's time and would each roll a log of older records.
_COMMON = {
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "segment.ms": str(30 * _YEAR_MS),
}

# Settings that older releases refuse, and can do without.
_SINCE = {"retention.ms": "0.9", "message.timestamp.after.max.ms": "3.6"}


def at_least(version: str, least: str) -> bool:
    """Whether a release is ``least`` or later."""
    return _numbers(version) >= _numbers(least)


def topics(version: str) -> tuple[Topic, ...]:
    """The topics that a broker of ``version`` has in its fixtures."""
    return tuple(
        topic
        for topic in TOPICS
        if at_least(version, topic.since) and not at_least(version, topic.before)
    )


def config(topic: Topic, version: str) -> dict[str, str]:
    """The settings with which a broker of ``version`` creates ``topic``."""
    # From 4.1 on Kafka refuses segment.bytes below 1 MiB, but has an internal setting for tests.
    segment = "internal.segment.bytes" if at_least(version, "4.1") else "segment.bytes"
    settings = {**_COMMON, segment: str(topic.segment_bytes), **topic.config}
    return {
        name: value for name, value in settings.items() if at_least(version, _SINCE.get(name, "0"))
    }


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
