"""Follows what ``kdump compare`` advises: heal, then compare again."""

from __future__ import annotations

import shlex
from pathlib import Path

from kdump.ui import exits
from support.commands import repair
from support.crashing.running import run


def text_of(*arguments: str | Path) -> str:
    """The report of a comparison."""
    return run(["compare", *map(str, arguments)]).out


def commands_of(text: str) -> list[list[str]]:
    """The commands below ``next``, in their order."""
    _, _, steps = text.partition("\nnext ")
    lines = (line.strip() for line in steps.splitlines())
    return [shlex.split(line) for line in lines if line.startswith(("kdump ", "kafka-"))]


def follow(text: str) -> str:
    """Heal as a report says, then compare again as it says; the report of that."""
    commands = commands_of(text)
    heals = [words for words in commands if words[1] == "heal"]
    assert commands[: len(heals) + 1][-1][:2] == ["kdump", "compare"]
    for words in heals:
        ran = repair(*words[1:])
        assert ran.code in (exits.OK, exits.PROBLEMS), (words, ran)
        assert len(list(ran.of("receipt"))) == 1, (words, ran)
    return run(commands[len(heals)][1:]).out
