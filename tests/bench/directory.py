"""Makes and measures a log directory of thousands of partitions, as one broker may have it.

Spec: the files that a broker of 3.9 with ZooKeeper, which has no metadata log, leaves when it is
stopped cleanly; KOD 1 and 2.
"""

from __future__ import annotations

import base64
import random
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import limits
from bench.commands import kdump, most_pss_mb
from bench.report import Row
from bench.segments import KIB, Made, Shape, write
from bench.timing import best, process
from kdump.format.batch import BatchTable
from kdump.format.checkpoint import EpochEntry, OffsetEntry, encode_epochs, encode_offsets
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.snapshot import encode_snapshot
from kdump.storage.access import open_source
from kdump.storage.names import (
    CLEAN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from kdump.storage.walk import walk
from support.forge import (
    batch,
    checkpoint,
    epoch_rows,
    index_entries,
    offset_index,
    partition_metadata,
    record,
    time_index,
)

PARTITIONS = 4_000
_SEGMENTS = 4
_SEGMENT_BYTES = 128 * KIB
_QUICK_SECONDS = 10.0
_QUICK_SHARE = 1 / 3
#: Partitions, and segments of each.
_LARGE = 1_000, 16
_TIMES_LIMIT = 1.2
_SEGMENT_SECONDS = 300e-6
_PSS_MB = 300.0
_BASE_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class _Segment:
    """The files of one segment, by the endings of their names."""

    base_offset: int
    files: dict[str, bytes]


def make(
    directory: Path,
    partitions: int = PARTITIONS,
    segments_each: int = _SEGMENTS,
    segment_bytes: int = _SEGMENT_BYTES,
) -> list[Path]:
    """Write a log directory to ``directory``, stopped cleanly; returns the paths of its logs."""
    rng = random.Random(partitions)
    segments = _segments(directory / "stock", segments_each, segment_bytes)
    end = segments[-1].base_offset
    logs = []
    names = [(f"topic-{number // 8:04d}", number % 8) for number in range(partitions)]
    for topic, partition in names:
        path = directory / f"{topic}-{partition}"
        path.mkdir()
        for segment in segments[:-1]:
            stem = path / f"{segment.base_offset:020d}"
            for suffix, data in segment.files.items():
                stem.with_suffix(suffix).write_bytes(data)
            logs.append(stem.with_suffix(".log"))
        (path / f"{end:020d}.snapshot").write_bytes(encode_snapshot([]))
        (path / LEADER_EPOCH_CHECKPOINT).write_bytes(encode_epochs([EpochEntry(3, 0)]))
        topic_id = base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
        (path / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {topic_id}")
    lines = encode_offsets([OffsetEntry(topic, partition, end) for topic, partition in names])
    (directory / RECOVERY_POINT_CHECKPOINT).write_bytes(lines)
    (directory / HIGH_WATERMARK_CHECKPOINT).write_bytes(lines)
    mark(directory)
    (directory / CLEAN_MARKER).write_text('{"version":0,"brokerEpoch":7}')
    return logs


def write_sealed(
    top: Path, *, partitions: int, segments: int, batches: int, value_bytes: int, node: int = 1
) -> None:
    """A log directory whose segments hold the same batches at other offsets."""
    top.mkdir()
    (top / META_PROPERTIES).write_text(f"version=0\nbroker.id={node}\ncluster.id=bench\n")
    stock = [batch(offset, [record(b"x" * value_bytes)]) for offset in range(batches)]
    offsets, times = index_entries(stock, 0, 4096)
    for number in range(partitions):
        directory = top / f"topic-{number}"
        directory.mkdir()
        (directory / "partition.metadata").write_bytes(partition_metadata())
        (directory / "leader-epoch-checkpoint").write_bytes(checkpoint(epoch_rows(stock)))
        for base in range(0, segments * batches, batches):
            (directory / f"{base:020}.log").write_bytes(
                b"".join(
                    _BASE_OFFSET.pack(base + at) + data[_BASE_OFFSET.size :]
                    for at, data in enumerate(stock)
                )
            )
            (directory / f"{base:020}.index").write_bytes(offset_index(offsets))
            (directory / f"{base:020}.timeindex").write_bytes(time_index(times))


def mark(directory: Path) -> None:
    """Make it a log directory: that is told by a broker's file at its top."""
    (directory / META_PROPERTIES).write_text("version=0\nbroker.id=1\ncluster.id=bench\n")


def measure_quick(directory: Path) -> Row:
    """``verify --quick`` of it all."""
    logs = make(directory)
    (took,) = best(2, process(kdump("verify", "--quick", directory)))
    return Row("directory quick", f"{took:.2f} s", _size(logs), took, "s", most=_QUICK_SECONDS)


def measure_quick_share(directory: Path) -> Row:
    """``verify --quick`` beside ``verify``, of partitions that are larger than 1 MiB.

    ``verify`` reads smaller ones whole at once, which takes as long as to open their files.
    """
    logs = make(directory, *_LARGE)
    quick, default = best(
        2, process(kdump("verify", "--quick", directory)), process(kdump("verify", directory))
    )
    against = f"verify of {_size(logs)} {default:.2f} s"
    return Row("directory share", f"{quick:.2f} s", against, quick / default, most=_QUICK_SHARE)


def measure_default(directory: Path) -> Row:
    """``verify``, beside the checksums of its bytes and some microseconds a segment."""
    logs = make(directory)

    def checksums() -> None:
        for log in logs:
            limits.checksum(log)

    ours, limit = best(2, process(kdump("verify", directory)), checksums)
    allowed = _TIMES_LIMIT * limit + len(logs) * _SEGMENT_SECONDS
    against = f"1.2 x checksums + 300 us a segment {allowed:.2f} s"
    return Row("directory", f"{ours:.2f} s", against, ours / allowed, most=1.0)


def measure_memory(directory: Path) -> Row:
    """The largest sum of PSS of a verify with two workers."""
    logs = make(directory)
    most = most_pss_mb(kdump("verify", "--quiet", "--jobs", "2", directory))
    return Row("directory memory", f"{most:.0f} MB", _size(logs), most, "MB", most=_PSS_MB)


def _size(logs: Sequence[Path]) -> str:
    return f"{len(logs):,} segments, {len(logs) * _SEGMENT_BYTES / 1e9:.1f} GB"


def _segments(stock: Path, count: int, segment_bytes: int) -> list[_Segment]:
    """The segments of each partition, ending with one that is not there: where the log ends."""
    stock.mkdir()
    made, base_offset = [], 0
    for _ in range(count):
        one = write(Shape(100, 16 * KIB), stock, segment_bytes, base_offset)
        made.append(_Segment(base_offset, _files(one, base_offset)))
        base_offset += one.records
    shutil.rmtree(stock)
    return [*made, _Segment(base_offset, {})]


def _files(made: Made, base_offset: int) -> dict[str, bytes]:
    """A cleanly closed segment: indexes of all batches but the first, and a snapshot before it."""
    positions: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    with open_source(made.path, mapped=True) as source:
        for table in walk(source, base_offset):
            assert isinstance(table, BatchTable)
            for batch in table:
                positions.append((batch.last_offset, batch.position))
                if not times or batch.max_timestamp > times[-1][0]:
                    times.append((batch.max_timestamp, batch.last_offset))
    files = {
        ".log": made.path.read_bytes(),
        ".index": OffsetIndex.of(base_offset, positions[1:]).encode(),
        ".timeindex": TimeIndex.of(base_offset, times[1:] or times).encode(),
    }
    return files if base_offset == 0 else {**files, ".snapshot": encode_snapshot([])}
