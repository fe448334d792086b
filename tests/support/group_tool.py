"""Asks a broker for its groups with ``kafka-consumer-groups.sh`` of 4.3.1; fills it with groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from brokers.broker import Broker
from brokers.programs import java_command, run
from brokers.workload import create_topics
from brokers.zookeeper import Described

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

Offsets = dict[tuple[str, str, str], tuple[str, ...]]


def tool(broker: Broker, *arguments: str, program: str = TOOL) -> str:
    """What a tool of 4.3.1 prints that asks ``broker``."""
    command = [*java_command("4.3.1", "ERROR"), program, "--bootstrap-server", broker.bootstrap]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    assert "Error" not in done.stdout, done.stdout
    return done.stdout


def tables(text: str) -> Iterator[dict[str, str]]:
    """The rows of all tables that the tool prints, by column."""
    head: list[str] = []
    for line in text.splitlines():
        cells = line.replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        if cells[:1] == ["GROUP"]:
            head = cells
        elif cells:
            yield dict(zip(head, cells, strict=False))


def asked_offsets(broker: Broker) -> Offsets:
    columns = (
        "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    )  # fmt: skip
    text = tool(broker, "--describe", "--all-groups", "--offsets")
    return {
        (row["GROUP"], row["TOPIC"], row["PARTITION"]): tuple(row[column] for column in columns)
        for row in tables(text)
    }


def asked_states(broker: Broker) -> dict[str, tuple[str, str]]:
    text = tool(broker, "--describe", "--all-groups", "--state")
    return {row["GROUP"]: (row["STATE"], row["#MEMBERS"]) for row in tables(text)}


def fill(broker: Broker) -> None:
    """Records, groups of both protocols, one of them with a member that stays."""
    create_topics(broker, {"groups": Described(partitions=2, config={})})
    modern = ["consumer"] if broker.version > "3.9" else []
    for number in ("1", "2"):
        run(broker.version, "Messages", broker.bootstrap, number, "groups:even:6:3:none")
        run(broker.version, "Groups", broker.bootstrap, number, *modern)
