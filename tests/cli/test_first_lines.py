"""The first word of a report: what is known, and the command that checks what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from damaged import RECIPES
from fixtures_loader import ROOT, copy_fixture
from forge_metadata import METADATA
from resealing import places

import kdump.cli.main
from kdump.cli.ui import exits

pytestmark = pytest.mark.once

STATES = {
    "OK": "ok",
    "WARNING": "warning",
    "ERROR": "error",
    "NOT CHECKED": "not-checked",
    "INCOMPLETE": "incomplete",
}


class Cli:
    """Runs commands in this process: their lines, after a check that text and JSON agree."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def lines(self, *arguments: str | Path, code: int = exits.OK) -> list[str]:
        """The lines of a text report."""
        command = [str(argument) for argument in arguments]
        assert kdump.cli.main.main(command) == code
        return self.capsys.readouterr().out.splitlines()

    def state(self, *arguments: str | Path, code: int = exits.OK) -> str:
        """The first word of a report, which JSON has too."""
        first = self.lines(*arguments, code=code)[0]
        (word,) = [word for word in STATES if first.startswith(word)]
        *_, summary = map(json.loads, self.lines(*arguments, "--format", "json", code=code))
        assert summary["state"] == STATES[word]
        return word


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    copy_fixture("4.3.1/clean", Path("data"))
    return Path("data")


def recipe(name: str, target: Path) -> Path:
    (found,) = (each for each in RECIPES if each.name == name)
    return found.write(target)


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("kind", ["clean", "killed"])
@pytest.mark.parametrize("version", ["0.10.2.2", "2.8.2", "3.9.1", "4.3.1"])
def test_ok_stands_only_over_what_was_read(version: str, kind: str, cli: Cli) -> None:
    path = ROOT / "brokers" / version / kind
    assert cli.state("verify", path) == "OK"
    assert cli.state("verify", "--quick", path) == "NOT CHECKED"
    assert cli.state("next-start", "--scan", path) == "OK"
    # A clean shutdown leaves nothing to recover, but in the metadata log of a KRaft node.
    known = kind == "clean" and not (path / METADATA).exists()
    assert cli.state("next-start", path) == ("OK" if known else "NOT CHECKED")


def test_the_words_of_an_all_clear(cli: Cli, data: Path) -> None:
    assert joined(cli.lines("verify", data)[:2]) == (
        "OK 22 partitions, 1,929 records: every checksum matches. Startup recovers 18.94 KiB and "
        "removes no valid record."
    )
    assert joined(cli.lines("next-start", "--scan", data)[:2]) == (
        "OK 22 partitions; only what recovery reads was read. Startup recovers 18.94 KiB and "
        "removes no valid record."
    )


def test_what_was_not_read_has_the_command_that_reads_it(cli: Cli, data: Path) -> None:
    lines = cli.lines("verify", "--quick", data)
    assert joined(lines).startswith(
        "NOT CHECKED 22 partitions: nothing wrong in what was read (names, small files, ends of "
        "logs and indexes). Startup recovers at least 18.94 KiB; it may remove records. check with "
        "kdump verify data data: log directory"
    )
    assert "check with  kdump verify data" in lines
    assert "check with  kdump next-start --scan data" in cli.lines("next-start", data)


def test_a_metadata_log_that_loses_records_is_not_ok(cli: Cli, data: Path) -> None:
    (log,) = (data / METADATA).glob("*.log")
    content = bytearray(log.read_bytes())
    content[places(bytes(content))[20][1] - 1] ^= 1
    log.write_bytes(content)
    (data / ".kafka_cleanshutdown").unlink()
    assert cli.state("next-start", data) == "NOT CHECKED"
    assert cli.state("next-start", "--scan", data, code=exits.PROBLEMS) == "ERROR"


def test_a_clean_directory_is_known_without_a_scan(cli: Cli) -> None:
    path = ROOT / "brokers" / "2.8.2" / "clean"
    lines = cli.lines("next-start", path)
    assert joined(lines[:2]) == (
        "OK 31 partitions, closed cleanly; the contents of logs were not read. Startup recovers "
        "nothing and removes no valid record."
    )
    # A start that has to replay a segment depends on what is in it.
    data = path / "transactions-0"
    assert cli.state("next-start", "--clean", data) == "OK"


def test_an_error_is_one_at_any_depth(cli: Cli, data: Path) -> None:
    (data / "lost+found").mkdir()
    for command in (["verify"], ["verify", "--quick"], ["next-start"], ["next-start", "--scan"]):
        assert cli.state(*command, data, code=exits.PROBLEMS) == "ERROR"


def test_a_warning_needs_the_depth_that_finds_errors(cli: Cli, tmp_path: Path) -> None:
    path = recipe("torn-last", tmp_path)
    assert cli.state("verify", path) == "WARNING"
    assert cli.state("verify", "--quick", path) == "NOT CHECKED"
    text = joined(cli.lines("verify", "--quick", path))
    assert text.startswith("NOT CHECKED 1 partition, warnings in 1: nothing worse in what was read")


def test_what_cannot_be_read_is_incomplete(cli: Cli, data: Path) -> None:
    log = data / "codec-none-0" / "00000000000000000000.log"
    log.unlink()
    log.mkdir()
    (data / "codec-none-0" / "00000000000000000060.log").unlink()
    assert cli.state("verify", data, "nosuch", code=exits.INCOMPLETE) in ("ERROR", "INCOMPLETE")


def test_a_run_that_checked_no_byte_is_not_ok(cli: Cli, data: Path) -> None:
    assert cli.state("verify", data / "never-written-0") == "NOT CHECKED"
    first = joined(cli.lines("verify", data / "never-written-0")[:2])
    assert first.startswith("NOT CHECKED 1 partition: its logs hold no byte")


def test_a_scrub_that_has_read_everything_says_so(cli: Cli, data: Path) -> None:
    command = ["scrub", "--state", "state", data]
    for _ in range(2):  # the second run reads nothing, because nothing is due
        assert cli.state(*command) == "OK"
    assert cli.state("verify", "--changed-since-last", "--state", "state", data) in (
        "OK",
        "NOT CHECKED",
    )


def test_the_result_counts_what_is_ok(cli: Cli, data: Path) -> None:
    (line,) = (line for line in cli.lines("verify", data) if line.startswith("result"))
    assert line.startswith("result      22 OK; 27 notes hidden (--info); ")
