"""``verify`` by executors' tasks, which this process does: it finds what workers find."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support import matrix_spark
from support.all_recipes import RECIPES
from support.damaged import Recipe
from support.fixtures_loader import FIXTURES, copy_fixture, few_first
from support.fleet_reports import Verified, assert_equal, verified
from support.future_logs import FUTURE, TOPIC, log, node
from support.recipes_directory import DIRECTORY_ID

pytestmark = [pytest.mark.spark, pytest.mark.once]
__all__ = ["verified"]  # a fixture


@pytest.fixture(params=["targets", "pieces"])
def on_executors(
    request: pytest.FixtureRequest, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> Verified:
    """Each target is one task, or each segment is one and each verdict another."""
    matrix_spark.stand_in(monkeypatch.setattr)
    if request.param == "pieces":
        monkeypatch.setattr("kdump.fleet.verify.verify.max_task_bytes", lambda *_: 0)
    return lambda *arguments: verified("--master", "local[2]", *arguments)


@pytest.mark.parametrize(
    "recipes", [RECIPES[::9], pytest.param(RECIPES, marks=pytest.mark.nightly)], ids=["few", "all"]
)
@pytest.mark.parametrize("depth", [[], ["--deep"], ["--quick"]], ids=["default", "deep", "quick"])
def test_recipes(
    depth: Sequence[str],
    recipes: Sequence[Recipe],
    tmp_path: Path,
    verified: Verified,
    on_executors: Verified,
) -> None:
    paths = [tmp_path / f"{number:03}" for number in range(len(recipes))]
    for recipe, path in zip(recipes, paths, strict=True):
        recipe.write(path)
    assert_equal(verified(*depth, *paths), on_executors(*depth, *paths))


@pytest.mark.parametrize("name", few_first(FIXTURES))
def test_fixtures(name: str, tmp_path: Path, verified: Verified, on_executors: Verified) -> None:
    path = copy_fixture(name, tmp_path / "data")
    assert_equal(verified(path), on_executors(path))


@pytest.mark.parametrize("depth", [[], ["--quick"]], ids=["default", "quick"])
def test_a_move_of_a_partition_that_is_not_the_first(
    depth: Sequence[str], tmp_path: Path, verified: Verified, on_executors: Verified
) -> None:
    """What a log directory's first partition needs of the context is not all that others need."""
    first, second = node(tmp_path, DIRECTORY_ID)
    log(second, f"{TOPIC}-0")
    log(second, "before-0", named=False)
    log(first, FUTURE, whole=False)
    here = verified(*depth, first, second)
    assert "future-shorter" in {line.get("code") for line in here[1]}
    assert_equal(here, on_executors(*depth, first, second))
