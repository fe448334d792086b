"""The text report of a scrub, and the state of log directories in words.

The lines are for people. They may change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.audit.finding_code import Severity
from kdump.format.lines.text import printable
from kdump.history.records import DirectoryStatus, EndReason, ReadPace
from kdump.ui.exits import NOTHING_READ
from kdump.ui.paragraphs import paragraph
from kdump.ui.units import count_text, duration_text, period_text, size_text
from kdump.ui.verdicts.summary import Summary
from kdump.ui.verdicts.text import TextReport

_BAR: Final = 30  # columns
_REASONS: Final = {
    EndReason.DONE: "until all was read",
    EndReason.DURATION: "until --max-duration was over",
    EndReason.SIGNAL: "until a signal ended it",
}


class TextScrub(TextReport):
    """The report of ``verify``, with the state of each log directory below."""

    def finish_scrub(
        self, summary: Summary, status: Sequence[tuple[DirectoryStatus, ReadPace]], now_ms: int
    ) -> None:
        """Emit the report."""
        self.finish(summary)
        for line in text_status(status, now_ms):
            self._emit(line)


def text_status(found: Sequence[tuple[DirectoryStatus, ReadPace]], now_ms: int) -> Iterator[str]:
    """Yield what the state says of log directories."""
    for status, pace in found:
        yield printable(str(status.path))
        yield paragraph("read", _part(status))
        yield paragraph("due", _due(status, pace, now_ms))
        yield paragraph("last run", _last_run(status))


def _part(status: DirectoryStatus) -> str:
    if status.of_run.exit_code == NOTHING_READ.exit_code and not status.log_bytes:
        return "unknown: nothing could be read"
    read, age = status.read_part, duration_text(status.run.max_age_s)
    filled = math.floor(read * _BAR)
    bar = "#" * filled + "-" * (_BAR - filled)
    return f"[{bar}] {math.floor(100 * read)} % of {size_text(status.log_bytes)} within {age}"


def _due(status: DirectoryStatus, pace: ReadPace, now_ms: int) -> str:
    text = "nothing"
    if status.due_segments:
        text = f"{size_text(status.due_bytes)} in {count_text(status.due_segments, 'segment')}"
        seconds = pace.time_for(status.due_bytes)
        if seconds < math.inf:
            text += f", read in about {duration_text(seconds)} at the pace of the last runs"
    if status.oldest_ms is not None:
        age = duration_text(max(0, now_ms - status.oldest_ms) / 1000)
        text += f"; no segment is unread for more than {age}"
    return text


def _last_run(status: DirectoryStatus) -> str:
    run, done = status.run, status.of_run
    counts = [
        f"{printable(code)} ({count})"
        for (severity, code), count in sorted(done.findings.items())
        if severity != Severity.INFO.value
    ]
    return (
        f"{period_text(run.begin_ms, run.end_ms)}, {size_text(done.read_bytes)}, "
        f"{_REASONS[run.reason]}, exit code {done.exit_code}; found "
        f"{', '.join(counts) or 'nothing'}"
    )
