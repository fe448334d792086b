"""Lists in which equal entries are counted after the first few.

JSON Lines list all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kdump.values import frozen

#: The number of equal entries that are listed.
LISTED: Final = 3


@frozen
class FoldedEntry:
    """The lines of an entry; entries with an equal ``likeness`` say the same of other files."""

    lines: tuple[str, ...]
    likeness: str


def likeness(text: str, *names: str) -> str:
    """Return ``text`` without ``names``, of which the longer ones come first."""
    for name in names:
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "*", text) if name else text
    return text


def fold(entries: Iterable[FoldedEntry]) -> Iterator[str]:
    """Yield the lines of ``entries``, and after the third equal one how many more there are."""
    entries = tuple(entries)
    counts, seen = Counter(entry.likeness for entry in entries), Counter[str]()
    for entry in entries:
        seen[entry.likeness] += 1
        if seen[entry.likeness] <= LISTED:
            yield from entry.lines
        if seen[entry.likeness] == LISTED < counts[entry.likeness]:
            yield f"       {more_text(counts[entry.likeness] - LISTED)}"


def fold_texts(texts: Sequence[str], likenesses: Sequence[str]) -> Iterator[str]:
    """Yield ``texts``, and after the third equal one how many more there are."""
    for line in fold(
        FoldedEntry((text,), like) for text, like in zip(texts, likenesses, strict=True)
    ):
        yield line.lstrip()


def more_text(count: int) -> str:
    """Return that ``count`` equal entries are not listed."""
    return f"... and {count:,} more like this (--format json lists all)"
