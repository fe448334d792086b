"""Parameters of tests that take long: a few run always, the others are ``slow``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def first_of(values: Iterable[object], count: int = 1) -> tuple[object, ...]:
    """The values as parameters; those after the first ``count`` are ``slow``."""
    return tuple(
        value if number < count else pytest.param(value, marks=pytest.mark.slow)
        for number, value in enumerate(values)
    )
