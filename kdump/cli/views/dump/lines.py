"""Lines around batches and records: files, damage, coverage.

Spec: ``org.apache.kafka.tools.DumpLogSegments`` 4.3.1 for the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from kdump.cli.ui import jsonl
from kdump.cli.ui.exits import INCOMPLETE, OK, PROBLEMS
from kdump.cli.views.dump.entries import Entries, Piece, json_lines, text_lines
from kdump.format.batch import BatchTable, RecordBatch, RecordRun, RecordTable
from kdump.format.lines.lines import JsonLines, Pieces, TextLines
from kdump.format.lines.text import printable
from kdump.storage.names import EXTENSIONS, DirectoryName, FileKind, FileName
from kdump.storage.walk import Damage, Reason

#: The kinds of files that hold batches.
BATCH_KINDS: Final = frozenset(
    {FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT}
)
#: The files of entries of which Kafka's tool does not say that they are empty.
_SILENT_KINDS: Final = frozenset({FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.SNAPSHOT})


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file to be dumped, its name taken apart, and the partition that it lies in.

    ``index`` is the offset index of a segment, if it has one.
    """

    path: Path
    name: FileName
    partition: DirectoryName | None
    index: Path | None = None

    @property
    def holds_batches(self) -> bool:
        """Whether there are batches in it; all other kinds hold entries."""
        return self.name.kind in BATCH_KINDS

    @property
    def base_offset(self) -> int:
        """The offset that its content starts from; a metadata snapshot has offsets of its own."""
        return (self.name.base_offset or 0) if self.name.kind in EXTENSIONS else 0


@dataclass(slots=True)
class Covered:
    """What a dump has met so far; sizes in bytes."""

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    entries: int = 0
    damages: int = 0
    incomplete: int = 0

    @property
    def exit_code(self) -> int:
        """What could not be read comes before what is damaged."""
        return INCOMPLETE if self.incomplete else PROBLEMS if self.damages else OK


class Renderer(Protocol):
    """How a dump is written: each method gives pieces of whole lines."""

    shows_batches: bool
    """Whether a batch has its line also where its records follow."""

    def start(self) -> bytes:
        """What stands before all files."""

    def file(self, file: DumpFile, size: int) -> bytes:
        """What stands before the content of ``file``, which has ``size`` bytes."""

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """Entries of a file that holds no batches, or what stands between them."""

    def batches(self, table: BatchTable) -> Pieces:
        """Sound batches."""

    def records(self, table: RecordTable) -> Pieces:
        """Records of a batch, behind it."""

    def run(self, run: RecordRun) -> Pieces:
        """Records of many batches, which have lines too if ``shows_batches``."""

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """Damage, and the header that stands at its start if it covers just that batch."""

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """Records that cannot be read (``records-unreadable``), or were not (``limit``)."""

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """What stands behind a file, whose last piece may have been damage."""

    def end(self, covered: Covered) -> bytes:
        """What stands behind all files."""


class TextDump:
    """The text of Kafka's own tool, with damage as a line of our own."""

    shows_batches = True

    def __init__(self, data: bool) -> None:
        self._lines = TextLines(data=data)
        self.batches = self._lines.batches
        self.records = self._lines.records
        self.run = self._lines.run

    def start(self) -> bytes:
        """Nothing."""
        return b""

    def file(self, file: DumpFile, size: int) -> bytes:
        """The file's name, and the offset that its batches start from."""
        name = file.name
        about = ""
        if name.kind is FileKind.LOG:
            about = f"Log starting offset: {file.base_offset}\n"
        elif name.kind is FileKind.METADATA_SNAPSHOT and name.epoch is not None:
            about = f"Snapshot end offset: {name.base_offset}, epoch: {name.epoch}\n"
        elif name.kind is FileKind.BOOTSTRAP_SNAPSHOT:
            about = "KRaft bootstrap snapshot\n"
        return _encoded(f"Dumping {printable(str(file.path))}\n{about}")

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """The lines of Kafka's tool, or lines like them."""
        if isinstance(piece, Entries) and not len(piece):
            if file.name.kind not in _SILENT_KINDS:
                yield _encoded(f"{printable(str(file.path))} is empty.\n")
        else:
            yield from text_lines(piece)

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """One line, behind the batch's own if its header can be told."""
        line = f"damage: {damage.reason.value} position: {damage.position} size: {damage.size}"
        if damage.claimed_bytes is not None:
            line += f" claimedSize: {damage.claimed_bytes}"
        if damage.stored_crc is not None:
            line += f" storedCrc: {damage.stored_crc} computedCrc: {damage.computed_crc}"
        batch = b"" if header is None else self._lines.batch(header, valid=False)
        return batch + _encoded(f"{line}\n")

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """One line."""
        return _encoded(f"{reason}: {printable(message)}\n")

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """How many bytes at the end are no batch, as Kafka's tool says it."""
        if last is None or last.reason not in (Reason.TORN_TAIL, Reason.PREALLOCATED):
            return b""
        name = printable(file.path.name)
        return _encoded(f"Found {last.size} invalid bytes at the end of {name}\n")

    def end(self, covered: Covered) -> bytes:
        """Nothing: Kafka's text has no end."""
        return b""


class JsonDump:
    """JSON Lines: header, file, batch or record, damage, unread and summary."""

    shows_batches = False

    def __init__(self, paths: Sequence[Path], *, force_base64: bool) -> None:
        self._paths = paths
        self._force_base64 = force_base64
        self._lines = JsonLines(None, None, force_base64=force_base64)
        self._where: dict[str, object] = {}

    def start(self) -> bytes:
        """The header line."""
        return _json("header", jsonl.header("dump", self._paths))

    def file(self, file: DumpFile, size: int) -> bytes:
        """One line that says which file the following lines are of."""
        topic = file.partition.topic if file.partition else None
        partition = file.partition.partition if file.partition else None
        self._lines = JsonLines(topic, partition, force_base64=self._force_base64)
        self._where = {"topic": topic, "partition": partition}
        has_offset = file.holds_batches or file.name.base_offset is not None
        fields = {
            "kind": file.name.kind.value,
            "base_offset": file.base_offset if has_offset else None,
            "size": size,
        }
        return _json("file", {**jsonl.path_field(file.path), **self._where, **fields})

    def piece(self, file: DumpFile, piece: Piece) -> Iterator[bytes]:
        """One object an entry."""
        return json_lines(piece, self._where, force_base64=self._force_base64)

    def batches(self, table: BatchTable) -> Pieces:
        """One object a batch."""
        return self._lines.batches(table)

    def records(self, table: RecordTable) -> Pieces:
        """One object a record."""
        return self._lines.records(table)

    def run(self, run: RecordRun) -> Pieces:
        """One object a record."""
        return self._lines.run(run)

    def damage(self, damage: Damage, header: RecordBatch | None) -> bytes:
        """One object."""
        return _json("damage", {**self._where, **asdict(damage), "reason": damage.reason.value})

    def unread(self, batch: RecordBatch, reason: str, message: str) -> bytes:
        """One object."""
        place = {"position": batch.position, "size": batch.size}
        return _json("unread", {**self._where, **place, "reason": reason, "detail": message})

    def end_of_file(self, file: DumpFile, last: Damage | None) -> bytes:
        """Nothing: the damage has its line."""
        return b""

    def end(self, covered: Covered) -> bytes:
        """The summary line."""
        return _json("summary", {"exit": covered.exit_code, **asdict(covered)})


def _json(kind: str, fields: dict[str, object]) -> bytes:
    return _encoded(f"{jsonl.line(kind, fields)}\n")


def _encoded(text: str) -> bytes:
    return text.encode()
