"""``kdump compare`` of a sound copy and one with each kind of damage, in both orders."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from support import copies
from support.all_recipes import RECIPES
from support.commands import Ran, kdump
from support.copies import BASE, compare
from support.damaged import FIRST, LAST, Recipe, batches

pytestmark = pytest.mark.once

#: So many of the seeded damages run each time.
ORDINARY, ALL = 2, 400


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, id=recipe.name, marks=pytest.mark.nightly if number % 80 else ())
        for number, recipe in enumerate(RECIPES)
    ],
)
@pytest.mark.slow
def test_a_copy_with_each_damage(tmp_path: Path, recipe: Recipe) -> None:
    sound = Recipe(recipe.name, (), batches(FIRST), batches(LAST)).write(tmp_path / "sound")
    damaged = recipe.write(tmp_path / "damaged")
    _check(sound, damaged)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < ORDINARY else pytest.mark.nightly)
        for seed in range(ALL)
    ],
)
def test_a_copy_with_damages_at_random(tmp_path: Path, seed: int) -> None:
    nodes = copies.lay_out(tmp_path, [BASE, BASE])
    rng = random.Random(seed)
    directory = nodes[1]
    if rng.random() < 0.5:
        (directory / ".kafka_cleanshutdown").unlink()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        logs = [path for path in files if path.suffix == ".log"]
        copies.damage(rng, rng.choice(logs if logs and rng.random() < 0.7 else files))
    _check(nodes[0] / "t-0", directory / "t-0")


def _check(sound: Path, damaged: Path) -> None:
    """Whatever it is, the result is the same in both orders, and no loss is called equal."""
    lost = _loses(damaged)
    states = []
    for order in ((sound, damaged), (damaged, sound)):
        ran = compare(*order)
        assert ran.code in (0, 4, 5), ran.said
        (line,) = ran.of("partition")
        states.append((ran.code, line["state"], _numbered(ran, order)))
        assert {"equal": 0, "lagging": 0, "different": 4, "unread": 5}[line["state"]] == ran.code
    assert states[0] == states[1]
    assert "\nresult" in f"\n{copies.text(sound, damaged)}"
    if lost:
        assert states[0][1] != "equal"


def _loses(partition: Path) -> bool:
    """Whether a copy has lost records, or loses them at its next start."""
    (line,) = kdump("next-start", "--scan", partition, searching=False).of("forecast")
    now, then = line["lost_now"], line["lost"]
    return any(each != 0 for each in (now["records"], then["sound"], then["unreadable"]))


def _numbered(ran: Ran, order: tuple[Path, Path]) -> object:
    """What is said of each copy, by its path."""
    paths = {line["copy"]: line["path"] for line in ran.of("copy")}
    (line,) = ran.of("partition")
    alone = {
        (paths[each["copy"]], each["first_offset"], each["last_offset"]) for each in line["alone"]
    }
    damages = {
        (each["path"], each["position"], len(each["sound_in"]))
        for found in ran.of("copy")
        for each in found["damages"]
    }
    differences = {(each["kind"], each["offset"]) for each in ran.of("difference")}
    return alone, damages, differences, paths[line["first"]] if line["unclean"] else None
