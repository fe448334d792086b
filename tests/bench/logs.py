"""Measures ``kdump explain`` on logs of each kind, in processor time.

Lines of ordinary running are passed over. All others are looked up; those here are not known, and
differ in numbers alone, or in words too.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.report import Row
from bench.timing import best
from kdump.commands.explain.broker_log.entries import LINE_BYTES, read_entries
from kdump.commands.explain.broker_log.report import group_entries

_MB_PER_S = 20.0
_TIME = "2025-03-01 10:00:00,001"
_WORDS = 20_000
_FRAMES = 12


def _warning(number: int) -> str:
    return (
        f"[{_TIME}] WARN [Controller id=1, targetBrokerId={number % 9}] Something {number} of "
        f"broker {number % 7} and its client consumer-{number} is unheard (kafka.network.Unheard)\n"
    )


def _error(number: int) -> str:
    frames = (
        f"\tat org.apache.kafka.some.Class$Inner.method{frame}(Class.java:{frame})\n"
        for frame in range(_FRAMES)
    )
    return (
        f"[{_TIME}] ERROR [KafkaApi-{number % 9}] Unheard error of request (correlationId={number})"
        f" (kafka.server.KafkaApis)\njava.lang.IllegalStateException: {number} is odd\n"
        f"{''.join(frames)}"
    )


def _json(number: int) -> str:
    fields = {
        "@timestamp": "2025-03-01T10:00:00.001Z",
        "log.level": "WARN" if number % 10 == 0 else "INFO",
        "message": f"[GroupCoordinator 1]: Member consumer-{number} in group g-{number % 30} left",
        "process.thread.name": "request-handler-1",
        "log.logger": "kafka.coordinator.group.GroupCoordinator",
    }
    return json.dumps(fields) + "\n"


def _words() -> Callable[[int], str]:
    chance = random.Random(45)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(4, 11))) for _ in range(_WORDS)]
    return lambda number: (
        f"[{_TIME}] WARN [Controller id=1] {' '.join(chance.choices(words, k=12))} {number} "
        "(kafka.network.Unheard)\n"
    )


def measure_explain(directory: Path, size_bytes: int, repeat: int) -> Iterator[Row]:
    """The speed of ``explain`` on each kind of log."""
    kinds = {"warn": _warning, "error": _error, "json": _json, "words": _words()}
    for name, line in kinds.items():
        log = directory / "server.log"
        written = number = 0
        with log.open("w") as out:
            while written < size_bytes:
                written += out.write(line(number))
                number += 1

        def read(log: Path = log) -> None:
            with log.open("rb") as lines:
                group_entries(read_entries(iter(lambda: lines.readline(LINE_BYTES), b"")))

        (taken,) = best(repeat, read, clock=time.process_time)
        speed = written / taken / 1e6
        yield Row(
            f"explain {name}",
            f"{taken:.2f} s",
            f"{number:,} entries",
            speed,
            "MB/s",
            least=_MB_PER_S,
        )
