"""Folders of repairs that are damaged, and what is in sound ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.errors import Refused
from kdump.repair.transaction.apply import apply, resume
from kdump.repair.transaction.directories import open_directory
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Put
from kdump.repair.transaction.undo import undo
from kdump.storage.repair_record import repair_records
from support.crashing.subjects import (
    OTHER,
)
from support.damaged import name
from support.planning import (
    by_hand,
    interrupt,
    left,
    truncation,
)

pytestmark = pytest.mark.usefixtures("unsearched")

LOG, INDEX, TIMES = (name(100, suffix) for suffix in (".log", ".index", ".timeindex"))
LATER = name(200, ".log")
EPOCHS = "leader-epoch-checkpoint"


DAMAGE: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "list": lambda text: "[]",
    "other": lambda text: "{}",
    "deep": lambda text: "[" * 100_000,
    "number": lambda text: text.replace('"identity": [', '"identity": [1').replace(
        '"begun_ns": ', '"begun_ns": 0.'
    ),
    "name": lambda text: text.replace(LOG, "../" + LOG),
    "step": lambda text: text.replace('"cut"', '"curl"'),
    "files": lambda text: text.replace('"files": {', '"files": 5, "others": {'),
    "tails": lambda text: text.replace('"tails": {', '"tails": [], "others": {'),
    "marker": lambda text: text.replace('"marker": [', '"marker": ["x", '),
}


@pytest.mark.parametrize("file", ["plan", "begun"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused(lossy: Path, file: str, damage: str) -> None:
    top = lossy.parent
    plan = truncation(lossy)
    interrupt(plan)
    path = lossy / ".kdump" / plan.id / f"{file}.json"
    text = path.read_text()
    damaged = DAMAGE[damage](text)
    if damaged == text:
        return  # nothing of that is in it
    path.write_text(damaged)
    now = left(top)
    text = rf"{file}\.json: expected a file of a repair, found something else"
    (repair,) = repair_records(lossy)
    with pytest.raises(Refused, match=text):
        undo(repair, lossy, top, assume_stopped=False)
    with pytest.raises(Refused, match=text):
        resume(Folder(lossy, plan.id), top)
    other = by_hand(top / OTHER, Put.of("new", b"", replaces=False))
    with pytest.raises(Refused, match=text if file == "plan" else "expected no interrupted repair"):
        apply(other)
    assert left(top) == now


def test_a_plan_in_the_folder_of_another_is_refused(lossy: Path) -> None:
    plan = truncation(lossy)
    interrupt(plan)
    path = lossy / ".kdump" / plan.id
    moved = path.rename(path.with_name("0" * 8))
    with pytest.raises(Refused, match=rf"{moved}/plan.json: .*the id {plan.id}"):
        resume(Folder(lossy, moved.name), lossy.parent)


def test_a_receipt(lossy: Path) -> None:
    plan = truncation(lossy)
    folder = Folder(lossy, plan.id)
    interrupt(plan)
    assert folder.receipt() is None
    with open_directory(lossy):
        assert folder.has_begun
    receipt = resume(folder, lossy.parent)
    assert folder.receipt() == receipt
    (folder.path / "receipt.json").write_text("5")
    with pytest.raises(Refused, match=r"receipt[.]json: expected a file of a repair"):
        folder.receipt()
