"""Bars in SVG: logs as their segments, replicas by their offsets, topics by their size.

Kinds of parts differ in their pattern too, so that they can be told apart in print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from html import escape
from typing import Final

from kdump.values import frozen

_WIDTH: Final = 800
_ROW: Final = 42
_BAR: Final = 16
#: The least width of a part, so that one corrupt batch of a large log is seen.
_LEAST: Final = 3


class Kind(Enum):
    """What a part of a bar stands for: a class of the page's style, and a word of the legend."""

    SIZE = "size of its logs"
    VALID = "valid"
    UNREAD = "not read as a whole"
    ALONE = "in no other replica"
    REMOTE = "in remote storage"
    REMOVED = "removed by the next startup"
    MISSING = "missing"
    CORRUPT = "corrupt"


@frozen
class Part:
    """A part of a bar from ``begin`` up to ``end``, exclusive, and its description."""

    begin: int
    end: int
    kind: Kind
    text: str


@frozen
class Bar:
    """A bar: its name, a text at its other end, and parts, of which later ones lie on top."""

    name: str
    text: str
    parts: tuple[Part, ...]


def picture(title: str, bars: Sequence[Bar]) -> str:
    """Return bars on a common scale as an element of a page; texts may be hostile."""
    ends = [place for bar in bars for part in bar.parts for place in (part.begin, part.end)]
    low, high = min(ends, default=0), max(ends, default=0)
    scale = _WIDTH / max(high - low, 1)
    height = _ROW * len(bars)
    rows = [line for row, bar in enumerate(bars) for line in _bar(bar, row * _ROW, low, scale)]
    used = {part.kind for bar in bars for part in bar.parts}
    legend = " ".join(
        f'<span class="{kind.name.lower()}"></span>{kind.value}' for kind in Kind if kind in used
    )
    return "\n".join(
        [
            f"<figure><figcaption>{escape(title)}</figcaption>",
            f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">',
            *rows,
            f"</svg><p>{legend}</p></figure>",
        ]
    )


def _bar(bar: Bar, top: int, low: int, scale: float) -> Iterator[str]:
    yield f'<text x="0" y="{top + 13}">{escape(bar.name)}</text>'
    yield f'<text x="{_WIDTH}" y="{top + 13}" text-anchor="end">{escape(bar.text)}</text>'
    for part in bar.parts:
        width = max((part.end - part.begin) * scale, _LEAST)
        left = min((part.begin - low) * scale, _WIDTH - width)
        yield (
            f'<rect class="{part.kind.name.lower()}" x="{left:.1f}" y="{top + 20}" '
            f'width="{width:.1f}" height="{_BAR}"><title>{escape(part.text)}</title></rect>'
        )
