"""Queries of Spark's Kafka source run here with two changed lines, and return the same rows.

Both read the topics of all fixtures: one from a broker of 4.3.1, the other from its log directory.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import pytest

from brokers.broker import Broker
from brokers.jars import spark_connector
from support.fixture_broker import broker_of_all_fixtures

pyspark = pytest.importorskip("pyspark")

from py4j.protocol import Py4JJavaError  # noqa: E402
from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql import DataFrame  # noqa: E402

from kdump.fleet.datasource import register  # noqa: E402
from kdump.fleet.session.session import Cluster, open_session  # noqa: E402

pytestmark = [pytest.mark.nightly, pytest.mark.broker, pytest.mark.spark]

#: ``both(**options)``: what a query reads from the broker, and what from its directory.
Both = Callable[..., tuple[DataFrame, DataFrame]]
#: The topics of the fixtures, of whichever broker.
EVERY = {"subscribePattern": r"^\d"}
#: One topic of several partitions, and some of one.
TRANSFERS, CODECS = "4.3.1-killed.transfers", "4.3.1-clean.codec-gzip,2.8.2-clean.magic-0"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_of_all_fixtures(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def both(broker: Broker) -> Iterator[Both]:
    settings = {
        "spark.driver.extraClassPath": ":".join(map(str, spark_connector())),
        "spark.sql.shuffle.partitions": "2",
    }
    with open_session(Cluster(master="local[2]"), settings=settings) as session:
        register(session.spark)

        def load(options: Mapping[str, str], *changed: tuple[str, str], form: str) -> DataFrame:
            reader = session.spark.read.format(form)
            for name, value in (*changed, *options.items()):
                reader = reader.option(name, value)
            return reader.load()

        def read(**options: str) -> tuple[DataFrame, DataFrame]:
            theirs = load(options, ("kafka.bootstrap.servers", broker.bootstrap), form="kafka")
            directory = ("path", str(broker.directory))
            return theirs, load(options, ("schema", "kafka"), directory, form="kdump")

        yield read


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def test_every_row_of_every_topic(both: Both) -> None:
    theirs, ours = both(**EVERY, includeHeaders="true")
    assert ours.schema == theirs.schema
    expected = rows(theirs)
    assert len(expected) > 10_000
    assert rows(ours) == expected
    theirs, ours = both(**EVERY)
    assert ours.schema == theirs.schema


def test_committed_rows_of_every_topic(both: Both) -> None:
    level = {"kafka.isolation.level": "read_committed"}
    theirs, ours = both(**EVERY, **level)
    expected = rows(theirs)
    assert rows(ours) == expected
    assert len(expected) < both(**EVERY)[1].count()


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": CODECS},
        {"subscribePattern": "codec-l.*4$"},
        {"subscribe": CODECS, "startingOffsets": "earliest", "endingOffsets": "latest"},
        {
            "subscribe": TRANSFERS,
            "startingOffsets": json.dumps({TRANSFERS: {"0": 23, "1": -2}}),
            "endingOffsets": json.dumps({TRANSFERS: {"0": 31, "1": -1}}),
        },
        {
            "assign": json.dumps({TRANSFERS: [1]}),
            "startingOffsets": json.dumps({TRANSFERS: {"1": 9}}),
            "endingOffsets": json.dumps({TRANSFERS: {"1": 10}}),
        },
        {"subscribe": "4.3.1-clean.never-written"},
        {"subscribePattern": "no such topic"},
    ],
)
def test_queries_of_the_guide(both: Both, options: dict[str, str]) -> None:
    """Those of Spark's guide to Kafka, "Creating a Kafka Source for Batch Queries"."""
    theirs, ours = (
        frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "topic", "offset")
        for frame in both(**options)
    )
    assert rows(ours) == rows(theirs)


def test_sql_over_a_view(both: Both) -> None:
    found = []
    for frame in both(**EVERY):
        frame.createOrReplaceTempView("records")
        found.append(
            rows(
                frame.sparkSession.sql(
                    "select topic, partition, count(*), min(offset), max(offset), "
                    "max(timestamp), sum(length(value)), count(distinct key) from records "
                    "where timestamp > '2020-01-01' and timestampType = 0 and offset >= 7 "
                    "group by topic, partition"
                )
            )
        )
    assert found[0] == found[1]
    assert len(found[0]) > 50


def test_limits_by_time(both: Both) -> None:
    """Of every topic: the broker finds them by its time indexes."""
    stamps = sorted(
        {row.ms for row in both(**EVERY)[1].selectExpr("unix_millis(timestamp) ms").collect()}
    )
    rng = random.Random(11)
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    for _ in range(4):
        first, last = sorted(rng.sample(stamps, 2))
        times = {"startingTimestamp": str(first), "endingTimestamp": str(last + rng.randrange(2))}
        theirs, ours = both(**EVERY, **latest, **times)
        assert rows(ours) == rows(theirs), times


def test_limits_by_time_of_each_partition(both: Both) -> None:
    by_partition: dict[str, dict[str, int]] = defaultdict(dict)
    rng = random.Random(12)
    found = both(subscribePattern="transfers")[1].selectExpr(
        "topic", "partition", "unix_millis(timestamp) ms"
    )
    for row in found.collect():
        if rng.random() < 0.05 or str(row.partition) not in by_partition[row.topic]:
            by_partition[row.topic][str(row.partition)] = row.ms
    times = {"startingOffsetsByTimestamp": json.dumps(by_partition)}
    theirs, ours = both(subscribePattern="transfers", **times)
    assert rows(ours) == rows(theirs)
    assert ours.count() < found.count()


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "4.3.1-clean.deleted-records", "startingOffsets": "below"},
        {"subscribe": TRANSFERS, "startingTimestamp": str(2**50)},
        {"subscribe": TRANSFERS, "startingOffsets": json.dumps({TRANSFERS: {"0": 2}})},
        {"subscribe": TRANSFERS, "startingOffsets": "latest"},
        {"subscribe": "no-such-topic"},
    ],
)
def test_what_fails_there_fails_here(both: Both, options: dict[str, str]) -> None:
    topic = options["subscribe"]
    if options.get("startingOffsets") == "below":
        options = options | {"startingOffsets": json.dumps({topic: {"0": 0, "1": 0}})}
    for number in (0, 1):
        with pytest.raises((PySparkException, Py4JJavaError)):
            both(**options, **{"fetchOffset.numRetries": "1"})[number].collect()


def test_a_start_below_the_log_is_that_of_the_log_if_data_may_be_lost(both: Both) -> None:
    topic = "4.3.1-clean.deleted-records"
    starting = json.dumps({topic: {"0": 0, "1": 0}})
    theirs, ours = both(subscribe=topic, startingOffsets=starting, failOnDataLoss="false")
    assert rows(ours) == rows(theirs)
    assert ours.count()
