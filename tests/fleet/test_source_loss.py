"""Offsets that no log has: segments that vanish, and records in remote storage.

They are an error or a row that says so; never fewer rows without a word.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.fixtures_loader import ROOT, TIERED, copy_fixture
from support.forge import batch, record, write_partition

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from fleet.source_queries import planned, query, rows
from fleet.stream_batches import Stream
from fleet.stream_batches import rows as stream_rows
from kdump.errors import DecodeError, SourceError, UsageError, VanishedError
from kdump.fleet.datasource import KdumpDataSource
from kdump.fleet.source import ranges
from kdump.tables import api
from kdump.tables.corruption import CorruptRange

pytestmark = pytest.mark.once

BASES = (0, 10, 20, 30)
GONE = f"{10:020d}.log"
GOING_ON = ("PERMISSIVE", "DROPMALFORMED")
COLUMNS = StructType(
    [StructField("offset", LongType()), StructField("_corrupt_record", StringType())]
)
Lost = list[tuple[str | None, int, int | None, str]]


def broker(parent: Path, bases: Sequence[int] = BASES, topic: str = "t") -> Path:
    shutil.rmtree(parent / f"{topic}-0", ignore_errors=True)
    content = {base: [batch(at, [record()] * 5) for at in (base, base + 5)] for base in bases}
    write_partition(parent, topic, 0, content)
    (parent / "meta.properties").write_text("version=1\n")
    return parent


def bad_rows(directory: Path) -> list[dict[str, Any]]:
    lines = [line for file in directory.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: row["first_offset"])


def lost(directory: Path) -> Lost:
    return [
        (
            row["path"] and Path(row["path"]).name,
            *(row[name] for name in ("first_offset", "last_offset", "reason")),
        )
        for row in bad_rows(directory)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return broker(tmp_path / "data")


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return tmp_path / "bad"


# --- segments that vanish


@pytest.mark.parametrize("mode", GOING_ON)
@pytest.mark.parametrize("schema", [{}, {"schema": "kafka"}])
def test_a_log_that_is_gone_gives_a_row(
    mode: str, schema: dict[str, str], data: Path, bad: Path
) -> None:
    options = {"failOnDataLoss": "false", "mode": mode, "badRecordsPath": str(bad), **schema}
    reader, tasks = planned(data, **options)
    (data / "t-0" / GONE).unlink()
    found = [row["offset"] for row in rows(reader, tasks)]
    assert found == [*range(10), *range(20, 40)]
    assert lost(bad) == [(GONE, 10, 19, "vanished")]
    assert bad_rows(bad)[0]["topic"] == "t"
    assert found == [row["offset"] for row in rows(reader, tasks)]  # the task runs again
    assert len(lost(bad)) == 1


def test_committed_records_need_all_logs(data: Path) -> None:
    committed = {"schema": "kafka", "kafka.isolation.level": "read_committed"}
    reader, tasks = planned(data, failOnDataLoss="false", **committed)
    (data / "t-0" / GONE).unlink()
    with pytest.raises(VanishedError, match=GONE):
        rows(reader, tasks)


def test_of_a_log_that_is_gone_the_selected_offsets_are_lost(data: Path, bad: Path) -> None:
    options = {"failOnDataLoss": "false", "mode": "PERMISSIVE", "badRecordsPath": str(bad)}
    selected = {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":12}}'}
    reader, tasks = planned(data, COLUMNS, **options, **selected)
    for base in (10, 30):
        (data / f"t-0/{base:020d}.log").unlink()
    found = rows(reader, tasks)
    assert lost(bad) == [(GONE, 12, 19, "vanished"), (f"{30:020d}.log", 30, None, "vanished")]
    shown = [row["_corrupt_record"] for row in found if row["_corrupt_record"] is not None]
    assert sorted(map(json.loads, shown), key=lambda row: row["first_offset"]) == bad_rows(bad)


@pytest.fixture
def stream(data: Path, bad: Path) -> Stream:
    options = {"mode": "PERMISSIVE", "badRecordsPath": str(bad), "failOnDataLoss": "false"}
    return Stream(data, **options)


def test_a_stream_whose_next_segments_are_gone_writes_a_row(
    stream: Stream, data: Path, bad: Path
) -> None:
    stream.batch(ReadMaxRows(5))
    broker(data, (20, 30, 40))
    assert stream.batch() == {"t-0": list(range(20, 40))}
    assert lost(bad) == [("t-0", 5, 19, "vanished")]


def test_a_stream_whose_segments_vanish_before_their_task_begins_writes_a_row(
    stream: Stream, data: Path, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_WAIT_S", 0)
    reader, tasks = stream.plan()
    broker(data, (10, 20))
    assert stream_rows(reader, tasks) == {"t-0": list(range(10, 20))}
    assert lost(bad) == [("t-0", 0, 9, "vanished"), ("t-0", 20, 29, "vanished")]
    shutil.rmtree(bad)
    shutil.rmtree(data / "t-0")
    assert stream_rows(reader, tasks) == {}
    assert lost(bad) == [("t-0", 0, 29, "vanished")]


def test_a_stream_whose_partition_is_gone_writes_a_row(
    stream: Stream, data: Path, bad: Path
) -> None:
    broker(data, topic="u")
    stream.batch()
    shutil.rmtree(data / "t-0")
    for _ in range(2):
        assert stream.batch() == {}
        assert lost(bad) == [(None, 30, None, "vanished")]
    assert bad_rows(bad)[0]["topic"] == "t"


def test_a_stream_that_starts_without_the_logs_of_a_partition(data: Path, bad: Path) -> None:
    broker(data, topic="u")
    (data / "replication-offset-checkpoint").write_text("0\n2\nt 0 40\nu 0 40\n")
    for log in (data / "t-0").glob("*.log"):
        log.unlink()
    with pytest.raises(DecodeError, match="t-0: offsets 0 to 39 cannot be read"):
        Stream(data).batch()
    stream = Stream(data, mode="PERMISSIVE", badRecordsPath=str(bad))
    assert stream.batch() == {"u-0": list(range(30))}
    assert lost(bad) == [("t-0", 0, 39, "missing-offsets")]
    assert Stream(data, startingOffsets="latest").batch() == {}
    assert Stream(data, broker(data.parent / "other")).batch().keys() == {"t-0", "u-0"}


def test_the_driver_knows_ranges_that_the_column_of_the_mode_shows(
    data: Path, bad: Path, stream: Stream
) -> None:
    stream.batch(ReadMaxRows(5))
    before = stream.checkpoint
    broker(data, (20, 30, 40))
    stream.plan()
    source = KdumpDataSource({"path": str(data), **stream.options})
    reader = source.streamReader(COLUMNS)
    start, end = json.loads(before), json.loads(stream.checkpoint)
    shown: list[dict[str, Any]] = []
    for task in reader.partitions(start, end):
        for table in reader.read(task):
            assert isinstance(table, pa.RecordBatch)
            shown += table.to_pylist()
    assert shown[0]["offset"] == 5
    assert json.loads(shown[0]["_corrupt_record"])["reason"] == "vanished"
    assert [row["offset"] for row in shown[1:]] == list(range(20, 40))
    (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    for log in (data / "t-0").glob("*.log"):
        log.unlink()
    (row,) = query(data, COLUMNS, mode="PERMISSIVE", badRecordsPath=str(bad))
    assert (row["offset"], json.loads(row["_corrupt_record"])["reason"]) == (0, "missing-offsets")


# --- records in remote storage

OFFSETS = json.loads((ROOT / "brokers" / f"{TIERED[0]}.offsets.json").read_text())["tiered"]
START, LOCAL, END = OFFSETS["start"], OFFSETS["local"], OFFSETS["end"]
REMOTE = [("tiered-0", START, LOCAL - 1, "in-remote-storage")]
TOPIC = {"subscribe": "tiered"}


@pytest.fixture
def tiered(tmp_path: Path) -> Path:
    return copy_fixture(TIERED[0], tmp_path / "tiered")


@pytest.fixture
def sealed(tiered: Path) -> Path:
    """The first segment here is sealed."""
    (tiered / f"tiered-0/{END:020d}.log").touch()
    return tiered


def starting(offset: int) -> dict[str, str]:
    return {**TOPIC, "startingOffsets": f'{{"tiered":{{"0":{offset}}}}}'}


def ending(offset: int) -> dict[str, str]:
    return {**TOPIC, "endingOffsets": f'{{"tiered":{{"0":{offset}}}}}'}


@pytest.mark.parametrize("layout", [{}, {"schema": "kafka"}])
def test_a_query_of_records_in_remote_storage_fails(layout: dict[str, str], tiered: Path) -> None:
    for options in (TOPIC, starting(START + 3), ending(START + 9), {}):
        with pytest.raises(DecodeError) as failure:
            query(tiered, **layout, **options)
        text = str(failure.value)
        first = START + 3 if "startingOffsets" in options else START
        last = START + 8 if "endingOffsets" in options else LOCAL - 1
        assert text.startswith(f"tiered-0: offsets {first} to {last} cannot be read: ")
        assert "in-remote-storage" in text
        assert f"a log from offset {LOCAL} on" in text
        assert "startingOffsets" in text
        assert "badRecordsPath" in text


@pytest.mark.parametrize("layout", [{}, {"schema": "kafka"}])
def test_a_query_of_what_is_here_reads_it(layout: dict[str, str], tiered: Path) -> None:
    for first in (LOCAL, LOCAL + 5):
        rows = query(tiered, **layout, **starting(first))
        assert [row["offset"] for row in rows] == list(range(first, END))
    assert query(tiered, subscribe="copied,local,never-copied", **layout)
    (log, *_) = sorted((tiered / "tiered-0").glob("*.log"))
    assert query(log, **layout)


@pytest.mark.parametrize("mode", GOING_ON)
def test_a_query_that_goes_on_has_a_row_for_remote_storage(
    mode: str, tiered: Path, bad: Path
) -> None:
    options = {"mode": mode, "badRecordsPath": str(bad)}
    found = query(tiered, COLUMNS, **options, **TOPIC)
    offsets = [row["offset"] for row in found if row["_corrupt_record"] is None]
    assert offsets == list(range(LOCAL, END))
    assert len(found) - len(offsets) == (mode == "PERMISSIVE")
    assert lost(bad) == REMOTE
    shutil.rmtree(bad)
    query(tiered, **options, **starting(START + 3))
    assert lost(bad) == [("tiered-0", START + 3, LOCAL - 1, "in-remote-storage")]
    shutil.rmtree(bad)
    assert query(tiered, **options, **ending(START + 9)) == []
    assert lost(bad) == [("tiered-0", START, START + 8, "in-remote-storage")]


def test_an_offset_below_the_log_start_is_none_of_remote_storage(tiered: Path) -> None:
    with pytest.raises(UsageError, match=f"expected {START} or more for tiered-0, found 3"):
        query(tiered, **starting(3))


def test_records_of_a_time_may_be_in_remote_storage(tiered: Path, bad: Path) -> None:
    options = {"mode": "PERMISSIVE", "badRecordsPath": str(bad)}
    found = query(tiered, startingTimestamp="0", **options, **TOPIC)
    assert [row["offset"] for row in found] == list(range(LOCAL, END))
    assert lost(bad) == REMOTE
    shutil.rmtree(bad)
    late = max(row["timestamp"] for row in found)
    assert query(tiered, startingTimestamp=str(late), **options, **TOPIC)
    assert lost(bad) == []


def test_the_logs_of_a_tiered_topic_may_be_gone(tiered: Path, bad: Path) -> None:
    for log in (tiered / "tiered-0").glob("*.log"):
        log.unlink()
    options = {"mode": "PERMISSIVE", "badRecordsPath": str(bad)}
    assert query(tiered, **options, **TOPIC) == []
    first, *others = lost(bad)
    assert first[1:] == (START, first[2], "in-remote-storage")
    assert isinstance(first[2], int)
    high_watermark = [("tiered-0", first[2] + 1, END - 1, "missing-offsets")]
    assert others == high_watermark


def test_a_stream_of_records_in_remote_storage_does_not_begin(sealed: Path) -> None:
    with pytest.raises(DecodeError, match=f"tiered-0: offsets {START} to {LOCAL - 1} cannot be"):
        Stream(sealed, **TOPIC).batch()
    stream = Stream(sealed, **starting(LOCAL))
    (found,) = stream.batch().values()
    assert found[0] == LOCAL


@pytest.mark.slow
@pytest.mark.parametrize("mode", GOING_ON)
def test_a_stream_that_goes_on_has_a_row_for_remote_storage(
    mode: str, sealed: Path, bad: Path
) -> None:
    stream = Stream(sealed, mode=mode, badRecordsPath=str(bad), **TOPIC)
    (found,) = stream.batch().values()
    assert found[0] == LOCAL
    assert lost(bad) == REMOTE
    again = Stream(sealed, mode=mode, badRecordsPath=str(bad / "again"), **TOPIC)
    for _ in range(10):
        again.batch(ReadMaxRows(50))
    assert again.got == {"tiered-0": found}
    rows = lost(bad / "again")
    assert rows[0][1] == START
    assert rows[-1][2] == LOCAL - 1
    assert [row[1] for row in rows[1:]] == [(row[2] or 0) + 1 for row in rows[:-1]]


def test_a_stream_reads_a_copy_that_has_what_is_in_remote_storage(
    sealed: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    write_partition(
        other,
        "tiered",
        0,
        {base: [batch(base, [record()] * 10)] for base in range(START, LOCAL, 10)},
        files={"partition.metadata": (sealed / "tiered-0/partition.metadata").read_bytes()},
    )
    (other / "meta.properties").write_text("version=1\n")
    stream = Stream(sealed, other, **TOPIC)
    assert stream.batch() == {"tiered-0": list(range(START, LOCAL - 9))}


def test_a_tiered_partition_that_joins_a_stream(sealed: Path, bad: Path) -> None:
    shutil.move(sealed / "tiered-0", sealed.parent / "aside")
    options = {
        "mode": "PERMISSIVE",
        "badRecordsPath": str(bad),
        "subscribePattern": "^(tiered|copied)$",
    }
    stream = Stream(sealed, **options)
    stream.batch()
    assert {row[3] for row in lost(bad)} == {"in-remote-storage", "partition-missing"}
    shutil.rmtree(bad)
    shutil.move(sealed.parent / "aside", sealed / "tiered-0")
    assert stream.batch()["tiered-0"][0] == LOCAL
    assert lost(bad) == REMOTE


def test_segments_that_went_to_remote_storage_before_a_stream_read_them(
    tiered: Path, bad: Path
) -> None:
    """They are not lost: failOnDataLoss says nothing of them."""
    for mode, options in (("FAILFAST", {}), ("PERMISSIVE", {"badRecordsPath": str(bad)})):
        stream = Stream(tiered, mode=mode, **options, **starting(LOCAL))
        stream.plan()
        stream.checkpoint = stream.checkpoint.replace(*(_position(stream, START + 7)))
        reader = stream.reader()
        start = json.loads(stream.checkpoint)
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if mode == "FAILFAST":
            with pytest.raises(DecodeError, match="in-remote-storage"):
                reader.partitions(start, end)
        else:
            reader.partitions(start, end)
            assert lost(bad) == [("tiered-0", START + 7, LOCAL - 1, "in-remote-storage")]
    below = json.loads(stream.checkpoint.replace(f": {START + 7}", ": 3"))
    with pytest.raises(SourceError, match=f"expected offsets 3 to {START - 1}, not read so far"):
        reader.partitions(below, end)


def _position(stream: Stream, offset: int) -> tuple[str, str]:
    """The position of the only partition, and another one."""
    ((((_, number),),),) = (
        [list(numbers.items()) for ids in stream.next.values() for numbers in ids.values()],
    )
    return f": {number}", f": {offset}"


def test_tables_of_records_in_remote_storage(tiered: Path) -> None:
    with pytest.raises(DecodeError, match=f"tiered-0: offsets {START} to {LOCAL - 1} cannot be"):
        api.records(tiered).read_all()
    reported: list[CorruptRange] = []
    found = api.records(tiered / "tiered-0", strict=False, corrupt=reported.append).read_all()
    assert found["offset"].to_pylist() == list(range(LOCAL, END))
    assert [(each.first_offset, each.last_offset) for each in reported] == [(START, LOCAL - 1)]
    (log, *_) = sorted((tiered / "tiered-0").glob("*.log"))
    assert api.records(log).read_all().num_rows


def test_tables_of_a_partition_whose_logs_are_gone(data: Path) -> None:
    (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    for log in (data / "t-0").glob("*.log"):
        log.unlink()
    with pytest.raises(DecodeError, match="t-0: offsets 0 to 39 cannot be read"):
        api.records(data).read_all()
