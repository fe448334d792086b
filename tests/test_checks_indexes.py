"""The checks of indexes: where the fault stands, and what of a last segment is left alone.

Which damage gives which code is in the recipes, which ``test_checks_batches`` runs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kdump.audit.checks.indexes import check_indexes
from kdump.audit.findings import Detail, Finding
from kdump.audit.survey import IndexFacts, Survey
from kdump.storage.logdir import Segment

INDEX, TIMES = Path("p-0/1.index"), Path("p-0/1.timeindex")
SEGMENT = Segment(0, Path("p-0/1.log"), INDEX, TIMES, None, None, "")


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
    return list(check_indexes(survey, sealed=sealed))


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
