"""``verify --to``: its tables against the report of the same run, and against sums of the dump."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.commands.verify.run_files import Spool
from kdump.commands.verify.run_tables import RunTables
from kdump.errors import SourceError
from kdump.format.lines.shell import shell_text
from kdump.output.destination import extend_destination
from kdump.storage.paths import AnyPath
from kdump.ui import exits
from support import damaged
from support.directory_state import state
from support.fixtures_loader import few_first
from support.forge import batch, record, write_partition
from support.run_rows import OF_RUN, TABLES, JsonObject, rows, without

pytestmark = pytest.mark.once

Capture = pytest.CaptureFixture[bytes]


def verified(capture: Capture, to: Path, *arguments: object) -> tuple[int, list[JsonObject]]:
    """Verify with tables below ``to``; return the exit code and the lines of the report."""
    code = main(["verify", "--format", "json", "--to", str(to), *map(str, arguments)])
    return code, [json.loads(line) for line in capture.readouterr().out.splitlines()]


def flattened(line: JsonObject) -> JsonObject:
    """A finding of the report as a row has it."""
    offsets, detail = line["offsets"] or {}, line["detail"] or {}
    return {
        **{name: line[name] for name in ("code", "severity", "path", "position", "size")},
        "first_offset": offsets.get("first"),
        "last_offset": offsets.get("last"),
        "expected": detail.get("expected"),
        "found": detail.get("found"),
        "remedy": line["remedy"] and shell_text(line["remedy"]),
        "repeats": line["repeats"],
    }


@pytest.fixture
def broken(tmp_path: Path) -> list[Path]:
    """Log directories with one thing wrong in each."""
    found = []
    for number, recipe in enumerate(damaged.RECIPES[::6]):
        found.append(tmp_path / f"{number:03d}")
        recipe.write(found[-1])
    return found


@pytest.mark.parametrize("depth", [[], pytest.param(["--deep"], marks=pytest.mark.slow)])
def test_rows_are_the_lines_of_the_report(
    depth: Sequence[str], broken: list[Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    to = tmp_path / "tables"
    before = [state(path) for path in broken]
    code, lines = verified(capfdbinary, to, *depth, *broken)
    assert code == exits.PROBLEMS
    assert [state(path) for path in broken] == before
    told = [line for line in lines if line["type"] == "finding"]
    assert len(told) > 5
    found = rows(to, "findings")
    assert Counter(without(row, "topic", "partition") for row in found) == Counter(
        json.dumps(flattened(line), sort_keys=True) for line in told
    )
    forecasts = [line for line in lines if line["type"] == "forecast"]
    found = rows(to, "forecasts")
    names = set(found[0]) - OF_RUN
    for row, line in zip(found, forecasts, strict=True):
        shown = {name: line.get(name) for name in names}
        assert without(row) == json.dumps(shown, sort_keys=True)
    (run,) = rows(to, "runs")
    summary = lines[-1]
    for name in ("exit", "depth", "partitions", "bytes", "batches", "records"):
        assert run[name] == summary[name]
    assert run["end_reason"] == "complete"
    assert run["begin"] < run["end"]
    assert run["paths"] == [str(path) for path in broken]


@pytest.mark.parametrize("name", few_first())
def test_statistics_are_the_sums_of_the_dump(
    name: str, grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path, to = grown(name), tmp_path / "tables"
    assert verified(capfdbinary, to, "--deep", path)[0] == exits.OK
    code = main(["dump", "--summary", "--format", "json", str(path)])
    assert code in (exits.OK, exits.PROBLEMS)  # a preallocated tail
    lines = map(json.loads, capfdbinary.readouterr().out.splitlines())
    sums = {line["path"]: line for line in lines if line["type"] == "totals"}
    found = rows(to, "statistics")
    same = {"batches", "control_batches", "records", "codecs", "producers", "committed", "aborted"}
    same |= {"smallest_batch_bytes", "half_below_bytes", "largest_batch_bytes"}
    compared = 0
    for row in found:
        line = sums.get(row["path"])
        if line is None:
            assert not row["batches"]
            continue
        compared += 1
        assert {key: row[key] for key in same} == {key: line[key] for key in same}, row["path"]
        assert row["open_transactions"] == len(line["open_transactions"])
        assert row["last_offset"] == line["last_offset"]
        assert row["last_timestamp"] == line["last_timestamp"]
        if all(codec["codec"] == "none" for codec in row["codecs"]):  # wrappers hide the first
            assert row["first_offset"] == line["first_offset"]
            assert row["first_timestamp"] == line["first_timestamp"]
        assert row["complete"]
    assert compared > 3
    ledger = rows(to, "ledger")
    assert Counter(row["path"] for row in ledger) == Counter(
        str(log)
        for log in path.glob("*/*.log")
        if log.parent.name in {Path(row["path"]).name for row in found}
    )
    assert sum(row["bytes"] for row in ledger) == sum(row["read_bytes"] for row in found)
    assert all(row["seconds"] >= 0 and row["host"] for row in ledger)


@pytest.mark.slow
def test_a_ratio_is_known_by_reading_records_alone(
    grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path = grown("4.3.1/clean")
    by_depth = {}
    for depth in ("deep", "default", "quick"):
        option = [] if depth == "default" else [f"--{depth}"]
        assert verified(capfdbinary, tmp_path / depth, *option, path)[0] == exits.OK
        by_depth[depth] = rows(tmp_path / depth, "statistics")
    packed = 0
    for deep, plain, quick in zip(*by_depth.values(), strict=True):
        for known, unknown in zip(deep["codecs"], plain["codecs"], strict=True):
            if known["codec"] != "none":
                packed += 1
                assert known["ratio"] > 0
                assert unknown["ratio"] is unknown["uncompressed_bytes"] is None
            assert known["stored_bytes"] == unknown["stored_bytes"]
        assert without(deep, "codecs") == without(plain, "codecs")
        assert quick["bytes"] == plain["bytes"]
        assert (quick["batches"], quick["codecs"], quick["complete"]) == (None, None, False)
    assert packed >= 4
    assert {len(rows(tmp_path / depth, "ledger")) for depth in by_depth} == {55}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A log directory of six partitions."""
    for partition in range(6):
        write_partition(tmp_path / "logs", "orders", partition, {0: [batch(0, [record()])]})
    return tmp_path / "logs"


def test_runs_are_appended(orders: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    to = tmp_path / "tables"
    assert verified(capfdbinary, to, orders)[0] == exits.OK
    first = state(to)
    assert main(["verify", "--to", str(to), str(orders)]) == exits.OK
    said = capfdbinary.readouterr().out.decode()
    runs = sorted(rows(to, "runs"), key=lambda row: row["begin"])
    assert [row["partitions"] for row in runs] == [6, 6]
    assert f"as run {runs[1]['run_id']}." in said
    for table in TABLES:
        found = rows(to, table)
        assert all(row["run_date"] == f"{row['run_begin']:%Y-%m-%d}" for row in found)
        if table != "findings":
            assert Counter(row["run_id"] for row in found) == {row["run_id"]: 6 for row in runs}
    assert {path for path in first if path.endswith(".parquet")} < set(state(to))
    assert not list((to / "_temporary").iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from kdump.cli.main import main
from kdump.output import destination
from kdump.commands.verify import run_files as run_tables

name, count, *arguments = sys.argv[1:]
owner = {"add": run_tables.Spool, "_write": run_tables._File}.get(name, destination._Directory)
work, left = getattr(owner, name), int(count)

def deadly(*given, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(*given, **named)

setattr(owner, name, deadly)
raise SystemExit(main(arguments))
"""


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("take", 3),
        pytest.param("add", 4, marks=pytest.mark.slow),
        pytest.param("_write", 2, marks=pytest.mark.slow),
        pytest.param("take", 1, marks=pytest.mark.slow),
        pytest.param("take", 5, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_is_none(
    place: str, count: int, orders: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    to = tmp_path / "tables"
    assert verified(capfdbinary, to, orders)[0] == exits.OK
    (before,) = rows(to, "runs")
    command = [sys.executable, "-c", KILLED, place, str(count), "verify", "--to", str(to)]
    done = subprocess.run([*command, str(orders)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert rows(to, "runs") == [before]
    for table in TABLES:  # each file that appeared is whole
        found = Counter(row["run_id"] for row in rows(to, table))
        assert set(found.values()) <= {6}
        assert len(found) <= 2
    assert verified(capfdbinary, to, orders)[0] == exits.OK
    assert len(rows(to, "runs")) == 2


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (KeyboardInterrupt, 130, "interrupted"),
        pytest.param(SystemExit, 143, "terminated", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_has_what_was_done(
    error: type[BaseException],
    code: int,
    reason: str,
    orders: Path,
    tmp_path: Path,
    capfdbinary: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    to, add = tmp_path / "tables", RunTables.add
    done: list[AnyPath] = []

    def interrupted(tables: RunTables, verdict: Any) -> Any:
        if len(done) == 4:
            raise error
        done.append(verdict.target.path)
        return add(tables, verdict)

    monkeypatch.setattr(RunTables, "add", interrupted)
    assert verified(capfdbinary, to, orders)[0] == code
    (run,) = rows(to, "runs")
    assert (run["end_reason"], run["exit"], run["partitions"]) == (reason, code, 4)
    assert [row["path"] for row in rows(to, "statistics")] == [str(path) for path in done]


def test_a_failure_leaves_nothing_of_its_run(
    orders: Path, tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "tables"
    assert verified(capfdbinary, to, orders)[0] == exits.OK
    before = state(to)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ("commands.verify.run_files._File._write", "output.destination._write_durably"):
        with monkeypatch.context() as patched:
            patched.setattr(f"kdump.{place}", full)
            for other in (to, tmp_path / "new"):
                code = main(["verify", "--to", str(other), str(orders)])
                assert code == exits.INCOMPLETE
                assert b"cannot be written: No space left" in capfdbinary.readouterr().err
        assert {path for path in state(to) if path.endswith("t")} == {
            path for path in before if path.endswith("t")
        }
        assert not list(tmp_path.glob("new/*/*/*"))


def test_a_run_that_cannot_begin_leaves_no_directory(
    orders: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    to = tmp_path / "tables"
    for place in (orders / "tables", orders / "orders-0" / "tables"):
        assert verified(capfdbinary, place, orders / "orders-0", orders)[0] == exits.USAGE
        assert not place.exists()
    (orders / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    assert verified(capfdbinary, orders / "tables", tmp_path)[0] == exits.USAGE
    assert not (orders / "tables").exists()
    (tmp_path / "file").write_bytes(b"")
    assert verified(capfdbinary, tmp_path / "file", orders)[0] != exits.OK
    with pytest.raises(ZeroDivisionError), extend_destination(to, "run"):
        raise ZeroDivisionError
    assert not to.exists()


def test_a_place_whose_name_is_too_long(orders: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    assert main(["verify", "--to", str(tmp_path / ("x" * 300)), str(orders)]) == exits.INCOMPLETE
    assert b"File name too long" in capfdbinary.readouterr().err


def test_what_was_not_read_has_no_statistics(
    orders: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    to, top = tmp_path / "tables", tmp_path / os.fsdecode(b"a\xff")
    orders.rename(top)
    code, _ = verified(capfdbinary, to, top, tmp_path / "gone")
    assert code == exits.INCOMPLETE
    *read, gone = rows(to, "statistics")
    assert [(row["complete"], row["batches"]) for row in read] == [(True, 1)] * 6
    assert (gone["path"], gone["complete"], gone["batches"]) == (
        str(tmp_path / "gone"), False, None
    )  # fmt: skip
    (run,) = rows(to, "runs")
    assert run["paths"] == [f"{tmp_path}/a\\xff", str(tmp_path / "gone")]


def test_values_wait_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with extend_destination(tmp_path / "tables", "run") as destination:
        spool = Spool(destination)
        for number in range(1000):
            spool.add(("value", number))
            assert len(spool._held) < 256
        assert list(spool.values()) == [("value", number) for number in range(1000)]
        assert not list(destination.folder.iterdir())  # type: ignore[union-attr]
        spool.close()
        monkeypatch.setattr(
            "tempfile.TemporaryFile", lambda **_: (_ for _ in ()).throw(OSError(28))
        )
        with pytest.raises(SourceError, match="cannot be written"):
            Spool(destination)


@pytest.mark.parametrize("found", ["a file", "a link to nothing"])
def test_a_place_that_is_no_directory(
    found: str, orders: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    to = tmp_path / "out"
    if found == "a file":
        to.write_text("mine")
    else:
        to.symlink_to(tmp_path / "nothing")
    assert main(["verify", "--to", str(to), "--progress", "none", str(orders)]) == exits.USAGE
    assert b"expected a directory, or a free name, found neither" in capfdbinary.readouterr().err
    assert not (tmp_path / "nothing").exists()
