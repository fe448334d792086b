"""Every command, every kind of PATH, options at random: no bug, no hang, no change by reading.

A run that failed is shown with its seed. ``KDUMP_MATRIX_FIRST`` is the seed that all start from.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from support.matrix import World, addressed, draw, made, world
from support.object_stores import served

pytestmark = pytest.mark.once

FIRST = int(os.environ.get("KDUMP_MATRIX_FIRST", "0"))
#: A test is so many runs.
RUNS = 250


@pytest.fixture(scope="module")
def everything() -> Iterator[World]:
    with world() as here:
        yield here


def _numbers() -> Iterator[object]:
    for number in range(25_000 // RUNS):
        yield pytest.param(number, marks=pytest.mark.nightly if number else pytest.mark.slow)


@pytest.mark.root
@pytest.mark.parametrize("number", list(_numbers()))
def test_a_run_ends_in_words(number: int, everything: World) -> None:
    assert _failed(everything, range(FIRST + number * RUNS, FIRST + (number + 1) * RUNS)) == ""


@pytest.mark.nightly
def test_a_run_on_an_object_store_ends_in_words(everything: World) -> None:
    with served() as server:
        there = addressed(everything, server.bucket("copies"))
        assert _failed(there, range(FIRST, FIRST + 100)) == ""


def _failed(world: World, seeds: range) -> str:
    """What is wrong with runs, a line each."""
    failed = []
    for seed in seeds:
        drawn = draw(random.Random(seed), world)
        failed += [f"{seed}: {drawn}: {wrong}" for wrong in made(drawn, world)]
    # Names that are no UTF-8 do not come through from a worker of xdist.
    return "\n".join(failed[:10]).encode(errors="backslashreplace").decode()
