"""The batches and control records of a metadata log, as columns.

Spec: ``KRaftControlRecordStateMachine``, ``RecordsIterator``; NoOpRecord (KIP-835).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from kdump.errors import DecodeError, LimitError, SourceError
from kdump.format.batch import CONTROL, BatchTable, RecordBatch, RecordTable
from kdump.format.control import decode_control
from kdump.format.records import RecordReader
from kdump.quorum.voter_set import Entry, read_entry
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.source import Source
from kdump.storage.throttle import Pace
from kdump.storage.walk import Damage, Reason, batch_bytes, walk
from kdump.values import frozen

_FRAME_VERSION: Final = 1
#: A record that an active controller writes to measure the lag of others; it changes nothing.
_NO_OP: Final = 20
_COLUMNS: Final = ("base_offset", "last_offset", "leader_epoch", "crc", "count")


@frozen
class LogDamage:
    """Damage of a log: ``segment`` is the base offset in the name of its file.

    ``batches`` is the number of sound batches of the log before it. ``torn``: the file ends there
    inside a batch, or in zeros, and no segment follows.
    """

    path: AnyPath
    segment: int
    position: int
    size: int
    reason: Reason
    batches: int
    torn: bool


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class MetadataBatches:
    """The sound batches of a log in file order, and its damage.

    Each batch has its base and last offset, leader epoch, checksum, number of records, and number
    of ``changes``: records that change metadata, not control records and not NoOpRecord. Checksums
    do not cover base offset and epoch. ``segments`` and ``positions`` are where the batch lies.
    ``entries`` are the control records about the quorum, each with the number of batches before.
    """

    bases: array[int] = field(default_factory=_column)
    lasts: array[int] = field(default_factory=_column)
    epochs: array[int] = field(default_factory=_column)
    crcs: array[int] = field(default_factory=_column)
    counts: array[int] = field(default_factory=_column)
    changes: array[int] = field(default_factory=_column)
    segments: array[int] = field(default_factory=_column)
    positions: array[int] = field(default_factory=_column)
    damages: list[LogDamage] = field(default_factory=list)
    entries: list[tuple[int, Entry]] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.bases)

    def before(self, segment: int, position: int) -> int:
        """Return the number of batches before a position of a segment."""
        first = bisect_left(self.segments, segment)
        stop = bisect_left(self.segments, segment + 1)
        return bisect_left(self.positions, position, first, stop)

    def count_from(self, offset: int, stop: int) -> tuple[int, int]:
        """Return the records, and the changes, of batches before ``stop`` that reach ``offset``."""
        first = bisect_left(self.lasts, offset, 0, stop)
        return sum(self.counts[first:stop]), sum(self.changes[first:stop])


def read_batches(segments: Sequence[Segment], pace: Pace | None = None) -> MetadataBatches:
    """Read all segments of a metadata log, at ``pace``; an error is part of the result."""
    batches = MetadataBatches()
    reader = RecordReader()
    for segment in segments:
        try:
            with open_source(segment.log, mapped=False, pace=pace) as source:
                _read_segment(batches, reader, source, segment, last=segment is segments[-1])
        except SourceError as error:
            batches.errors.append(error)
    return batches


def read_snapshot_entries(path: AnyPath, end_offset: int, epoch: int) -> tuple[Entry, ...]:
    """Return the control records about the quorum in a snapshot; none after an error.

    Their offset is that of the last record that the snapshot covers.
    """
    entries: list[Entry] = []
    reader = RecordReader()
    try:
        with open_source(path, mapped=False) as source:
            for piece in walk(source, 0):
                if isinstance(piece, Damage):
                    break
                for batch in piece:
                    if batch.is_control:
                        entries.extend(
                            _entries(reader, source, batch, path, (end_offset - 1, epoch))
                        )
    except (DecodeError, LimitError, SourceError):
        return tuple(entries)
    return tuple(entries)


def _read_segment(
    batches: MetadataBatches, reader: RecordReader, source: Source, segment: Segment, *, last: bool
) -> None:
    for piece in walk(source, segment.base_offset):
        if isinstance(piece, Damage):
            batches.damages.append(
                LogDamage(
                    segment.log,
                    segment.base_offset,
                    piece.position,
                    piece.size,
                    piece.reason,
                    len(batches),
                    torn=last and piece.is_tail_of(source),
                )
            )
            continue
        before = len(batches)
        own = (batches.bases, batches.lasts, batches.epochs, batches.crcs, batches.counts)
        for column, name in zip(own, _COLUMNS, strict=True):
            column.extend(piece.column(name))
        batches.positions.extend(piece.column("position"))
        batches.segments.extend([segment.base_offset] * len(piece))
        batches.changes.extend(_count_changes(reader, source, piece))
        for row, attributes in enumerate(piece.column("attributes")):
            if attributes & CONTROL:
                batches.entries.extend(
                    (before + row, entry)
                    for entry in _entries_or_none(reader, source, piece[row], segment.log)
                )


def _count_changes(reader: RecordReader, source: Source, piece: BatchTable) -> Iterable[int]:
    """Return for each batch how many of its records change metadata."""
    changes = dict.fromkeys(piece.column("position"), 0)
    for run in record_runs(piece, source, reader):
        if isinstance(run, Unread):
            changes[run.batch.position] = 0 if run.batch.is_control else max(run.batch.count, 0)
        elif not run.batches[0].is_control:
            found = _changes(run.block, run.rows)
            rows = zip(run.batches.column("position"), pairwise(run.starts), strict=True)
            for position, (start, stop) in rows:
                changes[position] += sum(found[start:stop])
    return changes.values()


def _changes(block: memoryview, rows: memoryview) -> list[bool]:
    """Return for each record whether it changes metadata."""
    values, sizes = rows[4 :: RecordTable.WIDTH], rows[5 :: RecordTable.WIDTH]
    return [
        size < 2 or block[value] != _FRAME_VERSION or block[value + 1] != _NO_OP
        for value, size in zip(values, sizes, strict=True)
    ]


def _entries_or_none(
    reader: RecordReader, source: Source, batch: RecordBatch, path: AnyPath
) -> list[Entry]:
    try:
        return list(_entries(reader, source, batch, path, None))
    except (DecodeError, LimitError):
        return []  # the forecast of the start tells what a broker does with it


def _entries(
    reader: RecordReader,
    source: Source,
    batch: RecordBatch,
    path: AnyPath,
    covered: tuple[int, int] | None,
) -> Iterator[Entry]:
    """Yield the control records of a batch, with the offset and epoch ``covered`` or their own."""
    for table in reader.tables(batch, batch_bytes(source, batch)):
        for record in table:
            offset, epoch = covered or (record.offset, batch.leader_epoch)
            control = decode_control(record.key, record.value)
            entry = read_entry(control, offset, epoch, record.timestamp, path)
            if entry is not None:
                yield entry
