"""Three controllers of one KRaft quorum, each a process and a directory of its own.

Spec: ``kafka.Kafka`` with ``process.roles=controller``; ``kafka.tools.StorageTool`` (KIP-853 for a
dynamic set of voters).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from brokers.broker import format_directory
from brokers.jars import config_command
from brokers.programs import QUICK, java_command
from brokers.server import Server, ServerError, free_ports

NODES = (1, 2, 3)
#: Directory ids of the voters of a dynamic set.
DIRECTORY_IDS = {node: f"kdumpControllerDirec{node}g" for node in NODES}

#: Behind it a node has read its log and quorum-state; to serve, it needs a leader.
_READY = "Completed transition to "
_LEADER = re.compile(r"Completed transition to Leader\(.*?\bepoch=(\d+), epochStartOffset=(\d+)")
_TRUNCATED = re.compile(r"Truncated to offset (\d+) from Fetch response")


class Elected(NamedTuple):
    """A node that became leader, its epoch, and the log end offset with which it did."""

    node: int
    epoch: int
    start_offset: int


class Controllers:
    """The controllers of Kafka ``version`` in the directories ``1`` to ``3`` below ``top``.

    With ``dynamic`` the set of voters is in the metadata log, otherwise in the configurations.
    Leaving a ``with`` block kills what still runs.
    """

    def __init__(self, version: str, top: Path, *, dynamic: bool = False) -> None:
        self.version = version
        self.top = top
        self._dynamic = dynamic
        self._scratch = tempfile.TemporaryDirectory(prefix="controllers-")
        ports = (*free_ports(), *free_ports())
        self.addresses = {node: f"127.0.0.1:{ports[node]}" for node in NODES}
        for node in NODES:
            self.config(node).write_text(self._settings(node))
        self._servers: dict[int, Server] = {}
        self._seen: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._scratch.cleanup()

    def config(self, node: int) -> Path:
        """The server.properties of a node."""
        return Path(self._scratch.name) / f"{node}.properties"

    def directory(self, node: int) -> Path:
        """The log directory of a node."""
        return self.top / str(node)

    def format(self) -> None:
        """Format the directories of all nodes. Raises ServerError."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            tuple(pool.map(self._format, NODES))

    def start(self, nodes: Iterable[int] = NODES) -> dict[int, ServerError]:
        """Start nodes together, until they take part in elections; the errors of others."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            found = dict(pool.map(self._start, nodes))
        return {node: error for node, error in found.items() if error is not None}

    def stop(self) -> None:
        """Stop all that run, together."""
        running = [server for server in self._servers.values() if server.running]
        with ThreadPoolExecutor(len(NODES)) as pool:
            tuple(pool.map(Server.stop, running))

    def kill(self) -> None:
        """End all that run at once."""
        for server in self._servers.values():
            if server.running:
                server.kill()

    def replace(self, base: Path) -> None:
        """Replace the directories of all nodes by those below ``base``, and forget their logs."""
        for node in NODES:
            shutil.rmtree(self.directory(node), ignore_errors=True)
            shutil.copytree(base / str(node), self.directory(node))
        self._seen = {node: len(server.log_lines()) for node, server in self._servers.items()}

    def wait(self, seconds: float = 30) -> list[Elected]:
        """Who was elected, once somebody is; none if a node stops, or nobody is in this time."""
        deadline = time.monotonic() + seconds
        while not self.elected() and time.monotonic() < deadline:
            if any(map(self.stopped_for, NODES)):
                break
            time.sleep(0.2)
        return self.elected()

    def elected(self) -> list[Elected]:
        """Who became leader since the directories were replaced, by epoch."""
        found = [
            Elected(node, int(match[1]), int(match[2]))
            for node, line in self._lines()
            if (match := _LEADER.search(line))
        ]
        return sorted(found, key=lambda each: each.epoch)

    def stopped_for(self, node: int) -> bool:
        """Whether a node has stopped because of what it heard of a leader that it cannot know."""
        texts = ("which is inconsistent with current leader", "Unknown leader endpoints")
        return any(
            each == node and any(text in line for text in texts) for each, line in self._lines()
        )

    def truncations(self) -> list[tuple[int, int]]:
        """The nodes that a leader made cut their logs, and the offsets, in the same time."""
        return [
            (node, int(match[1]))
            for node, line in self._lines()
            if (match := _TRUNCATED.search(line))
        ]

    def log_lines(self, node: int) -> list[str]:
        """What a node has logged since the directories were replaced."""
        return [line for each, line in self._lines() if each == node]

    def alter_configs(self, configs: Mapping[str, str]) -> None:
        """Set dynamic configs of all brokers, a record each. Raises ServerError."""
        listed = ",".join(f"{name}={value}" for name, value in configs.items())
        tool = (config_command(self.version), "--alter", "--entity-type", "brokers")
        options = ("--entity-default", "--add-config", listed)
        where = ("--bootstrap-controller", self.addresses[1])
        command = [*self._java(), *tool, *options, *where]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerError(f"ConfigCommand ended with {done.returncode}: {done}")

    def _format(self, node: int) -> None:
        voters = ",".join(f"{each}@{self.addresses[each]}:{DIRECTORY_IDS[each]}" for each in NODES)
        beyond = ("--initial-controllers", voters) if self._dynamic else ()
        format_directory(self.version, self.directory(node), self.config(node), *beyond)

    def _start(self, node: int) -> tuple[int, ServerError | None]:
        server = self._servers.get(node)
        if server is None:
            server = self._servers[node] = Server(
                f"controller {node}",
                [*self._java("-Xmx192m"), "kafka.Kafka", str(self.config(node))],
                _READY,
                Path(self._scratch.name) / f"{node}.log",
            )
        try:
            server.start()
        except ServerError as error:
            return node, error
        return node, None

    def _lines(self) -> list[tuple[int, str]]:
        return [
            (node, line)
            for node, server in self._servers.items()
            for line in server.log_lines()[self._seen.get(node, 0) :]
        ]

    def _settings(self, node: int) -> str:
        voters = ",".join(f"{each}@{address}" for each, address in self.addresses.items())
        settings = {
            "process.roles": "controller",
            "node.id": str(node),
            "listeners": f"CONTROLLER://{self.addresses[node]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory(node)),
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.fetch.timeout.ms": "1000",
            "metadata.max.idle.interval.ms": "100",
        }
        if self._dynamic:
            settings["controller.quorum.bootstrap.servers"] = ",".join(self.addresses.values())
        else:
            settings["controller.quorum.voters"] = voters
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _java(self, *flags: str) -> list[str]:
        return java_command(self.version, "INFO", *QUICK, *flags)
