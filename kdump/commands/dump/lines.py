"""Lines around batches and records: files, damage, coverage and the exit code.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.4.0 for the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from kdump.commands.dump.entries import Entries, Piece, json_lines, text_lines
from kdump.format.batch import BatchTable, RecordBatch, RecordRun, RecordTable
from kdump.format.lines.lines import JsonLines, LineFormat, Pieces, TextLines
from kdump.format.lines.text import printable
from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    EXTENSIONS,
    DirectoryName,
    FileKind,
    FileName,
)
from kdump.storage.paths import AnyPath
from kdump.storage.walk import Damage
from kdump.ui import jsonl
from kdump.ui.exits import Ending
from kdump.values import frozen

#: The kinds of files that hold batches.
BATCH_KINDS: Final = frozenset(
    {FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT}
)
#: The kinds of files without batches that Kafka's tool does not report as empty.
_SILENT_KINDS: Final = frozenset({FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT})


@frozen
class DumpFile:
    """A file to be dumped, its parsed name, and the partition that holds it.

    ``index`` is the offset index of a segment, None if it has none. ``named_topic`` is the topic
    that the user names, which counts more than the name of the directory.
    """

    path: AnyPath
    name: FileName
    partition: DirectoryName | None
    index: AnyPath | None = None
    named_topic: str | None = None

    @property
    def topic(self) -> str | None:
        """The topic of the records, None if it is unknown.

        A snapshot of KRaft is of the metadata log wherever it is, the bootstrap snapshot too.
        """
        if self.named_topic is not None:
            return self.named_topic
        if self.name.kind in (FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT):
            return CLUSTER_METADATA_TOPIC
        return None if self.partition is None else self.partition.topic

    @property
    def holds_batches(self) -> bool:
        """Whether the file holds batches; all other kinds hold entries."""
        return self.name.kind in BATCH_KINDS

    @property
    def base_offset(self) -> int:
        """The base offset of the content; a metadata snapshot has offsets of its own, from 0."""
        return (self.name.base_offset or 0) if self.name.kind in EXTENSIONS else 0


@dataclass(slots=True)
class Covered:
    """Counts of what a dump has printed so far; ``bytes`` are those read."""

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    entries: int = 0
    damages: int = 0
    incomplete: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        return Ending(unread=bool(self.incomplete), problems=bool(self.damages)).exit_code


class Renderer(Protocol):
    """The format of a dump; methods return or yield bytes that hold whole lines."""

    shows_batches: bool
    """Whether a batch has a line of its own before its records."""

    def start(self) -> bytes:
        """Return the lines before all files."""

    def file(self, file: DumpFile, size: int) -> bytes:
        """Return the lines before the content of ``file``, which has ``size`` bytes."""

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """Yield the lines of a piece of a file without batches."""

    def batches(self, table: BatchTable) -> Pieces:
        """Return the lines of sound batches."""

    def records(self, table: RecordTable) -> Pieces:
        """Return the lines of records of a batch, without the line of the batch."""

    def run(self, run: RecordRun) -> Pieces:
        """Return the lines of the records of many batches, with batches if ``shows_batches``."""

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """Return the lines of damage; ``header`` is that of a batch which it covers exactly."""

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """Return the line of a batch whose records were not all read; ``reason`` is a code."""

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """Return the lines after a file; ``last`` is its last piece, if that is damage."""

    def end(self, covered: Covered) -> bytes:
        """Return the lines after all files."""


class _Lines:
    """Batches and records in the lines that ``_lines`` makes of them."""

    _lines: LineFormat

    def batches(self, table: BatchTable) -> Pieces:
        """Return a line for each batch."""
        return self._lines.batches(table)

    def records(self, table: RecordTable) -> Pieces:
        """Return a line for each record."""
        return self._lines.records(table)

    def run(self, run: RecordRun) -> Pieces:
        """Return a line for each record; in text, the line of their batch comes before them."""
        return self._lines.run(run)


class TextDump(_Lines):
    """The text of Kafka's own tool, with a line of kdump for damage.

    ``data`` prints keys and values, and ``decode`` those of internal topics as messages.
    """

    shows_batches = True
    _lines: TextLines

    def __init__(self, *, data: bool, decode: bool) -> None:
        self._data, self._decode = data, decode
        self._lines = TextLines(data=data)

    def start(self) -> bytes:
        """Return nothing: Kafka's text has no header."""
        return b""

    def file(self, file: DumpFile, size: int) -> bytes:
        """Return the name of the file, and the offset that its batches start from."""
        name = file.name
        self._lines = TextLines(data=self._data, topic=file.topic if self._decode else None)
        about = ""
        if name.kind is FileKind.LOG:
            about = f"Log starting offset: {file.base_offset}\n"
        elif name.kind is FileKind.METADATA_SNAPSHOT and name.epoch is not None:
            about = f"Snapshot end offset: {name.base_offset}, epoch: {name.epoch}\n"
        elif name.kind is FileKind.BOOTSTRAP_SNAPSHOT:
            about = "KRaft bootstrap snapshot\n"
        return _encode(f"Dumping {printable(str(file.path))}\n{about}")

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """Yield the lines of Kafka's tool, or lines of the same form."""
        if isinstance(piece, Entries) and not len(piece):
            if file.name.kind not in _SILENT_KINDS:
                yield _encode(f"{printable(str(file.path))} is empty.\n")
        else:
            yield from text_lines(piece)

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """Return a line, after the line of the batch if ``header`` is known."""
        line = f"damage: {damage.reason.value} position: {damage.position} size: {damage.size}"
        if damage.claimed_bytes is not None:
            line += f" claimedSize: {damage.claimed_bytes}"
        if damage.stored_crc is not None:
            line += f" storedCrc: {damage.stored_crc} computedCrc: {damage.computed_crc}"
        batch = b"" if header is None else self._lines.batch(header, valid=False)
        return batch + _encode(f"{line}\n")

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """Return a line."""
        return _encode(f"{reason}: {printable(message)}\n")

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """Return the number of invalid bytes at the end, as Kafka's tool prints it."""
        if last is None or not last.is_tail:
            return b""
        name = printable(file.path.name)
        return _encode(f"Found {last.size} invalid bytes at the end of {name}\n")

    def end(self, covered: Covered) -> bytes:
        """Return nothing: Kafka's text has no summary."""
        return b""


class JsonDump(_Lines):
    """JSON Lines: header, file, batch or record, damage, unread and summary."""

    shows_batches = False

    def __init__(self, paths: Sequence[AnyPath], *, force_base64: bool, decode: bool) -> None:
        self._paths = paths
        self._force_base64, self._decode = force_base64, decode
        self._lines = JsonLines(None, None, force_base64=force_base64)
        self._where: dict[str, object] = {}

    def start(self) -> bytes:
        """Return the header line."""
        return _json("header", jsonl.header("dump", self._paths))

    def file(self, file: DumpFile, size: int) -> bytes:
        """Return the line of the file that the following lines belong to."""
        topic = file.topic
        partition = file.partition.partition if file.partition else None
        self._lines = JsonLines(
            topic, partition, force_base64=self._force_base64, decode=self._decode
        )
        self._where = {"topic": topic, "partition": partition}
        has_offset = file.holds_batches or file.name.base_offset is not None
        fields = {
            "kind": file.name.kind.value,
            "base_offset": file.base_offset if has_offset else None,
            "size": size,
        }
        return _json("file", {**jsonl.path_field(file.path), **self._where, **fields})

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """Yield an object for each entry."""
        return json_lines(piece, self._where, force_base64=self._force_base64)

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """Return an object."""
        return _json("damage", {**self._where, **asdict(damage), "reason": damage.reason.value})

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """Return an object."""
        extent = {"position": batch.position, "size": batch.size}
        return _json("unread", {**self._where, **extent, "reason": reason, "detail": message})

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """Return nothing: the damage has its line."""
        return b""

    def end(self, covered: Covered) -> bytes:
        """Return the summary line."""
        return _json("summary", {"exit": covered.exit_code, **asdict(covered)})


def _json(kind: str, fields: dict[str, object]) -> bytes:
    return _encode(f"{jsonl.line(kind, fields)}\n")


def _encode(text: str) -> bytes:
    return text.encode()
