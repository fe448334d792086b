"""The command ``export`` on Spark: what comes out, what Spark SQL reads of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.directory_state import state
from support.dumps import served

pytest.importorskip("pyspark")

from fleet.spark_sessions import through
from kdump.cli.main import main
from kdump.fleet.session.session import Cluster, Session, open_session
from kdump.ui import exits

pytestmark = pytest.mark.spark

Capture = pytest.CaptureFixture[bytes]

SPARK = ("--master", "local[2]")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session(Cluster(master="local[2]")) as started:
        yield started


@pytest.fixture(autouse=True)
def shared(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session for all tests, which no run starts or ends."""
    through(session, monkeypatch)


def dumped(capture: Capture, path: Path) -> list[dict[str, Any]]:
    main(["dump", "--format", "json", "--records", str(path)])
    found, file, log = [], "", False
    for line in map(json.loads, capture.readouterr().out.splitlines()):
        if line["type"] == "file":
            file, log = line["path"], line["kind"] == "log"
        elif line["type"] == "record" and log:
            found.append({**line, "source_file": file})
    return found


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_spark_sql_reads_what_was_exported(
    form: str,
    session: Session,
    grown: Callable[[str], Path],
    tmp_path: Path,
    capfdbinary: Capture,
) -> None:
    path, to = grown("4.3.1/killed"), tmp_path / "out"
    expected, before = served(path, dumped(capfdbinary, path)), state(path)
    code = main(["export", *SPARK, "--to", str(to), "--format", form, str(path)])
    assert code == exits.OK
    assert state(path) == before
    read = session.spark.read.parquet if form == "parquet" else session.spark.read.json
    rows = read(str(to)).select("topic", "partition", "offset").collect()
    found = sorted(tuple(row) for row in rows)
    assert found == sorted((row["topic"], row["partition"], row["offset"]) for row in expected)
    manifest = json.loads((to / "_manifest.json").read_text())
    assert manifest["records"] == len(expected)
    assert f"{len(expected):,} records" in capfdbinary.readouterr().out.decode()


def test_files_are_those_of_this_process_byte_by_byte(
    grown: Callable[[str], Path], tmp_path: Path
) -> None:
    path = str(grown("4.3.1/killed"))
    options = ("--partition-by", "hour", "--read-committed", "--topic", "t*", "--file-size", "1MiB")
    found: list[dict[Path, bytes]] = []
    for where in (("--jobs", "2"), SPARK):
        to = tmp_path / str(len(found))
        assert main(["export", *where, *options, "--to", str(to), path]) == exits.OK
        assert main(["check", str(to)]) == exits.OK
        found.append({file.relative_to(to): file.read_bytes() for file in to.rglob("*.*")})
    assert found[0] == found[1]
    assert any("hour=" in str(name) for name in found[0])


def test_a_taken_name_is_wrong_usage(grown: Callable[[str], Path], tmp_path: Path) -> None:
    assert main(["export", *SPARK, "--to", str(tmp_path), str(grown("4.3.1/clean"))]) == exits.USAGE


def test_a_missing_path_is_told(tmp_path: Path, capfdbinary: Capture) -> None:
    to = tmp_path / "out"
    assert main(["export", *SPARK, "--to", str(to), str(tmp_path / "none-0")]) == exits.INCOMPLETE
    printed = capfdbinary.readouterr()
    assert printed.out == b""
    assert b"none-0: cannot be read: No such file or directory" in printed.err
    assert not (to / "_manifest.json").exists()
