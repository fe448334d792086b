"""Events of a segment: what a survey gathers of producers, markers, sequences, leader epochs."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kdump.audit.survey.events import EpochRun, Events, Horizons, Marker, SequenceBreak
from kdump.audit.survey.survey import survey
from kdump.format.kernel import producers as _producers
from kdump.storage.logdir import Segment, open_path
from support import forge
from support.damaged import FIRST, Recipe, name
from support.forge import TIMESTAMP, batch, flip, marker, record
from support.recipes_producers import SOUND_FIRST, data, end, one, plain

BOTH = pytest.mark.parametrize("mapped", [True, False])


def of(tmp_path: Path, *batches: bytes, mapped: bool = False) -> Events:
    directory = Recipe("topic", [], batches, [b""]).write(tmp_path)
    segment = open_path(directory / name(FIRST, ".log"))
    assert isinstance(segment, Segment)
    return survey(segment, lambda _: None, mapped=mapped, sealed=True, deep=False).events


def kinds(events: Events) -> list[tuple[int, ...]]:
    """(kind, producer, offset) of each event."""
    width = len(_producers.EVENT_FIELDS)
    rows = [events.rows[at : at + width] for at in range(0, len(events.rows), width)]
    return [(row[0], row[1], row[3]) for row in rows]


def runs(events: Events) -> list[tuple[int, ...]]:
    width = len(_producers.RUN_FIELDS)
    return [tuple(events.runs[at : at + width]) for at in range(0, len(events.runs), width)]


@BOTH
def test_transactions_begin_and_end_in_the_order_of_the_file(tmp_path: Path, mapped: bool) -> None:
    found = of(tmp_path, *SOUND_FIRST, mapped=mapped)
    assert kinds(found) == [
        (_producers.BEGIN, 7, 10),
        (_producers.BEGIN, 8, 15),
        (_producers.ABORT, 7, 20),
        (_producers.PLAIN, 9, 21),
        (_producers.COMMIT, 8, 31),
        (_producers.BEGIN, 7, 40),
    ]


def test_a_marker_says_who_when_and_how(tmp_path: Path) -> None:
    sound = plain(0), marker(5, 7, 3, commit=True, coordinator_epoch=-2, timestamp=TIMESTAMP + 9)
    (found,) = of(tmp_path, *sound).markers()
    assert found == Marker(True, 7, 3, 5, len(sound[0]), -2, TIMESTAMP + 9)


def test_a_marker_with_a_delete_horizon_keeps_its_time(tmp_path: Path) -> None:
    """Its base timestamp is the horizon, so its record's delta is not 0."""
    odd = record(bytes(6), bytes(4), timestamp=TIMESTAMP)
    horizon = TIMESTAMP + 86_400_000
    found = of(tmp_path, one(0, records=[odd], base_timestamp=horizon, delete_horizon=True))
    (only,) = found.markers()
    assert (only.timestamp, only.commit) == (TIMESTAMP, False)
    assert found.horizons == Horizons(1, 0, horizon, horizon)


def test_a_run_spans_the_batches_of_a_producer(tmp_path: Path) -> None:
    first, second = data(10, 7, 0), data(20, 7, 5)
    between = data(15, 8, 0)
    found = runs(of(tmp_path, first, between, second))
    at = len(first) + len(between)
    assert found == [
        (7, 0, 10, 0, 0, 24, at, 9, 4, TIMESTAMP + 20),
        (8, 0, 15, len(first), 0, 19, len(first), 4, 4, TIMESTAMP + 15),
    ]


def test_a_run_ends_with_its_epoch(tmp_path: Path) -> None:
    found = of(
        tmp_path,
        data(0, 7, 0),
        data(5, 7, 0, epoch=1),
        end(10, 7, epoch=2),
        data(11, 7, 9, epoch=2),
    )
    assert [row[:3] for row in runs(found)] == [(7, 0, 0), (7, 1, 5), (7, 2, 11)]
    assert found.break_count == 0


def test_a_marker_of_the_same_epoch_lets_a_run_go_on(tmp_path: Path) -> None:
    found = of(tmp_path, data(0, 7, 0), end(5, 7), data(6, 7, 5))
    assert [row[:3] for row in runs(found)] == [(7, 0, 0)]


def test_breaks_are_counted_and_the_first_few_listed(tmp_path: Path) -> None:
    odd = [data(5 * number, 7, 100 * number, transactional=False) for number in range(20)]
    found = of(tmp_path, *odd)
    assert found.break_count == 19
    assert len(found.breaks) == _producers.LISTED
    assert found.breaks[0] == SequenceBreak(7, 0, 5, len(odd[0]), 5, 100, 4)


def test_a_sequence_continues_from_0_after_the_largest(tmp_path: Path) -> None:
    found = of(tmp_path, data(0, 7, 2**31 - 5), data(5, 7, 0))
    assert found.break_count == 0
    assert runs(found)[0][7] == 4


def test_leader_epochs_come_in_runs(tmp_path: Path) -> None:
    sound = plain(0, leader=1), plain(5, leader=1), plain(20, leader=3), forge.message(30)
    found = list(of(tmp_path, *sound).epochs())
    third = 2 * len(sound[0])
    assert found == [
        EpochRun(1, 0, 0, 9),
        EpochRun(3, 20, third, 24),
        EpochRun(-1, 30, third + len(sound[2]), 30),
    ]


def test_emptied_control_batches_are_passed_over(tmp_path: Path) -> None:
    assert kinds(of(tmp_path, one(0, records=[]))) == []


def test_control_batches_without_a_producer_are_passed_over(tmp_path: Path) -> None:
    value = bytes(20)
    assert kinds(of(tmp_path, forge.control_batch(0, forge.LEADER_CHANGE, value))) == []


def test_nothing_is_gathered_of_damage(tmp_path: Path) -> None:
    assert kinds(of(tmp_path, plain(0), flip(end(5, 7), -1), plain(10))) == []


def test_a_long_control_batch_is_read_as_far_as_a_marker_reaches(tmp_path: Path) -> None:
    """Beyond what is looked at its record is no marker; the file is read no further for it."""
    long = record(bytes(200_000), bytes(4))
    short = [record(bytes(6), bytes(4)), record(bytes(200_000))]
    found = of(tmp_path, one(0, records=[long]), one(10, records=short))
    assert kinds(found) == [
        (_producers.CONTROL_CUT, 9, 0),
        (_producers.CONTROL_ODD, 9, 10),
        (_producers.ABORT, 9, 10),
    ]


def test_more_producers_than_there_is_room_for_at_first(tmp_path: Path) -> None:
    count = 3000
    found = of(
        tmp_path,
        *(
            batch(at, [record()], producer_id=at << 33, producer_epoch=0, base_sequence=0)
            for at in range(count)
        ),
        *(
            batch(count + at, [record()], producer_id=at << 33, producer_epoch=0, base_sequence=1)
            for at in range(count)
        ),
    )
    assert found.break_count == 0
    assert [row[0] for row in runs(found)] == [at << 33 for at in range(count)]
    assert {row[7] for row in runs(found)} == {1}


def test_what_there_is_of_it_grows_with_producers_alone(tmp_path: Path) -> None:
    sound = [data(5 * at, 7, 5 * at, transactional=False) for at in range(4000)]
    found = of(tmp_path, *sound)
    assert len(pickle.dumps(found)) < 1000
    assert pickle.loads(pickle.dumps(found)) == found
