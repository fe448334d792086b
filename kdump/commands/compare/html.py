"""The text as a page, with a picture of each partition.

Replicas are on one scale of offsets, so that ends and differences stand below each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kdump.audit.commands import Remedy
from kdump.commands.compare.report import TextComparisons
from kdump.copies.comparison import Comparison
from kdump.copies.copy import Copy, OffsetRange
from kdump.format.lines.text import printable
from kdump.ui.html.page import HtmlPage
from kdump.ui.html.pictures import Bar, Kind, Part, picture
from kdump.ui.units import count_text

#: The partitions that are drawn.
_DRAWN: Final = 50


class HtmlComparisons(TextComparisons):
    """Emits the text report as a page."""

    def __init__(
        self, emit: Callable[[str], None], again: Remedy, *, everything: bool, wide: bool
    ) -> None:
        self._page = HtmlPage("kdump compare")
        super().__init__(self._page.emit, again, everything=everything, wide=wide)
        self._emit_page = emit
        self._pictures: list[str] = []
        self._shown = 0

    def add(self, found: Comparison) -> None:
        """Add a partition."""
        super().add(found)
        if self.shows(found):
            self._shown += 1
            if self._shown <= _DRAWN:
                self._pictures.append(_picture(found))

    def finish(self, *, interrupted: bool = False) -> int:
        """Emit the page, and return the exit code."""
        exit_code = super().finish(interrupted=interrupted)
        for drawn in self._pictures:
            self._page.draw(drawn)
        more = self._shown - len(self._pictures)
        if more:
            self._page.emit(f"{count_text(more, 'more partition')} not drawn.")
        self._emit_page(self._page.html())
        return exit_code


def _picture(found: Comparison) -> str:
    title = printable(f"{found.topic}-{found.partition}: its replicas by offsets")
    return picture(title, [_bar(found, place) for place in range(len(found.copies))])


def _bar(found: Comparison, place: int) -> Bar:
    copy = found.copies[place]
    alone = [offsets for number, offsets in found.alone if number == place]
    text = "no record"
    if copy.log_start < copy.end_offset:
        text = f"offsets {copy.log_start}..{copy.end_offset - 1}"
    if copy.unread:
        text = Kind.UNREAD.value
    return Bar(printable(f"{place + 1} {copy.path}"), text, tuple(_parts(copy, alone)))


def _parts(copy: Copy, alone: Sequence[OffsetRange]) -> Iterator[Part]:
    for first, last in copy.remote:
        yield Part(first, last + 1, Kind.REMOTE, f"offsets {first}..{last} in remote storage")
    for valid in copy.sound_ranges():
        kind = Kind.UNREAD if copy.unread else Kind.VALID
        yield Part(valid.first, valid.end, kind, f"offsets {valid.first}..{valid.end - 1}")
    for first, end in alone:
        yield Part(first, end, Kind.ALONE, f"offsets {first}..{end - 1} in no other replica")
    if copy.end < copy.end_offset:
        text = f"offsets {copy.end}..{copy.end_offset - 1} removed"
        yield Part(copy.end, copy.end_offset, Kind.REMOVED, text)
    for lost in copy.lost:
        end = max(copy.lineage.end, lost.first + 1) if lost.end is None else lost.end
        kind = Kind.CORRUPT if lost.size else Kind.MISSING
        text = f"from offset {lost.first} on, {printable(lost.path.name)}: {lost.reason}"
        yield Part(lost.first, max(end, lost.first), kind, text)
