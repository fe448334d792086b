"""Options of the data source: those of Spark's Kafka source, and what is wrong with them."""

from __future__ import annotations

import pytest

from kdump.errors import UsageError
from kdump.fleet.source.options import EARLIEST, LATEST, Options

#: A query of a cluster with TLS, as it may stand in somebody's program.
LEFT_OVER = {
    "kafka.bootstrap.servers": "broker:9093",
    "kafka.security.protocol": "SSL",
    "kafka.group.id": "nightly",
    "groupIdPrefix": "nightly",
    "minPartitions": "40",
    "maxOffsetsPerTrigger": "10000",
    "kafkaConsumer.pollTimeoutMs": "512",
    "fetchOffset.numRetries": "5",
}
#: What Spark 4.3 passes for ``CREATE TABLE``.
TABLE = {
    "location": "file:/a",
    "path": "file:/a",
    "provider": "kdump",
    "owner": "root",
    "comment": "payments",
    "department": "payments",
    "schema": "kafka",
    "option.schema": "kafka",
    "option.includeheaders": "true",
    "includeHeaders": "true",
}


def parsed(**options: str) -> Options:
    return Options.parse({"path": "/a", **options})


def test_what_is_about_connections_changes_nothing() -> None:
    assert Options.parse({"path": "/a", **LEFT_OVER}) == parsed()
    assert not parsed().kafka
    assert (parsed().starting.value, parsed().ending.value) == (EARLIEST, LATEST)


def test_properties_of_a_table_are_no_options() -> None:
    expected = {"path": "file:/a", "schema": "kafka", "includeHeaders": "true"}
    assert Options.parse(TABLE) == Options.parse(expected)
    with pytest.raises(UsageError, match="option tabel: expected one of path"):
        Options.parse(TABLE | {"tabel": "records", "option.tabel": "records"})


def test_names_are_of_any_case() -> None:
    assert parsed(STARTINGOFFSETS='{"t":{"0":3}}').starting.value == {("t", 0): 3}
    assert Options.parse({"PATH": "/a", "Schema": "KAFKA"}).kafka


def test_a_timestamp_comes_before_timestamps_and_these_before_offsets() -> None:
    given = {
        "startingOffsets": '{"t":{"0":3}}',
        "startingOffsetsByTimestamp": '{"t":{"0":1000}}',
        "startingTimestamp": " 2000 ",
    }
    found = []
    while given:
        limit = parsed(**given).starting
        found.append((limit.by_time, limit.of(("t", 0))))
        given.popitem()
    assert found == [(True, 2000), (True, 1000), (False, 3)]


def test_subscriptions() -> None:
    both = parsed(subscribe="a, b").subscription
    assert [both.selects((topic, 1)) for topic in ("a", "b", "ab")] == [True, True, False]
    anywhere = parsed(subscribePattern="a.$").subscription
    assert [anywhere.selects((topic, 0)) for topic in ("xab", "abc")] == [True, False]
    numbers = parsed(assign='{"a":[0,2],"b":[1]}').subscription
    assert [numbers.selects(each) for each in (("a", 2), ("a", 1), ("b", 1))] == [True, False, True]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"startingOffset": "earliest"}, "option startingoffset: expected one of path, paths"),
        ({"schema": "avro"}, "option schema: expected kafka, found avro"),
        ({"startingOffsets": "latest"}, "expected earliest or offsets, found latest"),
        ({"endingOffsets": "earliest"}, "expected latest or offsets, found earliest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"or -2 \(earliest\) for t-0, found -1"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"or -1 \(latest\) for t-0, found -2"),
        ({"startingOffsets": "5"}, 'startingOffsets: expected text such as {"topicA"'),
        ({"startingOffsets": '{"t":5}'}, "expected text such as"),
        ({"startingOffsets": '{"t":{"x":5}}'}, "expected text such as"),
        ({"startingOffsets": '{"t":{"0":"5"}}'}, "expected text such as"),
        ({"startingOffsets": '{"t":{"0":9223372036854775808}}'}, "expected text such as"),
        ({"startingOffsets": "{}"}, "expected text such as"),
        ({"startingOffsets": "{"}, "expected text such as"),
        ({"startingTimestamp": "yesterday"}, "expected a number of milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "expected error or latest"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "expected one of the options assign"),
        ({"subscribe": " , "}, "option subscribe: expected topics"),
        ({"subscribePattern": "("}, "option subscribePattern: expected a regular expression"),
        ({"assign": '{"a":0}'}, "option assign: expected text such as"),
        ({"assign": '{"a":[true]}'}, "option assign: expected text such as"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss: expected true or false"),
        ({"kafka.isolation.level": "serializable"}, "expected read_uncommitted or read_committed"),
        ({"table": "findings", "subscribe": "a"}, "option subscribe: expected the table records"),
        ({"paths": '"/b"'}, "option paths: expected text such as"),
        (
            {"startingOffsets": '{"t":{"0":7}}', "endingOffsets": '{"t":{"0":6}}'},
            "option startingOffsets: expected 6 or less for t-0, as in endingOffsets, found 7",
        ),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parsed(**options)
