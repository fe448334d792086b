"""A log directory whose partitions are damaged in several ways, with a replica of it.

Imports nothing of kdump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from commands.heal.forged_copies import broken, plain
from support import forge
from support.damaged import name

META = b"version=1\ncluster.id=c\nnode.id=1\n"
#: Offsets 0..99 and 100..199, in batches of five records.
FIRST, LAST = 0, 100
TORN = 7
Segments = Mapping[int, Sequence[bytes]]


def whole() -> dict[int, list[bytes]]:
    """The batches of a partition, by the base offset of their segment."""
    return {FIRST: plain(FIRST, LAST), LAST: plain(LAST, LAST + 100)}


def torn(segments: Segments) -> dict[int, list[bytes]]:
    """The batches with a last one of which bytes are missing."""
    *rest, last = segments[LAST]
    return {FIRST: list(segments[FIRST]), LAST: [*rest, last[:-TORN]]}


def damaged() -> dict[str, tuple[Segments, dict[str, bytes | None]]]:
    """The batches and other files of each topic, whose partition is 0."""
    good = whole()
    return {
        "ok": (good, {}),
        "index": (good, {name(FIRST, ".index"): None}),
        "torn": (torn(good), {}),
        "both": (torn(good), {name(FIRST, ".index"): b"\0" * 7}),
        "middle": ({FIRST: broken(good[FIRST], 3), LAST: good[LAST]}, {}),
        "end": ({FIRST: good[FIRST], LAST: broken(good[LAST], len(good[LAST]) - 1)}, {}),
    }


def write(top: Path) -> tuple[Path, Path]:
    """Write the log directory and its replica, and return them."""
    data, replica = top / "data", top / "replica"
    for topic, (segments, files) in damaged().items():
        write_topic(data, topic, segments, files)
        write_topic(replica, topic, whole(), {})
    for directory, node in ((data, b"1"), (replica, b"2")):
        (directory / "meta.properties").write_bytes(META.replace(b"node.id=1", b"node.id=" + node))
    return data, replica


def write_topic(
    directory: Path, topic: str, segments: Segments, files: Mapping[str, bytes | None]
) -> None:
    rows = forge.epoch_rows(data for base in sorted(whole()) for data in whole()[base])
    content = {"leader-epoch-checkpoint": forge.checkpoint(rows), **files}
    forge.write_partition(directory, topic, 0, segments, files=content)


def write_many(data: Path, count: int) -> Path:
    """Write a log directory of ``count`` partitions, of each third one of them is right."""
    good = {FIRST: plain(FIRST, FIRST + 20)}
    files: Sequence[Mapping[str, bytes | None]] = ({}, {name(FIRST, ".index"): None}, {})
    logs = (good, good, {FIRST: [*good[FIRST][:-1], good[FIRST][-1][:-TORN]]})
    for number in range(count):
        kind = number % 3
        forge.write_partition(data, f"topic{number:04}", 0, logs[kind], files=dict(files[kind]))
    write_topic(data, "middle", {FIRST: broken(plain(FIRST, LAST), 3)}, {})
    (data / "meta.properties").write_bytes(META)
    return data


def write_corrupt(data: Path, replica: Path, count: int) -> None:
    """Write a log directory with ``count`` partitions, each with a corrupt batch, and a replica."""
    good = {FIRST: plain(FIRST, LAST)}
    for number in range(count):
        forge.write_partition(data, f"t{number}", 0, {FIRST: broken(good[FIRST], 3)})
        forge.write_partition(replica, f"t{number}", 0, good)
    for directory, node in ((data, b"1"), (replica, b"2")):
        (directory / "meta.properties").write_bytes(META.replace(b"node.id=1", b"node.id=" + node))
