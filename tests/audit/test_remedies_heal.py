"""The repair that a finding names heals it, has then nothing more to do, and can be taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.all_recipes import RECIPES, RUNNING
from support.commands import kdump, repair
from support.damaged import Recipe

pytestmark = pytest.mark.once

#: In the order in which they are run: reindexing a log that is to be cut would be in vain.
COMMANDS = ("truncate-to-valid", "reindex", "convert-v0-v2")
HARMLESS = "info"


def above_info(top: Path) -> list[dict[str, Any]]:
    """The findings of ``verify`` in a log directory that are no mere notes."""
    ran = kdump("verify", top, searching=False)
    return [finding for finding in ran.of("finding") if finding["severity"] != HARMLESS]


def named(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The commands here that findings name, each with the partitions that it is named for."""
    commands: dict[str, set[str]] = {}
    for finding in found:
        command, *rest = (finding["remedy"] or ("kdump", ""))[1:]
        if command in COMMANDS:
            commands.setdefault(command, set()).add(rest[0])
    return commands


def left_by(finding: dict[str, Any]) -> bool:
    """Whether a finding is none that these commands are named for."""
    return (finding["remedy"] or ("kdump", ""))[1] not in COMMANDS


def write(recipe: Recipe, place: Path) -> Path:
    top = place / "data"
    top.mkdir()
    meta = top / "meta.properties"
    meta.write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    recipe.write(top)
    return top


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(
            recipe,
            id=recipe.name,
            marks=pytest.mark.slow if number % 16 == 0 else pytest.mark.nightly,
        )
        for number, recipe in enumerate(RECIPES)
        if recipe.name not in RUNNING
    ],
)
def test_what_a_finding_names_heals_it(recipe: Recipe, place: Path) -> None:
    top = write(recipe, place)
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
    assert {key(finding) for finding in after} <= {
        key(finding) for finding in before if left_by(finding)
    }
    for partition in reversed(done):
        ran = kdump("undo", partition, "--apply", searching=False)
        assert ran.code == 0, ran
    assert [(*key(finding), finding["position"]) for finding in above_info(top)] == [
        (*key(finding), finding["position"]) for finding in before
    ]


def key(finding: dict[str, Any]) -> tuple[str, str]:
    """What is the same of a finding, wherever in its file it is."""
    return finding["code"], finding["path"]
