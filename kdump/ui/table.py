"""Tables of columns: rows as text, as JSON Lines and as CSV.

A column is added by one line: each form has it then.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import Any, Final, Generic, TypeVar, cast

from kdump.format.lines.text import printable
from kdump.ui import jsonl
from kdump.ui.paragraphs import WIDTH, wrap
from kdump.values import frozen

Row = TypeVar("Row")

NONE: Final = "-"
"""The text of a cell without a value."""
FIELDS: Final = "*"
"""The JSON name of a column whose value is a mapping of several fields."""


@frozen
class Column(Generic[Row]):
    """A column: its ``head`` in text and its ``name`` in JSON, each None where it is not in that.

    ``value`` is that of a row, for JSON; ``text`` makes text of one that is not None. ``csv`` says
    that CSV has it.
    """

    head: str | None
    name: str | None
    value: Callable[[Row], object]
    text: Callable[[Any], str] = str
    csv: bool = False


@frozen
class ReportTable(Generic[Row]):
    """Columns in the order of JSON, whose lines have ``kind`` as their type.

    The first ``key`` columns tell rows apart. In text the columns of ``heads`` come first. Behind
    the first ``always`` columns, those are left out that have no value in any row; None for all.
    """

    kind: str
    columns: tuple[Column[Row], ...]
    key: int = 1
    heads: tuple[str, ...] = ()
    always: int | None = None

    def key_and_rest(self, row: Row) -> tuple[dict[str, object], dict[str, object]]:
        """Return the fields of a row that tell it apart, and the others."""
        return _fields(self.columns[: self.key], row), _fields(self.columns[self.key :], row)

    def json(self, row: Row, **above: object) -> str:
        """Return the JSON line of a row, which begins with the fields ``above``."""
        return jsonl.line(self.kind, above | _fields(self.columns, row))

    def csv(self, row: Row, *above: object) -> str:
        """Return the line of a row in CSV, which begins with the values ``above``."""
        line = StringIO()
        values = (column.value(row) for column in self.columns if column.csv)
        csv.writer(line, lineterminator="").writerow([*above, *values])
        return line.getvalue()

    def text(self, rows: Sequence[Row], *, wide: bool) -> Iterator[str]:
        """Yield the lines of the table, indented by two, safe for terminals.

        A table of more than 80 columns becomes records, unless it may be ``wide``: the key of each
        row, and below it the name and the text of what else it has.
        """
        order = {head: place for place, head in enumerate(self.heads)}
        columns = sorted(
            (column for column in self.columns if column.head is not None),
            key=lambda column: order.get(str(column.head), len(order)),
        )
        table = [[str(column.head), *(_cell(column, row) for row in rows)] for column in columns]
        always = len(table) if self.always is None else self.always
        table = table[:always] + [cells for cells in table[always:] if set(cells[1:]) != {NONE}]
        widths = [max(map(len, cells)) for cells in table]
        if not wide and sum(widths) + 2 * len(widths) > WIDTH:
            yield from self._records(table)
            return
        for line in zip(*table, strict=True):
            cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
            yield f"  {'  '.join(cells)}".rstrip()

    def _records(self, table: list[list[str]]) -> Iterator[str]:
        key = {column.head for column in self.columns[: self.key]}
        heads, *rows = zip(*table, strict=True)
        for row in rows:
            first = [_pair(*pair) for pair in zip(heads, row, strict=True) if pair[0] in key]
            rest = [
                _pair(head, cell)
                for head, cell in zip(heads, row, strict=True)
                if head not in key and cell != NONE
            ]
            for line in [*wrap("  ".join(first), 2), *wrap("  ".join(rest), 4)]:
                yield line.replace("\0", " ")


def _cell(column: Column[Row], row: Row) -> str:
    value = column.value(row)
    return NONE if value is None else printable(column.text(value))


def _pair(head: str, cell: str) -> str:
    """Return a name and its text, with a character of no cell for spaces if one line has both."""
    pair = f"{head} {cell}"
    return pair if len(pair) > WIDTH - 4 else pair.replace(" ", "\0")


def _fields(columns: Sequence[Column[Row]], row: Row) -> dict[str, object]:
    found: dict[str, object] = {}
    for column in columns:
        if column.name == FIELDS:
            found |= cast(dict[str, object], column.value(row))
        elif column.name is not None:
            found[column.name] = column.value(row)
    return found
