"""Every recipe of damage, and how it is read."""

from __future__ import annotations

from pathlib import Path

from support import damaged, recipes_directory, recipes_indexes, recipes_producers
from support.damaged import Recipe
from support.pipeline import Read, read
from support.recipes_producers import History

#: Recipes of one partition that stands in no log directory: no start is known to write it anew.
ALONE = (*damaged.RECIPES, *recipes_indexes.RECIPES)
RECIPES: tuple[Recipe, ...] = (*ALONE, *recipes_directory.RECIPES, *recipes_producers.RECIPES)
#: Told by a broker's clock alone, which a stopped one does not have.
RUNNING = ("hanging",)


def written(recipe: Recipe, directory: Path) -> Read:
    """The recipe, read as it is meant to be."""
    partition = recipe.write(directory)
    path = partition if recipe in ALONE else directory
    compacted = recipe.compacted if isinstance(recipe, History) else None
    return read(path, compacted=compacted, deep=recipe.deep)
