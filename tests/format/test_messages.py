"""The table-driven reader, against bytes that Kafka 4.3.1's own serializer wrote."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import DecodeError
from kdump.format.messages import groups, metadata, remote_logs, shares, transactions
from kdump.format.messages.forms import payload_form
from kdump.format.messages.metadata import decode_metadata
from kdump.format.messages.payloads import CoordinatorTopic, decoder_of
from kdump.format.messages.reader import (
    UNKNOWN_TAGS,
    Field,
    Message,
    Value,
    decode,
    decode_layout,
    parse_tables,
    parse_uuid,
    uuid_text,
)
from kdump.format.records import RecordReader
from support.fixtures_loader import ROOT
from support.forge import uvarint
from support.memory import batches
from support.message_writer import INTS, random_values, write_fields

TOPIC_ID = "Zx3rO8V1QyCqz-_7aB4mXw"
DIRECTORY_ID = "AQIDBAUGBwgJCgsMDQ4PEA"
TOPIC = "010200076f7264657273671deb3bc5754320aacfeffb681e265f00"
PARTITION_V0 = (
    "01030000000002671deb3bc5754320aacfeffb681e265f03000000010000000202000000020101000000020000"
    "00050000000601000101"
)
PARTITION_V1 = (
    "01030100000002671deb3bc5754320aacfeffb681e265f03000000010000000202000000020101000000020000"
    "00050000000603671deb3bc5754320aacfeffb681e265f0102030405060708090a0b0c0d0e0f1000"
)
PARTITION_V2 = PARTITION_V1.replace("010301", "010302", 1)[:-2] + "0201050200000001020101"
CONFIG = "01040002076f72646572730f636c65616e75702e706f6c69637908636f6d7061637400"
CONFIG_NULL = "01040002076f72646572730f636c65616e75702e706f6c6963790000"
REMOVE_TOPIC = "010900671deb3bc5754320aacfeffb681e265f00"
FEATURE_LEVEL = "010c00116d657461646174612e76657273696f6e001d00"

PARTITION: dict[str, Value] = {
    "partitionId": 2,
    "topicId": TOPIC_ID,
    "replicas": [1, 2],
    "isr": [2],
    "removingReplicas": [],
    "addingReplicas": [],
    "leader": 2,
    "leaderRecoveryState": 0,
    "leaderEpoch": 5,
    "partitionEpoch": 6,
}
DIRECTORIES: dict[str, Value] = {"directories": [TOPIC_ID, DIRECTORY_ID]}

EVERYTHING = parse_tables(
    """
@ Everything | 7 | 0-2 | 1+
  flag bool 0+
  tiny int8 0+
  small int16 0+
  port uint16 0+
  number int32 0+ def=-1
  crc uint32 0+
  long int64 0+
  ratio float64 0+
  id uuid 0+
  text string 0+ null=0+
  blob bytes 0+ null=1+
  old string 0-1
  list []struct 0+
    name string 0+
    inner struct 0+ null=2+
      ids []int32 0+ null=0+
  more string 1+ tag=0/1+ null=1+ def=null
  count int64 2+ tag=5/2+ def=12
"""
)["Everything"]


@pytest.mark.parametrize(
    ("value", "name", "fields"),
    [
        (TOPIC, "TopicRecord", {"name": "orders", "topicId": TOPIC_ID}),
        (PARTITION_V0, "PartitionRecord", PARTITION | {"leaderRecoveryState": 1}),
        (PARTITION_V1, "PartitionRecord", PARTITION | DIRECTORIES),
        (
            PARTITION_V2,
            "PartitionRecord",
            PARTITION | DIRECTORIES | {"eligibleLeaderReplicas": [1], "lastKnownElr": []},
        ),
        (
            CONFIG,
            "ConfigRecord",
            {
                "resourceType": 2,
                "resourceName": "orders",
                "name": "cleanup.policy",
                "value": "compact",
            },
        ),
        (
            CONFIG_NULL,
            "ConfigRecord",
            {
                "resourceType": 2,
                "resourceName": "orders",
                "name": "cleanup.policy",
                "value": None,
            },
        ),
        (FEATURE_LEVEL, "FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 29}),
        (REMOVE_TOPIC, "RemoveTopicRecord", {"topicId": TOPIC_ID}),
    ],
)
def test_metadata_records_as_kafka_writes_them(
    value: str, name: str, fields: dict[str, Value]
) -> None:
    record = decode_metadata(bytes.fromhex(value))
    assert (record.name, record.fields) == (name, fields)
    assert list(record.fields or ()) == list(fields)


def test_a_type_without_a_table_has_no_fields() -> None:
    record = decode_metadata(b"\x01\x63\x00body")
    assert (record.type_id, record.version, record.name, record.fields) == (99, 0, None, None)


def test_a_version_without_a_table_has_no_fields() -> None:
    record = decode_metadata(b"\x01\x02\x63body")
    assert (record.name, record.version, record.fields) == ("TopicRecord", 99, None)


def test_the_frame_of_the_preview_release_is_refused() -> None:
    with pytest.raises(DecodeError, match="frame version 1, found 0"):
        decode_metadata(b"\x00" + bytes.fromhex(TOPIC)[1:])


@pytest.mark.parametrize("value", [TOPIC, PARTITION_V2, CONFIG, REMOVE_TOPIC])
def test_neither_fewer_nor_more_bytes_will_do(value: str) -> None:
    whole = bytes.fromhex(value)
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_metadata(whole[:end])
    with pytest.raises(DecodeError, match="expected the end, found 1 bytes more"):
        decode_metadata(whole + b"\0")


def test_unknown_tags_are_kept() -> None:
    tags = uvarint(2) + uvarint(3) + uvarint(2) + b"hi" + uvarint(900) + uvarint(0)
    fields = decode_metadata(bytes.fromhex(REMOVE_TOPIC)[:-1] + tags).fields
    assert fields is not None
    assert fields[UNKNOWN_TAGS] == [{"tag": 3, "data": b"hi"}, {"tag": 900, "data": b""}]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (b"\x02\x03\x00\x03\x00", "tag above 3, found 3"),
        (b"\x01\x00\x02\x01\x00", "end of tag 0, found 1 bytes more"),
        (b"\x01\x00\x00", "expected 1 bytes, found 0"),
        (b"\x01\x07\x7f", "expected 127 bytes"),
    ],
)
def test_bad_tags(tags: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_metadata(bytes.fromhex(PARTITION_V0)[:-4] + tags)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08"])
def test_a_count_beyond_the_bytes_allocates_nothing(count: bytes) -> None:
    data = bytes.fromhex(PARTITION_V0)[:23] + count + bytes(100)
    with pytest.raises(DecodeError, match="expected a length up to 100"):
        decode_metadata(data)


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="up to 5 bytes"):
        decode_metadata(b"\x81\x80\x80\x80\x80\x00")


def test_null_where_none_may_be() -> None:
    with pytest.raises(DecodeError, match="expected name, found null"):
        decode_metadata(b"\x01\x02\x00\x00" + bytes(17))


def test_text_that_is_not_utf8_is_replaced_as_in_java() -> None:
    fields = decode_metadata(b"\x01\x02\x00\x02\xff" + bytes(17)).fields
    assert fields is not None
    assert fields["name"] == "\ufffd"


def test_a_version_of_no_table_names_those_there_are() -> None:
    with pytest.raises(DecodeError, match="Everything has version 3, expected 0 to 2"):
        decode(EVERYTHING, 3, b"")


def test_parse_tables_reads_every_option() -> None:
    fields = {field.name: field for field in EVERYTHING.fields}
    assert (EVERYTHING.type_id, EVERYTHING.versions, 0 in EVERYTHING.flexible) == (
        7,
        range(3),
        False,
    )
    assert [field.name for field in fields["list"].fields] == ["name", "inner"]
    assert [field.name for field in fields["list"].fields[1].fields] == ["ids"]
    assert (fields["count"].tag, fields["count"].default, fields["number"].default) == (5, 12, -1)
    assert 2 not in fields["old"].versions


def test_a_named_struct_is_one_written_out() -> None:
    named = """
= Name
  text string 0+

= Person
  names []Name 0+
  first Name 0+

@ Everyone | 7 | 0 | 0+
  people []Person 0+ null=0+
"""
    written_out = """
@ Everyone | 7 | 0 | 0+
  people []struct 0+ null=0+
    names []struct 0+
      text string 0+
    first struct 0+
      text string 0+
"""
    assert parse_tables(named) == parse_tables(written_out)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text_round_trip(data: bytes) -> None:
    text = uuid_text(data)
    assert len(text) == 22
    assert parse_uuid(text) == parse_uuid(text + "==") == data


@pytest.mark.parametrize("text", ["", "short", TOPIC_ID + "=", TOPIC_ID + "A", "+" * 22, "é" * 22])
def test_texts_that_are_no_uuid(text: str) -> None:
    with pytest.raises(DecodeError, match="expected a uuid"):
        parse_uuid(text)


# --- round trip through a writer of the same tables, made for this test


def values_of(field: Field, version: int, kind: str) -> st.SearchStrategy[Value]:
    simple: dict[str, st.SearchStrategy[Value]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16).map(uuid_text),
        "string": st.text(max_size=200),
        "bytes": st.binary(max_size=200),
    }
    found: st.SearchStrategy[Value]
    if kind.startswith("[]"):
        found = st.lists(values_of(field, version, kind[2:]), max_size=4).map(list)
    elif kind == "struct":
        found = structs(field.fields, version)
    elif kind in simple:
        found = simple[kind]
    else:
        bits = 8 * struct.calcsize(INTS[kind])
        low, high = (
            (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return st.integers(low, high)
    can_be_null = version in field.nullable and kind == field.type
    return st.none() | found if can_be_null else found


def structs(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[Value]:
    return st.fixed_dictionaries(
        {
            field.name: values_of(field, version, field.type)
            for field in fields
            if version in field.versions
        }
    ).map(dict)


@settings(deadline=None)
@given(st.data(), st.integers(0, 2))
def test_round_trip_of_every_type(data: st.DataObject, version: int) -> None:
    values = data.draw(structs(EVERYTHING.fields, version))
    assert isinstance(values, dict)
    written = write_fields(EVERYTHING.fields, values, version, version in EVERYTHING.flexible)
    assert decode(EVERYTHING, version, written) == values
    assert decode(EVERYTHING, version, memoryview(written)) == values


@settings(deadline=None)
@given(
    st.binary(max_size=300),
    st.integers(-1, 4),
    st.sampled_from([EVERYTHING]),
)
def test_any_bytes_give_a_value_or_decode_error(
    data: bytes, version: int, message: Message
) -> None:
    try:
        assert isinstance(decode(message, version, data), dict)
    except DecodeError as error:
        assert "Everything" in str(error)


@settings(deadline=None)
@given(
    st.sampled_from([TOPIC, PARTITION_V0, PARTITION_V2, CONFIG]),
    st.integers(0, 60),
    st.integers(0, 255),
)
def test_any_changed_byte_gives_a_value_or_decode_error(value: str, place: int, byte: int) -> None:
    data = bytearray.fromhex(value)
    data[place % len(data)] = byte
    try:
        record = decode_metadata(bytes(data))
    except DecodeError as error:
        assert str(error)
    else:
        assert record.fields is None or record.message is not None


def test_what_brokers_wrote() -> None:
    topics: set[Value] = set()
    names: set[str | None] = set()
    reader = RecordReader()
    for path in sorted(ROOT.rglob("__cluster_metadata-0/*.log")):
        data = path.read_bytes()
        for batch in batches(data):
            if batch.is_control:
                continue
            view = memoryview(data)[batch.position : batch.position + batch.size]
            for table in reader.tables(batch, view):
                for record in table:
                    assert record.value is not None, path
                    metadata = decode_metadata(record.value)
                    assert (metadata.fields is None) == (metadata.name is None), path
                    names.add(metadata.name)
                    if metadata.name == "TopicRecord" and metadata.fields is not None:
                        topics.add(metadata.fields["name"])
    assert {"TopicRecord", "PartitionRecord", "ConfigRecord"} <= names
    assert "transactions" in topics


# --- the tables of internal topics


def layouts() -> list[tuple[Message, Message]]:
    """Each message of an internal topic with each of its layouts, itself first."""
    messages = [
        *groups.messages().values(),
        *transactions.messages().values(),
        *shares.messages().values(),
        *remote_logs.messages().values(),
        *metadata.messages().values(),
    ]
    return [(message, layout) for message in messages for layout in (message, *message.older)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "layout"), layouts(), ids=lambda each: f"{each.name} {each.releases}".strip()
)
def test_random_values_of_every_layout_come_back(message: Message, layout: Message) -> None:
    rng, older = Random(f"{layout.name} {layout.releases}"), 0
    for version in layout.versions:
        for _ in range(1000 // len(layout.versions)):
            values = random_values(rng, layout.fields, version)
            written = write_fields(layout.fields, values, version, version in layout.flexible)
            found, fields = decode_layout(message, version, written)
            if found is layout:
                assert fields == {**fields, **values}
                older += 1
    # Some bytes fit the newest layout too, which is then the one that is read.
    assert older == 1000 // len(layout.versions) * len(layout.versions) or layout.releases


#: A tenth of the payloads that the nightly tests mutate.
MUTATED = 100_000
TOPICS = (
    "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata",
    "__remote_log_metadata",
)  # fmt: skip


def payloads(topic: str, rng: Random) -> Iterator[tuple[bytes | None, bytes]]:
    """Keys and values of random messages of a topic, in all versions."""
    decoder = decoder_of(topic)
    if isinstance(decoder, CoordinatorTopic):
        pairs = [
            (struct.pack(">h", type_id), decoder.keys[type_id], value)
            for type_id, values in decoder.values.items()
            for value in values
        ]
        while True:
            head, key, value = rng.choice(pairs)
            version = rng.choice(value.versions)
            values = random_values(rng, key.fields, key.versions[0])
            yield (
                head + write_fields(key.fields, values, key.versions[0], flexible=False),
                struct.pack(">h", version) + written(rng, value, version),
            )
    module = metadata if topic == "__cluster_metadata" else remote_logs
    messages = list(module.messages().values())
    while True:
        message = rng.choice(messages)
        version = rng.choice(message.versions)
        head = b"".join(map(uvarint, (1, message.type_id or 0, version)))
        yield None, head + written(rng, message, version)


def written(rng: Random, message: Message, version: int) -> bytes:
    values = random_values(rng, message.fields, version)
    return write_fields(message.fields, values, version, version in message.flexible)


def mutated(rng: Random, data: bytes) -> bytes:
    """``data`` with some bytes changed, left out, or repeated."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0:
                changed[place : place + 1] = rng.choice((b"\0", b"\x7f", b"\xff", b"\xff\xff\x03"))
            case 1:
                changed[place : place + 1] = rng.randbytes(1)
            case 2:
                del changed[place : place + rng.choice((1, 4, 30))]
            case 3:
                changed[place:place] = changed[place : place + rng.choice((1, 4, 30))]
    return bytes(changed)


def decoded_ms(topic: str, key: bytes | None, value: bytes) -> float:
    """The processor time of a decoding, in ms; any error is a DecodeError."""
    decoder = decoder_of(topic)
    assert decoder is not None
    started = time.thread_time()
    with suppress(DecodeError):
        found = decoder.decode(key, value)
        for payload in found:
            if payload is not None:
                json.dumps(payload_form(payload))
    return (time.thread_time() - started) * 1000


@pytest.mark.slow
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("count", [MUTATED, pytest.param(10 * MUTATED, marks=pytest.mark.nightly)])
def test_mutated_payloads_take_little(topic: str, count: int) -> None:
    rng = Random(f"{topic} {count}")
    source = payloads(topic, rng)
    for number in range(count // len(TOPICS)):
        key, value = next(source)
        if key is not None and rng.random() < 0.5:
            key = mutated(rng, key)
        else:
            value = mutated(rng, value)
        # What else the machine does may delay one reading, not three.
        if decoded_ms(topic, key, value) > 2:
            fastest = min(decoded_ms(topic, key, value) for _ in range(3))
            assert fastest < 2, (topic, key, value.hex())
        if number % 20 == 0:
            tracemalloc.start()
            decoded_ms(topic, key, value)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert most < 1 << 20, (topic, key, value.hex())


def test_bytes_of_no_layout_have_the_error_of_the_newest() -> None:
    with pytest.raises(DecodeError, match="TopicRecord at byte 1: expected a length up to 0"):
        decode_layout(metadata.messages()["TopicRecord"], 0, b"\x7f")
