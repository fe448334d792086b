"""Partitions of magic 0 and 1 under real brokers, before and after ``kdump convert-v0-v2``.

What the broker serves of the converted copy must be what the same release serves of the original:
records, and offsets by time. Then it goes on writing. And where a broker recovers the copy, it
finds nothing to change.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from brokers.broker import Broker
from brokers.oracle import Loaded
from brokers.planting import plant
from brokers.programs import Answer, offsets_for_times, run
from support import legacy_partitions, served
from support.commands import kdump
from support.converting import (
    COMMAND,
    above_info,
    convert,
    legacy_batches,
    logs,
    nothing_to_do,
    records,
)
from support.fixtures_loader import copy_fixture
from support.legacy_partitions import Partition
from support.served import Log, Records, complaints, loaded, read_all
from support.side_by_side import VERSIONS, Of

pytestmark = pytest.mark.broker

FIXTURES = {
    "0.8.2.2/clean": ("codec-none", "codec-gzip", "codec-snappy", "codec-lz4", "compacted"),
    "0.10.2.2/clean": ("codec-lz4", "log-append-time", "magic-0", "compacted", "groups"),
    "1.1.1/clean": ("magic-1", "magic-1-append-time", "compacted-magic-1"),
    "2.8.2/clean": ("formats", "formats-rolled", "compacted-magic-0", "client-0.8-kept"),
}
FEW_SEEDS, SEEDS, MORE_SEEDS = range(2), range(8), range(100, 115)
#: Nothing but what the test does changes a log.
SETTINGS = {"log.cleaner.enable": "false"}
INTERVAL = "300"
#: Of some, cleaners have taken away records.
TOPIC = {"cleanup.policy": "compact", "index.interval.bytes": INTERVAL}
TIMES = 100
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
APPENDED = 3 * 4


@dataclass(frozen=True)
class Served:
    """The answers of a broker about its logs, by partition."""

    loaded: Mapping[str, Log]
    records: Mapping[str, Records]
    committed: Mapping[str, Records]
    answers: Mapping[str, Sequence[Answer]]


def sources(directory: Path, seeds: Iterable[int] = SEEDS) -> dict[str, Path]:
    """Directories of partitions with old formats, by the topic that they are to become."""
    found = {}
    for name, topics in FIXTURES.items():
        release = name.partition("/")[0]
        copied = copy_fixture(name, directory / release)
        for topic in topics:
            named = f"{release}.{topic}"
            found[named] = (copied / f"{topic}-0").rename(directory / f"{named}-0")
    for seed in seeds:
        named = f"forged-{seed}"
        found[named] = plain(legacy_partitions.forged(seed)).write(directory, named)
    return found


def plain(partition: Partition) -> Partition:
    """Without wrappers of mixed magic (KAFKA-4298): a consumer takes the wrapper's type of
    timestamps for that of all messages inside, and so no longer tells what these were."""
    segments = {
        base: [piece for piece in pieces if "other magic inside" not in piece.shown]
        for base, pieces in partition.segments.items()
    }
    return replace(partition, segments=segments)


def times(found: Mapping[str, Path]) -> dict[str, list[int]]:
    """Times to ask for in each partition: those of records, and beside them."""
    asked = {}
    for name, lines in records(*found.values()).items():
        own = sorted({line["timestamp"] or 0 for line in lines} - {-1})
        beside = {near for time in own for near in (time - 1, time, time + 1) if near >= 0}
        chosen = random.Random(name).sample(sorted(beside), min(TIMES, len(beside)))
        asked[name] = [0, *chosen, own[-1] + 1_000_000_000]
    return asked


def dated(partition: Path, asked: Sequence[int]) -> None:
    """Give the logs times from amid those of the records.

    A broker takes them for the times of logs whose messages have none, and does not read further.
    """
    amid = sorted(asked)
    found = logs(partition)
    for number, log in enumerate(found):
        time_ms = amid[number * len(amid) // len(found)]
        os.utime(log, ns=(time_ms * 10**6,) * 2)


def serve(broker: Broker, asked: Mapping[str, Sequence[int]], directory: Path) -> Served:
    """The answers of a newly started broker about these partitions; none may be wrong."""
    said = broker.log_lines()
    assert complaints(said, clean=True) == []
    return Served(
        {name: log for name, log in loaded(said).items() if name in asked},
        as_converted(read_all(broker, tuple(asked), directory)),
        as_converted(read_all(broker, tuple(asked), directory, served.COMMITTED)),
        without_epochs(offsets_for_times(broker.version, broker.bootstrap, asked)),
    )


def without_epochs(answers: Mapping[str, Iterable[Answer]]) -> dict[str, list[Answer]]:
    """The answers without leader epochs: old messages have none, what is made of them has."""
    return {
        name: [None if answer is None else (*answer[:2], None) for answer in found]
        for name, found in answers.items()
    }


def as_converted(read: Mapping[str, Records]) -> dict[str, Records]:
    """What was read, as it is once records without a time have the time -1."""
    return {
        name: {offset: _timed(line) for offset, line in lines.items()}
        for name, lines in read.items()
    }


def _timed(line: dict[str, object]) -> dict[str, object]:
    if line["timestamp_type"] == "NoTimestampType":
        return {**line, "timestamp": -1, "timestamp_type": "CreateTime"}
    return line


@pytest.mark.parametrize(
    ("version", "seeds"),
    [
        pytest.param("4.3.1", FEW_SEEDS, marks=pytest.mark.slow),
        pytest.param("4.3.1", SEEDS, marks=pytest.mark.nightly),
        pytest.param("3.9.1", SEEDS, marks=pytest.mark.nightly),
        pytest.param("4.3.1", MORE_SEEDS, marks=pytest.mark.nightly),
        pytest.param("3.9.1", MORE_SEEDS, marks=pytest.mark.nightly),
    ],
)
def test_a_broker_serves_the_same_and_goes_on(version: str, seeds: range, tmp_path: Path) -> None:
    data = tmp_path / "data"
    found = sources(tmp_path / "sources", seeds)
    asked = times(found)
    for source in found.values():
        dated(source, asked[source.name])
    plant(version, data, found, TOPIC)
    with Broker(version, data, SETTINGS) as broker:
        before = serve(broker, asked, tmp_path / "before")
    assert (
        sum(answer is not None for answers in before.answers.values() for answer in answers) > 500
    )
    known = problems(data, asked)
    converted_all(data, asked, tmp_path / "scratch")
    assert problems(data, asked) <= known
    written = served.logs(data, asked)
    with Broker(version, data, SETTINGS) as broker:
        after = serve(broker, asked, tmp_path / "after")
        for name in asked:
            assert after.records[name] == before.records[name], name
            assert after.committed[name] == before.committed[name], name
            assert after.answers[name] == before.answers[name], name
            assert after.loaded[name] == before.loaded[name]
        assert served.logs(data, asked) == written
        orders = (
            f"{topic}:updates:3:4:{CODECS[number % len(CODECS)]}"
            for number, topic in enumerate(found)
        )
        run(version, "Messages", broker.bootstrap, "1", *orders)
        behind = read_all(broker, tuple(asked), tmp_path / "behind")
    for name in asked:
        old, end = after.records[name], after.loaded[name].end
        assert {offset: behind[name][offset] for offset in old} == old
        assert behind[name].keys() - old.keys() == set(range(end, end + APPENDED))
    assert legacy_batches(*(data / name for name in asked)) == []
    assert problems(data, asked) <= known


def problems(data: Path, names: Iterable[str]) -> set[tuple[str, str]]:
    """The findings of verify above info in these partitions."""
    found = above_info(*(data / name for name in names))
    return {(Path(line["path"]).relative_to(data).parts[0], line["code"]) for line in found}


def converted_all(data: Path, names: Iterable[str], scratch: Path) -> None:
    """Convert every second partition into a new directory that takes its place, half of them
    with another codec, and all others where they are."""
    elsewhere = sorted(names)[::2]
    for chosen, codec in ((elsewhere[::2], ()), (elsewhere[1::2], ("--codec", "zstd"))):
        made = kdump(COMMAND, *(data / name for name in chosen), "--output", scratch, *codec)
        assert made.code == 0, made
        for name in chosen:
            shutil.rmtree(data / name)
            shutil.move(scratch / name, data / name)
    ran = convert(data)
    assert ran.code == 0, ran
    assert nothing_to_do(data)
    assert legacy_batches(data) == []


@pytest.mark.slow
def test_recovery_has_nothing_to_do(oracle: Of, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.index.interval.bytes={INTERVAL}\n")
    copies = {
        topic: shutil.copytree(source, tmp_path / "converted" / source.name)
        for topic, source in sources(tmp_path / "sources").items()
    }
    before = served.logs(tmp_path, map(str, copies.values()))
    assert convert(*copies.values(), "--config", config).code == 0
    written = {
        path.relative_to(tmp_path / "converted"): path.read_bytes()
        for log, content in before.items()
        if (tmp_path / log).read_bytes() != content
        for path in map((tmp_path / log).with_suffix, (".log", ".index", ".timeindex"))
    }
    assert {path.parent.name for path in written} == {path.name for path in copies.values()}
    for version in VERSIONS:
        for topic, copy in copies.items():
            directory = shutil.copytree(copy, tmp_path / version / copy.name)
            found = oracle(version).load(directory, config={"index.interval.bytes": INTERVAL})
            assert isinstance(found, Loaded), (topic, found)
            warnings = [line for line in found.messages if line.startswith(("WARN", "ERROR"))]
            assert warnings == [], topic
        changed = {
            path
            for path, content in written.items()
            if (tmp_path / version / path).read_bytes() != content
        }
        assert changed == set()
