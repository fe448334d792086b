"""The releases whose loaders tests run, as parameters; the newest at night."""

from __future__ import annotations

import pytest

from brokers.jars import RELEASES, USUAL, numbers

LOADERS = [
    pytest.param(version, marks=pytest.mark.nightly if numbers(version) > numbers(USUAL) else ())
    for version in sorted(RELEASES, key=numbers)
]
