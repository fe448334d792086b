"""Offset, time and transaction indexes."""

from __future__ import annotations

import random
import time
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.index import AbortedTxn, OffsetIndex, TimeIndex, TransactionIndex, Violations
from support import forge
from support.fixtures_loader import ROOT

BASE = 5_000_000_000
ENTRIES = [(BASE + 10, 4200), (BASE + 25, 8400), (BASE + 26, 12600)]
STAMPS = [(1000, BASE + 10), (1001, BASE + 10), (5000, BASE + 26)]
FULL_INDEX_BYTES = 10_485_760
FULL_TIME_INDEX_BYTES = 10_485_756


def test_offset_index_fields() -> None:
    index = OffsetIndex.decode(forge.offset_index(ENTRIES, BASE), BASE)
    assert list(index) == ENTRIES
    assert (len(index), index.padding, index.remainder) == (3, 0, b"")
    assert index.relative_offsets == array("i", [10, 25, 26])


def test_time_index_fields() -> None:
    index = TimeIndex.decode(forge.time_index(STAMPS, BASE), BASE)
    assert list(index) == STAMPS
    assert (len(index), index.padding, index.remainder) == (3, 0, b"")
    assert index.timestamps == array("q", [1000, 1001, 5000])


def test_of_encodes_what_the_forge_writes() -> None:
    assert OffsetIndex.of(BASE, ENTRIES).encode() == forge.offset_index(ENTRIES, BASE)
    assert TimeIndex.of(BASE, STAMPS).encode() == forge.time_index(STAMPS, BASE)


def test_zero_slots_at_the_end_are_padding() -> None:
    data = forge.offset_index(ENTRIES, BASE, slots=100) + b"\0\0\1"
    index = OffsetIndex.decode(data, BASE)
    assert (len(index), index.padding, index.remainder) == (3, 97, b"\0\0\1")
    assert index.encode() == data
    stamps = TimeIndex.decode(forge.time_index(STAMPS, BASE, slots=9), BASE)
    assert (len(stamps), stamps.padding) == (3, 6)


def test_zeros_between_entries_are_entries() -> None:
    data = (
        bytes(8) + forge.offset_index(ENTRIES, BASE) + bytes(8) + forge.offset_index(ENTRIES, BASE)
    )
    index = OffsetIndex.decode(data + bytes(16), BASE)
    assert (len(index), index.padding) == (8, 2)
    assert index[0] == index[4] == (BASE, 0)


def test_a_last_entry_that_ends_in_zero_bytes_is_whole() -> None:
    index = OffsetIndex.decode(forge.offset_index([(BASE + 256, 1 << 24)], BASE), BASE)
    assert list(index) == [(BASE + 256, 1 << 24)]


def test_an_offset_index_of_zeros_has_no_entry() -> None:
    index = OffsetIndex.decode(bytes(8), BASE)
    assert (len(index), index.padding) == (0, 1)


def test_a_time_index_of_one_zero_slot_is_the_entry_of_timestamp_0() -> None:
    index = TimeIndex.decode(bytes(12), BASE)
    assert list(index) == [(0, BASE)]
    assert index.encode() == bytes(12)
    assert TimeIndex.decode(bytes(24), BASE).padding == 2


def test_numbers_are_signed_as_in_kafka() -> None:
    index = OffsetIndex.decode(b"\xff" * 8, BASE)
    assert list(index) == [(BASE - 1, -1)]
    assert list(TimeIndex.decode(b"\xff" * 12, BASE)) == [(-1, BASE - 1)]


def test_order_violations_of_the_offset_index() -> None:
    entries = [(5, 10), (6, 10), (6, 20), (7, 15), (8, 30)]
    index = OffsetIndex.of(0, entries)
    assert index.order_violations() == Violations(3, (1, 2, 3))
    assert OffsetIndex.of(0, ENTRIES[:0]).order_violations() == Violations(0, ())


def test_order_violations_of_the_time_index() -> None:
    index = TimeIndex.of(0, [(5, 10), (6, 10), (6, 20), (7, 15), (8, 30)])
    assert index.order_violations() == Violations(2, (2, 3))


def test_only_the_first_violations_are_listed() -> None:
    index = OffsetIndex.of(0, [(1, 1)] * 50)
    assert index.order_violations() == Violations(49, tuple(range(1, 9)))


def test_stale_entries_of_an_active_index_show_as_a_violation() -> None:
    stale = forge.offset_index([(BASE + 11, 8000), (BASE + 90, 9000)], BASE)
    index = OffsetIndex.decode(forge.offset_index(ENTRIES, BASE) + stale + bytes(80), BASE)
    assert index.order_violations() == Violations(1, (3,))


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (0, (BASE, 0)),
        (BASE + 9, (BASE, 0)),
        (BASE + 10, (BASE + 10, 4200)),
        (BASE + 24, (BASE + 10, 4200)),
        (BASE + 25, (BASE + 25, 8400)),
        (2**62, (BASE + 26, 12600)),
    ],
)
def test_lookup(offset: int, found: tuple[int, int]) -> None:
    assert OffsetIndex.of(BASE, ENTRIES).lookup(offset) == found


@given(st.sets(st.integers(1, 500)), st.integers(-5, 505))
def test_lookup_equals_a_linear_scan(offsets: set[int], target: int) -> None:
    entries = [(BASE + offset, offset * 100) for offset in sorted(offsets)]
    expected = [entry for entry in entries if entry[0] <= BASE + target][-1:] or [(BASE, 0)]
    assert OffsetIndex.of(BASE, entries).lookup(BASE + target) == expected[0]
    stamps = [(offset * 7, BASE + offset) for offset in sorted(offsets)]
    wanted = [entry for entry in stamps if entry[0] <= target * 7][-1:] or [(-1, BASE)]
    assert TimeIndex.of(BASE, stamps).lookup(target * 7) == wanted[0]


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_decode_and_encode_back(data: bytes, zeros: int) -> None:
    padded = data + bytes(zeros)
    for view in (padded, memoryview(padded)):
        index = OffsetIndex.decode(view, BASE)
        stamps = TimeIndex.decode(view, BASE)
        txns = TransactionIndex.decode(view)
        assert index.encode() == stamps.encode() == txns.encode() == padded
        assert (len(index) + index.padding) * 8 + len(index.remainder) == len(padded)
        assert (len(stamps) + stamps.padding) * 12 + len(stamps.remainder) == len(padded)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_order_violations_equal_a_plain_loop(entries: list[tuple[int, int]]) -> None:
    broken = [
        number
        for number, (before, after) in enumerate(pairwise(entries), 1)
        if after[0] <= before[0] or after[1] <= before[1]
    ]
    assert OffsetIndex.of(0, entries).order_violations() == Violations(
        len(broken), tuple(broken[:8])
    )
    late = [
        number
        for number, (before, after) in enumerate(pairwise(entries), 1)
        if after[0] <= before[0] or after[1] < before[1]
    ]
    assert TimeIndex.of(0, entries).order_violations() == Violations(len(late), tuple(late[:8]))


def test_full_length_files_decode_at_once() -> None:
    data = random.Random(1).randbytes(FULL_INDEX_BYTES)
    started = time.process_time()
    index = OffsetIndex.decode(data, BASE)
    stamps = TimeIndex.decode(data[:FULL_TIME_INDEX_BYTES], BASE)
    assert (len(index), len(stamps)) == (1_310_720, 873_813)
    assert time.process_time() - started < 1  # some 0.05 s; ten times that is a loop over entries


def test_txn_index_fields() -> None:
    data = forge.txn_index([(7, 100, 120, 90), (8, 95, 130, 131)])
    index = TransactionIndex.decode(data + b"tail")
    assert index.entries == (
        AbortedTxn(
            version=0, producer_id=7, first_offset=100, last_offset=120, last_stable_offset=90
        ),
        AbortedTxn(0, 8, 95, 130, 131),
    )
    assert index.remainder == b"tail"
    assert index.encode() == data + b"tail"


def test_a_txn_entry_keeps_its_version() -> None:
    index = TransactionIndex.decode(forge.txn_index([(7, 1, 2, 3)], version=9))
    assert index.entries[0].version == 9


def test_txn_entries_go_to_the_log_that_holds_their_end() -> None:
    entries = [(7, 1, 9, 10), (8, 12, 19, 12), (7, 2, 20, 21), (9, 25, 45, 46)]
    index = TransactionIndex.decode(forge.txn_index(entries) + b"tail")
    parts = [part.encode() for part in index.split([10, 20, 30, 40])]
    assert parts == [
        forge.txn_index(entries[:2]),
        forge.txn_index(entries[2:3]),
        b"",
        forge.txn_index(entries[3:]),
    ]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_what_brokers_wrote(suffix: str) -> None:
    paths = sorted(ROOT.rglob(f"*{suffix}"))
    entries = 0
    for path in paths:
        data, base = path.read_bytes(), int(path.stem)
        if suffix == ".txnindex":
            txns = TransactionIndex.decode(data)
            assert (txns.encode(), txns.remainder) == (data, b""), path
            assert all(base <= txn.last_offset for txn in txns.entries), path
            entries += len(txns.entries)
            continue
        kind = OffsetIndex if suffix == ".index" else TimeIndex
        index = kind.decode(data, base)
        assert (index.encode(), index.remainder) == (data, b""), path
        assert index.order_violations() == Violations(0, ()), path
        entries += len(index)
    assert entries > len(paths) / 4
