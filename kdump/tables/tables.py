"""Reads logs, and yields the tables of records, batches and findings as Arrow batches.

The table of records leaves out damage and what cannot be read; the other two tables show it. With
``strict`` it raises an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from kdump.audit.run.verify import verify
from kdump.audit.survey.record_runs import Unread, record_runs
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.errors import DecodeError, SourceError, VanishedError
from kdump.format.batch import BatchTable, RecordRun
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import directory_name
from kdump.storage.names import DirectoryName
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk
from kdump.tables.batches import batch_rows, damage_row, unreadable_row
from kdump.tables.findings import finding_rows
from kdump.tables.logs import Log
from kdump.tables.records import RecordColumns

Keep = Callable[[BatchTable], BatchTable]
"""Which batches of a table hold records that are wanted."""


def record_batches(
    logs: Iterable[Log],
    names: Sequence[str],
    *,
    strict: bool = False,
    keep: Keep | None = None,
    present: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns ``names`` of the table ``RECORDS``, of the batches that ``keep`` returns.

    Raise DecodeError, LimitError and SourceError if ``strict``, and if all logs have to be
    ``present``, VanishedError.
    """
    columns, reader = RecordColumns(names), RecordReader()
    for log in logs:
        columns.start(log.origin)
        try:
            with open_source(log.path, mapped=False, sealed=log.sealed) as source:
                for table in _selected_batches(log, source, strict=strict):
                    wanted = table if keep is None else keep(table)
                    for run in _selected_runs(wanted, log, source, reader, strict=strict):
                        if (batch := columns.add(run)) is not None:
                            yield batch
        except SourceError as error:
            if strict or (present and isinstance(error, VanishedError)):
                raise
    if (last := columns.finish()) is not None:
        yield last


def _selected_batches(log: Log, source: Source, *, strict: bool) -> Iterator[BatchTable]:
    """Yield the batches of ``log`` that can hold selected offsets, and read little beyond these."""
    pieces = log.selection.pieces(source, log.base_offset, log.index, records=True, to_end=False)
    for _, piece in pieces:
        if isinstance(piece, Damage):
            _check_damage(log, piece, strict=strict)
        elif len(piece):
            yield piece


def _selected_runs(
    table: BatchTable, log: Log, source: Source, reader: RecordReader, *, strict: bool
) -> Iterator[RecordRun]:
    """Yield the records of ``table`` with selected offsets."""
    for run in record_runs(table, source, reader):
        if not isinstance(run, Unread):
            yield from log.selection.runs(run)
        elif strict:
            raise run.error


def batch_tables(logs: Iterable[Log], *, strict: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the table ``BATCHES``. Raise DecodeError and SourceError if ``strict``."""
    for log in logs:
        origin = log.origin
        try:
            with open_source(log.path, mapped=False, sealed=log.sealed) as source:
                for piece in walk(source, log.base_offset):
                    if isinstance(piece, Damage):
                        _check_damage(log, piece, strict=strict)
                        yield damage_row(piece, origin)
                    else:
                        yield batch_rows(piece, origin)
        except SourceError:
            if strict:
                raise
            yield unreadable_row(origin)


def finding_batches(
    targets: Sequence[Target], context: Context, *, deep: bool, jobs: int
) -> Iterator[pa.RecordBatch]:
    """Verify ``targets`` with ``jobs`` workers, and yield the table ``FINDINGS``."""
    verdicts = verify(
        targets,
        deep=deep,
        jobs=jobs,
        context=context,
        conclude=lambda verdict: verdict.without_evidence(segments=False),
    )
    with closing(verdicts):
        for verdict in verdicts:
            if verdict.findings:
                yield finding_rows(verdict.findings, _partition(verdict.target))


def _partition(target: Target) -> DirectoryName | None:
    return directory_name(target.path if target.path.suffix != ".log" else target.path.parent)


def _check_damage(log: Log, damage: Damage, *, strict: bool) -> None:
    if strict and damage.reason is not Reason.PREALLOCATED:  # unused space for later batches
        raise DecodeError(
            f"{log.path}: expected sound batches alone, found {damage.reason.value} at position "
            f"{damage.position}, {damage.size} bytes"
        )
