"""One long-running Java process: start and wait until it serves, stop, kill.

Spec: the exit of a JVM on SIGTERM and on SIGKILL.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60


class ServerError(Exception):
    """A server did not start or stop; the text ends with its last log lines."""


class Server:
    """The process of ``command``, called ``name`` in errors, which logs to the file ``log``.

    It serves once a line of its log holds the text ``ready``. Standard output and error of all its
    starts go to the log.
    """

    def __init__(self, name: str, command: Sequence[str], ready: str, log: Path) -> None:
        self._name = name
        self._command = tuple(command)
        self._ready = ready
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        log.touch()

    @property
    def running(self) -> bool:
        """Whether it was started and neither stopped nor killed since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The id of its process. Raises ServerError if it does not run."""
        return self._running().pid

    def start(self) -> None:
        """Start, and wait until it serves. Raises ServerError if it does not."""
        seen = len(self.log_lines())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not any(self._ready in line for line in self.log_lines()[seen:]):
            if self._process.poll() is not None:
                code, self._process = self._process.returncode, None
                raise self._error(f"ended with {code} instead of starting")
            if time.monotonic() > deadline:
                self.kill()
                raise self._error(f"had not started after {START_TIMEOUT_S} s")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop cleanly (SIGTERM) and wait for the end. Raises ServerError if it hangs."""
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
        """What it has logged so far, over all its starts."""
        return self._log.read_text(errors="replace").splitlines()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerError(f"{self._name} is not running")
        return self._process

    def _error(self, what: str) -> ServerError:
        tail = "\n".join(self.log_lines()[-40:])
        return ServerError(f"{self._name} {what}:\n{tail}")


def free_ports() -> tuple[int, int]:
    """Two ports of the loopback that nothing listens on."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
