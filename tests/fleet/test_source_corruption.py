"""Corruption in queries and streams: an error that names it, or rows that say what is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.fixtures_loader import copy_fixture
from support.forge import batch, flip, marker, record, write_partition

pytest.importorskip("pyspark.sql.streaming.datasource")

from pyspark.sql.types import LongType, StringType, StructField, StructType

from fleet.source_queries import query
from fleet.stream_batches import Stream
from kdump.audit.targets.target import Root
from kdump.errors import DecodeError, KdumpError, UsageError
from kdump.tables import api
from kdump.tables.corruption import CorruptRange

pytestmark = pytest.mark.once

GOING_ON = ("PERMISSIVE", "DROPMALFORMED")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Offsets 0 to 29, without 5 to 9 and 25 to 29, whose batches are corrupt."""
    batches = [batch(at, [record()] * 5) for at in range(0, 35, 5)]
    for at in (1, 5):
        batches[at] = flip(batches[at], -1)
    segments = {0: batches[:2], 10: batches[2:4], 20: batches[4:6], 30: batches[6:]}
    write_partition(tmp_path / "data", "t", 3, segments)
    (tmp_path / "data/meta.properties").write_text("version=1\n")
    return tmp_path / "data"


def bad_rows(directory: Path) -> list[dict[str, Any]]:
    lines = [line for file in directory.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: (row["path"], row["first_offset"]))


def lost(directory: Path) -> list[tuple[Any, ...]]:
    return [
        (
            f"{row['topic']}-{row['partition']}",
            row["position"],
            row["first_offset"],
            row["last_offset"],
            row["reason"],
        )
        for row in bad_rows(directory)
    ]


SIZE = len(batch(0, [record()] * 5))
LOST = [("t-3", SIZE, 5, 9, "bad-checksum"), ("t-3", SIZE, 25, 29, "bad-checksum")]
SOUND = [*range(5), *range(10, 25), *range(30, 35)]


def test_a_query_fails_by_default_and_says_where_and_what_to_do(path: Path) -> None:
    for options in ({}, {"mode": "FAILFAST"}, {"schema": "kafka"}, {"mode": "failfast"}):
        with pytest.raises(DecodeError) as failure:
            query(path, **options)
        text = str(failure.value)
        assert text.startswith("t-3: offsets 5 to 9 cannot be read: ")
        assert f"/t-3/{0:020d}.log: bad-checksum at position {SIZE}, {SIZE} bytes; " in text
        assert "mode PERMISSIVE or DROPMALFORMED" in text
        assert "badRecordsPath" in text
    with pytest.raises(DecodeError, match="strict=False"):
        api.records(path).read_all()


def test_a_stream_fails_by_default_and_its_batch_can_run_again(path: Path) -> None:
    stream = Stream(path)
    with pytest.raises(DecodeError, match="t-3: offsets 5 to 9 cannot be read"):
        stream.batch()
    assert stream.got == {}
    assert query(path, endingOffsets='{"t":{"3":5}}', subscribe="t")[-1]["offset"] == 4


@pytest.mark.parametrize("mode", GOING_ON)
def test_a_query_that_goes_on_writes_a_row_for_each_range(
    mode: str, path: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # what runs again writes the same files
        rows = query(path, mode=mode, badRecordsPath=str(tmp_path / "bad"))
        assert [row["offset"] for row in rows] == SOUND
        assert lost(tmp_path / "bad") == LOST
    (row, _) = bad_rows(tmp_path / "bad")
    assert row["path"] == str(path / "t-3/00000000000000000000.log")
    assert row["size"] == SIZE
    within = {"startingOffsets": '{"t":{"3":12}}', "subscribe": "t"}
    query(path, mode=mode, badRecordsPath=str(tmp_path / "later"), **within)
    assert lost(tmp_path / "later") == LOST[1:]


@pytest.mark.parametrize("mode", GOING_ON)
def test_a_stream_that_goes_on_writes_a_row_for_each_range(
    mode: str, path: Path, tmp_path: Path
) -> None:
    stream = Stream(path, mode=mode, badRecordsPath=str(tmp_path / "bad"))
    assert stream.batch() == {"t-3": [*range(5), *range(10, 25)]}
    assert lost(tmp_path / "bad") == LOST
    assert stream.batch() == {}


def test_in_tables_the_caller_gets_each_range(path: Path) -> None:
    reported: list[CorruptRange] = []
    rows = api.records(path, strict=False, corrupt=reported.append).read_all().to_pylist()
    assert [row["offset"] for row in rows] == SOUND
    assert [(one.topic, one.partition, one.first_offset, one.last_offset) for one in reported] == [
        ("t", 3, 5, 9),
        ("t", 3, 25, 29),
    ]


def test_the_table_of_batches_has_rows_for_it_by_default(path: Path) -> None:
    assert sum(row["damage"] is not None for row in query(path, table="batches")) == 2
    with pytest.raises(DecodeError, match=f"bad-checksum at position {SIZE}"):
        query(path, table="batches", mode="failfast")


# --- the column of the mode PERMISSIVE

CORRUPT = StructField("_corrupt_record", StringType())
OFFSET = StructField("offset", LongType())


@pytest.mark.parametrize("layout", [{}, {"schema": "kafka"}])
def test_a_schema_may_have_a_column_for_corrupt_ranges(layout: dict[str, str], path: Path) -> None:
    columns = StructType([OFFSET, CORRUPT])
    rows = query(path, columns, mode="PERMISSIVE", **layout)
    assert [row["offset"] for row in rows if row["_corrupt_record"] is None] == SOUND
    reported = [row for row in rows if row["_corrupt_record"] is not None]
    assert [row["offset"] for row in reported] == [5, 25]
    assert json.loads(reported[0]["_corrupt_record"])["last_offset"] == 9
    dropped = query(path, columns, mode="DROPMALFORMED", **layout)
    assert dropped == [{"offset": offset, "_corrupt_record": None} for offset in SOUND]
    alone = query(path, StructType([CORRUPT]), mode="PERMISSIVE", **layout)
    assert len(alone) == len(rows)


# --- options


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"badRecordsPath": "/bad"}, "expected mode PERMISSIVE or DROPMALFORMED with it"),
        ({"mode": "lenient"}, "expected failfast or permissive or dropmalformed, found lenient"),
        ({"badRecordsPath": "/bad", "table": "findings"}, "expected the table records"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], what: str, path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        query(path, **options)


def test_no_row_is_written_into_a_log_directory(path: Path) -> None:
    before = sorted(path.rglob("*"))
    for inside in (path, path / "bad", path / "t-3"):
        with pytest.raises(UsageError, match="expected a place outside of log directories"):
            query(path, mode="PERMISSIVE", badRecordsPath=str(inside))
    assert sorted(path.rglob("*")) == before


def test_rows_that_cannot_be_written_fail_the_query(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KdumpError, match="cannot be"):
        query(path, mode="PERMISSIVE", badRecordsPath=str(tmp_path / "file/bad"))


# --- transactions


def in_transaction(offset: int) -> bytes:
    return batch(
        offset, [record()], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )


def test_a_transaction_whose_marker_may_be_lost(tmp_path: Path) -> None:
    end = flip(marker(2, 7, commit=True), -1)
    log = [batch(0, [record()]), in_transaction(1), end, batch(3, [record()])]
    write_partition(tmp_path / "data", "t", 0, {0: log})
    options = {
        "schema": "kafka",
        "kafka.isolation.level": "read_committed",
        "mode": "PERMISSIVE",
        "badRecordsPath": str(tmp_path / "bad"),
    }
    assert [row["offset"] for row in query(tmp_path / "data/t-0", **options)] == [0, 3]
    assert {(first, reason) for _, _, first, _, reason in lost(tmp_path / "bad")} == {
        (1, "transaction-end-lost"),
        (2, "bad-checksum"),
    }


# --- what is missing without damage


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "broker")


def offsets(
    top: Path, tmp_path: Path
) -> tuple[list[int], list[tuple[str, int | None, int, Any, str]]]:
    """The offsets of idempotent-0, and the ranges that are reported."""
    bad = tmp_path / "bad"
    shutil.rmtree(bad, ignore_errors=True)
    options = {"subscribe": "idempotent", "mode": "PERMISSIVE", "badRecordsPath": str(bad)}
    rows = query(top, **options)
    try:
        query(top, subscribe="idempotent")
    except DecodeError:
        assert lost(bad)
    else:
        assert not lost(bad)
    return sorted(row["offset"] for row in rows), lost(bad)


def cut(log: Path, count: int) -> int:
    """Leave so many batches; return the next offset."""
    table = api.batches(log).read_all().to_pylist()
    os.truncate(log, table[count]["position"])
    return int(table[count]["base_offset"])


def logs_in(top: Path) -> Sequence[Path]:
    return sorted((top / "idempotent-0").glob("*.log"))


def test_a_sealed_segment_that_was_cut_between_batches(broker: Path, tmp_path: Path) -> None:
    whole, reported = offsets(broker, tmp_path)
    assert not reported
    first, second, *_ = logs_in(broker)
    end, base = cut(first, 3), int(second.stem)
    found, reported = offsets(broker, tmp_path)
    assert reported == [("idempotent-0", None, end, base - 1, "missing-offsets")]
    assert found == [offset for offset in whole if not end <= offset < base]
    stream = Stream(broker, subscribe="idempotent")
    with pytest.raises(DecodeError, match=f"offsets {end} to {base - 1} cannot be read"):
        stream.batch()


def test_a_segment_that_is_missing_between_others(broker: Path, tmp_path: Path) -> None:
    _, second, third, *_ = logs_in(broker)
    second.unlink()
    _, reported = offsets(broker, tmp_path)
    first, last = int(second.stem), int(third.stem) - 1
    assert reported == [("idempotent-0", None, first, last, "missing-offsets")]


def test_a_log_that_ends_below_the_high_watermark(broker: Path, tmp_path: Path) -> None:
    whole, _ = offsets(broker, tmp_path)
    last = logs_in(broker)[-1]
    last.unlink()
    found, reported = offsets(broker, tmp_path)
    assert reported == [("idempotent-0", None, found[-1] + 1, whole[-1], "missing-offsets")]
    for log in logs_in(broker):
        log.unlink()
    found, reported = offsets(broker, tmp_path)
    assert not found
    assert reported == [("idempotent-0", None, 0, whole[-1], "missing-offsets")]


def test_a_torn_tail_is_the_end_of_a_log_that_a_broker_appends_to(
    broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = logs_in(broker)[-1]
    whole = batch(2**20, [record(b"v" * 99)])
    with last.open("ab") as log:
        log.write(whole[:-9])
    _, reported = offsets(broker, tmp_path)
    assert [row[4] for row in reported] == ["torn-tail"]
    monkeypatch.setattr(Root, "stopped", False)
    _, reported = offsets(broker, tmp_path)
    assert not reported


def test_compacted_logs_may_miss_offsets(broker: Path) -> None:
    assert query(broker, subscribe="compacted")
    assert query(broker, subscribe="__consumer_offsets")
