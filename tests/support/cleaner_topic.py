"""A topic that a real cleaner has compacted."""

from __future__ import annotations

import time
from pathlib import Path

from brokers.broker import Broker

VERSION = "4.3.1"
#: Logs of more than that are not merged, and indexes have entries.
TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
    "internal.segment.bytes": "1",
    "index.interval.bytes": "300",
}
CHECKPOINT = "cleaner-offset-checkpoint"
TIMEOUT_S = 120


def cleaned(data: Path, ends: dict[str, int]) -> None:
    """Have the broker compact all of these topics up to these offsets, and stop."""
    with Broker(VERSION, data) as broker:
        deadline = time.monotonic() + TIMEOUT_S
        while checkpoint(data) != ends:
            assert time.monotonic() < deadline, broker.log_lines()[-40:]
            time.sleep(0.5)


def checkpoint(data: Path) -> dict[str, int]:
    """Up to where each topic is clean."""
    path = data / CHECKPOINT
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {topic: int(offset) for topic, _, offset in map(str.split, lines)}
