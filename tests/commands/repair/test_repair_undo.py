"""``kdump undo`` of repairs of whole log directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands.repair import damaged_directory as damaged
from commands.repair.repairing import plan_id, repair, tree
from kdump.ui import exits
from support.crashing.running import run

pytestmark = pytest.mark.once


def test_undo_without_an_id_takes_back_the_newest_repair_of_each_partition(place: Path) -> None:
    data, _ = damaged.write(place)
    partition = data / "both-0"
    assert run(["reindex", str(partition), "--apply"]).code == exits.OK
    before = tree(data)
    assert repair(data, "--apply", "--confirm", plan_id(data)).code == exits.INCOMPLETE
    assert run(["undo", str(data), "--apply"]).code == exits.OK
    assert tree(data) == before
