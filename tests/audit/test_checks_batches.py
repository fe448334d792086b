"""The checks of batches and records: every recipe gives its findings, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.checks.batches import check_segments, check_sequence
from kdump.audit.checks.indexes import (
    check_indexes,
    check_last_timestamp,
    check_missing_indexes,
    check_offset_entries,
    check_time_entries,
)
from kdump.audit.findings import Detail, Finding, Offsets
from kdump.audit.survey.survey import LISTED
from support import forge
from support.damaged import FIRST, LAST, RECIPES, Recipe, batches, name
from support.forge import batch, flip, record
from support.pipeline import evidence

CHECKS = (
    check_segments,
    check_indexes,
    check_offset_entries,
    check_time_entries,
    check_last_timestamp,
    check_sequence,
    check_missing_indexes,
)


def findings(
    directory: Path, *, deep: bool = False, live: bool = False, compacted: bool | None = None
) -> list[Finding]:
    given = evidence(directory, deep=deep, live=live, compacted=compacted)
    assert [next_base for _, next_base in given.neighbours] == [LAST, None]
    return [finding for check in CHECKS for finding in check(given)]


def only(directory: Path, *, deep: bool = False, live: bool = False) -> Finding:
    (finding,) = findings(directory, deep=deep, live=live)
    return finding


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_gives_its_findings(recipe: Recipe, tmp_path: Path) -> None:
    found = findings(recipe.write(tmp_path), deep=recipe.deep)
    assert sorted(finding.code.name for finding in found) == sorted(recipe.expected)


@pytest.mark.parametrize(
    "recipe", [recipe for recipe in RECIPES if recipe.deep], ids=lambda recipe: recipe.name
)
def test_records_are_left_alone_without_deep(recipe: Recipe, tmp_path: Path) -> None:
    assert findings(recipe.write(tmp_path)) == []


def test_a_bad_checksum_says_where_and_what(tmp_path: Path) -> None:
    sound = batches(FIRST)
    finding = only(recipe("crc-sealed").write(tmp_path))
    stored = int.from_bytes(sound[3][17:21], "big")
    assert finding.path.name == name(FIRST, ".log")
    assert finding.position == sum(map(len, sound[:3]))
    assert finding.size == len(sound[3])
    assert finding.offsets == Offsets(30, 39)
    assert finding.detail is not None
    assert finding.detail.expected == f"crc {stored:08x} as stored"
    assert finding.remedy == ("kdump", "explain", "batch-crc-mismatch")


def test_the_offsets_of_a_tail_end_before_the_next_segment(tmp_path: Path) -> None:
    assert only(recipe("torn-sealed").write(tmp_path)).offsets == Offsets(90, 99)


def test_the_offsets_of_the_last_tail_have_no_known_end(tmp_path: Path) -> None:
    assert only(recipe("torn-last").write(tmp_path)).offsets == Offsets(190, None)


def test_zeros_cost_no_offsets(tmp_path: Path) -> None:
    finding = only(recipe("zeros-sealed").write(tmp_path))
    assert finding.offsets is None
    assert finding.detail == Detail("the end of the file", "500 zero bytes")


def test_damage_between_neighbours_that_join_costs_no_offsets(tmp_path: Path) -> None:
    sound = batches(FIRST)
    copy = [*sound[:3], flip(sound[2], -1), *sound[3:]]
    finding = only(Recipe("copy", [], copy, batches(LAST)).write(tmp_path))
    assert finding.code.name == "batch-crc-mismatch"
    assert finding.offsets is None


def test_a_torn_tail_beside_a_broker_is_a_note(tmp_path: Path) -> None:
    directory = recipe("torn-last").write(tmp_path)
    assert only(directory, live=True).code.name == "torn-tail-live"


def test_a_sealed_torn_tail_beside_a_broker_stays_an_error(tmp_path: Path) -> None:
    directory = recipe("torn-sealed").write(tmp_path)
    assert only(directory, live=True).code.name == "torn-tail-sealed"


def test_an_overlap_names_the_offsets_that_exist_twice(tmp_path: Path) -> None:
    finding = only(recipe("overlap").write(tmp_path))
    assert finding.path.name == name(FIRST, ".log")
    assert finding.position == sum(map(len, batches(FIRST)))
    assert finding.offsets == Offsets(100, 100)


def test_running_backwards_says_what_stood_before(tmp_path: Path) -> None:
    finding = only(recipe("twice").write(tmp_path))
    assert finding.detail == Detail("a base offset above 39", "30")
    assert finding.offsets == Offsets(30, 39)


def test_a_late_record_says_both_timestamps(tmp_path: Path) -> None:
    finding = only(recipe("late").write(tmp_path), deep=True)
    assert finding.detail == Detail(
        f"no timestamp above {forge.TIMESTAMP}", str(forge.TIMESTAMP + 1)
    )


def test_unreadable_records_are_reported_in_the_readers_words(tmp_path: Path) -> None:
    finding = only(recipe("fewer").write(tmp_path), deep=True)
    assert finding.detail is not None
    assert "record 4 of 5" in finding.detail.found


def test_repeats_are_counted_and_not_listed(tmp_path: Path) -> None:
    sound = [batch(offset, [record(bytes(4000))]) for offset in range(40)]
    damaged = [flip(data, -1) if number % 2 else data for number, data in enumerate(sound)]
    directory = Recipe("many", [], damaged, batches(LAST)).write(tmp_path)
    found = findings(directory)
    # The one at the end of the log is listed too.
    assert [finding.repeats for finding in found] == [*[0] * (LISTED - 1), 20 - LISTED - 1, 0]


def test_repeats_of_one_kind_do_not_crowd_out_another(tmp_path: Path) -> None:
    same = [batch(0, [record()])] * 30
    damaged = [*same, batch(40, [record()], last_offset_delta=-1)]
    directory = Recipe("mixed", [], damaged, batches(LAST)).write(tmp_path)
    given = evidence(directory)
    found = list(check_segments(replace(given, surveys=given.surveys[:1])))
    assert [finding.code.name for finding in found].count("batch-offsets-inverted") == 1
    assert sum(1 + finding.repeats for finding in found) == 30


def test_exactly_as_many_as_are_listed_have_no_repeats(tmp_path: Path) -> None:
    directory = Recipe("some", [], [batch(0, [record()])] * (LISTED + 1), batches(LAST)).write(
        tmp_path
    )
    assert [finding.repeats for finding in findings(directory)] == [0] * LISTED


def test_an_unknown_codec_is_reported_once(tmp_path: Path) -> None:
    finding = only(recipe("codec-5").write(tmp_path), deep=True)
    assert finding.code.name == "batch-codec-unknown"
    assert finding.detail == Detail("a compression type of at most 4 (zstd)", "5")


def test_a_magic_says_which(tmp_path: Path) -> None:
    finding = only(recipe("magic").write(tmp_path))
    assert finding.detail == Detail("a magic of 0, 1 or 2", "77")
    assert finding.offsets == Offsets(190, 190)


def never_compacted(tmp_path: Path, first: Sequence[bytes], last: Sequence[bytes]) -> list[Finding]:
    directory = Recipe("kept", [], first, last).write(tmp_path)
    whole = findings(directory, deep=True, compacted=False)
    for compacted in (None, True):
        silent = findings(directory, deep=True, compacted=compacted)
        assert silent == [finding for finding in whole if finding.code.check != 6]
    return whole


def test_records_removed_from_a_batch_are_missed_by_its_count(tmp_path: Path) -> None:
    fewer = batch(30, [record(), record(offset_delta=9)])
    (finding,) = never_compacted(
        tmp_path, [*batches(FIRST)[:3], fewer, *batches(FIRST)[4:]], batches(LAST)
    )
    assert (finding.code.name, finding.offsets) == ("batch-count-mismatch", Offsets(30, 39))
    assert finding.detail == Detail("a count of 10, one record for each offset", "2")


def test_damage_is_not_a_gap_too(tmp_path: Path) -> None:
    sound = batches(FIRST)
    damaged = [*sound[:3], flip(sound[3], -1), *sound[4:]]
    (finding,) = never_compacted(tmp_path, damaged, batches(LAST))
    assert finding.code.name == "batch-crc-mismatch"


def test_a_log_that_was_never_compacted_has_no_gaps(tmp_path: Path) -> None:
    """Neither where its first batch lies above its name, nor before a wrapper, nor at a marker."""
    inner = [forge.message(offset) for offset in range(5)]
    first = [forge.message(3), forge.wrapper(8, inner, codec="gzip"), forge.message(9)]
    last = [*batches(LAST, 3)[1:], forge.marker(130, 7, commit=True), *batches(131, 1)]
    found = never_compacted(tmp_path, first, last)
    assert [finding.code.name for finding in found if finding.code.check == 6] == []
