"""spark.read.format("kdump"): its tables hold what the commands print, column by column."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.commands import kdump
from support.dumps import dumped, served
from support.fixtures_loader import REPLICAS, consumed, copy_fixture
from support.forge import batch, flip, record, write_partition

pyspark = pytest.importorskip("pyspark")

from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql import DataFrame, Row  # noqa: E402
from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    InputPartition,
)
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kdump.fleet.datasource import register  # noqa: E402
from kdump.fleet.session.session import Cluster, Session, open_session  # noqa: E402
from kdump.tables.schema import TABLES  # noqa: E402

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session(Cluster(master="local[2]")) as started:
        register(started.spark)
        yield started


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_fixture("4.3.1/killed", tmp_path_factory.mktemp("broker") / "data")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition with a bad batch between two others."""
    batches = [batch(at, [record(b"v" * 9)] * 5) for at in (0, 5, 10)]
    batches[1] = flip(batches[1], -1)
    return write_partition(tmp_path_factory.mktemp("damaged"), "t", 3, {0: batches})


def load(session: Session, *paths: Path, schema: str = "", **options: object) -> DataFrame:
    reader = session.spark.read.format("kdump").options(**{k: str(v) for k, v in options.items()})
    reader = reader.schema(schema) if schema else reader
    return reader.load(str(paths[0]) if len(paths) == 1 else list(map(str, paths)))


@pytest.mark.nightly
def test_the_whole_table_is_there_in_both_languages(session: Session, broker: Path) -> None:
    frame = load(session, broker)
    assert frame.columns == TABLES["records"].names
    frame.createOrReplaceTempView("records")
    found = session.spark.sql(
        "select topic, count(*) n, min(offset) first, max(offset) last from records "
        "where not control group by topic order by topic"
    )
    expected: dict[str, list[int]] = {}
    for line in dumped("--records", broker):
        if not line["control"]:
            expected.setdefault(line["topic"], []).append(line["offset"])
    assert [tuple(row) for row in found.collect()] == [
        (topic, len(offsets), min(offsets), max(offsets))
        for topic, offsets in sorted(expected.items())
    ]


def test_named_columns_alone_are_read_and_filters_are_right(
    session: Session, damaged: Path
) -> None:
    frame = load(session, damaged, schema="value BINARY, offset BIGINT", mode="DROPMALFORMED")
    assert frame.columns == ["value", "offset"]
    assert [row.offset for row in frame.collect()] == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    rows = frame.filter("offset >= 4 and offset < 12").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [
        (offset, b"v" * 9) for offset in (4, 10, 11)
    ]


def test_damage_has_its_row_among_the_batches(session: Session, damaged: Path) -> None:
    (log,) = damaged.glob("*.log")
    rows = load(session, damaged, table="batches").orderBy("position").collect()
    assert [row.damage for row in rows] == [None, "bad-checksum", None]
    assert [row.base_offset for row in rows] == [0, None, 10]
    assert sum(row["size"] for row in rows) == log.stat().st_size
    assert {(row.topic, row.partition, row.source_file) for row in rows} == {("t", 3, str(log))}


@pytest.mark.parametrize("deep", [False, True])
def test_findings_are_those_of_verify(session: Session, broker: Path, deep: bool) -> None:
    rows = load(session, broker, table="findings", deep=deep).collect()
    said = kdump("verify", *(["--deep"] if deep else []), broker)
    names = ("code", "severity", "path", "position", "size", "repeats")
    expected = {tuple(line[name] for name in names) for line in said.of("finding")}
    assert {tuple(row[name] for name in names) for row in rows} == expected
    assert expected


def test_copies_are_those_of_compare(session: Session, tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "top")
    paths = [top / node for node in ("1", "2", "3")]
    rows = load(session, *paths, table="copies", topic="[pr]*").collect()
    said = kdump("compare", "--topic", "[pr]*", *paths)
    names = ("topic", "partition", "copy", "path", "log_end_offset", "in_sync", "preference")
    expected = [tuple(line[name] for name in names) for line in said.of("copy")]
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(expected)
    assert {(row.topic, row.state, row.first) for row in rows} == {
        (line["topic"], line["state"], line["first"]) for line in said.of("partition")
    }
    differences = (
        load(session, *paths, table="copies", topic="[pr]*")
        .selectExpr("topic", "copy", "inline(differences) as (other, kind, offset, detail)")
        .where("copy < other")
    )
    assert sorted(map(tuple, differences.collect())) == sorted(
        (line["topic"], *line["copies"], line["kind"], line["offset"], line["detail"])
        for line in said.of("difference")
    )
    assert differences.count() > 1


def test_several_paths_are_one_table(session: Session, damaged: Path, broker: Path) -> None:
    given = {"schema": "offset BIGINT", "mode": "DROPMALFORMED"}
    alone = [load(session, path, **given).count() for path in (damaged, broker)]
    assert load(session, damaged, broker, **given).count() == sum(alone)


def test_a_query_fails_at_corruption_or_has_rows_for_it(
    session: Session, damaged: Path, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match=r"t-3: offsets 5 to 9 cannot be .*PERMISSIVE"):
        load(session, damaged, schema="offset BIGINT").collect()
    bad = {"mode": "PERMISSIVE", "badRecordsPath": tmp_path / "bad"}
    schema = "offset BIGINT, _corrupt_record STRING"
    rows = load(session, damaged, schema=schema, **bad).collect()
    assert sorted(row.offset for row in rows) == [*range(6), *range(10, 15)]
    (reported,) = [row for row in rows if row[1] is not None]
    assert (reported.offset, json.loads(reported[1])["last_offset"]) == (5, 9)
    (row,) = session.spark.read.json(str(tmp_path / "bad")).collect()
    assert (row.topic, row.partition, row.first_offset, row.last_offset) == ("t", 3, 5, 9)
    assert row.reason == "bad-checksum"


@pytest.mark.parametrize(
    ("options", "schema", "what"),
    [
        ({"table": "topics"}, "", "expected records or batches or findings or copies, found"),
        ({"mode": "lenient"}, "", "expected failfast or permissive or dropmalformed, found"),
        ({"tabel": "batches"}, "", "option tabel: expected one of path"),
        ({}, "offset INT", "column offset of the table records: expected bigint, found int"),
        ({}, "offsets BIGINT", "column offsets of the table records: expected one of topic"),
        ({"topic": "nothing*"}, "", "expected a pattern that some topic matches"),
    ],
)
def test_what_is_wrong_is_said(
    session: Session, broker: Path, options: dict[str, str], schema: str, what: str
) -> None:
    with pytest.raises(PySparkException, match=what):
        load(session, broker, schema=schema, **options).collect()


#: As ``KafkaRecordToRowConverter`` has it.
KAFKA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(
                StructType([StructField("key", StringType()), StructField("value", BinaryType())])
            ),
        ),
    ]
)


def consumed_row(line: dict[str, Any]) -> tuple[Any, ...]:
    """A line of a dump as Spark's Kafka source has it, times in ms."""
    return (
        *(line[name] for name in ("key", "value", "topic", "partition", "offset", "timestamp")),
        ("CreateTime", "LogAppendTime").index(line["timestamp_type"]),
        [(each["key"].decode(), each["value"]) for each in line["headers"]] or None,
    )


def milliseconds(row: Row) -> tuple[Any, ...]:
    stamp = row.timestamp.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    headers = row.headers and [(each.key, each.value and bytes(each.value)) for each in row.headers]
    return (
        *(None if each is None else bytes(each) for each in row[:2]),
        *row[2:5],
        stamp // timedelta(milliseconds=1),
        row.timestampType,
        headers,
    )


def test_a_query_of_the_kafka_source_runs_with_two_changed_lines(
    session: Session, broker: Path
) -> None:
    frame = (
        session.spark.read.format("kdump")
        .options(schema="kafka", path=str(broker))
        .option("subscribe", "codec-zstd,log-append-time,deleted-records")
        .option("includeHeaders", "true")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "nightly")
        .load()
    )
    assert frame.schema == KAFKA
    lines = [
        line
        for line in served(broker, dumped("--records", broker))
        if line["topic"] in ("codec-zstd", "log-append-time", "deleted-records")
    ]
    found = [milliseconds(row) for row in frame.collect()]
    assert sorted(found, key=repr) == sorted(map(consumed_row, lines), key=repr)
    assert {line["partition"] for line in lines} == {0, 1}


def test_tables_by_name(session: Session, broker: Path) -> None:
    """With the options that Spark adds to those of a table, such as owner."""
    sql = session.spark.sql
    sql(
        "create table by_name using kdump options (schema 'kafka', subscribe 'transfers', "
        f"'kafka.isolation.level' 'read_committed', path '{broker.parent}/*') "
        "comment 'transfers' tblproperties (department = 'payments')"
    )
    found = sql("select partition, offset from by_name where partition = 1")
    committed = consumed("4.3.1/killed")["transfers-1", "read_committed"].read_text()
    expected = [(1, json.loads(line)["offset"]) for line in committed.splitlines()]
    assert sorted(map(tuple, found.collect())) == expected
    assert expected
    sql(f"create table of_all using kdump location '{broker}'")
    assert sql("select * from of_all").columns == TABLES["records"].names
    for name in ("by_name", "of_all"):
        sql(f"drop table {name}")
    assert sorted(broker.rglob("*.log"))


def pushing() -> type[DataSource]:
    """A data source of numbers, of which a pushed filter selects one; workers get it by value."""

    class Reader(DataSourceReader):
        numbers = (1, 2, 3)

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
            self.numbers = tuple(one.value for one in filters if isinstance(one, EqualTo))
            return [one for one in filters if not isinstance(one, EqualTo)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in self.numbers)

    class Pushing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushing"

        def schema(self) -> str:
            return "number int"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return Pushing


def test_spark_still_applies_a_pushed_filter_to_other_scans(session: Session) -> None:
    """Why this data source has no pushFilters. Where this fails, Spark has mended it."""
    spark = session.spark
    spark.dataSource.register(pushing())
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("pushing").load()
        both = frame.where("number = 1").union(frame.where("number = 3"))
        assert [row.number for row in both.collect()] == [3, 3]
        assert [row.number for row in frame.collect()] == [3]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_missing_path_is_no_empty_table(session: Session, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="gone"):
        load(session, tmp_path / "gone").collect()


# --- streams


def segments_up_to(source: Path, target: Path, count: int) -> None:
    """Let ``target`` have what a partition had when its segment ``count`` was the active one."""
    target.mkdir(exist_ok=True)
    bases = sorted(file.stem for file in source.glob("*.log"))
    for file in source.iterdir():
        if file.stem in bases[:count] or not file.stem.isdigit():
            shutil.copy(file, target / file.name)


def test_a_stream_goes_on_from_its_checkpoint(
    session: Session, broker: Path, tmp_path: Path
) -> None:
    """What is sealed at each start, then segments that vanished before they were read."""
    data = tmp_path / "data"
    data.mkdir()
    got: dict[int, list[Row]] = {}
    # Without checkpoints, which would say that more is to be here.
    shutil.copy(broker / "meta.properties", data)

    def keep(frame: DataFrame, number: int) -> None:
        got[number] = frame.collect()

    def run(**options: str) -> list[tuple[Any, ...]]:
        stream = session.spark.readStream.format("kdump").options(schema="kafka", **options)
        query = (
            stream.option("subscribePattern", "^(transfers|transactions|codec-zstd)$")
            .option("includeHeaders", "true")
            .load(str(data))
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [milliseconds(row) for number in sorted(got) for row in got[number]]

    names = ("transfers-0", "transfers-1", "transactions-0", "codec-zstd-0")
    for name in names[1:]:
        segments_up_to(broker / name, data / name, 2)
    few = run(maxOffsetsPerTrigger="60")
    assert len(got) > 1
    active = {}
    for name in names:
        segments_up_to(broker / name, data / name, 1000)
        active[name] = max(int(file.stem) for file in (data / name).glob("*.log"))
    found = run()
    assert found[: len(few)] == few
    assert len(found) > len(few)
    by_partition: dict[object, list[int]] = {}
    for row in found:
        by_partition.setdefault(row[2:4], []).append(row[4])
    assert all(offsets == sorted(offsets) for offsets in by_partition.values())
    committed = {"schema": "kafka", "kafka.isolation.level": "read_committed"}
    reader = session.spark.read.format("kdump").options(**committed, includeHeaders="true")
    rows = reader.load(str(data)).collect()
    expected = [row for row in rows if row.offset < active[f"{row.topic}-{row.partition}"]]
    assert sorted(found, key=repr) == sorted(map(milliseconds, expected), key=repr)
    kept = {"partition.metadata": (data / "codec-zstd-0/partition.metadata").read_bytes()}
    later = active["codec-zstd-0"] + 50
    shutil.rmtree(data / "codec-zstd-0")
    content = {base: [batch(base, [record()] * 5)] for base in (later, later + 5)}
    write_partition(data, "codec-zstd", 0, content, files=kept)
    with pytest.raises(PySparkException, match="not read so far, found offsets"):
        run()
    assert len(run(failOnDataLoss="false")) == len(found) + 5
