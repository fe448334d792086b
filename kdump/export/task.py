"""One task: reads some logs, and writes their records into one file.

The file of one attempt gets its final name. Another attempt leaves at most a file that
readers ignore.
"""

from __future__ import annotations

import socket
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from kdump.audit.survey.record_runs import Unread, record_runs
from kdump.errors import DecodeError, SourceError
from kdump.export.committed import CommittedFilter
from kdump.export.destination import write_error
from kdump.export.output import Form, Output, WrittenFile
from kdump.export.ranges import Ranges, packed
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.kernel import ranges as _ranges
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.objects.address import AnyPath
from kdump.storage.rights import Rights
from kdump.storage.selection import HIGHEST, LOWEST, Selection
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason
from kdump.tables.logs import Log
from kdump.values import frozen


@frozen
class Share:
    """A log, its offset index, and the ``ranges`` to export, None for all records."""

    log: Log
    index: AnyPath | None
    ranges: Ranges | None = None
    committed: CommittedFilter | None = None


@frozen
class ExportTask:
    """``shares`` of one topic; their file is created in the directory ``to`` with ``rights``."""

    shares: tuple[Share, ...]
    to: AnyPath
    rights: Rights | None
    form: Form
    selection: Selection


@frozen
class Trouble:
    """A part of a log that could not be exported: ``size`` bytes from ``position`` on.

    ``damaged``: the bytes were read and are damaged. Otherwise they could not be read.
    """

    path: str
    position: int | None
    size: int | None
    reason: str
    damaged: bool


@frozen
class Ledger:
    """The export of one log of ``bytes``; offsets are None without a record."""

    path: str
    host: str
    topic: str | None
    partition: int | None
    bytes: int
    records: int
    first_offset: int | None
    last_offset: int | None


@frozen
class ExportResult:
    """The result of a task; ``file`` is None if no record was selected."""

    file: WrittenFile | None
    ledgers: tuple[Ledger, ...]
    troubles: tuple[Trouble, ...]


def export_logs(task: ExportTask) -> ExportResult:
    """Export the logs of ``task`` to one file. Raise SourceError if it cannot be written."""
    path = task.to / f"{uuid4().hex}.{task.form.value}"
    output = Output(path, task.rights, task.form)
    try:
        results = [_export_log(share, task.selection, output) for share in task.shares]
        file = output.close()
    except OSError as error:  # from writing; reading raises SourceError
        output.discard()
        raise write_error(path, error) from error
    except BaseException:  # Ctrl-C too: no partial file stays
        output.discard()
        raise
    troubles = tuple(trouble for _, log_troubles in results for trouble in log_troubles)
    return ExportResult(file, tuple(ledger for ledger, _ in results), troubles)


@dataclass(slots=True)
class _Count:
    bytes: int = 0
    records: int = 0
    first: int | None = None
    last: int | None = None
    troubles: list[Trouble] = field(default_factory=list)

    def add(self, run: RecordRun) -> None:
        """Count the records of ``run``, which has at least one."""
        self.records += len(run.rows) // RecordTable.WIDTH
        low, high = _ranges.offset_bounds(run.rows)
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)


def _export_log(
    share: Share, selection: Selection, output: Output
) -> tuple[Ledger, tuple[Trouble, ...]]:
    count, origin = _Count(), share.log.origin
    where = origin.source_file
    ranges = packed(((LOWEST, HIGHEST),) if share.ranges is None else share.ranges)
    complete = share.ranges is None and share.committed is None and selection.limit is None
    try:
        with open_source(share.log.path, mapped=False, sealed=share.log.sealed) as source:
            count.bytes = source.size
            for run in _runs(share, selection, source, count.troubles):
                left = None
                if selection.limit is not None:
                    left = selection.limit - output.records
                    if left <= 0:
                        break
                selected = run if complete else _select_records(run, share.committed, ranges, left)
                if len(selected.rows):
                    count.add(selected)
                    output.add(selected, origin)
    except SourceError as error:
        count.troubles.append(Trouble(where, None, None, str(error), damaged=False))
    ledger = Ledger(
        where,
        socket.gethostname(),
        origin.topic,
        origin.partition,
        count.bytes,
        count.records,
        count.first,
        count.last,
    )
    return ledger, tuple(count.troubles)


def _runs(
    share: Share, selection: Selection, source: Source, troubles: list[Trouble]
) -> Iterator[RecordRun]:
    where, reader = share.log.origin.source_file, RecordReader()
    for _, piece in selection.pieces(source, share.log.base_offset, share.index, records=True):
        if isinstance(piece, Damage):
            if piece.reason is Reason.PREALLOCATED:  # unused space for later batches
                continue
            reason = piece.reason.value
            troubles.append(Trouble(where, piece.position, piece.size, reason, damaged=True))
            continue
        table = piece if share.committed is None else share.committed.batches(piece)
        if not len(table):
            continue
        for run in record_runs(table, source, reader):
            if isinstance(run, Unread):
                batch, text = run.batch, str(run.error)
                damaged = isinstance(run.error, DecodeError)
                troubles.append(Trouble(where, batch.position, batch.size, text, damaged))
            elif selection.of_records:
                for number in range(len(run)):
                    selected = selection.records(run.table(number))
                    if len(selected):
                        yield RecordRun.of(selected)
            else:
                yield run


def _select_records(
    run: RecordRun, committed: CommittedFilter | None, ranges: array[int], left: int | None
) -> RecordRun:
    """Return the records of ``run`` in ``ranges`` and below the end, at most ``left`` of them.

    They are moved together in the rows of ``run``.
    """
    batches = memoryview(bytearray(run.batches.rows)).cast("q")
    end = HIGHEST if committed is None else committed.end
    most = HIGHEST if left is None else left
    count = _ranges.keep_in_ranges(run.rows, run.starts, batches, end, ranges, most)
    return RecordRun(
        BatchTable(batches, hunted=run.batches.hunted).first(count),
        run.block,
        run.rows[: run.starts[count] * RecordTable.WIDTH],
        run.starts[: count + 1],
        run.magic,
    )
