"""``kdump undo`` of repairs of whole log directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.repair import damaged_directory as damaged
from commands.repair.repairing import plan_id, repair, tree
from kdump.ui import exits
from support.crashing.running import run
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
