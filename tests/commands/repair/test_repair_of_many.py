"""What a repair of many partitions asks once, and what it asks before each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST, LAST
from commands.repair.repairing import directory, lines, repair, tree
from kdump.repair.transaction import lock
from kdump.storage import liveness
from kdump.ui import exits
from support.crashing.running import Run, run
from support.crashing.seam import Call, killed_before
from support.damaged import name

pytestmark = pytest.mark.once

GOOD = damaged.whole()
TORN: tuple[damaged.Segments, dict[str, bytes | None]] = (damaged.torn(GOOD), {})
NO_INDEX: tuple[damaged.Segments, dict[str, bytes | None]] = (GOOD, {name(FIRST, ".index"): None})


def many(path: Path, count: int) -> Path:
    """A log directory of as many partitions with a torn log, and with a missing index."""
    topics = {f"torn{number}": TORN for number in range(count)}
    return directory(path, topics | {f"index{number}": NO_INDEX for number in range(count)})


def counted(place: Path, argv: list[str], around: Any = None) -> tuple[Run, dict[str, int]]:
    """Run a command; count how often it searches processes, locks, and lists other repairs."""
    kept, counts = place / "counts", {"scans": 0, "locks": 0, "lists": 0}

    def keep(what: str) -> None:
        counts[what] += 1
        kept.write_text(json.dumps(counts))

    def counting(what: str, made: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            keep(what)
            return made(*arguments, **options)

        return called

    def prepare() -> None:
        liveness._open_files = counting("scans", liveness._open_files)
        lock._lock = counting("locks", lock._lock)
        lock.OpenRepairs = counting("lists", lock.OpenRepairs)  # type: ignore[misc, assignment]

    kept.write_text("{}")
    ran = run(argv, around, prepare=prepare, searching=True)
    return ran, json.loads(kept.read_text())


def identity(data: Path) -> str:
    (journal,) = data.glob(".kdump.????????")
    return journal.name.removeprefix(".kdump.")


def test_what_is_asked_does_not_grow_with_the_partitions(place: Path) -> None:
    found = []
    for count in (1, 5):
        data = many(place / f"data{count}", count)
        repaired, asked = counted(place, ["repair", str(data), "--apply"])
        assert repaired.code == exits.OK, repaired
        undo = ["undo", str(data), "--plan", identity(data), "--apply"]
        undone, asked_again = counted(place, undo)
        assert undone.code == exits.OK, undone
        found.append((asked, asked_again))
    assert found[0] == found[1]
    assert [(each["locks"], each["lists"]) for each in found[0]] == [(1, 1), (1, 1)]
    assert all(each["scans"] <= 3 for each in found[0])


def test_what_a_continued_repair_asks_does_not_grow_with_the_partitions(place: Path) -> None:
    found = []
    for count in (2, 5):
        data = many(place / f"data{count}", count)
        assert run(["repair", str(data), "--apply"], killed_before(80)).code < 0
        ran, asked = counted(place, ["repair", str(data), "--apply"])
        assert ran.code == exits.OK, ran
        found.append(asked)
    assert found[0] == found[1]


def test_a_lock_that_is_refused_changes_nothing(place: Path) -> None:
    """It is got before the journal is written."""
    data = many(place / "data", 1)
    (data / ".lock").symlink_to("elsewhere")
    before = tree(data)
    ran = repair(data, "--apply")
    assert (ran.code, ran.err.count("\n")) == (exits.REFUSED, 1), ran
    assert tree(data) == before


def test_a_lock_file_that_is_removed_amid_the_run_leaves_the_rest(place: Path) -> None:
    """A broker would get the lock of a new file, and start."""
    data = many(place / "data", 2)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        made = make(*call.arguments)
        if call.method == "rename" and call.paths[-1].endswith("receipt.json"):
            (data / ".lock").unlink(missing_ok=True)
        return made

    ran = repair(data, "--apply", "--format", "json", around=around)
    assert ran.code == exits.INCOMPLETE, ran
    reasons = [each["reason"] for each in lines(ran, "left")]
    assert len(reasons) == 3
    assert all("expected the lock file to stay" in reason for reason in reasons)
    assert len(list(data.glob("*/.kdump"))) == 1
    assert repair(data, "--apply").code == exits.OK


def test_a_reader_that_comes_amid_the_run_is_respected(place: Path) -> None:
    """It could read a half-made change; the files of the others are nobody's."""
    data = directory(place / "data", {"a": TORN, "b": TORN, "c": TORN})
    readers: list[subprocess.Popen[bytes]] = []
    log = data / "b-0" / name(LAST, ".log")
    code = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "make_directory" and "/a-0/" in call.paths[0] and not readers:
            command = [sys.executable, "-c", code, str(log)]
            pipe = subprocess.PIPE
            readers.append(subprocess.Popen(command, stdin=pipe, stdout=pipe))
            assert readers[0].stdout is not None
            readers[0].stdout.readline()
        return make(*call.arguments)

    ran = run(["repair", str(data), "--apply", "--format", "json"], around, searching=True)
    assert ran.code == exits.INCOMPLETE, ran
    ((path, reason),) = [(each["partition"], each["reason"]) for each in lines(ran, "left")]
    assert os.path.basename(path) == "b-0"
    assert "expected no reader of a file that the repair changes" in reason
    assert {each.parent.name for each in data.glob("*/.kdump")} == {"a-0", "c-0"}
