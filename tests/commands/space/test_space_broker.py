"""What is due by ``space``, beside what real brokers delete in their next checks."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import QUICK, java_command, run
from brokers.topics import at_least
from brokers.workload import create_topics
from support.commands import kdump

pytestmark = pytest.mark.broker

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
TOPICS: Final = 40
#: Retention does nothing while records are written.
QUIET: Final = {
    **QUICK_RESTART,
    "log.cleaner.enable": "true",
    "log.initial.task.delay.ms": "100000000",
    "log.retention.check.interval.ms": "100000000",
    "log.cleaner.backoff.ms": "100000000",
    "log.retention.ms": str(3 * DAY_MS),
}
CHECKS: Final = {
    **QUIET,
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "0",
}


class Gone(NamedTuple):
    """What a topic has lost: segments, the bytes of their files, and offsets."""

    segments: int
    bytes: int
    offsets: int


def topic_of(rng: random.Random, number: int, version: str, now_ms: int) -> Any:
    """The configs and records of a topic, whose times rise with exceptions."""
    policy = ("delete", "delete", "delete", "compact", "compact,delete")[number % 5]
    small = "internal.segment.bytes" if at_least(version, "4.0.0") else "segment.bytes"
    config = {
        "cleanup.policy": policy,
        small: str(rng.randrange(2_000, 6_000)),
        "min.cleanable.dirty.ratio": "1.0",
        "message.timestamp.after.max.ms": str(100 * DAY_MS),
    }
    if rng.random() < 0.8:
        config["retention.ms"] = str(rng.choice([-1, HOUR_MS, DAY_MS, 5 * DAY_MS]))
    if rng.random() < 0.4:
        config["retention.bytes"] = str(rng.choice([-1, 0, 5_000, 20_000]))
    if rng.random() < 0.3:
        config["message.timestamp.type"] = "LogAppendTime"
    partitions, count = rng.randrange(1, 4), rng.randrange(5, 90)
    first = now_ms - rng.choice([2 * HOUR_MS, 3 * DAY_MS, 20 * DAY_MS])
    step = (now_ms - first) // count
    records = [
        [number % partitions, first + number * step - rng.randrange(HOUR_MS), rng.randrange(900)]
        for number in range(count)
    ]
    if rng.random() < 0.3:
        rng.choice(records)[1] = now_ms + 2 * DAY_MS
    deleted = rng.randrange(count // partitions) if rng.random() < 0.3 else None
    if policy == "compact":
        deleted = None  # brokers refuse it
    return {"config": config, "partitions": partitions, "records": records, "delete": deleted}


def files(data: Path) -> dict[Path, int]:
    """The files of partitions, with the bytes that they take."""
    return {path: path.stat().st_blocks * 512 for path in data.glob("t-*-*/*") if path.is_file()}


def gone(before: dict[Path, int], after: set[Path]) -> dict[str, Gone]:
    """What each topic has lost, by the files that it had."""
    found: dict[str, Gone] = defaultdict(lambda: Gone(0, 0, 0))
    for folder in sorted({path.parent for path in before}):
        logs = sorted(path for path in before if path.parent == folder and path.suffix == ".log")
        left = sorted(path for path in after if path.parent == folder and path.suffix == ".log")
        lost = [log for log in logs if log not in after]
        size = sum(
            count
            for path, count in before.items()
            if path.parent == folder and path not in after and path.stem in {p.stem for p in lost}
        )
        topic = folder.name.rpartition("-")[0]
        offsets = int(left[0].stem) - int(logs[0].stem)
        known = found[topic]
        found[topic] = Gone(known.segments + len(lost), known.bytes + size, known.offsets + offsets)
    return dict(found)


def settle(data: Path) -> None:
    """Wait until several checks have deleted nothing more."""
    known: set[Path] = set()
    quiet = 0
    deadline = time.monotonic() + 120
    while quiet < 6:
        assert time.monotonic() < deadline
        now = set(data.glob("t-*-*/*"))
        quiet = quiet + 1 if now == known else 0
        known = now
        time.sleep(0.5)


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.nightly) for s in (1, 2))])
def test_a_broker_deletes_what_is_due(version: str, seed: int, tmp_path: Path) -> None:
    rng, data = random.Random(seed), tmp_path / "data"
    now_ms = time.time_ns() // 1_000_000
    wanted = {f"t-{number}": topic_of(rng, number, version, now_ms) for number in range(TOPICS)}
    with Broker(version, data, QUIET) as broker:
        create_topics(broker, wanted)
        run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(wanted))
    before = files(data)
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in CHECKS.items()))
    ran = kdump("space", "--config", config, data, searching=False)
    assert ran.code == 0
    said = {
        line["topic"]: Gone(line["due_segments"], line["due_bytes"], line["due_offsets"])
        for line in ran.of("topic")
        if line["topic"] in wanted
    }
    with Broker(version, data, CHECKS):
        settle(data)
    found = gone(before, set(files(data)))
    wrong = [name for name in said if said[name] != found[name]]
    assert {name: (said[name], found[name], wanted[name]) for name in wrong} == {}
    assert sum(each.segments > 0 for each in said.values()) > TOPICS // 4


def alter(broker: Broker, words: list[str]) -> None:
    """Run a command that a report prints: the tool of Kafka, with this broker's address."""
    assert words[0] == "kafka-configs.sh"
    arguments = [broker.bootstrap if word == "HOST:PORT" else word for word in words[1:]]
    tool = [*java_command(broker.version, "ERROR", *QUICK), "kafka.admin.ConfigCommand"]
    subprocess.run([*tool, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_shorter_retention_frees_what_is_wished_for(version: str, tmp_path: Path) -> None:
    """Followed to its end on a running broker, and the configs are then what they were."""
    rng, data = random.Random(5), tmp_path / "data"
    now_ms = time.time_ns() // 1_000_000
    wanted = {f"t-{number}": topic_of(rng, number, version, now_ms) for number in range(12)}
    with Broker(version, data, CHECKS) as broker:
        create_topics(broker, wanted)
        run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(wanted))
        settle(data)
        described = run(broker.version, "Topics", broker.bootstrap, "describe")
        time.sleep(6)  # the checkpoint of high watermarks is written every five seconds
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in CHECKS.items()))
        before = files(data)
        ran = kdump("space", "--free", "200KiB", "--config", config, data)
        lines = list(ran.of("shorter_retention"))
        (summary,) = ran.of("summary")
        for line in lines:
            alter(broker, line["command"])
        settle(data)
        after = files(data)
        for line in lines:
            alter(broker, line["restore"])
        assert run(broker.version, "Topics", broker.bootstrap, "describe") == described
    said = {line["topic"]: Gone(line["segments"], line["bytes"], line["offsets"]) for line in lines}
    found = {name: lost for name, lost in gone(before, set(after)).items() if lost.segments}
    assert found == said
    assert sum(lost.bytes for lost in found.values()) + summary["due_bytes"] >= 200 * 1024
