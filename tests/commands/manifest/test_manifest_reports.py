"""What is found in a manifest beside what is found in its directory: the same, path by path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kdump.audit.run.prescan import Small
from support.all_recipes import ALONE, RECIPES
from support.commands import kdump
from support.damaged import Recipe
from support.fixtures_loader import copy_fixture, few_first
from support.long_samples import first_of
from support.manifests import found_in, make

READS = (Small.HEADERS, Small.ENDS)


@pytest.mark.parametrize("name", few_first())
def test_a_manifest_of_a_fixture_has_the_findings_of_its_directory(
    name: str, tmp_path: Path
) -> None:
    root = copy_fixture(name, tmp_path / "logs")
    file = tmp_path / "logs.kdm"
    made = make(file, root)
    assert made.batches > 0
    assert not made.unread
    for small in READS:
        assert found_in(file, small) == found_in(root, small)


@pytest.mark.parametrize(
    "recipes",
    first_of([RECIPES[start::20] for start in range(20)], count=3),
    ids=lambda recipes: recipes[0].name,
)
def test_a_manifest_of_damage_has_the_findings_of_its_directory(
    recipes: tuple[Recipe, ...], tmp_path: Path
) -> None:
    file = tmp_path / "logs.kdm"
    for recipe in recipes:
        logs = tmp_path / "logs"
        partition = recipe.write(logs)
        root = partition if recipe in ALONE else logs
        make(file, root)
        for small in READS:
            assert found_in(file, small) == found_in(root, small), recipe.name
        shutil.rmtree(logs)


def test_partitions_of_a_log_directory_have_its_checkpoints_around_them(tmp_path: Path) -> None:
    root = copy_fixture("4.3.1/clean", tmp_path / "logs")
    file = tmp_path / "logs.kdm"
    partition = root / "compacted-0"
    assert partition.is_dir()
    make(file, partition)
    for small in READS:
        assert found_in(file, small) == found_in(partition, small)


def test_a_start_needs_no_more_room_by_a_manifest_than_by_its_directory(tmp_path: Path) -> None:
    """A manifest does not tell what the indexes take, which the recovery writes again."""
    root = copy_fixture("4.3.1/killed", tmp_path / "logs")
    file = tmp_path / "logs.kdm"
    make(file, root)
    (start,), (known,) = (
        line["next_starts"]
        for path in (file, root)
        for line in kdump("next-start", path).of("summary")
    )
    assert (start["file_system"], start["writes_files"]) == (None, known["writes_files"])
    assert 0 < start["writes_bytes"] <= known["writes_bytes"]
