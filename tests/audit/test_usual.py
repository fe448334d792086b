"""The summaries of usual batches in a walk give the same counts as the batches themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.recovery import recover
from kdump.audit.survey.survey import Survey, survey
from kdump.format.batch import BatchTable, Usual
from kdump.format.kernel import headers as _headers
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment, open_path
from kdump.storage.walk import walk
from support.fixtures_loader import copy_fixture, few_first
from support.forge import TIMESTAMP, batch, flip, marker, message, record, wrapper

pytestmark = pytest.mark.loops

TWO = (record(b"one"), record(b"two"))

#: Batches of two records, as they are usual.
USUAL = {
    "plain": lambda offset: batch(offset, TWO),
    "later": lambda offset: batch(offset, TWO, base_timestamp=TIMESTAMP + 9),
    "earlier": lambda offset: batch(offset, TWO, base_timestamp=0, max_timestamp=0),
    "compressed": lambda offset: batch(offset, TWO, codec="zstd"),
    "stamped": lambda offset: batch(offset, TWO, timestamp_type="LogAppendTime"),
    "large": lambda offset: batch(offset, [record(b"v" * 2000), record()]),
}
PRODUCERS = {
    "idempotent": lambda offset: batch(
        offset, TWO, producer_id=7, producer_epoch=0, base_sequence=offset
    ),
    "transactional": lambda offset: batch(
        offset, TWO, producer_id=8, producer_epoch=1, base_sequence=0, transactional=True
    ),
}
#: What stands in the place of one.
UNUSUAL = {
    "hole before": lambda offset: batch(offset + 1, [record()]),
    "hole behind": lambda offset: batch(offset, [record()]),
    "backwards": lambda offset: batch(offset - 1, [*TWO, record()]),
    "inverted": lambda offset: batch(offset, TWO, last_offset_delta=-1),
    "fewer records": lambda offset: batch(offset, [record()], last_offset_delta=1),
    "empty": lambda offset: batch(offset, [], last_offset_delta=1),
    "another count": lambda offset: batch(offset, TWO, count=-1),
    "another epoch": lambda offset: batch(offset, TWO, leader_epoch=1),
    "no timestamp": lambda offset: batch(offset, TWO, max_timestamp=-1),
    "marker": lambda offset: marker(offset, 7, commit=True),
    "horizon": lambda offset: batch(offset, TWO, delete_horizon=True),
    "no codec": lambda offset: batch(offset, TWO, attributes=5),
    "odd bit": lambda offset: batch(offset, TWO, attributes=128),
    "sign bit": lambda offset: batch(offset, TWO, attributes=-32768),
    "magic 3": lambda offset: batch(offset, TWO, magic=3),
    "magic 1": lambda offset: message(offset + 1),
    "wrapper": lambda offset: wrapper(offset + 1, [message(0), message(1)], codec="gzip"),
    "far": lambda offset: batch(2**63 - 2, TWO),
}
PIECES = USUAL | PRODUCERS | UNUSUAL


def log_of(pieces: list[str], start: int = 0) -> list[bytes]:
    return [PIECES[piece](start + 2 * index) for index, piece in enumerate(pieces)]


def written(directory: Path, pieces: list[bytes]) -> Path:
    partition = directory / "topic-0"
    partition.mkdir(parents=True, exist_ok=True)
    log = partition / f"{0:020d}.log"
    log.write_bytes(b"".join(pieces))
    return log


def tables(log: Path) -> list[BatchTable]:
    with open_source(log, mapped=False) as source:
        return [piece for piece in walk(source, 0) if isinstance(piece, BatchTable)]


@contextmanager
def nobody_says() -> Iterator[None]:
    with patch.object(Usual, "of", lambda scanned: None):
        yield


def surveyed(log: Path) -> Survey:
    segment = open_path(log)
    assert isinstance(segment, Segment)
    return survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)


def assert_no_difference(log: Path) -> None:
    found = surveyed(log)
    with nobody_says():
        assert all(table.usual is None for table in tables(log))
        assert surveyed(log) == found


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("piece", [*USUAL, *PRODUCERS])
def test_usual_batches_are_said_to_be(piece: str, place: int, tmp_path: Path) -> None:
    pieces = ["plain"] * 5
    pieces[place] = piece
    log = written(tmp_path, log_of(pieces, start=10))
    (table,) = tables(log)
    stamps = table.column("max_timestamp")
    lowest, highest = min(stamps), max(stamps)
    assert table.usual == Usual(10, 19, 0, lowest, highest, int(piece in PRODUCERS))
    assert table.usual.records == sum(table.column("count")) == 10
    assert table.first(5).usual is None
    assert_no_difference(log)


@pytest.mark.parametrize(
    ("piece", "place"),
    [
        (piece, place)
        for piece in UNUSUAL
        for place in (0, 1, 5)
        if place or piece not in ("hole before", "backwards")  # before the first stands nothing
        if place < 5 or piece != "hole behind"
    ],
)
def test_one_unusual_batch_is_enough(piece: str, place: int, tmp_path: Path) -> None:
    pieces = ["plain"] * 6
    pieces[place] = piece
    log = written(tmp_path, log_of(pieces, start=10))
    (table,) = tables(log)
    assert table.usual is None
    assert_no_difference(log)


def test_offsets_below_0_are_not_usual(tmp_path: Path) -> None:
    (table,) = tables(written(tmp_path, [batch(-2, TWO), batch(0, TWO)]))
    assert table.usual is None


def test_a_batch_beyond_the_window_is_checked_too(tmp_path: Path) -> None:
    """It is scanned alone, after batches that were usual."""
    large = batch(2, [record(b"v" * (9 << 20))], last_offset_delta=1)
    log = written(tmp_path, [batch(0, TWO), large, batch(4, TWO)])
    assert [(len(table), table.usual is None) for table in tables(log)] == [
        (1, False),
        (1, True),
        (1, False),
    ]
    assert_no_difference(log)


def test_of_batches_before_a_bad_one_all_is_known_only_if_none_waited(tmp_path: Path) -> None:
    """Those are checksummed after the scan, which then has taken in too many.

    They are the large ones; without a compiler, all.
    """
    small, large = log_of(["plain"] * 3), log_of(["large"] * 3)
    for pieces, known in ((small, _headers.COMPILED), (large, False)):
        log = written(tmp_path / str(known), [pieces[0], flip(pieces[1], -1), pieces[2]])
        first, second = tables(log)
        assert (first.usual is not None) is known
        assert second.usual is not None
        assert_no_difference(log)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([*PIECES, "plain", "plain", "plain"]), min_size=1, max_size=12),
    st.lists(st.integers(0, 4000), max_size=2),
    st.integers(0, 3),
    st.integers(0, 3000),
)
def test_what_is_said_changes_no_survey_and_no_recovery(
    tmp_path: Path, pieces: list[str], flips: list[int], start: int, stop: int
) -> None:
    data = b"".join(log_of(pieces, start))
    for position in flips:
        data = flip(data, position % len(data))
    log = written(tmp_path, [data])
    assert_no_difference(log)
    with open_source(log, mapped=False) as source:
        found = recover(source, 0, TopicSettings(), stop)
        with nobody_says():
            assert recover(source, 0, TopicSettings(), stop) == found


@pytest.mark.parametrize("fixture", few_first())
def test_what_is_said_changes_no_survey_of_a_fixture(fixture: str, tmp_path: Path) -> None:
    said = 0
    for log in sorted(copy_fixture(fixture, tmp_path / "data").glob("*/*.log")):
        said += sum(table.usual is not None for table in tables(log))
        assert_no_difference(log)
    assert said > 0 or fixture.startswith("0.")
