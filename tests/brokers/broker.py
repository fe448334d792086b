"""Starts, stops and kills one real broker on a log directory.

Spec: ``kafka.Kafka``; ``kafka.tools.StorageTool`` (KIP-500) for a single KRaft node, before Kafka
3 a ZooKeeper beside it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.jars import ZOOKEEPER_RELEASES
from brokers.programs import QUICK, java_command, tiered_storage_of
from brokers.server import Server, ServerError, free_ports
from brokers.settings import joining, tiered, with_kraft, with_zookeeper
from brokers.zookeeper import Described, ZooKeeper

CLUSTER_ID = "kdumpFixturesCluster0A"

QUICK_RESTART = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""Settings for starts after a kill, which wait until the dead broker's session ends (9 s)."""

_WATCH_S = 60

#: Runs a command as in a container; it ends with this process.
CONTAINED = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


class Broker:
    """A broker of Kafka ``version`` on ``directory``, started on entering a ``with`` block.

    A directory without ``meta.properties`` is formatted first, where the release asks for it.
    ``settings`` are broker settings beyond, or instead of, the usual ones. ``topics`` are those
    that the directory holds: a broker with a new ZooKeeper must be told. A broker that ``joins``
    another is node 2 of that KRaft cluster. ``heap`` is the most that Java takes for objects. With
    ``uid`` root starts it as that user, who may read all files (Java's too), but write its own.
    ``contained``: in a mount and a process namespace of its own, as in a container; there it can be
    killed and not stopped. ``remote`` is the directory of remote storage, which 4.3.1 has.
    Leaving the block stops the broker if it still runs. ``zookeeper`` is None where the release
    needs none.
    """

    def __init__(
        self,
        version: str,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        topics: Mapping[str, Described] | None = None,
        *,
        joins: Broker | None = None,
        heap: str = "700m",
        uid: int | None = None,
        contained: bool = False,
        remote: Path | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self.zookeeper: ZooKeeper | None = None
        self._topics = topics or {}
        self._remote = remote
        client, second = free_ports()
        self.bootstrap, self.controller = f"127.0.0.1:{client}", f"127.0.0.1:{second}"
        self._scratch = tempfile.TemporaryDirectory(prefix="broker-")
        scratch = Path(self._scratch.name)
        self._config = scratch / "server.properties"
        if version in ZOOKEEPER_RELEASES:
            self.zookeeper = ZooKeeper(version, scratch / "zookeeper", second)
            address, ready = self.zookeeper.address, "started (kafka.server.KafkaServer)"
            text = with_zookeeper(version, directory, client, address, settings or {})
        else:
            ready = "Kafka Server started"
            cluster = {} if joins is None else joining(client, joins.controller)
            storage = {} if remote is None else tiered(remote)
            beyond = cluster | storage | dict(settings or {})
            text = with_kraft(version, directory, client, second, beyond)
        self._config.write_text(text)
        self._server = Server(
            f"broker {version} on {directory}",
            [
                *(CONTAINED if contained else ()),
                *_as_user(uid),
                *self._java(f"-Xmx{heap}"),
                "kafka.Kafka",
                str(self._config),
            ],
            ready,
            scratch / "broker.log",
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
            if kind is None and self._server.running:
                self.stop()
        finally:
            self._abandon()

    def start(self) -> None:
        """Start, and wait until the broker serves. Raises ServerError if it does not."""
        if self.zookeeper is not None:
            if not self.zookeeper.server.running:
                self.zookeeper.server.start()
                if self._topics:
                    self.zookeeper.restore(self.directory, self._topics)
        elif not (self.directory / "meta.properties").exists():
            format_directory(self.version, self.directory, self._config)
        self._server.start()

    def stop(self) -> None:
        """Stop cleanly (SIGTERM) and wait for the end. Raises ServerError if it hangs."""
        self._server.stop()

    def kill(self) -> None:
        """End at once (SIGKILL), as a crash of the process does."""
        self._server.kill()

    @property
    def pid(self) -> int:
        """The id of the process that was started: of ``contained`` brokers that of unshare."""
        return self._server.pid

    def log_lines(self) -> list[str]:
        """What the broker has logged so far, at INFO and above, over all its starts."""
        return self._server.log_lines()

    def _abandon(self) -> None:
        servers = [self._server] + ([self.zookeeper.server] if self.zookeeper else [])
        for server in servers:
            if server.running:
                server.kill()
        self._scratch.cleanup()

    def _java(self, *flags: str) -> list[str]:
        classes = None if self._remote is None else tiered_storage_of(self.version)
        return java_command(self.version, "INFO", *QUICK, *flags, classes=classes)


def refused_start(
    version: str,
    directory: Path,
    settings: Mapping[str, str],
    uid: int | None = None,
    *,
    remote: Path | None = None,
) -> list[str]:
    """All that a broker logs that ends instead of starting. Raises ServerError if it starts.

    ``uid`` and ``remote`` are as for ``Broker``.
    """
    broker = Broker(version, directory, settings, uid=uid, remote=remote)
    try:
        broker._server.start()  # without formatting a directory that has no meta.properties
    except ServerError:
        return broker.log_lines()
    finally:
        broker._abandon()
    raise ServerError(f"broker {version} on {directory} started")


def watched_start(
    version: str,
    directory: Path,
    settings: Mapping[str, str],
    message: str,
    uid: int | None = None,
) -> list[str]:
    """All that a broker logs, whether it starts or ends, up to ``message`` or for a minute."""
    broker = Broker(version, directory, settings, uid=uid)
    try:
        with contextlib.suppress(ServerError):
            broker._server.start()
        deadline = time.monotonic() + _WATCH_S
        while not any(message in line for line in broker.log_lines()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return broker.log_lines()
    finally:
        broker._abandon()


def killed_start(version: str, directory: Path, settings: Mapping[str, str], message: str) -> None:
    """Start a broker, and end it at once (SIGKILL) when it logs ``message``, started or not."""
    broker = Broker(version, directory, settings)
    try:
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(broker._server.start)
            while not any(message in line for line in broker.log_lines()) and not started.done():
                time.sleep(0.02)
            os.kill(broker.pid, signal.SIGKILL)
            with contextlib.suppress(ServerError):
                started.result()
    finally:
        broker._abandon()


def format_directory(version: str, directory: Path, config: Path, *options: str) -> None:
    """Format the log directory of a node of ``config``; it is made. Raises ServerError."""
    directory.mkdir(parents=True, exist_ok=True)
    tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), *options)
    command = [*java_command(version, "INFO", *QUICK), *tool]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise ServerError(
            f"storage format of {directory} ended with {done.returncode}:\n{done.stderr}"
        )


def _as_user(uid: int | None) -> list[str]:
    if uid is None:
        return []
    capability = "+dac_read_search"
    return [
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
        *(f"--inh-caps={capability}", f"--ambient-caps={capability}"),
    ]
