"""The kernel's two builds, compiled and plain, give the same for any bytes.

The plain one is loaded from the checkout's source, as it runs where neither a compiler nor Cython
is. C integers wrap and Python's do not: this is where a difference would show.
"""

from __future__ import annotations

import importlib
import struct
from array import array
from typing import Any
from unittest.mock import patch
from zlib import crc32

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from kdump.format.kernel import columns as _columns
from kdump.format.kernel import digest as _digest
from kdump.format.kernel import entries as _entries
from kdump.format.kernel import events as _events
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import lines as _lines
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import records as _records
from kdump.format.kernel import replay as _replay
from kdump.format.kernel import select as _select
from support.forge import Record, batch, message, record, varint, wrapper
from support.kernel_builds import (
    HEADERS,
    RECORD_WIDTH,
    RECORDS,
    WIDTH,
    columns,
    i64,
    load_plain,
    rows_of,
)

# Any: what is called here is a module that mypy cannot know.
ENTRIES: Any = load_plain("kdump.format.kernel.entries")
LINES: Any = load_plain("kdump.format.kernel.lines")
ROWS: Any = load_plain("kdump.format.kernel.select")
EVENTS: Any = load_plain("kdump.format.kernel.events")
REPLAY: Any = load_plain("kdump.format.kernel.replay")
COLUMNS: Any = load_plain("kdump.format.kernel.columns")
DIGEST: Any = load_plain("kdump.format.kernel.digest")

#: The text and the marks of a form with every number.
FORM = (
    b"a, b and c",
    array(
        "q",
        [number for field in range(len(_lines.FORM_FIELDS)) for number in (field // 2, field)],
    ),
)

i32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1])
i16 = st.integers(-(2**15), 2**15 - 1)


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


def scanned(kernel: Any, data: bytes, cut: int, room: int) -> tuple[object, list[list[int]]]:
    rows, pending, usual = columns(WIDTH * room), columns(room), columns(HEADERS.USUAL_FIELDS)
    view = memoryview(data)[: len(data) - cut]
    outcome = kernel.scan_headers(view, 1000, 1000 + len(data), rows, pending, usual)
    return outcome, [rows.tolist(), pending.tolist(), usual.tolist()]


@given(segments(), st.integers(0, 80), st.integers(0, 8))
@example(batch(0, [record(b"v" * 2000)]), 0, 1)
@example(batch(0, [record(b"v" * 2000)]), 300, 1)
def test_scan_headers(data: bytes, cut: int, room: int) -> None:
    cut = min(cut, len(data))
    assert scanned(_headers, data, cut, room) == scanned(HEADERS, data, cut, room)


@given(segments())
def test_read_header(data: bytes) -> None:
    def read(kernel: Any) -> tuple[bool, list[int]]:
        row = columns(WIDTH)
        return bool(kernel.read_header(data, 5, row)), row.tolist()

    assert read(_headers) == read(HEADERS)


@given(st.lists(extreme_batches() | usual_batches | legacy, max_size=6), st.integers(-1, 2**40))
def test_tally(batches: list[bytes], previous: int) -> None:
    rows = columns(WIDTH * len(batches))
    for index, data in enumerate(batches):
        _headers.read_header(
            data, index * 100, memoryview(rows)[index * WIDTH : (index + 1) * WIDTH]
        )

    def folded(kernel: Any) -> list[int]:
        state = array("q", bytes(8 * kernel.TALLY_FIELDS))
        state[kernel.T_PREVIOUS] = previous
        for half in (rows[: WIDTH * (len(batches) // 2)], rows[WIDTH * (len(batches) // 2) :]):
            kernel.tally(half, state)
        return state.tolist()

    assert folded(_headers) == folded(HEADERS)


@given(segments(), st.integers(0, 200), st.integers(0, 1000), i64, st.integers(0, 2**63 - 1))
def test_next_candidate(data: bytes, start: int, more: int, low: int, high: int) -> None:
    asked = (data, start, len(data), len(data) + more, low, high)
    assert _headers.next_candidate(*asked) == HEADERS.next_candidate(*asked)


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
        lambda made: b"".join(record.encode(index, 0) for index, record in enumerate(made))
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
    def read(kernel: Any, headers_of: Any) -> tuple[tuple[int, ...], list[int], list[object]]:
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
            headers_of.read_headers(block, *rows[at + 6 : at + 8])
            for at in range(0, outcome[0] * RECORD_WIDTH, RECORD_WIDTH)
        ]
        return outcome, rows[: outcome[0] * RECORD_WIDTH].tolist(), headers

    assert read(_records, _columns) == read(RECORDS, COLUMNS)


@given(st.lists(usual_batches | extreme_batches(), max_size=5), blocks, st.integers(0, 5), i32, i64)
def test_records_that_match(
    batches: list[bytes], block: bytes, first: int, count: int, timestamp: int
) -> None:
    header = struct.pack(">hiqqqhii", 0, 5, 0, timestamp, -1, -1, -1, count % 8)
    batches.append(struct.pack(">qiibI", 0, 49 + len(block), 0, 2, 0) + header + block)
    data = b"".join(batches)
    rows, position = columns(WIDTH * len(batches)), 0
    for index, content in enumerate(batches):
        row = memoryview(rows)[index * WIDTH : (index + 1) * WIDTH]
        assert _headers.read_header(content, position, row)
        position += len(content)

    def matching(kernel: Any) -> list[object]:
        record = columns(RECORD_WIDTH)
        reached = kernel.skip_matching(rows, first, data, record)
        rest = kernel.skip_matching(rows, reached + 1, data[:-1], record)
        alone = [
            bool(kernel.records_match(rows, row, block, record)) for row in range(len(batches))
        ]
        return [reached, rest, alone]

    assert matching(_records) == matching(RECORDS)


@given(st.lists(usual_batches | extreme_batches() | legacy, max_size=5), st.integers(0, 5), i32)
def test_skip_sound(batches: list[bytes], first: int, flipped: int) -> None:
    data = bytearray(b"".join(batches))
    if data and flipped >= 0:
        data[flipped % len(data)] ^= 1
    rows, pending, usual = columns(WIDTH * 6), columns(6), columns(HEADERS.USUAL_FIELDS)
    with patch.object(HEADERS, "SMALL_BYTES", 0):
        n, waiting, _ = HEADERS.scan_headers(data, 0, len(data), rows, pending, usual)
    rows, pending = rows[: n * WIDTH], pending[:waiting]

    def reached(kernel: Any) -> int:
        place: int = kernel.skip_sound(bytes(data), rows, pending, first, crc32c, crc32)
        return place

    assert reached(_headers) == reached(HEADERS)


@given(
    st.lists(legacy, max_size=4).map(b"".join)
    | st.lists(st.builds(record, st.binary(max_size=20)), max_size=4).map(
        lambda records: b"".join(record.encode(index, 0) for index, record in enumerate(records))
    )
    | st.binary(max_size=40),
    st.sampled_from([0, 1, 1, 2, 2]),
    st.sampled_from([0, 8]),
    i64,
    i64 | st.integers(0, 2000),
    i32 | st.integers(0, 4),
    st.integers(0, 5),
    i32,
)
def test_read_block(
    block: bytes,
    magic: int,
    attributes: int,
    base_offset: int,
    last_offset: int,
    count: int,
    room: int,
    flipped: int,
) -> None:
    data = bytearray(block)
    if data and flipped >= 0:
        data[flipped % len(data)] ^= 1
    header = dict.fromkeys(_headers.BATCH_FIELDS, 5)
    header |= {"magic": magic, "attributes": attributes, "base_offset": base_offset}
    header |= {"last_offset": last_offset, "count": count}
    batches = array("q", header.values())

    def read(kernel: Any) -> tuple[int, list[int]]:
        rows = columns(RECORD_WIDTH * room)
        return kernel.read_block(batches, 0, bytes(data), rows), rows.tolist()

    assert read(_records) == read(RECORDS)


def test_touching_reads_all_places_and_nothing_beyond() -> None:
    data = bytes(1000) + b"\1" * 800 + bytes(1000)
    assert _headers.touch(data, 1000, 1800) == HEADERS.touch(data, 1000, 1800) == 8 * 2


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
    count, *_ = RECORDS.read_records(block, 0, 6, base_offset, 0, False, 0, base_offset - 1, rows)
    rows = rows[: count * RECORD_WIDTH]
    head = columns(WIDTH)
    for field, number in (("magic", 2), ("base_offset", base_offset), ("base_sequence", sequence)):
        head[_headers.BATCH_FIELDS.index(field)] = number
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

    assert read(_records) == read(RECORDS)


def has_header(data: bytes) -> bool:
    """Whether a header is there in full; that of magic 2 is longer than an old message may be."""
    return _headers.read_header(data, 0, memoryview(columns(WIDTH)))


neighbours = st.lists(
    usual_batches | extreme_batches() | legacy | runs().filter(has_header), max_size=6
)


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
    assert read(_records, batches, first, cut, room) == read(RECORDS, batches, first, cut, room)


@given(neighbours, st.booleans(), st.booleans(), st.integers(0, 3000))
def test_lines_of_neighbours(batches: list[bytes], data: bool, timed: bool, room: int) -> None:
    heads = rows_of(batches)
    starts, rows = read(RECORDS, batches, 0, 0, 20)
    n = len(starts) - 1
    asked = heads[: n * WIDTH], starts, rows, b"".join(batches)
    pieces = [b"piece %d " % number for number in range(8)]

    def written(lines: Any) -> list[object]:
        text, json, headers = bytearray(room), bytearray(room), bytearray(room)
        found: list[object] = []
        for index, first in enumerate(starts[:n]):
            shown = [
                lines.json_lines(*asked, index, first, timed, pieces, *FORM, json),
                lines.text_lines(*asked, index, first, data, pieces, *FORM, text),
                lines.batch_lines(heads, index, *FORM, headers),
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
        filled += bool(_headers.read_header(data, 0, row))
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
    def selected(module: Any) -> tuple[int, list[int]]:
        copy = array("q", rows)
        asked = previous, low, high, since, until, by_producer, producer
        count: int = module.keep_batches(copy, *asked)
        return count, copy.tolist()

    assert selected(_select) == selected(ROWS)


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
    block = b"".join(record.encode(index, 0) for index, record in enumerate(records))
    rows = columns(RECORD_WIDTH * len(records))
    _records.read_records(block, 0, len(records), 0, 0, False, 0, -1, rows)

    def selected(module: Any) -> list[list[int]]:
        copy = array("q", rows)
        count = module.keep_records(copy, block, low, high, since, until, key)
        return [copy[i * RECORD_WIDTH : (i + 1) * RECORD_WIDTH].tolist() for i in range(count)]

    assert selected(_select) == selected(ROWS)
    assert selected(_select) == [
        rows[i * RECORD_WIDTH : (i + 1) * RECORD_WIDTH].tolist()
        for i, record in enumerate(records)
        if low <= (record.offset_delta or 0) <= high
        and since <= (record.timestamp_delta or 0) <= until
        and (key is None or key == record.key)
    ]


@given(batch_rows(), st.integers(0, 6))
def test_sum_batches(rows: array[int], cut: int) -> None:
    def summed(module: Any) -> list[int]:
        state = array("q", bytes(8 * module.SUM_FIELDS))
        for part in (rows[: cut * WIDTH], rows[cut * WIDTH :]):
            module.sum_batches(part, state)
        return state.tolist()

    assert summed(_select) == summed(ROWS)


@st.composite
def producer_batches(draw: st.DrawFn) -> bytes:
    """A batch of one of a few producers, which may be a marker, or nearly one."""
    few = st.sampled_from([0, 1, 2, 1 << 40, 2**63 - 1])
    given: Any = {
        "producer_id": draw(few | i64),
        "producer_epoch": draw(st.integers(-1, 2)),
        "transactional": draw(st.booleans()),
        "leader_epoch": draw(st.integers(-1, 2)),
        "delete_horizon": draw(st.booleans()),
        "base_timestamp": draw(st.integers(-2, 9) | i64),
        "max_timestamp": draw(i64),
    }
    offset = draw(st.integers(0, 99) | i64)
    if draw(st.booleans()):
        return batch(
            offset,
            [record()] * draw(st.integers(0, 2)),
            base_sequence=draw(st.integers(-1, 3) | st.just(2**31 - 1)),
            last_offset_delta=draw(st.integers(0, 5) | i32),
            **given,
        )
    marked = record(
        draw(
            st.sampled_from([bytes(6), bytes(5), b"\0\0\xff\xff\xff\xff", b"\x80" + bytes(6), None])
        ),
        draw(st.sampled_from([bytes(4), b"\0\0\0\1", b"\0\0\0\2", b"\x80\0\0\1", b"\0", None])),
        timestamp_delta=draw(st.none() | i64),
        length=draw(st.none() | st.integers(-1, 20) | st.just(2**40)),
    )
    return batch(
        offset,
        [marked] * draw(st.integers(0, 2)),
        control=True,
        count=draw(st.none() | st.integers(-1, 3)),
        timestamp_type=draw(st.sampled_from(["CreateTime", "LogAppendTime"])),
        codec=draw(st.sampled_from(["none", "none", "none", "gzip"])),
        **given,
    )


def gathered(module: Any, batches: list[bytes], first: int, room: int) -> list[object]:
    """Rows, runs and the rest of what a module gathers, room and bytes given as it asks."""
    rows, data = rows_of(batches), b"".join(batches)
    arrays = [
        columns(room * len(fields))
        for fields in (
            module.SEEN_FIELDS,
            _producers.RUN_FIELDS,
            _producers.EVENT_FIELDS,
            module.EPOCH_FIELDS,
        )
    ]
    slots = array("q", bytes(8 * 4))
    breaks = columns(len(module.BREAK_FIELDS) * _producers.LISTED)
    state = array("q", bytes(8 * module.GATHER_FIELDS))
    state[module.G_LAST] = -1
    stops: list[object] = []
    for part in (rows[: first * WIDTH], rows[first * WIDTH :]):
        number, view = 0, b""
        while True:
            producers, runs, events, epochs = arrays
            number = module.gather(
                part, number, view, 0, state, producers, slots, runs, events, epochs, breaks,
                columns(RECORD_WIDTH + 3),
            )  # fmt: skip
            stops.append((number, state[module.G_WHY]))
            if state[module.G_WHY] == _producers.MORE_BYTES:
                view = data
            elif state[module.G_WHY] == _producers.MORE_ROOM:
                for each in arrays:
                    each.extend(each)
                slots = array("q", bytes(16 * len(slots)))
                module.hash_producers(arrays[0], len(module.SEEN_FIELDS), state[1], slots)
            else:
                break
    used = [
        each[: state[place] * len(fields)].tolist()
        for each, place, fields in zip(
            arrays,
            (module.G_PRODUCERS, module.G_RUNS, module.G_EVENTS, module.G_EPOCHS),
            (
                module.SEEN_FIELDS,
                _producers.RUN_FIELDS,
                _producers.EVENT_FIELDS,
                module.EPOCH_FIELDS,
            ),
            strict=True,
        )
    ]
    return [*stops, *used, state.tolist(), breaks.tolist()]


@given(
    st.lists(producer_batches() | usual_batches | extreme_batches() | legacy, max_size=12),
    st.integers(0, 12),
    st.integers(2, 4),
)
def test_gather(batches: list[bytes], first: int, room: int) -> None:
    assert gathered(_events, batches, first, room) == gathered(EVENTS, batches, first, room)


def folded(
    module: Any, events_module: Any, segments: list[tuple[array[int], array[int]]]
) -> list[object]:
    """The results of a module's replay, segment by segment."""
    producers, slots = columns(2 * len(module.STATE_FIELDS)), array("q", bytes(8 * 4))
    aborted = columns(len(module.ABORTED_FIELDS))
    state = array("q", bytes(8 * module.FOLD_FIELDS))
    state[module.F_OLDEST] = state[module.F_NEWEST] = -1
    found: list[object] = []
    for number, (events, runs) in enumerate(segments):
        violations = columns(len(module.VIOLATION_FIELDS) * _producers.KINDS * _producers.LISTED)
        for place in range(module.F_EVENT, module.FOLD_FIELDS):
            if place not in (module.F_OLDEST, module.F_NEWEST):
                state[place] = 0
        while True:
            module.fold(events, runs, number, state, producers, slots, aborted, violations)
            if state[module.F_WHY] != _producers.MORE_ROOM:
                break
            producers.extend(producers)
            aborted.extend(aborted)
            slots = array("q", bytes(16 * len(slots)))
            known = state[module.F_PRODUCERS]
            events_module.hash_producers(producers, len(module.STATE_FIELDS), known, slots)
        room = columns(3 * len(module.STATE_FIELDS))
        count = module.touched(producers, state[module.F_PRODUCERS], number, room)
        found += [count, room.tolist(), state.tolist(), violations.tolist()]
        found.append(aborted[: state[module.F_ABORTED] * len(module.ABORTED_FIELDS)].tolist())
    return found


@given(st.lists(st.lists(producer_batches(), max_size=12), max_size=3))
@pytest.mark.slow
def test_fold(parts: list[list[bytes]]) -> None:
    segments = []
    for batches in parts:
        _, *found = gathered(EVENTS, batches, 0, 64)
        runs, events = found[-5], found[-4]
        assert isinstance(runs, list)
        assert isinstance(events, list)
        segments.append((array("q", events), array("q", runs)))
    assert folded(_replay, _events, segments) == folded(REPLAY, EVENTS, segments)


def test_the_plain_build_needs_no_cython() -> None:
    assert HEADERS.COMPILED is False
    assert importlib.util.find_spec("cython") is not None
    assert (
        HEADERS.cython.__name__
        == LINES.cython.__name__
        == ROWS.cython.__name__
        == EVENTS.cython.__name__
        == REPLAY.cython.__name__
        == "kdump.format.nocython"
    )


@pytest.mark.parametrize("name", ["BATCH_FIELDS", "TALLY_FIELDS", "BAD_CRC"])
def test_the_constants_are_the_same(name: str) -> None:
    assert getattr(_headers, name) == getattr(HEADERS, name)


@pytest.mark.parametrize("name", ["RECORD_FIELDS", "READ", "BAD_END"])
def test_the_constants_of_records_are_the_same(name: str) -> None:
    assert getattr(_records, name) == getattr(RECORDS, name)


# --- index entries

entry_columns = st.lists(st.tuples(i64, i32, i32), max_size=8).map(
    lambda drawn: (
        array("q", [e[0] for e in drawn]),
        *(array("i", [e[n] for e in drawn]) for n in (1, 2)),
    )
)
entry_batch_rows = st.lists(
    st.builds(
        lambda position, size, base, last, magic, attributes, stamp, count: [
            position, size, base, last, 0, magic, 0, attributes, 0, stamp, 0, 0, 0, count,
        ],
        st.integers(0, 50), st.integers(0, 20), i64, i64, st.integers(-128, 127), i16, i64, i32,
    ),
    max_size=8,
).map(lambda rows: array("q", [number for row in rows for number in row]))  # fmt: skip


@given(entry_columns)
def test_disorder_of_entries(entries: tuple[array[int], array[int], array[int]]) -> None:
    stamps, offsets, positions = entries
    for room in (0, 2, 9):
        firsts = [columns(room) for _ in range(4)]
        for pair, module in ((firsts[:2], _entries), (firsts[2:], ENTRIES)):
            pair[0].append(module.disorder_of_offsets(offsets, positions, pair[0]))
            pair[1].append(module.disorder_of_times(stamps, offsets, pair[1]))
        assert firsts[:2] == firsts[2:]


def check_entries(
    module: Any,
    base: int,
    tables: list[array[int]],
    entries: tuple[array[int], array[int], array[int]],
    passed: int,
) -> list[list[int]]:
    stamps, offsets, positions = entries
    state, found = (
        array("q", bytes(8 * _entries.STATE_FIELDS)),
        columns(_entries.FOUND_NUMBERS),
    )
    times, found_times = array("q", state), columns(_entries.FOUND_NUMBERS)
    state[_entries.J_STOP] = times[_entries.J_STOP] = len(offsets)
    for rows in tables:
        module.judge_offsets(rows, base, offsets, positions, state, found)
        module.judge_times(rows, base, stamps, offsets, times, found_times)
        module.pass_over(positions, passed, state, found)
        times[_entries.J_DAMAGED] = passed & 1
    return [list(numbers) for numbers in (state, found, times, found_times)]


@given(i64, st.lists(entry_batch_rows, max_size=3), entry_columns, st.integers(-1, 60))
@pytest.mark.slow
def test_checks_of_entries(
    base: int,
    tables: list[array[int]],
    entries: tuple[array[int], array[int], array[int]],
    passed: int,
) -> None:
    compiled = check_entries(_entries, base, tables, entries, passed)
    assert compiled == check_entries(ENTRIES, base, tables, entries, passed)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 9)), max_size=40),
    st.sets(st.tuples(st.integers(0, 99), st.integers(0, 200)), max_size=9),
)
@pytest.mark.slow
def test_checks_of_entries_that_rise(
    sizes: list[tuple[int, int, int]], drawn: set[tuple[int, int]]
) -> None:
    rows, position, offset = array("q"), 0, 0
    for size, delta, stamp in sizes:
        rows.extend([position, size, offset, offset + delta, 0, 2, 0, 0, 0, stamp, 0, 0, 0, 1])
        position, offset = position + size, offset + delta + 1
    positions = sorted({position for _, position in drawn})
    offsets = sorted(offset for offset, _ in drawn)[: len(positions)]
    entries = (array("q", offsets), array("i", offsets), array("i", positions))
    half = len(sizes) // 2 * WIDTH
    tables = [rows[:half], rows[half:]]
    compiled = check_entries(_entries, 0, tables, entries, 0)
    assert compiled == check_entries(ENTRIES, 0, tables, entries, 0)
    assert compiled == check_entries(_entries, 0, [rows], entries, 0)


@given(st.lists(usual_batches | extreme_batches() | legacy, max_size=6))
def test_expected_headers(batches: list[bytes]) -> None:
    rows = rows_of(batches)
    found = []
    for kernel in (_digest, DIGEST):
        differences = columns(len(rows))
        known = array("q", bytes(16 * _digest.PRODUCERS))
        kernel.subtract_expected(rows, differences, known)
        again = array("q", differences)
        state = array("q", bytes(8 * (2 * _digest.PRODUCERS + 5)))
        end = sum(map(len, batches))
        reached = kernel.add_expected(again, 0, len(batches), 0, end, state)
        assert (reached, again) == (len(batches), rows)
        found.append((differences, known, state))
    assert found[0] == found[1]


@given(st.lists(i64 | st.integers(-300, 300), min_size=2 * WIDTH, max_size=2 * WIDTH), i64)
def test_expected_headers_of_any_numbers(numbers: list[int], known: int) -> None:
    found = []
    for kernel in (_digest, DIGEST):
        rows = array("q", numbers)
        state = array("q", [max(known, 0)] * (2 * _digest.PRODUCERS + 5))
        reached = kernel.add_expected(rows, 0, 2, 0, 2**62, state)
        found.append((reached, rows[: (reached + 1) * WIDTH]))
    assert found[0] == found[1]


@given(st.lists(i64 | st.integers(-300, 300), max_size=9), st.integers(0, 1))
def test_planes(numbers: list[int], field: int) -> None:
    found = []
    for kernel in (_digest, DIGEST):
        rows = array("q", [number for pair in numbers for number in (pair, ~pair)])
        planes = bytearray(8 * len(numbers))
        count = kernel.put_planes(rows, field, 2, planes)
        again = array("q", bytes(8 * len(rows)))
        for k in (*range(1, count), 0)[:count]:
            plane = bytes(planes[k * len(numbers) : (k + 1) * len(numbers)])
            kernel.add_plane(plane, k, field, 2, again)
        assert again[field::2] == rows[field::2]
        found.append((count, planes))
    assert found[0] == found[1]


@given(
    st.lists(usual_batches | extreme_batches(), max_size=6),
    st.lists(st.tuples(i64 | st.integers(0, 9), i32), max_size=6),
    i64,
    st.booleans(),
)
@pytest.mark.slow
def test_folded_entries(
    batches: list[bytes], entries: list[tuple[int, int]], base: int, times: bool
) -> None:
    rows = rows_of(batches)
    form, name = (">qi", "times") if times else (">ii", "index")
    data = b"".join(
        struct.pack(form, first if times else first % 2**31, second) for first, second in entries
    )
    numbers = array("q", [number for entry in entries for number in entry])
    found = []
    for kernel in (_entries, ENTRIES):
        state = array("q", bytes(8 * _entries.INDEX_FIELDS))
        folded = columns(2 * len(entries))
        getattr(kernel, f"fold_{name}")(rows, data, base, state, folded)
        back = array("q", bytes(8 * _entries.INDEX_FIELDS))
        out = bytearray(len(data))
        getattr(kernel, f"unfold_{name}")(rows, numbers, base, back, out)
        found.append((state, folded, back, out))
    assert found[0] == found[1]
