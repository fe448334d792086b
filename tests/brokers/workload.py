"""What is done to a broker before its log directory becomes a fixture.

The programs are in ``java/``, the topics in ``topics``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from brokers.broker import Broker
from brokers.programs import run
from brokers.topics import at_least, config, topics
from brokers.zookeeper import Described

ROUNDS = 3
"""Each round adds to every topic; a clean restart goes before the last."""

_CREATE_TIMEOUT_S = 60

# What a broker has in force for topics that do not say otherwise, and what every reader asks for.
_DEFAULTS = {
    "cleanup.policy": "delete",
    "index.interval.bytes": "4096",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
}

_OLD_CLIENTS = {
    "client-0.8-kept": "0.8.2.2",
    "client-0.8-raised": "0.8.2.2",
    "client-0.10-kept": "0.10.2.2",
}

_FORMATS = ("formats", "formats-rolled")


class CreateError(Exception):
    """The broker has not made the partitions of topics that it was told of."""


def create(broker: Broker) -> None:
    """Create the topics, and wait until their partitions are there. Raises CreateError."""
    create_topics(
        broker,
        {
            topic.name: Described(partitions=topic.partitions, config=config(topic, broker.version))
            for topic in topics(broker.version)
        },
    )


def create_topics(broker: Broker, wanted: Mapping[str, Described]) -> None:
    """Create these topics, and wait until their partitions are there. Raises CreateError."""
    if broker.zookeeper is None:
        run(broker.version, "Topics", broker.bootstrap, "create", stdin=json.dumps(wanted))
    else:
        broker.zookeeper.create_topics(wanted)
    missing = {
        f"{topic}-{number}"
        for topic, described in wanted.items()
        for number in range(described["partitions"])
    }
    deadline = time.monotonic() + _CREATE_TIMEOUT_S
    while missing := {name for name in missing if not (broker.directory / name).is_dir()}:
        if time.monotonic() > deadline:
            raise CreateError(f"{broker.directory} has no {', '.join(sorted(missing))}")
        time.sleep(0.2)


def describe(broker: Broker) -> dict[str, Described]:
    """Partitions and settings in force of all topics, internal ones too, by name."""
    shown: dict[str, Described]
    if broker.zookeeper is None:
        shown = json.loads(run(broker.version, "Topics", broker.bootstrap, "describe"))
        for topic in topics(broker.version):
            # Internal settings are in force but not shown.
            shown[topic.name]["config"] |= config(topic, broker.version)
    else:
        shown = broker.zookeeper.topics()
        for described in shown.values():
            described["config"] = _DEFAULTS | described["config"]
    return shown


def write(broker: Broker, number: int) -> None:
    """Write round ``number``, counted from 1."""
    version, address = broker.version, broker.bootstrap
    run(version, "Messages", address, str(number), *_orders(version))
    if at_least(version, "1.1"):
        newest = "zstd" if at_least(version, "2.1") else "lz4"
        end = ["hang"] if number == ROUNDS else []
        run(version, "Workload", address, str(number), newest, *end)
    if at_least(version, "2.8"):
        consumer = ["consumer"] if at_least(version, "3.9") else []
        run(version, "Groups", address, str(number), *consumer)
    elif at_least(version, "0.10"):
        run(version, "Commit", address, "classic", f"round-{number}")
    if number == 1 and _has(version, *_FORMATS):
        run(version, "Formats", address, *_FORMATS)
    for topic, client in _OLD_CLIENTS.items():
        if _has(version, topic):
            run(client, "Messages", address, str(number), f"{topic}:bare:8:6:{_all(client)}")


def _orders(version: str) -> list[str]:
    """What the program Messages is to write in a round."""
    codecs = _all(version)
    newest = "zstd" if at_least(version, "2.1") else "gzip"
    legacy = "none,gzip,snappy,lz4"
    orders = {f"codec-{codec}": f"mixed:6:12:{codec}" for codec in codecs.split(",")}
    orders |= {
        "log-append-time": f"even:6:5:{newest},none",
        "preallocated": "even:12:3:none",
        "a.b_c-1": "even:3:3:none",
        "groups": "even:3:3:none",
        "magic-0": f"bare:8:6:{legacy}",
        "magic-1": f"bare:8:6:{legacy}",
        "magic-1-append-time": f"bare:8:6:{legacy}",
        "compacted-magic-0": f"updates:8:12:{legacy}",
        "compacted-magic-1": f"updates:8:12:{legacy}",
    }
    if version.startswith("0."):
        # Its cleaner leaves compressed messages as they are before 0.9.
        orders["compacted"] = f"updates:8:12:{legacy if at_least(version, '0.9') else 'none'}"
    return [f"{topic}:{order}" for topic, order in orders.items() if _has(version, topic)]


def _all(version: str) -> str:
    """The codecs of a release, separated by commas."""
    return "none,gzip,snappy,lz4" + (",zstd" if at_least(version, "2.1") else "")


def _has(version: str, *wanted: str) -> bool:
    return set(wanted) <= {topic.name for topic in topics(version)}
