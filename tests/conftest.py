"""Fixtures and rules that every test shares."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from brokers import jars
from brokers.oracle import Oracle
from kdump.errors import UsageError
from kdump.storage import liveness
from support.children import family
from support.crashing import straced
from support.crashing.conditions import Trial
from support.crashing.places import in_memory
from support.crashing.subjects import LOSSY, REINDEX, Subject
from support.fixtures_loader import copy_fixture
from support.json_lines import checked

#: They import Spark; where it is not installed they are passed over.
collect_ignore_glob = (
    []
    if importlib.util.find_spec("pyspark")
    else ["fleet/test_fleet_*.py", "fleet/test_export*.py", "fleet/test_datasource*.py"]
)

# What tests start as ``python -c`` reads the kdump that is installed and under test, not the
# sources that happen to lie in the working directory.
os.environ["PYTHONSAFEPATH"] = "1"
# What a shell runs in the background ignores it, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


#: Markers of tests that take seconds, where others take milliseconds.
LONG = ("broker", "spark", "slow", "nightly")
MONITORING = ("prometheus", "promtool", "prometheus-node-exporter")


@pytest.hookimpl(trylast=True)  # behind what is deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most long tests first, those with few tests last.

    Where files run side by side no process is left alone with a long one at the end.
    """
    count = Counter(item.path for item in items)
    long = Counter(item.path for item in items if any(map(item.get_closest_marker, LONG)))
    items.sort(key=lambda item: (-long[item.path], -count[item.path], item.path))


def pytest_collection_finish() -> None:
    """Keep the collector away from what stays until the end, which forked processes share."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests with these markers skip without what they need; with ``CI`` they fail."""
    for marker, missing in (
        ("broker", jars.missing),
        ("spark", _missing_spark),
        ("root", _missing_root),
        ("strace", straced.missing),
        ("systemd", partial(_missing_programs, "systemd-analyze")),
        ("tmux", partial(_missing_programs, "tmux")),
        ("chromium", partial(_missing_programs, "chromium")),
        ("prometheus", partial(_missing_programs, *MONITORING)),
    ):
        reason = missing() if item.get_closest_marker(marker) else None
        if reason is None:
            continue
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; CI requires the {marker} tests", pytrace=False)
        pytest.skip(reason)


def _missing_spark() -> str | None:
    try:
        from kdump.fleet.session.java import check_java

        check_java()
    except (ModuleNotFoundError, UsageError) as error:
        return f"no Spark here: {error}"
    return None


def _missing_programs(*names: str) -> str | None:
    missing = [name for name in names if shutil.which(name) is None]
    return f"no {', '.join(missing)} here" if missing else None


def _missing_root() -> str | None:
    return None if os.geteuid() == 0 else "not root here"


@pytest.fixture
def capfd(capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What it reads is held against the schemas, if it is JSON lines of a command."""
    return checked(capfd)


@pytest.fixture
def capfdbinary(capfdbinary: pytest.CaptureFixture[bytes]) -> pytest.CaptureFixture[bytes]:
    """What it reads is held against the schemas, if it is JSON lines of a command."""
    return checked(capfdbinary)


@pytest.fixture
def capsys(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What it reads is held against the schemas, if it is JSON lines of a command."""
    return checked(capsys)


@pytest.fixture(scope="session", autouse=True)
def no_idle_class() -> Iterator[None]:
    """Workers of scrub run as all others do.

    In the idle class of the scheduler they would get no time beside processes that are always busy.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_setscheduler", lambda *_: None, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def every_process() -> Iterator[Callable[[], Iterator[Path]]]:
    """Of all processes only those that tests have started are searched for open files.

    No other has files of a test open, whose report does not depend on what else runs here; and of
    most checks in this process a search of all took most of the time. What commands in processes
    of their own do stays as it is. The value searches all.
    """
    every, top = liveness._processes, os.getpid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            liveness, "_processes", lambda: (liveness._PROC / str(pid) for pid in family(top))
        )
        yield every


@pytest.fixture(scope="session")
def oracle() -> Iterator[Callable[[str], Oracle]]:
    """``oracle(version)``: the loader and dump tool of a Kafka release, one a release a session."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Oracle] = {}

        def of(version: str) -> Oracle:
            if version not in started:
                started[version] = stack.enter_context(Oracle(version))
            return started[version]

        yield of


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``grown(name)``: a fixture's log directory as the broker left it. For reading alone."""
    copies: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in copies:
            directory = tmp_path_factory.mktemp(name.replace("/", "-")) / "data"
            copies[name] = copy_fixture(name, directory)
        return copies[name]

    return of


@pytest.fixture(scope="module")
def trials() -> Iterator[Callable[[Subject], Trial]]:
    """``trials(subject)``: written, planned, and recorded once for the whole module."""
    with in_memory() as directory:
        made: dict[str, Trial] = {}

        def of(subject: Subject) -> Trial:
            if subject.title not in made:
                root = directory / subject.title
                root.mkdir()
                made[subject.title] = Trial.of(subject, root)
            return made[subject.title]

        yield of


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory on a file system that loses no time with syncing."""
    with in_memory() as directory:
        yield directory


@pytest.fixture
def lossy(place: Path) -> Path:
    """A partition with a bad batch amid its second of three segments, cleanly stopped."""
    LOSSY.write(place)
    return LOSSY.partition(place)


@pytest.fixture
def unindexed(place: Path) -> Path:
    """A partition with bad and missing indexes."""
    REINDEX.write(place)
    return REINDEX.partition(place)


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are not searched for open files: it takes most of a small repair's time."""
    monkeypatch.setattr(liveness, "_open_files", lambda *_: iter(()))
