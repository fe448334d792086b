"""Bars in SVG: logs as their segments, replicas by their offsets, topics by their size.

Kinds that are no solid colour have a pattern or an outline, which stays in print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from html import escape
from typing import Final

from kdump.values import frozen

_WIDTH: Final = 800
_HEIGHT: Final = 16
#: The least width of a part, so that one corrupt batch of a large log is seen.
_LEAST: Final = 3
#: Parts below this width have no border, which would hide them.
_BORDERED: Final = 5


class Kind(Enum):
    """What a part of a bar stands for: a class of the page's style, and a word of the legend."""

    SIZE = "size of its logs"
    VALID = "valid"
    UNREAD = "not read as a whole"
    REMOTE = "in remote storage"
    ALONE = "in no other replica"
    TAIL = "no whole batch"
    REMOVED = "records that the next startup removes"
    MISSING = "missing offsets"
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
    """A bar: its name, a text beside that, and parts, of which later ones lie on top."""

    name: str
    text: str
    parts: tuple[Part, ...]


def picture(title: str, bars: Sequence[Bar]) -> str:
    """Return bars on a common scale as an element of a page; texts may be hostile."""
    ends = [place for bar in bars for part in bar.parts for place in (part.begin, part.end)]
    low, high = min(ends, default=0), max(ends, default=0)
    scale = _WIDTH / max(high - low, 1)
    used = {part.kind for bar in bars for part in bar.parts}
    legend = " ".join(
        f'<svg class="key"><rect class="{kind.name.lower()}" width="12" height="12"/></svg>'
        f"{kind.value}"
        for kind in Kind
        if kind in used
    )
    rows = [line for bar in bars for line in _bar(bar, low, scale)]
    head = f"<figure><figcaption>{escape(title)}</figcaption>"
    return "\n".join([head, *rows, f"<p>{legend}</p></figure>"])


def _bar(bar: Bar, low: int, scale: float) -> Iterator[str]:
    yield f"<p><b>{escape(bar.name)}</b> {escape(bar.text)}</p>"
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
    for part in bar.parts:
        width = max((part.end - part.begin) * scale, _LEAST)
        left = min((part.begin - low) * scale, _WIDTH - width)
        thin = " thin" if width < _BORDERED else ""
        yield (
            f'<rect class="{part.kind.name.lower()}{thin}" x="{left:.1f}" width="{width:.1f}" '
            f'height="{_HEIGHT}"><title>{escape(part.text)}</title></rect>'
        )
    yield "</svg>"
