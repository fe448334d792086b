"""The records of batches in the order of a walk, many batches at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from kdump.errors import DecodeError, LimitError
from kdump.format.batch import BatchTable, RecordBatch, RecordRun, RecordTable
from kdump.format.records import RecordReader
from kdump.storage.source import Source
from kdump.storage.walk import batch_bytes
from kdump.values import frozen


@frozen
class Unread:
    """A batch whose records could not be read, or not all of them; ``error`` is the reason.

    A DecodeError is damage. A LimitError says nothing about the bytes.
    """

    batch: RecordBatch
    error: DecodeError | LimitError


def record_runs(
    table: BatchTable, source: Source, reader: RecordReader
) -> Iterator[RecordRun | Unread]:
    """Yield the records of ``table``, the newest piece of a walk over ``source``, in order.

    Each run is valid until the next one. Raise SourceError.
    """
    row = 0
    while row < len(table):
        view = source.window(table.position)
        run = reader.run(table, row, view)
        if len(run.rows):
            yield run
            view = source.window(table.position)
        row += len(run)
        if row == len(table):
            return
        if (decoded := reader.block(table, row, view)) is not None:
            block, rows = decoded
            starts = memoryview(array("q", (0, len(rows) // RecordTable.WIDTH)))
            yield RecordRun(table.part(row, row + 1), block, rows, starts)
        else:
            yield from _batch_runs(table[row], source, reader)
        row += 1


def _batch_runs(
    batch: RecordBatch, source: Source, reader: RecordReader
) -> Iterator[RecordRun | Unread]:
    try:
        for records in reader.tables(batch, batch_bytes(source, batch)):
            yield RecordRun.of(records)
    except (DecodeError, LimitError) as error:
        yield Unread(batch, error)
