"""The options of the data source: its own, and those of Spark's Kafka source.

Names are those of Spark's Kafka source where they mean the same. Its options about connections and
consumers change nothing here: they may stay in a query.

Spec: ``KafkaSourceProvider``, ``JsonUtils`` of ``spark-sql-kafka-0-10`` 4.3; ``V2SessionCatalog``
for the properties of tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from kdump.audit.targets.target import TopicSelection
from kdump.errors import UsageError
from kdump.storage.workers import default_jobs
from kdump.tables.schema import TABLES
from kdump.values import frozen

TopicPartition = tuple[str, int]
"""A topic and the number of a partition."""

#: In the JSON of offsets (``KafkaOffsetRangeLimit``).
LATEST: Final = -1
EARLIEST: Final = -2
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}

#: Spark's own names of the modes of a reader for malformed data. Batches have a row for damage.
_MODES: Final = ("failfast", "permissive", "dropmalformed")
_DEFAULT_MODES: Final = {"batches": "permissive"}
_BAD_RECORDS: Final = "badRecordsPath"
_LONGS: Final = range(-(2**63), 2**63)
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_PARTITION: Final = re.compile(r"\d{1,10}", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}
_ISOLATION_LEVEL: Final = "kafka.isolation.level"
_ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_STRATEGIES: Final = ("error", "latest")

_OWN: Final = (
    "path", "paths", "table", "schema", "mode", _BAD_RECORDS, "topic", "exclude", "deep", "cores",
)  # fmt: skip
_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
#: The options of a limit, the first of which counts: a timestamp, timestamps by partition, offsets.
_STARTING: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_OF_RECORDS: Final = (
    "schema", "includeHeaders", *_SUBSCRIPTIONS, *_STARTING, *_ENDING, _STRATEGY, "failOnDataLoss",
    _BAD_RECORDS,
)  # fmt: skip
#: The options that bound a batch of a stream: offsets, as in Spark's Kafka source, or bytes, as in
#: Spark's source of files.
_MOST_OFFSETS: Final = "maxOffsetsPerTrigger"
_MOST_BYTES: Final = "maxBytesPerTrigger"
#: Options of Spark's Kafka source that change no row.
_WITHOUT_EFFECT: Final = (
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs", "maxRecordsPerPartition", "maxTriggerDelay",
    "minOffsetsPerTrigger", "minPartitions",
)  # fmt: skip
_KNOWN: Final = frozenset(
    name.lower() for name in (*_OWN, *_OF_RECORDS, _MOST_OFFSETS, _MOST_BYTES, *_WITHOUT_EFFECT)
)
#: The prefix of settings of Kafka's clients.
_OF_CLIENTS: Final = "kafka."

#: Among the properties of a table: that names the data source, and the prefix of each option.
_OF_TABLE: Final = "provider"
_OF_OPTION: Final = "option."


@frozen
class Subscription:
    """The partitions that are read; without any of the three, all that the paths lead to."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] | None = None

    def selects(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition is read. Spark searches a pattern anywhere in a name."""
        topic, _ = topic_partition
        if self.partitions is not None:
            return topic_partition in self.partitions
        if self.topics is not None:
            return topic in self.topics
        return self.pattern is None or self.pattern.search(topic) is not None

    def check(self, found: Collection[TopicPartition]) -> None:
        """Raise UsageError if a topic or a partition that has a name is not among ``found``."""
        missing: Collection[object] = ()
        if self.topics is not None:
            missing = self.topics - {topic for topic, _ in found}
        elif self.partitions is not None:
            missing = [f"{topic}-{number}" for topic, number in self.partitions - set(found)]
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise UsageError(f"expected a log of {names} at the paths, found none")


@frozen
class Limit:
    """Where reading starts or ends, in all partitions or in each: an offset, or a timestamp in ms.

    ``option`` is the name of the option that says so.
    """

    option: str
    value: int | Mapping[TopicPartition, int]
    by_time: bool = False

    def of(self, topic_partition: TopicPartition) -> int:
        """Return the offset or the timestamp of a partition. Raise UsageError without one."""
        if isinstance(self.value, int):
            return self.value
        if topic_partition in self.value:
            return self.value[topic_partition]
        raise UsageError(
            f"option {self.option}: expected all partitions that are read, found none for "
            f"{topic_partition[0]}-{topic_partition[1]}; the option assign says which are read"
        )

    def check(self, found: Collection[TopicPartition]) -> None:
        """Raise UsageError if the option names other partitions than those ``found``."""
        if isinstance(self.value, int):
            return
        for topic, number in sorted(self.value.keys() - set(found)):
            raise UsageError(
                f"option {self.option}: expected only partitions that are read, found "
                f"{topic}-{number}"
            )


@frozen
class ColumnOptions:
    """The options that name the columns.

    ``kafka`` asks for those of Spark's Kafka source, ``headers`` for one more of them.
    """

    table: str
    kafka: bool
    headers: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ColumnOptions:
        """Return what ``options`` say of it. Raise UsageError for an unknown name or value."""
        given = given_options(options)
        _check_names(given)
        table = _choice(given, "table", TABLES, "records")
        if table != "records":
            for name in (*_OF_RECORDS, _ISOLATION_LEVEL):
                if name.lower() in given:
                    raise UsageError(f"option {name}: expected the table records, found {table}")
        if kafka := "schema" in given:
            _choice(given, "schema", ("kafka",), "")
        return cls(table, kafka, _boolean(given, "includeHeaders", "false"))


@frozen
class Options:
    """The options, parsed.

    ``mode`` is a name of Spark's in lower case; ``bad_records`` is where rows of corrupt ranges go.
    ``lenient``: an offset outside of a log is no error. ``late_is_end``: a starting timestamp after
    all records means the end of a log, and is no error. ``most_offsets`` and ``most_bytes`` bound a
    batch of a stream; at most one of them is given.
    """

    layout: ColumnOptions
    paths: tuple[str, ...]
    mode: str
    bad_records: str | None
    selection: TopicSelection
    deep: bool
    cores: int
    subscription: Subscription
    starting: Limit
    ending: Limit
    committed: bool
    lenient: bool
    late_is_end: bool
    most_offsets: int | None = None
    most_bytes: int | None = None

    @property
    def table(self) -> str:
        """The table that is read."""
        return self.layout.table

    @property
    def strict(self) -> bool:
        """Whether reading ends at corruption."""
        return self.mode == "failfast"

    @property
    def kafka(self) -> bool:
        """Whether it has the columns of Spark's Kafka source."""
        return self.layout.kafka

    @classmethod
    def parse(cls, options: Mapping[str, str], *, stream: bool = False) -> Options:
        """Return the parsed ``options``. Raise UsageError for an unknown name or value.

        A ``stream`` has no end, may start at the latest offsets, and reads committed records unless
        asked for all.
        """
        given = given_options(options)
        layout = ColumnOptions.parse(options)
        if stream:
            _check_stream(given, layout)
        cores = given.get("cores", str(default_jobs()))
        if not (cores.isdecimal() and int(cores)):
            raise UsageError(f"option cores: expected a number from 1 on, found {cores}")
        starting = _limit(given, _STARTING, "earliest", EARLIEST, others=stream)
        ending = _limit(given, _ENDING, "latest", LATEST)
        _check_order(starting, ending)
        mode = _choice(given, "mode", _MODES, _DEFAULT_MODES.get(layout.table, _MODES[0]))
        if _BAD_RECORDS.lower() in given and mode == "failfast":
            raise UsageError(
                f"option {_BAD_RECORDS}: expected mode PERMISSIVE or DROPMALFORMED with it, found "
                "FAILFAST, which ends at the first corrupt range"
            )
        topics, excluded = _pattern(given, "topic"), _pattern(given, "exclude")
        return cls(
            layout=layout,
            paths=_paths(given),
            mode=mode,
            bad_records=given.get(_BAD_RECORDS.lower()),
            selection=TopicSelection(topics, excluded, served=layout.table != "findings"),
            deep=_boolean(given, "deep", "false"),
            cores=int(cores),
            subscription=_subscription(given),
            starting=starting,
            ending=ending,
            committed=_choice(given, _ISOLATION_LEVEL, _ISOLATION_LEVELS, _ISOLATION_LEVELS[stream])
            == "read_committed",
            lenient=not _boolean(given, "failOnDataLoss", "true"),
            late_is_end=_choice(given, _STRATEGY, _STRATEGIES, _STRATEGIES[0]) == "latest",
            most_offsets=_bound(given, _MOST_OFFSETS) if stream else None,
            most_bytes=_bound(given, _MOST_BYTES) if stream else None,
        )


def of_table(options: Mapping[str, str]) -> bool:
    """Return whether ``options`` are the properties of a table, as for ``CREATE TABLE``."""
    return any(name.lower() == _OF_TABLE for name in options)


def given_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return ``options`` by their names in lower case, without other properties of a table.

    Among these, such as ``owner``, each option is there twice, once with a prefix.
    """
    given = {name.lower(): value for name, value in options.items()}
    if not of_table(options):
        return given
    return {
        name: value for name, value in given.items() if name == "path" or _OF_OPTION + name in given
    }


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if name not in _KNOWN and not name.startswith(_OF_CLIENTS):
            expected = ", ".join((*_OWN, *(known for known in _OF_RECORDS if known not in _OWN)))
            raise UsageError(f"option {name}: expected one of {expected}")


def _check_stream(given: Mapping[str, str], layout: ColumnOptions) -> None:
    """Raise UsageError for what only a query of what is there can read."""
    if layout.table != "records":
        raise UsageError(f"option table: expected records in a stream, found {layout.table}")
    for name in _ENDING:
        if name.lower() in given:
            raise UsageError(f"option {name}: expected none in a stream, which has no end")
    if _MOST_OFFSETS.lower() in given and _MOST_BYTES.lower() in given:
        raise UsageError(f"expected one of the options {_MOST_OFFSETS}, {_MOST_BYTES}, found both")


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    example = '["/a", "/b"]'
    paths = _parsed("paths", given.get("paths", "[]"), example)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UsageError(f"option paths: expected text such as {example}, found {paths}")
    return (*paths, *([given["path"]] if "path" in given else ()))


def _subscription(given: Mapping[str, str]) -> Subscription:
    named = [name for name in _SUBSCRIPTIONS if name.lower() in given]
    if len(named) > 1:
        raise UsageError(f"expected one of the options {', '.join(_SUBSCRIPTIONS)}, found {named}")
    if not named:
        return Subscription()
    text = given[named[0].lower()]
    if named[0] == "subscribePattern":
        try:
            return Subscription(pattern=re.compile(text.strip()))
        except re.error as error:
            raise UsageError(
                f"option subscribePattern: expected a regular expression, found {text}: {error}"
            ) from error
    if named[0] == "subscribe":
        topics = frozenset(topic.strip() for topic in text.split(",") if topic.strip())
        if not topics:
            raise UsageError("option subscribe: expected topics with commas between them")
        return Subscription(topics=topics)
    example = '{"topicA":[0,1]}'
    pairs: list[tuple[Any, Any]] = [
        (topic, number)
        for topic, numbers in _entries(_parsed("assign", text, example))
        for number in (numbers if isinstance(numbers, list) else [None])
    ]
    if not pairs or not all(type(number) is int for _, number in pairs):
        raise UsageError(f"option assign: expected text such as {example}, found {text}")
    return Subscription(partitions=frozenset(pairs))


def _limit(
    given: Mapping[str, str],
    names: tuple[str, str, str],
    word: str,
    unbounded: int,
    *,
    others: bool = False,
) -> Limit:
    """Return the limit of the first of ``names`` that is given; ``word`` means ``unbounded``.

    With ``others`` it may be at the other end too.
    """
    at_time, by_time, by_offset = names
    if (text := given.get(at_time.lower())) is not None:
        return Limit(at_time, _number(at_time, text), by_time=True)
    if (text := given.get(by_time.lower())) is not None:
        return Limit(by_time, _by_partition(by_time, text), by_time=True)
    text = given.get(by_offset.lower(), word).strip()
    words = _WORDS if others else {word: unbounded}
    if text.lower() in words:
        return Limit(by_offset, words[text.lower()])
    if text.lower() in _WORDS:
        raise UsageError(f"option {by_offset}: expected {word} or offsets, found {text}")
    offsets = _by_partition(by_offset, text)
    for (topic, number), offset in offsets.items():
        if offset < 0 and offset not in words.values():
            raise UsageError(
                f"option {by_offset}: expected an offset or {unbounded} ({word}) for "
                f"{topic}-{number}, found {offset}"
            )
    return Limit(by_offset, offsets)


def _check_order(starting: Limit, ending: Limit) -> None:
    """Raise UsageError if a partition starts after its end; Spark compares equal kinds alone."""
    if starting.by_time != ending.by_time:
        return
    if isinstance(starting.value, int) or isinstance(ending.value, int):
        return
    for (topic, number), first in starting.value.items():
        last = ending.value.get((topic, number), LATEST)
        if first > last >= 0:
            raise UsageError(
                f"option {starting.option}: expected {last} or less for {topic}-{number}, as in "
                f"{ending.option}, found {first}"
            )


def _by_partition(option: str, text: str) -> Mapping[TopicPartition, int]:
    example = '{"topicA":{"0":23,"1":45}}'
    found = [
        (topic, partition, value)
        for topic, numbers in _entries(_parsed(option, text, example))
        for partition, value in _entries(numbers)
    ]
    if not found or not all(
        _PARTITION.fullmatch(partition or "") and type(value) is int and value in _LONGS
        for _, partition, value in found
    ):
        raise UsageError(f"option {option}: expected text such as {example}, found {text}")
    return {(topic, int(partition)): value for topic, partition, value in found}


def _entries(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of an object in JSON; one without a name for any other value."""
    return value.items() if isinstance(value, dict) else [(None, None)]


def _parsed(option: str, text: str, example: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"option {option}: expected text such as {example}, found {text}"
        ) from error


def _number(option: str, text: str) -> int:
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) and int(stripped) in _LONGS:
        return int(stripped)
    raise UsageError(f"option {option}: expected a number of milliseconds, found {text}")


def _bound(given: Mapping[str, str], option: str) -> int | None:
    """Return a number from 1 on, None without the option."""
    text = given.get(option.lower())
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()) and int(text) > 0:
        return int(text)
    raise UsageError(f"option {option}: expected a number from 1 on, found {text}")


def _boolean(given: Mapping[str, str], option: str, default: str) -> bool:
    return _BOOLEANS[_choice(given, option, _BOOLEANS, default)]


def _choice(
    given: Mapping[str, str],
    option: str,
    known: Sequence[str] | Mapping[str, object],
    default: str,
) -> str:
    value = given.get(option.lower(), default)
    if value.lower() not in known:
        raise UsageError(f"option {option}: expected {' or '.join(known)}, found {value}")
    return value.lower()


def _pattern(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    return (given[name],) if name in given else ()
