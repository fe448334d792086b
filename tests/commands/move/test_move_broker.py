"""Partitions that moved to another file system, served by real brokers; starts in between."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from brokers.broker import QUICK_RESTART, Broker, refused_start
from commands.move.two_directories import CHECKPOINTS, contents, lines
from support.commands import kdump
from support.crashing.places import small_disk
from support.crashing.running import Run
from support.crashing.running import run as kdump_in_words
from support.crashing.seam import Call
from support.fixtures_loader import copy_fixture
from support.served import COMMITTED, READ, complaints, read_all
from support.waiting import until

pytestmark = pytest.mark.broker

SETTINGS: Final = {**QUICK_RESTART, "log.cleaner.enable": "true"}
#: Compacted with a line of the cleaner; with a log start of its own; with aborted transactions.
NAMES: Final = ("compacted-0", "deleted-records-0", "transactions-0", "codec-lz4-0")
TO_ID: Final = "q2Y3hBDoQ1mDkd8pO5sTgA"
MARKER: Final = ".kafka_cleanshutdown"


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    with small_disk(tmp_path / "small", "200m") as directory:
        yield directory / "b"


def words(*arguments: object, around: Any = None) -> Run:
    """Run a command that prints for people."""
    return kdump_in_words([*map(str, arguments)], around, searching=True)


def printed(text: str, label: str) -> list[str]:
    """The arguments of a command below its label, or beside it."""
    found = re.search(rf"^{label}\s+kdump (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return shlex.split(found[1])


def before_set_aside(call: Call, make: Any) -> Any:
    """The process ends before it sets the old directory aside."""
    if call.method == "rename" and call.paths[1].endswith("-stray"):
        raise KeyboardInterrupt
    return make(*call.arguments)


def assigned(data: Path) -> dict[str, list[str]]:
    """The directory ids of the replicas of each partition, as the controller knows them."""
    ran = kdump("metadata", data, searching=False)
    return {
        f"{each['topic']}-{each['partition']}": each["directories"] for each in ran.of("partition")
    }


def served(broker: Broker, to: Path) -> dict[str, Any]:
    return {each: read_all(broker, NAMES, to / each, each) for each in (READ, COMMITTED)}


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_moved_partitions_are_served(version: str, second: Path, tmp_path: Path) -> None:
    first = copy_fixture(f"{version}/clean", tmp_path / "a")
    second.mkdir()
    meta = (first / "meta.properties").read_text()
    meta = re.sub(r"directory\.id=\S+", f"directory.id={TO_ID}", meta)
    (second / "meta.properties").write_text(meta)
    settings = SETTINGS | {"log.dirs": f"{first},{second}"}
    with Broker(version, first, settings) as broker:
        (tmp_path / "before").mkdir()
        before = served(broker, tmp_path / "before")
    assert (first / MARKER).exists()
    (second / MARKER).unlink()
    was = {each: (lines(first / each), lines(second / each)) for each in CHECKPOINTS}
    files = {name: contents(first / name) for name in NAMES}

    # All but one move at once; that one is interrupted where both directories have it.
    *moved, last = NAMES
    ran = words("move", "--to", second, *(first / name for name in moved))
    assert ran.code == 4, ran
    assert TO_ID in ran.out
    ran = words(*printed(ran.out, "apply"))
    assert ran.code == 0, ran
    freed = [printed(each, "free") for each in ran.out.split("DONE")[1:]]
    for name in moved:
        assert contents(second / name) == files[name]
    interrupted = words("move", "--to", second, first / last, "--apply", around=before_set_aside)
    assert interrupted.code == 130, interrupted
    assert all((each / last).is_dir() for each in (first, second))
    said = "\n".join(refused_start(version, first, settings))
    assert f"Duplicate log directories for {last} are found" in said
    _, *resume = shlex.split(interrupted.last_line)
    ran = words(*resume)
    assert ran.code == 0, ran

    for name in NAMES:
        assert not (first / name).exists()
        (kept,) = first.glob(f"*-{name}-stray")
        assert {each.name for each in kept.iterdir()} >= files[name].keys()
        if name != last:  # which the refused start has loaded
            assert contents(kept) == files[name]
    for each, (ours, theirs) in was.items():
        for name in moved:
            found = lines(first / each).get(name), lines(second / each).get(name)
            assert found == (None, ours.get(name)), (each, name)
        assert {*theirs}.isdisjoint(NAMES)

    with Broker(version, first, settings) as broker:
        (tmp_path / "after").mkdir()
        assert served(broker, tmp_path / "after") == before
        until(
            lambda: all(assigned(first)[name] == [TO_ID] for name in NAMES),
            60,
        )
        for name in NAMES:
            assert not (first / name).exists()
        text = broker.log_lines()
    assert complaints(text, clean=False) == []
    assert not any("Duplicate key" in line for line in text)
    for name in moved:  # brokers have left the backups alone
        (kept,) = first.glob(f"*-{name}-stray")
        assert contents(kept) == files[name]
    checked = kdump("verify", first, second)
    assert [each for each in checked.of("finding") if each["severity"] == "error"] == []

    # A broker has run: there is no way back but another move.
    assert words("undo", second / moved[0], "--apply").code == 6
    for argv in freed:
        assert words(*argv).code == 0
    assert len([*first.glob("*-stray")]) == 1
    ran = words("move", "--to", first, second / moved[0], "--apply")
    assert ran.code == 0, ran
    with Broker(version, first, settings) as broker:
        (tmp_path / "back").mkdir()
        assert served(broker, tmp_path / "back") == before


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.nightly)])
def test_a_start_amid_a_copy_finds_the_old_directory(
    version: str, second: Path, tmp_path: Path
) -> None:
    """It skips the copy, whatever state that is in; the move begins anew after it."""
    first = copy_fixture(f"{version}/clean", tmp_path / "a")
    second.mkdir()
    meta = (first / "meta.properties").read_text()
    meta = re.sub(r"directory\.id=\S+", f"directory.id={TO_ID}", meta)
    (second / "meta.properties").write_text(meta)
    settings = SETTINGS | {"log.dirs": f"{first},{second}"}
    name = "codec-lz4-0"

    def killed(call: Call, make: Any) -> Any:
        if call.method == "set_times" and call.paths[0].endswith("48.log"):
            raise SystemExit(143)
        return make(*call.arguments)

    ran = words("move", "--to", second, first / name, "--apply", around=killed)
    assert ran.code == 143, ran
    (second / f"__cluster_metadata-0.kdump-00000000-{name}-stray").mkdir()
    half = second / f"__cluster_metadata-0.kdump-00000000-{name}-stray"
    shutil.copy(first / name / f"{0:020}.log", half)
    (half / "leader-epoch-checkpoint").write_text("0\n9\n")
    with Broker(version, first, settings) as broker:
        (tmp_path / "before").mkdir()
        before = read_all(broker, [name], tmp_path / "before")
        assert before[name]
    assert sorted(path.name for path in half.iterdir()) == [
        f"{0:020}.log",
        "leader-epoch-checkpoint",
    ]
    ran = words("move", "--to", second, first / name, "--apply")
    assert ran.code == 0, ran
    with Broker(version, first, settings) as broker:
        (tmp_path / "after").mkdir()
        assert read_all(broker, [name], tmp_path / "after") == before


def test_a_running_broker_moves_by_what_is_printed(second: Path, tmp_path: Path) -> None:
    first = copy_fixture("4.3.1/clean", tmp_path / "a")
    second.mkdir()
    meta = (first / "meta.properties").read_text()
    meta = re.sub(r"directory\.id=\S+", f"directory.id={TO_ID}", meta)
    (second / "meta.properties").write_text(meta)
    settings = SETTINGS | {"log.dirs": f"{first},{second}"}
    with Broker("4.3.1", first, settings):
        ran = kdump("move", "--to", second, first / "codec-lz4-0")
        assert ran.code == 4, ran
        (found,) = ran.of("reassignment")
        assert found["json"] == {
            "version": 1,
            "partitions": [
                {
                    "topic": "codec-lz4",
                    "partition": 0,
                    "replicas": [1],
                    "log_dirs": [str(second)],
                }
            ],
        }
        shown = words("move", "--to", second, first / "codec-lz4-0").out
        assert json.loads(next(x for x in shown.splitlines() if x[0] == "{")) == found["json"]
        assert words("move", "--to", second, first / "codec-lz4-0", "--apply").code == 6
