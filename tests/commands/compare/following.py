"""Follows what ``kdump compare`` advises: repair, then compare again."""

from __future__ import annotations

import shlex
from pathlib import Path

from kdump.ui import exits
from support.commands import repair
from support.crashing.running import run

REPAIRS = ("truncate-to-valid", "heal")


def text_of(*arguments: str | Path) -> str:
    """The report of a comparison."""
    return run(["compare", *map(str, arguments)]).out


def commands_of(text: str) -> list[list[str]]:
    """The commands below ``next``, in their order."""
    _, _, steps = text.partition("\nnext ")
    lines = (line.strip() for line in steps.splitlines())
    return [shlex.split(line) for line in lines if line.startswith(("kdump ", "kafka-"))]


def follow(text: str) -> str:
    """Repair as a report says, then compare again as it says; the report of that."""
    commands = commands_of(text)
    repairs = [words for words in commands if words[1] in REPAIRS]
    assert commands[: len(repairs) + 1][-1][:2] == ["kdump", "compare"]
    for words in repairs:
        ran = repair(*words[1:])
        assert ran.code in (exits.OK, exits.PROBLEMS), (words, ran)
        assert len(list(ran.of("receipt"))) == 1, (words, ran)
    return run(commands[len(repairs)][1:]).out
