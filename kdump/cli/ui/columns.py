"""Tables in columns that are as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kdump.format.lines.text import printable


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield ``rows`` of equal length as lines, indented by two blanks and safe for terminals."""
    printed = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*printed, strict=True)]
    for line in printed:
        cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
