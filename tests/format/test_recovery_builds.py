"""The compiled and the plain build of recovery's loops give the same for any numbers.

So does one call over all rows, and one call for each of them.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.kernel import headers as _headers
from kdump.format.kernel import recovery as _recovery
from support.forge import batch, message, record
from support.kernel_builds import UNTOUCHED, columns, load_plain

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.recovery")
WIDTH = len(_headers.BATCH_FIELDS)
STATE = _recovery.RECOVERY_FIELDS

i64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 2**31, 2**63 - 1])
near = st.integers(-2, 40)


@st.composite
def tables(draw: st.DrawFn) -> list[list[int]]:
    """Rows of consecutive batches, with any offsets and timestamps, mostly likely ones."""
    rows, position = [], draw(st.sampled_from([0, 0, 700]))
    for _ in range(draw(st.integers(0, 8))):
        size = draw(st.integers(26, 300))
        base, last = draw(near | i64), draw(near | i64)
        row = dict.fromkeys(_headers.BATCH_FIELDS, 0) | {
            "position": position,
            "size": size,
            "base_offset": base,
            "last_offset": last,
            "magic": draw(st.sampled_from([0, 1, 2, 2, 2, 77])),
            "attributes": draw(st.sampled_from([0, 1])),
            "max_timestamp": draw(near | i64),
            "count": draw(st.integers(-1, 9)),
        }
        rows.append(list(row.values()))
        position += size
    return rows


@st.composite
def states(draw: st.DrawFn, position: int) -> array[int]:
    base = draw(st.sampled_from([0, 0, 1, 2**62, 2**63 - 1, -(2**63)]))
    state = dict.fromkeys(STATE, 0) | {
        "base": base,
        "origin": position,
        "interval": draw(st.sampled_from([0, 100, 4096])),
        "index_room": draw(st.sampled_from([0, 1, 100])),
        "time_room": draw(st.sampled_from([0, 2, 100])),
        "indexed_at": position,
        "indexed_offset": base,
        "time_timestamp": -1,
        "time_offset": base,
        "max_timestamp": -1,
        "max_offset": base,
    }
    return array("q", state.values())


UNCOUNTED = (0, 0, 0, -1, -1, -1, 0)

Run = tuple[list[int], list[int], list[int], list[int], list[bool]]


def run(build: Any, rows: list[list[int]], start: array[int], *, step: int) -> Run:
    """A whole recovery, ``step`` rows at a time: the state, counts, entries, and how it went."""
    state, counts = array("q", start), array("q", UNCOUNTED)
    entries: list[int] = []
    times: list[int] = []
    went: list[bool] = []
    for at in range(0, len(rows), step):
        part = rows[at : at + step]
        flat = array("q", [number for row in part for number in row])
        index, stamps = columns(2 * len(part)), columns(2 * len(part))
        stopped = build.recover(flat, 0, state, index, stamps)
        build.count(flat, 0, stopped, counts)
        entries += [number for number in index if number != UNTOUCHED]
        times += [number for number in stamps if number != UNTOUCHED]
        went.append(stopped == len(part))
        if not went[-1]:
            return state.tolist(), counts.tolist(), entries, times, went[-1:]
    last = columns(2)
    went.append(bool(build.close_times(state, last)))
    times += [number for number in last if number != UNTOUCHED]
    return state.tolist(), counts.tolist(), entries, times, went[-1:]


@given(st.data(), tables())
def test_recover(data: st.DataObject, rows: list[list[int]]) -> None:
    state = data.draw(states(rows[0][0] if rows else 0))
    found = run(_recovery, rows, state, step=max(len(rows), 1))
    assert found == run(PLAIN, rows, state, step=max(len(rows), 1))
    assert found == run(_recovery, rows, state, step=1)


@pytest.mark.parametrize("overflow_at", [None, 0, 127, 299])
def test_recover_over_many_rows(overflow_at: int | None) -> None:
    rows = []
    for number in range(300):
        last = 1 << 40 if number == overflow_at else number
        row = dict.fromkeys(_headers.BATCH_FIELDS, 0) | {
            "position": 100 * number,
            "size": 100,
            "base_offset": number,
            "last_offset": last,
            "magic": 2,
            "max_timestamp": 1000 + number % 7,
            "count": 1,
        }
        rows.append(list(row.values()))
    begin = dict.fromkeys(STATE, 0) | {"interval": 4096, "index_room": 99, "time_room": 99}
    start = array("q", begin.values())
    state, counts, *_ = found = run(_recovery, rows, start, step=300)
    assert found == run(PLAIN, rows, start, step=300)
    assert found == run(_recovery, rows, start, step=1)
    passed = 300 if overflow_at is None else overflow_at
    assert counts[:2] == [passed, passed]
    assert state[STATE.index("valid_bytes")] == 100 * passed


@given(tables(), st.integers(0, 8))
def test_count(rows: list[list[int]], first: int) -> None:
    flat = array("q", [number for row in rows for number in row])

    def counted(build: Any) -> list[int]:
        state = array("q", UNCOUNTED)
        build.count(flat, min(first, len(rows)), len(rows), state)
        return state.tolist()

    assert counted(_recovery) == counted(PLAIN)


valid_batches = st.builds(
    lambda base, size, delta, magic: batch(
        base, [record(b"v" * size)], last_offset_delta=delta, magic=magic
    ),
    near | i64,
    st.integers(0, 40),
    st.integers(-(2**31), 2**31 - 1) | near,
    st.sampled_from([2, 2, 3, 77]),
) | st.builds(
    lambda offset, codec: message(offset, b"v" * 9, attributes=codec), near, st.sampled_from([0, 1])
)


@given(st.lists(valid_batches | st.binary(max_size=40), max_size=6), i64 | near, st.integers(0, 90))
def test_follow(pieces: list[bytes], target: int, cut: int) -> None:
    content = b"".join(pieces)
    view = memoryview(content)[: max(len(content) - cut, 0)]

    def followed(build: Any) -> tuple[object, list[int]]:
        state = array("q", [target, 0, 0, 0, 0])
        return build.follow(view, 50, 50 + len(content), state), state.tolist()

    assert followed(_recovery) == followed(PLAIN)


def test_what_runs_is_what_is_written() -> None:
    assert PLAIN.cython.__name__ == "kdump.format.nocython"
    assert PLAIN.RECOVERY_FIELDS == STATE
