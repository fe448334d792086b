"""What a ``.swap`` file leaves out of a log that was never compacted is forecast as lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import kdump
from recipes_directory import RECIPES

from kdump.cli import exits

BY_NAME = {recipe.name: recipe for recipe in RECIPES}


@pytest.mark.parametrize(
    ("recipe", "first", "last"),
    [("swap-short", 50, 99), ("swap-empty", 100, 199), ("swap-over-both", 150, 199)],
)
@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_what_a_swap_leaves_out_is_lost_at_the_next_start(
    command: str, recipe: str, first: int, last: int, tmp_path: Path
) -> None:
    partition = BY_NAME[recipe].write(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    options = ["--scan"] if command == "next-start" else []
    ran = kdump(command, *options, tmp_path, searching=False)
    assert ran.code == exits.PROBLEMS
    (line,) = (each for each in ran.of("forecast") if each["path"] == str(partition))
    assert (line["lost"]["sound"], line["lost"]["first_offset"], line["lost"]["last_offset"]) == (
        last - first + 1,
        first,
        last,
    )


def test_a_swap_of_a_compacted_topic_loses_nothing(tmp_path: Path) -> None:
    partition = BY_NAME["swap-compacted"].write(tmp_path)
    ran = kdump("verify", tmp_path, searching=False)
    (line,) = (each for each in ran.of("forecast") if each["path"] == str(partition))
    assert line["lost"]["sound"] == 0
