"""Measures ``kdump groups`` over the commits of 10,000 groups, beside ``verify --deep`` and Kafka.

Times are those on the wall, from the start of a process to its end.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from bench.commands import JVM, KAFKA, kdump, most_pss_mb
from bench.report import Row
from bench.segments import MIB
from bench.timing import best, process
from brokers.programs import java_command
from kdump.format.batch import Record
from support.modern_batches import encode_batch

_GROUPS = 10_000
_IN_BATCH = 16
_TIMESTAMP_MS = 1_700_000_000_000
_VERIFY_TIMES = 3.0
_KAFKA_TIMES = 8.0
_PSS_MB = 300.0
_BASE_OFFSET = struct.Struct(">q")


def measure_groups(directory: Path, size_bytes: int, repeat: int) -> Row:
    """``groups`` beside ``verify --deep`` of the same partition, both with one worker."""
    partition = _write(directory, size_bytes)
    ours, theirs = best(
        repeat,
        process(
            kdump("groups", "--format", "json", "--jobs", "1", "--progress", "none", partition)
        ),
        process(kdump("verify", "--deep", "--quiet", "--jobs", "1", partition)),
    )
    return Row(
        "groups",
        f"{ours:.2f} s",
        f"verify --deep {theirs:.2f} s, {size_bytes // MIB} MiB",
        ours / theirs,
        most=_VERIFY_TIMES,
    )


def measure_memory(directory: Path, size_bytes: int) -> Row:
    """The largest sum of PSS of ``groups``."""
    partition = _write(directory, size_bytes)
    most = most_pss_mb(kdump("groups", "--format", "json", "--progress", "none", partition))
    return Row("groups memory", f"{most:.0f} MB", f"{_GROUPS:,} groups", most, "MB", most=_PSS_MB)


def measure_kafka(directory: Path, size_bytes: int) -> Row:
    """``groups`` beside Kafka's dump tool with its decoder, which prints each record."""
    partition = _write(directory, size_bytes)
    tool = java_command(KAFKA, "ERROR", *JVM)
    tool += ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files"]
    ours, theirs = best(
        1,
        process(kdump("groups", "--format", "json", "--progress", "none", partition)),
        process([*tool, str(partition / f"{0:020d}.log")]),
    )
    return Row(
        "groups kafka",
        f"{ours:.2f} s",
        f"Kafka {theirs:.2f} s",
        theirs / ours,
        least=_KAFKA_TIMES,
    )


def _write(directory: Path, size_bytes: int) -> Path:
    """A partition of ``__consumer_offsets``: each group commits in turn, batches of 16 records."""
    partition = directory / "__consumer_offsets-0"
    partition.mkdir()
    stock = []
    for first in range(0, _GROUPS, _IN_BATCH):
        records = [
            Record(first + number, _TIMESTAMP_MS, _key(first + number), _value(first + number))
            for number in range(_IN_BATCH)
        ]
        stock.append(encode_batch(records, leader_epoch=3))
    data, places, position = bytearray().join(stock), [], 0
    for batch in stock:
        places.append(position)
        position += len(batch)
    with (partition / f"{0:020d}.log").open("wb") as file:
        for repeat in range(max(1, round(size_bytes / len(data)))):
            for number, place in enumerate(places):
                offset = (repeat * len(stock) + number) * _IN_BATCH
                _BASE_OFFSET.pack_into(data, place, offset)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return partition


def _key(number: int) -> bytes:
    return struct.pack(">h", 1) + _text(f"group-{number:05d}") + _text("orders") + bytes(4)


def _value(number: int) -> bytes:
    return struct.pack(">hqi", 3, number, 5) + _text("") + struct.pack(">q", _TIMESTAMP_MS)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
