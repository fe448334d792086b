"""One broker that has the topics of all fixtures, under names that tell whose they are."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from brokers.broker import Broker
from brokers.programs import run
from support.consumer_records import log_start
from support.fixtures_loader import FIXTURES, copy_fixture
from support.fixtures_loader import partitions as stored_partitions

VERSION = "4.3.1"


@contextmanager
def broker_of_all_fixtures(scratch: Path) -> Iterator[Broker]:
    """A broker that runs on ``scratch``/data and has the partitions of all fixtures.

    Retention and the cleaner are off: either would take records away.
    """
    directory = scratch / "data"
    partitions = [(name, path) for name in FIXTURES for path in topic_partitions(name)]
    counts = Counter(known_as(name, path)[0] for name, path in partitions)
    topics = {
        topic: {"partitions": count, "config": {"retention.ms": "-1"}}
        for topic, count in counts.items()
    }
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
        yield broker


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
