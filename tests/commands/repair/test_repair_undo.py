"""``kdump undo`` of repairs of whole log directories."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.repair import damaged_directory as damaged
from commands.repair.repairing import plan_id, repair, tree
from kdump.ui import exits
from support.crashing.running import run
from support.crashing.seam import Call
from support.damaged import name

pytestmark = pytest.mark.once


def test_undo_without_an_id_takes_back_the_newest_repair_of_each_partition(place: Path) -> None:
    data, _ = damaged.write(place)
    partition = data / "both-0"
    assert run(["reindex", str(partition), "--apply"]).code == exits.OK
    before = tree(data)
    assert repair(data, "--apply", "--confirm", plan_id(data)).code == exits.INCOMPLETE
    assert run(["undo", str(data), "--apply"]).code == exits.OK
    assert tree(data) == before


def test_a_partition_that_cannot_be_undone_is_named_and_the_others_are(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    before = tree(data)
    repair(data, "--apply", "--confirm", agreed)
    with (data / "torn-0" / name(damaged.LAST, ".log")).open("ab") as log:
        log.write(b"\0")
    command = ["undo", str(data), "--plan", agreed, "--apply"]
    ran = run(command)
    assert (ran.code, ran.err.count("\n")) == (exits.INCOMPLETE, 1), ran
    assert "torn-0" in ran.err
    after = tree(data)
    others = {path for path in before if not path.startswith("torn-0")}
    assert {path: after[path] for path in others} == {path: before[path] for path in others}
    assert run(command).code == exits.REFUSED  # nothing more was changed


def test_a_part_of_a_repair_is_undone(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    before = tree(data)
    repair(data, "--apply", "--confirm", agreed)
    repaired = tree(data)
    part = ["undo", str(data / "both-0"), str(data / "index-0"), "--plan", agreed]
    shown = run(part)
    assert (shown.code, "repair of 2 partitions" in shown.out) == (exits.OK, True), shown
    assert run([*part, "--apply"]).code == exits.OK
    undone = tree(data)
    for path, node in before.items():
        in_part = path.startswith(("both-0", "index-0"))
        assert undone[path] == (node if in_part else repaired[path])
    assert run([*part, "--apply"]).code == exits.USAGE
    assert run(["undo", str(data), "--plan", agreed, "--apply"]).code == exits.OK
    assert tree(data) == before


def test_an_interrupted_undo_of_a_part_names_that_part(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    repair(data, "--apply", "--confirm", agreed)
    command = ["undo", str(data / "both-0"), "--plan", agreed, "--apply"]

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "rename" and call.paths[-1].endswith(".index"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    failed = run(command, around)
    assert failed.code == exits.INCOMPLETE, failed
    assert shlex.split(failed.last_line)[1:] == command
    assert run(command).code == exits.OK
    assert (data / f".kdump.{agreed}").exists()
