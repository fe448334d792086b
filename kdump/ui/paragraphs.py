"""Paragraphs of at most 80 columns."""

from __future__ import annotations

import textwrap
from typing import Final

WIDTH: Final = 80
LABEL: Final = 12


def paragraph(label: str, text: str) -> str:
    """Return ``text`` in lines of at most 80 columns, indented; ``label`` begins the first line."""
    lines = wrap(text, LABEL)
    return "\n".join(lines).replace(" " * LABEL, f"{label:{LABEL}}", 1)


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
