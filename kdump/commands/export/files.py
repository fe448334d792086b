"""The files of a task: by the size of its log and the hour of the records, with what each holds.

The directories follow Hive, whose readers make columns of them.
"""

from __future__ import annotations

import socket
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from kdump.commands.export.output import ExportFile, FileFormat, WrittenFile
from kdump.format.batch import RecordRun, RecordTable
from kdump.format.kernel import ranges as _ranges
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights
from kdump.tables.logs import Origin
from kdump.values import frozen

#: The hour of records without a timestamp, or with one that no calendar has.
NO_HOUR: Final = -1
_EPOCH: Final = date(1970, 1, 1)
#: The end of the year 9999, in ms.
_END_MS: Final = 253_402_300_800_000
#: The files that a task has open: of more, the one that got records the longest time ago is closed.
_MOST_OPEN: Final = 32
#: The bytes that all open files hold in memory: of more, the file that holds most writes its bytes.
_MOST_HELD: Final = 64 << 20
#: Hive's name for a null partition value.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@frozen
class Ledger:
    """What a file holds of one log of ``bytes``, which was read on ``host``."""

    path: str
    host: str
    topic: str | None
    partition: int | None
    bytes: int
    records: int
    first_offset: int
    last_offset: int


@frozen
class TaskFile:
    """A file of a task.

    ``hour`` counts from 1970; it is ``NO_HOUR`` for records without one, and None if hours share
    files.
    """

    file: WrittenFile
    hour: int | None
    logs: tuple[Ledger, ...]


@frozen
class FileLayout:
    """How a task divides its records over files.

    The batches of a log are divided by their position into ``pieces`` of ``piece_bytes``, of which
    the last may be longer. With ``hourly``, the records of each hour have a file of their own.
    """

    pieces: int = 1
    piece_bytes: int = 0
    hourly: bool = False

    def piece(self, position: int) -> int:
        """Return the number of the piece with the batch at ``position``."""
        return 0 if self.pieces == 1 else min(position // self.piece_bytes, self.pieces - 1)


@dataclass(slots=True)
class _Count:
    origin: Origin
    bytes: int
    records: int
    first: int
    last: int


@dataclass(slots=True)
class _File:
    hour: int | None
    output: ExportFile
    counts: list[_Count] = field(default_factory=list)
    written: WrittenFile | None = None

    def add(self, run: RecordRun, origin: Origin, log_bytes: int) -> None:
        self.output.add(run, origin)
        count = len(run.rows) // RecordTable.WIDTH
        low, high = _ranges.offset_bounds(run.rows)
        if self.counts and self.counts[-1].origin is origin:
            known = self.counts[-1]
            known.records += count
            known.first, known.last = min(known.first, low), max(known.last, high)
        else:
            self.counts.append(_Count(origin, log_bytes, count, low, high))

    def close(self) -> None:
        if self.written is None:
            self.written = self.output.close()


class TaskFiles:
    """The files of a task, in the directory ``to``. Methods raise OSError."""

    def __init__(
        self, to: AnyPath, rights: Rights | None, form: FileFormat, layout: FileLayout
    ) -> None:
        self.records = 0
        self._to = to
        self._rights = rights
        self._form = form
        self._layout = layout
        self._origin = Origin(None, None, "")
        self._log_bytes = 0
        self._piece = 0
        self._files: list[_File] = []
        #: By hour, the one that got records last at the end.
        self._open: dict[int | None, _File] = {}

    def start(self, origin: Origin, log_bytes: int) -> None:
        """Begin a log: the records that are added next are of it."""
        self._origin, self._log_bytes = origin, log_bytes

    def add(self, run: RecordRun) -> None:
        """Add the records of ``run``, at least one."""
        self.records += len(run.rows) // RecordTable.WIDTH
        for piece, part in self._by_piece(run):
            if piece != self._piece:
                self._close_open()
                self._piece = piece
            if not self._layout.hourly:
                self._add(None, part)
                continue
            for hour, of_hour in by_hour(part):
                self._add(hour, of_hour)
                self._free_memory()

    def close(self) -> tuple[TaskFile, ...]:
        """Finish all files, and return them in the order of their first records."""
        self._close_open()
        return tuple(self._finished())

    def discard(self) -> None:
        """Close and remove all files."""
        for file in self._files:
            file.output.discard()

    def _by_piece(self, run: RecordRun) -> Iterator[tuple[int, RecordRun]]:
        layout, positions = self._layout, run.batches.column("position")
        if layout.piece(positions[0]) == layout.piece(positions[-1]):
            yield layout.piece(positions[0]), run
            return
        index = 0
        while index < len(positions):
            piece = layout.piece(positions[index])
            end = len(positions)
            if piece < layout.pieces - 1:
                end = bisect_left(positions, (piece + 1) * layout.piece_bytes, index)
            start, stop = run.starts[index], run.starts[end]
            if start < stop:
                yield piece, run.gather([(start, stop)])
            index = end

    def _add(self, hour: int | None, run: RecordRun) -> None:
        file = self._open.pop(hour, None)
        if file is None:
            if len(self._open) == _MOST_OPEN:
                oldest = next(iter(self._open))
                self._open.pop(oldest).close()
            path = self._to / f"{uuid4().hex}.{self._form.value}"
            file = _File(hour, ExportFile(path, self._rights, self._form))
            self._files.append(file)
        self._open[hour] = file
        file.add(run, self._origin, self._log_bytes)

    def _free_memory(self) -> None:
        outputs = [file.output for file in self._open.values()]
        if sum(output.held_bytes for output in outputs) > _MOST_HELD:
            max(outputs, key=lambda output: output.held_bytes).flush()

    def _close_open(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _finished(self) -> Iterator[TaskFile]:
        host = socket.gethostname()
        for file in self._files:
            assert file.written is not None
            ledgers = (
                Ledger(
                    count.origin.source_file,
                    host,
                    count.origin.topic,
                    count.origin.partition,
                    count.bytes,
                    count.records,
                    count.first,
                    count.last,
                )
                for count in file.counts
            )
            yield TaskFile(file.written, file.hour, tuple(ledgers))


def file_name(topic: str | None, hour: int | None, number: str, extension: str) -> str:
    """Return the name of a file below the export; ``hour`` is as for ``TaskFile``."""
    folders = f"topic={_NULL if topic is None else quote(topic, safe='')}"
    if hour == NO_HOUR:
        folders += f"/date={_NULL}/hour={_NULL}"
    elif hour is not None:
        days, hour_of_day = divmod(hour, 24)
        folders += f"/date={_EPOCH + timedelta(days)}/hour={hour_of_day:02d}"
    return f"{folders}/part-{number}.{extension}"


def by_hour(run: RecordRun) -> Iterator[tuple[int, RecordRun]]:
    """Yield the records of ``run`` by their hour, those of each hour in order."""
    records, width = len(run.rows) // RecordTable.WIDTH, _ranges.HOUR_WIDTH
    rows = array("q", bytes(8 * width * records))
    count = _ranges.join_hours(run.rows, _END_MS, rows)
    if count == 1:
        yield rows[0], run
        return
    stretches: dict[int, list[tuple[int, int]]] = {}
    for at in range(0, count * width, width):
        hour, start, stop = rows[at : at + width]
        stretches.setdefault(hour, []).append((start, stop))
    for hour, of_hour in stretches.items():
        yield hour, run.gather(of_hour)
