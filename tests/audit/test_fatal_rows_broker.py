"""The catalogue of starts that fail, held against starts of real brokers."""

from __future__ import annotations

import fcntl
import os
import pwd
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from audit.fatal_starts import RESTORED, ROWS, FatalStart, give
from brokers.broker import QUICK_RESTART, Broker, refused_start, watched_start
from support.commands import kdump
from support.fixtures_loader import copy_fixture

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SETTINGS = {"log.cleaner.enable": "true", **QUICK_RESTART}
CONFIRMED = [(row, version) for row in ROWS for version in row.confirmed]
#: Those of the newer release that run beside every change.
SAMPLE = random.Random(19).sample([each for each in CONFIRMED if each[1] == "4.3.1"], 3)


def made(row: FatalStart, version: str, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    data = copy_fixture(f"{version}/killed", tmp_path / "data")
    return data, SETTINGS | dict(row.make(data) or {})


@contextmanager
def held(data: Path) -> Iterator[None]:
    """Hold the lock of a log directory, as a running broker does."""
    with (data / ".lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@pytest.mark.parametrize(
    ("row", "version"),
    [
        pytest.param(*each, marks=() if each in SAMPLE else pytest.mark.nightly)
        for each in CONFIRMED
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_broker_ends_as_the_row_says(row: FatalStart, version: str, tmp_path: Path) -> None:
    data, settings = made(row, version, tmp_path)
    message = row.logged(version)
    with held(data) if row.locked else nullcontext():
        if row.continues:
            lines = watched_start(version, data, settings, message)
        else:
            remote = tmp_path if row.remote else None
            lines = refused_start(version, data, settings, remote=remote)
    assert any(message in line for line in lines), "\n".join(lines[-60:])
    if row.heal is not None:
        row.heal(data)
        assert kdump("next-start", data).code == 0
        with Broker(version, data, SETTINGS):
            pass


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that all users can reach."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


@pytest.mark.root
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("row", "version"),
    [(row, version) for row in RESTORED for version in row.confirmed],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_broker_of_an_ordinary_user_ends_so(
    row: FatalStart, version: str, reachable: Path
) -> None:
    user = pwd.getpwnam("nobody").pw_uid
    data = copy_fixture(f"{version}/killed", reachable / "data")
    (data / ".lock").touch()
    give(data, user)
    row.make(data)
    if row.continues:
        lines = watched_start(version, data, SETTINGS, row.logged(version), user)
    else:
        lines = refused_start(version, data, SETTINGS, user)
    assert any(row.logged(version) in line for line in lines), "\n".join(lines[-60:])
