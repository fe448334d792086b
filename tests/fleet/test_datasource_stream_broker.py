"""A streaming query beside a writing broker, killed and started again: each record once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Self

import pytest
from brokers.broker import Broker
from brokers.churn import SETTINGS
from brokers.programs import command
from consumer_records import as_bytes
from served import COMMITTED, read_all

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.spark]

#: How often the query is killed at most, and the time for it.
KILLS = int(os.environ.get("KDUMP_STREAM_KILLS", "50"))
SECONDS = int(os.environ.get("KDUMP_STREAM_SECONDS", "480"))
QUERY = Path(__file__).parents[1] / "support/stream_query.py"
_SLOWEST_S = 300
#: A topic, a partition, an offset and the digest of a value.
Row = tuple[str, int, int, str | None]


class Writer:
    """What writes to topics of ``broker``, from the start of the block to its end."""

    def __init__(self, broker: Broker) -> None:
        arguments = (broker.bootstrap, "5", "internal.segment.bytes")
        self._command = command(broker.version, "Writing", *arguments)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def finish(self) -> None:
        """End all transactions, and stop."""
        assert self._process.poll() is None
        self._process.communicate(b"\n", timeout=_SLOWEST_S)
        assert self._process.returncode == 0


class Query:
    """The query on ``path``, with its checkpoint and what it wrote in ``work``."""

    def __init__(self, path: str, work: Path) -> None:
        self.work = work
        self._command = [sys.executable, "-P", str(QUERY), path, str(work)]

    def killed(self, chance: random.Random) -> bool:
        """Start it, and kill it with all its processes; return whether that was amid a batch."""
        logged, written = self._count("checkpoint/offsets"), self._count("batches")
        process = subprocess.Popen([*self._command, "always"], start_new_session=True)
        try:
            end = time.monotonic() + _SLOWEST_S
            more = chance.randrange(1, 4)
            while self._count("checkpoint/offsets") < logged + more:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
            time.sleep(chance.choice([0, chance.random(), 2 * chance.random()]))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self._count("batches") - written < self._count("checkpoint/offsets") - logged

    def finish(self) -> None:
        """Read what is available now."""
        subprocess.run([*self._command, "now"], check=True, timeout=_SLOWEST_S)

    def rows(self) -> list[Row]:
        """What it wrote, in the order of batches, and of each partition in a batch."""
        files = sorted((self.work / "batches").glob("*.json"), key=lambda file: int(file.stem))
        return [tuple(row) for file in files for row in json.loads(file.read_text())]

    def next_offsets(self) -> dict[str, int]:
        """The next offset of each partition, by the last entry of the checkpoint."""
        files = [
            file for file in (self.work / "checkpoint/offsets").iterdir() if file.name.isdigit()
        ]
        text = max(files, key=lambda file: int(file.name)).read_text().splitlines()[-1]
        return {
            f"{topic}-{number}": value[1] if isinstance(value, list) else value
            for topic, ids in json.loads(text)["offsets"].items()
            for numbers in ids.values()
            for number, value in numbers.items()
        }

    def _count(self, name: str) -> int:
        folder = self.work / name
        if not folder.exists():
            return 0
        return max(
            (int(file.stem) + 1 for file in folder.iterdir() if file.stem.isdigit()), default=0
        )


def active_bases(top: Path) -> dict[str, set[int]]:
    """The base offset of the active segment in each copy of each partition."""
    found: dict[str, set[int]] = defaultdict(set)
    for path in top.glob("broker-*/writing-*"):
        found[path.name].add(max(int(file.stem) for file in path.glob("*.log")))
    return found


def test_no_record_twice_or_missing_however_often_it_is_killed(tmp_path: Path) -> None:
    """Against a consumer of committed records; topics, and a broker with its copies, join."""
    chance, kills, amid = random.Random(27), 0, 0
    query = Query(f"{tmp_path}/broker-*", tmp_path / "work")
    first, second = tmp_path / "broker-1", tmp_path / "broker-2"
    with ExitStack() as stack:
        broker = stack.enter_context(Broker("4.3.1", first, SETTINGS, heap="400m"))
        writer = stack.enter_context(Writer(broker))
        end = time.monotonic() + SECONDS
        while not list(first.glob("writing-*")):
            time.sleep(0.1)
        while kills < KILLS and time.monotonic() < end:
            amid += query.killed(chance)
            kills += 1
            if kills == 1:
                joining = Broker("4.3.1", second, SETTINGS, joins=broker, heap="400m")
                stack.enter_context(joining)
        writer.finish()
        time.sleep(3)  # until the checkpoints have the last high watermarks
        query.finish()
        bases = active_bases(tmp_path)
        consumed = read_all(broker, sorted(bases), tmp_path / "consumed", COMMITTED)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in query.rows():
        found[f"{row[0]}-{row[1]}"].append(row)
    ends, count = query.next_offsets(), 0
    for name, active in bases.items():
        topic, _, number = name.rpartition("-")
        next_offset = ends.get(name, 0)
        assert min(active) <= next_offset <= max(active), name
        expected = [
            (topic, int(number), offset, digest(as_bytes(line, "value")))
            for offset, line in sorted(consumed[name].items())
            if offset < next_offset
        ]
        assert found[name] == expected, name
        count += len(expected)
    assert not (query.work / "differs").exists()
    print(f"{count} records of {len(bases)} partitions, killed {kills} times, {amid} amid a batch")
    assert kills >= min(KILLS, 3)
    assert count > 1000


def digest(value: bytes | None) -> str | None:
    return None if value is None else sha256(value).hexdigest()
