"""Copies of a partition, each with other damage, and the log that all of them once had.

A generator that knows everything: which batch is where, and which copy has it still. Imports
nothing of kdump.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support import forge

#: The damages, by how often they come.
KINDS = ("flip", "flip", "flip", "size", "zeros", "zeros", "torn", "gone", "index", "no index")
FILES = (".log", ".index", ".timeindex")


@dataclass(frozen=True)
class Log:
    """The batches of a partition by segment."""

    segments: Mapping[int, Sequence[bytes]]

    @property
    def batches(self) -> dict[int, bytes]:
        """All batches by base offset."""
        return {base_of(data): data for each in self.segments.values() for data in each}

    @property
    def end(self) -> int:
        """The log end offset."""
        return last_of(list(self.batches.values())[-1]) + 1

    def segment_of(self, base: int) -> int:
        """The base offset of the segment of a batch."""
        return max(each for each in self.segments if each <= base)

    def with_other_borders(self, rng: random.Random) -> Log:
        """The same batches in other segments."""
        split: dict[int, list[bytes]] = {}
        base = min(self.segments)
        for number, (offset, data) in enumerate(self.batches.items()):
            if number == 0 or rng.random() < 0.15:
                base = offset
            split.setdefault(base, []).append(data)
        return Log(split)


@dataclass
class Copy:
    """A copy of ``log`` with damage: the bytes of its logs by base offset, and its index files."""

    log: Log
    logs: dict[int, bytes]
    files: dict[str, bytes | None] = field(default_factory=dict)

    def has(self) -> set[int]:
        """The base offsets of the batches that are where they were, whole."""
        found = set()
        for base, batches in self.log.segments.items():
            position = 0
            for data in batches:
                if self.logs.get(base, b"")[position : position + len(data)] == data:
                    found.add(base_of(data))
                position += len(data)
        return found

    def surely_has(self) -> set[int]:
        """Those of them that the sizes before lead to: others are looked for, by what they are."""
        found = set()
        for base, batches in self.log.segments.items():
            position, data = 0, self.logs.get(base, b"")
            for batch in batches:
                if data[position + 8 : position + 12] != batch[8:12]:
                    break
                if data[position : position + len(batch)] == batch:
                    found.add(base_of(batch))
                position += len(batch)
        return found

    def behind(self, base: int) -> tuple[list[int], list[int]]:
        """The whole batches behind that of ``base`` in its segment, and the first of the next."""
        sound, segment = self.has(), self.log.segment_of(base)
        inside = [base_of(data) for data in self.log.segments[segment]]
        following = [each for each in self.log.segments if each > segment][:1]
        return [each for each in inside if each > base and each in sound], [
            each for each in following if each in sound
        ]

    def leads(self, base: int, other: int) -> bool:
        """Whether sizes lead from one batch to another that is behind it, both of them whole."""
        first, last = self.log.segment_of(base), self.log.segment_of(other)
        whole = all(
            len(self.logs.get(each, b"")) == sum(map(len, batches))
            for each, batches in self.log.segments.items()
            if first <= each < last
        )
        return whole and {base, other} <= self.surely_has()

    def write(self, directory: Path, files: Mapping[str, bytes | None]) -> Path:
        """Write it as ``orders-0`` below ``directory``, and return that."""
        segments = {base: self.log.segments[base] for base in self.logs}
        logs = {f"{base:020d}.log": data for base, data in self.logs.items()}
        return forge.write_partition(
            directory, "orders", 0, segments, files={**files, **logs, **self.files}
        )


def base_of(data: bytes) -> int:
    """The base offset of a batch."""
    (base,) = struct.unpack_from(">q", data)
    return int(base)


def last_of(data: bytes) -> int:
    """The last offset of a batch."""
    (delta,) = struct.unpack_from(">i", data, 23)
    return base_of(data) + int(delta)


def epoch_of(data: bytes) -> int:
    """The leader epoch of a batch."""
    (epoch,) = struct.unpack_from(">i", data, 12)
    return int(epoch)


def random_log(rng: random.Random) -> Log:
    """A log of several segments and leader epochs; some values hold batches themselves."""
    segments: dict[int, list[bytes]] = {}
    offset, epoch = 0, rng.randrange(3)
    for _ in range(rng.randrange(2, 6)):
        base = offset
        for _ in range(rng.randrange(3, 14)):
            if rng.random() < 0.1:
                epoch += rng.randrange(1, 3)
            data = _batch(rng, offset, epoch)
            segments.setdefault(base, []).append(data)
            offset = last_of(data) + 1
    return Log(segments)


def parted_log(log: Log, rng: random.Random) -> tuple[Log, Log]:
    """The log with even leader epochs only, and another one that parts from it.

    They part where an epoch of the first begins: the second goes on in the epoch before, and then
    in odd ones.
    """
    even = Log(
        {
            base: [_with_epoch(data, 2 * epoch_of(data)) for data in each]
            for base, each in log.segments.items()
        }
    )
    batches = list(even.batches.values())
    starts = [
        number
        for number in range(1, len(batches))
        if epoch_of(batches[number]) != epoch_of(batches[number - 1])
    ]
    cut = rng.choice(starts) if starts else len(batches)
    shared, epoch = batches[:cut], epoch_of(batches[cut - 1])
    for _ in range(rng.randrange(1, 30)):
        if rng.random() < 0.2:
            epoch += 2 - (epoch + 1) % 2
        shared.append(_batch(rng, last_of(shared[-1]) + 1, epoch))
    return even, Log({0: shared}).with_other_borders(rng)


def _batch(rng: random.Random, offset: int, epoch: int) -> bytes:
    values = [_value(rng, offset) for _ in range(rng.randrange(1, 6))]
    return forge.batch(
        offset,
        [forge.record(value, b"key") for value in values],
        codec=rng.choice(("none", "none", "none", "zstd")),
        base_timestamp=forge.TIMESTAMP + offset,
        leader_epoch=epoch,
    )


def _with_epoch(data: bytes, epoch: int) -> bytes:
    """The batch with another leader epoch, which no checksum covers."""
    return data[:12] + struct.pack(">i", epoch) + data[16:]


def _value(rng: random.Random, offset: int) -> bytes:
    if rng.random() < 0.05:
        return b"".join(forge.batch(offset + 1 + each, [forge.record(b"in")]) for each in range(2))
    return rng.randbytes(rng.randrange(300))


def damaged_copy(log: Log, rng: random.Random, count: int, *, covered: bool = False) -> Copy:
    """A copy with ``count`` damages; at least one of its logs stays.

    ``covered``: bits are flipped only where checksums cover them.
    """
    copy = Copy(log, {base: b"".join(batches) for base, batches in log.segments.items()})
    for _ in range(count):
        _damage(copy, rng.choice(KINDS), rng, covered=covered)
    return copy


def _damage(copy: Copy, kind: str, rng: random.Random, *, covered: bool) -> None:
    base = rng.choice(list(copy.logs))
    data = copy.logs[base]
    if kind == "index":
        copy.files[f"{base:020d}.index"] = rng.randbytes(8 * rng.randrange(1, 9))
    elif kind == "no index":
        copy.files[f"{base:020d}{rng.choice(FILES[1:])}"] = None
    elif kind == "torn":
        base = max(copy.logs) if rng.random() < 0.7 else base
        data = copy.logs[base]
        copy.logs[base] = data[: rng.randrange(1, len(data) + 1)] if data else data
    elif kind == "gone":
        if len(copy.logs) > 1:
            del copy.logs[base]
            copy.files |= {f"{base:020d}{suffix}": None for suffix in FILES}
    elif not data:
        return
    elif kind == "flip":
        at = rng.randrange(len(data))
        start = max(each for each in _starts(copy.log.segments[base]) if each <= at)
        if not (covered and (at - start < 8 or 12 <= at - start < 17)):
            copy.logs[base] = forge.flip(data, at, 1 << rng.randrange(8))
    elif kind == "size":
        starts = [at for at in _starts(copy.log.segments[base]) if at + 12 <= len(data)]
        at = rng.choice(starts) + 8
        copy.logs[base] = data[:at] + struct.pack(">i", rng.randrange(1 << 20)) + data[at + 4 :]
    else:
        at, size = rng.randrange(len(data)), rng.randrange(1, 2000)
        end = min(at + size, len(data))
        copy.logs[base] = data[:at] + bytes(end - at) + data[end:]


def _starts(batches: Sequence[bytes]) -> Iterator[int]:
    position = 0
    for data in batches:
        yield position
        position += len(data)


def epoch_file(log: Log) -> bytes:
    """The leader-epoch-checkpoint of the whole log."""
    return forge.checkpoint(forge.epoch_rows(log.batches.values()))
