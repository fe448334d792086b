"""Starts, stops and kills one real KRaft broker on a log directory.

Spec: ``kafka.Kafka`` and ``kafka.tools.StorageTool`` (KIP-500), combined mode, one node.
Must never listen beyond the loopback, nor leave its process behind.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.programs import java_command

CLUSTER_ID = "kdumpFixturesCluster0A"
STARTED = "Kafka Server started"
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60

QUICK_RESTART = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""Settings for starts after a kill, which wait until the dead broker's session ends (9 s)."""

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{client}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
num.recovery.threads.per.data.dir=1
log.retention.ms=-1
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
"""

# Settings that only some releases know, or need.
_SETTINGS_OF = {
    "3.9": {"group.coordinator.rebalance.protocols": "classic,consumer"},
    "4.3": {
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "2",
    },
}


class BrokerError(Exception):
    """A broker did not start or stop; the text ends with its last log lines."""


class Broker:
    """A broker of Kafka ``version`` on ``directory``, started on entering a ``with`` block.

    A directory without ``meta.properties`` is formatted first. ``settings`` are broker settings
    beyond, or instead of, the usual ones. Leaving the block stops the broker if it still runs.
    """

    def __init__(
        self, version: str, directory: Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self.version = version
        self.directory = directory
        client, controller = _free_ports()
        self.bootstrap = f"127.0.0.1:{client}"
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="broker-")
        self._log = Path(self._scratch.name, "broker.log")
        self._log.touch()
        self._config = Path(self._scratch.name, "server.properties")
        special = _SETTINGS_OF[".".join(version.split(".")[:2])] | dict(settings or {})
        self._config.write_text(
            _SETTINGS.format(client=client, controller=controller, directory=directory)
            + "".join(f"{name}={value}\n" for name, value in special.items())
        )

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self._abandon)
            self.start()
            undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._process is not None:
                self.stop()
        finally:
            self._abandon()

    def start(self) -> None:
        """Start, and wait until the broker serves. Raises BrokerError if it does not."""
        if not (self.directory / "meta.properties").exists():
            self._format()
        seen = len(self.log_lines())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("-Xmx700m"), "kafka.Kafka", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not any(STARTED in line for line in self.log_lines()[seen:]):
            if self._process.poll() is not None:
                code, self._process = self._process.returncode, None
                raise self._error(f"ended with {code} instead of starting")
            if time.monotonic() > deadline:
                self.kill()
                raise self._error(f"had not started after {START_TIMEOUT_S} s")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop cleanly (SIGTERM) and wait for the end. Raises BrokerError if it hangs."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise self._error(f"had not stopped after {STOP_TIMEOUT_S} s") from late
        self._process = None

    def kill(self) -> None:
        """End at once (SIGKILL), as a crash of the process does."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None

    def log_lines(self) -> list[str]:
        """What the broker has logged so far, at INFO and above, over all its starts."""
        return self._log.read_text(errors="replace").splitlines()

    def _abandon(self) -> None:
        if self._process is not None:
            self.kill()
        self._scratch.cleanup()

    def _format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config))
        with self._log.open("ab") as log:
            done = subprocess.run([*self._java(), *tool], stdout=log, stderr=log, check=False)
        if done.returncode != 0:
            raise self._error(f"storage format ended with {done.returncode}")

    def _java(self, *flags: str) -> list[str]:
        return java_command(self.version, "INFO", "-XX:+UseSerialGC", *flags)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError(f"broker {self.version} on {self.directory} is not running")
        return self._process

    def _error(self, what: str) -> BrokerError:
        tail = "\n".join(self.log_lines()[-40:])
        return BrokerError(f"broker {self.version} on {self.directory} {what}:\n{tail}")


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
