"""Commands without a path: what they take, and that they say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdump.storage import liveness
from kdump.storage.liveness import Process
from kdump.ui import exits
from support.crashing.running import run
from support.fixtures_loader import copy_fixture

READING = {
    "verify": [],
    "next-start": [],
    "compare": [],
    "groups": [],
    "transactions": [],
    "metadata": [],
    "quorum": [],
    "export": ["--to", "exported"],
    "manifest": ["--to", "made.kdm"],
    "scrub": ["--state", "state"],
}
CHANGING = ("reindex", "truncate-to-valid", "heal", "convert-v0-v2")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KDUMP_CONFIG", raising=False)
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def runs(monkeypatch: pytest.MonkeyPatch, *brokers: tuple[int, Path]) -> None:
    """Have these brokers run on this host, and no other."""
    found = {Process(pid, "java"): (path,) for pid, path in brokers}
    monkeypatch.setattr(liveness, "running_directories", lambda: found)


@pytest.mark.parametrize("command", READING)
def test_the_running_broker_is_taken_and_named(
    command: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (12, directory))
    found = run([command, *READING[command]])
    assert found.err.startswith(
        f"kdump: no PATH is given: takes the log directories of process 12 (java): {directory}\n"
    )
    assert found.code in (exits.OK, exits.PROBLEMS), found


@pytest.mark.parametrize("command", READING)
def test_the_config_of_the_environment_comes_first(
    command: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (12, directory / "not this"))
    config = directory.parent / "server.properties"
    config.write_text(f"log.dirs={directory}\nnode.id=1\nprocess.roles=broker,controller\n")
    monkeypatch.setenv("KDUMP_CONFIG", str(config))
    found = run([command, *READING[command]])
    assert f"takes the log directories in {config} (KDUMP_CONFIG)\n" in found.err
    assert found.code in (exits.OK, exits.PROBLEMS), found


def test_a_path_or_a_config_is_all_that_is_taken(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (12, directory / "not this"))
    monkeypatch.setenv("KDUMP_CONFIG", "no such file")
    assert run(["verify", str(directory)]).err == ""
    config = directory.parent / "server.properties"
    config.write_text(f"log.dirs={directory}\n")
    assert "KDUMP_CONFIG" not in run(["verify", "--config", str(config)]).err


def test_a_quiet_run_says_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, (12, directory))
    found = run(["verify", "--quiet"])
    assert (found.code, found.out, found.err) == (exits.OK, "", "")


@pytest.mark.parametrize("brokers", [(), (12, 13)])
def test_no_broker_or_several_is_wrong_usage(
    brokers: tuple[int, ...], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, *((pid, directory) for pid in brokers))
    found = run(["verify"])
    assert found.code == exits.USAGE
    what = f"process 12 (java): {directory}; process 13" if brokers else "none"
    assert f"expected one broker that is running on this host, found {what}" in found.err


@pytest.mark.parametrize("command", CHANGING)
def test_what_changes_files_is_told_where(
    command: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(monkeypatch, (12, directory))
    monkeypatch.setenv("KDUMP_CONFIG", str(directory / "server.properties"))
    found = run([command])
    assert found.code == exits.USAGE
    assert "takes" not in found.err
