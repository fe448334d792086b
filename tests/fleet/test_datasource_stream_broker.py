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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

from brokers.broker import Broker
from brokers.churn import SETTINGS
from brokers.programs import command
from support.consumer_records import as_bytes
from support.served import COMMITTED, read_all

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from fleet.stream_batches import ALL, Stream
from kdump.fleet.source.columns import KAFKA
from kdump.fleet.source.stream import StreamReader
from kdump.format.snapshot import NO_PRODUCERS, decode_snapshot

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.spark]

#: How often the query is killed at most, and the time for it.
KILLS = int(os.environ.get("KDUMP_STREAM_KILLS", "50"))
SECONDS = int(os.environ.get("KDUMP_STREAM_SECONDS", "480"))
QUERY = Path(__file__).parents[1] / "support/stream_query.py"
_SLOWEST_S = 600
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
        return next_offsets(
            max(files, key=lambda file: int(file.name)).read_text().splitlines()[-1]
        )

    def _count(self, name: str) -> int:
        folder = self.work / name
        if not folder.exists():
            return 0
        return max(
            (int(file.stem) + 1 for file in folder.iterdir() if file.stem.isdigit()), default=0
        )


def next_offsets(text: str) -> dict[str, int]:
    """The next offset of each partition in the offset of a checkpoint."""
    return {
        f"{topic}-{number}": value[1] if isinstance(value, list) else value
        for topic, ids in json.loads(text)["offsets"].items()
        for numbers in ids.values()
        for number, value in numbers.items()
    }


def stable_ends(top: Path) -> dict[str, set[int]]:
    """Where the active segment begins in each copy, or a transaction that is open there."""
    found: dict[str, set[int]] = defaultdict(set)
    for path in top.glob("broker-*/writing-*"):
        active = max(int(file.stem) for file in path.glob("*.log"))
        after = path / f"{active:020d}.snapshot"
        producers = decode_snapshot(after.read_bytes()) if active else NO_PRODUCERS
        found[path.name].add(min([active, *producers.open_transactions()]))
    return found


@contextmanager
def two_brokers(top: Path) -> Iterator[tuple[Broker, Writer, Callable[[], None]]]:
    """A broker, what writes to it, and how a second one joins it; both in ``top``."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker("4.3.1", top / "broker-1", SETTINGS, heap="400m"))
        writer = stack.enter_context(Writer(broker))
        while not list(top.glob("broker-1/writing-*")):
            time.sleep(0.1)

        def join() -> None:
            second = Broker("4.3.1", top / "broker-2", SETTINGS, joins=broker, heap="400m")
            stack.enter_context(second)

        yield broker, writer, join


def check(
    top: Path, broker: Broker, found: Mapping[str, Sequence[Row]], ends: Mapping[str, int]
) -> int:
    """Compare what a stream gave with what a consumer reads up to there; return their number."""
    stable, count = stable_ends(top), 0
    consumed = read_all(broker, sorted(stable), top / "consumed", COMMITTED)
    for name, expected_ends in stable.items():
        topic, _, number = name.rpartition("-")
        next_offset = ends.get(name, 0)
        assert min(expected_ends) <= next_offset <= max(expected_ends), name
        expected = [
            (topic, int(number), offset, digest(as_bytes(line, "value")))
            for offset, line in sorted(consumed[name].items())
            if offset < next_offset
        ]
        assert list(found.get(name, ())) == expected, name
        count += len(expected)
    assert count > 300
    return count


def test_no_record_twice_or_missing_however_often_it_is_killed(tmp_path: Path) -> None:
    """Against a consumer of committed records; topics, and a broker with its copies, join."""
    chance, kills, amid = random.Random(27), 0, 0
    query = Query(f"{tmp_path}/broker-*", tmp_path / "work")
    end = time.monotonic() + SECONDS
    with two_brokers(tmp_path) as (broker, writer, join):
        while kills < KILLS and time.monotonic() < end:
            amid += query.killed(chance)
            kills += 1
            if kills == 1:
                join()
        writer.finish()
        time.sleep(3)  # until the checkpoints have the last high watermarks
        query.finish()
        found: dict[str, list[Row]] = defaultdict(list)
        for row in query.rows():
            found[f"{row[0]}-{row[1]}"].append(row)
        count = check(tmp_path, broker, found, query.next_offsets())
    assert not (query.work / "differs").exists()
    print(f"{count} records, killed {kills} times, {amid} of these amid a batch")
    assert kills >= min(KILLS, 3)


def test_every_batch_starts_from_the_checkpoint_alone(tmp_path: Path) -> None:
    """Without Spark, so that there are more of them; some run again, and give the same."""
    chance, batches, again = random.Random(28), 0, 0
    columns = pa.schema([KAFKA.field(name) for name in ("topic", "partition", "offset", "value")])
    stream = Stream(f"{tmp_path}/broker-*", schema="kafka", subscribePattern="^writing")
    stream.columns = columns
    found: dict[str, list[Row]] = defaultdict(list)

    def add(limit: ReadLimit) -> None:
        nonlocal again
        start = stream.checkpoint
        got = tables(*stream.plan(limit))
        if start and chance.random() < 0.2:
            before, after = json.loads(start), json.loads(stream.checkpoint)
            reader = stream.reader()
            assert tables(reader, reader.partitions(before, after)) == got
            again += 1
        for row in got:
            topic, number, offset, value = row.values()
            found[f"{topic}-{number}"].append((topic, number, offset, digest(value)))

    end = time.monotonic() + SECONDS / 4
    with two_brokers(tmp_path) as (broker, writer, join):
        # A slow broker needs more time until it has sealed something.
        while time.monotonic() < end or len(list(tmp_path.glob("broker-*/writing-*/*.log"))) < 20:
            add(chance.choice([ALL, ReadMaxRows(chance.randint(1, 500)), ReadMaxBytes(60_000)]))
            batches += 1
            if batches == 20:
                join()
        writer.finish()
        time.sleep(3)
        add(ALL)
        count = check(tmp_path, broker, found, next_offsets(stream.checkpoint))
    print(f"{count} records in {batches} batches, {again} of these again")


def tables(reader: StreamReader, tasks: Sequence[InputPartition]) -> list[dict[str, Any]]:
    """The rows of a batch."""
    return [row for task in tasks for table in reader.read(task) for row in table.to_pylist()]


def digest(value: bytes | None) -> str | None:
    return None if value is None else sha256(value).hexdigest()
