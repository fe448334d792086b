"""The kernel's two builds, compiled and plain, give the same for any bytes.

The plain one is loaded from the checkout's source, as it runs where neither a compiler nor Cython
is. C integers wrap and Python's do not: this is where a difference would show.
"""

from __future__ import annotations

import importlib
import struct
import sys
from array import array
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from crc32c import crc32c
from forge import Record, batch, message, record, varint, wrapper
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.format import _kernel, _lines, _rows

ROOT = Path(__file__).parent.parent


def load_plain(name: str) -> ModuleType:
    """The module ``name`` as plain Python without Cython."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    loader = SourceFileLoader(f"plain_{name.rpartition('.')[2]}", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    with patch.dict(sys.modules, {"cython": None}):
        loader.exec_module(module)
    return module


# Any: what is called here is a module that mypy cannot know.
KERNEL: Any = load_plain("kdump.format._kernel")
LINES: Any = load_plain("kdump.format._lines")
ROWS: Any = load_plain("kdump.format._rows")
# A plain build leaves all checksums to the library; here it computes what the installed one does.
KERNEL.SMALL_BYTES = _kernel.SMALL_BYTES

WIDTH = len(_kernel.BATCH_FIELDS)
RECORD_WIDTH = len(_kernel.RECORD_FIELDS)
UNTOUCHED = -7
#: The text and the marks of a form with every number.
FORM = (
    b"a, b and c",
    array(
        "q", [number for field in range(len(_lines.FORM_FIELDS)) for number in (field // 2, field)]
    ),
)

i64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 2**31, 2**63 - 1])
i32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1])
i16 = st.integers(-(2**15), 2**15 - 1)


def columns(length: int) -> array[int]:
    """Room for ``length`` numbers, all of which stand out until they are written."""
    return array("q", [UNTOUCHED] * length)


@st.composite
def extreme_batches(draw: st.DrawFn) -> bytes:
    """A batch of magic 2 and more with any numbers in its header, and the right checksum."""
    body = struct.pack(">hiqqqhii", *map(draw, (i16, i32, i64, i64, i64, i16, i32, i32))) + draw(
        st.binary(max_size=30)
    )
    magic = draw(st.sampled_from([2, 2, 3, 77, 127]))
    base, epoch = draw(i64), draw(i32)
    return struct.pack(">qiibI", base, 9 + len(body), epoch, magic, crc32c(body)) + body


usual_batches = st.builds(
    lambda base, values, codec: batch(base, [record(value) for value in values], codec=codec),
    st.integers(0, 1000),
    st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
)
legacy = st.builds(
    lambda offset, value, magic: message(offset, value, magic=magic),
    st.integers(0, 1000),
    st.binary(max_size=40),
    st.sampled_from([0, 1]),
)


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """Batches of all sorts, perhaps with some bytes changed, perhaps cut, or any bytes at all."""
    pieces = usual_batches | extreme_batches() | legacy | st.binary(max_size=30)
    data = bytearray(b"".join(draw(st.lists(pieces, max_size=6))))
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def scanned(kernel: Any, data: bytes, cut: int, room: int) -> tuple[object, list[int], list[int]]:
    rows, pending = columns(WIDTH * room), columns(room)
    view = memoryview(data)[: len(data) - cut]
    outcome = kernel.scan_headers(view, 1000, 1000 + len(data), rows, pending)
    return outcome, rows.tolist(), pending.tolist()


@given(segments(), st.integers(0, 80), st.integers(0, 8))
@example(batch(0, [record(b"v" * 2000)]), 0, 1)
@example(batch(0, [record(b"v" * 2000)]), 300, 1)
def test_scan_headers(data: bytes, cut: int, room: int) -> None:
    cut = min(cut, len(data))
    assert scanned(_kernel, data, cut, room) == scanned(KERNEL, data, cut, room)


@given(segments())
def test_read_header(data: bytes) -> None:
    def read(kernel: Any) -> tuple[bool, list[int]]:
        row = columns(WIDTH)
        return bool(kernel.read_header(data, 5, row)), row.tolist()

    assert read(_kernel) == read(KERNEL)


@given(st.lists(extreme_batches() | usual_batches | legacy, max_size=6), st.integers(-1, 2**40))
def test_tally(batches: list[bytes], previous: int) -> None:
    rows = columns(WIDTH * len(batches))
    for place, data in enumerate(batches):
        _kernel.read_header(
            data, place * 100, memoryview(rows)[place * WIDTH : (place + 1) * WIDTH]
        )

    def folded(kernel: Any) -> list[int]:
        state = array("q", bytes(8 * kernel.TALLY_FIELDS))
        state[kernel.T_PREVIOUS] = previous
        for half in (rows[: WIDTH * (len(batches) // 2)], rows[WIDTH * (len(batches) // 2) :]):
            kernel.tally(half, state)
        return state.tolist()

    assert folded(_kernel) == folded(KERNEL)


@given(segments(), st.integers(0, 200), st.integers(0, 1000), i64, st.integers(0, 2**63 - 1))
def test_next_candidate(data: bytes, start: int, more: int, low: int, high: int) -> None:
    asked = (data, start, len(data), len(data) + more, low, high)
    assert _kernel.next_candidate(*asked) == KERNEL.next_candidate(*asked)


records = st.builds(
    record,
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=10),
    st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    timestamp_delta=i64,
    offset_delta=i32,
    length=st.none() | i32,
    key_length=st.none() | i32,
    value_length=st.none() | i32,
    header_count=st.none() | i32,
    tail=st.just(b"") | st.binary(max_size=3),
)
blocks = (
    st.lists(records, max_size=5).map(
        lambda made: b"".join(one.encode(place, 0) for place, one in enumerate(made))
    )
    | st.lists(i64 | i32, max_size=20).map(lambda numbers: b"".join(map(varint, numbers)))
    | st.binary(max_size=60)
)


@given(blocks, st.integers(-1, 6), st.integers(0, 5), i64, i64, st.booleans(), i64, i64)
@example(b"\xff" * 9 + b"\x01" * 20, 3, 3, 0, 0, False, 0, -1)
@example(b"\x12\x00" + b"\xff" * 4 + b"\x0f", 3, 3, 0, 0, False, 0, -1)
def test_read_records(
    block: bytes,
    count: int,
    room: int,
    base_offset: int,
    base_timestamp: int,
    log_append: bool,
    append_timestamp: int,
    previous: int,
) -> None:
    def read(kernel: Any) -> tuple[tuple[int, ...], list[int], list[object]]:
        rows = columns(RECORD_WIDTH * room)
        outcome = kernel.read_records(
            block,
            0,
            count,
            base_offset,
            base_timestamp,
            log_append,
            append_timestamp,
            previous,
            rows,
        )
        headers = [
            kernel.read_headers(block, *rows[at + 6 : at + 8])
            for at in range(0, outcome[0] * RECORD_WIDTH, RECORD_WIDTH)
        ]
        return outcome, rows[: outcome[0] * RECORD_WIDTH].tolist(), headers

    assert read(_kernel) == read(KERNEL)


@given(st.lists(usual_batches | extreme_batches(), max_size=5), blocks, st.integers(0, 5), i32, i64)
def test_records_that_match(
    batches: list[bytes], block: bytes, first: int, count: int, timestamp: int
) -> None:
    header = struct.pack(">hiqqqhii", 0, 5, 0, timestamp, -1, -1, -1, count % 8)
    batches.append(struct.pack(">qiibI", 0, 49 + len(block), 0, 2, 0) + header + block)
    data = b"".join(batches)
    rows, position = columns(WIDTH * len(batches)), 0
    for place, one in enumerate(batches):
        row = memoryview(rows)[place * WIDTH : (place + 1) * WIDTH]
        assert _kernel.read_header(one, position, row)
        position += len(one)

    def matching(kernel: Any) -> list[object]:
        record = columns(RECORD_WIDTH)
        reached = kernel.skip_matching(rows, first, data, record)
        rest = kernel.skip_matching(rows, reached + 1, data[:-1], record)
        alone = [
            bool(kernel.records_match(rows, row, block, record)) for row in range(len(batches))
        ]
        return [reached, rest, alone]

    assert matching(_kernel) == matching(KERNEL)


@given(st.lists(usual_batches | extreme_batches() | legacy, max_size=5), st.integers(0, 5), i32)
def test_skip_sound(batches: list[bytes], first: int, flipped: int) -> None:
    data = bytearray(b"".join(batches))
    if data and flipped >= 0:
        data[flipped % len(data)] ^= 1
    rows, pending = columns(WIDTH * 6), columns(6)
    with patch.object(KERNEL, "SMALL_BYTES", 0):
        n, waiting, _ = KERNEL.scan_headers(data, 0, len(data), rows, pending)
    rows, pending = rows[: n * WIDTH], pending[:waiting]

    def reached(kernel: Any) -> int:
        place: int = kernel.skip_sound(bytes(data), rows, pending, first, crc32c)
        return place

    assert reached(_kernel) == reached(KERNEL)


def test_touching_reads_all_places_and_nothing_beyond() -> None:
    data = bytes(1000) + b"\1" * 800 + bytes(1000)
    assert _kernel.touch(data, 1000, 1800) == KERNEL.touch(data, 1000, 1800) == 8 * 2


@given(
    blocks | st.binary(max_size=60).map(lambda value: record(value).encode(0, 0)),
    i64,
    i32,
    st.booleans(),
    st.booleans(),
    st.integers(0, 2000),
)
def test_lines(
    block: bytes, base_offset: int, sequence: int, data: bool, timed: bool, room: int
) -> None:
    rows = columns(RECORD_WIDTH * 6)
    count, *_ = KERNEL.read_records(block, 0, 6, base_offset, 0, False, 0, base_offset - 1, rows)
    rows = rows[: count * RECORD_WIDTH]
    head = columns(WIDTH)
    for field, number in (("magic", 2), ("base_offset", base_offset), ("base_sequence", sequence)):
        head[_kernel.BATCH_FIELDS.index(field)] = number
    asked = head, array("q", [0, count]), rows, block, 0, 0
    pieces = [b"piece %d " % number for number in range(8)]

    def written(lines: Any) -> list[object]:
        text, json = bytearray(room), bytearray(room)
        shown = [
            lines.json_lines(*asked, timed, pieces, *FORM, json),
            lines.text_lines(*asked, data, pieces, *FORM, text),
        ]
        return [*shown, json[: shown[0][2]], text[: shown[1][2]]]

    assert written(_lines) == written(LINES)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    """Messages of magic 0 and 1, perhaps with some bytes changed, perhaps cut."""
    pieces = legacy | st.builds(lambda data: wrapper(1, [data], codec="gzip"), legacy)
    data = bytearray(b"".join(draw(st.lists(pieces, max_size=6))))
    for _ in range(draw(st.integers(0, 2)) if data else 0):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@given(runs(), st.booleans(), i64, st.booleans(), i64, st.integers(0, 4))
def test_messages(
    run: bytes, check: bool, base: int, log_append: bool, timestamp: int, room: int
) -> None:
    def read(kernel: Any) -> tuple[object, object, list[int]]:
        rows = columns(RECORD_WIDTH * room)
        asked = run, 0, check, base, log_append, timestamp, -(2**63), rows
        outcome = kernel.read_messages(*asked)
        return kernel.count_messages(run), outcome, rows[: outcome[0] * RECORD_WIDTH].tolist()

    assert read(_kernel) == read(KERNEL)


def has_header(data: bytes) -> bool:
    """Whether a header is there in full; that of magic 2 is longer than an old message may be."""
    return _kernel.read_header(data, 0, memoryview(columns(WIDTH)))


neighbours = st.lists(
    usual_batches | extreme_batches() | legacy | runs().filter(has_header), max_size=6
)


def rows_of(batches: list[bytes]) -> array[int]:
    """The rows of ``batches``, one behind the other, each as long as it is."""
    rows, position = columns(WIDTH * len(batches)), 0
    for place, data in enumerate(batches):
        row = memoryview(rows)[place * WIDTH : (place + 1) * WIDTH]
        assert _kernel.read_header(data, position, row)
        row[_kernel.BATCH_FIELDS.index("size")] = len(data)
        position += len(data)
    return rows


def read(
    kernel: Any, batches: list[bytes], first: int, cut: int, room: int
) -> tuple[array[int], array[int]]:
    """Where the records of neighbours start, and their rows."""
    rows, starts = columns(RECORD_WIDTH * room), columns(6)
    view = b"".join(batches)
    n = kernel.read_neighbours(rows_of(batches), first, view[: len(view) - cut], rows, starts)
    return starts[: n + 1], rows[: starts[n] * RECORD_WIDTH]


@given(neighbours, st.integers(0, 2), st.sampled_from([0, 0, 1, 40]), st.integers(0, 9))
def test_read_neighbours(batches: list[bytes], first: int, cut: int, room: int) -> None:
    first = min(first, len(batches))
    assert read(_kernel, batches, first, cut, room) == read(KERNEL, batches, first, cut, room)


@given(neighbours, st.booleans(), st.booleans(), st.integers(0, 3000))
def test_lines_of_neighbours(batches: list[bytes], data: bool, timed: bool, room: int) -> None:
    heads = rows_of(batches)
    starts, rows = read(KERNEL, batches, 0, 0, 20)
    n = len(starts) - 1
    asked = heads[: n * WIDTH], starts, rows, b"".join(batches)
    pieces = [b"piece %d " % number for number in range(8)]

    def written(lines: Any) -> list[object]:
        text, json, headers = bytearray(room), bytearray(room), bytearray(room)
        found: list[object] = []
        for place, first in enumerate(starts[:n]):
            shown = [
                lines.json_lines(*asked, place, first, timed, pieces, *FORM, json),
                lines.text_lines(*asked, place, first, data, pieces, *FORM, text),
                lines.batch_lines(heads, place, *FORM, headers),
            ]
            found += [*shown, json[: shown[0][2]], text[: shown[1][2]], headers[: shown[2][1]]]
        return found

    assert written(_lines) == written(LINES)


@st.composite
def batch_rows(draw: st.DrawFn) -> array[int]:
    """Rows of some batches."""
    batches = draw(st.lists(extreme_batches() | usual_batches | legacy | runs(), max_size=6))
    rows = columns(WIDTH * len(batches))
    filled = 0
    for data in batches:
        row = memoryview(rows)[filled * WIDTH : (filled + 1) * WIDTH]
        filled += bool(_kernel.read_header(data, 0, row))
    return rows[: filled * WIDTH]


small = st.integers(-2, 12)


@given(batch_rows(), *[i64 | small for _ in range(5)], st.booleans(), i64 | small)
def test_keep_batches(
    rows: array[int],
    previous: int,
    low: int,
    high: int,
    since: int,
    until: int,
    by_producer: bool,
    producer: int,
) -> None:
    def kept(module: Any) -> tuple[int, list[int]]:
        copy = array("q", rows)
        asked = previous, low, high, since, until, by_producer, producer
        count: int = module.keep_batches(copy, *asked)
        return count, copy.tolist()

    assert kept(_rows) == kept(ROWS)


keyed = st.lists(
    st.builds(
        record,
        st.just(b"v"),
        st.none() | st.binary(max_size=2),
        timestamp_delta=small,
        offset_delta=small,
    ),
    max_size=8,
)


@given(keyed, *[small for _ in range(4)], st.none() | st.binary(max_size=2))
def test_keep_records(
    records: list[Record], low: int, high: int, since: int, until: int, key: bytes | None
) -> None:
    block = b"".join(one.encode(place, 0) for place, one in enumerate(records))
    rows = columns(RECORD_WIDTH * len(records))
    _kernel.read_records(block, 0, len(records), 0, 0, False, 0, -1, rows)

    def kept(module: Any) -> list[list[int]]:
        copy = array("q", rows)
        count = module.keep_records(copy, block, low, high, since, until, key)
        return [copy[i * RECORD_WIDTH : (i + 1) * RECORD_WIDTH].tolist() for i in range(count)]

    assert kept(_rows) == kept(ROWS)
    assert kept(_rows) == [
        rows[i * RECORD_WIDTH : (i + 1) * RECORD_WIDTH].tolist()
        for i, one in enumerate(records)
        if low <= (one.offset_delta or 0) <= high
        and since <= (one.timestamp_delta or 0) <= until
        and (key is None or key == one.key)
    ]


@given(batch_rows(), st.integers(0, 6))
def test_sum_batches(rows: array[int], cut: int) -> None:
    def summed(module: Any) -> list[int]:
        state = array("q", bytes(8 * module.SUM_FIELDS))
        for part in (rows[: cut * WIDTH], rows[cut * WIDTH :]):
            module.sum_batches(part, state)
        return state.tolist()

    assert summed(_rows) == summed(ROWS)


def test_the_plain_build_needs_no_cython() -> None:
    assert KERNEL.COMPILED is False
    assert importlib.util.find_spec("cython") is not None
    assert (
        KERNEL.cython.__name__
        == LINES.cython.__name__
        == ROWS.cython.__name__
        == "kdump.format._nocython"
    )


@pytest.mark.parametrize("name", ["BATCH_FIELDS", "RECORD_FIELDS", "TALLY_FIELDS", "BAD_END"])
def test_the_constants_are_the_same(name: str) -> None:
    assert getattr(_kernel, name) == getattr(KERNEL, name)
