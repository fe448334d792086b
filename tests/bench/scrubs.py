"""Measures ``kdump scrub``: what a second run reads, how it starts, and what producers notice.

Bytes are those that the block devices read for the process, whose logs are not in the page cache.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.commands import kdump, most_pss_mb
from bench.directory import write_sealed
from bench.report import Row
from brokers.broker import Broker

_SECTOR = 512
_MOST_BYTES = 0.02
_MOST_TIME = 0.1
_MOST_SECONDS = 10.0
_MOST_MB = 150.0
_MOST_STATE_MB = 10.0
_MOST_LATENCY = 1.05
#: Windows of load, each without a scrub and with one.
_PAIRS = 12
_WINDOW_SECONDS = 10.0
_START_SECONDS = 3.0
_MESSAGES_A_SECOND = 500


def measure_second_run(directory: Path) -> Iterator[Row]:
    """A directory of 1,000 sealed segments, 2 GB, in batches of 16 kB, scrubbed twice."""
    data, state = directory / "data", directory / "scrub.db"
    write_sealed(data, partitions=1, segments=1000, batches=128, value_bytes=16_000)
    sides = []
    for _ in range(2):
        _leave_page_cache(data)
        read, started = _blocks(), time.monotonic()
        subprocess.run(_scrub(data, state), check=True, stdout=subprocess.DEVNULL)
        sides.append(((_blocks() - read) * _SECTOR, time.monotonic() - started))
    (first, first_seconds), (second, second_seconds) = sides
    yield Row(
        "scrub bytes",
        f"{second / 1e6:.0f} MB",
        f"first run {first / 1e6:.0f} MB",
        second / first,
        most=_MOST_BYTES,
    )
    yield Row(
        "scrub time",
        f"{second_seconds:.1f} s",
        f"first run {first_seconds:.1f} s",
        second_seconds / first_seconds,
        most=_MOST_TIME,
    )


def measure_start(directory: Path) -> Iterator[Row]:
    """16,000 segments of which nothing is due: time, memory, and the size of the state."""
    data, state = directory / "data", directory / "scrub.db"
    write_sealed(data, partitions=16, segments=1000, batches=8, value_bytes=900)
    first = most_pss_mb([*_scrub(data, state), "--limit-rate", "none"])
    started = time.monotonic()
    subprocess.run(_scrub(data, state), check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    what = "16,000 segments"
    yield Row("scrub start", f"{seconds:.1f} s", what, seconds, "s", most=_MOST_SECONDS)
    yield Row("scrub memory", f"{first:.0f} MB", f"{what}, all due", first, "MB", most=_MOST_MB)
    size = state.stat().st_size / 1e6
    yield Row("scrub state", f"{size:.1f} MB", what, size, "MB", most=_MOST_STATE_MB)


def measure_latency(directory: Path) -> Iterator[Row]:
    """The 99th percentile of produce latency, without a scrub and beside one, by turns."""
    data, state = directory / "data", directory / "scrub.db"
    settings = {"log.segment.bytes": str(64 << 20)}
    with Broker("4.3.1", data, settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic("old", 1, 1), NewTopic("new", 1, 1)]).values():
            future.result()
        _fill(broker.bootstrap, 1 << 30)
        _produce(broker.bootstrap)  # until everything is warm
        ratios = []
        for pair in range(_PAIRS):
            without = None if pair % 2 else _produce(broker.bootstrap)
            beside = _beside_scrub(broker.bootstrap, data, state)
            without = without or _produce(broker.bootstrap)
            ratios.append(beside / without)
            print(f"    p99 {without * 1e3:.2f} ms without, {beside * 1e3:.2f} ms beside")
    yield Row(
        "scrub latency",
        f"median of {_PAIRS} pairs",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        median(ratios),
        most=_MOST_LATENCY,
    )


def _scrub(data: Path, state: Path) -> list[str]:
    return kdump("scrub", "--quiet", "--progress", "none", "--state", state, data)


def _blocks() -> int:
    """How many sectors this process's children have read from block devices."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock


def _leave_page_cache(directory: Path) -> None:
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _fill(bootstrap: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1 << 20})
    for _ in range(size_bytes // 100_000):
        producer.produce("old", os.urandom(1000) * 100)
        producer.poll(0)
        if len(producer) > 500:
            producer.flush()
    producer.flush()


def _produce(bootstrap: str) -> float:
    """Produce for a while; the 99th percentile of the time until a message is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    seconds: list[float] = []

    def acknowledge(sent: float, error: KafkaError | None, _: Message) -> None:
        assert error is None, error
        seconds.append(time.monotonic() - sent)

    started = time.monotonic()
    for number in range(int(_WINDOW_SECONDS * _MESSAGES_A_SECOND)):
        while (left := started + number / _MESSAGES_A_SECOND - time.monotonic()) > 0:
            producer.poll(left)
        producer.produce("new", b"x" * 1000, on_delivery=partial(acknowledge, time.monotonic()))
    producer.flush()
    return quantiles(seconds, n=100)[98]


def _beside_scrub(bootstrap: str, data: Path, state: Path) -> float:
    """The same beside a run that reads all of the logs, with the priority that the examples have.

    The load begins when the run reads: it takes a second to start, and then reads for hours.
    """
    command: Sequence[str] = ("nice", "-n", "19", *_scrub(data, state), "--max-age", "0s")
    scrub = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(_START_SECONDS)
        return _produce(bootstrap)
    finally:
        if scrub.poll() is not None:
            raise RuntimeError("expected a scrub as long as the load, found one that ended before")
        scrub.terminate()
        scrub.wait()
