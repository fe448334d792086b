"""Several losses in the logs of a partition, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from support.forge import flip
from support.memory import batches

#: Partitions that were never compacted, of two segments and more.
NAMES: Final = (
    "codec-gzip-0",
    "codec-lz4-0",
    "codec-none-0",
    "codec-snappy-0",
    "codec-zstd-0",
    "idempotent-0",
    "log-append-time-0",
    "preallocated-0",
    "transactions-0",
)
#: The bytes of a header, which hold its offsets: without these nobody knows how many are lost.
HEADER: Final = 61


class Place(NamedTuple):
    """A batch in a log."""

    position: int
    size: int
    base: int
    last: int

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def offsets(self) -> set[int]:
        return set(range(self.base, self.last + 1))


def places(log: Path) -> list[Place]:
    return [
        Place(each.position, each.size, each.base_offset, each.last_offset)
        for each in batches(log.read_bytes(), int(log.stem))
    ]


class Losses:
    """Damages logs of a partition at random; ``lost`` are the offsets that nobody can read then.

    ``zeros`` follow a log: an error after a clean stop, even if nothing is lost.
    """

    def __init__(self, seed: int, partition: Path) -> None:
        self.rng = random.Random(seed)
        self.endings = random.Random(f"{seed} endings")
        self.zeros = False
        self.logs = sorted(partition.glob("*.log"))
        self.lost: set[int] = set()
        for log, following in zip(self.logs, [*self.logs[1:], None], strict=True):
            self.damage(log, following)

    def damage(self, log: Path, following: Path | None) -> None:
        if following is not None and log != self.logs[0] and self.rng.random() < 0.2:
            for path in log.parent.glob(f"{log.stem}.*"):
                path.unlink()
            self.lost |= set(range(int(log.stem), int(following.stem)))
            return
        ways: list[Callable[[bytes, list[Place]], bytes]]
        ways = [self.corrupted, self.corrupted, self.zeroed, self.without]
        data, found = log.read_bytes(), places(log)
        for way in self.rng.sample(ways, self.rng.randrange(3)):
            data = way(data, found)
        if len(found) > 1 and self.rng.random() < 0.3:
            cut = self.rng.choice(found[1:])
            end = found[-1].last + 1 if following is None else int(following.stem)
            data = data[: cut.position]
            self.lost |= set(range(cut.base, end))
        log.write_bytes(self.ended(data, found, following))

    def ended(self, data: bytes, found: list[Place], following: Path | None) -> bytes:
        """Let the log end inside a batch, with zeros after its last batch, or with both."""
        whole = [place for place in found if place.end <= len(data) and data[place.position + 16]]
        if len(whole) > 1 and self.endings.random() < 0.2:
            cut = self.endings.choice(whole[1:])
            # Zeros must not make it whole again.
            tail = len(data[: cut.end].rstrip(b"\0"))
            data = data[: self.endings.randrange(cut.position + HEADER, tail)]
            end = found[-1].last + 1 if following is None else int(following.stem)
            self.lost |= set(range(cut.base, end))
        if self.endings.random() < 0.2:
            data += bytes(self.endings.randrange(1, 4000))
            self.zeros = True
        return data

    def corrupted(self, data: bytes, found: list[Place]) -> bytes:
        place = self.rng.choice(found)
        self.lost |= place.offsets
        return flip(data, place.position + self.rng.randrange(HEADER, place.size))

    def zeroed(self, data: bytes, found: list[Place]) -> bytes:
        place = self.rng.choice(found)
        self.lost |= place.offsets
        return data[: place.position] + bytes(place.size) + data[place.end :]

    def without(self, data: bytes, found: list[Place]) -> bytes:
        """Without a batch amid the others, which are then nearer to the start."""
        place = self.rng.choice(found)
        if place in (found[0], found[-1]):
            return data
        self.lost |= place.offsets
        found.remove(place)
        found[:] = [
            each._replace(position=each.position - place.size) if each > place else each
            for each in found
        ]
        return data[: place.position] + data[place.end :]
