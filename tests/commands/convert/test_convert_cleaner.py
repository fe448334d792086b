"""``kdump convert-v0-v2 --batch-bytes 0`` against the cleaner of a real 4.3.1 broker.

Of the same partitions, whose keys are all different, one copy is converted by kdump, the other one
compacted by the broker, which rewrites every old message and wrapper as it is. What both make must
be the same, but for the bytes into which blocks are compressed, and for the time at which
tombstones may go, which the cleaner alone writes down. And but for the leader epoch: the cleaner
gives none to batches of old messages, and no follower of 3.9 or later appends such batches.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.planting import plant
from commands.convert import unique_keys
from commands.convert.unique_keys import Logs
from support.cleaner_topic import TOPIC, VERSION, cleaned
from support.converting import JsonObject, convert, logs, records
from support.fixtures_loader import ROOT
from support.resealing import HEADER_BYTES, places, unpacked

pytestmark = pytest.mark.broker

FIXTURES = ("0.8.2.2/clean", "0.10.2.2/clean", "1.1.1/clean", "2.8.2/clean")
SEEDS = (*range(6), *range(100, 110))

EPOCH_AT, CRC_AT, ATTRIBUTES_AT, BASE_TIME_AT = 12, 17, 21, 27
NO_EPOCH = bytes([255] * 4)
CODEC_MASK, DELETE_HORIZON = 0x07, 0x40


def partitions() -> dict[str, Logs]:
    """By topic: forged ones, and what is left of those of real brokers."""
    made = {}
    for seed in SEEDS:
        made[f"forged-{seed}"] = unique_keys.forged(seed)
        made[f"tombstones-{seed}"] = unique_keys.forged(seed, tombstones=True)
        made[f"plain-{seed}"] = unique_keys.forged(seed, codecs=())
    for name in FIXTURES:
        for directory in sorted((ROOT / "brokers" / name).iterdir()):
            if directory.is_dir() and (left := unique_keys.drawn(directory)):
                made[f"{name.replace('/', '.')}.{directory.name}"] = left
    return made


def write(given: Logs, directory: Path) -> Path:
    """Without indexes: a broker builds them."""
    directory.mkdir(parents=True)
    for base, content in given.items():
        (directory / f"{base:020d}.log").write_bytes(content)
    return directory


def differences(ours: bytes, theirs: bytes) -> Iterator[str]:
    """Where two logs differ in a header, or in a block as it is when it is not compressed."""
    pairs = places(ours), places(theirs)
    if len(pairs[0]) != len(pairs[1]):
        yield f"{len(pairs[0])} batches, not {len(pairs[1])}"
    for (start, end), (their_start, their_end) in zip(*pairs, strict=False):
        our_batch, other = ours[start:end], theirs[their_start:their_end]
        attributes = int.from_bytes(other[ATTRIBUTES_AT : ATTRIBUTES_AT + 2], "big")
        horizon = bool(attributes & DELETE_HORIZON)
        ours_at, theirs_at = (each[EPOCH_AT : EPOCH_AT + 4] for each in (our_batch, other))
        if theirs_at not in (ours_at, NO_EPOCH) or ours_at == NO_EPOCH:
            yield f"{start}: leader epoch {ours_at.hex()}, not {theirs_at.hex()}"
        if header(our_batch, horizon=horizon) != header(other, horizon=horizon):
            yield f"{start}: {our_batch[:HEADER_BYTES].hex()}, not {other[:HEADER_BYTES].hex()}"
        blocks = [
            unpacked(attributes & CODEC_MASK, each[HEADER_BYTES:]) for each in (our_batch, other)
        ]
        # Times are given as distances from the horizon.
        if None in blocks or (not horizon and blocks[0] != blocks[1]):
            yield f"{start}: blocks"


def header(batch: bytes, *, horizon: bool) -> bytes:
    """All fields but the size, the leader epoch and the checksum, and what a horizon changes."""
    head = bytearray(batch[:HEADER_BYTES])
    head[8:16] = bytes(8)
    head[CRC_AT:ATTRIBUTES_AT] = bytes(4)
    if horizon:
        head[ATTRIBUTES_AT + 1] &= ~DELETE_HORIZON
        head[BASE_TIME_AT : BASE_TIME_AT + 8] = bytes(8)
    return bytes(head)


def unlike(ours: Path, theirs: Path) -> list[str]:
    """The names of logs and indexes that are not the same, byte for byte, but for the epochs."""
    *inactive, _ = logs(theirs)
    return [
        path.name
        for log in inactive
        for path in (log, log.with_suffix(".index"), log.with_suffix(".timeindex"))
        if _plain(path) != _plain(ours / path.name)
    ]


def _plain(path: Path) -> bytes:
    """The content of a file; of a log without its leader epochs."""
    content = bytearray(path.read_bytes())
    for start, _ in places(bytes(content)) if path.suffix == ".log" else ():
        content[start + EPOCH_AT : start + EPOCH_AT + 4] = bytes(4)
    return bytes(content)


@pytest.mark.nightly
def test_one_batch_a_message_is_what_a_cleaner_writes(tmp_path: Path) -> None:
    made = partitions()
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    sources = {topic: write(given, tmp_path / "made" / topic) for topic, given in made.items()}
    plant(VERSION, theirs, sources, TOPIC)
    shutil.copytree(theirs, ours)
    names = [f"{topic}-0" for topic in made]
    for name in names:
        assert convert(ours / name, "--batch-bytes", "0").code == 0
    cleaned(theirs, {topic: max(given) for topic, given in made.items()})
    wrong = [
        f"{name}, {log.name}, {difference}"
        for name in names
        for log in logs(theirs / name)
        for difference in differences((ours / name / log.name).read_bytes(), log.read_bytes())
    ]
    wrong += [
        f"{name}, {file}"
        for name in names
        if name.startswith("plain")
        for file in unlike(ours / name, theirs / name)
    ]
    assert wrong == []
    our_records, other = (records(*(data / name for name in names)) for data in (ours, theirs))
    assert our_records.keys() == set(names)
    for name in names:
        assert list(map(unplaced, our_records[name])) == list(map(unplaced, other[name]))


def unplaced(line: JsonObject) -> JsonObject:
    """A record's line without its position, and without the leader epoch of its batch."""
    return {**line, "position": None, "leader_epoch": None}
