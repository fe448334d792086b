"""The checks of indexes: every recipe gives its findings, and each says where and what.

Further recipes are in ``damaged``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.checks.file_names import INDEX_ORPHAN, check_orphans
from kdump.audit.checks.indexes import (
    INDEX_PADDED,
    INDEX_REBUILT,
    INDEX_SKIPS,
    as_rebuilt,
    check_indexes,
    check_missing_indexes,
    check_offset_entries,
    check_time_entries,
)
from kdump.audit.codes import CODES
from kdump.audit.evidence import Evidence
from kdump.audit.findings import Detail, Finding, Offsets
from kdump.audit.run.verify import verify
from kdump.audit.survey.index_promises import IndexFacts
from kdump.audit.survey.survey import Survey
from kdump.audit.targets.target import assign, open_roots
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.logdir import Segment
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.fixtures_loader import FIXTURES, copy_fixture
from support.forge import TIMESTAMP
from support.pipeline import evidence, of_survey
from support.recipes_indexes import RECIPES

INDEX, TIMES = Path("p-0/1.index"), Path("p-0/1.timeindex")
SEGMENT = Segment(0, Path("p-0/1.log"), INDEX, TIMES, None, None, "")


def verdict(directory: Path) -> list[Verdict]:
    targets = [target for root in open_roots([directory]) for target in assign(root)]
    return list(verify(targets, deep=False, jobs=1))


@pytest.fixture(scope="module")
def all_at_once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Finding, ...]]:
    """What was found in each recipe's partition, all of them in one log directory."""
    directory = tmp_path_factory.mktemp("recipes")
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    for recipe in RECIPES:
        recipe.write(directory)
    return {one.target.path.name: one.findings for one in verdict(directory)}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_gives_its_findings(
    recipe: Recipe, all_at_once: dict[str, tuple[Finding, ...]]
) -> None:
    found = [finding.code.name for finding in all_at_once[f"{recipe.name}-0"]]
    assert sorted(found) == sorted(recipe.expected)


def test_there_is_a_recipe_for_every_code() -> None:
    expected = {code for recipe in RECIPES for code in recipe.expected}
    new = {code for code in CODES if code.startswith(("index-", "timeindex-"))}
    elsewhere = {
        "index-is-directory", "index-length", "index-padded",
        "timeindex-length", "timeindex-order", "timeindex-padded",
    }  # fmt: skip
    of_clean_stops = {"index-padded-clean", "timeindex-padded-clean"}
    assert new - expected == elsewhere | of_clean_stops | {"index-orphan", "index-rebuilt"}


@pytest.mark.parametrize("fixture", FIXTURES)
def test_no_index_of_a_broker_is_found_fault_with(fixture: str, tmp_path: Path) -> None:
    found = [
        finding for one in verdict(copy_fixture(fixture, tmp_path)) for finding in one.findings
    ]
    assert [finding for finding in found if "index" in finding.code.name] == []


def beside_a_broker(title: str, tmp_path: Path) -> Evidence:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == title]
    given = evidence(recipe.write(tmp_path), live=True)
    assert len(given.surveys) == 2
    return given


def followed(given: Evidence) -> Evidence:
    """The same with a further segment, which is not listed."""
    return replace(given, target=replace(given.target, next_base=LAST * 2))


def test_an_entry_that_skips_names_the_offsets(
    all_at_once: dict[str, tuple[Finding, ...]],
) -> None:
    (finding,) = all_at_once["skips-0"]
    position = sum(map(len, batches(FIRST)[:5]))
    assert finding.path.name == name(FIRST, ".index")
    assert (finding.position, finding.size) == (8, 8)
    assert finding.offsets == Offsets(49, 49)
    assert finding.detail == Detail(
        f"an offset above 49, the last offset before position {position}",
        f"offset 49, position {position}",
    )
    assert finding.remedy == ("kdump", "explain", "index-skips")


def test_a_misplaced_entry_names_the_batch_that_it_leads_into(
    all_at_once: dict[str, tuple[Finding, ...]],
) -> None:
    (finding,) = all_at_once["misplaced-0"]
    position = sum(map(len, batches(FIRST)[:6]))
    assert finding.position == 16
    assert finding.detail == Detail(
        f"the position of a batch, such as {position}", f"offset 69, position {position + 5}"
    )


@pytest.mark.parametrize(
    ("title", "place", "detail"),
    [
        (
            "speaks-of-the-future",
            (24, 8),
            Detail("an offset of at most 199, the last offset of the log", "offset 5189, position"),
        ),
        (
            "times-beyond",
            (48, 12),
            Detail(
                "an offset of at most 199, the last offset of the log",
                f"timestamp {TIMESTAMP + 109_000}, offset 699",
            ),
        ),
        (
            "times-too-low",
            (36, 12),
            Detail(
                f"timestamp {TIMESTAMP + 9000} at the end, the largest of the segment",
                f"timestamp {TIMESTAMP + 8000}, offset 89",
            ),
        ),
        (
            "times-skip",
            (12, 12),
            Detail(
                f"a timestamp of at least {TIMESTAMP + 3000}, as records before it have",
                f"timestamp {TIMESTAMP + 2500}, offset 49",
            ),
        ),
        (
            "times-empty",
            (None, None),
            Detail(
                f"timestamp {TIMESTAMP + 9000} at the end, the largest of the segment", "no entry"
            ),
        ),
        (
            "no-times",
            (None, None),
            Detail("a file 00000000000000000000.timeindex beside it", "none"),
        ),
    ],
)
def test_a_finding_says_where_and_what(
    title: str,
    place: tuple[int | None, int | None],
    detail: Detail,
    all_at_once: dict[str, tuple[Finding, ...]],
) -> None:
    (finding,) = all_at_once[f"{title}-0"]
    assert (finding.position, finding.size) == place
    assert finding.detail is not None
    assert finding.detail.expected == detail.expected
    assert finding.detail.found.startswith(detail.found)


def test_beside_a_broker_entries_may_be_ahead_of_what_was_seen(tmp_path: Path) -> None:
    both = beside_a_broker("log-cut-last", tmp_path)
    last = replace(both, surveys=both.surveys[1:])
    assert list(check_offset_entries(last)) == []
    assert list(check_time_entries(last)) == []
    assert len(list(check_offset_entries(followed(last)))) == 1


def test_beside_a_broker_the_last_segment_may_have_no_index_yet(tmp_path: Path) -> None:
    both = beside_a_broker("no-index-last", tmp_path)
    assert list(check_missing_indexes(both)) == []
    assert len(list(check_missing_indexes(followed(both)))) == 1


def test_indexes_without_a_log(tmp_path: Path) -> None:
    directory = Recipe("orphans", [], batches(FIRST), batches(LAST)).write(tmp_path)
    assert list(check_orphans(evidence(directory))) == []
    (directory / name(FIRST, ".log")).unlink()
    found = list(check_orphans(evidence(directory)))
    assert [finding.code for finding in found] == [INDEX_ORPHAN] * 2
    assert found[0].path == directory / name(FIRST, ".index")
    assert found[0].detail == Detail(f"a file {name(FIRST, '.log')} beside it", "none")
    assert list(check_orphans(evidence(directory, live=True))) == []


def test_what_a_recovery_rebuilds_is_no_error() -> None:
    found = [
        Finding(INDEX_SKIPS, INDEX, 8, 8, detail=Detail("a", "b")),
        Finding(INDEX_PADDED, INDEX),
    ]
    assert list(as_rebuilt(found)) == [
        Finding(
            INDEX_REBUILT,
            INDEX,
            8,
            8,
            detail=Detail("a", "b"),
            remedy=("kdump", "explain", "index-rebuilt"),
        ),
        found[1],
    ]


def facts(
    path: Path = INDEX,
    *,
    size: int = 80,
    remainder: int = 0,
    padding: int = 0,
    disorder: int = 0,
    first: tuple[int, tuple[int, int], tuple[int, int]] | None = None,
) -> IndexFacts:
    entry_bytes = 8 if path == INDEX else 12
    return IndexFacts(path, size, entry_bytes, remainder, padding, disorder, first)


def check(facts: IndexFacts, *, sealed: bool = True) -> list[Finding]:
    survey = Survey(
        segment=SEGMENT,
        deep=False,
        size=0,
        read_bytes=0,
        sound_bytes=0,
        batches=0,
        control_batches=0,
        records=0,
        wrappers=0,
        first_offset=None,
        last_offset=None,
        last_position=None,
        max_timestamp=-1,
        gaps=(),
        faults=(),
        counts=Counter(),
        index=facts if facts.path == INDEX else None,
        time_index=facts if facts.path == TIMES else None,
        unread=(),
    )
    return list(check_indexes(of_survey(survey, sealed=sealed)))


@pytest.mark.parametrize("path", [INDEX, TIMES])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_sound_index_gives_nothing(path: Path, sealed: bool) -> None:
    assert check(facts(path), sealed=sealed) == []


def test_a_cut_entry_is_where_the_odd_bytes_are() -> None:
    (finding,) = check(facts(size=83, remainder=3))
    assert (finding.position, finding.size) == (80, 3)
    assert finding.detail == Detail("a length that is a multiple of 8", "83 bytes")


@pytest.mark.parametrize(
    ("path", "code", "detail"),
    [
        (
            INDEX,
            "index-order",
            Detail("an entry above offset 70, position 900", "offset 60, position 950"),
        ),
        (
            TIMES,
            "timeindex-order",
            Detail("an entry above timestamp 70, offset 900", "timestamp 60, offset 950"),
        ),
    ],
)
def test_the_first_entry_out_of_order_is_shown(path: Path, code: str, detail: Detail) -> None:
    (finding,) = check(facts(path, disorder=4, first=(5, (70, 900), (60, 950))))
    assert finding.code.name == code
    assert finding.path == path
    assert finding.position == 5 * (8 if path == INDEX else 12)
    assert finding.detail == detail
    assert finding.repeats == 3


def test_padding_is_measured_in_front_of_the_odd_bytes() -> None:
    padded, cut = sorted(check(facts(size=83, remainder=3, padding=4)), key=lambda f: f.code.name)[
        ::-1
    ]
    assert (padded.position, padded.size) == (48, 32)
    assert (cut.position, cut.size) == (80, 3)


def test_padding_of_a_last_segment_is_left_alone() -> None:
    assert check(facts(padding=4), sealed=False) == []
