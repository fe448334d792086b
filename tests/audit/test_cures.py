"""The cures of each recipe of damage: none is silent, and what loses least comes first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.finding_code import Severity
from kdump.audit.run.verify import verify
from kdump.audit.verdicts.cures import CureKind, Diagnosis, cures_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.ui.options.targets import TargetOptions, find_scope
from support.all_recipes import RECIPES
from support.damaged import Recipe
from support.fixtures_loader import FIXTURES, copy_fixture

REBUILD, TAIL, REPLICA, DROP, AS_BROKER = CureKind
#: In the order of what they lose.
ORDERS = {
    (),
    (REBUILD,),
    (TAIL,),
    (REPLICA,),
    (REPLICA, TAIL),
    (REPLICA, REBUILD),
    (REPLICA, AS_BROKER),
    (REPLICA, DROP, AS_BROKER),
}


def verdicts(path: Path) -> list[Verdict]:
    scope = find_scope(TargetOptions([path]))
    targets = [replace(target, stopped=True) for target in scope.targets]
    return list(verify(targets, deep=False, jobs=1, context=scope.context, rebuild=True))


def above_info(verdict: Verdict) -> set[Severity]:
    found = {finding.code.severity for finding in verdict.findings}
    return found - {Severity.INFO}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_has_a_cure_or_is_left_to_a_person(recipe: Recipe, tmp_path: Path) -> None:
    recipe.write(tmp_path)
    for verdict in verdicts(tmp_path):
        diagnosis = cures_of(verdict)
        assert diagnosis.cures in ORDERS
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


def test_all_kinds_are_among_the_recipes(tmp_path: Path) -> None:
    found: dict[tuple[CureKind, ...], set[str]] = defaultdict(set)
    for number, recipe in enumerate(RECIPES):
        top = tmp_path / str(number)
        recipe.write(top)
        for verdict in verdicts(top):
            found[cures_of(verdict).cures].add(recipe.name)
    assert {kind for kinds in found for kind in kinds} == set(CureKind)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_what_a_broker_wrote_needs_no_cure(fixture: str, tmp_path: Path) -> None:
    data = copy_fixture(fixture, tmp_path / "data")
    assert [cures_of(verdict) for verdict in verdicts(data)] == [Diagnosis()] * len(verdicts(data))


def test_what_a_scan_finds_corrupt_is_read_whole_first(tmp_path: Path) -> None:
    """The scan of ``next-start`` reads logs, and runs no check of them."""
    (recipe,) = (each for each in RECIPES if each.name == "crc-sealed")
    recipe.write(tmp_path)
    (verdict,) = (replace(each, quick=True, findings=()) for each in verdicts(tmp_path))
    assert cures_of(verdict) == Diagnosis(
        (REPLICA,),
        "a log is corrupt, and not all of it was read",
        ("kdump", "verify", str(verdict.target.path)),
    )
