"""The JSON Lines of a scrub, and of the state of log directories.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdump.history.records import DirectoryStatus, ReadPace
from kdump.ui import jsonl
from kdump.ui.exits import OK
from kdump.ui.verdicts.json_lines import JsonReport
from kdump.ui.verdicts.summary import Summary


class JsonScrub(JsonReport):
    """The lines of ``verify``, with one for each log directory before the summary."""

    def finish_scrub(
        self, summary: Summary, status: Sequence[tuple[DirectoryStatus, ReadPace]], now_ms: int
    ) -> None:
        """Emit the last lines."""
        for each, pace in status:
            self._emit(_status_line(each, pace))
        self.finish(summary)


def json_status(path: Path, found: Sequence[tuple[DirectoryStatus, ReadPace]]) -> Iterator[str]:
    """Yield what the state in the file ``path`` says of log directories."""
    yield jsonl.line("header", jsonl.header("scrub", [path]))
    for status, pace in found:
        yield _status_line(status, pace)
    yield jsonl.line("summary", {"exit": OK, "directories": len(found)})


def _status_line(status: DirectoryStatus, pace: ReadPace) -> str:
    run, seconds = status.run, pace.time_for(status.due_bytes)
    return jsonl.line(
        "scrub",
        {
            **jsonl.path_field(status.path),
            "begin_ms": run.begin_ms,
            "end_ms": run.end_ms,
            "reason": run.reason.value,
            "exit": status.of_run.exit_code,
            "last_success_ms": status.success_ms,
            "bytes": status.of_run.read_bytes,
            "max_age_s": run.max_age_s,
            "log_bytes": status.log_bytes,
            "due_bytes": status.due_bytes,
            "segments": status.segments,
            "due_segments": status.due_segments,
            "oldest_ms": status.oldest_ms,
            "due_seconds": None if math.isinf(seconds) else round(seconds),
            "findings": [
                {"severity": severity, "code": code, "count": count}
                for (severity, code), count in sorted(status.of_run.findings.items())
            ],
        },
    )
