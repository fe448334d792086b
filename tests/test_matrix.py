"""Every command, every kind of PATH, options at random: no bug, no hang, no change by reading.

A run that failed is shown with its seed. ``KDUMP_MATRIX_FIRST`` is the seed that all start from.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from matrix import World, draw, made, world

pytestmark = pytest.mark.once

FIRST = int(os.environ.get("KDUMP_MATRIX_FIRST", "0"))
#: A test is so many runs.
RUNS = 250


@pytest.fixture(scope="module")
def everything() -> Iterator[World]:
    with world() as here:
        yield here


def _numbers() -> Iterator[object]:
    for number in range(50_000 // RUNS):
        if number == 0:
            yield number
        elif number < 1500 // RUNS:
            yield pytest.param(number, marks=pytest.mark.slow)
        else:
            yield pytest.param(number, marks=pytest.mark.nightly)


@pytest.mark.parametrize("number", list(_numbers()))
def test_a_run_ends_in_words(number: int, everything: World) -> None:
    failed = []
    for seed in range(FIRST + number * RUNS, FIRST + (number + 1) * RUNS):
        drawn = draw(random.Random(seed), everything)
        failed += [f"{seed}: {drawn}: {wrong}" for wrong in made(drawn, everything)]
    assert not failed, "\n".join(failed[:10])
