"""Log start and log end offset are the same for all commands, whatever is corrupt."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.audit.judge import judge
from kdump.audit.run.quick_survey import quick_survey
from kdump.audit.run.spread import Workers
from kdump.audit.startup.outcome import Outcome
from kdump.audit.verdicts.next_start import next_start
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.export.starts import log_starts
from kdump.coordinators.extents import log_end, log_start
from kdump.copies.copy import copy_of
from kdump.repair.content.extent import log_end_of
from support import forge
from support.damaged import FIRST, LAST, RECIPES, Recipe
from support.pipeline import read
from support.recipes_directory import META

pytestmark = pytest.mark.once

#: None, one that is left behind when the first segment is gone, one after records were deleted.
LINES = (None, STALE := FIRST + 30, LAST + 30)


def verdict(recipe: Recipe, line: int | None, place: Path, *, clean: bool) -> Verdict:
    """The verdict on the partition of a recipe with this line in log-start-offset-checkpoint."""
    top = dict(META)
    if line is not None:
        top["log-start-offset-checkpoint"] = forge.checkpoint([(recipe.name, 0, line)])
    if clean:
        top[".kafka_cleanshutdown"] = b""
    for name, data in top.items():
        (place / name).write_bytes(data)
    partition = recipe.write(place)
    if line == STALE:
        for path in partition.glob(f"{FIRST:020}.*"):
            path.unlink()
    found = read(place)
    ((target, surveys, facts),) = found.targets
    return judge(target, surveys, facts, found.context)


def starts(found: Verdict) -> dict[str, int]:
    """The log start offset by what says it."""
    target, facts = found.target, found.facts
    assert facts is not None
    assert target.partition is not None
    forecast = next_start(found)
    assert forecast is not None
    said = {
        "checks and repairs": facts.log_start_offset,
        "groups and transactions": log_start(target.partition, target.directory),
    }
    (exported,) = log_starts([target], Workers(1))
    said["export"] = target.segments[0].base_offset if exported is None else exported
    if forecast.outcome is Outcome.STARTS and forecast.log_start_offset is not None:
        said["the forecast"] = forecast.log_start_offset
        said["compare"] = copy_of(found, {}).log_start
    return {name: offset for name, offset in said.items() if offset is not None}


def ends(found: Verdict) -> dict[str, int]:
    """The end of the log on disk by what says it, where that is certain."""
    last = found.target.segments[-1]
    said = {
        "repairs": log_end_of(found),
        "a quick pass": quick_survey(last, sealed=False).known_end,
        "groups and transactions": log_end(last),
    }
    return {name: offset for name, offset in said.items() if offset is not None}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_all_say_the_same(recipe: Recipe, clean: bool, tmp_path: Path) -> None:
    for number, line in enumerate(LINES):
        place = tmp_path / str(number)
        place.mkdir()
        found = verdict(recipe, line, place, clean=clean)
        (start,) = set(starts(found).values())
        on_disk = set(ends(found).values())
        assert len(on_disk) <= 1
        forecast = next_start(found)
        assert forecast is not None
        if forecast.outcome is Outcome.STARTS and found.surveys[-1].known_end is not None:
            end = copy_of(found, {}).end
            assert forecast.log_end_offset == end
            # A startup that truncates the log, or replaces it by an empty one, moves its end.
            assert bool(forecast.cuts) or on_disk <= {end} or end == start
