"""What ``salvage`` prints last, followed word by word: the broker serves the result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from brokers import programs
from brokers.broker import QUICK_RESTART, Broker
from support.commands import kdump, repair
from support.crashing.running import run
from support.fixtures_loader import consumed, copy_fixture
from support.resealing import places
from support.served import COMMITTED, READ, loaded, read_all, records

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
NAME = "codec-zstd-0"


def damage(directory: Path) -> range:
    """Spoil the second batch of the first log; returns the offsets that are lost."""
    log = min(directory.glob("*.log"))
    content = bytearray(log.read_bytes())
    start, end = places(bytes(content))[1]
    content[end - 1] ^= 4
    log.write_bytes(content)
    first = int.from_bytes(content[start : start + 8], "big")
    return range(first, first + int.from_bytes(content[start + 23 : start + 27], "big") + 1)


def follow(printed: str) -> None:
    """Run the commands that salvage prints last."""
    _, commands = printed.split("with the broker stopped:\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    followed = subprocess.run(
        ["sh", "-e", "-c", commands],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_the_printed_way_back_is_followed(version: str, tmp_path: Path) -> None:
    fixture = f"{version}/clean"
    data = copy_fixture(fixture, tmp_path / "data")
    lost = damage(data / NAME)
    metadata = (data / NAME / "partition.metadata").read_bytes()
    (data / NAME / "partition.metadata").unlink()

    salvaged = run(["salvage", str(data / NAME), "--output", str(tmp_path / "out")])
    assert salvaged.code == 0, salvaged
    follow(salvaged.out)
    assert (data / NAME / "partition.metadata").read_bytes() == metadata

    with Broker(version, data, SETTINGS) as broker:
        said = broker.log_lines()
        assert any("Skipping recovery of" in line for line in said)
        found = {
            isolation: read_all(broker, (NAME,), tmp_path / isolation, isolation)[NAME]
            for isolation in (READ, COMMITTED)
        }
    before = records(consumed(fixture)[NAME, READ])  # nothing there is in a transaction
    assert lost.start in before
    left = {at: record for at, record in before.items() if at not in lost}
    assert found == {READ: left, COMMITTED: left}
    assert loaded(said)[NAME].segments == len([*(data / NAME).glob("*.log")])
    assert not [*data.glob("*-stray")]
    holes = [line for line in kdump("verify", data).of("finding") if "hole" in line["code"]]
    assert [(finding["code"], finding["offsets"]["first"]) for finding in holes] == [
        ("hole-salvaged", lost.start)
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_a_topic_that_was_created_again(version: str, tmp_path: Path) -> None:
    """Its old records stay unserved in a -stray directory, or are served under the new id."""
    fixture = f"{version}/clean"
    data = copy_fixture(fixture, tmp_path / "data")
    old = tmp_path / "old" / NAME
    shutil.copytree(data / NAME, old)
    lost = damage(old)
    topic = NAME.removesuffix("-0")
    with Broker(version, data, SETTINGS) as broker:
        wanted = json.dumps({topic: {"partitions": 1, "config": {}}})
        programs.run(version, "Topics", broker.bootstrap, "recreate", stdin=wanted)
        old_id, new_id = topic_id(old), changed_topic_id(data / NAME, topic_id(old))
        broker.stop()
        shutil.rmtree(data / NAME)
        shutil.move(old, data / NAME)

        arguments = ["salvage", str(data / NAME), "--output"]
        salvaged = run([*arguments, str(tmp_path / "out")])
        assert salvaged.code == 0, salvaged
        printed = " ".join(salvaged.out.split())
        assert f"deleted and created again: its id is now {new_id}, the result has {old_id}" in (
            printed
        )
        assert "In the log directory a broker renames it to -stray" in printed
        again = run([*arguments, str(tmp_path / "again"), "--topic-id", new_id])
        assert again.code == 0, again

        follow(salvaged.out)
        broker.start()
        assert read_all(broker, (NAME,), tmp_path / "empty")[NAME] == {}
        (stray,) = data.glob(f"{NAME}.*-stray")
        assert topic_id(stray) == old_id
        broker.stop()

        shutil.rmtree(data / NAME)
        shutil.move(tmp_path / "again" / NAME, data / NAME)
        broker.start()
        before = records(consumed(fixture)[NAME, READ])
        for isolation in (READ, COMMITTED):
            found = read_all(broker, (NAME,), tmp_path / isolation, isolation)[NAME]
            assert found == {at: record for at, record in before.items() if at not in lost}


def test_what_a_cut_removed_is_served_from_its_backup(tmp_path: Path) -> None:
    """Also once a broker has run on what was left."""
    fixture = "4.3.1/clean"
    data = copy_fixture(fixture, tmp_path / "data")
    before = records(consumed(fixture)[NAME, READ])
    lost = damage(data / NAME)
    assert repair("truncate-to-valid", data / NAME).code == 0
    with Broker("4.3.1", data, SETTINGS) as broker:
        found = read_all(broker, (NAME,), tmp_path / "cut")[NAME]
    assert found == {at: record for at, record in before.items() if at < lost.start}

    (folder,) = (data / NAME / ".kdump").iterdir()
    salvaged = run(["salvage", str(folder), "--output", str(tmp_path / "out")])
    assert salvaged.code == 0, salvaged
    shutil.rmtree(data / NAME)
    shutil.move(tmp_path / "out" / NAME, data / NAME)
    with Broker("4.3.1", data, SETTINGS) as broker:
        for isolation in (READ, COMMITTED):
            found = read_all(broker, (NAME,), tmp_path / isolation, isolation)[NAME]
            assert found == {at: record for at, record in before.items() if at >= lost.stop}
    assert not [*data.glob("*-stray")]


def changed_topic_id(partition: Path, old: str) -> str:
    """The id of a topic that was just created again, whose directory a broker replaces later."""
    for _ in range(600):
        with suppress(FileNotFoundError):
            if (found := topic_id(partition)) != old:
                return found
        time.sleep(0.1)
    raise AssertionError(f"{partition} still has the id {old}")


def topic_id(partition: Path) -> str:
    _, found = (partition / "partition.metadata").read_text().split("topic_id: ")
    return found.strip()
