"""Texts for people say Kafka's words: findings, ``--help``, guides and README."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kdump.audit.codes import CODES
from kdump.cli.main import cli
from kdump.commands.explain.broker_log.rows import findings as other
from kdump.commands.explain.broker_log.table import MESSAGES
from support.fixtures_loader import ROOT

TOP = ROOT.parent
#: What a text must not say, and what it says instead.
INSTEAD = {
    r"damag\w*": "corruption, corrupt, unreadable",
    r"sound": "valid, OK",
    r"(un)?clean(ly)? stop\w*": "clean shutdown, unclean shutdown",
    r"clean marker": "clean shutdown file",
    r"settings?": "configs, options",
    r"magic [012]": "message format v0, v1, v2",
    r"codecs?": "compression type",
    r"(?<!high )(?<!low )watermarks?": "high watermark",
    r"beside (a|the|its) (running )?brokers?": "while the broker is running",
    r"holes?|gaps?": "missing offsets",
    r"behind": "after",
    r"cuts?|cutting": "truncates, removes",
}
#: Names that stay: of commands and options, of states in reports, of libraries.
KEPT = re.compile(r"`[^`]*`|\*\*[^*]*\*\*|--[\w-]+|\"[^\"\n]{1,30}\"")
PATTERN = re.compile(rf"(?<![\w-])({'|'.join(INSTEAD)})(?![\w-])", re.IGNORECASE)


def wrong_words(text: str) -> list[str]:
    """What a text says wrongly, with some words around it."""
    plain = KEPT.sub(" ", text)
    return [
        " ".join(plain[max(match.start() - 40, 0) : match.end() + 30].split())
        for match in PATTERN.finditer(plain)
    ]


def prose(path: Path) -> str:
    """A document without its blocks of code, its comments, and headings that are codes."""
    return re.sub(r"(?ms)^ *```.*?^ *```$|<!--.*?-->|^### [a-z-]+$", "", path.read_text())


def findings() -> dict[str, str]:
    """The texts of each finding code, and of each message that ``explain`` knows."""
    of = {code.name: " ".join((code.meaning, code.broker, code.advice)) for code in CODES.values()}
    of |= {row.pattern: f"{row.happened} {row.advice}" for row in (*MESSAGES, *other.ROWS)}
    return of


def helps() -> dict[str, str]:
    """The ``--help`` of each command."""
    names = ["", *cli.list_commands(click.Context(cli))]
    runs = {name: CliRunner().invoke(cli, [*name.split(), "--help"]) for name in names}
    return {f"kdump {name} --help": run.output for name, run in runs.items()}


def documents() -> dict[str, str]:
    """The guides and README, without their blocks of code."""
    paths = (TOP / "README.md", *sorted((TOP / "man").glob("*.md")))
    return {path.name: prose(path) for path in paths}


@pytest.mark.parametrize("texts", [findings, helps, documents])
def test_texts_say_kafkas_words(texts: Callable[[], dict[str, str]]) -> None:
    found = {name: wrong for name, text in texts().items() if (wrong := wrong_words(text))}
    assert found == {}, f"say instead: {INSTEAD}"


def test_a_wrong_word_is_found() -> None:
    assert len(wrong_words("The log is Damaged. Its `settings` are the watermark's.")) == 2
    assert wrong_words("The high watermark, and --codec.") == []
