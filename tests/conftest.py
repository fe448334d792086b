"""Fixtures and rules that every test shares."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from brokers import jars
from brokers.oracle import Oracle
from fixtures_loader import copy_fixture

# What tests start as ``python -c`` reads the kdump that is installed and under test, not the
# sources that happen to lie in the working directory.
os.environ["PYTHONSAFEPATH"] = "1"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``broker`` skip where Java or Maven is missing; with ``CI`` set they fail."""
    if item.get_closest_marker("broker") is None:
        return
    reason = jars.missing()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI requires the broker tests", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Callable[[str], Oracle]]:
    """``oracle(version)``: the loader and dump tool of a Kafka release, one a release a session."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Oracle] = {}

        def of(version: str) -> Oracle:
            if version not in started:
                started[version] = stack.enter_context(Oracle(version))
            return started[version]

        yield of


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``grown(name)``: a fixture's log directory as the broker left it. For reading alone."""
    copies: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in copies:
            directory = tmp_path_factory.mktemp(name.replace("/", "-")) / "data"
            copies[name] = copy_fixture(name, directory)
        return copies[name]

    return of
