"""The last record of each key: as a dictionary would hold it, and the same on both builds."""

from __future__ import annotations

import struct
from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kdump.coordinators.latest import LastRecord, LatestRecords
from kdump.errors import DecodeError
from kdump.format.kernel import compacted as _compacted
from kdump.format.kernel import records as _records
from kdump.format.messages.payloads import decoder_of
from kdump.format.messages.reader import UNKNOWN_TAGS
from support.forge import Record, record, uvarint
from support.kernel_builds import RECORD_WIDTH, columns, load_plain

LATEST: Any = load_plain("kdump.format.kernel.compacted")

keys = st.none() | st.binary(max_size=3) | st.binary(min_size=40, max_size=42)
values = st.none() | st.binary(max_size=20) | st.binary(min_size=2000, max_size=2100)
runs = st.lists(
    st.lists(st.builds(record, values, keys, offset_delta=st.integers(0, 50)), max_size=20),
    max_size=4,
)


def rows_and_block(records: list[Record]) -> tuple[memoryview, memoryview]:
    block = b"".join(each.encode(index, 0) for index, each in enumerate(records))
    rows = columns(RECORD_WIDTH * len(records))
    _records.read_records(block, 0, len(records), 0, 0, False, 0, -1, rows)
    return memoryview(rows), memoryview(block)


def expected(batches: list[list[Record]]) -> list[LastRecord]:
    latest: dict[bytes, LastRecord] = {}
    for each in (each for batch in batches for each in batch):
        offset = each.offset_delta or 0
        if each.key is not None and (each.key not in latest or offset > latest[each.key].offset):
            latest[each.key] = LastRecord(each.key, each.value, offset)
    return list(latest.values())


@given(runs)
def test_the_highest_offset_of_each_key_stays(batches: list[list[Record]]) -> None:
    table = LatestRecords()
    for batch in batches:
        table.add(*rows_and_block(batch))
    assert list(table) == expected(batches)
    assert len(table) == len(list(table))


@given(runs, runs)
def test_a_table_is_added_to_another(first: list[list[Record]], second: list[list[Record]]) -> None:
    tables = []
    for batches in (first, second):
        table = LatestRecords()
        for batch in batches:
            table.add(*rows_and_block(batch))
        tables.append(table)
    tables[0].merge(tables[1])
    assert sorted(tables[0]) == sorted(expected([*first, *second]))


@given(runs, st.integers(1, 8), st.integers(0, 300))
def test_both_builds_fill_the_same(batches: list[list[Record]], room: int, bytes_: int) -> None:
    def filled(module: Any) -> list[object]:
        entries = array("q", bytes(8 * room * len(module.ENTRY_FIELDS)))
        slots, arena = array("q", bytes(8 * 16)), bytearray(bytes_)
        state = array("q", bytes(8 * len(module.STATE_FIELDS)))
        found: list[object] = []
        for batch in batches:
            rows, block = rows_and_block(batch)
            found.append(module.keep_latest(rows, 0, block, entries, slots, arena, state))
        rebuilt, records = array("q", bytes(8 * 16)), columns(room * RECORD_WIDTH)
        module.fill_slots(entries, state[module.S_ENTRIES], rebuilt)
        module.entry_rows(entries, state[module.S_ENTRIES], records)
        return [*found, *map(list, (entries, slots, arena, state, rebuilt, records))]

    assert filled(_compacted) == filled(LATEST)


text = st.text(max_size=4).map(lambda value: value.encode()) | st.binary(max_size=140)
number = st.binary(min_size=8, max_size=8)


@st.composite
def commits(draw: st.DrawFn) -> Record:
    """A commit of any version that is as it should be, or has some bytes changed."""
    version = draw(st.integers(-1, 5))
    group, topic, metadata = draw(text), draw(text), draw(text)
    key = b"".join(
        (struct.pack(">hh", draw(st.sampled_from([1, 1, 1, 0, 2])), len(group)), group,
         struct.pack(">h", len(topic)), topic, struct.pack(">i", 7))
    )  # fmt: skip
    value = struct.pack(">hq", version, 5) + (b"\0\0\0\1" if version > 2 else b"")
    if version == 4:
        tags = draw(st.sampled_from([b"\0", b"\1\0\x10" + bytes(16), b"\1\5\1x"]))
        value += uvarint(len(metadata) + 1) + metadata + draw(number) + tags
    else:
        value += struct.pack(">h", len(metadata)) + metadata + draw(number)
        value += draw(number) if version == 1 else b""
    parts = [bytearray(key), bytearray(value)]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        part = draw(st.sampled_from(parts))
        place = draw(st.integers(0, len(part)))
        part[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return record(draw(st.sampled_from([bytes(parts[1]), bytes(parts[1]), None])), bytes(parts[0]))


@given(st.lists(commits(), max_size=6), st.integers(0, 6))
def test_commits_in_the_usual_form(records: list[Record], first: int) -> None:
    rows, block = rows_and_block(records)
    decoder = decoder_of("__consumer_offsets")
    assert decoder is not None

    def usual(each: Record) -> bool:
        try:
            key, value = decoder.decode(each.key, each.value)
        except DecodeError:
            return False
        if key is None or key.layout.name != "OffsetCommitKey":
            return False
        # Long metadata and other tags of version 4 are left to the tables.
        special = (
            value is not None
            and value.version == 4
            and (UNKNOWN_TAGS in value.fields or len(each.value or b"") > 14 + 1 + 126 + 8 + 19)
        )
        return not special

    first = min(first, len(records))
    found = _compacted.skip_commits(rows, first, block)
    assert found == LATEST.skip_commits(rows, first, block)
    assert all(map(usual, records[first:found]))
    if found < len(records) and usual(records[found]):
        value = records[found].value
        assert value is not None
        assert value[:2] == b"\0\4"
        assert value[14] > 127


def test_many_keys_and_values_that_grow() -> None:
    table = LatestRecords()
    for turn in range(5):
        for first in range(0, 30_000, 1_000):
            batch = [
                record(bytes(turn * 7 + number % 3), b"key-%d" % number)
                for number in range(first, first + 1_000)
            ]
            rows, block = rows_and_block(batch)
            for at in range(0, len(rows), RECORD_WIDTH):
                rows[at] = turn * 30_000 + first + at // RECORD_WIDTH
            table.add(rows, block)
    assert [(each.key, len(each.value or b""), each.offset) for each in table] == [
        (b"key-%d" % number, 28 + number % 3, 120_000 + number) for number in range(30_000)
    ]
