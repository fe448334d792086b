"""Selection of batches and records by offset, time, key, producer and count.

A batch is skipped without decoding its records if its header rules it out. The offset index of a
segment says from where to read it.

Spec: ``OffsetIndex.lookup``, ``LogSegment.translateOffset``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.errors import SourceError
from kdump.format.batch import BatchTable, RecordRun, RecordTable
from kdump.format.index import OffsetIndex
from kdump.format.kernel import ranges as _ranges
from kdump.format.kernel import select as _select
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.source import Source
from kdump.storage.walk import Damage, sound_batch, walk
from kdump.values import frozen

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1
#: The size of the largest index that is read: an entry for every 256 bytes of the largest segment.
_INDEX_BYTES: Final = 64 << 20


@frozen
class Selection:
    """The criteria of a selection; the default selects everything. Ranges include both ends.

    Timestamps are in ms. ``limit`` holds for the whole run: it counts records if records are
    printed, else batches.
    """

    first_offset: int = LOWEST
    last_offset: int = HIGHEST
    first_timestamp: int = LOWEST
    last_timestamp: int = HIGHEST
    key: bytes | None = None
    producer_id: int | None = None
    limit: int | None = None

    @property
    def of_records(self) -> bool:
        """Whether a selected batch may hold records that are not selected."""
        return self != Selection(producer_id=self.producer_id, limit=self.limit)

    def segments(self, segments: Sequence[Segment]) -> list[Segment]:
        """Return the segments that can hold selected offsets, by the base offsets of all of them.

        ``segments`` are all segments of a partition, ascending.
        """
        ends = [*(segment.base_offset for segment in segments[1:]), HIGHEST + 1]
        return [
            segment
            for segment, end in zip(segments, ends, strict=False)
            if segment.base_offset <= self.last_offset and end > self.first_offset
        ]

    def batches(self, table: BatchTable, previous: int, *, records: bool) -> BatchTable:
        """Return the batches of ``table`` that can hold selected records.

        ``previous`` is the last offset before them. With ``records``, only the largest timestamp of
        a batch bounds the timestamps of its records. Without, a batch is selected as a whole, and
        the timestamp of its first record counts as its earliest.
        """
        if self == Selection(limit=self.limit):
            return table
        rows = memoryview(bytearray(table.rows)).cast("q")
        count = _select.keep_batches(
            rows,
            previous,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            HIGHEST if records else self.last_timestamp,
            self.producer_id is not None,
            self.producer_id or 0,
        )
        return BatchTable(rows, hunted=table.hunted).first(count)

    def records(self, table: RecordTable) -> RecordTable:
        """Return the selected records of ``table``, moved together in its own rows.

        A selection by key selects no control records.
        """
        if self.key is not None and table.batch.is_control:
            return table.first(0)
        count = _select.keep_records(
            table.rows,
            table.block,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            self.last_timestamp,
            self.key,
        )
        return table.first(count)

    def runs(self, run: RecordRun) -> Iterator[RecordRun]:
        """Yield the selected records of ``run``: all of them together, or those of each batch."""
        if not self.of_records or self._has_all(run):
            yield run
            return
        for number in range(len(run)):
            selected = self.records(run.table(number))
            if len(selected):
                yield RecordRun.of(selected)

    def _has_all(self, run: RecordRun) -> bool:
        """Return whether offsets alone are selected, and those of all records are."""
        if self != Selection(
            self.first_offset, self.last_offset, producer_id=self.producer_id, limit=self.limit
        ):
            return False
        if not len(run.rows):
            return True
        low, high = _ranges.offset_bounds(run.rows)
        return bool(self.first_offset <= low and high <= self.last_offset)

    def pieces(
        self,
        source: Source,
        base_offset: int,
        index: AnyPath | None,
        *,
        records: bool,
        to_end: bool = True,
    ) -> Iterator[tuple[int, BatchTable | Damage]]:
        """Walk ``source`` from where the selected offsets can begin, ``to_end`` or to their end.

        Yield the count of bytes of each piece, with the damage or the selected batches in it, which
        may be none. ``index`` is the offset index of the segment, if it has one. Raises
        SourceError.
        """
        start, previous = 0, base_offset - 1
        if self.first_offset > base_offset:
            start = entry_position(source, index, base_offset, self.first_offset)
        for piece in walk(source, base_offset, start):
            if isinstance(piece, Damage):
                yield piece.size, piece
            else:
                yield piece.end - piece.position, self.batches(piece, previous, records=records)
                previous = piece.column("last_offset")[-1]
                if not to_end and previous >= self.last_offset:
                    return


def entry_position(source: Source, index: AnyPath | None, base_offset: int, offset: int) -> int:
    """Return the position of a batch before which no batch reaches ``offset``.

    The ``index`` of the segment gives the position. It is 0 without an index, if the index cannot
    be read, or if it does not point to a sound batch with a base offset up to ``offset``.

    Raises SourceError if ``source`` cannot be read.
    """
    if index is None:
        return 0
    try:
        with open_source(index, mapped=False) as file:
            if file.size > _INDEX_BYTES:
                return 0
            entries = OffsetIndex.decode(file.window(0, file.size), base_offset)
    except SourceError:
        return 0
    _, position = entries.lookup(offset)
    batch = sound_batch(source, base_offset, position)
    return position if batch is not None and batch.base_offset <= offset else 0
