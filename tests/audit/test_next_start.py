"""What a start comes to by everything that the checks find: whole log directories, worst first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.codes import CODES
from kdump.audit.facts.small_files import read_directory
from kdump.audit.finding_code import Outcome
from kdump.audit.judge import judge, judge_directories
from kdump.audit.startup import inputs
from kdump.audit.startup.forecast import DirectoryForecast, Forecast
from kdump.audit.survey.recovery import Records
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.next_start import next_start
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, Segment, open_path
from support import damaged, recipes_directory, recipes_indexes, recipes_producers
from support.damaged import Recipe
from support.fixtures_loader import copy_fixture, few_first
from support.forge_metadata import METADATA
from support.pipeline import Read, read

STOPPED = Liveness(BrokerState.STOPPED, "a test says so")
WORSE = {Outcome.STARTS: 0, Outcome.OFFLINE: 1, Outcome.REFUSES: 2}
#: They say in other words that a start does, or does not depend on them.
WORDS = ("not start", "offline")
#: Only some starts read what they are about, or only some releases.
DEPENDS = {
    "batch-below-segment",
    "disk-low",
    "disk-short",
    "index-is-directory",
    "marker-unknown",
    "snapshot-is-directory",
    "marker-unreadable",
    "metadata-version-old",
    "segment-bytes-small",
    "transaction-mixed",
    "txnindex-version",
}
RECIPES: tuple[Recipe, ...] = (
    *damaged.RECIPES,
    *recipes_indexes.RECIPES,
    *recipes_directory.RECIPES,
    *recipes_producers.RECIPES,
)


def verdict(given: Read) -> list[Verdict]:
    return [judge(target, found, facts, given.context) for target, found, facts in given.targets]


def starts(*paths: Path, given: Read, verdicts: Iterable[Verdict]) -> dict[str, DirectoryForecast]:
    """The forecasts of log directories by their names."""
    roots = []
    for path in paths:
        target = open_path(path)
        assert isinstance(target, LogDirectory)
        roots.append(Root(path, target, STOPPED, read_directory(target, STOPPED)))
    gathered = Starts(roots)
    gathered.add_findings(judge_directories(given.context))
    for each in verdicts:
        gathered.add(each, next_start(each))
    return {path.name: start for path, start in gathered.directories()}


def start(path: Path) -> DirectoryForecast:
    given = read(path)
    (found,) = starts(path, given=given, verdicts=verdict(given)).values()
    return found


def forecasts(path: Path) -> dict[str, Forecast]:
    """Those of a directory's partitions, by name."""
    made = {each.target.path.name: next_start(each) for each in verdict(read(path))}
    return {name: start for name, start in made.items() if start is not None}


def test_the_effect_of_a_code_on_a_start_is_in_its_field() -> None:
    said = {
        code.name
        for code in CODES.values()
        if any(word in code.broker for word in WORDS) and code.name not in DEPENDS
    }
    assert said == {code.name for code in CODES.values() if code.stops is not None}


@pytest.mark.parametrize(
    "one",
    [recipe for recipe in RECIPES if any(CODES[name].stops for name in recipe.expected)],
    ids=lambda one: one.name,
)
def test_what_stops_a_start_is_forecast(one: Recipe, tmp_path: Path) -> None:
    one.write(tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").touch()  # so that it is a log directory
    worst = max((CODES[name].stops or Outcome.STARTS for name in one.expected), key=WORSE.get)  # type: ignore[arg-type]
    found = start(tmp_path)
    assert WORSE[found.outcome] >= WORSE[worst]
    assert found.causes


def test_every_code_that_stops_has_a_recipe_or_a_test() -> None:
    shown = {name for recipe in RECIPES for name in recipe.expected if CODES[name].stops}
    elsewhere = {
        "broker-denied",
        "clean-marker-directory",
        "disk-full",
        "directory-id-reserved",
        "directory-id-taken",
        "feature-unsupported",
        "file-is-directory",
        "log-directory-file",
        "log-directory-twice",
        "log-directory-missing",
        "log-too-large",
        "meta-properties-offline",
        "metadata-log-file",
        "partition-is-file",
        "meta-properties-mismatch",
        "metadata-log-misplaced",
        "metadata-replay-stops",
        "meta-properties-missing",
        "node-id-mismatch",
        "remote-cache-damaged",
        "setting-refused",
        "unreadable",
    }
    assert shown | elsewhere == {code.name for code in CODES.values() if code.stops}


def test_two_directories_of_a_node_that_do_not_go_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for node, path in enumerate((first, second)):
        recipes_directory.kraft("twice").write(path)
        (path / "meta.properties").write_bytes(
            recipes_directory.meta_properties(node=node, directory=f"ZGlyZWN0b3J5LTEyMzQ{node}")
        )
    given = read(first, second, config={})
    found = starts(first, second, given=given, verdicts=verdict(given))
    assert found["b"].outcome is Outcome.REFUSES
    assert {cause.path.name for cause in found["b"].causes} >= {"meta.properties", "twice-0"}


def test_a_kraft_node_needs_its_meta_properties(tmp_path: Path) -> None:
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    (path / "meta.properties").unlink()
    found = start(path)
    assert found.outcome is Outcome.REFUSES
    assert found.causes[0].path == path / "meta.properties"


@pytest.mark.parametrize("target", ["/dev/null", "nothing"])
def test_a_checkpoint_that_cannot_be_read_takes_the_directory_offline(
    tmp_path: Path, target: str
) -> None:
    recipes_directory.kraft("unread").write(tmp_path)
    (tmp_path / "replication-offset-checkpoint").symlink_to(target)
    found = start(tmp_path)
    assert (found.outcome, found.causes[0].path.name) == (
        Outcome.OFFLINE,
        "replication-offset-checkpoint",
    )


def test_without_a_topic_id_a_replica_is_set_aside(tmp_path: Path) -> None:
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    known = len(forecasts(path))
    assert start(path).set_aside == 0
    for file in path.glob("*/partition.metadata"):
        file.unlink()
    made = forecasts(path)
    aside = {name for name, start in made.items() if start.set_aside is not None}
    assert "codec-none-0" in aside
    assert "never-written-0" not in aside  # nothing is there to be missed
    assert start(path).set_aside == len(aside) < known
    assert made["codec-none-0"].log_end_offset == 122


@pytest.mark.parametrize("suffix", ["delete", "stray"])
def test_what_is_on_its_way_out_is_loaded_too(tmp_path: Path, suffix: str) -> None:
    path = copy_fixture("4.3.1/killed", tmp_path / "data")
    before = start(path)
    (moved,) = [path / "codec-none-0"]
    moved = moved.rename(path / f"codec-none-0.{'0' * 32}-{suffix}")
    after = start(path)
    assert (after.outcome, after.total, after.whole) == (Outcome.STARTS, before.total, True)
    partition_start = forecasts(path)[moved.name]
    assert (partition_start.read_bytes > 0) is (suffix == "stray")
    (moved / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")
    assert start(path).outcome is Outcome.OFFLINE


def test_unread_partitions_do_not_count_as_sound(tmp_path: Path) -> None:
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    given = read(path)
    all_verdicts = verdict(given)
    whole = starts(path, given=given, verdicts=all_verdicts)["data"]
    assert (whole.total, whole.partitions, whole.exact) == (22, 22, 22)
    some = starts(path, given=given, verdicts=all_verdicts[5:10])["data"]
    assert (some.total, some.partitions, some.whole) == (22, 5, False)
    # One that could not be listed has no facts.
    lacking = [
        replace(all_verdicts[7], facts=None) if each is all_verdicts[7] else each
        for each in all_verdicts
    ]
    found = starts(path, given=given, verdicts=lacking)["data"]
    assert (found.total, found.partitions, found.whole) == (22, 21, False)


def test_partitions_of_two_directories_arrive_in_any_order(tmp_path: Path) -> None:
    first = copy_fixture("4.3.1/clean", tmp_path / "first")
    second = copy_fixture("4.3.1/killed", tmp_path / "second")
    given = read(first, second)
    ordered = verdict(given)
    of_first, of_second = (
        [each for each in ordered if each.target.path.parent == path] for path in (first, second)
    )
    mixed = [each for pair in zip(of_first, of_second, strict=True) for each in pair]
    assert len(of_first) > 20 and sorted(map(id, mixed)) == sorted(map(id, ordered))
    expected = starts(first, second, given=given, verdicts=ordered)
    assert expected["first"].partitions == len(of_first)
    assert starts(first, second, given=given, verdicts=mixed) == expected


def test_the_metadata_log_has_its_say(tmp_path: Path) -> None:
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    assert start(path).causes == ()
    (path / METADATA / "quorum-state").write_text("garbage")
    found = start(path)
    assert [cause.path.name for cause in found.causes] == ["quorum-state"]
    (path / METADATA / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")
    found = start(path)
    assert {cause.outcome for cause in found.causes} == {Outcome.REFUSES}
    assert len(found.causes) == 2


def test_a_metadata_log_is_cut_like_any_other(tmp_path: Path) -> None:
    path = copy_fixture("4.3.1/clean", tmp_path / "data")
    before = forecasts(path)[METADATA]
    assert (before.log_end_offset, before.lost, before.exact) == (305, Records(), True)
    (log,) = (path / METADATA).glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    after = forecasts(path)[METADATA]
    assert (after.outcome, len(after.cuts)) == (Outcome.STARTS, 1)
    assert after.lost.sound.count > 100
    assert start(path).lost.sound == after.lost.sound


def test_a_metadata_log_below_its_snapshot_begins_anew(tmp_path: Path) -> None:
    beyond, _ = (each for each in RECIPES if "metadata-snapshot-beyond-end" in each.expected)
    beyond.write(tmp_path)
    (snapshot,) = (tmp_path / METADATA).glob("*.checkpoint")
    end = int(snapshot.name.partition("-")[0])
    made = forecasts(tmp_path)[METADATA]
    assert (made.log_start_offset, made.log_end_offset, made.segments) == (end, end, (end,))
    assert made.deleted


def sound_ends(given: Read, seen: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares what is taken over from surveys and checks with what is looked up once more."""
    for each in verdict(given):
        if each.facts is None:
            continue
        for clean in (True, False):
            known = replace(each, facts=replace(each.facts, clean=clean))
            short = next_start(known)
            with monkeypatch.context() as changed:
                changed.setattr(inputs, "_surveyed_end", lambda last: noted(last.segment, seen))
                assert short == next_start(replace(known, replay=None))


def noted(segment: Segment, seen: list[object]) -> object:
    seen.append(segment)
    return inputs._end(segment)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_forecast_without_a_second_lookup_loses_nothing(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe.write(tmp_path)
    sound_ends(read(tmp_path), [], monkeypatch)


@pytest.mark.parametrize("fixture", few_first())
def test_nothing_is_lost_of_what_a_broker_wrote(
    fixture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    sound_ends(read(copy_fixture(fixture, tmp_path / "data")), seen, monkeypatch)
    assert seen
