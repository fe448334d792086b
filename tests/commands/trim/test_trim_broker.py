"""A disk that is full, and a broker that serves again: followed from the printed text alone."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from brokers.oracle import Loaded, Oracle
from brokers.programs import command, consume, run
from brokers.replicas import CONTROLLER, NODES, Replicas
from brokers.workload import create_topics
from support.commands import kdump
from support.crashing.places import fill, small_disk
from support.crashing.running import Run
from support.crashing.running import run as kdump_in_words
from support.crashing.seam import killed_before
from support.crashing.trees import put, take
from support.fixtures_loader import copy_fixture
from support.served import COMMITTED, READ
from support.waiting import until

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
#: The partitions, with their ends before the disk is full.
ENDS: Final = {"old-0": 450, "old-1": 450, "new-0": 300}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 60 megabytes."""
    with small_disk(tmp_path / "small", "60m") as directory:
        yield directory


def records(count: int, partitions: int, first_ms: int) -> list[list[int]]:
    return [[number % partitions, first_ms + number, SIZE] for number in range(count)]


def write(broker: Broker, topics: dict[str, Any]) -> None:
    run(broker.version, "Ages", broker.bootstrap, stdin=json.dumps(topics))


def read(broker: Broker, isolation: str, to: Path) -> dict[str, dict[int, Any]]:
    """All records of the partitions, by offset."""
    to.mkdir()
    consume(broker.version, broker.bootstrap, isolation, ENDS, to)
    found: dict[str, dict[int, Any]] = {}
    for name in ENDS:
        lines = (to / f"{name}.{isolation}.jsonl").read_text().splitlines()
        found[name] = {line["offset"]: line for line in map(json.loads, lines)}
    return found


def marks(data: Path) -> dict[str, int]:
    """The high watermarks in the checkpoint, which a broker writes every few seconds."""
    lines = (data / "replication-offset-checkpoint").read_text().splitlines()[2:]
    found = ((f"{topic}-{number}", int(offset)) for topic, number, offset in map(str.split, lines))
    return {name: offset for name, offset in found if name in ENDS}


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
        until(lambda: marks(data) == ENDS, 60)
        before = {each: read(broker, each, tmp_path / each) for each in (READ, COMMITTED)}
        write_until_it_ends(broker, now_ms)
        fill(small)
        assert refused_start(version, data, SETTINGS)

        # What people type, and what is printed.
        config = tmp_path / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        ran = words("next-start", data)
        assert ran.code == 4
        assert words("space", data).out.startswith("DISK FULL")
        ran = words("trim", "--config", config, "--free", "8MB", data)
        assert ran.code == 4, ran
        planned = kdump("trim", "--config", config, "--free", "8MB", data)
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


def starts(top: Path, topic: str) -> dict[int, int]:
    """The base offset of the first segment on each node."""
    return {
        node: min(int(log.stem) for log in (top / str(node) / f"{topic}-0").glob("*.log"))
        for node in NODES
    }


@pytest.mark.parametrize("leader", [1, 2])
def test_other_replicas_do_what_the_plan_says(leader: int, tmp_path: Path) -> None:
    """Where the node leads, they delete the same offsets; where another one leads, they stay."""
    top, topic = tmp_path / "nodes", "behind"
    copy_fixture("4.3.1/replicas", top)
    assert starts(top, topic) == dict.fromkeys(NODES, 0)
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\n")
    argv = "trim", "--config", config, "--before", "1s", top / "1" / f"{topic}-0"
    (gone,) = kdump(*argv).of("trim")
    assert gone["replicas"] == [2, 3]
    log_start = gone["last_offset"] + 1
    agreed = printed(words(*argv).out, "kdump trim")
    assert words(*agreed).code == 0
    with Replicas("4.3.1", top) as cluster:
        cluster.truncations(leader, [topic])
        if leader == 1:
            until(lambda: starts(top, topic) == dict.fromkeys(NODES, log_start), 60)
        else:
            time.sleep(5)  # several checks of retention
        cluster.stop(*NODES, CONTROLLER)
    others = log_start if leader == 1 else 0
    assert starts(top, topic) == {1: log_start, 2: others, 3: others}
    found = kdump("verify", *(top / str(node) for node in NODES)).of("finding")
    worse = [each for each in found if f"/{topic}-0" in each["path"] and each["severity"] != "info"]
    assert worse == []


def test_a_loader_opens_the_log_after_each_call(
    oracle: Callable[[str], Oracle], tmp_path: Path
) -> None:
    """Whatever call a kill comes before, the log begins with the first segment that is left."""
    data, name = copy_fixture("4.3.1/clean", tmp_path / "data"), "codec-lz4-0"
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\n")
    given = ["--config", str(config), "--before", "100"]
    original, argv = take(data), ["trim", *given, str(data / name)]
    (summary,) = kdump(*argv, searching=False).of("summary")
    agreed = [*argv, "--apply", "--confirm", summary["id"]]
    seen = set()
    for number in range(100):
        put(data, original)
        ran = kdump_in_words(agreed, killed_before(number))
        first = min(int(log.stem) for log in (data / name).glob("*.log"))
        seen.add(first)
        for version in ("3.9.1", "4.3.1", "4.4.0"):
            for clean in (False, True):
                copied = tmp_path / f"{number}-{version}-{clean}" / name
                shutil.copytree(data / name, copied)
                loaded = oracle(version).load(copied, clean=clean, recovery_point=110)
                assert isinstance(loaded, Loaded), loaded
                assert (loaded.log_start_offset, loaded.log_end_offset) == (first, 110)
        if ran.code == 0:
            break
    assert ran.code == 0
    assert seen == {0, 48, 100}


def test_a_broker_deletes_the_same_leftovers(tmp_path: Path) -> None:
    """After a trim of leftovers it finds what it leaves itself, and goes on with it."""
    unique, lot = "0123456789abcdef0123456789abcdef", "codec-lz4-0"
    tops = tmp_path / "as-it-was", tmp_path / "trimmed"
    for top in tops:
        data = copy_fixture("4.3.1/clean", top)
        shutil.copytree(data / lot, data / f"gone-0.{unique}-delete")
        (data / lot / f"{0:020}.index.deleted").write_bytes(bytes(100))
        (data / "codec-gzip-0" / f"{0:020}.log.cleaned").write_bytes(bytes(100))
        (data / "remote-log-index-cache").mkdir()
        (data / "remote-log-index-cache" / "7_x.index").write_bytes(bytes(100))
    argv = "trim", "--leftovers", str(tops[1])
    (summary,) = kdump(*argv).of("summary")
    assert summary["leftovers"] == 4
    assert words(*argv, "--apply", "--confirm", summary["id"]).code == 0

    def left(top: Path) -> set[str]:
        found = (str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
        return {name for name in found if name.startswith(("codec-", "gone-"))}

    for top in tops:
        with Broker("4.3.1", top, {**SETTINGS, "file.delete.delay.ms": "1"}):
            until(lambda top=top: not [*top.glob("*-delete")], 60)  # type: ignore[misc]
    assert left(tops[0]) == left(tops[1])
    assert not {Path(name).suffix for name in left(tops[0])} & {".deleted", ".cleaned"}


def test_what_a_backup_has_is_served_again(small: Path, tmp_path: Path) -> None:
    """Also where a broker has run and written in between."""
    data, now_ms = tmp_path / "data", time.time_ns() // 1_000_000
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\n")
    with Broker("4.3.1", data, SETTINGS) as broker:
        topics: dict[str, Any] = {
            name: {"config": {"retention.ms": "-1"}, "partitions": partitions}
            for name, partitions in (("old", 2), ("new", 1))
        }
        create_topics(broker, topics)
        write(broker, {"old": {"records": records(900, 2, now_ms - 30 * DAY_MS)}})
        write(broker, {"new": {"records": records(300, 1, now_ms - 2 * DAY_MS)}})
        before = {each: read(broker, each, tmp_path / each) for each in (READ, COMMITTED)}
        broker.stop()
        argv = "trim", "--config", config, "--backup", small, "--before", "1d", data
        planned = words(*argv)
        assert words(*printed(planned.out, "kdump trim")).code == 0
        broker.start()
        write(broker, {"old": {"records": records(20, 2, now_ms)}})
        between = read(broker, READ, tmp_path / "between")
        assert min(between["old-0"]) > 0
        broker.stop()
        assert words("undo", "--backup", small, data, "--apply").code == 0
        broker.start()
        for isolation in (READ, COMMITTED):
            after = read(broker, isolation, tmp_path / f"after-{isolation}")
            for name, held in before[isolation].items():
                assert {offset: after[name].get(offset) for offset in held} == held, name
    found = kdump("verify", data).of("finding")
    assert [each for each in found if each["severity"] == "error"] == []
