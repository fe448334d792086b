"""The ZooKeeper that an old broker keeps its cluster in, and the topics there.

Spec: ``org.apache.zookeeper.server.quorum.QuorumPeerMain``; the nodes of ``kafka.utils.ZkUtils``
and ``kafka.zk.ZkData`` below ``/brokers/topics`` and ``/config/topics``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from brokers.programs import QUICK, java_command, run
from brokers.server import Server

_SETTINGS = """\
dataDir={directory}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
tickTime=2000
admin.enableServer=false
"""


class Described(TypedDict):
    """A topic: its number of partitions, and settings."""

    partitions: int
    config: dict[str, str]


class ZooKeeper:
    """A ZooKeeper server of the jars of Kafka ``version``, with its data in ``directory``."""

    def __init__(self, version: str, directory: Path, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._version = version
        directory.mkdir()
        config = directory / "zookeeper.properties"
        config.write_text(_SETTINGS.format(directory=directory, port=port))
        program = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java_command(version, "INFO", *QUICK, "-Xmx256m")
        log = directory / "zookeeper.log"
        name = f"ZooKeeper of {version}"
        self.server = Server(name, [*command, program, str(config)], "binding to port", log)

    def create_topics(self, wanted: Mapping[str, Described]) -> None:
        """Make topics, with broker 1 for their replica."""
        nodes: dict[str, object] = {}
        for topic, described in wanted.items():
            config = {"version": 1, "config": described["config"]}
            replicas = {str(number): [1] for number in range(described["partitions"])}
            nodes[f"/config/topics/{topic}"] = config
            # Last, as this is the node that the controller watches.
            nodes[f"/brokers/topics/{topic}"] = {"version": 1, "partitions": replicas}
        self._create(nodes)

    def restore(self, directory: Path, topics: Mapping[str, Described]) -> None:
        """Know the cluster of a log directory, and its topics, before a broker starts on it."""
        properties = directory / "meta.properties"
        if properties.exists():
            for line in properties.read_text().splitlines():
                name, _, value = line.partition("=")
                if name == "cluster.id":
                    self._create({"/cluster/id": {"version": "1", "id": value}})
        self.create_topics(topics)

    def topics(self) -> dict[str, Described]:
        """All topics, internal ones too, with the settings that are their own."""
        partitions = self._children("/brokers/topics")
        configs = self._children("/config/topics")
        return {
            topic: {
                "partitions": len(described["partitions"]),
                "config": configs[topic]["config"],
            }
            for topic, described in partitions.items()
        }

    def _create(self, nodes: Mapping[str, object]) -> None:
        """Make nodes, and their parents, each with a value that is stored as JSON."""
        lines = "".join(f"{path} {json.dumps(value)}\n" for path, value in nodes.items())
        run(self._version, "Znodes", self.address, "create", stdin=lines)

    def _children(self, path: str) -> dict[str, Any]:
        lines = run(self._version, "Znodes", self.address, "children", path).splitlines()
        split = (line.partition(" ") for line in lines)
        return {name: json.loads(data) for name, _, data in split}
