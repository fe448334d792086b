"""``verify`` on Spark comes to the same findings and exit codes as in this process."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from fleet import fleet_work
from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.ui import exits
from support import damaged, recipes_directory, recipes_indexes, recipes_producers
from support import quorum_disks as disks
from support.damaged import Recipe
from support.fixtures_loader import FIXTURES, copy_fixture
from support.run_rows import TABLES, rows, without

pytest.importorskip("pyspark")


from fleet.remembering import assert_same, left_out, summary
from kdump.fleet.job.spread import spread
from kdump.fleet.session.session import Cluster, Session, open_session
from support.fleet_reports import Verified, assert_equal, fleet_broker, verified

pytestmark = pytest.mark.spark
__all__ = ["verified"]  # a fixture

DEPTHS: list[list[str]] = [[], ["--deep"], ["--quick"]]
every_depth = pytest.mark.parametrize(
    "depth",
    [DEPTHS[0], *(pytest.param(depth, marks=pytest.mark.nightly) for depth in DEPTHS[1:])],
    ids=["default", "deep", "quick"],
)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes what it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def session(events: Path) -> Iterator[Session]:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    with (
        fleet_work.by_value(),
        open_session(Cluster(master="local[2]"), settings=settings) as started,
    ):
        yield started


@pytest.fixture
def on_spark(session: Session, verified: Verified, monkeypatch: pytest.MonkeyPatch) -> Verified:
    """The same through the session of all tests, which no run starts or ends."""

    through(session, monkeypatch)
    return lambda *arguments: verified("--master", "local[2]", *arguments)


def written(recipes: Sequence[Recipe], top: Path) -> list[Path]:
    """Each recipe in a log directory of its own."""
    directories = [top / f"{number:03d}" for number in range(len(recipes))]
    for recipe, directory in zip(recipes, directories, strict=True):
        recipe.write(directory)
    return directories


Deadly = Callable[[str, Callable[..., object]], None]


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Deadly:
    """``deadly(name, work)``: executors do ``work`` in the place of ``fleet.verify``'s function."""
    return lambda name, work: monkeypatch.setattr(f"kdump.fleet.verify.verify.{name}", work)


@every_depth
def test_all_fixtures(
    depth: list[str], grown: Callable[[str], Path], verified: Verified, on_spark: Verified
) -> None:
    """Together they contradict each other, as many are of node 1: that must be told as well."""
    paths = [grown(name) for name in FIXTURES]
    here = verified(*depth, *paths)
    assert here[0] == exits.PROBLEMS
    assert_equal(here, on_spark(*depth, *paths))


@pytest.mark.parametrize(
    "name", ["broker", *(pytest.param(name, marks=pytest.mark.nightly) for name in (*FIXTURES, ""))]
)
@pytest.mark.parametrize(
    "depth", [[], pytest.param(["--deep"], marks=pytest.mark.nightly)], ids=["default", "deep"]
)
def test_a_second_run_with_a_state_finds_the_same(
    name: str,
    depth: list[str],
    tmp_path: Path,
    grown: Callable[[str], Path],
    verified: Verified,
    on_spark: Verified,
    deadly: Deadly,
) -> None:
    """Of one log directory, or of all together; a worker of Spark dies in the first run."""
    paths = [grown(each) for each in FIXTURES if name in ("", each)]
    if name == "broker":
        paths = [fleet_broker(tmp_path / "broker", 5)]
    here = verified(*depth, *paths)
    deadly("run_task", partial(fleet_work.work_killed_once, flag=tmp_path / "flag"))
    with_state = "--state", tmp_path / "state", *depth, *paths
    first, second = on_spark(*with_state), on_spark(*with_state)
    assert (tmp_path / "flag").exists()
    for ran in (first, second):
        assert_same(here, ran)
    assert left_out(second)["segments"] > 0 or name not in ("", "broker", "4.3.1/killed")
    assert summary(second)["bytes"] + left_out(second)["log_bytes"] == summary(here)["bytes"]


def test_a_fixture_alone(
    grown: Callable[[str], Path], verified: Verified, on_spark: Verified
) -> None:
    here = verified(grown("4.3.1/killed"))
    assert here[0] == exits.OK
    assert_equal(here, on_spark(grown("4.3.1/killed")))


def test_metadata_logs_that_differ(tmp_path: Path, verified: Verified, on_spark: Verified) -> None:
    first, second = (copy_fixture("4.3.1/killed", tmp_path / name) for name in "ab")
    disks.reseal_batch(2)(second)
    here = verified(first, second)
    assert "metadata-diverges" in {line.get("code") for line in here[1]}
    assert_equal(here, on_spark(first, second))


@pytest.mark.parametrize(
    "depth",
    [["--deep"], pytest.param(["--quick"], marks=pytest.mark.nightly)],
    ids=["deep", "quick"],
)
def test_tables_of_runs(
    depth: list[str],
    session: Session,
    grown: Callable[[str], Path],
    tmp_path: Path,
    verified: Verified,
    on_spark: Verified,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two runs are one table to Spark SQL, with the same rows, but for who has read and when."""
    monkeypatch.setattr("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 2 << 20)
    to = tmp_path / "tables"
    paths = [*written(damaged.RECIPES[::6], tmp_path), grown("4.3.1/killed")]
    codes = {run(*depth, "--to", to, *paths)[0] for run in (verified, on_spark)}
    assert codes == {exits.PROBLEMS}
    for table in TABLES:
        by_run: dict[str, list[str]] = {}
        for row in rows(to, table):
            found = by_run.setdefault(row["run_id"], [])
            found.append(without(row, "host", "seconds"))
        here, there = map(sorted, by_run.values())
        assert here == there
    for table in ("runs", "ledger", "statistics"):
        session.spark.read.parquet(str(to / table)).createOrReplaceTempView(table)
    asked = session.spark.sql("""
        select r.run_date, r.bytes, l.bytes read, count(s.path) partitions
        from runs r
        join statistics s using (run_id, run_date)
        join (select run_id, sum(bytes) bytes from ledger group by run_id) l using (run_id)
        where r.begin > timestamp '2020-01-01' and r.end_reason = 'complete'
        group by all
    """)
    answers = asked.collect()
    assert len(answers) in (1, 2)  # a row for both if they have read as much
    assert all(row.bytes == row.read > 0 for row in answers)
    assert sum(row.partitions for row in answers) == len(rows(to, "statistics"))
    assert all(f"{row.run_date:%Y}" >= "2026" for row in answers)


@every_depth
@pytest.mark.parametrize(
    "recipes",
    [
        damaged.RECIPES,
        pytest.param(recipes_indexes.RECIPES, marks=pytest.mark.nightly),
        pytest.param(recipes_producers.RECIPES, marks=pytest.mark.nightly),
        pytest.param(recipes_directory.RECIPES, marks=pytest.mark.nightly),
    ],
    ids=["damaged", "indexes", "producers", "directory"],
)
def test_all_damage(
    recipes: Sequence[Recipe],
    depth: list[str],
    tmp_path: Path,
    verified: Verified,
    on_spark: Verified,
) -> None:
    paths = written(recipes, tmp_path)
    here = verified(*depth, *paths)
    # Of what is wrong with producers a quick look sees nothing.
    assert here[0] in (exits.PROBLEMS, exits.INCOMPLETE) or depth == ["--quick"]
    assert_equal(here, on_spark(*depth, *paths))


@pytest.mark.nightly
def test_twenty_brokers_and_two_thousand_partitions(
    tmp_path: Path, verified: Verified, on_spark: Verified
) -> None:
    paths = [fleet_broker(tmp_path / f"broker{number}", number) for number in range(20)]
    here = verified(*paths)
    assert here[0] == exits.PROBLEMS
    assert here[1][-1]["partitions"] == 2000
    assert here[1][-1]["codes"]["batch-crc-mismatch"] == 20
    assert_equal(here, on_spark(*paths))


def test_the_event_log_shows_tasks_of_other_processes(
    session: Session, events: Path, tmp_path: Path, on_spark: Verified
) -> None:
    assert on_spark(fleet_broker(tmp_path / "broker", 5))[0] == exits.PROBLEMS
    tasks: Counter[int] = Counter()
    for path in events.rglob("events_*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                tasks[event["Stage ID"]] += 1
    assert max(tasks.values()) > 1
    pids = spread(session, fleet_work.pid, range(2), [1 << 30] * 2)
    assert os.getpid() not in dict(pids).values()


def test_a_log_that_kills_who_reads_it_is_a_finding(
    tmp_path: Path, verified: Verified, on_spark: Verified, deadly: Deadly
) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    _, here = verified(top)
    log = top / "orders-5" / f"{2:020d}.log"
    deadly("run_task", partial(fleet_work.deadly_work, log=log))
    code, lines = on_spark(top)
    assert code == exits.INCOMPLETE
    (finding,) = [line for line in lines if line["type"] == "finding" and line not in here]
    assert (finding["code"], finding["path"]) == ("unreadable", str(log))
    assert "SIGKILL" in finding["detail"]["found"]
    assert lines[-1]["partitions"] == 100
    assert lines[-1]["segments"] == here[-1]["segments"] - 1


def test_a_reader_killed_once_is_told_by_nothing(
    tmp_path: Path, verified: Verified, on_spark: Verified, deadly: Deadly
) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    here = verified(top)
    deadly("run_task", partial(fleet_work.work_killed_once, flag=tmp_path / "flag"))
    assert_equal(here, on_spark(top))
    assert (tmp_path / "flag").exists()


def test_what_surveys_have_shown_is_told_without_a_judgement(
    tmp_path: Path, verified: Verified, on_spark: Verified, deadly: Deadly
) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    partition = top / "orders-94"
    deadly("run_task", partial(fleet_work.deadly_verdict, path=partition))
    code, lines = on_spark(top)
    assert code == exits.INCOMPLETE
    found = {(line["code"], line["path"]) for line in lines if line["type"] == "finding"}
    assert {
        ("unreadable", str(partition)),
        ("batch-crc-mismatch", str(partition / f"{0:020d}.log")),
    } <= found
    assert lines[-1]["partitions"] == 100


def test_a_missing_result_is_a_finding(tmp_path: Path, on_spark: Verified, deadly: Deadly) -> None:
    """The ledger proves what was read: a log that came back without a line is told."""
    top = fleet_broker(tmp_path / "broker", 5)
    log = top / "orders-5" / f"{2:020d}.log"
    deadly("run_task", partial(fleet_work.forgetful_work, log=log))
    code, lines = on_spark(top)
    assert code == exits.INCOMPLETE
    (finding,) = [line for line in lines if line.get("code") == "unreadable"]
    assert finding["path"] == str(log)
    assert finding["detail"]["found"] == "0 lines of the ledger"


def test_large_partitions_are_read_in_pieces(
    tmp_path: Path, verified: Verified, on_spark: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing may be read together, each segment is a task, and each judgement another."""
    top = fleet_broker(tmp_path / "broker", 5)
    here = verified(top)
    monkeypatch.setattr("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 0)
    assert_equal(here, on_spark(top))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)],
)
def test_an_interrupted_run_tells_what_was_done(
    number: signal.Signals,
    code: int,
    tmp_path: Path,
    verified: Verified,
    on_spark: Verified,
    deadly: Deadly,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    top, flag = fleet_broker(tmp_path / "broker", 5), tmp_path / "flag"
    _, here = verified(top)
    # Two jobs of about thirty partitions run at first, and a third one has the last partition.
    monkeypatch.setattr("kdump.fleet.job.packing._LEAST_BYTES", 10 << 18)
    deadly("run_task", partial(fleet_work.held_partition, path=top / "orders-99", flag=flag))

    def interrupt() -> None:
        while not flag.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    found, there = on_spark(top)
    assert found == code
    (*_, summary), forecasts = there, [line for line in there if line["type"] == "forecast"]
    assert 0 < summary["partitions"] < 100
    assert (summary["exit"], summary["partitions_total"]) == (code, 100)
    expected = [line for line in here if line["type"] == "forecast"]
    assert forecasts == expected[: summary["partitions"]]
    assert [line for line in there if line not in here] == [summary]


@pytest.mark.parametrize("arguments", [["--quiet"], ["--topic", "orders*", "--exclude", "*x"]])
def test_options_mean_the_same(
    arguments: list[str], tmp_path: Path, verified: Verified, on_spark: Verified
) -> None:
    path = fleet_broker(tmp_path / "broker", 5)
    assert_equal(verified(*arguments, path), on_spark(*arguments, path))


def test_paths_of_every_kind(tmp_path: Path, verified: Verified, on_spark: Verified) -> None:
    top = fleet_broker(tmp_path / "broker", 5)
    paths = [
        tmp_path / "missing",
        top / "orders-5",
        top / "orders-5" / ".." / "orders-5",
        top / "orders-94" / f"{0:020d}.log",
    ]
    here = verified(*paths)
    assert here[0] == exits.INCOMPLETE
    assert_equal(here, on_spark(*paths))


def test_a_wrong_path_is_one_line(
    tmp_path: Path,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    through(session, monkeypatch)
    (tmp_path / "data-0").mkdir()
    fleet_broker(tmp_path / "data-0" / "kafka-log0", 1)
    (tmp_path / "disk-1" / "lost+found").mkdir(parents=True)
    wrong = {
        "nosuch": f"{tmp_path} has no nosuch",
        "disk-1": "is the disk mounted?",
        "data-0": f"({tmp_path}/data-0/kafka-log0): name it instead",
    }
    for name, text in wrong.items():
        for command in (["verify"], ["compare"], ["export", "--to", str(tmp_path / "out")]):
            argv = [*command, "--master", "local[2]", "--progress", "none", str(tmp_path / name)]
            capfd.readouterr()
            assert main(argv) == exits.INCOMPLETE
            printed = capfd.readouterr()
            lines = [line for line in printed.err.splitlines() if line.startswith("kdump: ")]
            assert len(lines) == 1, command
            assert text in lines[0]
            assert printed.out == ""
            assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--jobs", "2"], "--jobs: expected"),
        (["--limit-rate", "1MB"], "--limit-rate: expected no limit on Spark"),
        (["--remote", "sc://localhost"], "found both"),
    ],
)
def test_what_cannot_be_asked_of_spark(
    arguments: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", "--master", "local[2]", *arguments, str(tmp_path)])
    assert code == exits.USAGE
    assert text in capfd.readouterr().err


def test_a_cluster_takes_absolute_paths(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--master", "spark://localhost:1", "data"]) == exits.USAGE
    assert "data: expected an absolute path" in capfd.readouterr().err
