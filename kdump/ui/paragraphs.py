"""Paragraphs of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Final

from kdump.format.lines.shell import shell_text

WIDTH: Final = 80
LABEL: Final = 12


def paragraph(label: str, text: str) -> str:
    """Return ``text`` in lines of at most 80 columns, indented; ``label`` begins the first line."""
    lines = wrap(text, LABEL)
    return "\n".join(lines).replace(" " * LABEL, f"{label:{LABEL}}", 1)


def command_line(command: Iterable[str]) -> str:
    """Return the line of a command below a step: a whole one, so that it can be pasted."""
    return f"{'':{LABEL + 2}}{shell_text(command)}"


def wrap(text: str, indent: int) -> list[str]:
    """Return ``text`` in lines of at most 80 columns, unless a single word is longer."""
    margin = " " * indent
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
