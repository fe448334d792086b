"""The catalogue of starts that fail: each row is forecast in every mode that can see it."""

from __future__ import annotations

import pwd
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import kdump
from fatal_starts import MODES, RESTORED, ROWS, FatalStart, give
from fixtures_loader import copy_fixture
from long_samples import first_of

VERSION = "4.3.1"


def states(row: FatalStart, state: str, tmp_path: Path, user: int = 0) -> tuple[Path, Path]:
    """The log directory in the state of a row, and the configuration of its broker."""
    data = copy_fixture(f"{VERSION}/{state}", tmp_path / "data")
    if user:
        give(data, user)
    settings = {"node.id": "1", "process.roles": "broker,controller", "log.dirs": str(data)}
    settings |= row.make(data) or {}
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return data, config


def missed(row: FatalStart, state: str, tmp_path: Path, user: int = 0) -> list[str]:
    """The modes that do not forecast the row; the log directory is of ``user``."""
    data, config = states(row, state, tmp_path, user)
    wrong = []
    for mode in MODES:
        if mode in row.unseen:
            continue
        ways: list[list[str | Path]] = [["--config", config]]
        if not row.by_config:
            ways.append([data])
        for way in ways:
            ran = kdump(*mode, *way, searching=False)
            (summary,) = ran.of("summary")
            outcomes = {start["outcome"] for start in summary["next_starts"]}
            found = {line["code"] for line in ran.of("finding")}
            named = mode[0] == "next-start" or mode in row.unnamed or row.code in found
            absent = row.code.startswith("log-directory-")  # it has no forecast of its own
            if ran.code != 4 or not named or (row.outcome not in outcomes and not absent):
                wrong.append(f"{mode} {way}: {ran.code} {outcomes} {sorted(found)} {ran.said}")
    return wrong


def sample(rows: Sequence[FatalStart]) -> list[object]:
    """Two rows run always, every twelfth one beside each change, the others at night."""
    return [
        row
        if number < 2
        else pytest.param(row, marks=pytest.mark.nightly if number % 12 else pytest.mark.slow)
        for number, row in enumerate(rows)
    ]


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("row", sample(ROWS), ids=lambda row: row.name)
def test_each_row_is_forecast_in_every_mode(row: FatalStart, state: str, tmp_path: Path) -> None:
    assert missed(row, state, tmp_path) == []


@pytest.mark.root
@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("row", first_of(RESTORED), ids=lambda row: row.name)
def test_each_row_about_rights_is_forecast(row: FatalStart, state: str, tmp_path: Path) -> None:
    assert missed(row, state, tmp_path, pwd.getpwnam("nobody").pw_uid) == []


def test_names_are_unique() -> None:
    assert len({row.name for row in (*ROWS, *RESTORED)}) == len(ROWS) + len(RESTORED)
