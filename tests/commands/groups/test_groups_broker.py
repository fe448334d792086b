"""``kdump groups`` beside Kafka's tool: what a broker answers, before its stop and after a kill.

``kafka-consumer-groups.sh`` of 4.3.1 asks both releases. It also takes the CSV on a cluster without
groups.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.jars import USUAL, config_command
from brokers.programs import run
from brokers.workload import create_topics
from brokers.zookeeper import Described
from kdump.cli.main import main
from support.group_tool import Offsets, asked_offsets, asked_states, fill, tables, tool

pytestmark = pytest.mark.broker

SETTINGS = QUICK_RESTART | {"offsets.topic.num.partitions": "3"}


def read(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> tuple[Offsets, dict[str, tuple[str, str]]]:
    """What kdump reads from disk, in the form of what the tool prints."""
    capfd.readouterr()
    assert main(["groups", "--format", "json", str(directory)]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    members: dict[str | None, tuple[str, ...]] = {None: ("-", "-", "-")}
    states: dict[str, tuple[str, str]] = {}
    for line in found:
        if line["type"] == "group":
            states[line["group"]] = line["state"], str(len(line["members"]))
            for each in line["members"]:
                members[each["member_id"]] = each["member_id"], each["host"], each["client_id"]
    offsets = {
        (line["group"], line["topic"], str(line["partition"])): (
            *(_text(line[name]) for name in ("offset", "log_end_offset", "lag")),
            *members[line["member_id"]],
        )
        for line in found
        if line["type"] == "offset"
    }
    return offsets, states


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


@pytest.mark.parametrize("version", [pytest.param("3.9.1", marks=pytest.mark.nightly), "4.3.1"])
def test_groups_equal_what_the_broker_answers(
    version: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "data"
    with Broker(version, directory, SETTINGS) as broker:
        fill(broker)
        before, states = asked_offsets(broker), asked_states(broker)
        assert len(before) >= 4
        assert any(row[3] != "-" for row in before.values())
        assert {group for group, _, _ in before} == set(states)
        assert read(directory, capfd) == (before, states)  # beside the broker

        broker.kill()
        killed = read(directory, capfd)
        assert killed == (before, states)
        broker.start()
        assert (asked_offsets(broker), asked_states(broker)) == killed
        broker.stop()
        assert read(directory, capfd) == killed


@pytest.mark.nightly
def test_the_csv_gives_a_cluster_its_groups_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lost = tmp_path / "lost"
    with Broker("4.3.1", lost, SETTINGS) as broker:
        fill(broker)
        wanted = {place: row[0] for place, row in asked_offsets(broker).items()}
    capfd.readouterr()
    assert main(["groups", "--format", "csv", str(lost)]) == 0
    csv = tmp_path / "offsets.csv"
    csv.write_text(capfd.readouterr().out)
    with Broker("4.3.1", tmp_path / "new", SETTINGS) as broker:
        create_topics(broker, {"groups": Described(partitions=2, config={})})
        for number in ("1", "2"):
            run("4.3.1", "Messages", broker.bootstrap, number, "groups:even:6:3:none")
        groups = [word for group, _, _ in wanted for word in ("--group", group)]
        tool(broker, "--reset-offsets", "--from-file", str(csv), "--execute", *groups)
        assert {place: row[0] for place, row in asked_offsets(broker).items()} == wanted


@pytest.mark.nightly
def test_a_share_group_equals_what_the_broker_answers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory, tools = tmp_path / "data", "org.apache.kafka.tools"
    with Broker("4.3.1", directory, SETTINGS) as broker:
        fill(broker)
        wanted = "share.auto.offset.reset=earliest"
        tool(broker, "--alter", "--group", "shared", "--add-config", wanted,
             program=config_command(USUAL))  # fmt: skip
        read_some = ("--topic", "groups", "--group", "shared", "--max-messages", "7")
        tool(broker, *read_some, program=f"{tools}.consumer.ConsoleShareConsumer")
        asked = tool(broker, "--describe", "--group", "shared", "--offsets",
                     program=f"{tools}.consumer.group.ShareGroupCommand")  # fmt: skip
        broker.kill()
    # Of a partition that nobody has fetched, the state begins nowhere.
    theirs = {
        (row["TOPIC"], row["PARTITION"]): (row["START-OFFSET"], row["LAG"]) for row in tables(asked)
    }
    assert any(start != "-" for start, _ in theirs.values())
    capfd.readouterr()
    assert main(["groups", "--group", "shared", "--format", "json", str(directory)]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    (group,) = (line for line in found if line["type"] == "group")
    assert (group["kind"], group["state"]) == ("share", "Empty")
    assert {
        (line["topic"], str(line["partition"])): (
            _text(line["share_start_offset"]),
            _text(line["lag"]),
        )
        for line in found
        if line["type"] == "offset"
    } == theirs
