"""Which repair each finding names, and what ``verify`` offers to choose from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kdump.cli.main
from kdump.audit.codes import CODES
from kdump.audit.finding_code import Cure, Severity
from kdump.audit.findings import Finding, explain_command
from support.all_recipes import RECIPES, RUNNING, written
from support.damaged import FIRST, LAST, Recipe, batches
from support.forge import batch, flip, record
from support.pipeline import read

#: The repair that each of these recipes' first finding above info names.
NAMED = {
    "crc-sealed": "salvage",
    "crc-last": "truncate-to-valid",
    "size-small": "salvage",
    "torn-sealed": "salvage",
    "torn-last": "truncate-to-valid",
    "torn-header": "truncate-to-valid",
    "zeros-sealed": "salvage",
    "clean-torn": "truncate-to-valid",
    "clean-zeros": "truncate-to-valid",
    "below": "salvage",
    "marker-type": "salvage",
    "marker-cut": "salvage",
    "mixed": "salvage",
    "index-cut": "reindex",
    "no-index": "reindex",
    "no-times-unclean": "reindex",
    "misplaced": "reindex",
    "clean-padded": "reindex",
    "times-empty": "reindex",
    "txnindex-gone": "reindex",
    "txnindex-unflushed": "reindex",
    "snapshot-crc": "reindex",
    "snapshot-sequence": "reindex",
    "epochs-converted": "convert-v0-v2",
    # recovery accepts these
    "overflow": "explain",
    "twice": "explain",
    "inverted": "explain",
    "codec-5": "explain",
    "overlap": "explain",
    "hole": "explain",
}


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


def above_info(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code.severity is not Severity.INFO]


@pytest.mark.parametrize("title", NAMED)
def test_the_repair_that_a_finding_names(title: str, tmp_path: Path) -> None:
    named, recipe_ = NAMED[title], recipe(title)
    partition = str(tmp_path / f"{title}-0")
    first = above_info(written(recipe_, tmp_path).findings())[0]
    arguments = {
        "explain": (first.code.name,),
        "salvage": (partition, "--output", "DIR"),
    }.get(named, (partition,))
    assert first.remedy == ("kdump", named, *arguments)


def test_what_is_no_harm_needs_no_repair(tmp_path: Path) -> None:
    (found,) = written(recipe("index-zeros"), tmp_path).findings()
    assert (found.code.name, found.remedy) == ("index-padded", None)


def test_every_index_that_can_be_made_anew_is_reached_by_a_recipe() -> None:
    expected = {
        name for recipe in RECIPES if recipe.name not in RUNNING for name in recipe.expected
    }
    assert {name for name, code in CODES.items() if code.cure is Cure.REINDEX} <= expected


def test_order_that_recovery_refuses_is_cut(tmp_path: Path) -> None:
    """Index entries fall on both places, so that recovery would empty the segment."""
    large = [batch(offset, [record(bytes(8192))]) for offset in (0, 1, 2, 1)]
    partition = Recipe("twice", [], large, [batch(100, [record()])]).write(tmp_path)
    found = above_info(read(partition).findings())
    disorder = next(finding for finding in found if finding.code.name == "offsets-not-increasing")
    assert disorder.remedy == ("kdump", "salvage", str(partition), "--output", "DIR")


def test_of_a_lone_segment_everything_is_explained(tmp_path: Path) -> None:
    partition = recipe("crc-sealed").write(tmp_path)
    (found,) = above_info(read(partition / "00000000000000000000.log").findings())
    assert found.remedy == explain_command(CODES["batch-crc-mismatch"])


def test_the_path_is_spelled_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe("crc-sealed").write(tmp_path)
    monkeypatch.chdir(tmp_path)
    (found,) = above_info(read(Path("crc-sealed-0")).findings())
    assert found.remedy == ("kdump", "salvage", "crc-sealed-0", "--output", "DIR")


# --- what verify prints


Printed = Callable[[Recipe], list[str]]


@pytest.fixture
def offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Printed:
    """``offered(recipe)``: what ``kdump verify`` of its partition gives to do or to choose from."""
    monkeypatch.chdir(tmp_path)

    def lines(one: Recipe) -> list[str]:
        one.write(tmp_path)
        kdump.cli.main.main(["verify", f"{one.name}-0"])
        printed = capsys.readouterr().out.splitlines()
        assert max(map(len, printed)) <= 80
        first = [
            number for number, line in enumerate(printed) if line.startswith(("choose ", "do "))
        ]
        end = next(number for number, line in enumerate(printed) if line.startswith("configs "))
        return printed[first[0] : end] if first else []

    return lines


def test_damage_in_front_of_sound_batches_gives_a_choice(offered: Printed) -> None:
    assert offered(recipe("crc-sealed")) == [
        "choose      another replica is in sync: start its broker first",
        "            take its records from a replica, copied here as COPY:",
        "              kdump heal crc-sealed-0 --from COPY",
        "            no other replica, loses at most 10 records:",
        "              kdump salvage crc-sealed-0 --output DIR",
        "            as log recovery would, loses 160 VALID records too:",
        "              kdump truncate-to-valid crc-sealed-0",
    ]


def test_damage_at_the_end_is_cut(offered: Printed) -> None:
    assert offered(recipe("crc-last")) == [
        "choose      another replica is in sync: start its broker first",
        "            take its records from a replica, copied here as COPY:",
        "              kdump heal crc-last-0 --from COPY",
        "            no other replica, loses nothing that can be read:",
        "              kdump truncate-to-valid crc-last-0",
    ]


def test_an_unacknowledged_torn_end_is_cut(offered: Printed) -> None:
    assert offered(recipe("torn-last")) == ["do          kdump truncate-to-valid torn-last-0"]


def test_a_cut_of_more_than_damage_has_an_unknown_loss(offered: Printed) -> None:
    assert offered(recipe("below")) == [
        "choose      another replica is in sync: start its broker first",
        "            no other replica:",
        "              kdump salvage below-0 --output DIR",
        "            as log recovery would:",
        "              kdump truncate-to-valid below-0",
    ]


def test_indexes_are_made_anew(offered: Printed) -> None:
    assert offered(recipe("misplaced")) == ["do          kdump reindex misplaced-0"]


def test_damage_and_indexes_are_both_reported(offered: Printed) -> None:
    damaged = batches(FIRST)
    damaged[3] = flip(damaged[3], 100)
    lost = {"00000000000000000100.index": None}
    lines = offered(Recipe("both", [], damaged, batches(LAST), lost))
    assert lines[0].startswith("choose ")
    assert lines[-1] == "do          kdump reindex both-0"


def test_what_no_repair_helps_is_left_to_the_reader(offered: Printed) -> None:
    assert offered(recipe("twice")) == []


def test_of_many_partitions_the_plan_names_every_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path("data")
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for title in ("no-index", "misplaced", "crc-sealed", "torn-last"):
        recipe(title).write(data)
    kdump.cli.main.main(["verify", "data"])
    printed = capsys.readouterr().out.splitlines()
    assert not any("do: kdump verify" in line for line in printed)
    first_line_end = printed.index(next(line for line in printed if line.startswith("data: ")))
    below = printed[first_line_end:]
    assert [line.strip() for line in below if line.startswith(14 * " ")] == [
        "kdump salvage data/crc-sealed-0 --output DIR",
        "kdump truncate-to-valid data/torn-last-0",
        "kdump reindex data",
        "kdump verify data",
    ]
