"""kdump help: the manual as man shows it, or as text; what is installed is what is written."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import click
import pytest

from kdump.cli.main import _QUESTIONS, cli, main
from kdump.ui import exits

pytestmark = pytest.mark.once

MAN = Path(__file__).resolve().parents[3] / "man"
GUIDES = sorted(path.stem.removeprefix("kdump-") for path in MAN.glob("*.md"))
COMMANDS = cli.list_commands(click.Context(cli))
KDUMP = Path(sys.executable).parent / "kdump"


#: The most lines of a ``--help``, and of that of kdump.
BRIEF, FIRST_SCREEN = 60, 34


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(argv) == exits.OK
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


@pytest.mark.parametrize("asked", [("--help",), ("-h",), ()])
def test_the_first_screen(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """One line each of what people want to know, and of each command in its group."""
    code = main(asked)
    found = capsys.readouterr()
    assert (code, found.err) == ((exits.OK, "") if asked else (exits.USAGE, found.err))
    lines = (found.out or found.err).splitlines()
    assert len(lines) <= FIRST_SCREEN
    assert max(map(len, lines)) <= 80
    end = lines.index("", 3)
    groups = [line.split(":")[0] for line in lines[end:] if line[:1].strip()]
    assert groups[:-1] == ["Check", "Repair", "Cluster, replicas, records"]
    assert lines[-1].startswith("kdump help lists guides")
    listed = [line.split()[0] for line in lines[end:] if line.startswith("  ")]
    assert sorted([*listed, "help"]) == COMMANDS
    asks = [re.split(r"\? +kdump ", line) for line in lines[3:end]]
    assert len(asks) == sum(run.split()[1] in COMMANDS for run in _QUESTIONS.values())
    assert all(question.strip() and run.split()[0] in COMMANDS for question, run in asks)


def test_without_a_topic_commands_and_guides_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "help")
    commands, guides = text.split("\nGuides:\n")
    assert commands == printed(capsys, "--help")
    guides, about = guides.split("\n\n", 1)
    listed = [line.split()[0] for line in guides.splitlines() if line[2:3].strip()]
    assert listed == GUIDES
    assert "what to do, step by step, when a broker's" in guides
    assert "_KDUMP_COMPLETE=bash_source" in about
    assert "\nExit codes: 0 clean, or done; 1 a bug in kdump;" in about
    assert text == printed(capsys, "help", "kdump")


@pytest.mark.parametrize("name", COMMANDS)
def test_of_a_command_its_page_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has all options and exit codes; ``--help`` fits a screen or two."""
    text = printed(capsys, "help", name)
    assert text == printed(capsys, "help", f"kdump-{name}")
    assert "\n  Exit codes: 0 " in text
    brief = printed(capsys, name, "--help")
    assert len(brief.splitlines()) <= BRIEF
    assert max(map(len, brief.splitlines())) <= 80
    assert brief.endswith(f"\n\nExit codes, and all about each option: kdump help {name}\n")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for parameter in command.params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert f"{option}" in brief.replace("[", " ").replace(",", " ").split()


@pytest.mark.parametrize("name", GUIDES)
def test_of_a_guide_its_text_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "help", name)
    assert text.startswith((f"# kdump-{name}(5): ", f"# kdump-{name}(7): "))
    assert "<!--" not in text
    written = (MAN / f"kdump-{name}.md").read_text().splitlines()
    assert set(text.splitlines()) <= set(written)
    assert len(text.splitlines()) > 0.9 * len(written)


@pytest.mark.parametrize("name", ["verify.json", "common.json"])
def test_the_schemas_of_json_lines_are_printed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (MAN / "schemas" / name).read_text()
    assert printed(capsys, "help", name) == text
    assert on_terminal(tmp_path, "help", name) == text


def test_an_unknown_topic_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "torn-tail"]) == exits.USAGE
    said = capsys.readouterr().err
    assert "No page called torn-tail. There are check, compare, convert-v0-v2, " in said
    assert "kdump explain CODE explains a finding." in said


def on_terminal(folder: Path, *argv: str) -> str:
    """What ``kdump argv`` writes to a terminal, with the programs of ``folder`` alone."""
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    with subprocess.Popen(
        [KDUMP, *argv],
        env={"PATH": str(folder), "TERM": "xterm", "PAGER": "/bin/cat"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        said = b""
        with suppress(OSError):  # its other end is closed
            while piece := os.read(master, 65536):
                said += piece
    os.close(master)
    assert process.returncode == exits.OK
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("page", ["kdump.1", "kdump-verify.1", "kdump-incident.7"])
def test_on_a_terminal_man_gets_the_page(page: str, tmp_path: Path) -> None:
    program = tmp_path / "man"
    program.write_text('#!/bin/sh\n[ "$*" = "-l -" ] && exec /bin/cat\n')
    program.chmod(0o755)
    shown = on_terminal(tmp_path, "help", page.partition(".")[0])
    assert shown == (MAN / page).read_text()


def test_without_man_or_where_it_fails_the_text_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "help", "verify")
    assert on_terminal(tmp_path, "help", "verify") == text
    guide = on_terminal(tmp_path, "help", "incident")
    assert guide.split() == printed(capsys, "help", "incident").split()
    long = [line for line in guide.splitlines() if len(line) > 80]
    assert set(long) <= set(printed(capsys, "help", "incident").splitlines())
    program = tmp_path / "man"
    program.write_text('#!/bin/sh\necho "unrecognized option: l" >&2; exit 1\n')
    program.chmod(0o755)
    assert on_terminal(tmp_path, "help", "verify") == text


def test_the_indentation_of_a_docstring_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    about = printed(capsys, "help").partition("\nGuides:\n")[2].partition("\n\n")[2]
    assert about.startswith("Reading is safe at any time")
    assert "repair show a plan, and change nothing without --apply." in " ".join(about.split("\n"))
    assert "  " not in about
