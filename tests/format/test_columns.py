"""The columns of records: both builds fill the same, and neither writes where there is no room."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kdump.format.batch import read_header
from kdump.format.kernel import columns as _columns
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import records as _records
from support.forge import Header, batch, message, record
from support.kernel_builds import columns, i64, load_plain

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.columns")
BATCH_WIDTH = len(_headers.BATCH_FIELDS)
WIDTH = len(_records.RECORD_FIELDS)
#: What no column holds until it is filled.
UNTOUCHED = 77

sizes = st.integers(-3, 20)
block = bytes(range(256))
starts = st.integers(0, 200)
record_rows = st.lists(
    st.tuples(i64, i64, starts, sizes, starts, sizes, starts, st.integers(-1, 5)), max_size=20
)
headers_of_batches = st.lists(
    st.tuples(
        *(
            st.sampled_from([0, 1, 2, 77, -1]) if name == "magic"
            else st.integers(0, 127) if name == "attributes"
            else st.integers(-(2**15), 2**15 - 1) if name == "producer_epoch"
            else st.integers(-(2**31), 2**31 - 1) if name in ("leader_epoch", "base_sequence")
            else st.integers(-(2**62), 2**62)
            for name in _headers.BATCH_FIELDS
        )
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


def flat(rows: list[Any]) -> array[int]:
    return array("q", [number for row in rows for number in row])


def shared_out(count: int, over: int) -> array[int]:
    """Where the records of so many batches begin; the last have none if there are too few."""
    each = -(-count // over)
    return array("q", [min(number * each, count) for number in range(over + 1)])


@given(record_rows)
def test_measure(rows: list[tuple[int, ...]]) -> None:
    flattened = flat(rows)
    found = _columns.measure(flattened)
    assert found == PLAIN.measure(flattened)
    assert found[:2] == tuple(sum(max(row[column], 0) for row in rows) for column in (3, 5))


@given(
    headers_of_batches,
    st.lists(st.tuples(st.integers(-(2**62), 2**62), i64), max_size=20),
    st.sampled_from([_columns.OWN_MAGIC, 0, 1]),
    st.integers(0, 9),
    st.integers(0, 24),
)
def test_fill(
    heads: list[Any], times: list[tuple[int, int]], magic: int, at: int, room: int
) -> None:
    rows = flat([(*pair, 0, 0, 0, 0, 0, 0) for pair in times])
    starts_of = shared_out(len(times), len(heads))

    def filled(build: Any) -> list[object]:
        out = [
            array(code, [UNTOUCHED] * (count * room))
            for code, count in (("q", 4), ("i", 2), ("h", 1), ("b", 3))
        ]
        bits = bytearray(3 * 4)
        reached = build.fill(flat(heads), starts_of, rows, magic, at, *out, bits)
        assert at <= reached <= max(room, at)
        for numbers in out:  # nothing was written before or behind
            for column in range(0, len(numbers), room or 1):
                values = numbers[column : column + room]
                assert set(values[:at]) | set(values[reached:]) <= {UNTOUCHED}
        return [reached, bits, *out]

    assert filled(_columns) == filled(PLAIN)


@given(
    record_rows, st.sampled_from([2, 4]), st.integers(0, 5), st.integers(0, 25), st.integers(0, 99)
)
def test_gather(rows: list[tuple[int, ...]], field: int, at: int, count: int, room: int) -> None:
    def gathered(build: Any) -> tuple[int, list[int], bytes, bytes]:
        ends = array("i", [0] * (max(count, at) + 1))
        present, data = bytearray(8), bytearray(room)
        reached = build.gather(flat(rows), WIDTH, field, block, at, ends, present, data)
        return reached, ends.tolist(), bytes(present), bytes(data)

    reached, ends, present, data = found = gathered(_columns)
    assert found == gathered(PLAIN)
    for number in range(at, reached):
        start, size = rows[number - at][field : field + 2]
        is_there = present[number >> 3] >> (number & 7) & 1
        assert bool(is_there) == (size >= 0)
        assert data[ends[number] : ends[number + 1]] == block[start : start + max(size, 0)]
    assert not any(data[ends[reached] :])


@given(record_rows, st.integers(0, 5), st.integers(0, 25))
def test_count_headers(rows: list[tuple[int, ...]], at: int, count: int) -> None:
    def counted(build: Any) -> tuple[int, list[int]]:
        ends = array("i", [0] * (max(count, at) + 1))
        return build.count_headers(flat(rows), at, ends), ends.tolist()

    assert counted(_columns) == counted(PLAIN)


headers = st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=5)


@given(st.lists(headers, min_size=1, max_size=6), st.integers(1, 7))
def test_fill_headers(each: list[list[Header]], room: int) -> None:
    data = batch(0, [record(b"v", None, pairs) for pairs in each])
    rows = columns(WIDTH * len(each))
    body = memoryview(data)[61:]
    read = _records.read_records(body, 0, len(each), 0, 0, False, 0, -1, rows)
    assert read[0] == len(each)

    def filled(kernel: Any) -> list[tuple[bytes, bytes | None]]:
        state, found = columns(3), []
        state[:] = array("q", [0, 0, 0])
        out = columns(4 * room + 3)
        while n := kernel.fill_headers(body, rows, state, out):
            assert n <= room
            for at in range(0, 4 * n, 4):
                key, key_size, value, size = out[at : at + 4]
                content = None if size < 0 else bytes(body[value : value + size])
                found.append((bytes(body[key : key + key_size]), content))
        assert state[0] == len(each)
        return found

    expected = [pair for pairs in each for pair in pairs]
    assert filled(_columns) == filled(PLAIN) == expected


def test_old_messages_have_no_headers() -> None:
    data = message(0, b"v", crc=1)
    header = read_header(memoryview(data), 0)
    assert header is not None
    rows = columns(WIDTH)
    _records.read_messages(data, 0, False, 0, False, -1, -(2**63), rows)
    out = columns(8)
    for kernel in (_columns, PLAIN):
        assert kernel.fill_headers(data, rows, array("q", [0, 0, 0]), out) == 0
