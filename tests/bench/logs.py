"""Measures ``kdump explain`` on logs of each kind, in processor time.

Lines of ordinary running are passed over. All others are looked up. Most here are not known, and
differ in numbers alone, or in words too; others are known, of many topics.
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
_TOPICS = 500
_KNOWN = (
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Found invalid messages during fetch for "
    "partition {topic}-3 offset {number} (kafka.server.ReplicaFetcherThread)",
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Error for partition {topic}-3 at offset "
    "{number} (kafka.server.ReplicaFetcherThread)\norg.apache.kafka.common.errors."
    "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
    "[ReplicaManager broker=1] Error processing append operation on partition {topic}-3 "
    "(kafka.server.ReplicaManager)\norg.apache.kafka.common.errors.KafkaStorageException: Error "
    "while appending records to {topic}-3 in dir /var/lib/kafka/data",
    "[LogLoader partition={topic}-3, dir=/var/lib/kafka/data] Found invalid messages in log segment"
    " /var/lib/kafka/data/{topic}-3/{number:020}.log at byte offset 91: Record is corrupt. "
    "(org.apache.kafka.storage.internals.log.LogLoader)",
)


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


def _words() -> dict[str, Callable[[int], str]]:
    """Return the kinds of lines that differ in words."""
    chance = random.Random(45)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(4, 11))) for _ in range(_WORDS)]

    def warning(number: int) -> str:
        text = f"{' '.join(chance.choices(words, k=12))} {number}"
        return f"[{_TIME}] WARN [Controller id=1] {text} (kafka.network.Unheard)\n"

    def structured(number: int) -> str:
        fields = {
            "@timestamp": "2025-03-01T10:00:00.001Z",
            "log.level": "WARN",
            "message": f"[GroupCoordinator 1]: {' '.join(chance.choices(words, k=12))} {number}",
            "process.thread.name": "request-handler-1",
            "log.logger": "kafka.coordinator.group.GroupCoordinator",
        }
        return json.dumps(fields) + "\n"

    def known(number: int) -> str:
        text = _KNOWN[number % len(_KNOWN)].format(
            topic=chance.choice(words[:_TOPICS]), number=number
        )
        return f"[{_TIME}] ERROR {text}\n"

    return {"words": warning, "json words": structured, "known": known}


def measure_explain(directory: Path, size_bytes: int, repeat: int) -> Iterator[Row]:
    """The speed of ``explain`` on each kind of log."""
    kinds = {"warn": _warning, "error": _error, "json": _json, **_words()}
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
