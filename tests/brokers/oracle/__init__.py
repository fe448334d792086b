"""Asks a real broker's code what it does to a partition directory, and what its dump tool prints.

Spec: UnifiedLog, LogLoader and DumpLogSegments, run by Oracle.java in one long-lived JVM a release.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from brokers import jars
from brokers.classes import compiled

ANSWER_SECONDS = 60.0
PRODUCER_EXPIRY_MS = 86_400_000
"""A broker's default ``producer.id.expiration.ms``."""

_JAVA = Path(__file__).parent
#: The folders with what a release calls otherwise.
_FOLDERS = {"3.9.1": ("3.9.1",), "4.3.1": ("4.3.1",), "4.4.0": ("4.4.0", "4.3.1")}
_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
    # Standard output is for answers alone: HotSpot's own warnings would go there.
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
    f"-Dlog4j2.configurationFile={_JAVA / 'log4j2.properties'}",
)


class OracleError(Exception):
    """The oracle itself failed: no answer in time, a dead JVM, or a request it could not do."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a broker's log was after its load; ``segments`` are base offsets."""

    log_start_offset: int
    log_end_offset: int
    segments: tuple[int, ...]
    messages: tuple[str, ...]
    """The broker's log lines of INFO and above, as level, blank and text."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The Java exception that ended a load.

    A broker takes the whole log directory ``offline`` for an input or output error (and stops if it
    has no other); for anything else it stops at once.
    """

    error: str
    message: str | None
    offline: bool
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A log as the cleaner's manager sees it (``LogToClean``).

    ``turn`` is the number of logs that it takes before, -1 if it does not take this one.
    """

    first_dirty: int
    before: int
    clean_bytes: int
    dirty_bytes: int
    ratio: float
    forced: bool
    turn: int


class Oracle:
    """A release's loader and dump tool. Its JVM starts with the first request, and again after a
    failure. Raises OracleError; what the broker thinks of a directory is never an exception."""

    def __init__(self, version: str, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.version = version
        self._answer_seconds = answer_seconds
        self._jvm: _Jvm | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; a later request starts another."""
        if self._jvm is not None:
            self._jvm.end()
            self._jvm = None

    @property
    def pid(self) -> int | None:
        """The process id of the JVM, or None while there is none."""
        return None if self._jvm is None else self._jvm.pid

    def load(
        self,
        directory: Path,
        *,
        clean: bool = False,
        log_start: int = 0,
        recovery_point: int = 0,
        config: Mapping[str, str] | None = None,
        producer_expiry_ms: int | None = None,
        now_ms: int | None = None,
    ) -> Loaded | Refused:
        """Start a broker's log on ``directory`` (named ``topic-partition``), then stop it cleanly.

        The directory is changed in place as by a broker that starts and stops: cut, indexes
        rebuilt, ``.deleted`` files gone, a snapshot at the end. After a refusal it is as the failed
        load left it. ``config`` holds topic properties; ``clean`` says that the clean-shutdown
        marker was there; ``log_start`` and ``recovery_point`` are what the checkpoints say;
        ``now_ms`` is the time by which producers expire, None for the clock's.
        """
        answer = self._ask(
            {
                "op": "load",
                "directory": str(directory.absolute()),
                "clean": clean,
                "log_start": log_start,
                "recovery_point": recovery_point,
                "config": dict(config or {}),
                "producer_expiry_ms": (
                    PRODUCER_EXPIRY_MS if producer_expiry_ms is None else producer_expiry_ms
                ),
                "now_ms": now_ms,
            }
        )
        messages = tuple(answer["messages"])
        if not answer["ok"]:
            return Refused(answer["error"], answer["message"], answer["offline"], messages)
        segments = tuple(answer["segments"])
        return Loaded(answer["log_start_offset"], answer["log_end_offset"], segments, messages)

    def clean(
        self, directory: Path, logs: Mapping[str, Mapping[str, object]], now_ms: int
    ) -> dict[str, Cleaning]:
        """What the cleaner's manager makes of partitions in a log directory, by their names.

        Each of ``logs`` has ``config``, ``log_start`` and ``high_watermark``. The checkpoint of the
        cleaner is the one in ``directory``. Files are changed as by ``load`` after a clean stop.
        """
        wanted = [{"directory": str(directory / name), **facts} for name, facts in logs.items()]
        answer = self._ask(
            {"op": "clean", "directory": str(directory), "logs": wanted, "now_ms": now_ms}
        )
        return {name: Cleaning(**found) for name, found in answer.items()}

    def dump(self, *args: str) -> tuple[bytes, bytes]:
        """The stdout and stderr of DumpLogSegments with these arguments.

        As in a JVM of its own, an uncaught exception ends stderr with a stack trace. File names are
        printed as given; relative ones are taken from this process's directory at the first
        request. The tool may write beside the files that it reads: give it copies.
        """
        answer = self._ask({"op": "dump", "args": args})
        return base64.b64decode(answer["stdout"]), base64.b64decode(answer["stderr"])

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        if self._jvm is None:
            self._jvm = _Jvm(self.version)
        try:
            answer = self._jvm.ask(request, self._answer_seconds)
        except BaseException:
            # Also after Ctrl-C: the answer that comes later would be taken for the next one's.
            self.close()
            raise
        if "failed" in answer:
            raise OracleError(f"{self.version} failed at {request}:\n{answer['failed']}")
        return answer


class _Jvm:
    """One process that runs Oracle.java."""

    def __init__(self, version: str) -> None:
        self._version = version
        # A file, not a pipe: a full pipe nobody reads would stop the JVM.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        folders = [*(_JAVA / folder for folder in _FOLDERS[jars.meant(version)]), _JAVA]
        classes = compiled("oracle", version, "Oracle", folders)
        path = f"{classes}:{jars.classpath(version)}"
        self._process = subprocess.Popen(
            ["java", *_OPTIONS, "-cp", path, "Oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            # Java takes the encoding of file names from the locale.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, object], seconds: float) -> dict[str, Any]:
        """The answer to a request; raises OracleError if there is none in that many seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise OracleError(self._died()) from None
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + seconds))
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        received = bytearray()
        while not received.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise OracleError(
                    f"the JVM of {self._version} gave no answer in time{self._said()}"
                )
            piece = self._process.stdout.read(1 << 20)
            if not piece:
                raise OracleError(self._died())
            received += piece
        return bytes(received)

    def _died(self) -> str:
        return f"the JVM of {self._version} ended with {self._process.wait()}{self._said()}"

    def _said(self) -> str:
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()
        return f"; its stderr ends:\n{said[-2000:]}" if said else ""
