"""Tables of columns as wide as their longest cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.format.lines.text import printable

NONE: Final = "-"
"""The text of a cell without a value."""


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], always: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table with its ``head``, indented by two, safe for terminals.

    Behind the first ``always`` columns, those are left out that have no value in any row; None for
    all columns.
    """
    always = len(head) if always is None else always
    columns = [
        [printable(cell) for cell in column]
        for number, column in enumerate(zip(head, *rows, strict=True))
        if number < always or set(column[1:]) != {NONE}
    ]
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns, strict=True):
        cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
