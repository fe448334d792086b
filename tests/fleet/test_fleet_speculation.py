"""Exports whose slow tasks Spark does twice at a time, on a cluster of two hosts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fleet import fleet_work
from fleet.fleet_exports import FIXTURE, exported
from fleet.spark_cluster import standalone
from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.ui import exits
from support import dumps
from support.exports import as_row, by_place, dumped, rows_of
from support.object_stores import Bucket, served
from support.store_objects import objects

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

#: Spark never does a task twice at a time on one host.
HOSTS = ("127.0.0.1", "127.0.0.2")


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with served() as server:
        yield server.bucket("exports")


@pytest.fixture(scope="module")
def session(
    events: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    """Its executors have the keys of the store in their environment."""
    settings = {
        "spark.driver.host": HOSTS[0],
        "spark.driver.bindAddress": HOSTS[0],
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.1",
    }
    with pytest.MonkeyPatch.context() as variables:
        variables.setenv("PYSPARK_PYTHON", sys.executable)
        top = tmp_path_factory.mktemp("cluster")
        with (
            standalone(top, Path(sys.executable), HOSTS) as master,
            fleet_work.by_value(),
            open_session(Cluster(master=master), settings=settings) as started,
        ):
            yield started


def overtaken(events: Path) -> list[tuple[int, int]]:
    """The stages and numbers of tasks whose second attempt, elsewhere, ended before the first."""
    attempts: dict[tuple[int, int], list[tuple[str, bool]]] = {}
    ends: dict[tuple[int, int], tuple[bool, bool]] = {}
    for log in events.rglob("events_*"):
        for event in map(json.loads, log.read_text().splitlines()):
            kind = event["Event"].removeprefix("SparkListener")
            if kind in ("TaskStart", "TaskEnd"):
                info = event["Task Info"]
                task = event["Stage ID"], info["Index"]
                if kind == "TaskStart":
                    attempts.setdefault(task, []).append((info["Host"], info["Speculative"]))
                else:
                    ends.setdefault(task, (info["Speculative"], info["Failed"] or info["Killed"]))
    wanted = [(HOSTS[0], False), (HOSTS[1], True)], [(HOSTS[1], False), (HOSTS[0], True)]
    return [
        task
        for task, started in attempts.items()
        if started in wanted and ends.get(task) == (True, False)
    ]


def await_overtaken(events: Path, before: set[tuple[int, int]]) -> None:
    """One more than ``before``; Spark writes of a job from another thread, when it has ended."""
    until = time.monotonic() + 30
    while not set(overtaken(events)) - before:
        assert time.monotonic() < until, "no task was done twice at a time"
        time.sleep(0.1)


@pytest.fixture
def slow(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One attempt at a task takes minutes to say that it is done; the file is there meanwhile."""
    through(session, monkeypatch)
    # A single task of Spark would have no others to be slower than.
    alone = lambda sizes, _: [range(n, n + 1) for n in range(len(sizes))]  # noqa: E731
    monkeypatch.setattr("kdump.fleet.job.spread.pack_tasks", alone)
    work = partial(fleet_work.export_slow_once, flag=tmp_path / "flag")
    monkeypatch.setattr("kdump.commands.export.export.export_logs", work)
    return tmp_path / "flag"


def test_of_a_task_that_is_done_twice_at_a_time_each_record_is_there_once(
    slow: Path,
    events: Path,
    grown: Callable[[str], Path],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    path, to, before = grown(FIXTURE), tmp_path / "out", set(overtaken(events))
    expected = dumps.served(path, dumped(capfdbinary, path)[1])
    assert exported(path, to) == exits.OK
    assert slow.exists(), "the slow attempt was waited for"
    await_overtaken(events, before)
    assert rows_of(to) == by_place(map(as_row, expected))


def test_the_same_into_a_store(
    slow: Path,
    events: Path,
    bucket: Bucket,
    grown: Callable[[str], Path],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    path, to, before = grown(FIXTURE), tmp_path / "copy", set(overtaken(events))
    expected = dumps.served(path, dumped(capfdbinary, path)[1])
    assert (
        main(["export", "--master", "local[2]", "--to", bucket.address("out"), str(path)])
        == exits.OK
    )
    assert slow.exists(), "the slow attempt was waited for"
    await_overtaken(events, before)
    found = objects(bucket, "out")
    for key, data in found.items():
        (to / key).parent.mkdir(parents=True, exist_ok=True)
        (to / key).write_bytes(data)
    names = [file["path"] for file in json.loads(found["_manifest.json"])["files"]]
    assert sorted(found) == sorted([*names, "_manifest.json"])
    assert rows_of(to) == by_place(map(as_row, expected))
