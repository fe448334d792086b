"""Offset checkpoints and leader epochs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.checkpoint import (
    CheckpointNumberError,
    EpochEntry,
    MalformedCheckpointError,
    OffsetEntry,
    decode_epochs,
    decode_offsets,
    encode_epochs,
    encode_offsets,
)
from support import forge
from support.fixtures_loader import ROOT

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=30)
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)


def test_offset_checkpoint_fields() -> None:
    data = forge.checkpoint([("orders", 0, 1234), ("a.b_c-d", 17, 0)])
    assert data == b"0\n2\norders 0 1234\na.b_c-d 17 0\n"
    entries = decode_offsets(data)
    assert entries == (OffsetEntry("orders", 0, 1234), OffsetEntry("a.b_c-d", 17, 0))
    assert encode_offsets(entries) == data


def test_leader_epoch_fields() -> None:
    data = forge.checkpoint([(0, 0), (3, 500)])
    entries = decode_epochs(data)
    assert entries == (EpochEntry(epoch=0, start_offset=0), EpochEntry(3, 500))
    assert encode_epochs(entries) == data


@given(st.lists(st.builds(OffsetEntry, TOPICS, INTS, LONGS), max_size=20))
def test_offsets_round_trip(entries: list[OffsetEntry]) -> None:
    assert decode_offsets(encode_offsets(entries)) == tuple(entries)


@given(st.lists(st.builds(EpochEntry, INTS, LONGS), max_size=20))
def test_epochs_round_trip(entries: list[EpochEntry]) -> None:
    assert decode_epochs(encode_epochs(entries)) == tuple(entries)


def test_duplicates_stay_in_order() -> None:
    data = forge.checkpoint([("t", 0, 1), ("t", 0, 2)])
    assert [entry.offset for entry in decode_offsets(data)] == [1, 2]


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\n0", b"0\n0\n", b"+0\r\n00\r\n"])
def test_files_without_entries(data: bytes) -> None:
    assert decode_offsets(data) == ()
    assert decode_epochs(data) == ()


@pytest.mark.parametrize(
    "line",
    [b"t 0 5", b"t\t0  5", b"t 0 5  \t", b"t 0 5\r", b"t +0 005", b"t 0 \xd9\xa5"],
)
def test_lines_that_java_takes_as_well(line: bytes) -> None:
    assert decode_offsets(b"0\n1\n" + line) == (OffsetEntry("t", 0, 5),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n0\n", "line 1: expected version 0, found 1"),
        (b"x\n0\n", "line 1: expected a number of 32 bits, found 'x'"),
        (b"0 \n0\n", "line 1: expected a number"),
        (b"\n", "line 1: expected a number of 32 bits, found ''"),
        (b"0\nx\n", "line 2: expected a number"),
        (b"0\n4294967296\n", "line 2: expected a number of 32 bits, found '4294967296'"),
        (b"0\n2\nt 0 5\n", "line 2: expected 2 entries, found 1"),
        (b"0\n0\nt 0 5\n", "line 2: expected 0 entries, found 1"),
        (b"0\n1\nt 0\n", "line 3: expected 3 fields, found 2"),
        (b"0\n1\nt 0 5 6\n", "line 3: expected 3 fields, found 4"),
        (b"0\n1\n t 0 5\n", "line 3: expected 3 fields, found 4"),
        (b"0\n1\nt 0 5\n\n", "line 4: expected 3 fields, found 1"),
        (b"0\n1\nt\xff 0 5\n", "expected UTF-8, found byte 0xff at 5"),
        (bytes(64), "line 1: expected a number"),
    ],
)
def test_a_wrong_shape_is_malformed(data: bytes, message: str) -> None:
    with pytest.raises(MalformedCheckpointError, match=message):
        decode_offsets(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"0\n1\nt x 5\n", "line 3: expected a number of 32 bits, found 'x'"),
        (b"0\n1\nt 0 5x\n", "line 3: expected a number of 64 bits, found '5x'"),
        (b"0\n1\nt 2147483648 5\n", "line 3: expected a number of 32 bits"),
        (b"0\n1\nt 0 9223372036854775808\n", "line 3: expected a number of 64 bits"),
        (b"0\n1\nt 0 1_0\n", "found '1_0'"),
        (b"0\n1\nt 0 " + b"9" * 9000, "line 3: expected a number of 64 bits"),
        (b"0\n-1\n", "line 2: expected a count, found -1"),
    ],
)
def test_a_wrong_number_is_told_apart(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointNumberError, match=message):
        decode_offsets(data)


def test_a_wrong_number_comes_before_a_later_wrong_shape() -> None:
    with pytest.raises(CheckpointNumberError, match="line 3"):
        decode_offsets(b"0\n2\nt x 5\nbroken\n")


@given(
    st.binary(max_size=100)
    | st.text("012 t\n\r-x", max_size=60).map(str.encode)
    | st.text("012 t\n\r-x", max_size=60).map(lambda text: b"0\n1\n" + text.encode())
)
def test_any_bytes_give_a_value_or_decode_error(data: bytes) -> None:
    for decode in (decode_offsets, decode_epochs):
        try:
            assert isinstance(decode(data), tuple)
        except DecodeError as error:
            assert isinstance(error, MalformedCheckpointError | CheckpointNumberError)
            assert str(error).startswith("checkpoint")


def test_what_brokers_wrote() -> None:
    epochs = sorted(ROOT.rglob("leader-epoch-checkpoint"))
    offsets = sorted(ROOT.rglob("*-offset-checkpoint"))
    assert epochs
    assert offsets
    for path in epochs:
        data = path.read_bytes()
        # Releases of 0.11 and 1.1 leave it empty where messages are older than epochs.
        assert encode_epochs(decode_epochs(data)) == (data or b"0\n0\n"), path
    for path in offsets:
        data = path.read_bytes()
        # A broker creates it empty, and writes lines once there is a first offset.
        assert encode_offsets(decode_offsets(data)) == (data or b"0\n0\n"), path
