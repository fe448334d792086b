"""``kdump dump`` reads what kafka-python and librdkafka read, record for record, of every fixture.

kafka-python parses the files themselves; librdkafka consumes from a broker of 4.3.1 that was
given the partitions of all fixtures.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import readers
from brokers.broker import Broker
from brokers.programs import run
from consumer_records import as_consumer, log_start
from fixtures_loader import FIXTURES, copy_fixture
from fixtures_loader import partitions as stored_partitions
from forge import TIMESTAMP, message, wrapper

from kdump.cli.main import main

JsonObject = dict[str, Any]
Grown = Callable[[str], Path]
#: What a consumer sees of a record, with whether it is a control record.
Seen = tuple[tuple[object, ...], bool]

VERSION = "4.3.1"


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
    """Puts the partitions of all fixtures into one broker and consumes them, in one run.

    Retention and the cleaner are off: either would take records away.
    """
    scratch = tmp_path_factory.mktemp("reading")
    directory = scratch / "data"
    partitions = [(name, path) for name in FIXTURES for path in topic_partitions(name)]
    counts = Counter(known_as(name, path)[0] for name, path in partitions)
    topics = {
        topic: {"partitions": count, "config": {"retention.ms": "-1"}}
        for topic, count in counts.items()
    }
    records = defaultdict[tuple[str, int], list[JsonObject]](list)
    with Broker(VERSION, directory, {"log.cleaner.enable": "false"}) as broker:
        run(VERSION, "Topics", broker.bootstrap, "create", stdin=json.dumps(topics))
        broker.stop()
        for name in FIXTURES:
            copy = copy_fixture(name, scratch / "copy")
            for path in topic_partitions(name):
                topic, partition = known_as(name, path)
                replace_partition(directory / f"{topic}-{partition}", copy / path.name)
            shutil.rmtree(copy)
        write_log_starts(directory, partitions)
        # As after a crash: the broker recovers every segment, and cuts what was preallocated.
        (directory / ".kafka_cleanshutdown").unlink()
        broker.start()
        wanted = [known_as(name, path) for name, path in partitions]
        for line in readers.librdkafka(broker.bootstrap, wanted):
            records[line["topic"], line["partition"]].append(line)
    return Reading(directory, records)


def topic_partitions(name: str) -> list[Path]:
    """The partitions of a fixture but the metadata log's, which is no topic."""
    return [path for path in stored_partitions(name) if path.name != "__cluster_metadata-0"]


def known_as(name: str, path: Path) -> tuple[str, int]:
    """The topic and partition as which the broker has the partition ``path`` of a fixture."""
    topic, _, partition = path.name.rpartition("-")
    return f"{name.replace('/', '-')}.{topic}", int(partition)


def replace_partition(target: Path, source: Path) -> None:
    """Move what is in ``source`` over the content of ``target``, which keeps its topic id."""
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            path.rename(target / path.name)


def write_log_starts(directory: Path, partitions: Sequence[tuple[str, Path]]) -> None:
    """Give the broker the log start offsets that the brokers of the fixtures had checkpointed."""
    rows = []
    for name, path in partitions:
        topic, partition = known_as(name, path)
        start = log_start(name, path.name)
        if start > 0:
            rows.append(f"{topic} {partition} {start}\n")
    text = f"0\n{len(rows)}\n" + "".join(rows)
    (directory / "log-start-offset-checkpoint").write_text(text)


@pytest.mark.broker
@pytest.mark.parametrize("name", FIXTURES)
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
