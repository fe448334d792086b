"""The summary of a dump, a table or a JSON object for each partition."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from io import StringIO
from typing import BinaryIO, Final, Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kdump.commands.dump.lines import Covered, DumpFile
from kdump.commands.dump.totals import DumpTotals, Totals
from kdump.format.lines.text import printable, time_text
from kdump.format.records import RecordReader
from kdump.storage.names import FileKind
from kdump.storage.paths import AnyPath
from kdump.storage.selection import Selection
from kdump.storage.source import Source
from kdump.storage.walk import Damage
from kdump.ui import jsonl
from kdump.ui.units import count_text, size_text

_WIDTH: Final = 80
_LABEL: Final = 14
#: The number of open transactions that the text lists.
_LISTED: Final = 5


class View(Protocol):
    """The format of a summary; methods return whole lines."""

    def start(self) -> bytes:
        """Return the lines before all sums."""

    def sums(self, path: AnyPath, file: DumpFile, totals: Totals) -> bytes:
        """Return the lines of the sums of ``path``, to which ``file`` belongs."""

    def end(self, covered: Covered) -> bytes:
        """Return the lines after all sums."""


class Summarizer:
    """Adds up files; successive segments of a directory are added to the same sum."""

    def __init__(self, view: View, selection: Selection, out: BinaryIO) -> None:
        self.covered = Covered()
        self._view = view
        self._selection = selection
        self._write = out.write
        self._left = selection.limit
        self._reader = RecordReader()
        self._sums = DumpTotals(self._reader)
        self._file: DumpFile | None = None

    @property
    def done(self) -> bool:
        """Whether the selection's limit is reached."""
        return self._left == 0

    def start(self) -> None:
        """Write the lines before all sums."""
        self._write(self._view.start())

    def end(self) -> int:
        """Write the last sums and the lines after them, and return the exit code."""
        self._finish()
        self._write(self._view.end(self.covered))
        return self.covered.exit_code

    def file(self, file: DumpFile, source: Source) -> None:
        """Add ``file`` to the sums. Raise SourceError if it cannot be read."""
        if self._file is not None and _sum_path(file) != _sum_path(self._file):
            self._finish()
        self._file = file
        self._sums.files += 1
        for size, piece in self._selection.pieces(
            source, file.base_offset, file.index, records=False
        ):
            self.covered.bytes += size
            if isinstance(piece, Damage):
                self._sums.damage(piece)
                continue
            table = piece if self._left is None else piece.first(self._left)
            self._sums.add(table, source)
            if self._left is not None:
                self._left -= len(table)
            if self.done:
                return

    def _finish(self) -> None:
        if self._file is None:
            return
        totals = self._sums.totals()
        self.covered.files += totals.files
        self.covered.batches += totals.batches
        self.covered.records += totals.records
        self.covered.damages += totals.damages + totals.unreadable
        self.covered.incomplete += totals.over_limit
        self._write(self._view.sums(_sum_path(self._file), self._file, totals))
        self._sums = DumpTotals(self._reader)


def _sum_path(file: DumpFile) -> AnyPath:
    """Return the path that a file is summed up under: its directory if it is a segment in use."""
    in_use = file.name.kind is FileKind.LOG and not file.name.suffix
    return file.path.parent if in_use else file.path


class JsonView:
    """JSON Lines: header, one object for each sum, summary."""

    def __init__(self, paths: Sequence[AnyPath]) -> None:
        self._paths = paths

    def start(self) -> bytes:
        """Return the header line."""
        return _json("header", jsonl.header("dump", self._paths))

    def sums(self, path: AnyPath, file: DumpFile, totals: Totals) -> bytes:
        """Return an object."""
        name = file.partition
        where = {
            **jsonl.path_field(path),
            "topic": name.topic if name else None,
            "partition": name.partition if name else None,
        }
        return _json("totals", {**where, **asdict(totals)})

    def end(self, covered: Covered) -> bytes:
        """Return the summary line."""
        return _json("summary", {"exit": covered.exit_code, **asdict(covered)})


class TextView:
    """A table for each sum, at most as wide as the terminal, or 80 columns without one."""

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal
        self._width = shutil.get_terminal_size().columns if terminal else _WIDTH
        self._between = b""

    def start(self) -> bytes:
        """Return nothing."""
        return b""

    def sums(self, path: AnyPath, file: DumpFile, totals: Totals) -> bytes:
        """Return a heading, a table of facts, and a table of codecs."""
        console = Console(
            file=StringIO(),
            force_terminal=self._terminal,
            width=self._width,
            markup=False,
            emoji=False,
            highlight=False,
        )
        with console.capture() as capture:
            # On one line whatever its length, so that it can be pasted.
            console.print(Text(printable(str(path)), style="bold"), soft_wrap=True)
            facts = Table.grid(padding=(0, 2, 0, 0))
            facts.add_column(min_width=_LABEL)
            facts.add_column(overflow="fold")
            for label, fact in _facts(totals):
                facts.add_row(f"  {label}", fact)
            console.print(facts)
            if totals.codecs:
                console.print(_codecs(totals))
        lines = capture.get().splitlines()
        before, self._between = self._between, b"\n"
        return before + "".join(f"{line.rstrip()}\n" for line in lines).encode()

    def end(self, covered: Covered) -> bytes:
        """Return nothing."""
        return b""


def _facts(totals: Totals) -> Iterator[tuple[str, str]]:
    """Yield labels and texts, in the order in which they are shown."""
    batches = f"{totals.batches:,} in {count_text(totals.files, 'file')}"
    if totals.control_batches:
        batches += f", {totals.control_batches:,} of them control batches"
    yield "batches", batches
    yield "size", f"{size_text(totals.bytes)} in valid batches"
    yield "records", f"{totals.records:,}"
    if totals.first_offset is not None:
        yield "offsets", f"{totals.first_offset} to {totals.last_offset}"
    if totals.first_timestamp is not None and totals.last_timestamp is not None:
        yield "times", f"{time_text(totals.first_timestamp)} to {time_text(totals.last_timestamp)}"
    if (
        totals.smallest_batch_bytes is not None
        and totals.half_below_bytes is not None
        and totals.largest_batch_bytes is not None
    ):
        sizes = f"{size_text(totals.smallest_batch_bytes)} to "
        sizes += size_text(totals.largest_batch_bytes)
        if totals.half_below_bytes <= totals.largest_batch_bytes:
            sizes += f", half of them under {size_text(totals.half_below_bytes)}"
        yield "batch sizes", sizes
    if totals.producers:
        yield "producers", count_text(totals.producers, "id")
    open_transactions = totals.open_transactions
    if totals.committed or totals.aborted or open_transactions:
        yield (
            "transactions",
            f"{totals.committed:,} committed, {totals.aborted:,} aborted, "
            f"{len(open_transactions):,} open",
        )
    for transaction in open_transactions[:_LISTED]:
        yield "", f"open: producer {transaction.producer_id} from {transaction.first_offset}"
    if len(open_transactions) > _LISTED:
        yield "", f"open: {len(open_transactions) - _LISTED:,} more"
    if totals.damages:
        yield (
            "damage",
            f"{count_text(totals.damages, 'place')}, {count_text(totals.damaged_bytes, 'byte')}",
        )
    if totals.unreadable:
        yield "unreadable", count_text(totals.unreadable, "batch", "batches")
    if totals.over_limit:
        yield "not read", count_text(totals.over_limit, "too large batch", "too large batches")


def _codecs(totals: Totals) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
    table.add_column("  compression", min_width=_LABEL)
    for heading in ("batches", "records", "stored", "uncompressed", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    for codec in totals.codecs:
        table.add_row(
            f"  {codec.codec}",
            f"{codec.batches:,}",
            f"{codec.records:,}",
            size_text(codec.stored_bytes),
            "" if codec.ratio is None else size_text(codec.uncompressed_bytes),
            "" if codec.ratio is None else f"{codec.ratio:.2f}",
        )
    return table


def _json(kind: str, fields: dict[str, object]) -> bytes:
    return f"{jsonl.line(kind, fields)}\n".encode()
