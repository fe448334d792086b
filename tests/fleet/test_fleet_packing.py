"""Packs of tasks: their sizes, their number, and that they leave nothing out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.fleet.job.packing import pack_tasks

pytestmark = pytest.mark.once

MB = 1 << 20


@given(st.lists(st.integers(0, 3 << 30), max_size=200), st.integers(1, 64))
def test_packs_tile_the_tasks_in_order(sizes: list[int], cores: int) -> None:
    found = pack_tasks(sizes, cores)
    assert [number for pack in found for number in pack] == list(range(len(sizes)))
    assert all(found)
    for pack in found:
        assert len(pack) == 1 or sum(sizes[number] for number in pack) <= 512 * MB


@pytest.mark.parametrize(
    ("sizes", "cores", "count"),
    [
        ([], 2, 0),
        ([0], 2, 1),
        ([20] * 6000, 2, 6),  # tiny ones: few packs, not too few for the cores
        ([1 << 30] * 8, 2, 8),  # none is split, nor put beside another
        ([10 * MB] * 30, 2, 6),  # as many for each core
        ([10 * MB] * 30, 64, 5),  # below the least size more cores do not help
        ([10 * MB] * 3000, 1, 63),  # above the largest size fewer do not either
    ],
)
def test_how_many_packs_there_are(sizes: list[int], cores: int, count: int) -> None:
    assert len(pack_tasks(sizes, cores)) == count


@pytest.mark.parametrize(("size", "count"), [(52 * MB, 60), (52 * MB, 61), (3 * MB, 1000)])
def test_no_pack_is_larger_than_it_must_be(size: int, count: int) -> None:
    found = [len(pack) for pack in pack_tasks([size] * count, 2)]
    assert max(found) == -(-count // len(found))
    assert len(found) % 2 == 0
