"""Records, batches, findings and copies for notebooks and programs, read by this process or its
workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from os import PathLike

import pyarrow as pa

from kdump.audit.run.gone_partitions import gone_partitions
from kdump.audit.run.groups import GroupWorkers
from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.verify import verify as verify_targets
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.scope import Scope, readable
from kdump.audit.targets.target import TopicSelection
from kdump.audit.verdicts.next_start import add_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.copies.reading import CopyStages, group_copies
from kdump.errors import UsageError
from kdump.storage.manifests.path import paths_in
from kdump.storage.objects.remote_path import as_path
from kdump.storage.workers import default_jobs
from kdump.tables import tables
from kdump.tables.absent import absent_ranges
from kdump.tables.copies import copy_batches
from kdump.tables.corruption import CorruptRange
from kdump.tables.findings import finding_rows
from kdump.tables.logs import Log, check_roots, list_logs, list_targets, logs_of
from kdump.tables.schema import BATCHES, COPIES, FINDINGS, RECORDS

Paths = Sequence[str | PathLike[str]]


def records(
    *paths: str | PathLike[str],
    columns: Sequence[str] = RECORDS.names,
    strict: bool = True,
    corrupt: Callable[[CorruptRange], None] | None = None,
) -> pa.RecordBatchReader:
    """Return the records of segments, partition directories or log directories, read on demand.

    Of a log directory, only partitions that a broker serves are read. A log that several paths name
    is read once. Raise SourceError for what the system does not read, and DecodeError or LimitError
    at corruption, and for offsets that are gone or in remote storage only. With ``strict=False``
    such ranges are left out, and ``corrupt`` is called with each of them.
    """
    if corrupt is not None and strict:
        raise UsageError("corrupt: expected strict=False with it, found strict=True")
    report = _fail if strict else corrupt or _pass_over
    scope = _open(paths)
    schema = pa.schema([RECORDS.field(name) for name in columns])
    found = tables.record_batches(_record_logs(scope, report), columns, report)
    return pa.RecordBatchReader.from_batches(schema, found)


def batches(*paths: str | PathLike[str], strict: bool = False) -> pa.RecordBatchReader:
    """Return the headers of batches, with a row for damage between them.

    With ``strict`` damage raises DecodeError. Otherwise like ``records``.
    """
    found = tables.batch_tables(list_logs(_open(paths).targets, strict=True), strict=strict)
    return pa.RecordBatchReader.from_batches(BATCHES, found)


def findings(
    *paths: str | PathLike[str], deep: bool = False, jobs: int | None = None
) -> pa.RecordBatchReader:
    """Return the findings of ``kdump verify``, which runs with ``jobs`` workers."""
    scope = _list(paths)
    jobs = jobs or default_jobs()

    def rows() -> Iterator[pa.RecordBatch]:
        yield finding_rows(reconcile_directories(scope.context), None)
        yield from tables.finding_batches(scope.targets, scope.context, deep=deep, jobs=jobs)

    return pa.RecordBatchReader.from_batches(FINDINGS, rows())


def copies(*paths: str | PathLike[str], jobs: int | None = None) -> pa.RecordBatchReader:
    """Return the copies of partitions beside each other, as ``kdump compare`` reads them.

    Paths may be manifests too. ``jobs`` workers read them. A path that cannot be opened raises
    SourceError, and one that is no copy of a partition UsageError.
    """
    inner = [found for path in paths for found in paths_in(as_path(str(path)))]
    scope = readable(list_scope(inner, None, TopicSelection()))
    here = GroupWorkers(scope.targets, scope.context, jobs or default_jobs())
    comparisons = here(CopyStages.of(scope), group_copies(scope))
    return pa.RecordBatchReader.from_batches(COPIES, copy_batches(comparisons))


def verify(
    *paths: str | PathLike[str], deep: bool = False, jobs: int | None = None
) -> Iterator[Verdict]:
    """Yield the verdict of each partition: findings, forecast of the next start, coverage.

    Findings about log directories themselves are only in ``findings``.
    """
    scope = _list(paths)
    return verify_targets(
        scope.targets,
        deep=deep,
        jobs=jobs or default_jobs(),
        context=scope.context,
        conclude=lambda verdict: add_forecast(verdict, segments=False),
    )


def _list(paths: Paths, *, served: bool = False) -> Scope:
    return list_scope((as_path(str(path)) for path in paths), None, TopicSelection(served=served))


def _record_logs(scope: Scope, report: Callable[[CorruptRange], None]) -> Iterator[Log]:
    """Yield the logs of partitions; before them, report offsets that no log has."""
    context = scope.context
    gone = gone_partitions(scope.roots, context, TopicSelection(served=True))
    for target in chain(list_targets(scope.targets, strict=True), gone):
        for absent in absent_ranges(target, context):
            report(absent)
        yield from logs_of(target, compacted=context.settings(target).compacted)


def _fail(found: CorruptRange) -> None:
    raise found.error(
        "strict=False leaves such ranges out, and calls the argument corrupt with each"
    )


def _pass_over(_: CorruptRange) -> None:
    pass


def _open(paths: Paths) -> Scope:
    scope = _list(paths, served=True)
    check_roots(scope.roots)
    return scope
