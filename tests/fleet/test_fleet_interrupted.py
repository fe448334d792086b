"""Exports on Spark that are interrupted, and jobs whose JVM is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from fleet import fleet_work
from fleet.fleet_exports import FIXTURE
from fleet.java_processes import SECONDS, descendants, gone
from kdump.fleet.job import job
from kdump.fleet.job.job import _error_text
from kdump.fleet.job.spread import spread
from kdump.fleet.session.jvm import SparkFailed
from kdump.fleet.session.session import Cluster, open_session

pytestmark = pytest.mark.spark


@pytest.mark.nightly
def test_a_jvm_that_is_lost_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        fleet_work.by_value(),
        pytest.raises(SparkFailed, match="the connection to Spark was lost during a job"),
        open_session(Cluster(master="local[1]")) as session,
    ):
        list(spread(session, fleet_work.without_jvm, [1], [0]))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_of_an_error_of_grpc_the_details_are_told() -> None:
    shown = '<_Rendezvous of RPC:\n\tstatus = UNAVAILABLE\n\tdetails = "gone"\n\tdebug = "x"\n>'
    assert _error_text(shown) == "gone"


def test_spark_is_seldom_asked_for_the_progress_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = 100.0, list[int]()

    def ask(tasks: int) -> float:
        asked.append(tasks)
        return len(asked) / 10

    monkeypatch.setattr(job, "time", Mock(monotonic=lambda: now))
    watch = job._ClassicWatch(Mock())
    monkeypatch.setattr(watch, "_ask", ask)
    seen = []
    for _ in range(3):
        seen += [watch.fraction(8) for _ in range(4)]
        now += job._ASK_SECONDS
    assert (seen, asked) == ([0.1] * 4 + [0.2] * 4 + [0.3] * 4, [8] * 3)


PROGRAM = """
import sys
from functools import partial
from pathlib import Path
from fleet import fleet_work
import kdump.commands.export.export
from kdump.cli.main import main

flag, *arguments = sys.argv[1:]
with fleet_work.by_value():
    kdump.commands.export.export.export_logs = partial(fleet_work.export_slow_once, flag=Path(flag))
    raise SystemExit(main(arguments))
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)],
)
def test_a_signal_leaves_neither_files_nor_processes(
    number: signal.Signals, code: int, grown: Callable[[str], Path], tmp_path: Path
) -> None:
    temporary, flag, to = tmp_path / "tmp", tmp_path / "flag", tmp_path / "out"
    temporary.mkdir()
    tests = str(Path(__file__).parents[1])
    command = [flag, "export", "--master", "local[2]", "--to", to, grown(FIXTURE)]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, command)],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": tests},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        while not flag.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        assert any((to / "_temporary").glob("*/*"))
        children = descendants(process.pid)
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, output) == (code, b"")
    assert gone(children)
    assert not to.exists()
    assert list(temporary.iterdir()) == []
