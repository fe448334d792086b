"""A command that does not exist: the error names one that does."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from kdump.cli.main import cli, main
from kdump.cli.synonyms import _SYNONYMS
from kdump.ui import exits
from support.fixtures_loader import ROOT


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == exits.USAGE
    found = capsys.readouterr()
    assert found.out == ""
    return found.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("verfy", "verify"),
        ("Verify", "verify"),
        ("nextstart", "next-start"),
        ("truncate-to-vaild", "truncate-to-valid"),
        ("qqq", "--help"),
        ("fsck", "verify DIRECTORY"),
        ("diff", "compare DIRECTORY..."),
        ("recover", "repair DIRECTORY"),
        ("truncate", "truncate-to-valid PARTITION"),
    ],
)
def test_a_word_leads_to_a_command(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, word, "data") == f"Error: No such command '{word}'. Run: kdump {meant}"


@pytest.mark.parametrize("word", sorted(_SYNONYMS))
def test_a_synonym_is_no_command_and_leads_to_one(word: str) -> None:
    names = cli.list_commands(click.Context(cli))
    assert word not in names
    meant = _SYNONYMS[word].replace(",", " ").split()[0]
    assert meant in names


def test_a_path_leads_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kafka logs").mkdir()
    words = {
        "kafka logs": "'kafka logs'",
        "nosuch/orders-0": "nosuch/orders-0",
        "s3://bucket/data": "s3://bucket/data",
        ".": ".",
    }
    for word, shown in words.items():
        error = f"Error: Expected a command, found a path. Run: kdump verify {shown}"
        assert refused(capsys, word) == error


def test_nothing_raw_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in refused(capsys, "\x1b[31m")
    assert "\x1b" not in refused(capsys, "/\x1b[31m")


@pytest.mark.parametrize("path", ["", "codec-none-0", f"codec-none-0/{0:020}.log"])
def test_check_of_logs_is_verify(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As every user of fsck means it; of an export it compares the files."""
    lines = []
    for command in ("check", "verify"):
        place = ROOT / "brokers/4.3.1/clean" / path
        assert main([command, "--format", "json", str(place)]) == exits.OK
        lines.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    summary = lines[0][-1]
    assert (summary["type"], summary["partitions"]) == ("summary", 1 if path else 22)
    assert [line["type"] for line in lines[0]] == [line["type"] for line in lines[1]]
    varying = {"seconds": 0, "next_starts": None}  # these have the free space
    assert summary | varying == lines[1][-1] | varying


def test_check_of_a_directory_that_is_neither(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").write_text("none of a broker")
    assert main(["check", str(tmp_path)]) == exits.INCOMPLETE
    said = capsys.readouterr().err
    assert (
        said
        == f"kdump: {tmp_path}: expected an export, found no _manifest.json: it was not finished\n"
    )


def test_version_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in (["version"], ["-V"], ["--version"]):
        assert main(words) == exits.OK
        printed.append(capsys.readouterr().out)
    assert printed[0].startswith("kdump ")
    assert len(set(printed)) == 1
