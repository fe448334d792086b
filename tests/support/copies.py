"""Writes copies of one partition as brokers would hold them: each log is a list of batches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import forge
from support.commands import Ran, kdump
from support.crashing.running import run

TOPIC = "t"


@dataclass(frozen=True)
class Batch:
    """A batch as its leader wrote it, and as all copies of it are."""

    epoch: int
    base: int
    count: int
    seed: int = 0

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.base + self.count

    def data(self) -> bytes:
        """Its bytes."""
        records = [
            forge.record(key=b"k%d" % (self.base + i), value=b"%d" % self.seed * 20)
            for i in range(self.count)
        ]
        return forge.batch(self.base, records, leader_epoch=self.epoch)


Log = Sequence[Batch]


BASE: Log = [Batch(0, 3 * number, 3, number) for number in range(12)]
"""12 batches of 3 records in epoch 0."""


def end(log: Log) -> int:
    """The log end offset."""
    return log[-1].end if log else 0


def shared(log: Log, other: Log) -> int:
    """The number of batches that two logs share from their begin on."""
    pairs = enumerate(zip(log, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(log), len(other)))


def histories(rng: random.Random, epochs: int) -> list[Log]:
    """Three logs after ``epochs`` elections, also unclean ones: any of them may lead next."""
    logs: list[list[Batch]] = [[], [], []]
    for epoch in range(epochs):
        leader = rng.randrange(3)
        for _ in range(rng.randrange(4)):
            count = rng.randrange(1, 4)
            logs[leader].append(Batch(epoch, end(logs[leader]), count, rng.randrange(1 << 30)))
        for follower in range(3):
            if follower != leader and rng.random() < 0.7:
                common = shared(logs[leader], logs[follower])
                fetched = rng.randrange(common, len(logs[leader]) + 1)
                logs[follower] = logs[leader][:fetched]
    return list(logs)


def node(top: Path, number: int) -> Path:
    """A log directory of a broker that was stopped cleanly, to write partitions into."""
    directory = top / f"node{number}"
    directory.mkdir(parents=True)
    (directory / "meta.properties").write_text(
        f"version=1\ncluster.id=kdumpTestsOfCopiesAA\nnode.id={number}\n"
    )
    (directory / ".kafka_cleanshutdown").touch()
    return directory


def write(
    directory: Path,
    log: Log,
    *,
    roll: int = 1000,
    topic_id: str = forge.TOPIC_ID,
    watermark: int | None = None,
) -> Path:
    """Write a log into a log directory: a new segment after ``roll`` batches."""
    segments = {
        log[first].base: [batch.data() for batch in log[first : first + roll]]
        for first in range(0, len(log), roll)
    }
    partition = forge.write_partition(
        directory,
        TOPIC,
        0,
        segments or {0: []},
        files={"partition.metadata": forge.partition_metadata(topic_id)},
    )
    committed = end(log) if watermark is None else watermark
    for name, offset in (
        ("recovery-point-offset-checkpoint", end(log)),
        ("replication-offset-checkpoint", committed),
    ):
        (directory / name).write_text(f"0\n1\n{TOPIC} 0 {offset}\n")
    return partition


def lay_out(top: Path, logs: Sequence[Log], rolls: Sequence[int] = (5, 5, 5)) -> list[Path]:
    """Write a log directory for each log."""
    nodes = [node(top, number) for number in range(len(logs))]
    for directory, log, roll in zip(nodes, logs, rolls, strict=False):
        write(directory, log, roll=roll)
    return nodes


def append(log: Log, epoch: int, count: int, seed: int = 0) -> Log:
    """The log with ``count`` further batches of one record."""
    start = end(log)
    return [*log, *(Batch(epoch, start + i, 1, seed) for i in range(count))]


def damage(rng: random.Random, path: Path) -> None:
    """Do something to a file, at random."""
    data = path.read_bytes()
    place = rng.randrange(len(data) + 1)
    size = rng.choice((1, 8, 61, 200))
    match rng.randrange(7):
        case 0:
            path.unlink()
        case 1:
            path.write_bytes(data[:place])
        case 2:
            path.write_bytes(data[:place] + bytes(size) + data[place + size :])
        case 3:
            path.write_bytes(data[:place] + rng.randbytes(size) + data[place:])
        case 4:
            path.write_bytes(data[:place] + data[place + size :])
        case 5:
            path.write_bytes(data + data[place:])
        case _:
            path.write_bytes(forge.flip(data, rng.randrange(len(data))) if data else b"\xff")


def compare(*paths: Path) -> Ran:
    return kdump("compare", *paths, searching=False)


def partition(ran: Ran) -> dict[str, Any]:
    (line,) = ran.of("partition")
    return line


def truncations(ran: Ran) -> dict[tuple[int, int], int | None]:
    """The offset to which each copy truncates, by leader and copy; counted from 0."""
    return {
        (line["copy"] - 1, cut["copy"] - 1): cut["offset"]
        for line in ran.of("leader")
        for cut in line["truncations"]
    }


def text(*paths: Path) -> str:
    """What ``kdump compare`` says to people."""
    return run(["compare", *map(str, paths)], searching=False).out
