"""The repair that a finding names heals it, has then nothing more to do, and can be taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from all_recipes import RECIPES, RUNNING
from commands import kdump, repair
from damaged import Recipe

pytestmark = pytest.mark.once

#: In the order in which they are run: reindexing a log that is to be cut would be in vain.
COMMANDS = ("truncate-to-valid", "reindex", "convert-v0-v2")
HARMLESS = "info"


def above_info(top: Path) -> list[dict[str, Any]]:
    """The findings of ``verify`` in a log directory that are no mere notes."""
    ran = kdump("verify", top, searching=False)
    return [one for one in ran.of("finding") if one["severity"] != HARMLESS]


def named(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The commands here that findings name, each with the partitions that it is named for."""
    commands: dict[str, set[str]] = {}
    for one in found:
        command, *rest = (one["remedy"] or ("kdump", ""))[1:]
        if command in COMMANDS:
            commands.setdefault(command, set()).add(rest[0])
    return commands


def left_by(one: dict[str, Any]) -> bool:
    """Whether a finding is none that these commands are named for."""
    return (one["remedy"] or ("kdump", ""))[1] not in COMMANDS


def write(one: Recipe, place: Path) -> Path:
    top = place / "data"
    top.mkdir()
    meta = top / "meta.properties"
    meta.write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    one.write(top)
    return top


@pytest.mark.slow
@pytest.mark.parametrize(
    "one", [one for one in RECIPES if one.name not in RUNNING], ids=lambda one: one.name
)
def test_what_a_finding_names_heals_it(one: Recipe, place: Path) -> None:
    top = write(one, place)
    before = above_info(top)
    done = []
    for command in COMMANDS:
        for partition in sorted(named(before).get(command, ())):
            ran = repair(command, partition, searching=False)
            assert ran.code == 0, ran
            if list(ran.of("receipt")):
                done.append(partition)
            again = kdump(command, partition, searching=False)
            assert again.code == 0, again
            assert all(plan["steps"] == [] for plan in again.of("plan"))
    after = above_info(top)
    assert not named(after)
    assert bool(done) == bool(named(before))
    assert {key(each) for each in after} <= {key(each) for each in before if left_by(each)}
    for partition in reversed(done):
        ran = kdump("undo", partition, "--apply", searching=False)
        assert ran.code == 0, ran
    assert [(*key(each), each["position"]) for each in above_info(top)] == [
        (*key(each), each["position"]) for each in before
    ]


def key(one: dict[str, Any]) -> tuple[str, str]:
    """What is the same of a finding, wherever in its file it is."""
    return one["code"], one["path"]
