"""``compare`` on Spark says what it says in this process."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fleet import fleet_work
from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.errors import SourceError
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.ui import exits
from support import copies, matrix_spark
from support.copies import BASE, damage
from support.fixtures_loader import REPLICAS, copy_fixture, few_first
from support.forge_manifests import forge

pytestmark = pytest.mark.spark

#: ``compared(*arguments)``: the exit code, and what was printed to both.
Compared = Callable[..., tuple[int, str, str]]
ON_SPARK = ("--master", "local[2]")
NODES = ("1", "2", "3")
#: So many of the seeded damages run each time.
ORDINARY, ALL = 6, 400


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with fleet_work.by_value(), open_session(Cluster(master="local[2]")) as started:
        yield started


@pytest.fixture
def compared(capfd: pytest.CaptureFixture[str]) -> Compared:
    def of(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["compare", "--progress", "none", *map(str, arguments)])
        return code, *capfd.readouterr()

    return of


@pytest.fixture
def brokers(tmp_path: Path) -> list[Path]:
    """Three brokers, of which each has lost something."""
    top = copy_fixture(REPLICAS[0], tmp_path / "brokers")
    for node, topic in zip(NODES, ("same", "cleaned", "behind"), strict=True):
        damage(random.Random(node), max((top / node / f"{topic}-0").glob("*.log")))
    return [top / node for node in NODES]


def manifests(paths: list[Path]) -> list[Path]:
    """Each of the log directories in a manifest beside it."""
    files = [path.with_name(f"{path.name}.kdm") for path in paths]
    for path, file in zip(paths, files, strict=True):
        assert main(["manifest", str(path), "--to", str(file), "--progress", "none"]) == exits.OK
    return files


def assert_equal(compared: Compared, *arguments: object) -> tuple[int, str, str]:
    """It is printed the same here and there, in both forms; returns the text."""
    for form in ("json", "text"):
        here = compared("--format", form, *arguments)
        assert compared("--format", form, *ON_SPARK, *arguments) == here
    return here


def test_brokers_and_their_manifests(
    brokers: list[Path], session: Session, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = manifests(brokers)
    through(session, monkeypatch)
    code, out, _ = assert_equal(compared, "--all", *brokers)
    assert code == exits.PROBLEMS
    assert "PARTITION parted-0: different" in out
    here = compared(files[0], brokers[1], files[2])
    assert compared(*ON_SPARK, files[0], brokers[1], files[2]) == here
    assert here[2].count("it has no records") == 2


def test_who_reads_differing_logs_may_die(
    tmp_path: Path, session: Session, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of the copies is said all the same, and of other partitions everything."""
    through(session, monkeypatch)
    top = copy_fixture(REPLICAS[0], tmp_path / "brokers")
    paths = [top / node for node in NODES]
    _, here, _ = compared("--format", "json", *paths)
    monkeypatch.setattr("kdump.fleet.verify.groups.combine_group", fleet_work.deadly_combination)
    code, there, _ = compared("--format", "json", *ON_SPARK, *paths)
    assert code == exits.INCOMPLETE
    (lost, found), (_, expected) = (_lines_of("parted", text) for text in (there, here))
    assert [line["type"] for line in lost] == [*["copy"] * 3, "difference", "partition"]
    assert lost[-1]["state"] == "unread"
    assert "SIGKILL" in lost[-1]["unread"][0]
    assert found == expected
    assert len(expected) > len(NODES)


def _lines_of(topic: str, text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The lines about a topic, and those about others."""
    _, *lines, _ = map(json.loads, text.splitlines())
    return (
        [line for line in lines if line["topic"] == topic],
        [line for line in lines if line["topic"] != topic],
    )


@pytest.fixture
def on_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """What executors do is done here: that takes a thousandth of the time."""
    matrix_spark.stand_in(monkeypatch.setattr)
    through(cast("Session", matrix_spark.StandIn()), monkeypatch)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < ORDINARY else pytest.mark.nightly)
        for seed in range(ALL)
    ],
)
def test_damaged_copies(seed: int, tmp_path: Path, compared: Compared, on_stand_in: None) -> None:
    rng = random.Random(seed)
    logs = copies.histories(rng, rng.randrange(1, 6)) if seed % 2 else [BASE, BASE, BASE]
    nodes = copies.lay_out(tmp_path, logs)
    for _ in range(rng.choice((1, 1, 2, 4))):
        files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        damage(rng, rng.choice(files))
    code, _, _ = assert_equal(compared, *nodes)
    assert code in (exits.OK, exits.PROBLEMS, exits.INCOMPLETE)


@pytest.mark.parametrize("name", few_first(REPLICAS))
def test_manifests_one_segment_a_task(
    name: str,
    tmp_path: Path,
    compared: Compared,
    on_stand_in: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    top = copy_fixture(name, tmp_path / "brokers")
    files = manifests([top / node for node in NODES])
    monkeypatch.setattr("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 0)
    code, _, _ = assert_equal(compared, "--all", *files)
    assert code == exits.PROBLEMS


def test_paths_of_every_kind(tmp_path: Path, compared: Compared, on_stand_in: None) -> None:
    nodes = copies.lay_out(tmp_path, [BASE, BASE[:9], BASE])
    (tmp_path / "link").symlink_to(nodes[0])
    linked = tmp_path / "t-0"
    linked.symlink_to(nodes[1] / "t-0")
    # Each directory counts once, in whatever spelling.
    again = (nodes[0], tmp_path / "link", linked, nodes[1], nodes[1] / ".." / nodes[1].name)
    code, out, _ = assert_equal(compared, *again)
    assert (code, "2 replicas of 1 partition" in out) == (exits.OK, True)
    assert_equal(compared, nodes[0] / "t-0", nodes[1])
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "missing", tmp_path / "empty", nodes[0] / "t-0" / f"{15:020d}.log"):
        code, out, said = assert_equal(compared, nodes[0], wrong)
        assert code in (exits.USAGE, exits.INCOMPLETE)
        assert said


def test_a_log_that_cannot_be_read_again(
    tmp_path: Path, compared: Compared, on_stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = copies.lay_out(tmp_path, [BASE, BASE], rolls=(5, 3))  # their digests differ

    def refuse(path: Path, **_: object) -> None:
        raise SourceError(path, f"{path}: Input/output error")

    monkeypatch.setattr("kdump.copies.content.open_source", refuse)
    code, out, _ = assert_equal(compared, *nodes)
    assert code == exits.INCOMPLETE
    assert "Input/output error" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--jobs", "2"], "--jobs: expected"),
        (["--limit-rate", "1MB"], "--limit-rate: expected no limit on Spark"),
    ],
)
def test_what_cannot_be_asked_of_spark(
    arguments: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *ON_SPARK, *arguments, str(tmp_path)]) == exits.USAGE
    assert text in capfd.readouterr().err


_MEASURED = """
import json, sys, time
from contextlib import contextmanager
from kdump.commands.compare import command as compare
from kdump.cli.main import main
from kdump.fleet.session.session import Cluster, open_session

with open_session(Cluster(master="local[2]")) as session:
    @contextmanager
    def opened(*_):
        yield session

    compare.spark_session = opened
    begun = time.monotonic()
    code = main(["compare", "--format", "json", "--master", "local[2]", *sys.argv[1:]])
    seconds = time.monotonic() - begun
(peak,) = [int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmHWM")]
print(json.dumps([code, seconds, peak]), file=sys.stderr)
"""


@pytest.mark.nightly
def test_a_fleet_of_a_hundred_brokers(tmp_path: Path) -> None:
    """5,000 partitions with three copies, and 12 million headers in all: 15 s and 500 MB."""
    count, partitions, batches = 100, 5000, 800
    held: list[list[int]] = [[] for _ in range(count)]
    for partition in range(partitions):
        for copy in range(3):
            held[(partition + 37 * copy) % count].append(partition)
    files = [tmp_path / f"{node}.kdm" for node in range(count)]
    differ = set(range(0, partitions, 50))  # each of them on one broker
    lag = set(range(7, partitions, 50))  # each of them has nothing on one
    for node, file in enumerate(files):
        forge(
            file,
            held[node],
            1,
            batches,
            idempotent=True,
            node=node,
            altered={(partition, 0) for partition in differ if partition % count == node},
            behind={partition: 1 for partition in lag if partition % count == node},
        )
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED, *files], capture_output=True, text=True, check=True
    )
    code, seconds, peak_kib = json.loads(ran.stderr.splitlines()[-1])
    summary = json.loads(ran.stdout.splitlines()[-1])
    print(f"{seconds:.1f} s, {peak_kib / 1000:.0f} MB")
    assert code == exits.PROBLEMS
    assert summary["batches"] == (3 * partitions - len(lag)) * batches
    assert summary["copies"] == 3 * partitions
    assert (summary["different"], summary["lagging"]) == (len(differ), len(lag))
    assert summary["equal"] == partitions - len(differ) - len(lag)
    assert peak_kib < 500_000
    assert seconds < 60
