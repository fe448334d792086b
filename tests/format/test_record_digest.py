"""The digest of records: over a form written here by hand, in both builds of the kernel."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_128

from kdump.format import record_digest
from kdump.format.batch import RecordTable, TimestampType, read_header
from kdump.format.kernel import digest as _digest
from kdump.format.kernel import records as _records
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from support.forge import Record, batch, message, record, wrapper
from support.kernel_builds import RECORD_WIDTH, load_plain

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.digest")
BUILDS = pytest.mark.parametrize("build", [_digest, PLAIN], ids=["installed", "plain"])
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = TimestampType
NOW = 1_700_000_000_000


Headers = Sequence[tuple[bytes, bytes | None]]


def folded(
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
    *,
    append_time: bool = False,
) -> bytes:
    """What the digest is over, for one record."""
    form = struct.pack(">qqB", offset, timestamp, append_time)
    form += b"".join(map(size_of, (key, value))) + struct.pack(">i", len(headers))
    form += (key or b"") + (value or b"")
    for name, content in headers:
        form += size_of(name) + size_of(content) + name + (content or b"")
    return form


def size_of(field: bytes | None) -> bytes:
    return struct.pack(">i", -1 if field is None else len(field))


def digest_of(forms: Iterable[bytes]) -> str:
    return xxh3_128(b"".join(forms)).hexdigest()


def tables(*batches: bytes) -> Iterator[RecordTable]:
    """The records of batches, or messages, of any magic."""
    reader = RecordReader()
    for data in batches:
        header = read_header(memoryview(data), 0)
        assert header is not None
        yield from reader.tables(header, memoryview(data))


def digest(build: Any, *batches: bytes) -> tuple[int, str]:
    """The number and the digest of their records."""
    with patch.object(record_digest, "_digest", build):
        found = RecordDigest()
        for table in tables(*batches):
            found.add(table.block, table.rows, table.timestamp_type, legacy=table.magic < 2)
    return found.count, found.hexdigest()


fields = st.none() | st.binary(max_size=20) | st.just(b"v" * 40_000)
headers = st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=4)
drawn_records = st.lists(
    st.tuples(
        st.integers(-1, 2**62) | st.sampled_from([-(2**63), 2**63 - 1]), fields, fields, headers
    ),
    max_size=9,
)


@BUILDS
@given(drawn_records, st.integers(0, 2**62), st.sampled_from(["none", "lz4"]), st.booleans())
def test_records_of_magic_2(
    build: Any,
    drawn: list[tuple[int, bytes | None, bytes | None, Headers]],
    base: int,
    codec: str,
    append_time: bool,
) -> None:
    data = batch(
        base,
        [record(value, key, names, timestamp_delta=stamp) for stamp, key, value, names in drawn],
        base_timestamp=0,
        max_timestamp=NOW,
        codec=codec,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
    )
    forms = [
        folded(base + n, NOW if append_time else stamp, key, value, names, append_time=append_time)
        for n, (stamp, key, value, names) in enumerate(drawn)
    ]
    assert digest(build, data) == (len(drawn), digest_of(forms))


@BUILDS
def test_the_same_records_of_any_magic(build: Any) -> None:
    """Alone, in wrappers, in batches: with timestamps, and without."""
    given_records = [(5, b"key", b"value"), (6, None, b""), (9, b"", None)]
    for timestamp, magic in ((NOW, 1), (-1, 0)):
        expected = (
            3,
            digest_of(
                folded(offset, timestamp, key, value) for offset, key, value in given_records
            ),
        )
        alone = [message(offset, value, key, magic=magic) for offset, key, value in given_records]
        wrapped = wrapper(9, alone, codec="gzip", magic=magic)
        batched = batch(
            5,
            [
                record(value, key, offset_delta=offset - 5, timestamp=timestamp)
                for offset, key, value in given_records
            ],
            base_timestamp=timestamp,
        )
        assert digest(build, *alone) == digest(build, wrapped) == digest(build, batched) == expected


@BUILDS
def test_log_append_time_of_any_magic(build: Any) -> None:
    """All records have the time of their wrapper or batch, not their own."""
    expected = 2, digest_of(folded(n, NOW, None, b"v", append_time=True) for n in range(2))
    inner = [message(n, b"v", timestamp=77) for n in range(2)]
    assert digest(build, wrapper(1, inner, codec="lz4", attributes=8)) == expected
    alone = [message(n, b"v", attributes=8) for n in range(2)]
    assert digest(build, *alone) == expected
    batched = batch(0, [record(b"v")] * 2, timestamp_type="LogAppendTime")
    assert digest(build, batched) == expected
    assert digest(build, batch(0, [record(b"v")] * 2)) != expected


@BUILDS
def test_any_size_below_zero_is_null_in_a_message(build: Any) -> None:
    expected = 1, digest_of([folded(0, NOW, None, None)])
    data = bytearray(message(0, None, None))
    data[26:34] = struct.pack(">ii", -5, -(2**31))
    assert digest(build, bytes(data)) == expected


def test_what_differs_has_another_digest() -> None:
    """A null is not empty, and where one field ends the next begins."""
    first = record(b"de", b"abc", [(b"f", b"g")])
    others: list[Record] = [
        record(b"cde", b"ab", [(b"f", b"g")]),
        record(b"de", b"abc", [(b"fg", b"")]),
        record(b"de", b"abc", [(b"fg", None)]),
        record(b"de", b"abc"),
        record(b"", b"abcdefg"),
        record(None, b"abcdefg"),
        record(b"abcdefg", b""),
        record(b"abcdefg", None),
        record(b"de", b"abc", [(b"f", b"g")], timestamp_delta=1),
        record(b"de", b"abc", [(b"f", b"g")], offset_delta=1),
    ]
    assert len({digest(_digest, batch(0, [each])) for each in (first, *others)}) == 1 + len(others)
    second = record(b"second")
    assert digest(_digest, batch(0, [first, second])) != digest(_digest, batch(0, [second, first]))


ROOM = record_digest._ROOM_BYTES
LARGE: dict[str, tuple[bytes | None, bytes | None, Headers]] = {
    "a value of 10 MB": (b"k", bytes(range(250)) * 40_000, []),
    "a key larger than the room": (b"k" * (ROOM + 1), None, []),
    "just as large as the room": (b"", b"v" * (ROOM - 29), []),
    "a byte larger than the room": (b"", b"v" * (ROOM - 28), []),
    "a header that does not fit behind the value": (b"", b"v" * (ROOM - 40), [(b"h" * 20, b"x")]),
    "a header larger than the room": (None, b"", [(b"h", b"x" * ROOM), (b"h" * ROOM, None)]),
    "many headers": (None, None, [(b"h%d" % n, b"x" * (n % 40)) for n in range(5000)]),
    "many empty headers": (b"k", b"v", [(b"", None)] * 10_240),
}


@BUILDS
@pytest.mark.parametrize("name", LARGE)
def test_records_larger_than_the_room(build: Any, name: str) -> None:
    key, value, headers = LARGE[name]
    small = record(b"small")
    data = batch(0, [small, record(value, key, headers), small], codec="lz4")
    around = [folded(n, NOW, None, b"small") for n in (0, 2)]
    form = folded(1, NOW, key, value, headers)
    assert digest(build, data) == (3, digest_of([around[0], form, around[1]]))


@BUILDS
def test_large_messages(build: Any) -> None:
    """The columns of headers of a record of magic 2 are not headers of a message."""
    values = [b"v" * ROOM, None, b"w" * (2 * ROOM)]
    forms = [folded(n, NOW, b"k", value) for n, value in enumerate(values)]
    alone = [message(n, value, b"k") for n, value in enumerate(values)]
    assert digest(build, *alone) == (3, digest_of(forms))
    assert digest(build, wrapper(2, alone, codec="snappy")) == (3, digest_of(forms))


@pytest.mark.parametrize("size", [1, 2 * ROOM])
def test_what_a_row_says_beside_a_message(size: int) -> None:
    """It may say -1 for the headers, of a wrong checksum, and any size below zero for a null."""
    run = message(0, b"v" * size, crc=1)
    rows = memoryview(array("q", bytes(8 * RECORD_WIDTH)))
    assert _records.read_messages(run, 0, True, 0, False, 0, -1, rows)[-1] == 1
    assert rows[7] == -1
    rows[3] = -9
    found = RecordDigest()
    found.add(memoryview(run), rows, CREATE_TIME, legacy=True)
    expected = digest_of([folded(0, NOW, None, b"v" * size)])
    assert (found.count, found.hexdigest()) == (1, expected)


def test_without_records() -> None:
    found = RecordDigest()
    found.add(memoryview(b""), memoryview(array("q")), CREATE_TIME, legacy=False)
    assert (found.count, found.hexdigest()) == (0, digest_of([]))


@pytest.mark.parametrize("timestamp_type", [CREATE_TIME, NO_TIMESTAMP_TYPE])
def test_the_digest_goes_on(timestamp_type: TimestampType) -> None:
    """It can be asked for between records, and does not depend on how they are handed in."""
    forms = [folded(n, NOW, None, b"value") for n in range(4)]
    data = batch(0, [record()] * 4)
    found = RecordDigest()
    for table in tables(data):
        for n in range(4):
            rows = table.rows[n * RECORD_WIDTH : (n + 1) * RECORD_WIDTH]
            found.add(table.block, rows, timestamp_type, legacy=False)
            assert (found.count, found.hexdigest()) == (n + 1, digest_of(forms[: n + 1]))


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=30),
            st.none() | st.binary(max_size=30),
            st.lists(
                st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=20)), max_size=3
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 6),
    st.integers(0, 400),
    st.booleans(),
    st.booleans(),
)
@example([(b"k", b"v", [(b"h", None)])], 0, 40, False, False)
@example([(b"k", b"v", [(b"h", None)])], 0, 39, False, False)
def test_both_builds_fold_the_same(
    drawn: list[tuple[bytes | None, bytes | None, Headers]],
    first: int,
    room: int,
    legacy: bool,
    log_append: bool,
) -> None:
    """As many records as fit, and not a byte behind the room."""
    data = batch(7, [record(value, key, headers) for key, value, headers in drawn])
    (table,) = tables(data)
    forms = [
        folded(7 + n, NOW, key, value, [] if legacy else headers, append_time=log_append)
        for n, (key, value, headers) in enumerate(drawn)
    ]
    reached = first = min(first, len(drawn))
    expected = b""
    while reached < len(forms) and len(expected) + len(forms[reached]) <= room:
        expected += forms[reached]
        reached += 1
    for build in (_digest, PLAIN):
        out = bytearray(b"\xee" * (room + 9))
        asked = table.block, table.rows, first, legacy, log_append, memoryview(out)[:room]
        found, used = build.fold_records(*asked)
        assert (found, bytes(out[:used])) == (reached, expected)
        assert out[room:] == b"\xee" * 9
