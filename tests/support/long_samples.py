"""Samples of tests that take long: a few run always, the others are ``slow``, or run at night."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def first_of(values: Iterable[object], count: int = 1, every: int = 3) -> tuple[object, ...]:
    """The values as parameters.

    Of those after the first ``count`` one in ``every`` is ``slow``, the others are ``nightly``.
    """
    return tuple(
        value
        if number < count
        else pytest.param(
            value, marks=pytest.mark.nightly if (number - count) % every else pytest.mark.slow
        )
        for number, value in enumerate(values)
    )


def first_of_each(values: Iterable[str], key: Callable[[str], object]) -> tuple[object, ...]:
    """The values as parameters; those whose ``key`` came before are ``slow``."""
    seen = set[object]()
    found: list[object] = []
    for value in values:
        again = key(value) in seen
        seen.add(key(value))
        found.append(pytest.param(value, marks=pytest.mark.slow) if again else value)
    return tuple(found)


def wrong_seeds(
    wrong: Callable[[int, Path], list[str]], place: Path, few: int, many: int
) -> dict[int, list[str]]:
    """What ``wrong`` finds in ``many`` seeds, each in a directory of its own below ``place``.

    They are those of this night (KDUMP_NIGHT), behind the ``few`` that run always.
    """
    found = {}
    first = few + int(os.environ.get("KDUMP_NIGHT", "0")) * many
    for seed in range(first, first + many):
        top = place / str(seed)
        top.mkdir()
        if bad := wrong(seed, top):
            found[seed] = bad
    return found
