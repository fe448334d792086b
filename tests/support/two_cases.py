"""A plugin of pytest: of each test the first two cases, in a run that asks for modules, not values.

``pytest -p support.two_cases`` with tests on PYTHONPATH loads it.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out further cases of the same function."""
    seen = Counter[str]()
    taken = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if seen[test] <= 2:
            taken.append(item)
    items[:] = taken
