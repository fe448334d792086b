"""Indexes beside their log: what each kind of writer leaves fits, and faults are what they say."""

from __future__ import annotations

import pickle
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.audit.checks.indexes import (
    check_indexes,
    check_last_timestamp,
    check_offset_entries,
    check_time_entries,
)
from kdump.audit.findings import Finding
from kdump.audit.survey.index_promises import LISTED, BrokenPromise, EntryFault, IndexFacts
from kdump.audit.survey.survey import Survey, survey
from kdump.storage.logdir import Segment, open_path
from kdump.storage.paths import as_local
from support import forge
from support.damaged import name
from support.forge import TIMESTAMP, batch, message, record, wrapper
from support.pipeline import of_survey

BASE = 1000

Entries = list[tuple[int, int]]


@dataclass(frozen=True)
class Piece:
    """A batch as a writer of indexes knows it: ``record`` is the offset of its last record."""

    data: bytes
    first: int
    record: int
    last: int
    timestamp: int


@dataclass
class Writer:
    """Writes indexes as ``LogSegment.append`` does: a call takes a chunk of batches."""

    interval: int
    indexed: Callable[[Sequence[Piece]], int] = lambda chunk: chunk[-1].last
    timed: Callable[[Piece], int] = lambda piece: piece.last
    offsets: Entries = field(default_factory=list)
    times: Entries = field(default_factory=list)
    largest: tuple[int, int] = (-1, BASE)
    position: int = 0
    since: int = 0

    def append(self, chunk: Sequence[Piece]) -> None:
        for piece in chunk:
            if piece.timestamp > self.largest[0]:
                self.largest = piece.timestamp, self.timed(piece)
        if self.since > self.interval:
            self.offsets.append((self.indexed(chunk), self.position))
            self.append_time()
            self.since = 0
        size = sum(len(piece.data) for piece in chunk)
        self.position += size
        self.since += size

    def append_time(self) -> None:
        """As at each roll and each clean stop, and beside each entry of the other index."""
        if self.largest[0] > max((stamp for stamp, _ in self.times), default=-1):
            self.times.append(self.largest)

    def restart(self) -> None:
        self.append_time()
        self.since = 0


def newer(rng: random.Random, *, cleaned: bool = False) -> list[Piece]:
    """Batches of magic 2, as producers send them or as a cleaner leaves them."""
    pieces, offset = [], BASE
    for _ in range(rng.randrange(1, 60)):
        count = rng.randrange(1, 5)
        stamp = rng.choice((-1, TIMESTAMP, TIMESTAMP + rng.randrange(9000)))
        retained = rng.randrange(count) if cleaned else count - 1
        records = [record(bytes(rng.randrange(90)), offset_delta=retained)]
        if cleaned and rng.random() < 0.2:
            records, retained = [], count - 1
        if cleaned:
            offset += rng.choice((0, 0, 7))
        data = batch(
            offset,
            records,
            base_timestamp=stamp,
            max_timestamp=stamp,
            timestamp_type=rng.choice(("CreateTime", "LogAppendTime")),
            last_offset_delta=count - 1,
        )
        pieces.append(Piece(data, offset, offset + retained, offset + count - 1, stamp))
        offset += count
    return pieces


def older(rng: random.Random) -> list[Piece]:
    """Messages of magic 1, some of them in wrappers."""
    pieces, offset = [], BASE
    for _ in range(rng.randrange(1, 60)):
        count, stamp = rng.choice((1, 1, 4)), TIMESTAMP + rng.randrange(9000)
        last = offset + count - 1
        data = message(last, bytes(rng.randrange(90)), timestamp=stamp)
        if count > 1:
            inner = [message(delta, b"v", timestamp=stamp) for delta in range(count)]
            data = wrapper(last, inner, codec="gzip", timestamp=stamp)
        pieces.append(Piece(data, offset, last, last, stamp))
        offset = last + 1
    return pieces


def per_batch(rng: random.Random) -> tuple[list[Piece], Writer]:
    pieces, writer = newer(rng), Writer(rng.choice((0, 100, 300)))
    for piece in pieces:
        writer.append([piece])
        if rng.random() < 0.05:
            writer.restart()
    return pieces, writer


def chunks(rng: random.Random, pieces: Sequence[Piece], writer: Writer) -> None:
    left = list(pieces)
    while left:
        size = rng.randrange(1, 5)
        writer.append(left[:size])
        left = left[size:]
        if rng.random() < 0.05:
            writer.restart()


def per_group(rng: random.Random) -> tuple[list[Piece], Writer]:
    pieces, writer = newer(rng), Writer(rng.choice((0, 100, 300)))
    chunks(rng, pieces, writer)
    return pieces, writer


def first_offsets(rng: random.Random) -> tuple[list[Piece], Writer]:
    pieces = rng.choice((newer, older))(rng)
    writer = Writer(
        rng.choice((0, 100, 300)),
        indexed=lambda chunk: chunk[0].first,
        timed=lambda piece: rng.randint(piece.first, piece.record),
    )
    chunks(rng, pieces, writer)
    return pieces, writer


def cleaner(rng: random.Random) -> tuple[list[Piece], Writer]:
    pieces = newer(rng, cleaned=True)
    writer = Writer(rng.choice((0, 100, 300)), indexed=lambda chunk: chunk[-1].record)
    chunks(rng, pieces, writer)
    return pieces, writer


def recovery(rng: random.Random) -> tuple[list[Piece], Writer]:
    pieces, writer = newer(rng, cleaned=rng.random() < 0.5), Writer(rng.choice((0, 100, 300)))
    data = [piece.data for piece in pieces]
    writer.offsets, writer.times = forge.index_entries(data, BASE, writer.interval)
    return pieces, writer


def write(
    directory: Path, pieces: Sequence[bytes], offsets: Entries | bytes, times: Entries | bytes
) -> Segment:
    directory.mkdir(exist_ok=True)
    if isinstance(offsets, list):
        offsets = forge.offset_index(offsets, BASE)
    if isinstance(times, list):
        times = forge.time_index(times, BASE)
    for extension, data in (
        (".log", b"".join(pieces)),
        (".index", offsets),
        (".timeindex", times),
    ):
        (directory / name(BASE, extension)).write_bytes(data)
    segment = open_path(directory / name(BASE, ".log"))
    assert isinstance(segment, Segment)
    return segment


def of(segment: Segment, *, sealed: bool = True) -> Survey:
    return survey(segment, lambda _: None, mapped=False, sealed=sealed, deep=False)


def findings(found: Survey, *, sealed: bool) -> list[Finding]:
    given = of_survey(found, sealed=sealed)
    return [
        *check_indexes(given),
        *check_offset_entries(given),
        *check_time_entries(given),
        *check_last_timestamp(given),
    ]


def facts(found: Survey) -> tuple[IndexFacts, IndexFacts]:
    assert found.index is not None
    assert found.time_index is not None
    return found.index, found.time_index


@pytest.mark.parametrize("flavour", [per_batch, per_group, first_offsets, cleaner, recovery])
@pytest.mark.parametrize("sealed", [True, False])
def test_what_brokers_write_breaks_no_promise(
    flavour: Callable[[random.Random], tuple[list[Piece], Writer]], sealed: bool, tmp_path: Path
) -> None:
    entries = 0
    for seed in range(60):
        pieces, writer = flavour(random.Random(seed))
        writer.append_time()
        segment = write(tmp_path, [p.data for p in pieces], writer.offsets, writer.times)
        found = of(segment, sealed=sealed)
        assert findings(found, sealed=sealed) == [], seed
        assert [index.counts for index in facts(found)] == [{}, {}], seed
        entries += len(writer.offsets)
    assert entries > 200


def test_an_active_index_of_any_writer_may_have_room(tmp_path: Path) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        pieces, writer = per_group(rng)
        stale = [(BASE + rng.randrange(5000), rng.randrange(1 << 20)) for _ in range(9)]
        offsets = forge.offset_index([*writer.offsets, *stale], BASE, slots=512)
        times = forge.time_index([*writer.times, (1, BASE), *stale], BASE, slots=341)
        found = of(write(tmp_path, [p.data for p in pieces], offsets, times), sealed=False)
        assert findings(found, sealed=False) == []
        assert all(index.room for index in facts(found))


# --- a fault is what it says: lookups as a broker does them, beside a scan of the whole log

RECORDS = [batch(BASE + n, [record(bytes(n))], base_timestamp=TIMESTAMP + n) for n in range(12)]
STARTS = [sum(map(len, RECORDS[:number])) for number in range(12)]
STARTS_AND_MORE = [*STARTS, sum(map(len, RECORDS)), 33, 10**6]


def search(offset: int, position: int) -> int | None:
    """``FileRecords.searchForOffsetFromPosition``: the first batch from there that reaches it."""
    later = (n for n, start in enumerate(STARTS) if start >= position and offset <= BASE + n)
    return next(later, None)


def by_index(entries: Entries, offset: int) -> int | None:
    number = bisect_right([first for first, _ in entries], offset)
    return search(offset, entries[number - 1][1] if number else 0)


entry_lists = st.lists(
    st.tuples(st.integers(BASE, BASE + 11), st.sampled_from(STARTS_AND_MORE)), max_size=5
).map(lambda drawn: rising(drawn))


def rising(drawn: Entries) -> Entries:
    """The longest start of ``drawn``, sorted by offset, that rises in both numbers."""
    retained: Entries = []
    for entry in sorted(drawn):
        if not retained or (entry[0] > retained[-1][0] and entry[1] > retained[-1][1]):
            retained.append(entry)
    return retained


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(entry_lists)
def test_lookups_skip_just_where_an_entry_is_at_fault(tmp_path: Path, entries: Entries) -> None:
    index, _ = facts(of(write(tmp_path, RECORDS, entries, b"")))
    if not index.faults:
        for offset in range(BASE, BASE + 12):
            assert by_index(entries, offset) == search(offset, 0)
    for fault in index.faults:
        offset, position = fault.entry
        assert fault.entry == entries[fault.number]
        if fault.kind is BrokenPromise.MISPLACED:
            assert position not in STARTS
        else:
            assert by_index(entries, offset) != search(offset, 0)


def by_time(entries: Entries, stamps: Sequence[int], timestamp: int) -> int | None:
    """``LogSegment.findOffsetByTimestamp``, where the ``.index`` has every batch."""
    number = bisect_right([stamp for stamp, _ in entries], timestamp)
    start = entries[number - 1][1] - BASE if number else 0
    return next((n for n in range(start, len(stamps)) if stamps[n] >= timestamp), None)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.permutations(range(1, 11)),
    st.lists(st.tuples(st.integers(0, 12), st.integers(BASE, BASE + 9)), max_size=5),
)
def test_lookups_by_time_skip_just_where_an_entry_is_at_fault(
    tmp_path: Path, stamps: list[int], drawn: Entries
) -> None:
    entries = rising(drawn)
    pieces = [batch(BASE + n, [record()], base_timestamp=stamp) for n, stamp in enumerate(stamps)]
    _, times = facts(of(write(tmp_path, pieces, b"", entries)))
    skipping = [fault for fault in times.faults if fault.kind is BrokenPromise.SKIPS]
    for stamp, _ in (fault.entry for fault in skipping):
        assert by_time(entries, stamps, stamp) != by_time([], stamps, stamp)
    equals = any(stamp in stamps[: offset - BASE] for stamp, offset in entries)
    if not skipping and not equals:
        for stamp in range(13):
            assert by_time(entries, stamps, stamp) == by_time([], stamps, stamp)


def test_a_timestamp_that_no_batch_has_up_to_there(tmp_path: Path) -> None:
    entries = [(TIMESTAMP + 5, BASE + 4), (TIMESTAMP + 7, BASE + 8)]
    _, times = facts(of(write(tmp_path, RECORDS, b"", entries)))
    assert times.faults == (
        EntryFault(BrokenPromise.UNMATCHED, 0, (TIMESTAMP + 5, BASE + 4), TIMESTAMP + 4),
    )


# --- how faults are kept


def test_faults_are_counted_beyond_what_is_listed(tmp_path: Path) -> None:
    entries = [(BASE + number, 1 + number) for number in range(50)]
    index, _ = facts(of(write(tmp_path, [batch(BASE, [record(bytes(90))])], entries, b"")))
    assert index.counts == {BrokenPromise.MISPLACED: 50}
    assert [fault.number for fault in index.faults] == list(range(LISTED))
    assert {fault.reference for fault in index.faults} == {0}


def test_entries_beyond_the_log_are_counted_beyond_what_is_listed(tmp_path: Path) -> None:
    entries = [(BASE + number, 7000 + number) for number in range(1, 40)]
    index, _ = facts(of(write(tmp_path, RECORDS, entries, b"")))
    assert index.counts == {BrokenPromise.BEYOND: 39}
    assert [fault.reference for fault in index.faults] == [sum(map(len, RECORDS))] * LISTED


def test_a_skipping_entry_names_the_last_offset_before_it(tmp_path: Path) -> None:
    index, _ = facts(of(write(tmp_path, RECORDS, [(BASE + 2, STARTS[6])], b"")))
    assert index.faults == (EntryFault(BrokenPromise.SKIPS, 0, (BASE + 2, STARTS[6]), BASE + 5),)
    assert index.last == (BASE + 2, STARTS[6])


def test_the_two_entries_that_break_the_order_are_not_checked(tmp_path: Path) -> None:
    entries = [(BASE + 1, 3), (BASE + 2, 1 << 20), (BASE + 3, 5)]
    index, _ = facts(of(write(tmp_path, RECORDS, entries, b"")))
    assert index.disorder == 1
    assert index.counts == {BrokenPromise.MISPLACED: 1}


def test_entries_in_damage_are_not_checked(tmp_path: Path) -> None:
    pieces = [*RECORDS[:4], forge.flip(RECORDS[4], -1), *RECORDS[5:]]
    entries = [(BASE + 4, STARTS[4]), (BASE + 5, STARTS[4] + 9), (BASE + 7, STARTS[7])]
    times = [(TIMESTAMP + 4, BASE + 4), (TIMESTAMP + 99, BASE + 5)]
    found = of(write(tmp_path, pieces, entries, times))
    assert [index.counts for index in facts(found)] == [{}, {}]


def test_batches_found_by_hunting_are_not_checked(tmp_path: Path) -> None:
    lost = batch(BASE + 4, [record(RECORDS[5])], length=1 << 20)
    pieces = [*RECORDS[:4], lost, *RECORDS[6:]]
    start = len(b"".join(pieces[:5]))
    found = of(write(tmp_path, pieces, [(BASE + 1, start), (BASE + 9, start + 7)], b""))
    assert found.magics == (2, 2)
    assert found.record_timestamp == TIMESTAMP + 3 < found.max_timestamp
    assert facts(found)[0].counts == {}


def test_a_log_that_was_not_read_has_no_entries_beyond(tmp_path: Path) -> None:
    segment = write(tmp_path, RECORDS, [(BASE + 9, 5000)], b"")
    as_local(segment.log).unlink()
    found = of(segment)
    assert (facts(found)[0].counts, found.magics) == ({}, None)


def test_magics_and_the_latest_time_of_records(tmp_path: Path) -> None:
    pieces = [
        message(BASE, magic=0),
        *RECORDS[1:3],
        batch(BASE + 5, max_timestamp=TIMESTAMP + 99),
        batch(BASE + 6, [record()], magic=3),
    ]
    found = of(write(tmp_path, pieces, b"", b""))
    assert found.magics == (0, 3)
    assert (found.record_timestamp, found.max_timestamp) == (TIMESTAMP + 2, TIMESTAMP + 99)


def test_its_size_does_not_grow_with_the_index(tmp_path: Path) -> None:
    def size(count: int) -> int:
        entries = [(BASE + number, 1 + number) for number in range(count)]
        return len(pickle.dumps(of(write(tmp_path, RECORDS, entries, b""))))

    assert size(8000) < size(2000) + 50


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=99), st.binary(max_size=99), st.integers(0, 900), st.booleans())
def test_no_bytes_make_it_raise(
    tmp_path: Path, offsets: bytes, times: bytes, cut: int, sealed: bool
) -> None:
    log = b"".join(RECORDS)[:cut]
    found = of(write(tmp_path, [log], offsets, times), sealed=sealed)
    findings(found, sealed=sealed)
    assert pickle.loads(pickle.dumps(found)) == found
