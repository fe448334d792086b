"""Evidence as bytes: what was encoded comes back equal, and nothing else ever comes out."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.survey.statistics import BatchSums
from kdump.audit.survey.survey import Survey, survey
from kdump.errors import DecodeError
from kdump.history.evidence.encoding import decode_survey, encode_survey, survey_form
from kdump.history.evidence.rows import EvidenceRow, SegmentFiles, decode_rows, encode_rows
from kdump.history.records import SegmentReading, SegmentRecord
from kdump.storage.logdir import Segment, open_path
from support import damaged, recipes_indexes, recipes_producers
from support.fixtures_loader import FIXTURES

pytestmark = pytest.mark.once


def surveys(logs: Iterable[Path]) -> Iterator[Survey]:
    """A survey of each log with all that can be asked for, and a plain one."""
    for log in logs:
        segment = open_path(log)
        assert isinstance(segment, Segment)
        for deep in (False, True):
            yield survey(
                segment,
                lambda _: None,
                mapped=False,
                sealed=True,
                deep=deep,
                rebuild_room=1 << 20 if deep else None,
                digest=True,
                statistics=deep,
            )


def numbers(sums: BatchSums) -> tuple[object, ...]:
    return sums.state, sums.wrapped, sums.blocks.stored, sums.blocks.uncompressed


def assert_same(found: Survey, wanted: Survey) -> None:
    if wanted.statistics is not None:
        assert found.statistics is not None
        assert numbers(found.statistics.sums) == numbers(wanted.statistics.sums)
        sums = wanted.statistics.sums
        found = replace(found, statistics=replace(found.statistics, sums=sums))
    assert found == wanted
    assert repr(found) == repr(wanted)


@pytest.mark.parametrize(
    "name",
    [
        "0.8.2.2/clean",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in FIXTURES[1:]),
    ],
)
def test_surveys_of_fixtures_come_back(name: str, grown: Callable[[str], Path]) -> None:
    for made in surveys(sorted(grown(name).glob("*/*.log"))):
        data = encode_survey(made)
        assert_same(decode_survey(data, made.segment.log.parent), made)
        assert encode_survey(decode_survey(data, made.segment.log.parent)) == data


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.nightly)])
def test_surveys_of_damage_come_back(step: int, tmp_path: Path) -> None:
    recipes = (damaged.RECIPES, recipes_indexes.RECIPES, recipes_producers.RECIPES)
    kinds = set()
    for number, recipe in enumerate([*chain.from_iterable(recipes)][::step]):
        folder = recipe.write(tmp_path / str(number))
        for made in surveys(sorted(folder.glob("*.log"))):
            assert_same(decode_survey(encode_survey(made), folder), made)
            kinds |= {type(kind) for kind in made.counts}
    assert {kind.__name__ for kind in kinds} == {"Reason", "FaultKind"}


@pytest.fixture
def made(tmp_path: Path) -> Survey:
    recipe = next(recipe for recipe in damaged.RECIPES if recipe.name == "crc-sealed")
    return [*surveys(sorted(recipe.write(tmp_path).glob("*.log")))][1]


def test_paths_are_in_the_folder_that_is_given(made: Survey, tmp_path: Path) -> None:
    moved = decode_survey(encode_survey(made), tmp_path / "elsewhere")
    assert moved.segment.log == tmp_path / "elsewhere" / made.segment.log.name
    assert moved.index is not None
    assert moved.index.path.parent == tmp_path / "elsewhere"


class Bomb:
    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.flag),)


def test_a_pickle_is_no_survey(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(DecodeError):
            decode_survey(pickle.dumps(Bomb(flag), protocol), tmp_path)
    assert not flag.exists()


def parts(value: Any, way: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The way to each value in nested lists."""
    yield way
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from parts(each, (*way, number))


def put(value: Any, way: tuple[int, ...], other: object) -> Any:
    if not way:
        return other
    return [put(each, way[1:], other) if n == way[0] else each for n, each in enumerate(value)]


def test_any_other_value_at_any_place_is_refused_or_of_its_type(
    made: Survey, tmp_path: Path
) -> None:
    packed = json.loads(encode_survey(made))
    odd = [{}, {"__class__": "os"}, [], [[]], "../x", 2**64, 1.5, "x" * 7, True, None, -1]
    refused = 0
    for way in parts(packed):
        for value in odd:
            data = json.dumps(put(packed, way, value)).encode()
            try:
                found = decode_survey(data, tmp_path)
            except DecodeError:
                refused += 1
                continue
            again = decode_survey(encode_survey(found), tmp_path)
            assert repr(again) == repr(found) or found.statistics is not None
            assert found.segment.log.parent == tmp_path
    assert refused > 1000


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"null", b"[" * 100_000, b"NaN", b"\xff", b"[1" + b"0" * 5000 + b"]"],
)
def test_other_bytes_are_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DecodeError):
        decode_survey(data, tmp_path)


def row(made: Survey) -> EvidenceRow:
    assert made.identity is not None
    files = SegmentFiles.of(made.segment, made.identity)
    assert made.header_digest is not None
    reading = SegmentReading(1, made.batches, made.header_digest, 1, 1, 5, "1.0", b"\0" * 16, "[]")
    record = SegmentRecord(
        made.segment.base_offset, 3, files.log, True, files.log.size, reading=reading
    )
    return EvidenceRow.of(record, files, "[null,1,2]", made)


def test_rows_come_back(made: Survey) -> None:
    rows = [row(made), replace(row(made), time_index=None, deep=False)]
    assert decode_rows(encode_rows(rows)) == rows
    assert decode_rows(encode_rows([])) == []
    assert_same(rows[0].open(made.segment.log.parent), made)


def test_the_survey_of_another_segment_is_refused(made: Survey, tmp_path: Path) -> None:
    other = replace(row(made), survey=encode_survey(replace(made, header_digest=bytes(16))))
    with pytest.raises(DecodeError, match="another one"):
        other.open(tmp_path)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_changed_byte_gives_no_other_row(step: int, made: Survey) -> None:
    rows = [row(made)]
    data = encode_rows(rows)
    refused = 0
    for position in range(0, len(data), step):
        changed = bytearray(data)
        changed[position] ^= 0x41
        try:
            assert decode_rows(bytes(changed)) == rows, position
        except DecodeError:
            refused += 1
    assert refused > len(data) // step // 2
    for size in range(0, len(data), 97):
        with pytest.raises(DecodeError):
            decode_rows(data[:size])


def test_the_form_names_all_types() -> None:
    assert survey_form() == survey_form()
    assert len(survey_form()) == 16
