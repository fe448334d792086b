"""What is due by ``space``, beside what real brokers delete in their next checks."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.histories import PartedTopic, Writer, create
from brokers.jars import config_command
from brokers.programs import QUICK, java_command, run
from brokers.replicas import Replicas
from brokers.topics import at_least
from brokers.workload import create_topics
from support.commands import kdump
from support.crashing.places import small_disk
from support.crashing.running import run as in_words
from support.waiting import until

pytestmark = pytest.mark.broker

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
TOPICS: Final = 40
TOOLS: Final = {
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
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
    tool = [*java_command(broker.version, "ERROR", *QUICK), config_command(broker.version)]
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


def tool(version: str, words: list[str], bootstrap: str, directory: Path) -> str:
    """Run a command that a report prints, whose file is in ``directory``; its output."""
    arguments = [bootstrap if word == "HOST:PORT" else word for word in words[1:]]
    argv = [*java_command(version, "ERROR", *QUICK), TOOLS[words[0]], *arguments]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=directory)
    return done.stdout + done.stderr


def pasted(text: str, name: str, directory: Path) -> list[list[str]]:
    """Save the line above the commands of a tool as the file that they name; the commands."""
    lines = text.splitlines()
    places = [number for number, line in enumerate(lines) if line.split()[:1] == [name]]
    commands = [shlex.split(lines[number]) for number in places]
    (file,) = {word for words in commands for word in words if word.endswith(".json")}
    assert file in " ".join(text.split())
    (directory / file).write_text(lines[places[0] - 1])
    return commands


def test_records_are_deleted_before_offsets(tmp_path: Path) -> None:
    """The file for ``kafka-delete-records.sh`` frees on a running broker what it says."""
    version, rng, data = "4.3.1", random.Random(6), tmp_path / "data"
    now_ms = time.time_ns() // 1_000_000
    wanted = {f"t-{number}": topic_of(rng, number, version, now_ms) for number in range(12)}
    with Broker(version, data, CHECKS) as broker:
        create_topics(broker, wanted)
        run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(wanted))
        settle(data)
        time.sleep(6)  # the checkpoint of high watermarks is written every five seconds
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in CHECKS.items()))
        before = files(data)
        argv = ["space", "--free", "100KiB", "--config", str(config), str(data)]
        ran = kdump(*argv)
        text = in_words(argv, searching=True).out
        (line,) = ran.of("delete_records")
        (summary,) = ran.of("summary")
        (command,) = pasted(text, "kafka-delete-records.sh", tmp_path)
        said = tool(version, command, broker.bootstrap, tmp_path)
        settle(data)
        after = set(files(data))
        # Readers begin where the file says.
        starts = {}
        for each in line["json"]["partitions"]:
            path = data / f"{each['topic']}-{each['partition']}"
            starts[path.name] = min(int(log.stem) for log in path.glob("*.log"))
    assert "Records delete operation completed" in said
    lost = gone(before, after)
    assert sum(each.bytes for each in lost.values()) == line["bytes"]
    assert sum(each.segments for each in lost.values()) == line["segments"]
    assert sum(each.offsets for each in lost.values()) == line["offsets"]
    assert line["bytes"] + summary["due_bytes"] >= 100 * 1024
    assert starts == {
        f"{each['topic']}-{each['partition']}": each["offset"]
        for each in line["json"]["partitions"]
    }


def test_a_partition_moves_to_a_directory_with_more_room(tmp_path: Path) -> None:
    """The file for ``kafka-reassign-partitions.sh``, between log directories of one broker."""
    version = "4.3.1"
    with small_disk(tmp_path / "small", "64m") as small:
        data, other = small / "a", tmp_path / "b"
        now_ms = time.time_ns() // 1_000_000
        wanted = {
            f"t-{number}": topic_of(random.Random(number), 0, version, now_ms)
            for number in range(4)
        }
        for topic in wanted.values():  # nothing is due
            topic["config"] |= {"retention.ms": "-1", "retention.bytes": "-1"}
            topic["delete"] = None
        with Broker(version, data, QUIET) as broker:
            create_topics(broker, wanted)
            run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(wanted))
        other.mkdir()
        meta = (data / "meta.properties").read_text()
        meta = re.sub(r"directory\.id=\S+", "directory.id=q2Y3hBDoQ1mDkd8pO5sTgA", meta)
        (other / "meta.properties").write_text(meta)
        settings = {**CHECKS, "log.dirs": f"{data},{other}"}
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with Broker(version, data, settings) as broker:
            argv = ["space", "--free", "20KiB", "--config", str(config), str(data)]
            ran = kdump(*argv)
            text = in_words(argv, searching=True).out
            line = next(line for line in ran.of("reassignment") if line["kind"] == "move")
            execute, verify = pasted(text, "kafka-reassign-partitions.sh", tmp_path)
            names = {f"{each['topic']}-{each['partition']}" for each in line["json"]["partitions"]}
            assert all((data / name).is_dir() for name in names)
            tool(version, execute, broker.bootstrap, tmp_path)

            def is_done() -> bool:
                kept = [path.name.partition(".")[0] for path in data.iterdir()]
                return names.isdisjoint(kept)

            until(is_done, 60)
            said = tool(version, verify, broker.bootstrap, tmp_path)
            assert said.count("completed successfully") == len(names), said
            assert all((other / name).is_dir() for name in names)
            assert not any((data / name).exists() for name in names)
        assert line["bytes"] >= 20 * 1024


def test_a_node_gives_up_replicas(tmp_path: Path) -> None:
    """The file for ``kafka-reassign-partitions.sh``, on three brokers; it can be taken back."""
    version = "4.3.1"
    topics = [PartedTopic(name, "records") for name in ("one", "two", "three")]
    with Replicas(version, tmp_path / "nodes") as cluster:
        cluster.start(1, 2, 3)
        create(cluster, topics)
        Writer(cluster, topics).write("one", "two", "three", batches=30)
        cluster.in_sync([topic.name for topic in topics])
        data, bootstrap = cluster.directory(1), cluster.addresses[2]
        argv = ["space", "--free", "40KiB", str(data)]
        ran = kdump(*argv)
        text = in_words(argv, searching=True).out
        (line,) = ran.of("reassignment")
        assert line["kind"] == "give-up"
        assert abs(line["metadata_ms"] - time.time_ns() / 1e6) < 60_000
        execute, verify = pasted(text, "kafka-reassign-partitions.sh", tmp_path)
        partitions = line["json"]["partitions"]
        names = [f"{each['topic']}-{each['partition']}" for each in partitions]
        held = sum(
            file.stat().st_blocks * 512
            for name in names
            for file in (data / name).iterdir()
            if file.is_file()
        )
        assert line["bytes"] == held
        said = tool(version, execute, bootstrap, tmp_path)
        assert "Successfully started partition reassignment" in said

        def is_done() -> bool:
            shown = tool(version, verify, bootstrap, tmp_path)
            left = [path for path in data.iterdir() if path.name.startswith(tuple(names))]
            return shown.count("is complete") == len(names) and not left

        until(is_done, 60)
        # The tool has printed the assignment that brings the replicas back.
        back = next(text for text in said.splitlines() if text.startswith('{"version"'))
        (tmp_path / "reassign.json").write_text(back)
        tool(version, execute, bootstrap, tmp_path)
        until(lambda: all((data / name).is_dir() for name in names), 60)
        cluster.in_sync([topic.name for topic in topics])
