"""``kdump transactions`` beside Kafka's own tool, with a transaction that hangs in a real broker.

It is planted between a kill and the next start: the broker finds a sound batch of a producer that
no coordinator knows.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.programs import java_command, run
from brokers.workload import create
from kdump.cli.main import main
from support import forge

pytestmark = pytest.mark.broker

TOOL = "org.apache.kafka.tools.TransactionsCommand"
PRODUCER, EPOCH = 77_777, 3


def tool(broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """What the tool prints, by column."""
    command = [*java_command("4.3.1", "ERROR"), TOOL, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    head, *rows = [line.split("\t") for line in done.stdout.splitlines() if line.strip()] or [[]]
    names = [name.strip() for name in head]
    return [dict(zip(names, (cell.strip() for cell in row), strict=False)) for row in rows]


def lines(
    capfd: pytest.CaptureFixture[str], *arguments: object, code: int
) -> Iterator[dict[str, Any]]:
    capfd.readouterr()
    assert main(["transactions", "--format", "json", *map(str, arguments)]) == code
    return map(json.loads, capfd.readouterr().out.splitlines())


def hanging(capfd: pytest.CaptureFixture[str], directory: Path, code: int) -> list[dict[str, Any]]:
    found = lines(capfd, "--hanging", directory, code=code)
    return [line for line in found if line["type"] == "transaction"]


@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.nightly), "4.3.1"])
def test_transactions_equal_what_the_broker_answers(
    version: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    with Broker(version, directory, QUICK_RESTART) as broker:
        create(broker)
        run(version, "Workload", broker.bootstrap, "1", "zstd", "hang")
        listed = tool(broker, "list")
        assert len(listed) >= 5
        found = list(lines(capfd, directory, code=0))
        states = {
            line["transactional_id"]: line for line in found if line["type"] == "transactional_id"
        }
        assert {
            row["TransactionalId"]: (row["ProducerId"], row["TransactionState"]) for row in listed
        } == {name: (str(line["producer_id"]), line["state"]) for name, line in states.items()}
        described = tool(broker, "describe", "--transactional-id", "hanging")[0]
        line = states["hanging"]
        assert described["ProducerEpoch"] == str(line["producer_epoch"])
        assert described["TransactionTimeoutMs"] == str(line["timeout_ms"])
        assert described["CurrentTransactionStartTimeMs"] == str(line["start_ms"])
        assert sorted(described["TopicPartitions"].split(",")) == [
            f"{each['topic']}-{each['partition']}" for each in line["partitions"]
        ]
        open_ = [line for line in found if line["type"] == "transaction"]
        assert {(each["topic"], each["verdict"]) for each in open_} == {
            ("transactions", "ongoing"),
            ("transfers", "ongoing"),
        }
        for each in open_:
            place = ("--topic", each["topic"], "--partition", str(each["partition"]))
            producers = tool(broker, "describe-producers", *place)
            firsts = {row["ProducerId"]: row["CurrentTransactionStartOffset"] for row in producers}
            assert firsts[str(each["producer_id"])] == str(each["first_offset"])
        assert tool(broker, "find-hanging", "--broker-id", "1") == []
        assert hanging(capfd, directory, code=0) == []

        broker.kill()
        log = directory / "groups-0" / f"{0:020d}.log"
        assert log.stat().st_size == 0
        log.write_bytes(
            forge.batch(
                0, [forge.record()] * 3, producer_id=PRODUCER, producer_epoch=EPOCH,
                base_sequence=0, transactional=True,
            )
            + forge.batch(3, [forge.record()] * 7)
        )  # fmt: skip
        (one,) = hanging(capfd, directory, code=4)
        assert (one["topic"], one["producer_id"], one["first_offset"]) == ("groups", PRODUCER, 0)
        assert (one["last_stable_offset"], one["waiting_records_at_most"]) == (0, 10)
        assert one["waiting_bytes"] == log.stat().st_size

        broker.start()
        (theirs,) = tool(broker, "find-hanging", "--broker-id", "1")
        assert (theirs["Topic"], theirs["Partition"], theirs["ProducerId"]) == (
            "groups",
            "0",
            str(PRODUCER),
        )
        assert theirs["StartOffset"] == "0"
        (one,) = hanging(capfd, directory, code=4)
        main(["transactions", "--hanging", str(directory)])
        assert f"  {shlex.join(one['abort'])}\n" in capfd.readouterr().out
        _, _, _, *abort = one["abort"]
        tool(broker, *abort)
        assert hanging(capfd, directory, code=0) == []
        assert tool(broker, "find-hanging", "--broker-id", "1") == []
