"""``kdump verify`` beside processes that read the same files: it says the same as alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from kdump.cli.main import main
from kdump.storage import liveness
from support import damaged, recipes_directory, recipes_indexes, recipes_producers
from support.damaged import name
from support.fleet_reports import without_free_space

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

#: Has all files below the directories that it is given open.
READER = """
import sys
from pathlib import Path
files = [path.open("rb") for top in sys.argv[1:] for path in Path(top).rglob("*") if path.is_file()]
print(len(files), flush=True)
input()
"""


class Recipe(Protocol):
    """What all recipes have in common."""

    @property
    def name(self) -> str: ...
    @property
    def expected(self) -> Sequence[str]: ...
    @property
    def write(self) -> Callable[[Path], Path]: ...


#: Those that may stand beside each other in one log directory, then those that need their own.
DIRECTORIES: Sequence[Sequence[Recipe]] = (
    damaged.RECIPES,
    recipes_indexes.RECIPES,
    *((recipe,) for recipe in (*recipes_directory.RECIPES, *recipes_producers.RECIPES)),
)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Log directories with every recipe, each directory of a node of its own."""
    made = []
    for number, recipes in enumerate(DIRECTORIES):
        directory = tmp_path_factory.mktemp("data")
        for recipe in recipes:
            recipe.write(directory)
        meta = directory / "meta.properties"
        if not meta.exists():
            meta.write_text(f"version=1\nnode.id={number}\ncluster.id=c{number}\n")
        made.append(directory)
    return made


@contextmanager
def read_by_another(directories: Sequence[Path]) -> Iterator[int]:
    """A process has every file there open for reading; its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", READER, *map(str, directories)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) > 4 * len(directories)
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


def timeless(printed: str) -> list[dict[str, Any]]:
    """The lines of a report without what differs from run to run."""
    lines = [without_free_space(json.loads(line)) for line in printed.splitlines()]
    lines[-1].pop("seconds")
    for line in lines:
        if "the present" in ((line.get("detail") or {}).get("expected") or ""):
            line.pop("detail")
    return lines


def parts(directories: Sequence[Path]) -> list[Sequence[Path]]:
    """As many directories as a command is given; the first part has most recipes."""
    return [directories[start : start + 20] for start in range(0, len(directories), 20)]


def verify(directories: Sequence[Path], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["verify", "--jobs", "2", "--format", "json", *map(str, directories)])
    printed = capfd.readouterr()
    assert printed.err == ""
    return code, printed.out


@pytest.mark.nightly
def test_a_reader_of_every_file_changes_nothing(
    directories: list[Path], capfd: pytest.CaptureFixture[str]
) -> None:
    codes: set[str] = set()
    for some in parts(directories):
        code, alone = verify(some, capfd)
        with read_by_another(some):
            code_beside, beside = verify(some, capfd)
        assert timeless(beside) == timeless(alone)
        assert code_beside == code
        codes |= {line["code"] for line in timeless(alone) if line["type"] == "finding"}
    assert {"torn-tail", "torn-tail-sealed", "batch-crc-mismatch"} <= codes


@pytest.mark.parametrize(
    "most",
    [pytest.param(1, marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.nightly)],
)
def test_five_at_once_say_the_same(
    most: int | None,
    directories: list[Path],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    every_process: Callable[[], Iterator[Path]],
) -> None:
    # The five search all processes.
    monkeypatch.setattr(liveness, "_processes", every_process)
    code = "import sys; from kdump.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "verify", "--jobs", "2", "--format", "json"]
    for some in parts(directories)[:most]:
        _, alone = verify(some, capfd)
        started = [
            subprocess.Popen([*command, *map(str, some)], stdout=subprocess.PIPE, text=True)
            for _ in range(5)
        ]
        reports = [process.communicate()[0] for process in started]
        assert [timeless(report) for report in reports] == [timeless(alone)] * 5


def test_the_reader_is_named_in_the_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A torn tail of a directory that was not cleanly stopped is one beside ``tail``, too."""
    (torn,) = [recipe for recipe in damaged.RECIPES if recipe.name == "torn-last"]
    partition = torn.write(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    assert (partition / name(100, ".log")).exists()
    main(["verify", str(tmp_path)])
    alone = capfd.readouterr().out
    assert "WARN   torn-last-0 torn-tail" in alone
    with read_by_another([tmp_path]) as pid:
        main(["verify", str(tmp_path)])
    beside = " ".join(capfd.readouterr().out.split())
    assert f"open for writing; read by process {pid} (python" in beside
    assert "broker stopped" in beside
    # The free space of the file system follows, on which others write.
    assert (
        beside.rpartition("WARN")[2].partition("disk ")[0]
        == (" ".join(alone.split()).rpartition("WARN")[2].partition("disk ")[0])
    )


def test_a_finding_that_is_milder_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where flags cannot be read, a reader may be a broker that is just appending."""
    (torn,) = [recipe for recipe in damaged.RECIPES if recipe.name == "torn-last"]
    torn.write(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    monkeypatch.setattr(liveness, "_opened_for_writing", lambda _: None)
    with read_by_another([tmp_path]) as pid:
        assert main(["verify", "--info", str(tmp_path)]) == 0
        said = " ".join(capfd.readouterr().out.split())
        assert f"broker unknown: process {pid} (python" in said
        assert "cannot determine whether for writing; read as while a broker is running" in said
        _, report = verify([tmp_path], capfd)
    (finding,) = [line for line in timeless(report) if line.get("code") == "torn-tail-live"]
    assert finding["detail"]["found"].endswith(", as while a broker is running")
