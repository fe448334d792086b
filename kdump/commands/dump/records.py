"""The files of a dump, printed piece by piece."""

from __future__ import annotations

from typing import BinaryIO

from kdump.commands.dump.entries import Entries, FileDamage
from kdump.commands.dump.files import max_bytes, pieces
from kdump.commands.dump.lines import Covered, DumpFile, Renderer
from kdump.errors import CutError, DecodeError, LimitError, SourceError
from kdump.format.batch import HEADER_BYTES, BatchTable, RecordBatch, RecordTable, read_header
from kdump.format.records import RecordReader
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, batch_bytes


class Printer:
    """Writes files one after the other to ``out``; with ``records`` also the records of batches."""

    def __init__(
        self, renderer: Renderer, selection: Selection, out: BinaryIO, *, records: bool
    ) -> None:
        self.covered = Covered()
        self._renderer = renderer
        self._selection = selection
        self._write = out.write
        self._reader = RecordReader() if records else None
        self._selects_records = records and selection.of_records
        self._left = selection.limit
        self._in_runs = not self._selects_records and selection.limit is None

    @property
    def done(self) -> bool:
        """Whether the selection's limit is reached."""
        return self._left == 0

    def start(self) -> None:
        """Write the lines before all files."""
        self._write(self._renderer.start())

    def end(self) -> int:
        """Write the lines after all files, and return the exit code."""
        self._write(self._renderer.end(self.covered))
        return self.covered.exit_code

    def file(self, file: DumpFile, source: Source) -> None:
        """Write the content of ``file``. Raise SourceError if it cannot be read."""
        self.covered.files += 1
        self._write(self._renderer.file(file, source.size))
        if file.holds_batches:
            self._batches(file, source)
        else:
            self._entries(file, source)

    def _entries(self, file: DumpFile, source: Source) -> None:
        most = max_bytes(file.name.kind)
        if source.size > most:
            raise SourceError(
                file.path,
                f"{file.path}: expected a file of at most {most} bytes, found {source.size}",
            )
        self.covered.bytes += source.size
        data = bytes(source.window(0, source.size))
        for piece in pieces(file.name.kind, data, file.base_offset):
            self.covered.entries += len(piece) if isinstance(piece, Entries) else 0
            self.covered.damages += isinstance(piece, FileDamage)
            for lines in self._renderer.piece(file, piece):
                self._write(lines)

    def _batches(self, file: DumpFile, source: Source) -> None:
        last: Damage | None = None
        records = self._reader is not None
        for size, piece in self._selection.pieces(
            source, file.base_offset, file.index, records=records
        ):
            self.covered.bytes += size
            if isinstance(piece, Damage):
                last = piece
                self.covered.damages += 1
                self._write(self._renderer.damage(piece, _damaged_header(source, piece)))
                continue
            last = None
            if self._reader is None:
                self._headers(piece if self._left is None else piece.first(self._left))
            else:
                self._tables(piece, source, self._reader)
            if self.done:
                return
        self._write(self._renderer.end_of_file(file, last))

    def _headers(self, table: BatchTable) -> None:
        self.covered.batches += len(table)
        self._count(len(table))
        for lines in self._renderer.batches(table):
            self._write(lines)

    def _tables(self, table: BatchTable, source: Source, reader: RecordReader) -> None:
        """Write the batches of ``table`` with their records, many at a time if possible."""
        row = 0
        while row < len(table) and not self.done:
            if self._in_runs:
                run = reader.run(table, row, source.window(table.position))
                self.covered.batches += len(run)
                self.covered.records += len(run.rows) // RecordTable.WIDTH
                for lines in self._renderer.run(run):
                    self._write(lines)
                row += len(run)
            if row < len(table):
                self._records(table[row], source, reader)
                row += 1

    def _header(self, batch: RecordBatch) -> None:
        """Write the line of ``batch``, if the renderer shows batches."""
        self.covered.batches += 1
        if self._renderer.shows_batches:
            for lines in self._renderer.batches(BatchTable.of(batch)):
                self._write(lines)

    def _records(self, batch: RecordBatch, source: Source, reader: RecordReader) -> None:
        """Write ``batch`` with the selected records; nothing if no record is selected."""
        shown = not self._selects_records
        if shown:
            self._header(batch)
        try:
            for table in reader.tables(batch, batch_bytes(source, batch)):
                selected = self._selection.records(table) if self._selects_records else table
                if self._left is not None:
                    selected = selected.first(self._left)
                if not shown and len(selected):
                    shown = True
                    self._header(batch)
                self.covered.records += len(selected)
                for lines in self._renderer.records(selected):
                    self._write(lines)
                self._count(len(selected))
                if self.done:
                    return
        except (DecodeError, LimitError) as error:
            if not shown:
                self._header(batch)
            if isinstance(error, DecodeError):
                self.covered.damages += 1
                reason = "records-cut-off" if isinstance(error, CutError) else "records-unreadable"
                self._write(self._renderer.unread(batch, reason, str(error)))
            else:
                self.covered.incomplete += 1
                self._write(self._renderer.unread(batch, "limit", str(error)))

    def _count(self, shown: int) -> None:
        if self._left is not None:
            self._left -= shown


def _damaged_header(source: Source, damage: Damage) -> RecordBatch | None:
    """Return the header of the damaged batch, if the damage covers exactly the size it claims."""
    if damage.reason is not Reason.BAD_CHECKSUM or damage.size != damage.claimed_bytes:
        return None
    return read_header(source.window(damage.position, HEADER_BYTES), damage.position)
