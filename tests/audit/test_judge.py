"""Every recipe by all checks together, as verify runs them, and every check switched off once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from kdump.audit import judge
from kdump.audit.finding_code import Severity
from support.all_recipes import ALONE, RECIPES, RUNNING, written
from support.damaged import Recipe
from support.fixtures_loader import FIXTURES, copy_fixture
from support.pipeline import Read, read
from support.recipes_producers import History

#: What other checks rightly say of a recipe beside what it was made for.
BESIDE: Mapping[str, tuple[str, ...]] = {
    "hole-orphan": ("index-orphan", "index-orphan"),
}
BESIDE_HISTORY: Mapping[str, tuple[str, ...]] = {"snapshot-between": ("snapshot-stray",)}
#: Old messages leave a gap before the second segment, of which an unknown topic makes a note.
GAP = "offsets-missing"


def expected(recipe: Recipe) -> list[str]:
    beside = BESIDE.get(recipe.name, ())
    if isinstance(recipe, History):
        beside = (*beside, *BESIDE_HISTORY.get(recipe.name, ()))
    return sorted((*recipe.expected, *beside))


def codes(recipe: Recipe, given: Read) -> list[str]:
    found = given.codes()
    if recipe in ALONE and GAP not in recipe.expected:
        found = [code for code in found if code != GAP]
    return found


@pytest.fixture(scope="module")
def all_read(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Recipe, Read]]:
    """Every recipe, read once."""
    return [
        (recipe, written(recipe, tmp_path_factory.mktemp("recipe")))
        for recipe in RECIPES
        if recipe.name not in RUNNING
    ]


def test_each_recipe_gives_exactly_its_findings(all_read: list[tuple[Recipe, Read]]) -> None:
    assert len(all_read) >= 350
    wrong = {
        recipe.name: (expected(recipe), found)
        for recipe, given in all_read
        if (found := codes(recipe, given)) != expected(recipe)
    }
    assert wrong == {}


def checks() -> Iterator[tuple[str, int]]:
    for table in ("CHECKS", "DIRECTORY_CHECKS", "NODE_CHECKS"):
        for number in range(len(getattr(judge, table))):
            yield table, number


#: Checks that need several log directories, a running broker, a repair, files of another user, a
#: file larger than tests make, or a registered node: the catalogue of starts that fail shows these.
ELSEWHERE = (
    "check_unread_files",
    "check_broker_rights",
    "check_broker_rights_at_top",
    "check_node_id",
    "check_remote",
    "check_twice",
    "check_clean_marker",
    "check_top_files",
    "check_log_sizes",
    "check_unread",
    "check_hanging",
    "check_interrupted_copies",
    "check_journals",
    "check_successor",
    "check_types",
    "check_places",
    "check_partition_names",
    "check_repair_records",
    "check_directory_owners",
    "check_remote_cache",
    "check_features",
    "check_replay",
    "check_topic_settings",
)


@pytest.fixture(scope="module")
def shown_by(all_read: list[tuple[Recipe, Read]]) -> Mapping[str, list[tuple[Recipe, Read]]]:
    """The recipes of which a check says something, by the check's name."""
    shown: dict[str, list[tuple[Recipe, Read]]] = defaultdict(list)

    def noting(check: Callable[..., Iterable[Any]]) -> Callable[..., list[Any]]:
        @wraps(check)
        def noted(*args: Any) -> list[Any]:
            if found := list(check(*args)):
                shown[check.__name__].append((recipe, given))
            return found

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for table in ("CHECKS", "DIRECTORY_CHECKS", "NODE_CHECKS"):
            patch.setattr(judge, table, tuple(map(noting, getattr(judge, table))))
        for recipe, given in all_read:  # noqa: B007  noted() reads them
            given.findings()
    return shown


@pytest.mark.parametrize(("table", "number"), list(checks()))
def test_no_check_can_be_left_out(
    table: str,
    number: int,
    shown_by: Mapping[str, list[tuple[Recipe, Read]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = getattr(judge, table)
    if whole[number].__name__ in ELSEWHERE:
        pytest.skip("no recipe can show it; it has tests of its own")
    monkeypatch.setattr(judge, table, (*whole[:number], *whole[number + 1 :]))
    shown = shown_by[whole[number].__name__]
    assert any(codes(recipe, given) != expected(recipe) for recipe, given in shown)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_a_broker_wrote_has_nothing_wrong(fixture: str, tmp_path: Path) -> None:
    given = read(copy_fixture(fixture, tmp_path / "data"), deep=True)
    assert [
        finding for finding in given.findings() if finding.code.severity is not Severity.INFO
    ] == []
