"""The metrics of scrubs, as the textfile collector of node_exporter reads them.

Spec: the text exposition format of Prometheus 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kdump.scrub.records import Status
from kdump.values import frozen


@frozen
class _Metric:
    """A gauge: its help, and its samples as pairs of labels and value."""

    name: str
    help: str
    samples: Sequence[tuple[dict[str, str], float]]


def metrics_lines(status: Sequence[Status]) -> Iterator[str]:
    """Yield the lines of the metrics of log directories, each with its newline."""
    for metric in _metrics(status):
        if metric.samples:
            yield f"# HELP kdump_scrub_{metric.name} {metric.help}\n"
            yield f"# TYPE kdump_scrub_{metric.name} gauge\n"
        for labels, value in metric.samples:
            pairs = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
            yield f"kdump_scrub_{metric.name}{{{pairs}}} {value!r}\n"


def _metrics(status: Sequence[Status]) -> Iterator[_Metric]:
    def gauge(name: str, text: str, values: Iterable[float | None]) -> _Metric:
        labels = ({"log_dir": str(each.path)} for each in status)
        pairs = zip(labels, values, strict=True)
        return _Metric(name, text, [(pair, value) for pair, value in pairs if value is not None])

    yield gauge(
        "last_run_timestamp_seconds",
        "The end of the last run.",
        (each.run.end_ms / 1000 for each in status),
    )
    yield gauge(
        "last_success_timestamp_seconds",
        "The end of the last run with the exit code 0.",
        (each.success_ms and each.success_ms / 1000 for each in status),
    )
    yield gauge(
        "last_run_duration_seconds",
        "The duration of the last run.",
        ((each.run.end_ms - each.run.begin_ms) / 1000 for each in status),
    )
    yield gauge(
        "last_run_read_bytes",
        "The bytes of logs that the last run read.",
        (each.of_run.read_bytes for each in status),
    )
    yield gauge(
        "last_run_exit_code",
        "The exit code of the last run, for this log directory alone.",
        (each.of_run.exit_code for each in status),
    )
    yield gauge("log_bytes", "The size of all logs.", (each.log_bytes for each in status))
    yield gauge(
        "due_bytes",
        "The bytes of logs that are not read within the maximum age.",
        (each.due_bytes for each in status),
    )
    yield gauge(
        "oldest_read_timestamp_seconds",
        "When the segment was read, or first seen, that was not read for longest.",
        (each.oldest_ms and each.oldest_ms / 1000 for each in status),
    )
    yield gauge(
        "max_age_seconds",
        "The age within which everything has to be read.",
        (each.run.max_age_s for each in status),
    )
    yield _Metric(
        "findings",
        "The findings of the last run.",
        [
            ({"log_dir": str(each.path), "severity": severity, "code": code}, count)
            for each in status
            for (severity, code), count in sorted(each.of_run.findings.items())
        ],
    )


def _escape(text: str) -> str:
    # A path that is not UTF-8 holds surrogates, which the file cannot.
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
