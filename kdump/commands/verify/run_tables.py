"""The tables that ``verify --to`` appends to.

Programs rely on them: columns may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from signal import SIGINT, SIGTERM
from typing import Final

from kdump.audit.findings import Finding
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import Forecast
from kdump.audit.survey.recovery import Span
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.statistics import Statistics
from kdump.audit.verdicts.verdict import Coverage, Verdict
from kdump.commands.verify.run_files import Row, RunId, Spool, write_run
from kdump.errors import UsageError
from kdump.output.destination import Destination, check_outside, extend_destination
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.tables.logs import utf8
from kdump.ui.verdicts.forecast_json import forecast_fields, lost_now_fields, stable_fields
from kdump.ui.verdicts.summary import Summary
from kdump.ui.version import version
from kdump.values import frozen

#: Why a run ended, by the exit code of a signal.
_REASONS: Final = {None: "complete", SIGINT: "interrupted", SIGTERM: "terminated"}

_NOT_DECOMPRESSED: Final = {"uncompressed_bytes": None}


@frozen
class _Entry:
    """What the tables say of one partition; ``path`` is None for the top of log directories."""

    path: AnyPath | None
    findings: tuple[Finding, ...]
    covered: Coverage
    forecast: Forecast | None
    lost: Span
    stable: StableOffset | None
    statistics: Statistics | None


class RunTables:
    """Takes verdicts, and appends the tables when the run is over. Methods raise SourceError."""

    def __init__(self, to: AnyPath, destination: Destination, run: RunId, spool: Spool) -> None:
        self.to = to
        self._destination = destination
        self._run = run
        self._spool = spool
        self._roots: Sequence[Root] = ()

    def start(self, roots: Sequence[Root], findings: tuple[Finding, ...]) -> None:
        """Begin with the paths of the run, and the findings at the top of log directories."""
        self._roots = roots
        self._spool.add(_Entry(None, findings, Coverage(), None, Span(), None, None))

    def add(self, verdict: Verdict) -> Verdict:
        """Add a verdict, and return it without its statistics."""
        entry = _Entry(
            verdict.target.path,
            verdict.findings,
            verdict.covered,
            verdict.forecast,
            verdict.lost.records,
            verdict.stable,
            verdict.statistics,
        )
        self._spool.add(entry)
        return replace(verdict, statistics=None)

    def finish(self, summary: Summary) -> str:
        """Write the files of the tables, and return the id of the run."""

        def rows() -> Iterator[tuple[str, Row]]:
            for entry in self._spool.values():
                yield from _rows(entry)

        write_run(self._destination, self._run, rows(), lambda: self._run_row(summary))
        return self._run.id

    def _run_row(self, summary: Summary) -> Row:
        run, covered = summary.run, summary.covered
        return {
            "run_id": self._run.id,
            "begin": self._run.begin,
            "end": datetime.now(UTC),
            "end_reason": _REASONS[run.stopped_by],
            "exit": summary.exit_code,
            "version": version(),
            "paths": [utf8(str(root.path)) for root in self._roots],
            "depth": run.depth,
            "partitions": covered.partitions,
            "partitions_total": run.total,
            "bytes": covered.read_bytes,
            "bytes_total": run.total_bytes,
            "batches": covered.batches,
            "records": covered.records,
            "jobs": run.jobs,
        }


@contextmanager
def open_run_tables(to: AnyPath | None, read: Iterable[AnyPath]) -> Iterator[RunTables | None]:
    """Yield the tables below ``to``, None without it; an exception leaves nothing of the run.

    Raise UsageError for a place in a log directory or in one of the paths that are ``read``, and
    without the extra ``parquet``.
    """
    if to is None:
        yield None
        return
    if find_spec("pyarrow") is None:
        raise UsageError("--to: expected the extra parquet: pip install 'kafka-kdump[parquet]'")
    run = RunId.new()
    check_outside(to.absolute(), read)
    with (
        extend_destination(to.absolute(), run.id) as destination,
        closing(Spool(destination)) as spool,
    ):
        yield RunTables(to, destination, run, spool)


def _rows(entry: _Entry) -> Iterator[tuple[str, Row]]:
    """Yield rows with the names of their tables."""
    from kdump.tables.findings import finding_row

    if entry.path is None:
        for finding in entry.findings:
            yield "findings", finding_row(finding, directory_name(finding.path))
        return
    name = directory_name(entry.path.parent if entry.path.suffix == ".log" else entry.path)
    for finding in entry.findings:
        yield "findings", finding_row(finding, name)
    partition = {
        "path": utf8(str(entry.path)),
        "topic": None if name is None else utf8(name.topic),
        "partition": None if name is None else name.partition,
    }
    if entry.forecast is not None:
        yield "forecasts", {**partition, **_forecast_columns(entry, entry.forecast)}
    if entry.statistics is not None:
        for reading in entry.statistics.readings:
            of_log = {"path": utf8(str(reading.path)), "host": reading.host}
            effort = {"bytes": reading.bytes, "seconds": reading.seconds}
            yield "ledger", {**partition, **of_log, **effort}
        yield "statistics", {**partition, **_statistics_columns(entry, entry.statistics)}


def _forecast_columns(entry: _Entry, forecast: Forecast) -> Row:
    """Return the fields of the JSON line, with the causes and replaced files as columns have them.

    A path that is not UTF-8 has escapes.
    """
    return {
        **forecast_fields(forecast),
        "reasons": [
            {
                "outcome": cause.outcome.value,
                "text": utf8(cause.text),
                "path": utf8(str(cause.path)),
                "position": cause.position,
            }
            for cause in forecast.causes
        ],
        "replaced": [utf8(str(path)) for path in forecast.replaced],
        "lost_now": lost_now_fields(entry.lost),
        **({} if entry.stable is None else stable_fields(entry.stable)),
    }


def _statistics_columns(entry: _Entry, statistics: Statistics) -> Row:
    columns: dict[str, object] = {
        "segments": statistics.segments,
        "bytes": entry.covered.size,
        "read_bytes": entry.covered.read_bytes,
        "complete": statistics.complete,
    }
    batches = statistics.batches
    if batches is None:
        return columns
    sums = batches.sums
    first_timestamp, last_timestamp = sums.timestamps or (None, None)
    smallest, half_below, largest = sums.batch_bytes or (None, None, None)
    return columns | {
        "batches": entry.covered.batches,
        "control_batches": entry.covered.control_batches,
        "transactional_batches": sums.transactional,
        "records": batches.records,
        "first_offset": batches.first_offset,
        "last_offset": batches.last_offset,
        "first_timestamp": first_timestamp,
        "last_timestamp": last_timestamp,
        "smallest_batch_bytes": smallest,
        "half_below_bytes": half_below,
        "largest_batch_bytes": largest,
        "codecs": [
            {**asdict(codec), **({} if codec.ratio is not None else _NOT_DECOMPRESSED)}
            for codec in sums.codecs()
        ],
        "producers": batches.producers,
        "committed": batches.committed,
        "aborted": batches.aborted,
        "open_transactions": batches.open_transactions,
    }
