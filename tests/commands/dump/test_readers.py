"""``kdump dump`` reads what kafka-python and librdkafka read, record for record, of every fixture.

kafka-python parses the files themselves; librdkafka consumes from a broker of 4.3.1 that was
given the partitions of all fixtures.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import readers
from kdump.cli.main import main
from support.consumer_records import as_consumer, log_start
from support.fixture_broker import broker_of_all_fixtures, known_as, topic_partitions
from support.fixtures_loader import FIXTURES, few_first
from support.fixtures_loader import partitions as stored_partitions
from support.forge import TIMESTAMP, message, wrapper

JsonObject = dict[str, Any]
Grown = Callable[[str], Path]
#: What a consumer sees of a record, with whether it is a control record.
Seen = tuple[tuple[object, ...], bool]


def dumped(paths: Iterable[Path], capfdbinary: pytest.CaptureFixture[bytes]) -> list[JsonObject]:
    main(["dump", "--format", "json", "--records", *map(str, paths)])
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def logs(directory: Path) -> list[Path]:
    """The segments of a partition, in order."""
    return sorted(directory.glob("*.log"))


def seen(lines: Iterable[JsonObject]) -> list[Seen]:
    return [(as_consumer(line), line["control"]) for line in lines]


# --- kafka-python, from the files ---------------------------------------------------------------


@pytest.mark.parametrize("name", FIXTURES)
def test_records_equal_those_that_kafka_python_reads(
    name: str, grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Of every segment that a broker left, internal topics' and the metadata log's too."""
    paths = [log for path in stored_partitions(name) for log in logs(grown(name) / path.name)]
    read = readers.kafka_python(paths)
    ours = dumped(paths, capfdbinary)
    assert {line["file"] for line in read} <= set(map(str, paths))
    for path, lines in by_file(ours, paths):
        theirs = [line for line in read if line["file"] == str(path)]
        # It refuses the zeros of a preallocated file, where we have one piece of damage.
        refused = [theirs.pop()["error"]] if theirs and "error" in theirs[-1] else []
        damages = [line["reason"] for line in lines if line["type"] == "damage"]
        assert (len(refused), damages) in ((0, []), (1, ["preallocated"]))
        assert all("Record size is less than the minimum" in error for error in refused)
        assert seen(line for line in lines if line["type"] == "record") == seen(theirs), path
    assert len(read) > 500


def by_file(lines: list[JsonObject], paths: list[Path]) -> Iterator[tuple[Path, list[JsonObject]]]:
    """Each path with the lines behind its ``file`` line."""
    starts = [place for place, line in enumerate(lines) if line["type"] == "file"]
    assert [lines[start]["path"] for start in starts] == list(map(str, paths))
    for path, start, stop in zip(paths, starts, [*starts[1:], len(lines)], strict=True):
        yield path, lines[start + 1 : stop]


#: Relative offsets of the messages in a wrapper, and the wrapper's own offset.
WRAPPED = {
    "dense": ([0, 1, 2, 3], 103),
    "of one message": ([0], 100),
    "with gaps that the cleaner left": ([0, 2, 7], 107),
    "with the first ones cleaned away": ([5, 7], 107),
    "at the start of a log": ([0, 1, 2], 2),
    "whose offset old librdkafka left at 0": ([0, 1, 2], 0),
}


@pytest.mark.parametrize("magic", [0, 1])
def test_forged_wrappers_are_read_as_kafka_python_reads_them(
    magic: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also those that no broker of the fixtures wrote, between messages that stand alone."""
    expected: dict[Path, list[int]] = {}
    for codec, log_append_time, (relative, offset) in product(
        ("gzip", "snappy", "lz4"), (False, True)[: magic + 1], WRAPPED.values()
    ):
        path = tmp_path / f"topic-{len(expected)}" / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(forged(magic, codec, log_append_time, relative, offset))
        offsets = [max(offset - relative[-1], 0) + place for place in relative]
        expected[path] = [*offsets, offset + 1, offset + 5]
    theirs = readers.kafka_python(expected)
    ours = dumped(expected, capfdbinary)
    for path, lines in by_file(ours, list(expected)):
        records = [line for line in lines if line["type"] == "record"]
        assert seen(records) == seen(line for line in theirs if line["file"] == str(path))
        assert [line["offset"] for line in records] == expected[path]


def forged(
    magic: int, codec: str, log_append_time: bool, relative: Sequence[int], offset: int
) -> bytes:
    """A wrapper at ``offset`` and two messages behind it; its offsets fit those of ``WRAPPED``."""
    add = 0 if magic else max(offset - relative[-1], 0)
    attributes = 8 if log_append_time else 0
    inner = [
        message(add + place, b"value %d" % place, b"k", magic=magic, timestamp=TIMESTAMP - place)
        for place in relative
    ]
    return b"".join(
        (
            wrapper(offset, inner, codec=codec, magic=magic, attributes=attributes),
            message(offset + 1, b"", None, magic=magic, attributes=attributes),
            message(offset + 5, None, b"", magic=magic, attributes=attributes),
        )
    )


# --- librdkafka, from a broker ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """What librdkafka consumed, and the log directory of the broker that it did so from."""

    directory: Path
    records: Mapping[tuple[str, int], Sequence[JsonObject]]
    """By topic and partition, under the names that the broker knew them by."""


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """Consumes the partitions of all fixtures from one broker, in one run."""
    records = defaultdict[tuple[str, int], list[JsonObject]](list)
    with broker_of_all_fixtures(tmp_path_factory.mktemp("reading")) as broker:
        wanted = [known_as(name, path) for name in FIXTURES for path in topic_partitions(name)]
        for line in readers.librdkafka(broker.bootstrap, wanted):
            records[line["topic"], line["partition"]].append(line)
        return Reading(broker.directory, records)


@pytest.mark.broker
@pytest.mark.parametrize("name", few_first())
def test_records_equal_those_that_librdkafka_consumes(
    name: str, reading: Reading, grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Control records, and offsets below the log start, are not for consumers."""
    consumed = 0
    for path in topic_partitions(name):
        start = log_start(name, path.name)
        ours = [
            as_consumer(line)
            for line in dumped(logs(grown(name) / path.name), capfdbinary)
            if line["type"] == "record" and not line["control"] and line["offset"] >= start
        ]
        theirs = reading.records.get(known_as(name, path), ())
        assert ours == [as_consumer(line) for line in theirs], path.name
        consumed += len(theirs)
    assert consumed > 500


@pytest.mark.broker
def test_what_the_broker_left_has_nothing_above_info(
    reading: Reading, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code = main(["verify", "--deep", "--format", "json", str(reading.directory)])
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    above = [line for line in lines if line["type"] == "finding" and line["severity"] != "info"]
    # In this broker no topic is compacted: what compaction left out looks like holes, an error.
    holes = {"segments-hole", "batches-hole", "batch-count-mismatch", "offsets-missing"}
    wrong = [line for line in above if line["code"] not in holes or "compacted" not in line["path"]]
    assert {line["code"] for line in wrong} <= {"transaction-late"}
    assert (code, lines[-1]["segments"]) == (4, len(list(reading.directory.glob("*-*/*.log"))))
