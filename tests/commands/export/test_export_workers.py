"""The command ``export`` without Spark: its tasks run in workers of its process."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zstandard import ZstdDecompressor

from kdump.cli.main import main
from kdump.commands.export import export, task
from kdump.commands.export.files import FileLayout
from kdump.commands.export.output import FileFormat
from kdump.commands.export.task import ExportResult, ExportTask, Share, export_logs
from kdump.storage.access import open_source
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.tables.logs import Log
from kdump.ui import exits
from kdump.ui.progress import Progress
from support.directory_state import state
from support.dumps import served
from support.exports import Capture, as_row, by_place, dumped, rows_of
from support.forge import batch, record, write_partition

pytestmark = pytest.mark.once

#: What an export to JSON Lines must do without, as in the base install.
EXTRAS = ("pyarrow", "numpy", "pandas", "pyspark", "py4j", "grpc", "google")
BASE = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None
from kdump.cli.main import main
raise SystemExit(main(sys.argv[1:]))
"""


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    """A directory with a partition of each of three topics."""
    directory = tmp_path / "data"
    directory.mkdir()
    for topic in ("one", "three", "two"):
        write_partition(directory, topic, 0, {0: [batch(0, [record(topic.encode())])]})
    return directory


def manifest_of(to: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((to / "_manifest.json").read_text())
    return manifest


def lines_of(to: Path) -> list[dict[str, Any]]:
    """The records of all files of JSON Lines."""
    files = [to / file["path"] for file in manifest_of(to)["files"]]
    assert sorted(files) == sorted(to.rglob("part-*"))
    texts = [ZstdDecompressor().stream_reader(path.read_bytes()).read() for path in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def children() -> str:
    """The numbers of the processes that this one has started."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.slow
def test_records_are_those_of_the_dump(
    form: str, grown: Callable[[str], Path], tmp_path: Path, capfdbinary: Capture
) -> None:
    path, to = grown("4.3.1/killed"), tmp_path / "out"
    expected, before = served(path, dumped(capfdbinary, path)[1]), state(path)
    assert main(["export", "--to", str(to), "--format", form, "--jobs", "2", str(path)]) == exits.OK
    assert state(path) == before
    if form == "parquet":
        assert rows_of(to) == by_place(map(as_row, expected))
    else:
        assert by_place(lines_of(to)) == by_place(expected)
    assert manifest_of(to)["records"] == len(expected)
    assert f"{len(expected):,} records" in capfdbinary.readouterr().out.decode()


def test_files_do_not_depend_on_the_number_of_workers(
    grown: Callable[[str], Path], tmp_path: Path
) -> None:
    path = grown("4.3.1/clean")
    for jobs in ("1", "3"):
        to = tmp_path / jobs
        assert main(["export", "--to", str(to), "--jobs", jobs, str(path)]) == exits.OK
    assert manifest_of(tmp_path / "1") == manifest_of(tmp_path / "3")


@pytest.mark.parametrize("options", [[], ["--read-committed", "--dedupe-replicas"]])
def test_json_lines_need_no_extra(options: list[str], topics: Path, tmp_path: Path) -> None:
    to = tmp_path / "out"
    arguments = ["export", "--format", "jsonl", "--to", str(to), *options, str(topics)]
    done = subprocess.run(
        [sys.executable, "-c", BASE, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == exits.OK, done.stderr
    unknown, total = done.stdout.splitlines()
    assert unknown.startswith("Not all missing offsets can be seen in 3 partitions: ")
    assert total == "Exported 3 records of 3 partitions into 3 files."
    assert sorted(line["value"] for line in lines_of(to)) == ["one", "three", "two"]


def test_what_kills_a_worker_is_reported_and_the_rest_exported(
    topics: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def deadly(task: ExportTask) -> ExportResult:
        if task.shares[0].log.origin.topic == "three":
            os.kill(os.getpid(), signal.SIGKILL)
        return export_logs(task)

    monkeypatch.setattr(export, "export_logs", deadly)
    to = tmp_path / "out"
    code = main(["export", "--format", "jsonl", "--to", str(to), "--jobs", "2", str(topics)])
    assert code == exits.INCOMPLETE
    assert sorted(line["value"] for line in lines_of(to)) == ["one", "two"]
    assert "expected a result of the task, found SIGKILL" in capsys.readouterr().out
    assert not (to / "_temporary").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_log_that_is_truncated_while_it_is_mapped(
    again: bool,
    topics: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is read once more, without a map; a second death is reported."""

    def truncated(task: ExportTask) -> ExportResult:
        if task.shares[0].log.origin.topic == "three" and (task.mapped or again):
            faulthandler.disable()  # that of pytest would print a traceback
            os.kill(os.getpid(), signal.SIGBUS)
        return export_logs(task)

    monkeypatch.setattr(export, "export_logs", truncated)
    to = tmp_path / "out"
    code = main(["export", "--format", "jsonl", "--to", str(to), "--jobs", "2", str(topics)])
    assert code == (exits.INCOMPLETE if again else exits.OK)
    values = sorted(line["value"] for line in lines_of(to))
    assert values == (["one", "two"] if again else ["one", "three", "two"])
    assert ("found SIGBUS" in capsys.readouterr().out) == again


@pytest.mark.parametrize("live", [False, True])
def test_only_logs_of_stopped_brokers_are_mapped(
    live: bool, topics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    def open_noted(path: AnyPath, *, mapped: bool, sealed: bool) -> Source:
        opened.append(mapped)
        return open_source(path, mapped=mapped, sealed=sealed)

    monkeypatch.setattr(task, "open_source", open_noted)
    log = next((topics / "one-0").glob("*.log"))
    share = Share(Log(log, 0, sealed=True, size=log.stat().st_size, stopped=not live))
    whole = Selection()
    for mapped in (True, False):
        given = ExportTask((share,), tmp_path, None, FileFormat.JSONL, whole, FileLayout(), mapped)
        (file,) = export_logs(given).files
        assert sum(ledger.records for ledger in file.logs) == 1
    assert opened == [not live, False]


def test_an_interrupted_export_leaves_nothing(
    topics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", interrupt)
    to, before = tmp_path / "out", children()
    assert main(["export", "--format", "jsonl", "--to", str(to), str(topics)]) == exits.INTERRUPTED
    assert not to.exists()
    assert children() == before


#: An export that is killed, or that waits for its standard input, where it calls a function.
AT = """
import os, signal, sys
from kdump.cli.main import main
from kdump.commands.export import export
what, name = sys.argv.pop(1), sys.argv.pop(1)
function = getattr(export, name)
def stop(*arguments, **options):
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    print("here", flush=True)
    sys.stdin.read()
    return function(*arguments, **options)
setattr(export, name, stop)
raise SystemExit(main(sys.argv[1:]))
"""


def export_until(what: str, name: str, topics: Path, to: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", AT, what, name, "export", "--format", "jsonl", "--to"]
    pipe = subprocess.PIPE
    return subprocess.Popen([*argv, to, topics], stdin=pipe, stdout=pipe, text=True)


def export_again(topics: Path, to: Path) -> int:
    return main(["export", "--format", "jsonl", "--to", str(to), str(topics)])


# Before the first record is read, and when files have their names, but no manifest names them.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["make_parts", "_entries"])
def test_the_rest_of_a_killed_export_is_replaced(
    name: str, topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to, whole = tmp_path / "out", tmp_path / "whole"
    run = export_until("kill", name, topics, to)
    run.communicate(timeout=120)
    assert run.returncode == -signal.SIGKILL
    assert any(to.rglob("part-*")) == (name == "_entries")
    (to / "_temporary" / ("0" * 32)).mkdir()
    (to / "_temporary" / ("0" * 32) / f"{'1' * 32}.jsonl").touch()
    assert main(["check", str(to)]) == exits.INCOMPLETE
    said = capsys.readouterr().err
    assert "it was not finished; it still runs, or the same kdump export command begins it" in said
    assert export_again(topics, to) == exits.OK
    assert f"{to}: the rest of an export that was killed was removed" in capsys.readouterr().err
    assert export_again(topics, whole) == exits.OK
    assert "removed" not in capsys.readouterr().err
    assert {path.name for path in to.iterdir()} == {path.name for path in whole.iterdir()}
    assert main(["check", str(to)]) == exits.OK
    assert export_again(topics, to) == exits.USAGE
    assert "expected a name that is free, found it taken" in capsys.readouterr().err


def test_an_export_does_not_replace_one_that_still_runs(
    topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    run = export_until("wait", "_entries", topics, to)
    assert run.stdout is not None
    assert run.stdout.readline() == "here\n"
    before = state(to)
    assert export_again(topics, to) == exits.REFUSED
    assert "another export writes there" in capsys.readouterr().err
    assert state(to) == before
    run.communicate(timeout=120)
    assert run.returncode == exits.OK
    assert main(["check", str(to)]) == exits.OK


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "topic=one/notes.txt",
        "mine/x",
        "topic=one/a/x",
        "_temporary/mine",
        "_temporary/mine/x",
        f"_temporary/{'0' * 32}/mine",
        f"_temporary/{'0' * 32}/{'1' * 32}.jsonl/x",
    ],
)
def test_beside_the_rest_of_an_export_nothing_else_is_removed(
    name: str, topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    for mine in ("_kdump.lock", "topic=one/part-0", name):
        (to / mine).parent.mkdir(parents=True, exist_ok=True)
        (to / mine).touch()
    before = state(to)
    assert export_again(topics, to) == exits.USAGE
    assert "found beside the rest of an export that was killed also" in capsys.readouterr().err
    assert state(to) == before


def test_a_link_to_the_rest_of_an_export_is_a_taken_name(topics: Path, tmp_path: Path) -> None:
    to, link = tmp_path / "out", tmp_path / "link"
    (to / "_temporary").mkdir(parents=True)
    (to / "_kdump.lock").touch()
    link.symlink_to(to)
    before = state(to)
    assert export_again(topics, link) == exits.USAGE
    assert state(to) == before


def test_jobs_are_for_this_machine(
    topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    code = main(["export", "--to", str(to), "--jobs", "2", "--master", "local", str(topics)])
    assert code == exits.USAGE
    assert "--jobs" in capsys.readouterr().err
    assert not to.exists()
