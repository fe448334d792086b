"""The stream reader without a session: each record of sealed segments once, in order."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.fixtures_loader import ROOT, consumed, copy_fixture, few_first
from support.forge import batch, marker, partition_metadata, record, snapshot, write_partition

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxRows

from fleet.stream_batches import ALL, Stream, rows
from kdump.errors import DecodeError, SourceError, UsageError
from kdump.fleet.source import ranges
from kdump.storage.selection import HIGHEST
from kdump.tables.tables import record_batches

pytestmark = pytest.mark.once


def files(bases: Sequence[int], records: int = 10) -> dict[int, list[bytes]]:
    return {
        base: [batch(at, [record(b"v" * 50)] * 5) for at in range(base, base + records, 5)]
        for base in bases
    }


def segments(parent: Path, bases: Sequence[int], topic: str = "t", number: int = 0) -> Path:
    """A partition with segments of ten records; one that is there is replaced."""
    shutil.rmtree(parent / f"{topic}-{number}", ignore_errors=True)
    path = write_partition(parent, topic, number, files(bases))
    (parent / "meta.properties").write_text("version=1\n")
    return path


def high_watermarks(parent: Path, **lines: int) -> None:
    text = "".join(f"{topic} 0 {offset}\n" for topic, offset in lines.items())
    path = parent / "replication-offset-checkpoint"
    path.write_text(f"0\n{len(lines)}\n{text}")


# --- once, in order


def test_each_sealed_record_once_while_brokers_and_partitions_join(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "broker-*")
    segments(tmp_path / "broker-1", (0, 10, 20))
    assert stream.batch() == {"t-0": list(range(20))}
    assert stream.batch() == {}
    segments(tmp_path / "broker-1", (0, 10, 20, 30))
    segments(tmp_path / "broker-1", (0,), number=1)
    segments(tmp_path / "broker-2", (40, 50), "u")
    before = stream.checkpoint
    assert stream.batch() == {"t-0": list(range(20, 30)), "u-0": list(range(40, 50))}
    assert stream.checkpoint != before
    segments(tmp_path / "broker-1", (0, 10), number=1)
    segments(tmp_path / "broker-2", (40, 50), "u", 1)
    assert stream.batch() == {"t-1": list(range(10)), "u-1": list(range(40, 50))}
    before = stream.checkpoint
    assert stream.batch() == {}
    assert stream.checkpoint == before
    ((topic_id, numbers),) = stream.next["t"].items()
    assert (topic_id, numbers) == ("AAAAAAAAQACAAAAAAAAAAQ", {"0": 30, "1": [0, 10]})
    assert len(stream.checkpoint) < 200


#: The first offset of a transaction that is open where the active segment begins.
OPEN = {("1.1.1/clean", "transactions-0"): 128}


@pytest.mark.parametrize("with_snapshots", [True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", few_first(["1.1.1/clean", "2.8.2/clean", "4.3.1/killed"]))
@pytest.mark.slow
def test_a_growing_fixture_gives_what_a_consumer_got(
    name: str, with_snapshots: bool, tmp_path: Path
) -> None:
    """Segment by segment, transactions included: with producer snapshots, and by headers."""
    whole = copy_fixture(name, tmp_path / "whole")
    growing = tmp_path / "data"
    growing.mkdir()
    # The other checkpoints would say that more is to be here.
    for file in whole.glob("log-start-offset-checkpoint"):
        shutil.copy(file, growing)
    (growing / "meta.properties").write_bytes((whole / "meta.properties").read_bytes())
    stream = Stream(growing, schema="kafka")
    stream.options["subscribePattern"] = "^[^_]"
    partitions = [path for path in sorted(whole.iterdir()) if path.is_dir()]
    partitions = [path for path in partitions if path.name[0] != "_"]
    bases = {path: sorted(file.stem for file in path.glob("*.log")) for path in partitions}
    rng = random.Random(7)
    for count in range(1, max(map(len, bases.values())) + 1):
        for path, names in bases.items():
            (growing / path.name).mkdir(exist_ok=True)
            for file in path.iterdir():
                shown = file.stem in names[:count] or file.name == "partition.metadata"
                if shown and (with_snapshots or file.suffix != ".snapshot"):
                    shutil.copy(file, growing / path.name)
        limit = rng.choice([ALL, ReadMaxRows(rng.randint(50, 500)), ReadMaxBytes(5000)])
        stream.batch(limit)
    while stream.batch(ReadMaxRows(100)):
        pass
    for path, names in bases.items():
        by_level = consumed(name)
        committed = by_level.get((path.name, "read_committed"))
        lines = (committed or by_level[path.name, "read_uncommitted"]).read_text().splitlines()
        offsets = [json.loads(line)["offset"] for line in lines]
        end = min(int(names[-1]), OPEN.get((name, path.name), HIGHEST))
        expected = [offset for offset in offsets if offset < end]
        assert stream.got.get(path.name, []) == expected, path.name
    assert sum(map(len, stream.got.values())) > 500


def in_transaction(offset: int, producer: int) -> bytes:
    return batch(
        offset,
        [record()] * 5,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def test_records_of_an_open_transaction_wait_for_its_end(tmp_path: Path) -> None:
    content = {
        0: [in_transaction(0, 7), batch(5, [record()] * 5)],
        10: [in_transaction(10, 8), marker(15, 8, commit=False)],
        16: [batch(16, [record()] * 4), marker(20, 7, commit=True)],
        21: [batch(21, [record()])],
    }

    def shown(*bases: int) -> None:
        shutil.rmtree(tmp_path / "t-0", ignore_errors=True)
        write_partition(tmp_path, "t", 0, {base: content[base] for base in bases})

    stream = Stream(tmp_path)
    stream.options["startingOffsets"] = "earliest"
    shown(0, 10)
    assert stream.batch() == {}
    shown(0, 10, 16)
    assert stream.batch() == {}
    everything = Stream(tmp_path, **{"kafka.isolation.level": "read_uncommitted"})
    assert everything.batch() == {"t-0": list(range(16))}
    shown(0, 10, 16, 21)
    assert stream.batch(ReadMaxRows(12)) == {"t-0": list(range(10))}
    assert stream.batch() == {"t-0": list(range(16, 20))}


def test_a_marker_that_is_gone_again_is_an_error(tmp_path: Path) -> None:
    """The producer snapshot has no open transaction; the log has."""
    content = {0: [in_transaction(0, 7)], 5: [batch(5, [record()])]}
    none_open = {f"{5:020d}.snapshot": snapshot([])}
    write_partition(tmp_path, "t", 0, content, files=none_open)
    with pytest.raises(DecodeError, match="marker of the transaction from offset 0 on"):
        Stream(tmp_path).batch()


def test_the_log_start_offset_counts_for_the_columns_of_spark(tmp_path: Path) -> None:
    segments(tmp_path, (0, 10, 20))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    reader = Stream(tmp_path, schema="kafka").reader()
    ((numbers,),) = (reader.initialOffset()["offsets"]["t"].values(),)
    assert numbers == {"0": 7}
    assert Stream(tmp_path).batch() == {"t-0": list(range(20))}


# --- where it starts, and how much a batch has


def test_where_a_stream_starts(tmp_path: Path) -> None:
    segments(tmp_path, (0, 10, 20))

    def next_offset(**options: str) -> object:
        reader = Stream(tmp_path, **options).reader()
        ((numbers,),) = (reader.initialOffset()["offsets"]["t"].values(),)
        return numbers["0"]

    assert next_offset() == next_offset(startingOffsets="earliest") == 0
    assert next_offset(startingOffsets="latest") == 30
    assert next_offset(startingOffsets='{"t":{"0":-1}}') == 30
    assert next_offset(startingOffsets='{"t":{"0":17}}') == 17
    with pytest.raises(UsageError, match="expected 30, the end of the log, or less for t-0"):
        next_offset(startingOffsets='{"t":{"0":31}}')
    assert next_offset(startingOffsets='{"t":{"0":31}}', failOnDataLoss="false") == 30
    with pytest.raises(UsageError, match="ms or later in t-0, found none"):
        next_offset(startingTimestamp=str(2**50))
    late = {"startingTimestamp": str(2**50), "startingOffsetsByTimestampStrategy": "latest"}
    assert next_offset(**late) == 30
    assert next_offset(startingTimestamp="5") == 0
    middle = Stream(tmp_path, startingOffsets='{"t":{"0":17}}')
    assert middle.batch() == {"t-0": [17, 18, 19]}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"endingOffsets": "latest"}, "expected none in a stream"),
        ({"table": "batches"}, "expected records in a stream, found batches"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger: expected a number from 1 on"),
        ({"maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "expected one of the options"),
        ({"subscribe": "t,v"}, "expected a log of v at the paths"),
        ({"topic": "v*"}, "expected a pattern that some topic matches"),
        ({"paths": "[]"}, "expected a path: spark.readStream"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], what: str, tmp_path: Path) -> None:
    segments(tmp_path, (0, 10))
    with pytest.raises(UsageError, match=what):
        Stream(tmp_path, **options).batch()


def test_a_file_is_no_source_of_a_stream(tmp_path: Path) -> None:
    path = segments(tmp_path, (0, 10))
    with pytest.raises(UsageError, match="expected log directories or directories of partitions"):
        Stream(path / f"{0:020d}.log").batch()
    assert Stream(path).batch() == {"t-0": list(range(10))}


def test_bounds_of_a_batch(tmp_path: Path) -> None:
    path = segments(tmp_path, (0, 10, 20, 30))
    segments(tmp_path, (0, 10), number=1)
    assert Stream(tmp_path, maxOffsetsPerTrigger="8").batch() == {
        "t-0": list(range(6)),
        "t-1": list(range(2)),
    }
    assert len(Stream(tmp_path, maxOffsetsPerTrigger="40").batch()["t-0"]) == 30
    size = (path / f"{0:020d}.log").stat().st_size
    stream = Stream(tmp_path, maxBytesPerTrigger=str(2 * size))
    found = []
    while got := stream.batch():
        assert sum(map(len, got.values())) == 20
        found.append(got)
    assert len(found) == 2
    assert stream.got == {"t-0": list(range(30)), "t-1": list(range(10))}
    small = Stream(tmp_path, maxBytesPerTrigger="1")
    assert sum(map(len, small.batch().values())) == 10


def test_what_is_available_now_is_fixed_at_the_start(tmp_path: Path) -> None:
    segments(tmp_path, (0, 10, 20))
    stream = Stream(tmp_path)
    reader = stream.reader()
    reader.prepareForTriggerAvailableNow()
    segments(tmp_path, (0, 10, 20, 30))
    position = reader.initialOffset()
    ends = []
    while (after := reader.latestOffset(position, ReadMaxRows(15))) != position:
        position = after
        ((numbers,),) = (position["offsets"]["t"].values(),)
        ends.append(numbers["0"])
    assert ends == [15, 20]


# --- loss


def test_a_segment_that_vanished_fails_or_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    segments(tmp_path, (0, 10, 20, 30))
    stream = Stream(tmp_path)
    assert stream.batch(ReadMaxRows(5)) == {"t-0": list(range(5))}
    segments(tmp_path, (20, 30, 40))
    before = stream.checkpoint
    with pytest.raises(SourceError, match="offsets 5 to 19, not read so far, found offsets 20 to"):
        stream.batch()
    stream.checkpoint = before
    stream.options["failOnDataLoss"] = "false"
    assert stream.batch() == {"t-0": list(range(20, 40))}
    assert "t-0: offsets 5 to 19 cannot be read" in caplog.text


def test_all_that_was_sealed_vanished(tmp_path: Path) -> None:
    segments(tmp_path, (0, 10, 20))
    stream = Stream(tmp_path)
    stream.batch(ReadMaxRows(5))
    segments(tmp_path, (20,))
    before = stream.checkpoint
    with pytest.raises(SourceError, match="offsets 5 to 19"):
        stream.batch()
    stream.checkpoint = before
    stream.options["failOnDataLoss"] = "false"
    assert stream.batch() == {}
    segments(tmp_path, (20, 30))
    assert stream.batch() == {"t-0": list(range(20, 30))}


@pytest.mark.parametrize("lenient", [False, True])
def test_a_partition_that_is_gone(
    tmp_path: Path, lenient: bool, caplog: pytest.LogCaptureFixture
) -> None:
    segments(tmp_path, (0, 10))
    segments(tmp_path, (0, 10), "u")
    stream = Stream(tmp_path, failOnDataLoss=str(not lenient).lower())
    stream.batch()
    shutil.rmtree(tmp_path / "u-0")
    if not lenient:
        with pytest.raises(SourceError, match="u-0: expected offset 10 and later"):
            stream.batch()
        return
    assert stream.batch() == {}
    assert "u-0: offset 10 and later cannot be read: vanished" in caplog.text
    segments(tmp_path, (0, 10, 20), "u")
    assert stream.batch() == {"u-0": list(range(10, 20))}


@pytest.mark.parametrize("lenient", [False, True])
def test_a_segment_that_vanishes_before_its_task_begins(
    tmp_path: Path, lenient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_WAIT_S", 0)
    segments(tmp_path, (0, 10, 20))
    stream = Stream(tmp_path, failOnDataLoss=str(not lenient).lower())
    reader, tasks = stream.plan()
    segments(tmp_path, (10, 20))
    if lenient:
        assert rows(reader, tasks) == {"t-0": list(range(10, 20))}
    else:
        with pytest.raises(SourceError, match="offsets 0 to 9, not read so far"):
            rows(reader, tasks)
    shutil.rmtree(tmp_path / "t-0")
    if lenient:
        assert rows(reader, tasks) == {}
    else:
        with pytest.raises(SourceError, match="offsets 0 to 19, not read so far, found no log"):
            rows(reader, tasks)


def test_segments_that_are_merged_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner replaces several segments by one: a log that is gone leads to a new listing."""
    monkeypatch.setattr(ranges, "_WAIT_S", 0)
    path = segments(tmp_path, (0, 10, 20, 30, 40))
    reader, tasks = Stream(tmp_path).plan()

    def merging(logs: Any, *given: Any, **named: Any) -> Any:
        if logs[0].base_offset == 20 and logs[0].path.exists():
            merged = path / f"{10:020d}.log"
            with merged.open("ab") as into:
                for base in (20, 30):
                    gone = path / f"{base:020d}.log"
                    into.write(gone.read_bytes())
                    gone.unlink()
        return record_batches(logs, *given, **named)

    monkeypatch.setattr(ranges, "record_batches", merging)
    assert rows(reader, tasks) == {"t-0": list(range(40))}


def test_segments_that_are_being_swapped_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = segments(tmp_path, (0, 10, 20))
    log = path / f"{0:020d}.log"
    swap = log.with_name(log.name + ".swap")
    log.rename(swap)
    waited = []

    def wait(_: float) -> None:
        waited.append(swap.rename(log))

    monkeypatch.setattr("time.sleep", wait)
    assert Stream(tmp_path).batch() == {"t-0": list(range(20))}
    assert len(waited) == 1


# --- copies, and what is replicated


@pytest.mark.slow
def test_copies_give_each_record_once_and_stand_in_for_each_other(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    segments(tmp_path / "a", (0, 10, 20))
    segments(tmp_path / "b", (0, 10))
    assert stream.batch() == {"t-0": list(range(20))}
    shutil.rmtree(tmp_path / "a" / "t-0")
    assert stream.batch() == {}
    segments(tmp_path / "b", (0, 10, 20, 30))
    segments(tmp_path / "a", (30, 40))  # a new replica, from the leader's log start on
    assert stream.batch() == {"t-0": list(range(20, 30))}
    assert stream.batch() == {"t-0": list(range(30, 40))}


def test_a_batch_that_runs_again_needs_what_it_had(tmp_path: Path) -> None:
    segments(tmp_path / "a", (0, 10, 20))
    segments(tmp_path / "b", (0, 10))
    stream = Stream(tmp_path)
    reader = stream.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    shutil.rmtree(tmp_path / "a" / "t-0")
    with pytest.raises(SourceError, match="offsets 10 to 19, not read so far, found offsets 0 to"):
        stream.reader().partitions(start, end)
    segments(tmp_path / "b", (0, 10, 20))
    assert rows(reader, stream.reader().partitions(start, end)) == {"t-0": list(range(20))}


def test_a_segment_is_read_when_the_high_watermark_has_passed_it(tmp_path: Path) -> None:
    segments(tmp_path, (0, 10, 20))
    high_watermarks(tmp_path, t=19)
    stream = Stream(tmp_path)
    assert stream.batch() == {"t-0": list(range(10))}
    high_watermarks(tmp_path, t=20)
    assert stream.batch() == {"t-0": list(range(10, 20))}


# --- topic ids, and the checkpoint


def with_id(parent: Path, topic_id: str | None, bases: Sequence[int]) -> None:
    file = segments(parent, bases) / "partition.metadata"
    if topic_id is None:
        file.unlink()
    else:
        file.write_bytes(partition_metadata(topic_id))


FIRST, SECOND = "AAAAAAAAQACAAAAAAAAAAQ", "BBBBBBBBQACAAAAAAAAAAQ"


def test_a_topic_that_was_created_again_is_another_one(tmp_path: Path) -> None:
    stream = Stream(tmp_path, failOnDataLoss="false")
    with_id(tmp_path, FIRST, (0, 10))
    assert stream.batch() == {"t-0": list(range(10))}
    with_id(tmp_path, SECOND, (0, 10, 20))
    assert stream.batch() == {"t-0": list(range(20))}
    assert stream.next["t"] == {FIRST: {"0": 10}, SECOND: {"0": [0, 20]}}


def test_a_topic_that_gets_its_id_later_is_the_same(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    with_id(tmp_path, None, (0, 10))
    assert stream.batch() == {"t-0": list(range(10))}
    with_id(tmp_path, FIRST, (0, 10, 20))
    assert stream.batch() == {"t-0": list(range(10, 20))}
    assert stream.next["t"] == {"": {"0": 20}}
    with_id(tmp_path, None, (0, 10, 20, 30))
    assert stream.batch() == {"t-0": list(range(20, 30))}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"version": 2, "offsets": {}}', "expected version 1, found 2"),
        ("{}", "expected version 1, found {}"),
        ("[1]", "expected version 1"),
        ('{"version": 1}', "expected offsets by topic"),
        ('{"version": 1, "offsets": {"t": 3}}', "expected offsets by topic"),
        ('{"version": 1, "offsets": {"t": {"": {"0": "3"}}}}', "expected offsets by topic"),
        ('{"version": 1, "offsets": {"t": {"": {"x": 3}}}}', "expected offsets by topic"),
        ('{"version": 1, "offsets": {"t": {"": {"0": [1, 2, 3]}}}}', "expected offsets by topic"),
    ],
)
def test_offsets_of_another_program_are_an_error(text: str, what: str, tmp_path: Path) -> None:
    segments(tmp_path, (0, 10))
    stream = Stream(tmp_path)
    stream.checkpoint = text
    with pytest.raises(UsageError, match=what):
        stream.batch()


@pytest.mark.slow
def test_fixtures_of_replicas_give_what_one_copy_has(tmp_path: Path) -> None:
    top = ROOT / "brokers/4.3.1/replicas"
    stream = Stream(top, topic="in-turn")
    (offsets,) = stream.batch().values()
    assert len(offsets) > 40
    assert offsets == sorted(set(offsets))
    # The copy of the highest leader epoch has a transaction whose marker is in the active segment.
    assert [*stream.next["in-turn"].values()] == [{"0": 69}]
    assert max(offsets) < 69
