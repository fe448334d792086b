"""Producer snapshots."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.snapshot import (
    NO_PRODUCERS,
    ProducerEntry,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
)
from support import forge
from support.fixtures_loader import ROOT

IDLE = (1000, 3, 41, 99, 4, 1_700_000_000_000, -1, -1)
OPEN = (2000, 0, 2147483647, 120, 0, 1_700_000_000_500, 6, 118)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


ENTRIES = st.builds(
    ProducerEntry,
    *map(signed, (64, 16, 32, 64, 32, 64, 32, 64)),
)


def test_fields_are_where_kafka_has_them() -> None:
    assert tuple(decode_snapshot(forge.snapshot([IDLE, OPEN]))) == (
        ProducerEntry(
            producer_id=1000,
            producer_epoch=3,
            last_sequence=41,
            last_offset=99,
            offset_delta=4,
            timestamp=1_700_000_000_000,
            coordinator_epoch=-1,
            current_txn_first_offset=-1,
        ),
        ProducerEntry(2000, 0, 2147483647, 120, 0, 1_700_000_000_500, 6, 118),
    )


def test_encode_writes_what_the_forge_writes() -> None:
    data = forge.snapshot([IDLE, OPEN])
    assert encode_snapshot(decode_snapshot(data)) == data
    assert len(data) == 10 + 2 * 46


def test_an_empty_snapshot_has_ten_bytes() -> None:
    assert encode_snapshot(()) == forge.snapshot()
    assert decode_snapshot(forge.snapshot()) == NO_PRODUCERS
    assert len(NO_PRODUCERS) == 0


@given(st.lists(ENTRIES, max_size=20))
def test_round_trip(entries: list[ProducerEntry]) -> None:
    data = encode_snapshot(entries)
    found = decode_snapshot(data)
    assert found == decode_snapshot(memoryview(data))
    assert (list(found), len(found)) == (entries, len(entries))
    begun = [entry.current_txn_first_offset for entry in entries]
    assert found.open_transactions() == [offset for offset in begun if offset >= 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected 10 bytes or more, found 0"),
        (forge.snapshot([IDLE])[:9], "expected 10 bytes or more, found 9"),
        (forge.snapshot([IDLE], version=2), "expected version 1, found 2"),
        (forge.snapshot([IDLE], crc=5), "expected checksum 5, found"),
        (forge.snapshot([IDLE]) + b"stale", "expected checksum"),
        (forge.snapshot([IDLE], count=2), "expected 102 bytes for 2 entries, found 56"),
        (forge.snapshot([IDLE], count=-1), "for -1 entries, found 56"),
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_snapshot(data)


def test_every_flipped_bit_is_noticed() -> None:
    data = forge.snapshot([IDLE])
    for position in range(len(data)):
        with pytest.raises(DecodeError):
            decode_snapshot(forge.flip(data, position, 0x10))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_decode_error(body: bytes) -> None:
    for data in (body, struct.pack(">hI", 1, crc32c(body)) + body):
        try:
            assert encode_snapshot(decode_snapshot(data)) == data
        except DecodeError as error:
            assert "producer snapshot: expected" in str(error)


def test_what_brokers_wrote() -> None:
    paths = sorted(ROOT.rglob("*.snapshot"))
    entries = 0
    for path in paths:
        data = path.read_bytes()
        found = decode_snapshot(data)
        assert encode_snapshot(found) == data, path
        assert all(entry.producer_id >= 0 for entry in found), path
        entries += len(found)
    assert entries > 50


@pytest.mark.parametrize(
    ("count", "there"), [(2, 2), (1, 1), (3, 2), (0, 0), (-1, 0), (2**31 - 1, 2)]
)
def test_what_is_there_is_read_for_showing(count: int, there: int) -> None:
    data = forge.snapshot([IDLE, OPEN], crc=7, count=count) + b"tail"
    body = 10 + 46 * there
    assert read_snapshot(data) == Snapshot(
        stored_crc=7,
        computed_crc=crc32c(data[6:]),
        count=count,
        entries=tuple(ProducerEntry(*entry) for entry in (IDLE, OPEN)[:there]),
        rest=data[body:],
    )


@pytest.mark.parametrize("data", [b"", forge.snapshot()[:9], forge.snapshot(version=0)])
def test_without_a_header_nothing_is_read(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_snapshot(data)
