"""Legacy records as batches of magic 2, in both builds: byte for byte what the forge makes."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.errors import DecodeError, LimitError
from kdump.format import encoding
from kdump.format.batch import HEADER_BYTES, TimestampType
from kdump.format.codecs import Codec, decompress
from kdump.format.encoding import BatchWriter
from kdump.format.kernel import encode as _encode
from kdump.format.kernel import records as _records
from support.forge import batch, message, record, wrapper
from support.kernel_builds import RECORD_WIDTH, columns, load_plain, rows_of

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.encode")
BUILDS = pytest.mark.parametrize("build", [_encode, PLAIN], ids=["installed", "plain"])
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = TimestampType
NOW = 1_700_000_000_000
MIN, MAX = -(2**63), 2**63 - 1


class WrittenRecord(NamedTuple):
    """A record, as a message holds it."""

    offset: int
    timestamp: int = NOW
    key: bytes | None = None
    value: bytes | None = b"value"


def forged(records: Sequence[WrittenRecord], *, append_time: bool = False) -> bytes:
    """The one batch that ``records`` make, uncompressed."""
    base = records[0]
    return batch(
        base.offset,
        [
            record(
                written.value,
                written.key,
                offset_delta=written.offset - base.offset,
                timestamp_delta=(written.timestamp - base.timestamp - MIN) % 2**64 + MIN,
            )
            for written in records
        ],
        base_timestamp=base.timestamp,
        max_timestamp=base.timestamp
        if append_time
        else max(-1, *(written.timestamp for written in records)),
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        leader_epoch=-1,
    )


def batched(
    records: Sequence[WrittenRecord], limit_bytes: int | None, *, append_time: bool = False
) -> list[bytes]:
    """The batches that they make, each as large as it may be."""
    found: list[list[WrittenRecord]] = []
    for written in records:
        tried = [*found[-1], written] if found else []
        if (
            tried
            and written.offset - tried[0].offset < 2**31
            and not (append_time and written.timestamp != tried[0].timestamp)
            and (limit_bytes is None or len(forged(tried)) <= limit_bytes)
        ):
            found[-1] = tried
        else:
            found.append([written])
    return [forged(each, append_time=append_time) for each in found]


def table(records: Sequence[WrittenRecord], magic: int = 1) -> tuple[memoryview, memoryview]:
    """The run of messages that they are, and its rows."""
    run = b"".join(
        message(
            written.offset, written.value, written.key, magic=magic, timestamp=written.timestamp
        )
        for written in records
    )
    rows = memoryview(columns(RECORD_WIDTH * len(records)))
    filled, *_ = _records.read_messages(run, 0, False, 0, False, 0, MIN, rows)
    assert filled == len(records)
    return memoryview(run), rows


def write(
    build: Any,
    *parts: Sequence[WrittenRecord],
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = CREATE_TIME,
    limit_bytes: int | None = None,
) -> list[bytes]:
    """The batches that a writer makes of them; it is given one part after the other."""
    found = []
    with patch.object(encoding, "_encode", build):
        writer = BatchWriter()
        for part in parts:
            block, rows = table(part)
            row = 0
            while True:
                row = writer.add(block, rows, row, codec, timestamp_type, limit_bytes)
                if row == len(part):
                    break
                made = writer.finish()
                assert made is not None
                found.append(made)
        last = writer.finish()
        assert writer.finish() is None
    return found if last is None else [*found, last]


stamps = (
    st.integers(NOW, NOW + 5)
    | st.integers(MIN, MAX)
    | st.sampled_from([-1, -2, MIN, MAX, 2**62, -(2**62)])
)
fields = (
    st.none()
    | st.binary(max_size=9)
    | st.sampled_from([0, 63, 64, 8191, 8192]).map(lambda size: b"v" * size)
)
steps = st.integers(1, 70) | st.sampled_from([2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**40])


@st.composite
def rising_records(draw: st.DrawFn) -> list[WrittenRecord]:
    """Records whose offsets rise, by little or much, anywhere."""
    offset = draw(st.integers(MIN, 2**62) | st.integers(0, 9) | st.just(MIN))
    found = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(steps)
        found.append(WrittenRecord(offset, draw(stamps), draw(fields), draw(fields)))
    return found


@BUILDS
@given(
    rising_records(), st.integers(0, 12), st.none() | st.sampled_from([0, 1, 80, 200, 9000, 16384])
)
@example(
    [WrittenRecord(0, MIN), WrittenRecord(1, MAX), WrittenRecord(2, 0), WrittenRecord(3, MIN)],
    2,
    None,
)
@example([WrittenRecord(MIN + 1), WrittenRecord(MAX)], 0, None)
def test_records_of_create_time(
    build: Any, records: list[WrittenRecord], cut: int, limit_bytes: int | None
) -> None:
    found = write(build, records[:cut], records[cut:], limit_bytes=limit_bytes)
    assert found == batched(records, limit_bytes)


@BUILDS
@given(rising_records(), st.lists(st.sampled_from([NOW, NOW + 1, -1, -2, MIN, MAX]), min_size=12))
def test_records_of_log_append_time(
    build: Any, records: list[WrittenRecord], times: list[int]
) -> None:
    given_records = [
        written._replace(timestamp=time) for written, time in zip(records, times, strict=False)
    ]
    found = write(build, given_records, timestamp_type=LOG_APPEND_TIME)
    assert found == batched(given_records, None, append_time=True)


@BUILDS
def test_records_without_timestamps_get_create_time(build: Any) -> None:
    records = [WrittenRecord(3, -1), WrittenRecord(4, -1, b"k", None)]
    with patch.object(encoding, "_encode", build):
        writer = BatchWriter()
        reached = writer.add(*table(records, magic=0), 0, Codec.NONE, NO_TIMESTAMP_TYPE, None)
        assert reached == 2
        assert writer.finish() == forged(records)


@BUILDS
@pytest.mark.parametrize("codec", Codec)
def test_codecs(build: Any, codec: Codec) -> None:
    records = [
        WrittenRecord(number, NOW + number, b"key", b"value" * number) for number in range(50)
    ]
    (found,) = write(build, records, codec=codec)
    plain = forged(records)
    assert bytes(decompress(codec, found[HEADER_BYTES:])) == plain[HEADER_BYTES:]
    size, attributes = struct.pack(">i", len(found) - 12), struct.pack(">h", codec)
    crc = crc32c(found[21:]).to_bytes(4, "big")
    assert found[:HEADER_BYTES] == b"".join(
        (plain[:8], size, plain[12:17], crc, attributes, plain[23:HEADER_BYTES])
    )


@BUILDS
def test_a_limit_that_fits_exactly(build: Any) -> None:
    records = [WrittenRecord(number, NOW, None, b"v" * (60 + number)) for number in range(8)]
    joined = forged(records)
    assert write(build, records, limit_bytes=len(joined)) == [joined]
    shorter = [forged(records[:-1]), forged(records[-1:])]
    assert write(build, records, limit_bytes=len(joined) - 1) == shorter


@BUILDS
def test_a_limit_that_not_even_one_record_keeps(build: Any) -> None:
    records = [
        WrittenRecord(0),
        WrittenRecord(1, NOW, None, b"v" * 100_000),
        WrittenRecord(2),
        WrittenRecord(3),
    ]
    for limit_bytes in (0, 1, HEADER_BYTES):
        alone = [forged([written]) for written in records]
        assert write(build, records, limit_bytes=limit_bytes) == alone
    joined = [forged(records[:1]), forged(records[1:2]), forged(records[2:])]
    assert write(build, records, limit_bytes=16384) == joined


@BUILDS
@pytest.mark.parametrize("limit_bytes", [None, 10_000_000, 300_000])
def test_batches_larger_than_the_first_room(build: Any, limit_bytes: int | None) -> None:
    records = [WrittenRecord(number, NOW, b"k", b"v" * 30_000) for number in range(20)]
    found = write(build, records[:7], records[7:], limit_bytes=limit_bytes)
    in_one = len(records) if limit_bytes != 300_000 else 9
    assert found == [forged(records[at : at + in_one]) for at in range(0, len(records), in_one)]


@BUILDS
def test_a_value_of_10_mb(build: Any) -> None:
    records = [
        WrittenRecord(0),
        WrittenRecord(1, NOW, b"k", bytes(range(250)) * 40_000),
        WrittenRecord(2),
    ]
    found = write(build, records, limit_bytes=16384)
    assert found == [forged([written]) for written in records]
    assert write(build, records) == [forged(records)]


@BUILDS
def test_any_size_below_zero_is_null(build: Any) -> None:
    block, rows = table([WrittenRecord(0)])
    rows[3] = rows[5] = -77
    with patch.object(encoding, "_encode", build):
        writer = BatchWriter()
        assert writer.add(block, rows, 0, Codec.NONE, CREATE_TIME, None) == 1
        assert writer.finish() == forged([WrittenRecord(0, NOW, None, None)])


@BUILDS
def test_another_codec_or_type_needs_another_batch(build: Any) -> None:
    records = [WrittenRecord(0), WrittenRecord(1)]
    block, rows = table(records)
    with patch.object(encoding, "_encode", build):
        for codec, timestamp_type in ((Codec.GZIP, CREATE_TIME), (Codec.NONE, LOG_APPEND_TIME)):
            writer = BatchWriter()
            first_row = rows[:RECORD_WIDTH]
            assert writer.add(block, first_row, 0, Codec.NONE, CREATE_TIME, None) == 1
            assert writer.add(block, rows, 1, codec, timestamp_type, None) == 1
            assert writer.finish() == forged(records[:1])
            assert writer.add(block, rows, 1, codec, timestamp_type, None) == 2
            found = writer.finish()
            assert found is not None
            assert found[21:23] == bytes([0, codec | (timestamp_type is LOG_APPEND_TIME) << 3])


@BUILDS
@pytest.mark.parametrize("limit_bytes", [None, 0])
@pytest.mark.parametrize("offset", [6, 5, 0, -1, MIN])
def test_offsets_that_do_not_rise(build: Any, limit_bytes: int | None, offset: int) -> None:
    """Within a part, from part to part, and from batch to batch."""
    first, second = [WrittenRecord(5), WrittenRecord(6)], [WrittenRecord(offset)]
    for parts in ([[*first, *second]], [first, second]):
        with pytest.raises(DecodeError, match=rf"above 6, .* found {offset}$"):
            write(build, *parts, limit_bytes=limit_bytes)
    with patch.object(encoding, "_encode", build):
        writer = BatchWriter()
        writer.add(*table(first), 0, Codec.NONE, CREATE_TIME, None)
        assert writer.finish() == forged(first)
        with pytest.raises(DecodeError, match="above 6"):
            writer.add(*table(second), 0, Codec.NONE, CREATE_TIME, None)


@BUILDS
def test_a_record_that_no_batch_can_hold(build: Any) -> None:
    with patch.object(encoding, "MAX_BATCH_BYTES", 70_000):
        small, large = WrittenRecord(0), WrittenRecord(1, NOW, None, b"v" * 70_000)
        with pytest.raises(
            LimitError, match=r"a batch of 70000 bytes, found a record of 70032 .* 1$"
        ):
            write(build, [small, large])


rows_of_any_records = st.lists(
    st.tuples(st.integers(MIN, MAX) | st.integers(0, 9), stamps, st.integers(-3, 40)), max_size=9
).map(
    lambda drawn: [
        number
        for offset, timestamp, size in drawn
        for number in (offset, timestamp, 3, size, 0, 40 - size, 0, 0)
    ]
)


@given(
    rows_of_any_records,
    st.integers(0, 9),
    st.booleans(),
    st.integers(-61, 300),
    st.integers(0, 300),
    st.sampled_from([-1, MIN, 5]),
)
def test_both_builds_write_the_same(
    numbers: list[int], first: int, log_append: bool, limit: int, room: int, last_offset: int
) -> None:
    rows, block = array("q", numbers), bytes(range(43))

    def encoded(build: Any) -> list[object]:
        state = array("q", bytes(8 * build.STATE_FIELDS))
        state[build.E_LAST_OFFSET] = last_offset
        out = bytearray(room)
        found: list[object] = []
        row = first
        for _ in range(len(rows)):  # each record may be written, and may open a batch
            row, why = build.encode_records(block, rows, row, log_append, limit, state, out)
            found += [row, why, list(state), bytes(out)]
            if why in (build.ENCODED, build.DISORDER, build.NO_ROOM):
                break
            state[build.E_SIZE] = state[build.E_COUNT] = 0
        return found

    assert encoded(_encode) == encoded(PLAIN)


def test_what_stops_it_is_told_apart() -> None:
    stops = {
        _encode.ENCODED: ([WrittenRecord(0), WrittenRecord(1)], 2),
        _encode.FULL: ([WrittenRecord(0), WrittenRecord(1, NOW, b"k" * 99)], 1),
        _encode.FAR: ([WrittenRecord(0), WrittenRecord(2**31 - 1), WrittenRecord(2**31)], 2),
        _encode.OTHER_TIME: ([WrittenRecord(0), WrittenRecord(1, NOW + 1)], 1),
        _encode.DISORDER: ([WrittenRecord(0), WrittenRecord(0)], 1),
        _encode.NO_ROOM: ([WrittenRecord(0, NOW, None, b"v" * 200)], 0),
    }
    for why, (records, reached) in stops.items():
        block, rows = table(records)
        for build in (_encode, PLAIN):
            state = array("q", bytes(8 * build.STATE_FIELDS))
            state[build.E_LAST_OFFSET] = -1
            found = build.encode_records(block, rows, 0, True, 90, state, bytearray(160))
            assert found == (reached, why)


def test_a_room_that_fits_exactly() -> None:
    block, rows = table([WrittenRecord(0), WrittenRecord(1)])
    size = len(forged([WrittenRecord(0), WrittenRecord(1)])) - HEADER_BYTES
    for build in (_encode, PLAIN):
        for room, found in ((size, (2, build.ENCODED)), (size - 1, (1, build.NO_ROOM))):
            state = array("q", bytes(8 * build.STATE_FIELDS))
            state[build.E_LAST_OFFSET] = -1
            out = memoryview(bytearray(size))[:room]
            assert build.encode_records(block, rows, 0, False, 99, state, out) == found


def test_it_writes_nothing_behind_the_records() -> None:
    block, rows = table([WrittenRecord(0), WrittenRecord(1)])
    size = len(forged([WrittenRecord(0), WrittenRecord(1)])) - HEADER_BYTES
    for build in (_encode, PLAIN):
        state = array("q", bytes(8 * build.STATE_FIELDS))
        state[build.E_LAST_OFFSET] = -1
        out = bytearray(b"\xee" * 99)
        build.encode_records(block, rows, 0, False, 99, state, out)
        assert state[build.E_SIZE] == size
        assert out[size:] == b"\xee" * (99 - size)


# --- kinds of batches

PLAIN_1, APPENDED_1, PLAIN_0 = (
    message(0, magic=magic, attributes=attributes) for magic, attributes in ((1, 0), (1, 8), (0, 0))
)
ODD_0 = message(0, magic=0, attributes=8)
NEGATIVE = message(0, magic=-1)
MODERN, ODD, PACKED = batch(0, [record()]), batch(0, [record()], magic=77), batch(0, codec="lz4")
WRAPPER = wrapper(0, [PLAIN_1], codec="gzip")
KINDS = [
    [PLAIN_1, PLAIN_1, PLAIN_1],
    [APPENDED_1, APPENDED_1],
    [PLAIN_0, ODD_0, PLAIN_0],  # magic 0 has no types of timestamps
    [NEGATIVE],
    [WRAPPER],
    [MODERN, PACKED, ODD],
]


@BUILDS
@given(data=st.data())
def test_neighbours_of_a_kind(build: Any, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.sampled_from(range(len(KINDS))), min_size=1, max_size=8))
    runs = [KINDS[kind] for kind, _ in groupby(drawn)]
    rows = rows_of([batch_rows for run in runs for batch_rows in run])
    end = 0
    for run in runs:
        start, end = end, end + len(run)
        for row in range(start, end):
            assert build.kind_end(rows, row) == end


@BUILDS
def test_wrappers_are_alone(build: Any) -> None:
    rows = rows_of([WRAPPER, WRAPPER, PLAIN_1, WRAPPER])
    assert [build.kind_end(rows, row) for row in range(4)] == [1, 2, 3, 4]


def test_the_plain_build_is_plain() -> None:
    assert PLAIN.cython.__name__ == "kdump.format.nocython"
    assert PLAIN.STATE_FIELDS == _encode.STATE_FIELDS
