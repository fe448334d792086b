"""Log directories that ``--config`` names, and that are not mounted, empty, or cannot be named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support.fixtures_loader import copy_fixture

COMMANDS = pytest.mark.parametrize("command", ["verify", "next-start"])


def config(path: Path, *directories: Path | str, more: str = "") -> Path:
    """Write a server.properties that names ``directories``."""
    file = path / "server.properties"
    file.write_bytes(f"log.dirs={','.join(map(str, directories))}\n{more}".encode())
    return file


def findings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The errors of a run in JSON."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["type"] == "summary"
    return [line for line in lines if line.get("severity") in ("error", "incomplete")]


@COMMANDS
@pytest.mark.parametrize("name", ["data", "kafka-1"])
@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", "log-directory-missing"),
        ("process.roles=broker\nzookeeper.connect=a:2181", "log-directory-missing"),
        ("zookeeper.connect=a:2181", "log-directory-blank"),
    ],
)
def test_a_directory_that_is_not_mounted_is_an_error(
    command: str,
    name: str,
    made: bool,
    more: str,
    code: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if made:
        (tmp_path / name).mkdir()
    file = config(tmp_path, tmp_path / name, more=more)
    assert main([command, "--format", "json", "--config", str(file)]) == exits.PROBLEMS
    (finding,) = findings(capsys)
    assert (finding["code"], finding["path"]) == (code, str(tmp_path / name))
    assert main([command, "--config", str(file)]) == exits.PROBLEMS
    text = " ".join(capsys.readouterr().out.split())
    assert code in text
    start = "If the broker starts now, it creates missing replicas again, empty"
    if code == "log-directory-missing":
        start = "The broker DOES NOT START"
    lost = "Records may be missing: a log directory is missing"
    assert text.startswith(f"DO NOT START {start}. {lost}")


@COMMANDS
def test_the_other_directories_of_the_node_are_verified(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    file = config(tmp_path, data, tmp_path / "gone")  # the metadata log lies in the first one
    arguments = ["--format", "json", "--config", str(file)]
    assert main([command, *arguments]) == exits.PROBLEMS
    (finding,) = findings(capsys)
    assert finding["code"] == "log-directory-missing"
    # Named by hand, beside the configuration, it is the same directory.
    assert main([command, *arguments, str(tmp_path / "gone")]) == exits.PROBLEMS
    (finding,) = findings(capsys)
    assert finding["code"] == "log-directory-missing"
    # A path that the configuration does not name is a mistake in typing.
    assert main([command, *arguments, str(tmp_path / "other")]) == exits.INCOMPLETE
    (finding,) = findings(capsys)
    assert finding["code"] == "vanished"


def test_where_the_metadata_log_should_be_in_the_missing_one_both_stop_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    file = config(tmp_path, tmp_path / "gone", data)
    assert main(["verify", "--format", "json", "--config", str(file)]) == exits.PROBLEMS
    assert sorted((finding["code"], finding["path"]) for finding in findings(capsys)) == [
        ("log-directory-missing", str(tmp_path / "gone")),
        ("metadata-log-misplaced", str(data / "__cluster_metadata-0")),
    ]
    assert main(["next-start", "--config", str(file)]) == exits.PROBLEMS
    text = " ".join(capsys.readouterr().out.split())
    assert f"the metadata log in {tmp_path / 'gone'}, found it here" in text


@COMMANDS
@pytest.mark.parametrize("path", ["segment", "file"])
def test_a_configuration_may_go_with_any_path(
    command: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    (tmp_path / "bare-0").mkdir()
    log = tmp_path / "bare-0" / "00000000000000000000.log"
    log.write_bytes((data / "never-written-0" / log.name).read_bytes())
    named = log if path == "file" else log.parent
    file = config(tmp_path, tmp_path / "gone")
    assert main([command, "--config", str(file), str(named)]) == exits.OK
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["reindex", "truncate-to-valid", "convert-v0-v2"])
def test_a_repair_of_what_is_not_mounted_is_not_done(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, tmp_path / "gone")
    assert main([command, "--config", str(file)]) == exits.INCOMPLETE
    assert "expected the log directory that the configuration names" in capsys.readouterr().err
