"""The partition that the cleaner takes next by ``space``, beside what a real broker cleans."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import run
from brokers.topics import at_least
from brokers.workload import create_topics
from support.commands import kdump

pytestmark = pytest.mark.broker

HOUR_MS: Final = 3_600_000
TOPICS: Final = 12
#: The first look of the cleaner finds nothing, the next one comes after the test.
QUIET: Final = {
    **QUICK_RESTART,
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100000000",
    "log.initial.task.delay.ms": "100000000",
}
CLEANS: Final = {**QUIET, "log.cleaner.backoff.ms": "300"}
_SECTION: Final = re.compile(r"cleaned log (\S+) \(dirty section = \[(\d+), (\d+)\]\)")


def topic_of(rng: random.Random, version: str, now_ms: int) -> Any:
    """The configs and records of a compacted topic."""
    small = "internal.segment.bytes" if at_least(version, "4.0.0") else "segment.bytes"
    config = {
        "cleanup.policy": rng.choice(["compact", "compact", "compact,delete"]),
        small: str(rng.randrange(2_000, 6_000)),
        "min.cleanable.dirty.ratio": rng.choice(["0.1", "0.5", "0.95"]),
        "min.compaction.lag.ms": str(rng.choice([0, 0, 0, 30 * HOUR_MS])),
        "retention.ms": "-1",
        "message.timestamp.after.max.ms": str(100 * HOUR_MS),
    }
    partitions, count = rng.randrange(1, 4), rng.randrange(5, 60)
    first = now_ms - 50 * HOUR_MS
    step = 50 * HOUR_MS // count
    records = [[number % partitions, first + number * step, rng.randrange(900)]
               for number in range(count)]  # fmt: skip
    return {"config": config, "partitions": partitions, "records": records, "delete": None}


def states(data: Path) -> dict[str, dict[str, Any]]:
    """What kdump says of each partition of these topics, by its name."""
    ran = kdump("space", data)
    assert ran.code == 0
    return {
        f"{line['topic']}-{each['partition']}": each
        for line in ran.of("topic")
        if line["compaction"] and line["topic"].startswith("t-")
        for each in line["compaction"]
    }


def cleanings(broker: Broker) -> list[tuple[str, int, int]]:
    """The logs that a broker has cleaned, in order, each with its dirty section."""
    found = _SECTION.findall("\n".join(broker.log_lines()))
    return [(name, int(start), int(stop)) for name, start, stop in found if name.startswith("t-")]


def settled(broker: Broker) -> list[tuple[str, int, int]]:
    """The cleanings of a broker, once no more come."""
    known: list[tuple[str, int, int]] = []
    quiet, deadline = 0, time.monotonic() + 60
    while quiet < 6:
        assert time.monotonic() < deadline
        now = cleanings(broker)
        quiet = quiet + 1 if now and now == known else 0
        known = now
        time.sleep(0.5)
    return known


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_broker_cleans_what_is_ready_in_this_order(version: str, tmp_path: Path) -> None:
    """Twice: the logs that the first broker has cleaned are partly clean for the second one."""
    rng, data = random.Random(3), tmp_path / "data"
    now_ms = time.time_ns() // 1_000_000
    wanted = {f"t-{number}": topic_of(rng, version, now_ms) for number in range(TOPICS)}
    with Broker(version, data, QUIET) as broker:
        create_topics(broker, wanted)
    waits: set[str] = set()
    for _ in range(2):
        with Broker(version, data, QUIET) as broker:
            run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(wanted))
            time.sleep(6)  # the checkpoint of high watermarks is written every five seconds
            running = states(data)
        said = states(data)
        # A clean shutdown changes nothing about it.
        assert said == running
        ready = {name: each for name, each in said.items() if each["wait"] == "ready"}
        with Broker(version, data, CLEANS) as broker:
            found = settled(broker)
        assert {name for name, _, _ in found} == set(ready)
        assert ready
        for name, start, _ in found[: len(ready)]:
            assert start == ready[name]["first_dirty_offset"]
        ratios = [ready[name]["dirty_ratio"] for name, _, _ in found[: len(ready)]]
        assert ratios == sorted(ratios, reverse=True)
        assert ready[found[0][0]]["next"]
        after = states(data)
        for name, _, stop in found[: len(ready)]:
            assert after[name]["first_dirty_offset"] == stop
            assert after[name]["wait"] != "ready"
        waits |= {each["wait"] for each in said.values()}
    assert waits >= {"ready", "ratio", "lag"}
