"""Messages of magic 0 and 1: offsets, timestamps, codecs, and what makes a wrapper unreadable."""

from __future__ import annotations

import struct
import zlib

import lz4.frame
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from kdump.errors import CutError, DecodeError, LimitError
from kdump.format.batch import Record, RecordBatch, RecordTable, TimestampType, read_header
from kdump.format.codecs import Codec, decompress
from kdump.format.legacy import is_wrapper
from kdump.format.records import RecordReader, RecordSummary
from support.forge import CODECS, TIMESTAMP, compressed, flip, message, wrapper, xerial
from support.legacy_messages import encode_message, encode_wrapper

READER = RecordReader()
LOG_APPEND_TIME = 8
MAGICS = pytest.mark.parametrize("magic", [0, 1])
WRAPPING = pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])


def header(data: bytes) -> RecordBatch:
    found = read_header(memoryview(data), 0)
    assert found is not None
    return found


def records(data: bytes) -> list[Record]:
    return [
        record for table in READER.tables(header(data), memoryview(data)) for record in list(table)
    ]


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in records(data)]


@MAGICS
@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("value", [None, b"", b"value"])
def test_a_message_is_its_own_batch(magic: int, key: bytes | None, value: bytes | None) -> None:
    data = message(7, value, key, magic=magic)
    found = header(data)
    assert (found.base_offset, found.last_offset, found.count, found.size) == (7, 7, 1, len(data))
    assert records(data) == [Record(7, TIMESTAMP if magic else -1, key, value)]


def test_timestamp_types() -> None:
    assert header(message(0, magic=0)).timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    assert header(message(0)).timestamp_type is TimestampType.CREATE_TIME
    appended = message(0, attributes=LOG_APPEND_TIME)
    assert header(appended).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header(message(0, magic=0, attributes=8)).timestamp_type.value == "NoTimestampType"


@MAGICS
def test_any_size_below_zero_is_null(magic: int) -> None:
    """As ``Utils.sizeDelimited``."""
    body = struct.pack(">bb", magic, 0) + bytes(8 * magic) + struct.pack(">ii", -7, -(2**31))
    data = struct.pack(">qiI", 3, 4 + len(body), zlib.crc32(body)) + body
    assert records(data) == [Record(3, 0 if magic else -1, None, None)]
    assert READER.summary(header(data), memoryview(data)).odd_nulls == 1
    sound = message(3, None, None, magic=magic)
    assert READER.summary(header(sound), memoryview(sound)).odd_nulls == 0


@pytest.mark.parametrize("size", [6, 2**31 - 1])
@pytest.mark.parametrize("at", [18, 22])
def test_a_field_beyond_its_message_is_an_error(at: int, size: int) -> None:
    data = bytearray(message(0, b"value", magic=0))
    data[at : at + 4] = struct.pack(">i", size)
    with pytest.raises(DecodeError, match="does not fit into its message"):
        records(bytes(data))


@WRAPPING
def test_offsets_inside_magic_0_are_absolute(codec: str) -> None:
    inner = [message(offset, b"v", magic=0) for offset in (5, 6, 9)]
    data = wrapper(9, inner, codec=codec, magic=0)
    assert is_wrapper(header(data))
    assert offsets(data) == [5, 6, 9]


@WRAPPING
def test_offsets_inside_magic_1_are_relative_to_the_last(codec: str) -> None:
    assert offsets(wrapper(102, [message(n) for n in range(3)], codec=codec)) == [100, 101, 102]


def test_gaps_that_compaction_left_stay_gaps() -> None:
    inner = [message(offset) for offset in (1, 4, 5)]
    assert offsets(wrapper(105, inner, codec="gzip")) == [101, 104, 105]


def test_a_wrapper_at_offset_0_holds_absolute_offsets() -> None:
    """Old librdkafka left 0 there."""
    assert offsets(wrapper(0, [message(n) for n in (3, 4)], codec="snappy")) == [3, 4]


def test_a_wrapper_below_its_last_message_is_invalid() -> None:
    data = wrapper(2, [message(n) for n in range(4)], codec="gzip")
    with pytest.raises(DecodeError, match=r"expected an offset of 3 or more.*found 2"):
        records(data)


def test_offsets_add_up_as_in_java() -> None:
    """Beyond the largest one they go on from the smallest."""
    data = wrapper(2**63 - 1, [message(n) for n in (2, 0)], codec="gzip")
    assert offsets(data) == [-(2**63) + 1, 2**63 - 1]


def test_create_times_are_the_messages_own() -> None:
    inner = [message(n, timestamp=TIMESTAMP + n) for n in range(3)]
    found = records(wrapper(2, inner, codec="lz4", timestamp=TIMESTAMP + 2))
    assert [record.timestamp for record in found] == [TIMESTAMP, TIMESTAMP + 1, TIMESTAMP + 2]


@pytest.mark.parametrize("inside", [0, LOG_APPEND_TIME])
def test_the_wrappers_append_time_counts_for_all(inside: int) -> None:
    """Releases before 0.11 left the bit clear inside."""
    inner = [message(n, timestamp=n, attributes=inside) for n in range(3)]
    data = wrapper(2, inner, codec="gzip", attributes=LOG_APPEND_TIME, timestamp=TIMESTAMP)
    assert {record.timestamp for record in records(data)} == {TIMESTAMP}


def test_offsets_follow_the_wrappers_magic_where_magics_are_mixed() -> None:
    """KAFKA-4298; a table holds one magic."""
    inner = [message(0, magic=1), message(1, magic=0), message(2, magic=1)]
    data = wrapper(52, inner, codec="gzip", magic=1)
    tables = [
        (table.magic, table.timestamp_type, [(record.offset, record.timestamp) for record in table])
        for table in READER.tables(header(data), memoryview(data))
    ]
    assert tables == [
        (1, TimestampType.CREATE_TIME, [(50, TIMESTAMP)]),
        (0, TimestampType.NO_TIMESTAMP_TYPE, [(51, -1)]),
        (1, TimestampType.CREATE_TIME, [(52, TIMESTAMP)]),
    ]
    absolute = wrapper(52, [message(50, magic=1), message(52, magic=0)], codec="gzip", magic=0)
    assert offsets(absolute) == [50, 52]


def test_more_messages_than_a_table_holds() -> None:
    data = wrapper(69_999, [message(n, b"") for n in range(70_000)], codec="gzip")
    tables = READER.tables(header(data), memoryview(data))
    assert [len(table) for table in tables] == [65_536, 4_464]
    assert offsets(data)[-1] == 69_999


def test_a_summary_tells_what_the_header_does_not() -> None:
    inner = [message(n, timestamp=TIMESTAMP - n) for n in (0, 2, 1, 3)]
    data = wrapper(13, inner, codec="gzip")
    summary = READER.summary(header(data), memoryview(data))
    assert summary == RecordSummary(4, 10, 13, TIMESTAMP, 1, 0)


def test_offsets_beyond_64_bits_wrap_as_in_java() -> None:
    inner = [message(2**63 - 1), message(-(2**63))]
    assert offsets(wrapper(5, inner, codec="gzip")) == [4, 5]


# --- what cannot be read


@MAGICS
def test_a_compressed_message_inside_is_invalid(magic: int) -> None:
    good = message(0, magic=magic)
    nested = wrapper(1, [good], codec="gzip", magic=magic)
    data = wrapper(1, [good, nested], codec="gzip", magic=magic)
    with pytest.raises(DecodeError, match="a compressed message"):
        records(data)


@MAGICS
@pytest.mark.parametrize("inner", [[], [b"\0" * 11]])
def test_no_messages_inside_is_invalid(magic: int, inner: list[bytes]) -> None:
    with pytest.raises(DecodeError, match="expected a run of messages"):
        records(wrapper(1, inner, codec="gzip", magic=magic))


@MAGICS
def test_a_wrapper_without_a_value_is_invalid(magic: int) -> None:
    with pytest.raises(DecodeError, match="found a null value"):
        records(message(1, None, magic=magic, attributes=1))


@MAGICS
@pytest.mark.parametrize("codec", [4, 5, 7])
def test_codecs_that_no_wrapper_has(magic: int, codec: int) -> None:
    with pytest.raises(DecodeError, match="expected"):
        records(message(1, b"value", magic=magic, attributes=codec))


@MAGICS
def test_a_size_that_no_message_has(magic: int) -> None:
    bad = message(1, magic=magic, size=13)
    with pytest.raises(DecodeError, match="found 1 and then"):
        records(wrapper(1, [message(0, magic=magic), bad], codec="gzip", magic=magic))


@MAGICS
def test_messages_before_one_that_is_cut_off_are_given(magic: int) -> None:
    """Kafka's consumers take the cut for the end, and count offsets from the last whole one."""
    inner = [message(n, magic=magic) for n in range(3)]
    data = wrapper(1, [*inner[:2], inner[2][:-1]], codec="gzip", magic=magic)
    found = []
    with pytest.raises(CutError, match="a message that is cut off, which Java clients skip"):
        for table in READER.tables(header(data), memoryview(data)):
            found += [record.offset for record in table]
    assert found == [0, 1]
    with pytest.raises(CutError):
        READER.summary(header(data), memoryview(data))


def test_a_wrong_checksum_counts_before_a_message_that_is_cut_off() -> None:
    data = wrapper(1, [flip(message(0), -1), message(1)[:-1]], codec="gzip")
    with pytest.raises(DecodeError, match="found 1 that do not"):
        records(data)


def test_a_wrong_checksum_inside_is_marked_and_an_error_behind_all_messages() -> None:
    inner = [message(0), flip(message(1), -1), message(2)]
    data = wrapper(2, inner, codec="lz4")
    tables = READER.tables(header(data), memoryview(data))
    table = next(tables)
    stored = [int.from_bytes(content[12:16], "big") for content in inner]
    crcs = [table.message_crc(row) for row in range(3)]
    assert crcs == list(zip(stored, [True, False, True], strict=True))
    with pytest.raises(DecodeError, match="found 1 that do not"):
        next(tables)
    with pytest.raises(DecodeError, match="found 1 that do not"):
        READER.summary(header(data), memoryview(data))


def test_the_limit_holds_for_wrappers() -> None:
    data = wrapper(0, [message(0, bytes(100_000))], codec="gzip")
    with pytest.raises(LimitError):
        list(RecordReader(limit=50_000).tables(header(data), memoryview(data)))


# --- codecs as old clients wrote them


def test_raw_snappy() -> None:
    inner = b"".join(message(n) for n in range(3))
    data = message(2, snappy.compress(inner), attributes=CODECS.index("snappy"))
    assert offsets(data) == [0, 1, 2]


def test_snappy_in_small_blocks() -> None:
    """0.10.2's broker wrote 1 KiB of source a block."""
    inner = b"".join(message(n, bytes(500)) for n in range(9))
    data = message(8, xerial(inner, 1024), attributes=CODECS.index("snappy"))
    assert offsets(data) == list(range(9))


def test_many_gzip_members() -> None:
    parts = [compressed("gzip", message(n)) for n in range(3)]
    assert offsets(message(2, b"".join(parts), attributes=1)) == [0, 1, 2]


def xxh32(data: bytes) -> int:
    """The lz4 frame format puts this hash of its content at a frame's end."""
    return int.from_bytes(lz4.frame.compress(data, content_checksum=True)[-4:], "little")


def test_the_lz4_header_of_magic_0() -> None:
    """Its checksum also covered the frame's magic number; later readers ignore it."""
    inner = message(4, magic=0)
    frame = compressed("lz4", inner)
    assert frame[6] == xxh32(frame[4:6]) >> 8 & 255
    old = frame[:6] + bytes([xxh32(frame[:6]) >> 8 & 255]) + frame[7:]
    assert old != frame
    attributes = CODECS.index("lz4")
    for stored in (frame, old):
        assert offsets(message(4, stored, magic=0, attributes=attributes)) == [4]
    with pytest.raises(DecodeError, match="lz4 frame header"):
        records(message(4, old, magic=1, attributes=attributes))
    written = encode_wrapper([Record(4, -1, None, b"")], 0, Codec.LZ4)
    within = written[written.index(frame[:4]) :]
    assert within[6] == xxh32(within[:6]) >> 8 & 255
    assert decompress(Codec.LZ4, old, magic=0) == inner


@pytest.mark.parametrize("size", range(16))
def test_a_cut_lz4_header_of_magic_0_is_an_error(size: int) -> None:
    frame = compressed("lz4", b"some content")[:size]
    with pytest.raises(DecodeError, match="lz4"):
        decompress(Codec.LZ4, frame, magic=0)


# --- encoding

contents = st.none() | st.binary(max_size=30)


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    base = draw(st.integers(1, 2**40))
    steps = draw(st.lists(st.integers(1, 1000), max_size=8))
    found = [base]
    for step in steps:
        found.append(found[-1] + step)
    return [
        Record(offset, draw(st.integers(-1, 2**45)), draw(contents), draw(contents))
        for offset in found
    ]


@given(runs(), st.sampled_from([0, 1]))
def test_messages_round_trip(run: list[Record], magic: int) -> None:
    for record in run:
        expected = record if magic else Record(record.offset, -1, record.key, record.value)
        assert records(encode_message(record, magic)) == [expected]
    first = run[0]
    assert encode_message(first, magic) == message(
        first.offset, first.value, first.key, magic=magic, timestamp=first.timestamp
    )


@given(runs(), st.sampled_from([0, 1]), st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
def test_wrappers_round_trip(run: list[Record], magic: int, codec: Codec) -> None:
    data = encode_wrapper(run, magic, codec)
    expected = (
        run if magic else [Record(record.offset, -1, record.key, record.value) for record in run]
    )
    assert records(data) == expected
    assert header(data).last_offset == run[-1].offset
    if magic:
        assert header(data).max_timestamp == max(record.timestamp for record in run)


@given(runs(), st.integers(0, 2**45))
def test_append_times_round_trip(run: list[Record], now: int) -> None:
    data = encode_wrapper(
        run,
        1,
        Codec.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_timestamp=now,
    )
    assert header(data).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in records(data)} == {now}
    ((table,), own) = list(READER.tables(header(data), memoryview(data))), run[0].timestamp
    assert isinstance(table, RecordTable)
    assert int.from_bytes(table.block[18:26], "big", signed=True) == own
