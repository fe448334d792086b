"""The metrics of scrubs, as the textfile collector of node_exporter reads them.

Spec: the text exposition format of Prometheus 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from kdump.audit.sizes.totals import DirectoryTotals
from kdump.history.records import DirectoryStatus
from kdump.storage.paths import AnyPath

#: The gauges of each log directory: name, help, and value, None where it is unknown.
_GAUGES: Final[tuple[tuple[str, str, Callable[[DirectoryStatus], float | None]], ...]] = (
    (
        "last_run_timestamp_seconds",
        "The end of the last run.",
        lambda status: status.run.end_ms / 1000,
    ),
    (
        "last_success_timestamp_seconds",
        "The end of the last run with the exit code 0.",
        lambda status: status.success_ms and status.success_ms / 1000,
    ),
    (
        "last_run_duration_seconds",
        "The duration of the last run.",
        lambda status: (status.run.end_ms - status.run.begin_ms) / 1000,
    ),
    (
        "last_run_read_bytes",
        "The bytes of logs that the last run read.",
        lambda status: status.of_run.read_bytes,
    ),
    (
        "last_run_exit_code",
        "The exit code of the last run, for this log directory alone.",
        lambda status: status.of_run.exit_code,
    ),
    ("log_bytes", "The size of all logs.", lambda status: status.log_bytes),
    (
        "due_bytes",
        "The bytes of logs that are not read within the maximum age.",
        lambda status: status.due_bytes,
    ),
    (
        "oldest_read_timestamp_seconds",
        "When the segment was read, or first seen, that was not read for longest.",
        lambda status: status.oldest_ms and status.oldest_ms / 1000,
    ),
    (
        "max_age_seconds",
        "The age within which everything has to be read.",
        lambda status: status.run.max_age_s,
    ),
)


#: The gauges of the space of each log directory, as above; never is infinite.
_SPACE_GAUGES: Final[tuple[tuple[str, str, Callable[[DirectoryTotals], float | None]], ...]] = (
    (
        "retention_overdue_bytes",
        "The bytes that retention by time or size should have deleted an hour ago.",
        lambda totals: totals.overdue_bytes,
    ),
    (
        "file_system_free_bytes",
        "The free space of the file system.",
        lambda totals: None if totals.space is None else totals.space.free_bytes,
    ),
    (
        "full_earliest_seconds",
        "The time until the file system is full at the earliest, at the rates of a day and a week.",
        lambda totals: _full_seconds(totals, 0),
    ),
    (
        "full_latest_seconds",
        "The time until the file system is full at the latest, at these rates.",
        lambda totals: _full_seconds(totals, 1),
    ),
)


def metrics_lines(
    status: Sequence[DirectoryStatus], totals: Sequence[DirectoryTotals] = ()
) -> Iterator[str]:
    """Yield the metrics of log directories as lines that end with their newline.

    ``totals`` are of those whose space was measured.
    """
    for name, text, value_of in _GAUGES:
        yield from _gauge(name, text, _by_directory((each.path, value_of(each)) for each in status))
    yield from _gauge(
        "findings",
        "The findings of the last run.",
        [
            ({"log_dir": str(each.path), "severity": severity, "code": code}, count)
            for each in status
            for (severity, code), count in sorted(each.of_run.findings.items())
        ],
    )

    for name, text, space_value in _SPACE_GAUGES:
        found = _by_directory((each.path, space_value(each)) for each in totals)
        yield from _gauge(name, text, found)
    yield from _gauge(
        "topic_bytes",
        "The bytes that a topic takes on disk.",
        [
            ({"log_dir": str(each.path), "topic": topic}, size)
            for each in totals
            for topic, size in each.topics.items()
        ],
    )


def _full_seconds(totals: DirectoryTotals, which: int) -> float | None:
    if totals.space is None or totals.growth is None:
        return None
    time_ms = totals.growth.full_ms(totals.space.free_bytes)[which]
    return inf if time_ms is None else time_ms / 1000


def _by_directory(
    values: Iterable[tuple[AnyPath, float | None]],
) -> list[tuple[dict[str, str], float]]:
    """Return the samples of log directories whose value is known."""
    return [({"log_dir": str(path)}, value) for path, value in values if value is not None]


def _gauge(
    name: str, text: str, samples: Sequence[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    """Yield the lines of a gauge, from the labels and the value of each sample."""
    if samples:
        yield f"# HELP kdump_scrub_{name} {text}\n# TYPE kdump_scrub_{name} gauge\n"
    for labels, value in samples:
        pairs = ",".join(f'{label}="{_escape(content)}"' for label, content in labels.items())
        yield f"kdump_scrub_{name}{{{pairs}}} {_number(value)}\n"


def _number(value: float) -> str:
    return "+Inf" if value == inf else repr(value)


def _escape(text: str) -> str:
    # A path that is not UTF-8 holds surrogates, which the file cannot.
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
