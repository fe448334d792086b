"""The kernel's loops over offsets: both builds do what a few lines of Python say of them."""

from __future__ import annotations

from array import array
from itertools import accumulate, groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.format.batch import CONTROL, TRANSACTIONAL
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import ranges as _ranges
from support.kernel_builds import RECORD_WIDTH, WIDTH, i64, load_plain

PLAIN: Any = load_plain("kdump.format.kernel.ranges")
FIELDS = {name: place for place, name in enumerate(_headers.BATCH_FIELDS)}

HOUR = 3_600_000

small = st.integers(-2, 20)
offsets = small | i64
#: Of producers and leader epochs there are few, so that neighbours often have the same one.
few = st.integers(-1, 2)
attributes = st.sampled_from([0, TRANSACTIONAL, CONTROL, TRANSACTIONAL | CONTROL])

Pair = tuple[int, int]


@pytest.fixture(params=[_ranges, PLAIN], ids=["installed", "plain"], scope="module")
def kernel(request: pytest.FixtureRequest) -> Any:
    return request.param


def batch_row(**fields: int) -> list[int]:
    row = [0] * WIDTH
    for name, value in fields.items():
        row[FIELDS[name]] = value
    return row


batch_rows = st.builds(
    batch_row,
    base_offset=offsets,
    last_offset=offsets,
    leader_epoch=few,
    magic=st.integers(0, 2),
    attributes=attributes,
    producer_id=few,
    count=small | st.integers(-(2**31), 2**31 - 1),
)


@st.composite
def ranges(draw: st.DrawFn) -> list[Pair]:
    """Ranges that ascend."""
    ends = sorted(draw(st.lists(offsets, max_size=8, unique=True)))
    return list(zip(ends[::2], ends[1::2], strict=False))


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int]]:
    """Batches, how many records each has, and the offsets of all records."""
    batches = draw(st.lists(batch_rows, max_size=5))
    counts = [draw(st.integers(0, 4)) for _ in batches]
    found = draw(st.lists(offsets, min_size=sum(counts), max_size=sum(counts)))
    return batches, counts, found


def flat(rows: list[list[int]]) -> array[int]:
    return array("q", [number for row in rows for number in row])


def record_rows(found: list[int]) -> array[int]:
    """Rows of records; a number in each says which one it was."""
    return flat([[offset, *[number] * (RECORD_WIDTH - 1)] for number, offset in enumerate(found)])


def starts_of(counts: list[int]) -> array[int]:
    return array("q", accumulate(counts, initial=0))


def parted(numbers: array[int], width: int) -> list[list[int]]:
    return [numbers[at : at + width].tolist() for at in range(0, len(numbers), width)]


def inside(offset: int, pairs: list[Pair]) -> bool:
    return any(first <= offset <= last for first, last in pairs)


@given(run=runs(), below=offsets, pairs=ranges(), most=st.integers(0, 12))
def test_keep_in_ranges(
    kernel: Any,
    run: tuple[list[list[int]], list[int], list[int]],
    below: int,
    pairs: list[Pair],
    most: int,
) -> None:
    batches, counts, found = run
    rows, starts, copy = record_rows(found), starts_of(counts), flat(batches)
    kept = kernel.keep_in_ranges(
        rows, starts, copy, below, array("q", [end for pair in pairs for end in pair]), most
    )
    expected = [number for number, at in enumerate(found) if at < below and inside(at, pairs)][
        :most
    ]
    held = [
        [number for number in expected if start <= number < stop]
        for start, stop in pairwise(starts_of(counts))
    ]
    assert parted(copy, WIDTH)[:kept] == [
        row for row, one in zip(batches, held, strict=True) if one
    ]
    assert starts[: kept + 1] == starts_of([len(one) for one in held if one])
    assert [row[1] for row in parted(rows, RECORD_WIDTH)[: starts[kept]]] == expected


@given(
    batches=st.lists(batch_rows, max_size=8),
    below=offsets,
    left_out=st.dictionaries(few, ranges(), max_size=4),
)
def test_keep_committed(
    kernel: Any, batches: list[list[int]], below: int, left_out: dict[int, list[Pair]]
) -> None:
    rows = flat(batches)
    flattened = flat([[who, *pair] for who, pairs in sorted(left_out.items()) for pair in pairs])
    kept = kernel.keep_committed(rows, below, flattened)

    def committed(row: list[int]) -> bool:
        if row[FIELDS["magic"]] < 2:
            return True
        bits, offset = row[FIELDS["attributes"]], row[FIELDS["base_offset"]]
        if bits & CONTROL or offset >= below:
            return False
        pairs = left_out.get(row[FIELDS["producer_id"]], [])
        return not (bits & TRANSACTIONAL and inside(offset, pairs))

    assert parted(rows, WIDTH)[:kept] == [row for row in batches if committed(row)]


@given(found=st.lists(offsets, min_size=1, max_size=9))
def test_offset_bounds(kernel: Any, found: list[int]) -> None:
    assert kernel.offset_bounds(record_rows(found)) == (min(found), max(found))


times = st.sampled_from([-(2**63), -1, 0, HOUR - 1, HOUR, 2 * HOUR, 5 * HOUR, 2**63 - 1])


@given(found=st.lists(times, max_size=9))
def test_join_hours(kernel: Any, found: list[int]) -> None:
    rows, hours = record_rows(found), array("q", [7]) * (3 * len(found))
    rows[1::RECORD_WIDTH] = array("q", found)
    count = kernel.join_hours(rows, 5 * HOUR, hours)
    expected, start = [], 0
    for hour, group in groupby(time // HOUR if 0 <= time < 5 * HOUR else -1 for time in found):
        stop = start + len(list(group))
        expected.append([hour, start, stop])
        start = stop
    assert parted(hours, 3)[:count] == expected
    assert set(hours[3 * count :]) <= {7}


def is_dense(row: list[int]) -> bool:
    first, last, count = (row[FIELDS[name]] for name in ("base_offset", "last_offset", "count"))
    return count > 0 and last - first == count - 1


@given(batches=st.lists(batch_rows, min_size=1, max_size=6), data=st.data())
def test_count_dense(kernel: Any, batches: list[list[int]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(batches) - 1))
    stop = data.draw(st.integers(first + 1, len(batches)))
    count = kernel.count_dense(flat(batches), first, stop)
    kinds = [is_dense(row) for row in batches[first:stop]]
    assert (count > 0) == kinds[0]
    assert set(kinds[: abs(count)]) == {kinds[0]}
    assert abs(count) == len(kinds) or kinds[abs(count)] != kinds[0]


def joined(pieces: list[tuple[int, int, int]]) -> list[list[int]]:
    """Pieces of first, last and epoch; one that goes on with the one before is part of it."""
    result: list[list[int]] = []
    for first, last, epoch in pieces:
        if result and result[-1][1] + 1 == first and result[-1][2] == epoch:
            result[-1][1] = last
        else:
            result.append([first, last, epoch])
    return result


@given(batches=st.lists(batch_rows, max_size=8))
def test_join_batches(kernel: Any, batches: list[list[int]]) -> None:
    stretches = array("q", bytes(24 * len(batches)))
    count = kernel.join_batches(flat(batches), stretches)
    names = ("base_offset", "last_offset", "leader_epoch")
    pieces = [tuple(row[FIELDS[name]] for name in names) for row in batches]
    assert parted(stretches, 3)[:count] == joined(pieces)  # type: ignore[arg-type]


@given(run=runs())
def test_join_records(kernel: Any, run: tuple[list[list[int]], list[int], list[int]]) -> None:
    batches, counts, found = run
    starts, stretches = starts_of(counts), array("q", bytes(24 * len(found)))
    count = kernel.join_records(record_rows(found), starts, flat(batches), stretches)
    pieces = [
        (offset, offset, row[FIELDS["leader_epoch"]])
        for row, (start, stop) in zip(batches, pairwise(starts), strict=True)
        for offset in found[start:stop]
    ]
    assert parted(stretches, 3)[:count] == joined(pieces)


def test_offsets_that_go_on_are_one_stretch(kernel: Any) -> None:
    rows = flat(
        [batch_row(base_offset=at, last_offset=at + 4, leader_epoch=3) for at in (0, 5, 11)]
    )
    stretches = array("q", bytes(72))
    assert kernel.join_batches(rows, stretches) == 2
    assert parted(stretches, 3)[:2] == [[0, 9, 3], [11, 15, 3]]
