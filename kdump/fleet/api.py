"""The functions behind the Spark commands, for notebooks and programs.

``register`` is for Spark; the others read here, in this process or workers of it, and need no
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pyarrow as pa

from kdump.audit.run.reconcile import reconcile_directories
from kdump.audit.run.verify import verify as judge
from kdump.audit.targets.listing import list_scope
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Selection
from kdump.audit.verdicts.next_start import add_forecast
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError
from kdump.fleet.tables import tables
from kdump.fleet.tables.findings import finding_rows
from kdump.fleet.tables.schema import BATCHES, FINDINGS, RECORDS
from kdump.storage.objects.address import as_path
from kdump.storage.workers import default_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Paths = Sequence[str | PathLike[str]]


def register(spark: SparkSession) -> None:
    """Let ``spark.read.format("kdump")`` find the tables; see ``KdumpDataSource``."""
    from kdump.fleet.tables.datasource import KdumpDataSource

    spark.dataSource.register(KdumpDataSource)


def records(
    *paths: str | PathLike[str], columns: Sequence[str] = RECORDS.names, strict: bool = False
) -> pa.RecordBatchReader:
    """Read the records of segments, partition directories or log directories, as they are asked.

    Of a log directory those that a broker serves; what is named several times is read once. Damage
    and what cannot be read is left out; with ``strict`` it raises DecodeError, LimitError or
    SourceError. A path that cannot be opened always raises SourceError.
    """
    logs = tables.logs_of(_opened(paths).targets, strict=strict)
    schema = pa.schema([RECORDS.field(name) for name in columns])
    found = tables.record_batches(logs, columns, strict=strict)
    return pa.RecordBatchReader.from_batches(schema, found)


def batches(*paths: str | PathLike[str], strict: bool = False) -> pa.RecordBatchReader:
    """Read the headers of batches, and the damage between them; otherwise as ``records``."""
    logs = tables.logs_of(_opened(paths).targets, strict=strict)
    return pa.RecordBatchReader.from_batches(BATCHES, tables.batch_tables(logs, strict=strict))


def findings(
    *paths: str | PathLike[str], deep: bool = False, jobs: int | None = None
) -> pa.RecordBatchReader:
    """Find what ``kdump verify`` finds, in so many workers."""
    scope = _listed(paths)
    jobs = jobs or default_jobs()

    def found() -> Iterator[pa.RecordBatch]:
        yield finding_rows(reconcile_directories(scope.context), None)
        yield from tables.finding_batches(scope.targets, scope.context, deep=deep, jobs=jobs)

    return pa.RecordBatchReader.from_batches(FINDINGS, found())


def verify(
    *paths: str | PathLike[str], deep: bool = False, jobs: int | None = None
) -> Iterator[Verdict]:
    """Judge one partition after the other: findings, the forecast of its next start, coverage.

    What is wrong with log directories themselves is among the ``findings`` alone.
    """
    scope = _listed(paths)
    return judge(
        scope.targets,
        deep=deep,
        jobs=jobs or default_jobs(),
        context=scope.context,
        conclude=lambda one: add_forecast(one, segments=False),
    )


def _listed(paths: Paths, *, served: bool = False) -> Scope:
    return list_scope((as_path(str(path)) for path in paths), None, Selection(served=served))


def _opened(paths: Paths) -> Scope:
    scope = _listed(paths, served=True)
    for root in scope.roots:
        if isinstance(root.content, SourceError):
            raise root.content
    return scope
