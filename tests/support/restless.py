"""A partition that is changed all the time, in ways that leave sound content at every moment.

It does what brokers do and what people do behind their backs: appends, rolls, cleans, merges,
splits, truncates, deletes. Imports nothing of kdump.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support import forge

EACH = 10  # offsets of a batch
MOST = 40  # batches of a segment
_PAUSE_SECONDS = 0.003


@contextmanager
def changing(log_directory: Path, seed: int) -> Iterator[None]:
    """Has a process change the partition ``restless-0`` while the block runs."""
    partition = _Partition(log_directory / "restless-0", random.Random(seed))
    partition.begin()
    pid = os.fork()
    if pid == 0:
        status = 1
        with suppress(KeyboardInterrupt):
            while os.getppid() != 1:
                partition.change()
        os._exit(status)
    try:
        yield
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the process that changes files has ended"
    finally:
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


class _Partition:
    """``segments`` has the numbers of the batches in each segment, by the number of its first."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self.chance = chance
        self.segments: dict[int, list[int]] = {}
        self.values = [chance.randbytes(20_000) for _ in range(5)]

    def begin(self) -> None:
        """Make the partition anew, whole from the first moment on."""
        self.segments = {0: [], MOST: [], 2 * MOST: []}
        building = self.path.parent.parent / "building"  # no name for a log directory
        building.mkdir()
        (building / "leader-epoch-checkpoint").write_bytes(forge.checkpoint([(0, 0)]))
        (building / "partition.metadata").write_bytes(forge.partition_metadata())
        for first, batches in self.segments.items():
            batches += range(first, first + MOST)
            self._create(first, building)
        building.rename(self.path)

    def change(self) -> None:
        """One change, and a moment of peace."""
        changes = (self._append, self._roll, self._merge, self._split, self._retire, self._delete)
        cuts = (self._truncate, self._cut)
        self.chance.choice((*changes, *3 * (*cuts, self._clean)))()
        self._pause()

    # --- what happens at the end of the log

    def _append(self) -> None:
        first, batches = self._last()
        room = first + MOST - (batches[-1] + 1 if batches else first)
        following = range(first + MOST - room, first + MOST)
        with self._log(first).open("ab") as log:
            for number in following[: self.chance.randint(0, 10)]:
                log.write(self._batch(number))
                log.flush()
                batches.append(number)

    def _roll(self) -> None:
        first, batches = self._last()
        if batches and first < 1_000_000:
            self.segments[batches[-1] + 1] = []
            self._create(batches[-1] + 1, self.path)

    def _truncate(self) -> None:
        """As a follower does: later segments go whole, the one that is cut becomes the last."""
        if len(self.segments) > 1 and self.chance.random() < 0.5:
            self._remove(max(self.segments))
        self._shorten(max(self.segments))

    # --- what happens before the end

    def _cut(self) -> None:
        """No broker does that."""
        self._shorten(self._sealed())

    def _clean(self) -> None:
        first = self._sealed()
        behind = min((other for other in self.segments if other > first), default=first + MOST)
        batches = range(first, behind)  # also those that were cut off: somebody brings them back
        kept = sorted(
            self.chance.sample(batches, self.chance.randint(len(batches) // 2, len(batches)))
        )
        self._replace([first], {first: kept})

    def _merge(self) -> None:
        first = self._sealed()
        behind = [other for other in sorted(self.segments) if other > first][:1]
        if behind and behind[0] != max(self.segments):
            merged = self.segments[first] + self.segments[behind[0]]
            self._replace([first, *behind], {first: merged})

    def _split(self) -> None:
        first = self._sealed()
        batches = self.segments[first]
        middle = batches[len(batches) // 2] if len(batches) > 1 else first
        if middle > first:
            parts = {
                first: [number for number in batches if number < middle],
                middle: [number for number in batches if number >= middle],
            }
            self._replace([first], parts)

    def _retire(self) -> None:
        if len(self.segments) > 2:
            self._remove(min(self.segments))

    def _delete(self) -> None:
        """The topic is deleted, and another one of its name created."""
        if self.chance.random() < 0.05 or sum(map(len, self.segments.values())) < MOST:
            doomed = self.path.with_name(f"restless-0.{self.chance.randbytes(16).hex()}-delete")
            self.path.rename(doomed)
            self.begin()
            shutil.rmtree(doomed)

    # --- how

    def _pause(self) -> None:
        time.sleep(self.chance.random() * _PAUSE_SECONDS)

    def _last(self) -> tuple[int, list[int]]:
        first = max(self.segments)
        return first, self.segments[first]

    def _sealed(self) -> int:
        """A segment that is not the last one, if there is one."""
        return self.chance.choice(sorted(self.segments)[:-1] or [max(self.segments)])

    def _shorten(self, first: int) -> None:
        batches = self.segments[first]
        del batches[self.chance.randint(len(batches) // 2, len(batches)) :]
        os.truncate(self._log(first), sum(len(self._batch(number)) for number in batches))

    def _replace(self, old: list[int], new: dict[int, list[int]]) -> None:
        for first, batches in new.items():
            content = b"".join(map(self._batch, batches))
            self._log(first, ".swap").write_bytes(content)
            self._pause()
        for first in old:
            self._log(first).rename(self._log(first, ".deleted"))
        for first in sorted(new, reverse=True):
            for extension in ("index", "timeindex"):
                (self.path / f"{first * EACH:020d}.{extension}").touch()
            self._log(first, ".swap").rename(self._log(first))
            self._pause()
        for first in old:
            del self.segments[first]
            self._log(first, ".deleted").unlink()
        for first in set(old) - set(new):
            self._remove_indexes(first)
        self.segments |= new

    def _create(self, first: int, directory: Path) -> None:
        stem = f"{first * EACH:020d}"
        (directory / f"{stem}.index").touch()
        (directory / f"{stem}.timeindex").touch()
        content = b"".join(map(self._batch, self.segments[first]))
        (directory / f"{stem}.log").write_bytes(content)

    def _remove(self, first: int) -> None:
        del self.segments[first]
        self._log(first).unlink()
        self._remove_indexes(first)

    def _remove_indexes(self, first: int) -> None:
        for extension in ("index", "timeindex"):
            (self.path / f"{first * EACH:020d}.{extension}").unlink()

    def _log(self, first: int, suffix: str = "") -> Path:
        return self.path / f"{first * EACH:020d}.log{suffix}"

    def _batch(self, number: int) -> bytes:
        """Without timestamps and shorter than an index entry is due, so indexes stay empty."""
        value = self.values[number % len(self.values)]
        records = [forge.record(value[: 2_000 + number % 500]) for _ in range(EACH)]
        return forge.batch(number * EACH, records, base_timestamp=-1, max_timestamp=-1)
