"""Segments and partitions that are gone: an error, or a row for each; never fewer rows alone."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fixtures_loader import copy_fixture
from support.metadata_ends import shortened, vanished_with_indexes

pytest.importorskip("pyspark.sql.streaming.datasource")

from fleet.source_queries import query
from fleet.stream_batches import COLUMNS, Stream
from kdump.errors import DecodeError
from kdump.fleet.source.columns import CORRUPT
from kdump.tables import api
from kdump.tables.corruption import CorruptRange
from support.long_samples import first_of

pytestmark = pytest.mark.once

Damage = Callable[[Path], object]
Offsets = dict[str, set[int]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Offsets:
    return by_partition(query(copy_fixture("4.3.1/clean", tmp_path_factory.mktemp("whole") / "b")))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def by_partition(rows: list[dict[str, Any]]) -> Offsets:
    found: Offsets = {}
    for row in rows:
        offsets = found.setdefault(f"{row['topic']}-{row['partition']}", set())
        assert row["offset"] not in offsets
        offsets.add(row["offset"])
    return found


def bad_rows(directory: Path) -> list[dict[str, Any]]:
    lines = [line for file in directory.glob("*.json") for line in file.read_text().splitlines()]
    return sorted(map(json.loads, lines), key=lambda row: (row["topic"], row["first_offset"]))


def first_segment(data: Path) -> None:
    for file in (data / "codec-none-0").glob(f"{0:020}.*"):
        file.unlink()


def last_segment(data: Path) -> None:
    """The recovery point alone says that it was there."""
    last = sorted((data / "codec-none-0").glob("*.log"))[-1]
    last.unlink()
    (data / "replication-offset-checkpoint").write_text("0\n0\n")


def partition(data: Path) -> None:
    shutil.rmtree(data / "codec-none-0")


def moving(data: Path) -> None:
    (data / NONE).rename(data / f"{NONE}.{'0' * 32}-future")


NONE = "codec-none-0"
TABLE = [
    (first_segment, (0, 59, "first-segment-missing")),
    (last_segment, (60, 121, "missing-offsets")),
    (partition, (0, 121, "partition-missing")),
    (moving, (0, 121, "in-future-log")),
]


@pytest.mark.parametrize(("damage", "expected"), TABLE)
@pytest.mark.parametrize("schema", first_of([{}, {"schema": "kafka"}], every=1))
def test_a_query_fails_or_has_a_row(
    schema: dict[str, str],
    damage: Damage,
    expected: tuple[int, int, str],
    data: Path,
    whole: Offsets,
    tmp_path: Path,
) -> None:
    damage(data)
    first, last, reason = expected
    with pytest.raises(DecodeError) as failure:
        query(data, **schema)
    text = str(failure.value)
    assert text.startswith(f"{NONE}: offsets {first} to {last} cannot be read: ")
    assert reason in text
    assert "mode PERMISSIVE or DROPMALFORMED" in text
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        bad = tmp_path / mode
        rows = query(data, mode=mode, badRecordsPath=str(bad), **schema)
        left = {each for each in whole[NONE] if not first <= each <= last}
        assert by_partition(rows).get(NONE, set()) == left
        (row,) = bad_rows(bad)
        assert (row["topic"], row["partition"]) == ("codec-none", 0)
        assert (row["first_offset"], row["last_offset"], row["reason"]) == expected


@pytest.mark.parametrize(("damage", "expected"), TABLE)
def test_in_tables_the_caller_gets_the_range(
    damage: Damage, expected: tuple[int, int, str], data: Path
) -> None:
    damage(data)
    with pytest.raises(DecodeError, match=f"{NONE}: offsets {expected[0]} to {expected[1]} cannot"):
        api.records(data).read_all()
    reported: list[CorruptRange] = []
    api.records(data, strict=False, corrupt=reported.append).read_all()
    ranges = [(each.first_offset, each.last_offset, each.reason) for each in reported]
    assert ranges == [expected]


def test_the_end_of_the_metadata_log_is_missing(tmp_path: Path) -> None:
    """No checkpoint has it; a batch and a stream read it as any other log."""
    data = copy_fixture("3.9.1/clean", tmp_path / "data")
    vanished_with_indexes(data)
    only = {"topic": "__cluster_metadata"}
    for fails in (query, lambda data, **options: Stream(data, **options).batch()):
        with pytest.raises(DecodeError, match=r"offsets 195 to 281 .*missing-offsets"):
            fails(data, **only)
    query(data, mode="DROPMALFORMED", badRecordsPath=str(tmp_path / "bad"), **only)
    assert ranges(tmp_path / "bad") == [(195, 281, "missing-offsets")]


def test_a_stream_misses_the_last_batches_of_the_metadata_log(tmp_path: Path) -> None:
    data = copy_fixture("3.9.1/clean", tmp_path / "data")
    shortened(60)(data)
    options = {"topic": "__cluster_metadata", "mode": "PERMISSIVE"}
    stream = Stream(data, badRecordsPath=str(tmp_path / "bad"), **options)
    stream.columns = COLUMNS.append(CORRUPT)
    stream.batch()
    ((first, last, reason),) = ranges(tmp_path / "bad")
    assert (last, reason) == (281, "metadata-end-missing")
    assert first < last


def test_what_is_not_selected_is_not_missing(data: Path, tmp_path: Path) -> None:
    first_segment(data)
    start = {"assign": '{"codec-none":[0]}', "startingOffsets": '{"codec-none":{"0":60}}'}
    assert len(query(data, **start)) == 62
    partition(data)
    assert query(data, subscribe="codec-zstd")
    assert query(data, exclude="codec-none")
    later = {"mode": "DROPMALFORMED", "startingTimestamp": f"{10**13}"}
    assert query(data, startingOffsetsByTimestampStrategy="latest", **later) == []
    assert query(data, endingTimestamp="0", mode="DROPMALFORMED") == []
    named = {"subscribe": "codec-none", "mode": "DROPMALFORMED", "badRecordsPath": f"{tmp_path}/b"}
    assert query(data, **named) == []
    assert len(bad_rows(tmp_path / "b")) == 1


def test_a_directory_without_any_partition_left(data: Path, tmp_path: Path) -> None:
    for path in data.glob("*-[0-9]"):
        shutil.rmtree(path)
    with pytest.raises(DecodeError, match="partition-missing"):
        query(data)
    bad = tmp_path / "bad"
    assert query(data, mode="PERMISSIVE", badRecordsPath=str(bad)) == []
    assert {(row["path"], row["reason"]) for row in bad_rows(bad)} == {(None, "partition-missing")}


def test_the_records_of_another_copy_are_read(data: Path, tmp_path: Path) -> None:
    partition(data)
    copy_fixture("4.3.1/clean", tmp_path / "other")
    rows = query(str(data), paths=json.dumps([str(data), str(tmp_path / "other")]), schema="kafka")
    assert sum(row["topic"] == "codec-none" for row in rows) == 122


def test_random_files_and_directories_go(data: Path, whole: Offsets, tmp_path: Path) -> None:
    """Each record is read, or lies in a range that has a row; a query by default fails."""
    chance = random.Random(44)
    candidates = [path for path in sorted(data.glob("codec-*")) if path.is_dir()]
    candidates += sorted(data.glob("codec-*/*.log"))
    for number in range(12):
        broken = copy_fixture("4.3.1/clean", tmp_path / f"{number}")
        victim = broken / chance.choice(candidates).relative_to(data)
        shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
        bad = tmp_path / f"bad{number}"
        options = {"mode": "DROPMALFORMED", "badRecordsPath": str(bad), "topic": "codec-*"}
        found = by_partition(query(broken, **options))
        for row in bad_rows(bad):
            name = f"{row['topic']}-{row['partition']}"
            missing = range(row["first_offset"], row["last_offset"] + 1)
            assert missing[0] not in found.get(name, set())
            found[name] = found.get(name, set()) | (whole[name] & set(missing))
        codecs = {name: offsets for name, offsets in whole.items() if name.startswith("codec-")}
        assert found == codecs, victim
        with pytest.raises(DecodeError):
            query(broken, topic="codec-*")


# --- streams


def ranges(bad: Path) -> list[tuple[int, int, str]]:
    return [(row["first_offset"], row["last_offset"], row["reason"]) for row in bad_rows(bad)]


STREAMED = [
    (first_segment, (0, 59, "first-segment-missing"), []),
    (last_segment, (60, 121, "missing-offsets"), [*range(60)]),  # a stream has not come to it
    (partition, (0, 121, "partition-missing"), [*range(60)]),
    (moving, (0, 121, "in-future-log"), [*range(60)]),
]


@pytest.mark.parametrize(("damage", "expected", "later"), STREAMED)
def test_a_stream_fails_or_has_a_row(
    damage: Damage,
    expected: tuple[int, int, str],
    later: list[int],
    data: Path,
    tmp_path: Path,
) -> None:
    aside = shutil.copytree(data / NONE, tmp_path / "aside")
    damage(data)
    first, last, reason = expected
    with pytest.raises(DecodeError, match=f"{NONE}: offsets {first} to {last} .*{reason}"):
        Stream(data, topic="codec-*").batch()
    bad = tmp_path / "bad"
    stream = Stream(data, topic="codec-*", mode="PERMISSIVE", badRecordsPath=str(bad))
    stream.columns = COLUMNS.append(CORRUPT)
    found = stream.batch()
    assert found.pop("codec-gzip-0")
    assert [row[:2] for row in ranges(bad)] == [expected[:2]]
    assert found["codec-none-0"] == [first]  # the row of the range, which the progress counts
    shutil.rmtree(data / NONE, ignore_errors=True)
    shutil.copytree(aside, data / NONE)
    assert stream.batch().get(NONE, []) == later
    assert ranges(bad) == [expected]
    assert stream.batch() == {}


def test_a_stream_that_starts_at_the_end_misses_no_partition(data: Path) -> None:
    partition(data)
    assert Stream(data, topic="codec-*", startingOffsets="latest").batch() == {}
