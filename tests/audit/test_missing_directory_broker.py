"""A log directory that left ``log.dirs``: a real broker creates its replicas again, empty."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import QUICK, java_command, run
from kdump.audit.facts.cluster import read_cluster
from kdump.storage.logdir import read_partition
from support.commands import kdump
from support.forge_metadata import METADATA

pytestmark = [pytest.mark.broker, pytest.mark.slow]

VERSION = "4.3.1"


def sizes(data: Path) -> dict[str, int]:
    """The bytes of the logs in a log directory, by partition."""
    return {
        path.name: sum(log.stat().st_size for log in path.glob("*.log"))
        for path in data.glob("topic-*")
    }


def write_topic(broker: Broker) -> None:
    """Create ``topic`` with six partitions, and write records to them."""
    wanted = {"topic": {"partitions": 6, "config": {}}}
    run(VERSION, "Topics", broker.bootstrap, "create", stdin=json.dumps(wanted))
    tool = "org.apache.kafka.tools.ProducerPerformance"
    options = "--topic topic --num-records 600 --record-size 50 --throughput -1 --producer-props"
    properties = (f"bootstrap.servers={broker.bootstrap}", "batch.size=300")
    command = [*java_command(VERSION, "ERROR", *QUICK), tool, *options.split(), *properties]
    subprocess.run(command, check=True, capture_output=True)


def wait_for_assignments(metadata: Path) -> None:
    """Wait until the metadata log has the directory of each partition, which brokers tell it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        image = read_cluster(read_partition(metadata))
        replicas = image.replicas.get(image.topics.get("topic", ""), {}).values()
        if len(replicas) == 6 and all(each.directory_of(1) for each in replicas):
            return
        time.sleep(0.2)


def test_replicas_of_a_directory_that_left_are_created_again_empty(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    both = {"log.dirs": f"{first},{second}", **QUICK_RESTART}
    with Broker(VERSION, first, both) as broker:
        write_topic(broker)
        wait_for_assignments(first / METADATA)
    before = sizes(second)
    assert before
    assert all(before.values())
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={first},{second}\n")
    assert kdump("verify", "--config", config).code == 0
    assert kdump("verify", first, second).code == 0

    config.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={first}\n")
    for command in ("verify", "next-start"):
        for arguments in (("--config", config), (first,)):
            ran = kdump(command, *arguments)
            (finding,) = (
                each for each in ran.of("finding") if each["code"].startswith("replica-directory")
            )
            assert (ran.code, finding["code"]) == (4, "replica-directory-missing-only")
            assert finding["repeats"] + 1 == len(before)
    shutil.move(second, tmp_path / "away")
    with Broker(VERSION, first, {"log.dirs": str(first), **QUICK_RESTART}) as broker:
        created = [line for line in broker.log_lines() if "Created log for partition" in line]
    for name in before:
        assert any(f"Created log for partition {name} in" in line for line in created)
    after = sizes(first)
    assert [after[name] for name in before] == [0] * len(before)
