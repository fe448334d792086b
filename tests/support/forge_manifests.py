"""Manifests of logs that never were: made from headers alone, of any size.

The headers are like those that a broker writes for producers with full batches of 16 KiB.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import add, sub
from pathlib import Path

from kdump.copies.manifest.output import Output
from kdump.format.batch import BatchTable
from kdump.format.manifest.blocks import BATCHES, encode_block
from kdump.format.manifest.contents import (
    Contents,
    StoredDirectory,
    StoredRoot,
    encode_contents,
)
from kdump.format.manifest.directories import (
    Content,
    StoredEntry,
    StoredStatus,
    encode_directory,
)
from kdump.format.manifest.indexes import IndexFold, encode_index
from kdump.format.manifest.logs import BlockEntry, StoredLog, encode_log
from kdump.format.manifest.sections import Kind, pack_section

_NOW_MS = 1_790_000_000_000
_WIDTH = BatchTable.WIDTH
_FILE = 0o100644
_DIRECTORY = 0o040755


@dataclass
class Producers:
    """Where the producers of a partition are: the next offset, the time, the next sequences."""

    rng: random.Random
    idempotent: bool
    offset: int = 0
    time_ms: int = _NOW_MS
    count: int = 50

    def __post_init__(self) -> None:
        self.sequences = [self.rng.randrange(2**30) for _ in range(self.count)]

    def batches(self, n: int) -> array[int]:
        """The rows of the next ``n`` batches of a log, from position 0 on."""
        rng = self.rng
        sizes = array("q", (16_384 - low for low in array("H", rng.randbytes(2 * n))))
        sizes = array("q", (size if size > 15_384 else 16_384 - size % 1_000 for size in sizes))
        counts = array("q", (12 + low % 9 for low in rng.randbytes(n)))
        ends = array("q", accumulate(sizes))
        last = array("q", accumulate(counts, initial=self.offset - 1))[1:]
        steps = array("q", (low * low >> 11 for low in rng.randbytes(n)))
        starts = array("q", accumulate(steps, initial=self.time_ms))[1:]
        rows = array("q", bytes(8 * n * _WIDTH))
        crcs = array("I")
        crcs.frombytes(rng.randbytes(4 * n))
        producers = array("q", [-1]) * n
        epochs, sequences = producers, producers
        if self.idempotent:
            producers = array("q", (7_000 + low % self.count for low in rng.randbytes(n)))
            epochs = array("q", bytes(8 * n))
            sequences = array("q", self._sequences(producers, counts))
        columns = (
            array("q", map(sub, ends, sizes)),
            sizes,
            array("q", (end - count + 1 for end, count in zip(last, counts, strict=True))),
            last,
            array("q", [5]) * n,
            array("q", [2]) * n,
            array("q", crcs),
            array("q", [4]) * n,
            starts,
            array("q", map(add, starts, rng.randbytes(n))),
            producers,
            epochs,
            sequences,
            counts,
        )
        for place, column in enumerate(columns):
            rows[place::_WIDTH] = column
        self.offset, self.time_ms = last[-1] + 1, starts[-1]
        return rows

    def _sequences(self, producers: array[int], counts: array[int]) -> Iterator[int]:
        for producer, count in zip(producers, counts, strict=True):
            sequence = self.sequences[producer - 7_000]
            self.sequences[producer - 7_000] = (sequence + count) % 2**31
            yield sequence


def indexes_of(rows: array[int], base_offset: int) -> tuple[bytes, bytes]:
    """The indexes that a broker writes for batches that are each larger than the interval."""
    table = BatchTable(memoryview(rows))
    offsets, times = bytearray(), bytearray()
    newest = max(rows[9], -1)
    newest_offset = rows[3]
    fields = zip(
        table.column("position"), table.column("last_offset"), table.column("max_timestamp"),
        strict=True,
    )  # fmt: skip
    last_time = -1
    for number, (position, offset, time) in enumerate(fields):
        if time > newest:
            newest, newest_offset = time, offset
        if number:
            offsets += struct.pack(">ii", offset - base_offset, position)
            if newest > last_time:
                times += struct.pack(">qi", newest, newest_offset - base_offset)
                last_time = newest
    return bytes(offsets), bytes(times)


def forge(
    file: Path, partitions: int, segments: int, batches: int, *, idempotent: bool, seed: int = 1
) -> int:
    """Write a manifest of a stopped log directory; return the bytes of its logs."""
    rng = random.Random(seed)
    total = inode = 0
    directories = []
    with file.open("wb") as stream:
        output = Output(stream)
        for partition in range(partitions):
            producers = Producers(rng, idempotent)
            entries = []
            for _ in range(segments):
                base = producers.offset
                rows = producers.batches(batches)
                inode += 3
                found, size = _segment(output, rows, base, inode)
                entries += found
                total += size
            section = output.put(Kind.DIRECTORY, encode_directory(entries))
            path = f"logs/big-{partition}".encode()
            directories.append(StoredDirectory(path, _status(_DIRECTORY, 0, inode + 1), section))
        checkpoint = b"0\n0\n"
        top = [
            StoredEntry(
                b"recovery-point-offset-checkpoint",
                _status(_FILE, len(checkpoint), 1),
                Content.DATA,
                output.put(Kind.DATA, checkpoint),
            )
        ]
        section = output.put(Kind.DIRECTORY, encode_directory(top))
        directories.append(StoredDirectory(b"logs", _status(_DIRECTORY, 0, 2), section))
        root = StoredRoot(b"logs", "stopped", "it never ran")
        now = _NOW_MS * 1_000_000
        contents = Contents(now, now, False, "a test", b"/", (root,), tuple(directories))
        output.finish(output.put(Kind.CONTENTS, encode_contents(contents)))
    return total


def _segment(
    output: Output, rows: array[int], base: int, inode: int
) -> tuple[list[StoredEntry], int]:
    table = BatchTable(memoryview(rows))
    blocks = []
    start = 0
    data = indexes_of(rows, base)
    folds = [IndexFold(data[times], base, times=bool(times)) for times in range(2)]
    for first in range(0, len(table), BATCHES):
        part = table.part(first, min(first + BATCHES, len(table)))
        payload = encode_block(part.rows, (), array("q"), b"")
        section = output.add(pack_section(Kind.BLOCK, payload, compressed=False))
        blocks.append(BlockEntry(start, part.end, len(part), section, bytes(16)))
        start = part.end
        for fold in folds:
            fold.add(part.rows)
    log = output.put(Kind.LOG, encode_log(StoredLog(table.end, True, bytes(16), tuple(blocks), ())))
    entries = [
        StoredEntry(f"{base:020d}.log".encode(), _status(_FILE, table.end, inode), Content.LOG, log)
    ]
    for times, extension in enumerate(("index", "timeindex")):
        stored = folds[times].finish(log)
        assert stored is not None
        section = output.put(Kind.INDEX, encode_index(stored))
        status = _status(_FILE, len(data[times]), inode + 1 + times)
        name = f"{base:020d}.{extension}".encode()
        entries.append(StoredEntry(name, status, Content.INDEX, section))
    return entries, table.end


def _status(mode: int, size: int, inode: int) -> StoredStatus:
    return StoredStatus(mode, 0, 0, inode, size, _NOW_MS * 1_000_000)
