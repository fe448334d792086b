"""measure(): sizes and digests of a conversion, found without writing.

Spec: ``LogSegment.recover``; KOD 4.2, 6.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.rebuilt_indexes import Rebuild, RebuiltIndexes
from kdump.format.batch import BatchTable
from kdump.format.checkpoint import EpochEntry
from kdump.format.kernel import headers as _headers
from kdump.repair.rewrite.conversion import Conversion, NewPart, Rules
from kdump.storage.access import open_source
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_ROWS: Final = 8_192


@frozen
class MeasuredPart:
    """A new log; ``end_offset`` follows its last record, or is its base offset without records."""

    part: NewPart
    sha256: str
    end_offset: int
    rebuilt: RebuiltIndexes


@frozen
class ConversionMeasure:
    """The result of a conversion of the log at ``path``.

    ``epochs`` are the leader epochs of the converted batches. ``stamped`` batches of magic 2 get a
    leader epoch.
    """

    path: AnyPath
    epochs: tuple[EpochEntry, ...]
    stamped: int
    parts: tuple[MeasuredPart, ...]


def measure(
    path: AnyPath,
    base_offset: int,
    rules: Rules,
    epochs: Sequence[EpochEntry],
    settings: TopicSettings,
    room: int,
    report: Callable[[int], None],
) -> ConversionMeasure:
    """Convert the log at ``path`` without writing it, and build its indexes by ``settings``.

    ``epochs`` are the leader epochs of the converted batches. The content of indexes is held in
    memory if it has at most ``room`` bytes. Raises Refused, SourceError.
    """
    logs: list[_NewLog] = []
    with open_source(path, mapped=False, sealed=True) as source:
        conversion = Conversion(source, path, base_offset, rules, report, epochs=epochs)
        for number, data in conversion.pieces():
            if number == len(logs):
                logs.append(_NewLog(conversion.parts[number].base_offset, settings, room))
            logs[number].add(data)
    parts = (log.part(part) for log, part in zip(logs, conversion.parts, strict=True))
    return ConversionMeasure(path, tuple(epochs), conversion.stamped, tuple(parts))


class _NewLog:
    """The digest and the indexes of a log that is not written."""

    def __init__(self, base_offset: int, settings: TopicSettings, room: int) -> None:
        self._digest = sha256()
        self._rebuild = Rebuild(base_offset, settings, room=room)
        self._position = 0
        self._end_offset = base_offset
        self._rows = _zeros(BatchTable.WIDTH * _ROWS)
        self._pending = _zeros(_ROWS)
        self._usual = _zeros(_headers.USUAL_FIELDS)

    def add(self, data: bytes) -> None:
        """Add whole batches."""
        self._digest.update(data)
        view, stop = memoryview(data), self._position + len(data)
        while view:
            n, _, _ = _headers.scan_headers(
                view, self._position, stop, self._rows, self._pending, self._usual
            )
            table = BatchTable(self._rows[: n * BatchTable.WIDTH])
            self._rebuild.add(table)
            view, self._position = view[table.end - self._position :], table.end
            self._end_offset = table[n - 1].last_offset + 1

    def part(self, part: NewPart) -> MeasuredPart:
        """Return the measurement of the complete log; ``part`` is its summary by the conversion."""
        rebuilt = self._rebuild.finish()
        return MeasuredPart(part, self._digest.hexdigest(), self._end_offset, rebuilt)


def _zeros(count: int) -> memoryview:
    return memoryview(array("q", (0,)) * count)
