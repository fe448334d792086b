"""Record batches of magic 2: headers, records, round trips, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.errors import DecodeError, LimitError
from kdump.format.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchTable,
    Record,
    RecordBatch,
    TimestampType,
    encode_marker,
    read_header,
    sequence_at,
)
from kdump.format.codecs import Codec
from kdump.format.records import RecordReader, RecordSummary
from support import forge
from support.forge import CODECS, batch, message, record, varint
from support.memory import batches, pieces
from support.modern_batches import encode_batch

READER = RecordReader()


def header(data: bytes) -> RecordBatch:
    found = read_header(memoryview(data), 0)
    assert found is not None
    return found


def records(data: bytes) -> list[Record]:
    tables = READER.tables(header(data), memoryview(data))
    return [record for table in tables for record in table]


def summary(data: bytes) -> RecordSummary:
    return READER.summary(header(data), memoryview(data))


def test_every_header_field() -> None:
    data = batch(
        2**40,
        [record(b"a", timestamp=1_700_000_000_005), record(b"b")],
        leader_epoch=7,
        producer_id=2**62,
        producer_epoch=32767,
        base_sequence=2**31 - 1,
        transactional=True,
        codec="lz4",
    )
    found = header(data)
    assert found == RecordBatch(
        position=0,
        size=len(data),
        base_offset=2**40,
        last_offset=2**40 + 1,
        leader_epoch=7,
        magic=2,
        crc=int.from_bytes(data[17:21], "big"),
        attributes=0x13,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_005,
        producer_id=2**62,
        producer_epoch=32767,
        base_sequence=2**31 - 1,
        count=2,
    )
    assert (found.codec, found.is_transactional, found.is_control) == (Codec.LZ4, True, False)
    assert (found.last_sequence, found.delete_horizon_ms) == (0, None)


def test_negative_fields_and_offsets_that_overflow_wrap_as_in_java() -> None:
    data = batch(2**63 - 1, [], last_offset_delta=5, leader_epoch=-1, base_timestamp=-(2**63))
    found = header(data)
    assert (found.base_offset, found.last_offset) == (2**63 - 1, -(2**63) + 4)
    assert (found.leader_epoch, found.base_timestamp) == (-1, -(2**63))
    assert header(batch(-(2**63), [], last_offset_delta=-1)).last_offset == 2**63 - 1


@pytest.mark.parametrize("cut", [0, 16, 17, 60])
def test_header_cut_short_is_none(cut: int) -> None:
    assert read_header(memoryview(batch(0, [record()])[:cut]), 0) is None


def test_timestamp_types() -> None:
    kinds = [
        header(batch(0, [record()])),
        header(batch(0, [record()], timestamp_type="LogAppendTime")),
        header(message(0, magic=0)),
        header(message(0, magic=1)),
        header(message(0, magic=1, attributes=8)),
    ]
    assert [kind.timestamp_type for kind in kinds] == [
        TimestampType.CREATE_TIME,
        TimestampType.LOG_APPEND_TIME,
        TimestampType.NO_TIMESTAMP_TYPE,
        TimestampType.CREATE_TIME,
        TimestampType.LOG_APPEND_TIME,
    ]


def test_log_append_time_counts_for_every_record() -> None:
    data = batch(
        0,
        [record(timestamp=5), record(timestamp=6)],
        base_timestamp=5,
        max_timestamp=99,
        timestamp_type="LogAppendTime",
    )
    assert [record.timestamp for record in records(data)] == [99, 99]


def test_delete_horizon_is_the_base_timestamp_and_deltas_are_relative_to_it() -> None:
    data = batch(0, [record(None, b"key", timestamp=30)], base_timestamp=100, delete_horizon=True)
    assert header(data).delete_horizon_ms == 100
    assert [record.timestamp for record in records(data)] == [30]


def test_sequences_wrap() -> None:
    assert sequence_at(2**31 - 1, 1) == 0
    assert sequence_at(5, 3) == 8
    assert sequence_at(-1, 3) == -1


def test_unknown_codec_is_a_decode_error_with_its_number() -> None:
    data = batch(0, [record()], attributes=6)
    assert header(data).codec_id == 6
    with pytest.raises(DecodeError, match="expected a codec from 0 to 4, found 6"):
        records(data)


def test_table_of_batches() -> None:
    data = batch(0, [record()]) + batch(4, [record(), record()])
    (first, second) = batches(data)
    rows = memoryview(b"".join(b"" for _ in ())).cast("B")
    assert len(BatchTable(rows.cast("q"))) == 0
    assert (first.base_offset, second.base_offset) == (0, 4)
    assert second.position == first.size


def test_stretches_of_a_run_have_the_batches_of_their_records() -> None:
    counts = (1, 3, 2, 1)
    offsets = [sum(counts[:number]) for number in range(len(counts))]
    data = b"".join(
        batch(base, [record(b"%d" % (base + place)) for place in range(count)])
        for base, count in zip(offsets, counts, strict=True)
    )
    (table,) = pieces(data)
    assert isinstance(table, BatchTable)
    run = READER.run(table, 0, memoryview(data))
    assert len(run) == len(counts)
    rows = range(sum(counts))
    for chosen in range(1, 1 << len(rows)):
        wanted = [row for row in rows if chosen >> row & 1]
        edges = [row for row in (*rows, len(rows)) if (row in wanted) != (row - 1 in wanted)]
        part = run.gather(zip(edges[::2], edges[1::2], strict=True))
        found = [list(part.table(number)) for number in range(len(part))]
        assert all(found)
        assert [each.offset for records in found for each in records] == wanted
        bases = [max(base for base in offsets if base <= each[0].offset) for each in found]
        assert [each.base_offset for each in part.batches] == bases


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec(codec: str) -> None:
    data = batch(
        10,
        [
            record(b"v", b"k", [(b"h", b"x"), (b"h", None), (b"", b"")]),
            record(None, None),
            record(b"", b""),
        ],
        codec=codec,
    )
    assert records(data) == [
        Record(10, 1_700_000_000_000, b"k", b"v", ((b"h", b"x"), (b"h", None), (b"", b""))),
        Record(11, 1_700_000_000_000, None, None),
        Record(12, 1_700_000_000_000, b"", b""),
    ]
    assert summary(data) == RecordSummary(3, 10, 12, 1_700_000_000_000, 0, 0)


def test_more_records_than_a_table_holds() -> None:
    data = batch(0, [record(b"", None)] * 70_000)
    tables = [len(table) for table in READER.tables(header(data), memoryview(data))]
    assert tables == [65_536, 4_464]
    assert summary(data).last_offset == 69_999


def test_records_out_of_order_are_counted() -> None:
    deltas = (0, 2, 1, 1, 5)
    data = batch(0, [record(offset_delta=delta) for delta in deltas])
    assert summary(data).disorder == 2
    assert summary(data).last_offset == 5


def test_empty_batch_is_read_whatever_stands_in_it() -> None:
    assert records(batch(0, [], block=b"left over")) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (batch(0, [record()], count=2), "expected record 2 of 2, found the end of the block"),
        (batch(0, [record(), record()], count=1), "more bytes"),
        (batch(0, [record()], count=-1), "expected a record count of 0 or more, found -1"),
        (batch(0, [record(length=100)]), "a length that does not fit"),
        (batch(0, [record(length=-1)]), "a length that does not fit"),
        (batch(0, [record(length=0)]), "a length that does not fit"),
        (batch(0, [record(tail=b"x")]), "fields that do not fill"),
        (batch(0, [record(headers=[(b"h", b"v")], tail=b"x")]), "fields that do not fill"),
        (batch(0, [record(value_length=50)]), "does not fit into its record"),
        (batch(0, [record(header_count=-1)]), "does not fit into its record"),
        (batch(0, [record(header_count=2**31 - 1)]), "does not fit into its record"),
        (batch(0, [b"\xff\xff\xff\xff\xff\x01"]), "too long or cut off"),
        (batch(0, [record()], codec="gzip", block=b"no gzip"), "gzip"),
    ],
)
def test_records_that_cannot_be_read(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        records(data)
    with pytest.raises(DecodeError, match=message):
        summary(data)


@pytest.mark.parametrize("size", [-2, -1000, -(2**31)])
@pytest.mark.parametrize("codec", CODECS)
def test_any_size_below_zero_is_null(codec: str, size: int) -> None:
    """As ``Utils.readBytes``."""
    header_value = varint(1) + varint(1) + b"h" + varint(size)
    inner = bytes(3) + varint(1) + b"k" + varint(1) + b"v" + header_value
    odd: list[forge.Record | bytes] = [
        record(None, None, key_length=size),
        record(None, b"k", value_length=size),
        varint(len(inner)) + inner,
    ]
    data = batch(0, [*odd, record(None, None)], codec=codec)
    nulls = [(None, None, ()), (b"k", None, ()), (b"k", b"v", ((b"h", None),)), (None, None, ())]
    assert [(each.key, each.value, each.headers) for each in records(data)] == nulls
    assert summary(data).odd_nulls == 3
    reader = RecordReader()
    table = BatchTable.of(header(data))
    assert reader.skip_matching(table, 0, memoryview(data)) == 0
    sound = batch(0, [record(None, None)], codec=codec)
    assert reader.skip_matching(BatchTable.of(header(sound)), 0, memoryview(sound)) == 1


def test_records_before_one_that_cannot_be_read_are_given() -> None:
    data = batch(0, [record(b"good"), record(b"bad", length=3)])
    found = []
    with pytest.raises(DecodeError, match="expected record 2 of 2"):
        for table in READER.tables(header(data), memoryview(data)):
            found += list(table)
    assert [record.value for record in found] == [b"good"]


def test_limit_is_not_corruption() -> None:
    data = batch(0, [record(bytes(100_000))], codec="zstd")
    with pytest.raises(LimitError):
        list(RecordReader(limit=50_000).tables(header(data), memoryview(data)))


@pytest.mark.parametrize("value", [0, 63, 64, 8191, 8192, 2**20 - 1, 2**20, 2**27, 2**31 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_varints_at_every_width(value: int, sign: int) -> None:
    delta = sign * value
    data = batch(0, [record(b"x", timestamp_delta=delta, offset_delta=max(delta, 0))])
    (found,) = records(data)
    assert (found.timestamp, found.offset) == (1_700_000_000_000 + delta, max(delta, 0))


@pytest.mark.parametrize("delta", [2**34, -(2**34), 2**55, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_timestamp_deltas_of_64_bits_wrap_as_in_java(delta: int) -> None:
    data = batch(0, [record(timestamp_delta=delta)], base_timestamp=1000)
    expected = (1000 + delta + 2**63) % 2**64 - 2**63
    assert records(data)[0].timestamp == expected


FIELD = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.binary(max_size=8), FIELD), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(0), st.integers(-1, 2**62), FIELD, FIELD, HEADERS),
    min_size=1,
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(
    RECORDS,
    st.integers(0, 2**62),
    st.lists(st.integers(1, 1000), min_size=20, max_size=20),
    st.sampled_from(Codec),
    st.integers(-1, 2**31 - 1),
)
def test_round_trip(
    drawn: list[Record], base: int, steps: list[int], codec: Codec, sequence: int
) -> None:
    offsets = [base + sum(steps[:index]) for index in range(len(drawn))]
    given_records = [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in zip(offsets, drawn, strict=True)
    ]
    data = encode_batch(given_records, codec=codec, base_sequence=sequence, producer_id=1)
    (found,) = batches(data, base)
    assert records(data) == given_records
    assert (found.base_offset, found.last_offset) == (offsets[0], offsets[-1])
    assert found.max_timestamp == max(record.timestamp for record in given_records)
    assert (found.count, found.codec) == (len(given_records), codec)
    assert found.last_sequence == sequence_at(sequence, offsets[-1] - offsets[0])
    assert summary(data).max_timestamp == max(-1, found.max_timestamp)


def test_an_encoded_marker() -> None:
    marker = Record(3, 9, b"key", b"value")
    data = encode_marker(marker, leader_epoch=4, producer_id=5, producer_epoch=6)
    found = header(data)
    assert (found.base_offset, found.last_offset, found.leader_epoch) == (3, 3, 4)
    assert (found.base_timestamp, found.max_timestamp, found.count) == (9, 9, 1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (5, 6, -1)
    assert found.attributes == TRANSACTIONAL | CONTROL
    assert records(data) == [marker]


def test_the_lowest_and_highest_base_offsets_are_read() -> None:
    """A flip of one bit turns offset 0 into the lowest offset; no checksum covers it."""
    for base in (-(2**63), 2**63 - 1):
        data = batch(base, [record(b"value")])
        assert [record.offset for record in records(data)] == [base]
        assert summary(data).last_offset == base


BATCH = batch(
    5, [record(b"value" * 3, b"key", [(b"h", None)]), record(None), record(b"")], codec="none"
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(CODECS),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=8),
    st.binary(max_size=30),
)
def test_any_bytes_give_records_or_our_own_errors(
    codec: str, changes: list[tuple[int, int]], tail: bytes
) -> None:
    data = bytearray(batch(5, [record(b"value" * 9, b"key", [(b"h", b"x")])] * 4, codec=codec))
    for position, mask in changes:
        at = 17 + position % (len(data) - 17)
        data[at] ^= mask
    changed = bytes(data) + tail
    for read in (records, summary):
        assert outcome(read, changed) in ("read", "refused")


def outcome(read: Callable[[bytes], object], data: bytes) -> str:
    try:
        read(data)
    except (DecodeError, LimitError):
        return "refused"
    return "read"
