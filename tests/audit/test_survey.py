"""survey(): the sums of one pass, what it lists, and that nothing in a file makes it raise."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.surveys import of, write
from kdump.audit.survey.anomalies import FaultKind
from kdump.audit.survey.survey import LISTED, survey
from kdump.format.records import RecordReader
from kdump.storage.logdir import Segment, open_path, read_partition
from kdump.storage.walk import Reason
from support import forge
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.forge import TIMESTAMP, batch, flip, marker, record

BOTH = pytest.mark.parametrize("mapped", [True, False])


@BOTH
def test_the_sums_of_a_sound_segment(tmp_path: Path, mapped: bool) -> None:
    sound = [*batches(0, 5), marker(50, 7, commit=True), *batches(60, 2)]
    found = of(write(tmp_path, *sound), mapped=mapped)
    assert (found.batches, found.control_batches, found.wrappers) == (8, 1, 0)
    assert found.records == 71
    assert found.size == found.read_bytes == found.sound_bytes == sum(map(len, sound))
    assert (found.first_offset, found.last_offset) == (0, 79)
    assert found.last_position == found.size - len(sound[-1])
    assert found.max_timestamp == TIMESTAMP + 61_000
    assert found.counts == Counter({FaultKind.GAP: 1})  # 51..59
    assert found.complete


def test_an_empty_segment_has_no_offsets(tmp_path: Path) -> None:
    found = of(write(tmp_path))
    assert (found.first_offset, found.last_offset, found.last_position) == (None, None, None)
    assert (found.size, found.batches) == (0, 0)


def test_the_records_of_wrappers_are_counted_where_they_are_read(tmp_path: Path) -> None:
    inner = [forge.message(offset) for offset in range(5)]
    log = write(tmp_path, forge.message(0), forge.wrapper(5, inner, codec="gzip"))
    found = of(log)
    assert (found.batches, found.records, found.wrappers) == (2, 1, 1)
    found = of(log, deep=True)
    assert (found.batches, found.records, found.wrappers) == (2, 6, 0)
    assert found.faults == ()


def test_a_wrapper_that_reaches_back_is_a_fault(tmp_path: Path) -> None:
    """Its own offset is that of the last message inside: only reading shows the first."""
    inner = [forge.message(offset) for offset in range(5)]
    log = write(tmp_path, forge.message(2), forge.wrapper(5, inner, codec="gzip"))
    assert of(log).faults == ()
    (fault,) = of(log, deep=True).faults
    assert (fault.kind, fault.batch.base_offset, fault.reference) == (FaultKind.BACKWARDS, 1, 2)


def test_a_gap_knows_its_neighbours(tmp_path: Path) -> None:
    sound = batches(0)
    found = of(write(tmp_path, *sound[:3], flip(sound[3], -1), *sound[4:9], sound[9][:-1]))
    middle, tail = found.gaps
    assert (middle.damage.reason, middle.offset_before, middle.offset_after) == (
        Reason.BAD_CHECKSUM,
        29,
        40,
    )
    assert (tail.damage.reason, tail.offset_before, tail.offset_after) == (
        Reason.TORN_TAIL,
        89,
        None,
    )
    assert found.sound_bytes + sum(gap.damage.size for gap in found.gaps) == found.size


def test_faults_are_counted_beyond_what_is_listed(tmp_path: Path) -> None:
    found = of(write(tmp_path, *[batch(5, [record()])] * 50))
    assert found.counts == {FaultKind.BACKWARDS: 49}
    assert [fault.reference for fault in found.faults] == [5] * LISTED


def test_a_fault_shows_its_batch(tmp_path: Path) -> None:
    sound = batches(0, 2)
    found = of(write(tmp_path, *sound, batch(20, [record()], last_offset_delta=-4)))
    (fault,) = found.faults
    assert fault.kind is FaultKind.INVERTED
    assert (fault.batch.base_offset, fault.batch.last_offset) == (20, 16)
    assert fault.batch.position == sum(map(len, sound))


def test_its_size_does_not_grow_with_the_segment(tmp_path: Path) -> None:
    twice = [batch(5, [record()])] * 200
    small = len(pickle.dumps(of(write(tmp_path / "small", *twice[:50]))))
    large = len(pickle.dumps(of(write(tmp_path / "large", *twice * 20))))
    assert large < small + 200


def test_it_survives_a_pipe(tmp_path: Path) -> None:
    found = of(write(tmp_path, *batches(0), b"rest of something"), deep=True)
    assert pickle.loads(pickle.dumps(found)) == found


@BOTH
@pytest.mark.parametrize("deep", [True, False])
def test_every_byte_is_reported_once(tmp_path: Path, mapped: bool, deep: bool) -> None:
    big = [batch(offset, [record(bytes(1 << 20))]) for offset in range(40)]
    log = write(tmp_path, *big)
    segment = open_path(log)
    assert isinstance(segment, Segment)
    reports: list[int] = []
    survey(segment, reports.append, mapped=mapped, sealed=True, deep=deep)
    assert sum(reports) == log.stat().st_size
    assert len(reports) <= 6
    assert all(reports)


def test_a_missing_log_is_reported_and_its_indexes_are_read(tmp_path: Path) -> None:
    log = write(tmp_path, *batches(0))
    segment = open_path(log)
    assert isinstance(segment, Segment)
    log.unlink()
    found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
    (unread,) = found.unread
    assert (unread.path, unread.vanished) == (log, True)
    assert not found.complete
    assert found.index is not None


@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_an_index_that_cannot_be_read_is_reported(tmp_path: Path, extension: str) -> None:
    log = write(tmp_path, *batches(0))
    segment = open_path(log)
    assert isinstance(segment, Segment)
    index = log.with_suffix(extension)
    index.unlink()
    os.mkfifo(index)
    found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
    (unread,) = found.unread
    assert (unread.path, unread.vanished) == (index, False)
    assert found.complete
    assert found.batches == 10


def test_an_index_of_the_last_segment_is_hardly_read(tmp_path: Path) -> None:
    """It is mostly a hole, and there are thousands of them."""
    log = write(tmp_path, *batches(0))
    with log.with_suffix(".index").open("r+b") as index:
        index.truncate(10 << 30)  # reading it whole would end the test
    found = of(log, sealed=False)
    assert found.index is not None
    assert (found.index.size, found.index.padding, found.index.disorder) == (10 << 30, 0, 0)


def test_every_violation_of_a_sealed_index_is_counted(tmp_path: Path) -> None:
    directory = Recipe("topic", [], batches(FIRST), batches(LAST)).write(tmp_path)
    log = directory / name(FIRST, ".log")
    log.with_suffix(".index").write_bytes(forge.offset_index([(3, 70), (3, 80), (5, 80), (6, 90)]))
    index = of(log).index
    assert index is not None
    assert index.disorder == 2
    assert index.first_disorder == (1, (3, 70), (3, 80))


def test_a_large_batch_is_not_read_whole(tmp_path: Path) -> None:
    found = of(write(tmp_path, batch(0, [record(bytes(65 << 20))])), deep=True)
    assert found.counts == {FaultKind.LIMIT: 1}
    assert found.batches == 1


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_bytes_make_it_raise(tmp_path: Path, data: st.DataObject) -> None:
    log = bytearray(b"".join(batches(0, 4)) + bytes(80))
    for position in data.draw(st.lists(st.integers(0, len(log) - 1), max_size=6)):
        log[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(log)))
    index = data.draw(st.binary(max_size=60))
    directory = tmp_path / "topic-0"
    directory.mkdir(exist_ok=True)
    for extension, content in (
        (".log", bytes(log[:cut])),
        (".index", index),
        (".timeindex", index),
    ):
        (directory / name(0, extension)).write_bytes(content)
    (segment,) = read_partition(directory).segments
    found = survey(segment, lambda _: None, mapped=False, sealed=True, deep=True)
    assert found.read_bytes == found.size == cut
    assert found.sound_bytes + sum(gap.damage.size for gap in found.gaps) == cut


small = st.integers(-1, 3)
odd_batches = st.builds(
    lambda base, deltas, times, codec, log_append, fields, block: batch(
        base,
        [
            record(b"v", offset_delta=delta, timestamp_delta=time)
            for delta, time in zip(deltas, times, strict=False)
        ],
        codec=codec,
        base_timestamp=0,
        timestamp_type="LogAppendTime" if log_append else "CreateTime",
        block=block,
        **fields,
    ),
    st.integers(0, 5) | st.sampled_from([-(2**63), 2**63 - 1]),
    st.lists(small, min_size=1, max_size=3) | st.sampled_from([[0], [0, 1], [0, 1, 2]]),
    st.lists(small, min_size=3, max_size=3),
    st.sampled_from(["none", "none", "gzip", "snappy", "lz4", "zstd"]),
    st.booleans(),
    st.fixed_dictionaries(
        {"max_timestamp": st.integers(-2, 3)},
        optional={"count": small, "last_offset_delta": small, "magic": st.sampled_from([2, 3])},
    ),
    st.none() | st.none() | st.binary(max_size=12),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(odd_batches | st.sampled_from(batches(0, 3)), min_size=1, max_size=6))
def test_reading_many_batches_at_a_time_finds_what_reading_one_by_one_does(
    tmp_path: Path, sound: list[bytes]
) -> None:
    log = tmp_path / "topic-0" / name(0, ".log")
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(b"".join(sound))
    found = of(log, deep=True)
    with patch.object(RecordReader, "skip_matching", lambda _reader, _table, first, _view: first):
        one_by_one = of(log, deep=True)
    assert found == one_by_one
    assert found.batches == len(sound)


@BOTH
def test_an_index_larger_than_any_is_not_read(tmp_path: Path, mapped: bool) -> None:
    log = write(tmp_path, *batches(FIRST))
    for extension in (".index", ".timeindex"):
        os.truncate(log.with_suffix(extension), 1 << 40)
    found = of(log, mapped=mapped)
    assert (found.index, found.time_index) == (None, None)
    assert [unread.vanished for unread in found.unread] == [False, False]
    assert all("expected an index of at most" in unread.text for unread in found.unread)
    assert found.complete
