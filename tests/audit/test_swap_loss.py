"""What a ``.swap`` file leaves out of a log that was never compacted is forecast as lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.ui import exits
from support.commands import kdump
from support.recipes_directory import RECIPES

BY_NAME = {recipe.name: recipe for recipe in RECIPES}


@pytest.mark.parametrize(
    ("recipe", "count", "first", "last"),
    [
        ("swap-short", 50, 50, 99),
        ("swap-empty", 100, 100, 199),
        ("swap-over-both", 50, 150, 199),
        ("swap-rare", 10, 0, 99),
        ("swap-unknown-short", 50, 50, 99),
    ],
)
@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_what_a_swap_leaves_out_is_lost_at_the_next_start(
    command: str, recipe: str, count: int, first: int, last: int, tmp_path: Path
) -> None:
    partition = BY_NAME[recipe].write(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").touch()
    options = ["--scan"] if command == "next-start" else []
    ran = kdump(command, *options, tmp_path, searching=False)
    assert ran.code == exits.PROBLEMS
    (line,) = (forecast for forecast in ran.of("forecast") if forecast["path"] == str(partition))
    assert (line["lost"]["sound"], line["lost"]["first_offset"], line["lost"]["last_offset"]) == (
        count,
        first,
        last,
    )


@pytest.mark.parametrize("recipe", ["swap-compacted", "swap-unknown-rare", "swap-unknown-cleaned"])
def test_what_compaction_may_have_left_out_is_not_forecast_as_lost(
    recipe: str, tmp_path: Path
) -> None:
    partition = BY_NAME[recipe].write(tmp_path)
    ran = kdump("verify", tmp_path, searching=False)
    (line,) = (forecast for forecast in ran.of("forecast") if forecast["path"] == str(partition))
    assert line["lost"]["sound"] == 0


def test_without_scan_the_number_of_records_that_a_swap_leaves_out_is_not_known(
    tmp_path: Path,
) -> None:
    """The ``.swap`` file ends where its segment does, and only their records tell them apart."""
    partition = BY_NAME["swap-rare"].write(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").touch()
    ran = kdump("next-start", tmp_path, searching=False)
    (line,) = (forecast for forecast in ran.of("forecast") if forecast["path"] == str(partition))
    assert (line["lost"]["sound"], line["exact"]) == (0, False)
    ran = kdump("next-start", "--scan", tmp_path, searching=False)
    (line,) = (forecast for forecast in ran.of("forecast") if forecast["path"] == str(partition))
    assert (line["lost"]["sound"], line["exact"]) == (10, True)
