"""The compression of topics by a sample, and what zstd would make of them, beside all of it."""

from __future__ import annotations

import operator
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import zstandard

from kdump.commands.space.sample import (
    PLACES,
    WHOLE_BYTES,
    TopicSample,
    read_sample,
    sample_task,
)
from kdump.format.batch import HEADER_BYTES, record_block
from kdump.storage.access import open_source
from kdump.storage.walk import Damage, batch_bytes, walk
from kdump.ui import exits
from support.commands import kdump
from support.crashing.running import run
from support.fixtures_loader import ROOT, copy_fixture
from support.forge import batch, flip, marker, message, record, wrapper, write_partition

DATA: Final = ROOT / "brokers/4.3.1/clean"
WORDS: Final = [bytes(random.Random(7).randbytes(6).hex(), "ascii") for _ in range(400)]


def stored(log: Path) -> Iterator[tuple[int, int, bytes]]:
    """The size, the codec and the records of each batch."""
    with open_source(log, mapped=False) as source:
        for piece in walk(source, int(log.stem)):
            for each in () if isinstance(piece, Damage) else piece:
                block = record_block(each, batch_bytes(source, each))
                yield each.size, each.codec_id, b"" if each.is_control else bytes(block)


def encoded(block: bytes) -> int:
    """The size of records in a batch at Kafka's default level, and of its flush before the end."""
    return len(zstandard.ZstdCompressor(level=3, write_content_size=False).compress(block)) + 3


def sizes(path: Path) -> tuple[int, int]:
    """The bytes of all logs of a partition, and what they are with zstd."""
    now = as_zstd = 0
    for log in path.glob("*.log"):
        for size, _, block in stored(log):
            now += size
            as_zstd += HEADER_BYTES + encoded(block) if block else size
    return now, as_zstd


def text(rng: random.Random, size: int, repetition: float) -> bytes:
    """Words and random bytes."""
    found = bytearray()
    while len(found) < size:
        found += rng.choice(WORDS) if rng.random() < repetition else rng.randbytes(10)
    return bytes(found[:size])


def forged(
    top: Path, topic: str, seed: int, count: int, size: Sequence[int], *, partitions: int = 3
) -> list[Path]:
    """Partitions whose content changes from segment to segment, and in their middle."""
    rng = random.Random(seed)
    made = []
    for number in range(partitions):
        segments = {}
        for base in range(0, count, 100):
            codec = rng.choice(["none", "lz4", "snappy", "gzip"])
            kinds = rng.random(), rng.random()
            segments[base] = [
                batch(
                    base + at,
                    [record(text(rng, rng.randrange(*size), kinds[at > 50]))],
                    codec=codec,
                )
                for at in range(100)
            ]
        made.append(write_partition(top, topic, number, segments))
    return made


def sampled(topic: str, *paths: Path) -> TopicSample:
    logs = [(path, sum(log.stat().st_size for log in path.glob("*.log"))) for path in paths]
    found = read_sample(sample_task(topic, logs))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "name", ["codec-none-0", "codec-lz4-0", "codec-zstd-0", "transactions-0", "compacted-0"]
)
def test_a_small_topic_is_read_as_a_whole(name: str) -> None:
    path = DATA / name
    found = sampled("topic", path)
    now, as_zstd = sizes(path)
    assert (found.bytes, found.error, found.unread) == (now, 0.0, 0)
    batches = [each for log in path.glob("*.log") for each in stored(log)]
    assert found.batches == len(batches)
    assert found.zstd * now == pytest.approx(as_zstd, rel=0.01)
    types = ("none", "gzip", "snappy", "lz4", "zstd")
    assert found.types == pytest.approx(
        {types[codec]: sum(size for size, other, _ in batches if other == codec) / now
         for codec in {codec for _, codec, _ in batches}}
    )  # fmt: skip


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_zstd_is_as_kafkas_producer_writes_it(version: str) -> None:
    """What producers with Kafka's default level have written is compressed to the same size."""
    path = ROOT / f"brokers/{version}/clean/codec-zstd-0"
    found = sampled("topic", path)
    assert found.types["zstd"] > 0.9
    assert found.zstd == pytest.approx(1, abs=0.005)
    assert found.ratio > 1.2


def test_the_error_holds_what_is_true(tmp_path: Path) -> None:
    """Beside a topic that is compressed anew as a whole, with the places of forty samples."""
    paths = forged(tmp_path, "t", 1, 1000, (500, 12_000), partitions=4)
    now, as_zstd = (sum(each) for each in zip(*map(sizes, paths), strict=True))
    assert now > 3 * WHOLE_BYTES
    found = [sampled(f"t{seed}", *paths) for seed in range(20)]
    assert max(each.bytes for each in found) < WHOLE_BYTES + PLACES * 13_000
    wrong = [abs(each.zstd - as_zstd / now) for each in found]
    errors = [each.error or 0 for each in found]
    # What space --help says of it.
    assert sum(map(operator.le, wrong, errors)) >= 19
    assert max(wrong) < 0.05 * as_zstd / now
    assert max(errors) < 0.1 * as_zstd / now


def test_batches_that_are_larger_than_a_place(tmp_path: Path) -> None:
    rng = random.Random(3)
    size = 1_000_000
    segments = {
        base: [batch(base + at, [record(text(rng, size, base / 40))], codec="lz4")
               for at in range(10)]
        for base in range(0, 40, 10)
    }  # fmt: skip
    path = write_partition(tmp_path, "t", 0, segments)
    now, as_zstd = sizes(path)
    found = sampled("t", path)
    assert found.batches == PLACES
    assert abs(found.zstd - as_zstd / now) <= (found.error or 0)


def test_the_same_places_each_time(tmp_path: Path) -> None:
    paths = forged(tmp_path, "t", 2, 600, (4_000, 9_000))
    logs = [(path, 6_000_000) for path in paths]
    assert sample_task("t", logs) == sample_task("t", reversed(logs))
    assert sample_task("t", logs).places != sample_task("u", logs).places
    assert sampled("t", *paths) == sampled("t", *paths)
    places = sample_task("t", logs).places
    assert {path for path, _ in places} == {*paths}
    for path in paths:  # about as many each, from the start to the end
        fractions = sorted(at for each, at in places if each == path and at is not None)
        assert 9 < len(fractions) < 13
        assert fractions[0] < 0.2
        assert fractions[-1] > 0.8


@pytest.mark.parametrize("damage", ["no index", "odd index", "room", "tail"])
def test_places_that_cannot_be_found_or_read(damage: str, tmp_path: Path) -> None:
    """The rest of the sample holds."""
    (path,) = forged(tmp_path, "t", 4, 1000, (8_000, 16_000), partitions=1)
    now, as_zstd = sizes(path)
    for log in path.glob("*.log"):
        index = log.with_suffix(".index")
        if damage == "no index":
            index.unlink()
        elif damage == "odd index":
            index.write_bytes(os.urandom(index.stat().st_size))
        elif damage == "room":
            index.write_bytes(index.read_bytes() + bytes(80_000))
        else:
            os.truncate(log, log.stat().st_size - 100)
    found = sampled("t", path)
    assert abs(found.zstd - as_zstd / now) <= 2 * (found.error or 0)
    assert found.batches > PLACES


def test_batches_that_cannot_be_decompressed_are_counted(tmp_path: Path) -> None:
    block = b"this is no block of any codec"
    batches = [batch(0, [record(bytes(900))]), batch(1, [], codec="gzip", block=block, count=1)]
    found = sampled("t", write_partition(tmp_path, "t", 0, {0: batches}))
    assert (found.batches, found.unread, found.bytes) == (1, 1, len(batches[0]))


def test_what_zstd_does_not_compress_keeps_its_size(tmp_path: Path) -> None:
    """Transaction markers, and messages of formats before v2."""
    old = [message(0, bytes(500), magic=1), wrapper(2, [message(1, bytes(500), magic=1),
           message(2, bytes(500), magic=1)], codec="gzip", magic=1)]  # fmt: skip
    found = sampled("t", write_partition(tmp_path, "t", 0, {0: old}))
    assert (found.batches, found.zstd) == (2, 1.0)
    assert found.ratio > 1.5
    path = write_partition(tmp_path, "u", 0, {0: [marker(0, 7, commit=True)]})
    assert sampled("u", path).zstd == 1.0


def test_a_sample_of_nothing(tmp_path: Path) -> None:
    path = write_partition(tmp_path, "t", 0, {0: []})
    assert read_sample(sample_task("t", [(path, 0)])) is None
    assert read_sample(sample_task("t", [])) is None
    assert read_sample(sample_task("t", [(tmp_path / "gone-0", 100)])) is None
    garbage = write_partition(tmp_path, "u", 0, {0: [flip(batch(0, [record(bytes(90))]), 70)]})
    assert read_sample(sample_task("u", [(garbage, 100)])) is None
    paths = forged(tmp_path, "v", 5, 600, (4_000, 9_000), partitions=2)
    logs = [(path, 6_000_000) for path in paths]
    task = sample_task("v", logs)
    whole = read_sample(task)
    for file in paths[0].iterdir():
        file.unlink()
    paths[0].rmdir()
    found = read_sample(task)
    assert whole is not None
    assert found is not None
    assert 0 < found.bytes < whole.bytes


def test_the_report_has_two_columns(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    before = {line["topic"]: line for line in kdump("space", data, searching=False).of("topic")}
    assert {line["zstd"] for line in before.values()} == {None}
    assert {line["compression"] for line in before.values()} == {None}
    ran = kdump("space", "--sample", data, searching=False)
    assert ran.code == exits.OK
    found = {line["topic"]: line for line in ran.of("topic")}
    assert found["__cluster_metadata"]["zstd"] is None
    lz4 = found["codec-lz4"]
    assert lz4["compression"]["types"][0]["type"] == "lz4"
    assert lz4["compression"]["ratio"] > 1.1
    assert 0 < lz4["zstd"]["bytes"] < lz4["bytes"]
    assert lz4["zstd"]["error_bytes"] == 0
    shown = run(["space", "--sample", "--wide", str(data)], searching=False).out
    (row,) = (line for line in shown.splitlines() if line.startswith("  codec-lz4 "))
    assert f"lz4 {lz4['compression']['ratio']:.2f} " in row
    assert "TYPE" in shown
    assert "compression.type=zstd compresses what is written" in " ".join(shown.split())
    assert "AS ZSTD" not in run(["space", "--wide", str(data)], searching=False).out


def test_a_rate_without_a_sample_is_wrong() -> None:
    ran = run(["space", "--limit-rate", "1MB", str(DATA)], searching=False)
    assert ran.code == exits.USAGE
    assert "--limit-rate: expected --sample beside it" in ran.err


def test_a_sample_keeps_to_a_rate(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    slow = kdump("space", "--sample", "--limit-rate", "10MB", data, searching=False)
    fast = kdump("space", "--sample", "--limit-rate", "none", data, searching=False)
    assert [*slow.of("topic")] == [*fast.of("topic")]
