"""Prints what was measured, a line at a time, each figure beside the one that is wanted."""

from __future__ import annotations

from dataclasses import dataclass

_LINE = "{:<22}{:>20}{:>38}{:>12}{:>12}  {}"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of kdump's: a ratio to what it is held ``against``, or a number of ``unit``.

    ``kdump`` and ``against`` say what was measured on both sides, ``least`` or ``most`` what the
    figure should be, if anything was promised.
    """

    name: str
    kdump: str
    against: str
    figure: float
    unit: str = "x"
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure is what was promised."""
        if self.least is not None:
            return self.figure >= self.least
        return self.most is None or self.figure <= self.most


def heading() -> str:
    """The line above all rows."""
    return _LINE.format("measured", "kdump", "against", "figure", "wanted", "").rstrip()


def line(row: Row) -> str:
    """One row as a line."""
    wanted = verdict = ""
    if row.least is not None or row.most is not None:
        bound = f">= {row.least:g}" if row.least is not None else f"<= {row.most:g}"
        wanted = f"{bound} {row.unit}"
        verdict = "met" if row.met else "MISSED"
    figure = f"{row.figure:.3g} {row.unit}"
    return _LINE.format(row.name, row.kdump, row.against, figure, wanted, verdict).rstrip()
