"""Three brokers that replicate each other's partitions, and a controller: a process each.

Spec: ``kafka.Kafka`` with ``process.roles``; what followers say of truncations in their logs
(``AbstractFetcherThread``, ``UnifiedLog.truncateTo``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from brokers.broker import format_directory
from brokers.programs import QUICK, ProgramError, command, java_command
from brokers.server import Server, ServerError, free_ports
from brokers.settings import of_broker, of_controller

CONTROLLER, NODES = 10, (1, 2, 3)
#: How long followers may take until they are in sync, where the machine has other work.
SECONDS = 120

_SETTINGS = {
    "unclean.leader.election.enable": "true",
    # A dead broker is known as one soon; no leader moves but by what a test does.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "200",
    # Small files are soon as they are after hours.
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
}

_READY = "Kafka Server started"
_FOLLOWS = re.compile(
    r"Follower (\S+)-0 starts at leader epoch (\d+) from offset (\d+) .* Current leader is (\d+)\."
)
_ANSWER = re.compile(r"Truncating partition (\S+)-0 with TruncationState\(offset=(\d+), completed=")
_TRUNCATES = re.compile(r"\[UnifiedLog partition=(\S+)-0, dir=.*\] Truncating to offset (\d+)")
_RESTARTS = re.compile(
    r"Truncate fully and reset fetch offset for partition (\S+)-0 from \d+ to the current leader's "
    r"start offset (\d+)"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a follower's log of a topic when another broker led.

    ``end`` is the log end offset with which it began to follow, None where it never did. It
    truncated its log to ``offset`` (None: not at all), after the leader's ``answers`` about epochs,
    of which each gave an offset. With ``restart`` it dropped all and began anew there.
    """

    end: int | None
    offset: int | None
    answers: tuple[int, ...] = ()
    restart: bool = False


class Replicas:
    """Brokers 1 to 3 of Kafka ``version`` in directories of these names below ``top``.

    The controller is node 10, and its directory ``controller``. ``settings`` are those of nodes
    beyond, or instead of, the usual ones. Leaving a ``with`` block kills what still runs.
    """

    def __init__(
        self, version: str, top: Path, settings: Mapping[int, Mapping[str, str]] | None = None
    ) -> None:
        self.version = version
        self.top = top
        self._scratch = tempfile.TemporaryDirectory(prefix="replicas-")
        ports = (*free_ports(), *free_ports())
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.addresses = dict(zip((CONTROLLER, *NODES), addresses, strict=True))
        self._servers = {node: self._server(node) for node in self.addresses}
        self.configure(settings or {})
        self._client: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.kill()
            self._client.wait()
        self.kill(CONTROLLER, *NODES)
        self._scratch.cleanup()

    def configure(self, settings: Mapping[int, Mapping[str, str]]) -> None:
        """Give nodes other settings, which those have that are started from now on."""
        voter = f"{CONTROLLER}@{self.addresses[CONTROLLER]}"
        for node, address in self.addresses.items():
            beyond = _SETTINGS | dict(settings.get(node, {}))
            directory = self.directory(node)
            text = (
                of_controller(self.version, directory, node, address, beyond)
                if node == CONTROLLER
                else of_broker(self.version, directory, node, address, voter, beyond)
            )
            self._config(node).write_text(text)

    def directory(self, node: int) -> Path:
        """The log directory of a node."""
        return self.top / ("controller" if node == CONTROLLER else str(node))

    def start(self, *nodes: int) -> None:
        """Start brokers together, and before them the controller. Raises ServerError."""
        if not self._servers[CONTROLLER].running:
            self._start(CONTROLLER)
        with ThreadPoolExecutor(len(NODES)) as pool:
            tuple(pool.map(self._start, nodes))

    def stop(self, *nodes: int) -> None:
        """Stop nodes one after the other, as SIGTERM does. Raises ServerError."""
        for node in nodes:
            self._servers[node].stop()

    def kill(self, *nodes: int) -> None:
        """End those of the nodes that run, as SIGKILL does."""
        for node in nodes:
            if self._servers[node].running:
                self._servers[node].kill()

    def pause(self, node: int) -> None:
        """Have a node do nothing, and not notice it (SIGSTOP)."""
        os.kill(self._servers[node].pid, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Let a node that was paused go on."""
        os.kill(self._servers[node].pid, signal.SIGCONT)

    @property
    def running(self) -> list[int]:
        """The brokers that run."""
        return [node for node in NODES if self._servers[node].running]

    def log_lines(self, node: int) -> list[str]:
        """What a node has logged so far."""
        return self._servers[node].log_lines()

    def copy(self, target: Path) -> Path:
        """Copy the directories of all nodes, none of which runs, to ``target``; returns it."""
        copy_nodes(self.top, target)
        return target

    def replace(self, base: Path) -> None:
        """End what runs, and replace the directories of all nodes by those below ``base``."""
        self.kill(CONTROLLER, *NODES)
        copy_nodes(base, self.top)

    # What clients do

    def do(self, order: str, **arguments: Any) -> Any:
        """Have ``java/Replication.java`` do something; its answer. Raises ProgramError."""
        if self._client is None:
            addresses = ",".join(self.addresses[node] for node in NODES)
            self._client = subprocess.Popen(
                command(self.version, "Replication", addresses),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(Path(self._scratch.name) / "client.log").open("wb"),
                text=True,
            )
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._client.stdin.write(json.dumps({"do": order, **arguments}) + "\n")
            self._client.stdin.flush()
        answer = self._client.stdout.readline()
        if not answer:
            said = (Path(self._scratch.name) / "client.log").read_text(errors="replace")
            raise ProgramError(f"Replication {order} {arguments} failed:\n{said[-4000:]}")
        return json.loads(answer)

    def in_sync(self, topics: Iterable[str], seconds: float = SECONDS) -> dict[str, Any]:
        """Wait until exactly the brokers that run are in sync; leaders and ids by topic.

        Raises ProgramError if they are not in this time.
        """
        wanted = sorted(topics)
        answer = self.do("wait", topics=wanted, brokers=self.running, seconds=seconds)
        if not answer["ready"]:
            raise ProgramError(f"not in sync are {self.running}: {answer['topics']}")
        states: dict[str, Any] = answer["topics"]
        return states

    # What brokers say

    def truncations(
        self, leader: int, topics: Collection[str], *, elect: bool = False
    ) -> dict[str, dict[int, Outcome]]:
        """Start the brokers anew, ``leader`` first, so that it leads; what became of the others.

        For each topic, by node. Nothing may run. With ``elect`` a client has it elected, which is
        needed where nobody else allows an unclean election. Raises ServerError if another leads.
        """
        seen = {node: len(self.log_lines(node)) for node in NODES}
        self.start(leader)
        if elect:
            self.do("elect", topics=sorted(topics), seconds=SECONDS)
        self.in_sync(topics)
        followers = [node for node in NODES if node != leader]
        self.start(*followers)
        states = self.in_sync(topics)
        led = {topic: state["leader"] for topic, state in states.items()}
        if set(led.values()) != {leader}:
            raise ServerError(f"expected that {leader} leads, found {led}")
        said = {node: self.log_lines(node)[seen[node] :] for node in followers}
        return {
            topic: {node: outcome(said[node], topic, leader) for node in followers}
            for topic in topics
        }

    def _server(self, node: int) -> Server:
        java = [*java_command(self.version, "INFO", *QUICK, "-Xmx256m"), "kafka.Kafka"]
        log = Path(self._scratch.name) / f"{node}.log"
        return Server(f"node {node}", [*java, str(self._config(node))], _READY, log)

    def _config(self, node: int) -> Path:
        return Path(self._scratch.name) / f"{node}.properties"

    def _start(self, node: int) -> None:
        if not (self.directory(node) / "meta.properties").exists():
            format_directory(self.version, self.directory(node), self._config(node))
        self._servers[node].start()


def outcome(lines: Sequence[str], topic: str, leader: int) -> Outcome:
    """What a follower says of its log of ``topic`` since ``leader`` leads it."""
    follows = None
    answers: list[int] = []
    offset, restart = None, False
    for line in lines:
        if (match := _FOLLOWS.search(line)) and match[1] == topic and int(match[4]) == leader:
            follows, answers, offset, restart = int(match[3]), [], None, False
        elif (match := _ANSWER.search(line)) and match[1] == topic:
            answers.append(int(match[2]))
        elif (match := _TRUNCATES.search(line)) and match[1] == topic:
            offset = int(match[2])
        elif (match := _RESTARTS.search(line)) and match[1] == topic:
            offset, restart = int(match[2]), True
    return Outcome(follows, offset, tuple(answers), restart)


def copy_nodes(source: Path, target: Path) -> None:
    """Copy directories of nodes, files with holes as such."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)
