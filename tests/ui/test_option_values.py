"""Values of options that no command can work with are wrong usage, in words, before any work."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from kdump.cli.main import cli, main
from kdump.ui import exits
from support.fixtures_loader import ROOT

pytestmark = pytest.mark.once

PARTITION = ROOT / "brokers/4.3.1/clean/never-written-0"


def _commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    assert isinstance(cli, click.Group)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


COMMANDS = _commands()
NUMBERS = [
    (name, parameter.opts, parameter.type)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if isinstance(parameter.type, click.IntRange)
]


@pytest.mark.parametrize(("command", "options", "kind"), NUMBERS)
def test_a_number_out_of_range_is_wrong_usage(
    command: str, options: list[str], kind: click.IntRange, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kind.min is not None
    assert kind.max is not None
    for number in (kind.min - 1, kind.max + 1, 1 << 63, 1 << 70):
        assert main([command, f"{options[0]}={number}", "anything-0"]) == exits.USAGE
        named = " / ".join(f"'{option}'" for option in options)
        assert f"Invalid value for {named}: {number} is not in the range" in _said(capsys)


@pytest.mark.parametrize(
    ("command", "option"),
    [("reindex", "--index-interval-bytes"), ("reindex", "--segment-index-bytes")],
)
def test_the_largest_setting_is_one(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, option, str(2**31 - 1), str(PARTITION)]) == exits.OK
    assert _said(capsys) == ""


@pytest.mark.parametrize("command", ["verify", "next-start", "reindex"])
@pytest.mark.parametrize("name", [r"/a\u0000b", r"/a,/b\ud800"])
def test_a_log_directory_that_no_path_can_name_is_wrong_usage(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.properties").write_text(f"log.dirs={name}\n")
    assert main([command, "--config", str(tmp_path / "server.properties")]) == exits.USAGE
    assert "expected paths of log directories in the configuration, found" in _said(capsys)


@pytest.mark.parametrize("command", ["salvage", "convert-v0-v2"])
@pytest.mark.parametrize("path", ["{}", "{}/b"])
def test_an_output_whose_name_is_too_long_is_refused(
    command: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / path.format(300 * "x")
    assert main([command, "--output", str(output), str(PARTITION)]) == exits.REFUSED
    assert "File name too long" in _said(capsys)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("topic_id", ["\udcff", "x", "", "ö" * 22])
def test_a_topic_id_that_is_none_is_wrong_usage(
    topic_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "out")
    arguments = ["salvage", "--output", output, f"--topic-id={topic_id}", str(PARTITION)]
    assert main(arguments) == exits.USAGE
    assert "expected a topic id as kafka-topics.sh prints it" in _said(capsys)


def _said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
