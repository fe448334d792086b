"""The records of a log with selected offsets, and what of them cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kdump.format.batch import BatchTable, RecordRun
from kdump.format.records import RecordReader
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.selection import HIGHEST, entry_position
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from kdump.tables.corruption import Continuity, OnCorruption
from kdump.tables.logs import Log

Keep = Callable[[BatchTable], BatchTable]
"""Which batches of a table hold records that are wanted."""


class SelectedRecords:
    """Reads the records of a log, from the position at which the selected offsets can begin.

    ``continuity`` reports to ``corrupt`` what cannot be read, as far as the runs were read.
    """

    def __init__(self, log: Log, source: Source, corrupt: OnCorruption) -> None:
        self._log = log
        self._source = source
        self._position = 0
        if log.selection.first_offset > log.base_offset:
            first_offset = log.selection.first_offset
            self._position = entry_position(source, log.index, log.base_offset, first_offset)
        self.continuity = Continuity(log, corrupt, from_start=not self._position)

    def runs(
        self, reader: RecordReader, keep: Keep | None = None, last_offset: int = HIGHEST
    ) -> Iterator[RecordRun]:
        """Yield the selected records of the batches that ``keep`` returns.

        Read to the end of the log, or to the table with ``last_offset``. Raise SourceError.
        """
        selection, source = self._log.selection, self._source
        for before, table in self._tables(last_offset):
            wanted = selection.batches(table, before, records=True)
            if keep is not None and len(wanted):
                wanted = keep(wanted)
            for run in record_runs(wanted, source, reader) if len(wanted) else ():
                if isinstance(run, Unread):
                    self.continuity.unread(run.batch, run.error)
                else:
                    yield from selection.runs(run)

    def _tables(self, last_offset: int) -> Iterator[tuple[int, BatchTable]]:
        """Yield the tables of a walk up to ``last_offset``, each with the last offset before it."""
        for piece in walk(self._source, self._log.base_offset, self._position):
            before = self.continuity.add(piece)
            if isinstance(piece, Damage):
                continue
            yield before, piece
            if piece.column("last_offset")[-1] >= last_offset:
                return
        self.continuity.end()
