"""``trim --leftovers`` removes what no log needs, and nothing that may be the only replica."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.ui import exits
from support.commands import kdump
from support.crashing.running import Run, run
from support.crashing.seam import Call, full_until_removal, killed_before
from support.crashing.trees import put, take
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.once

UNIQUE: Final = "0123456789abcdef0123456789abcdef"
BLOCK: Final = 4096
NAME: Final = "codec-lz4-0"
#: What goes, by kind.
GOES: Final = {
    "deleted": f"{NAME}/{0:020}.index.deleted",
    "cleaned": f"codec-gzip-0/{0:020}.log.cleaned",
    "delete-directories": f"gone-0.{UNIQUE}-delete",
    "remote-index-cache": "remote-log-index-cache",
}
#: What stays.
STAYS: Final = (
    f"codec-none-0/{900:020}.log.swap",
    f"codec-none-0/{900:020}.log.cleaned",
    f"lost-0.{UNIQUE}-stray",
    f"moved-0.{UNIQUE}-future",
    "codec-zstd-0.bak",
    "heap.hprof",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with leftovers of all kinds."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for name in (*GOES.values(), *STAYS):
        path = data / name
        if path.suffix in (".deleted", ".cleaned", ".swap", ".hprof"):
            path.write_bytes(bytes(BLOCK))
        elif name.startswith("remote"):
            path.mkdir()
            (path / "7_x.index").write_bytes(bytes(BLOCK))
        else:
            shutil.copytree(data / NAME, path, ignore=shutil.ignore_patterns("*.deleted"))
    return data


def lines(ran: Run, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, ran.out.splitlines()) if each["type"] == kind]


def trim(*arguments: object) -> Run:
    return run(["trim", "--leftovers", *map(str, arguments)])


def apply(*arguments: object, around: Any = None) -> Run:
    (summary,) = lines(trim(*arguments, "--format", "json"), "summary")
    argv = "trim", "--leftovers", *map(str, arguments), "--apply", "--confirm", summary["id"]
    return run([*argv], around)


def names(data: Path) -> set[str]:
    return {str(path.relative_to(data)) for path in data.rglob("*")}


def test_what_no_log_needs_goes(data: Path) -> None:
    before = names(data)
    ran = trim(data, "--format", "json")
    assert ran.code == exits.PROBLEMS
    found = {each["kind"]: Path(each["path"]) for each in lines(ran, "leftovers")}
    assert found.keys() == GOES.keys()
    kept = {Path(each["path"]).name for each in lines(ran, "kept")}
    assert kept == {Path(name).parts[0] for name in STAYS}
    assert names(data) == before
    allocated = lines(kdump_space(data), "leftovers")
    sizes = {each["kind"]: each["bytes"] for each in allocated if each["kind"] in GOES}
    assert {each["kind"]: each["bytes"] for each in lines(ran, "leftovers")} == sizes

    gone = gone_names(data)
    text = trim(data)
    assert "NO BACKUP" in text.out
    assert max(map(len, text.out.splitlines()[:-1])) <= 80
    ran = run(shlex.split(text.out.strip().splitlines()[-1])[1:])
    assert ran.code == exits.OK, ran
    assert "DONE" in ran.out
    assert before - names(data) == gone
    assert names(data) - before <= {".lock"}
    assert trim(data).code == exits.OK
    assert "no leftovers may go" in trim(data).out


def kdump_space(data: Path) -> Run:
    return run(["space", str(data), "--format", "json"], searching=False)


def test_space_says_how(data: Path) -> None:
    text = run(["space", str(data)], searching=False).out
    (command,) = (line for line in text.splitlines() if "trim --leftovers" in line)
    assert run(shlex.split(command)[1:]).code == exits.PROBLEMS


def test_only_selected_topics(data: Path) -> None:
    ran = trim(data, "--topic", "codec-lz4", "--format", "json")
    assert [each["kind"] for each in lines(ran, "leftovers")] == ["deleted"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--by-retention",), "--by-retention and --leftovers"),
        (("--high-watermark", "5"), "expected one partition"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str, data: Path) -> None:
    ran = trim(*arguments, data)
    assert ran.code == exits.USAGE
    assert said in ran.err


def odd_entry(data: Path) -> None:
    (data / GOES["delete-directories"] / "sub").mkdir()


def linked(data: Path) -> None:
    (data / GOES["delete-directories"]).rename(data.parent / "elsewhere")
    (data / GOES["delete-directories"]).symlink_to(data.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "reason"), [(odd_entry, "no regular file"), (linked, "a symbolic link")]
)
def test_what_is_no_kafkas_stays(change: Callable[[Path], None], reason: str, data: Path) -> None:
    change(data)
    ran = trim(data, "--format", "json")
    found = {each["kind"] for each in lines(ran, "leftovers")}
    assert found == GOES.keys() - {"delete-directories"}
    assert any(reason in each["reason"] for each in lines(ran, "kept"))


def test_a_file_that_came_since_the_plan_is_not_removed(data: Path) -> None:
    place = data / GOES["delete-directories"]

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "open" and call.paths[0].endswith(".lock"):
            (place / "new").write_bytes(b"")
        return make(*call.arguments)

    (data / GOES["deleted"]).unlink()
    (data / GOES["cleaned"]).unlink()
    ran = apply(data, around=around)
    assert ran.code == exits.REFUSED
    assert "plan again" in ran.err
    assert (place / "new").exists()


def gone_names(data: Path) -> set[str]:
    return {name for name in names(data) if any(name.startswith(each) for each in GOES.values())}


@pytest.mark.slow
def test_killed_at_any_call_nothing_else_is_gone(data: Path) -> None:
    original, before = take(data), names(data)
    for number in range(0, 200, 4):
        put(data, original)
        ran = apply(data, around=killed_before(number))
        gone = before - names(data)
        assert all(any(name.startswith(each) for each in GOES.values()) for name in gone), gone
        if ran.code == exits.OK:
            break
        assert ran.code == -9
        assert apply(data).code == exits.OK
        # A directory may be left that is empty.
        assert not any(data.joinpath(name).is_file() for name in gone_names(data))
    assert 20 < number < 200


def test_no_room_for_a_lock_file(data: Path) -> None:
    (data / ".lock").unlink(missing_ok=True)
    assert apply(data, around=full_until_removal()).code == exits.OK
    assert not any((data / name).exists() for name in GOES.values())
    found = kdump("verify", data, "--topic", NAME[:-2], searching=False).of("finding")
    assert [each for each in found if NAME in each["path"] and each["severity"] == "error"] == []
