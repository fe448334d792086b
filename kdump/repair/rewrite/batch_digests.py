"""Digests of the records of batches of magic 2 in a file.

Spec: ``DefaultRecordBatch``; KOD 3.2.
"""

from __future__ import annotations

from itertools import groupby

from kdump.format.batch import LOG_APPEND_TIME, BatchTable, RecordBatch
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source


def add_batches(
    digest: RecordDigest, table: BatchTable, source: Source, reader: RecordReader
) -> None:
    """Add all records of the batches in ``table``, read from ``source``, in their order.

    Raises DecodeError, LimitError, SourceError.
    """
    start = 0
    for _, run in groupby(table.column("attributes"), key=LOG_APPEND_TIME.__and__):
        stop = start + sum(1 for _ in run)
        _add_same_type(digest, table.part(start, stop), source, reader)
        start = stop


def add_batch(
    digest: RecordDigest, batch: RecordBatch, data: memoryview, reader: RecordReader
) -> None:
    """Add the records of ``batch``, whose whole bytes are ``data``. Raises DecodeError, LimitError.

    The rows of ``reader`` are overwritten.
    """
    for table in reader.tables(batch, data):
        digest.add(table.block, table.rows, table.timestamp_type, legacy=False)


def _add_same_type(
    digest: RecordDigest, table: BatchTable, source: Source, reader: RecordReader
) -> None:
    """Add the records of batches that all have the same timestamp type."""
    for run in record_runs(table, source, reader):
        if isinstance(run, Unread):
            raise run.error
        digest.add(run.block, run.rows, table[0].timestamp_type, legacy=False)
