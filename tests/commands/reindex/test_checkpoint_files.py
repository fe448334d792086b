"""``reindex`` of a log directory whose checkpoint files cannot be read: content, kills, undo."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from kdump.cli.main import main
from support import forge
from support.commands import kdump
from support.crashing.running import run
from support.crashing.seam import Around, Call, killed_before
from support.crashing.subjects import CHECKPOINTS, END, MARK, MARKER, PARTITION, POINT, Subject
from support.crashing.trees import Node
from support.long_samples import first_of
from support.planning import left, restored

pytestmark = pytest.mark.usefixtures("unsearched")

START, CLEANER = "log-start-offset-checkpoint", "cleaner-offset-checkpoint"
TORN = b"0\n3\norders 1 7\norders 0 299\ngone 7 1\norders x 1\norders 0 3"
Tree = dict[str, Node]


@pytest.fixture
def data(place: Path) -> Path:
    """A log directory of two partitions, stopped cleanly."""
    Subject("checkpoints", ("reindex",), {}).write(place)
    return place / "data"


def reindex(data: Path, *options: str, around: Around | None = None) -> int:
    arguments = ["reindex", str(data), "--config", str(data.parent / "server.properties"), *options]
    if around is None:  # in this process, which is measured
        return main([*arguments, "--format", "json"])
    return kdump(*arguments, around=around, searching=False).code


def rows(path: Path) -> dict[tuple[str, int], int]:
    version, count, *lines = path.read_text().splitlines()
    found = {(t, int(p)): int(o) for t, p, o in map(str.split, lines)}
    assert (version, int(count)) == ("0", len(found))
    return found


@pytest.mark.parametrize("clean", first_of([True, False], every=1))
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (MARK, {("orders", 1): 7, ("orders", 0): 299}),
        (CLEANER, {("orders", 1): 7, ("orders", 0): 299}),
        (START, {("orders", 1): 7, ("orders", 0): 299}),
        (POINT, {("orders", 1): 7, ("orders", 0): 299}),
    ],
)
def test_lines_that_can_be_read_stay(
    data: Path, name: str, expected: dict[tuple[str, int], int], clean: bool
) -> None:
    if not clean:
        (data / MARKER).unlink()
    (data / name).write_bytes(TORN)
    before = left(data)
    assert reindex(data) == 4
    assert left(data) == before
    assert reindex(data, "--apply") == 0
    assert rows(data / name) == expected
    assert (data / MARKER).exists() == clean
    assert reindex(data) == 0
    assert kdump("undo", data, "--apply", searching=False).code == 0
    assert left(data) == before


@pytest.mark.parametrize("content", [b"\xff" * 30, b"0\n9\n", b"0\n1\norders 0 -5\norders\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_recovery_points_are_the_ends_of_logs_after_a_clean_stop(
    data: Path, content: bytes, clean: bool
) -> None:
    if not clean:
        (data / MARKER).unlink()
    (data / POINT).write_bytes(content)
    assert reindex(data, "--apply") == 0
    assert rows(data / POINT) == ({("orders", 0): END, ("orders", 1): 100} if clean else {})


def test_a_log_start_beyond_the_end_is_dropped(data: Path) -> None:
    (data / START).write_bytes(b"0\n9\norders 0 301\norders 1 100\n")
    assert reindex(data, "--apply") == 0
    assert rows(data / START) == {("orders", 1): 100}


def test_a_line_that_would_delete_the_log_goes(data: Path) -> None:
    (data / START).write_bytes(forge.checkpoint([("orders", 1, 5), ("orders", 0, 301)]))
    before = left(data)
    assert reindex(data, "--apply") == 0
    assert rows(data / START) == {("orders", 1): 5}
    assert kdump("undo", data, "--apply", searching=False).code == 0
    assert restored(data, before)


def test_the_command_that_a_plan_prints_carries_it_out(data: Path) -> None:
    (data / POINT).write_bytes(TORN)
    shown = run(["reindex", str(data)], searching=False)
    assert shown.code == 4
    (command,) = [line for line in shown.out.splitlines() if "--apply" in line]
    _, *words = shlex.split(command.removeprefix("apply"))
    done = run(words, searching=False)
    assert done.code == 0, done
    assert rows(data / POINT) == {("orders", 1): 7, ("orders", 0): 299}


def test_what_a_broker_changed_is_not_taken_back(data: Path) -> None:
    (data / POINT).write_bytes(TORN)
    assert reindex(data, "--apply") == 0
    (data / POINT).write_bytes(forge.checkpoint([("orders", 0, 17)]))
    assert kdump("undo", data, "--apply", searching=False).code == 6
    assert rows(data / POINT) == {("orders", 0): 17}


def spoilt(place: Path, data: Path) -> Path:
    """A copy of the log directory with all four files spoilt."""
    copy = place / "copy" / "data"
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(data.parent, copy.parent, ignore=shutil.ignore_patterns("copy"))
    for name in CHECKPOINTS:
        (copy / name).write_bytes(TORN)
    return copy


@pytest.mark.parametrize(
    "step",
    [pytest.param(9, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)],
    ids=["some", "all"],
)
def test_a_kill_before_any_call_can_be_finished_or_taken_back(
    place: Path, data: Path, step: int
) -> None:
    calls: list[str] = []

    def counted(call: Call, make: object) -> object:
        with (place / "calls").open("a") as file:
            file.write(f"{call.method}\n")
        return make(*call.arguments)  # type: ignore[operator]

    assert reindex(spoilt(place, data), "--apply", around=counted) == 0
    calls = (place / "calls").read_text().splitlines()
    assert len(calls) > 40
    for number in range(0, len(calls), step):
        for finishing in (True, False):
            copy = spoilt(place, data)
            before = left(copy)
            assert reindex(copy, "--apply", around=killed_before(number)) == -9
            if finishing:
                assert reindex(copy, "--apply") == 0
                for name in CHECKPOINTS:
                    assert rows(copy / name) == {("orders", 1): 7, ("orders", 0): 299}
            else:
                assert kdump("undo", copy, "--apply", searching=False).code == 0
                if (copy / PARTITION / ".kdump").exists():  # of a plan that was not begun
                    shutil.rmtree(copy / PARTITION / ".kdump")
                assert restored(copy, before)
            assert not [path for path in copy.iterdir() if path.name.startswith(".kdump.")]
