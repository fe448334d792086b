"""A disk that is full, and a broker that serves again: followed from the printed text alone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.programs import command, consume, run
from brokers.workload import create_topics
from support.commands import kdump
from support.crashing.places import UnmountableError, mounted
from support.crashing.running import Run
from support.crashing.running import run as kdump_in_words
from support.served import COMMITTED, READ

pytestmark = pytest.mark.broker

DAY_MS: Final = 24 * 3_600_000
SIZE: Final = 20_000
SETTINGS: Final = {
    **QUICK_RESTART,
    "log.segment.bytes": str(1 << 20),
    "log.retention.ms": "-1",
    "log.cleaner.enable": "true",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
}
PARTITIONS: Final = ("old-0", "old-1", "new-0")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 60 megabytes."""
    try:
        with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=60m", "tmpfs") as directory:
            yield directory
    except UnmountableError as error:
        pytest.skip(f"may not mount: {error}")


def records(count: int, partitions: int, first_ms: int) -> list[list[int]]:
    return [[number % partitions, first_ms + number, SIZE] for number in range(count)]


def write(broker: Broker, topics: dict[str, Any]) -> None:
    run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(topics))


def read(broker: Broker, isolation: str, to: Path) -> dict[str, dict[int, Any]]:
    """All records of the partitions, by offset."""
    to.mkdir()
    consume(broker.version, broker.bootstrap, isolation, PARTITIONS, to)
    found: dict[str, dict[int, Any]] = {}
    for name in PARTITIONS:
        lines = (to / f"{name}.{isolation}.jsonl").read_text().splitlines()
        found[name] = {line["offset"]: line for line in map(json.loads, lines)}
    return found


def fill(directory: Path) -> None:
    """Leave no byte, in a file that stays."""
    with (directory / "filler").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def write_until_it_ends(broker: Broker, now_ms: int) -> None:
    """A client goes on producing until the disk is full and the broker ends."""
    wanted = json.dumps({"old": {"records": records(2_000, 2, now_ms)}})
    client = subprocess.Popen(
        command(broker.version, "Ages", broker.bootstrap),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert client.stdin is not None
    client.stdin.write(wanted)
    client.stdin.close()
    assert broker._server._process is not None
    broker._server._process.wait(120)
    client.kill()
    client.wait()
    broker.kill()  # it has ended already: the next start is told


def printed(text: str, program: str) -> list[str]:
    """The arguments of the last command of ``program`` in a text."""
    lines = [line.strip() for line in text.splitlines()]
    _, *argv = shlex.split([line for line in lines if line.startswith(program)][-1])
    return argv


def words(*arguments: str | Path) -> Run:
    """Run a command that prints for people."""
    return kdump_in_words([*map(str, arguments)], searching=True)


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_full_disk_is_freed_and_the_broker_serves(
    version: str, small: Path, tmp_path: Path
) -> None:
    data, now_ms = small / "data", time.time_ns() // 1_000_000
    with Broker(version, data, SETTINGS) as broker:
        topics: dict[str, Any] = {
            "old": {"config": {"retention.ms": str(90 * DAY_MS)}, "partitions": 2},
            "new": {"config": {"retention.ms": str(90 * DAY_MS)}, "partitions": 1},
        }
        create_topics(broker, topics)
        old = records(900, 2, now_ms - 30 * DAY_MS)
        write(broker, {"old": {"records": old}})
        write(broker, {"new": {"records": records(300, 1, now_ms - 2 * DAY_MS)}})
        time.sleep(6)  # the checkpoint of high watermarks is written every five seconds
        before = {each: read(broker, each, tmp_path / each) for each in (READ, COMMITTED)}
        write_until_it_ends(broker, now_ms)
        fill(small)
        assert refused_start(version, data, SETTINGS)

        # What people type, and what is printed.
        ran = words("next-start", data)
        assert ran.code == 4
        assert words("space", data).out.startswith("DISK FULL")
        ran = words("trim", "--free", "8MB", data)
        assert ran.code == 4, ran
        planned = kdump("trim", "--free", "8MB", data)
        gone = {Path(each["path"]).name: each for each in planned.of("trim")}
        assert {*gone} == {"old-0", "old-1"}
        free = os.statvfs(small)
        ran = words(*printed(ran.out, "kdump trim"))
        assert ran.code == 0, ran
        freed = (os.statvfs(small).f_bavail - free.f_bavail) * free.f_frsize
        (summary,) = planned.of("summary")
        assert abs(freed - summary["bytes"]) <= 8192  # leader epochs are written again
        assert words(*printed(ran.out, "kdump next-start")).code in (0, 4, 5)

        broker.start()
        write(broker, {"old": {"records": records(20, 2, now_ms)}})
        for isolation in (READ, COMMITTED):
            after = read(broker, isolation, tmp_path / f"after-{isolation}")
            for name, held in before[isolation].items():
                start = gone[name]["last_offset"] + 1 if name in gone else 0
                expected = {offset: line for offset, line in held.items() if offset >= start}
                assert {k: v for k, v in after[name].items() if k in held} == expected, name
                assert min(after[name]) == start
    again = kdump("verify", data)
    assert [each for each in again.of("finding") if each["severity"] == "error"] == []
