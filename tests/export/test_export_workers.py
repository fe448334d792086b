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
from directory_state import state
from dumps import served
from exports import Capture, as_row, by_place, dumped, rows_of
from forge import batch, record, write_partition
from zstandard import ZstdDecompressor

from kdump.cli.main import main
from kdump.cli.ui import exits
from kdump.cli.ui.progress import Progress
from kdump.export import export, task
from kdump.export.files import Layout
from kdump.export.output import Form
from kdump.export.task import ExportResult, ExportTask, Share, export_logs
from kdump.storage.access import open_source
from kdump.storage.objects.address import AnyPath
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.tables.logs import Log

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
    assert done.stdout == "Exported 3 records of 3 partitions into 3 files.\n"
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
    share = Share(Log(log, 0, sealed=True, size=log.stat().st_size), None, live=live)
    whole = Selection()
    for mapped in (True, False):
        given = ExportTask((share,), tmp_path, None, Form.JSONL, whole, Layout(), mapped)
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


def test_jobs_are_for_this_machine(
    topics: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "out"
    code = main(["export", "--to", str(to), "--jobs", "2", "--master", "local", str(topics)])
    assert code == exits.USAGE
    assert "--jobs" in capsys.readouterr().err
    assert not to.exists()
