"""The cures of each recipe of damage: none is silent, and what loses least comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.finding_code import Severity
from kdump.audit.verdicts.cures import CureKind, Diagnosis, cures_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.ui.options.targets import TargetOptions, find_scope
from support.all_recipes import RECIPES
from support.damaged import Recipe
from support.fixtures_loader import FIXTURES, copy_fixture
from support.runners import by_targets

REBUILD, FIELD, TAIL, REPLICA, REFETCH, DROP, AS_BROKER = CureKind
#: In the order of what they lose.
ORDERS = {
    (),
    (REBUILD,),
    (TAIL,),
    (REPLICA, TAIL),
    (REFETCH,),
    (REFETCH, REBUILD),
    (REPLICA, REFETCH),
    (REPLICA, REFETCH, REBUILD),
    (REPLICA, REFETCH, AS_BROKER),
    (REPLICA, REFETCH, DROP, AS_BROKER),
}


def verdicts(path: Path) -> list[Verdict]:
    scope = find_scope(TargetOptions([path]))
    targets = [replace(target, stopped=True) for target in scope.targets]
    return list(by_targets(targets, deep=False, jobs=1, context=scope.context, rebuild=True))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Recipe], list[Verdict]]:
    """``judged(recipe)``: written and judged once for the whole module."""
    known: dict[int, list[Verdict]] = {}  # by identity: some recipes share a name

    def of(recipe: Recipe) -> list[Verdict]:
        if id(recipe) not in known:
            top = tmp_path_factory.mktemp("recipe")
            recipe.write(top)
            known[id(recipe)] = verdicts(top)
        return known[id(recipe)]

    return of


def above_info(verdict: Verdict) -> set[Severity]:
    found = {finding.code.severity for finding in verdict.findings}
    return found - {Severity.INFO}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_has_a_cure_or_is_left_to_a_person(
    recipe: Recipe, judged: Callable[[Recipe], list[Verdict]]
) -> None:
    for verdict in judged(recipe):
        diagnosis = cures_of(verdict)
        field = diagnosis.cures[:1] == (FIELD,)  # it may go before any other
        assert diagnosis.cures[field:] in ORDERS
        severities = above_info(verdict)
        if not severities:
            assert diagnosis == Diagnosis()
        if Severity.ERROR in severities or Severity.INCOMPLETE in severities:
            assert diagnosis.cures or diagnosis.left, recipe.name
        if AS_BROKER in diagnosis.cures:
            assert diagnosis.left is not None
            assert diagnosis.command is not None
        if diagnosis.cures and verdict.lost.corrupt:
            assert REPLICA in diagnosis.cures


def test_all_kinds_are_among_the_recipes(judged: Callable[[Recipe], list[Verdict]]) -> None:
    found = {
        kind for recipe in RECIPES for verdict in judged(recipe) for kind in cures_of(verdict).cures
    }
    assert found == set(CureKind)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_a_broker_wrote_needs_no_cure(fixture: str, tmp_path: Path) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    found = verdicts(data)
    assert [cures_of(verdict) for verdict in found] == [Diagnosis()] * len(found)


def test_what_a_scan_finds_corrupt_is_read_whole_first(tmp_path: Path) -> None:
    """The scan of ``next-start`` reads logs, and runs no check of them."""
    (recipe,) = (each for each in RECIPES if each.name == "crc-sealed")
    recipe.write(tmp_path)
    (verdict,) = (replace(each, quick=True, findings=()) for each in verdicts(tmp_path))
    assert cures_of(verdict) == Diagnosis(
        (REPLICA, REFETCH),
        "a log is corrupt, and not all of it was read",
        ("kdump", "verify", str(verdict.target.path)),
    )
