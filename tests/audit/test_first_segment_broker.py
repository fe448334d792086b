"""Retention deletes the first segments of many partitions, and the broker dies: no alarm.

Spec: ``UnifiedLog.deleteSegments``, ``LeaderEpochFileCache.truncateFromStartAsyncFlush``.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import command
from brokers.topics import at_least
from brokers.workload import create_topics
from kdump.audit.run.gone_partitions import gone_partitions
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.target import TopicSelection
from kdump.tables.absent import absent_ranges
from kdump.ui import exits
from support.commands import kdump
from support.fixtures_loader import copy_fixture
from support.group_tool import tool

DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
TOPIC, PARTITIONS = "short-lived", 60
CODES = {"first-segment-missing", "log-start-unexplained"}
SETTINGS = {
    **QUICK_RESTART,
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "300",
}
WAIT_S = 120


@dataclass(frozen=True)
class Count:
    """How many partitions had just lost segments, and in how many the old first epoch stood."""

    deleted: int
    stale: int


@contextmanager
def bursts(broker: Broker) -> Iterator[subprocess.Popen[str]]:
    """A producer that writes two segments into each partition for each line that it gets."""
    arguments = (broker.bootstrap, TOPIC, str(PARTITIONS), "2", "3000")
    process = subprocess.Popen(
        command(broker.version, "Bursts", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def burst(producer: subprocess.Popen[str]) -> None:
    assert producer.stdin is not None and producer.stdout is not None
    producer.stdin.write("\n")
    producer.stdin.flush()
    assert producer.stdout.readline() == "done\n"


def until_deleting(directory: Path, *, deleting: bool = True) -> None:
    """Wait until files wait for their deletion, or none does any more."""
    deadline = time.monotonic() + WAIT_S
    while any(directory.glob(f"{TOPIC}-*/*.deleted")) is not deleting:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def frozen(broker: Broker, place: Path) -> Path:
    """A copy of the directory as a kill of the broker at this moment would leave it."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        subprocess.run(["cp", "-a", "--sparse=always", broker.directory, place], check=True)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    return place


def alarms(directory: Path) -> list[tuple[str, str]]:
    ran = kdump("verify", "--quick", directory, searching=False)
    found = ((line["path"], line["code"]) for line in ran.of("finding"))
    return [(path, code) for path, code in found if code in CODES] + lacking(directory)


def lacking(directory: Path) -> list[tuple[str, str]]:
    """What readers of records report as missing."""
    served = TopicSelection((TOPIC,), served=True)
    scope = list_scope([directory], None, served)
    targets = [target.with_listing() for target in scope.targets]
    targets += gone_partitions(scope.roots, scope.context, served)
    ranges = (each for target in targets for each in absent_ranges(target, scope.context))
    return [(f"{each.topic}-{each.partition}", each.reason) for each in ranges]


def count(directory: Path) -> Count:
    deleted = stale = 0
    for partition in directory.glob(f"{TOPIC}-*"):
        lines = (partition / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        first = min(int(path.stem) for path in partition.glob("*.log"))
        deleted += any(partition.glob("*.log.deleted"))
        stale += bool(lines) and int(lines[0].split()[1]) < first
    return Count(deleted, stale)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("version", "freezes"),
    [
        pytest.param("4.3.1", 12, marks=pytest.mark.nightly),
        pytest.param("3.9.1", 12, marks=pytest.mark.nightly),
    ],
)
def test_no_alarm_where_a_broker_dies_right_after_retention(
    version: str, freezes: int, tmp_path: Path
) -> None:
    chance, counts = random.Random(freezes), list[Count]()
    small = "internal.segment.bytes" if at_least(version, "4.1") else "segment.bytes"
    configs = {
        small: "4000",
        "segment.index.bytes": "40000",
        "retention.bytes": "1",
        "file.delete.delay.ms": "1500",
    }
    directory = tmp_path / "data"
    with Broker(version, directory, SETTINGS) as broker:
        create_topics(broker, {TOPIC: {"partitions": PARTITIONS, "config": configs}})
        with bursts(broker) as producer:
            for number in range(freezes):
                until_deleting(directory, deleting=False)
                burst(producer)
                until_deleting(directory)
                time.sleep(chance.random() * chance.choice((0.05, 1)))
                copy = frozen(broker, tmp_path / f"copy-{number}")
                counts.append(count(copy))
                assert alarms(copy) == []
                # The files of the deletion explain it, also where the topic's configs are unknown.
                shutil.rmtree(copy / "__cluster_metadata-0")
                assert alarms(copy) == []
                shutil.rmtree(copy)
            burst(producer)
            until_deleting(directory)
        broker.kill()
        assert alarms(directory) == []
        broker.start()
        assert alarms(directory) == []
        broker.stop()
        counts.append(count(directory))
    assert alarms(directory) == []
    print(
        f"{version}: {sum(each.deleted for each in counts)} partitions frozen after a deletion, "
        f"{sum(each.stale for each in counts)} with the old first epoch"
    )
    assert sum(each.deleted for each in counts) >= freezes * PARTITIONS // 4


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_delete_records_up_to_a_segment_is_no_error(version: str, tmp_path: Path) -> None:
    """It leaves no line of the log start, as the first segment begins there: a warning says so."""
    data = copy_fixture(f"{version}/clean", tmp_path / "data")
    partition, state = data / "codec-none-0", tmp_path / "scrub.db"
    first, second = sorted(int(log.stem) for log in partition.glob("*.log"))
    assert kdump("scrub", data, "--state", state).code == exits.OK
    wanted = tmp_path / "wanted.json"
    lines = [{"topic": "codec-none", "partition": 0, "offset": second}]
    wanted.write_text(json.dumps({"version": 1, "partitions": lines}))
    settings = {**SETTINGS, "log.segment.delete.delay.ms": "100"}
    with Broker(version, data, settings) as broker:
        tool(broker, "--offset-json-file", str(wanted), program=DELETE_RECORDS)
        deadline = time.monotonic() + WAIT_S
        while any(partition.glob(f"{first:020d}.log*")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert "codec-none" not in (data / "log-start-offset-checkpoint").read_text()
    epochs = (partition / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    assert int(epochs[0].split()[1]) == second
    for asked in (["verify"], ["scrub", "--state", str(state)]):
        ran = kdump(*asked, data)
        found = {
            line["code"]
            for line in ran.of("finding")
            if line["severity"] in ("error", "warning") and line["path"].startswith(str(partition))
        }
        removed = {"segment-removed-unproven"} if asked[0] == "scrub" else set()
        assert (ran.code, found) == (exits.OK, removed)
