"""Control records, against bytes and JSON that Kafka 4.3.1's own classes wrote."""

from __future__ import annotations

import json
import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.control import (
    ControlType,
    control_json,
    control_type_id,
    decode_control,
    encode_end_txn_marker,
)
from kdump.format.messages.reader import UNKNOWN_TAGS
from kdump.format.records import RecordReader
from support.fixtures_loader import ROOT
from support.forge import uvarint
from support.memory import batches

KAFKA_JSON = [
    (
        ControlType.LEADER_CHANGE,
        "000000000003030000000100000000030002000000030000",
        '{"version":0,"leaderId":3,"voters":[{"voterId":1},{"voterId":3}],'
        '"grantingVoters":[{"voterId":3}]}',
    ),
    (
        ControlType.LEADER_CHANGE,
        "0001000000030300000001671deb3bc5754320aacfeffb681e265f0000000003000000000000000000000000"
        "000000000002000000030102030405060708090a0b0c0d0e0f100000",
        '{"version":1,"leaderId":3,"voters":[{"voterId":1,"voterDirectoryId":'
        '"Zx3rO8V1QyCqz-_7aB4mXw"},{"voterId":3,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],'
        '"grantingVoters":[{"voterId":3,"voterDirectoryId":"AQIDBAUGBwgJCgsMDQ4PEA"}]}',
    ),
    (
        ControlType.SNAPSHOT_HEADER,
        "00000000018bcfe5687b00",
        '{"version":0,"lastContainedLogTimestamp":1700000000123}',
    ),
    (ControlType.SNAPSHOT_FOOTER, "000000", '{"version":0}'),
    (ControlType.KRAFT_VERSION, "0000000100", '{"version":0,"kRaftVersion":1}'),
    (
        ControlType.KRAFT_VOTERS,
        "00000200000001671deb3bc5754320aacfeffb681e265f020b434f4e54524f4c4c45520a3132372e302e302e"
        "31e6d50000000001000000",
        '{"version":0,"voters":[{"voterId":1,"voterDirectoryId":"Zx3rO8V1QyCqz-_7aB4mXw",'
        '"endpoints":[{"name":"CONTROLLER","host":"127.0.0.1","port":59093}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}',
    ),
]


def key_of(type_id: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, type_id)


@pytest.mark.parametrize(("kind", "value", "text"), KAFKA_JSON)
def test_json_is_that_of_kafka(kind: ControlType, value: str, text: str) -> None:
    record = decode_control(key_of(kind), bytes.fromhex(value))
    assert record.type is kind
    assert record.coordinator_epoch == -1
    assert json.dumps(control_json(record), separators=(",", ":")) == text


def test_the_marker_that_kafka_writes() -> None:
    key, value = encode_end_txn_marker(commit=True, coordinator_epoch=7)
    assert (key.hex(), value.hex()) == ("00000001", "000000000007")


@given(st.booleans(), st.integers(-(2**31), 2**31 - 1))
def test_marker_round_trip(commit: bool, epoch: int) -> None:
    record = decode_control(*encode_end_txn_marker(commit=commit, coordinator_epoch=epoch))
    assert record.type is (ControlType.COMMIT if commit else ControlType.ABORT)
    assert record.coordinator_epoch == epoch
    assert record.fields == {"coordinatorEpoch": epoch}


def test_a_newer_marker_is_read_as_version_0() -> None:
    record = decode_control(key_of(0), struct.pack(">hi", 3, 9) + b"more")
    assert (record.type, record.version, record.coordinator_epoch) == (ControlType.ABORT, 3, 9)


@pytest.mark.parametrize("kind", [9, -1, 77])
def test_an_unknown_type_has_a_number_only(kind: int) -> None:
    record = decode_control(key_of(kind), b"\0\0 what comes next")
    assert (record.type_id, record.type, record.fields) == (kind, None, None)
    assert control_json(record) is None


def test_an_unknown_version_has_no_fields() -> None:
    record = decode_control(key_of(ControlType.KRAFT_VOTERS), b"\0\x05 what comes next")
    assert (record.type, record.version, record.fields) == (ControlType.KRAFT_VOTERS, 5, None)


def test_unknown_tags_are_kept_but_not_in_kafkas_json() -> None:
    value = bytes.fromhex("0000") + uvarint(1) + uvarint(4) + uvarint(1) + b"x"
    record = decode_control(key_of(ControlType.SNAPSHOT_FOOTER), value)
    assert record.fields == {"version": 0, UNKNOWN_TAGS: [{"tag": 4, "data": b"x"}]}
    assert control_json(record) == {"version": 0}


def test_a_newer_key_is_read_as_version_0() -> None:
    assert control_type_id(key_of(6, version=2) + b"more") == 6


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, b"\0\0\0\0\0\0", "key: expected 4 bytes, found null"),
        (b"\0\0\0", b"\0\0\0\0\0\0", "key: expected 4 bytes, found 3 bytes"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0", "key: expected version 0 or above, found -1"),
        (b"\0\0\0\0", None, "type 0: expected a version, found null"),
        (b"\0\0\0\1", b"\0", "type 1: expected a version, found 1 bytes"),
        (b"\0\0\0\2", b"\xff\xff", "type 2: expected version 0 or above, found -1"),
        (b"\0\0\0\1", b"\0\0\0\0", "marker: expected 6 bytes, found 4"),
        (b"\0\0\0\1", b"\0\0\0\0\0\0\0", "marker: expected 6 bytes, found 7"),
        (b"\0\0\0\1", b"\0\1\0\0\0", "marker: expected 6 bytes, found 5"),
        (b"\0\0\0\4", b"\0\0\0\0", "SnapshotFooterRecord at byte 3: expected the end"),
    ],
)
def test_what_is_refused(key: bytes | None, value: bytes | None, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_control(key, value)


@settings(deadline=None)
@given(
    st.none() | st.binary(max_size=6) | st.integers(-1, 8).map(key_of),
    st.none() | st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\0\0" + tail),
)
def test_any_bytes_give_a_value_or_decode_error(key: bytes | None, value: bytes | None) -> None:
    try:
        record = decode_control(key, value)
    except DecodeError as error:
        assert "expected" in str(error)
    else:
        assert json.dumps(control_json(record))


def test_what_brokers_wrote() -> None:
    types: Counter[ControlType | None] = Counter()
    reader = RecordReader()
    for path in [*ROOT.rglob("*.log"), *ROOT.rglob("*-??????????.checkpoint")]:
        data = path.read_bytes()
        for batch in batches(data):
            if batch.is_control:
                view = memoryview(data)[batch.position : batch.position + batch.size]
                for table in reader.tables(batch, view):
                    for record in table:
                        control = decode_control(record.key, record.value)
                        assert control.fields is not None, path
                        types[control.type] += 1
    assert None not in types
    wanted = {ControlType.ABORT, ControlType.COMMIT, ControlType.LEADER_CHANGE}
    assert wanted | {ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER} <= set(types)
