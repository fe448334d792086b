"""Manifests of logs that never were: made from headers alone, of any size.

The headers are like those that a broker writes for producers with full batches of 16 KiB.
"""

from __future__ import annotations

import random
import struct
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import add, sub
from pathlib import Path

from xxhash import xxh3_128_digest

from kdump.commands.manifest.output import ManifestOutput
from kdump.format.batch import BatchTable
from kdump.format.kernel.headers import BATCH_FIELDS
from kdump.format.manifest.blocks import BATCHES, encode_block
from kdump.format.manifest.contents import (
    Contents,
    StoredDirectory,
    StoredRoot,
    encode_contents,
)
from kdump.format.manifest.directories import (
    FileContent,
    StoredEntry,
    StoredStatus,
    encode_directory,
)
from kdump.format.manifest.indexes import IndexFold, StoredIndex, encode_index
from kdump.format.manifest.logs import BlockEntry, StoredLog, encode_log
from kdump.format.manifest.sections import SectionKind, pack_section
from kdump.storage.manifests.log import header_bytes
from support.forge import TOPIC_ID

_NOW_MS = 1_790_000_000_000
_WIDTH = BatchTable.WIDTH
_CRC = BATCH_FIELDS.index("crc")
_META = b"version=1\nnode.id=%d\ncluster.id=kdumpTestsOfCopiesAA\n"
_TOPIC = f"version: 0\ntopic_id: {TOPIC_ID}\n".encode()
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


@dataclass(frozen=True)
class _Stored:
    """A segment as sections, but for the references among them.

    ``blocks`` are (section, end, batches, digest), ``indexes`` the offset index and the time index
    with the sizes of their files.
    """

    base: int
    end: int
    size: int
    digest: bytes
    blocks: tuple[tuple[bytes, int, int, bytes], ...]
    indexes: tuple[tuple[StoredIndex, int], ...]


def forge(
    file: Path,
    partitions: int | Sequence[int],
    segments: int,
    batches: int,
    *,
    idempotent: bool,
    seed: int = 1,
    altered: Collection[tuple[int, int]] = (),
    behind: Mapping[int, int] | None = None,
    node: int | None = None,
) -> int:
    """Write a manifest of a stopped log directory; return the bytes of its logs.

    ``partitions`` are their numbers, or how many there are. With a ``node``, it is that of a KRaft
    broker that was stopped cleanly. All partitions hold the same batches, each time as sections of
    their own. The segments that are ``altered``, by partition and number, have another checksum in
    their middle batch. Partitions that lag ``behind`` lack so many of the last segments.
    """
    producers = Producers(random.Random(seed), idempotent)
    content = []
    for _ in range(segments):
        base = producers.offset
        rows = producers.batches(batches)
        content.append((_store(rows, base), _store(_with_other_checksum(rows), base)))
    total = inode = 0
    ends = {}
    directories = []
    with file.open("wb") as stream:
        output = ManifestOutput(stream)
        for partition in range(partitions) if isinstance(partitions, int) else partitions:
            entries = [_data(output, b"leader-epoch-checkpoint", b"0\n1\n5 0\n", 3)]
            if node is not None:
                entries.append(_data(output, b"partition.metadata", _TOPIC, 4))
            ends[partition] = 0
            for number in range(segments - (behind or {}).get(partition, 0)):
                stored = content[number][(partition, number) in altered]
                inode += 3
                entries += _put_segment(output, stored, inode)
                total += stored.size
                ends[partition] = stored.end
            section = output.put(SectionKind.DIRECTORY, encode_directory(entries))
            path = f"logs/big-{partition}".encode()
            directories.append(StoredDirectory(path, _status(_DIRECTORY, 0, inode + 1), section))
        top = list(_top(output, node, ends))
        section = output.put(SectionKind.DIRECTORY, encode_directory(top))
        directories.append(StoredDirectory(b"logs", _status(_DIRECTORY, 0, 2), section))
        root = StoredRoot(b"logs", "stopped", "it never ran")
        now = _NOW_MS * 1_000_000
        contents = Contents(now, now, False, "a test", b"/", (root,), tuple(directories))
        output.finish(output.put(SectionKind.CONTENTS, encode_contents(contents)))
    return total


def _top(
    output: ManifestOutput, node: int | None, ends: Mapping[int, int]
) -> Iterator[StoredEntry]:
    """The files at the top; ``ends`` are the log end offsets of the partitions."""
    if node is None:
        yield _data(output, b"recovery-point-offset-checkpoint", b"0\n0\n", 1)
        return
    lines = [f"big {partition} {end}\n" for partition, end in ends.items()]
    checkpoint = f"0\n{len(lines)}\n{''.join(lines)}".encode()
    yield StoredEntry(b".kafka_cleanshutdown", _status(_FILE, 0, 5))
    yield _data(output, b"meta.properties", _META % node, 6)
    yield _data(output, b"recovery-point-offset-checkpoint", checkpoint, 1)
    yield _data(output, b"replication-offset-checkpoint", checkpoint, 7)


def _with_other_checksum(rows: array[int]) -> array[int]:
    changed = rows[:]
    changed[len(rows) // _WIDTH // 2 * _WIDTH + _CRC] ^= 1
    return changed


def _store(rows: array[int], base: int) -> _Stored:
    table = BatchTable(memoryview(rows))
    blocks = []
    data = indexes_of(rows, base)
    folds = [IndexFold(data[times], base, times=bool(times)) for times in range(2)]
    for first in range(0, len(table), BATCHES):
        part = table.part(first, min(first + BATCHES, len(table)))
        payload = encode_block(part.rows, (), array("q"), b"")
        section = pack_section(SectionKind.BLOCK, payload, compressed=False)
        blocks.append((section, part.end, len(part), _digest(part)))
        for fold in folds:
            fold.add(part.rows)
    indexes = []
    for times, fold in enumerate(folds):
        stored = fold.finish(0)
        assert stored is not None
        indexes.append((stored, len(data[times])))
    end = table[len(table) - 1].last_offset + 1
    return _Stored(base, end, table.end, _digest(table), tuple(blocks), tuple(indexes))


def _digest(table: BatchTable) -> bytes:
    """The digest of the headers, as ``HeaderDigest`` makes it."""
    return xxh3_128_digest(b"".join(map(header_bytes, table)))


def _put_segment(output: ManifestOutput, stored: _Stored, inode: int) -> list[StoredEntry]:
    blocks = []
    start = 0
    for block, end, batches, digest in stored.blocks:
        blocks.append(BlockEntry(start, end, batches, output.add(block), digest))
        start = end
    payload = encode_log(StoredLog(stored.size, True, stored.digest, tuple(blocks), ()))
    log = output.put(SectionKind.LOG, payload)
    name = f"{stored.base:020d}"
    entries = [
        StoredEntry(
            f"{name}.log".encode(), _status(_FILE, stored.size, inode), FileContent.LOG, log
        )
    ]
    for number, (index, size) in enumerate(stored.indexes, 1):
        section = output.put(SectionKind.INDEX, encode_index(replace(index, log=log)))
        status = _status(_FILE, size, inode + number)
        extension = "timeindex" if index.times else "index"
        entries.append(
            StoredEntry(f"{name}.{extension}".encode(), status, FileContent.INDEX, section)
        )
    return entries


def _data(output: ManifestOutput, name: bytes, data: bytes, inode: int) -> StoredEntry:
    section = output.put(SectionKind.DATA, data)
    return StoredEntry(name, _status(_FILE, len(data), inode), FileContent.DATA, section)


def _status(mode: int, size: int, inode: int) -> StoredStatus:
    return StoredStatus(mode, 0, 0, inode, size, _NOW_MS * 1_000_000)
