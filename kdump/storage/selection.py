"""Selection of batches and records by offset, time, key, producer and count.

Only what the headers rule out is passed over unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kdump.format import _rows
from kdump.format.batch import BatchTable, RecordTable
from kdump.storage.logdir import Segment
from kdump.storage.seek import entry_position
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for: everything, where nothing is given. Ranges include both ends.

    Timestamps are in ms. ``limit`` is for the whole run: of records where they are printed, else
    of batches.
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
        """Whether a batch that is asked for may hold records that are not."""
        return self != Selection(producer_id=self.producer_id, limit=self.limit)

    def segments(self, segments: Sequence[Segment]) -> list[Segment]:
        """Those of a partition that can hold the offsets, by the bases of all ``segments``."""
        ends = [*(segment.base_offset for segment in segments[1:]), HIGHEST + 1]
        return [
            segment
            for segment, end in zip(segments, ends, strict=False)
            if segment.base_offset <= self.last_offset and end > self.first_offset
        ]

    def batches(self, table: BatchTable, previous: int, *, records: bool) -> BatchTable:
        """Those of ``table`` that can hold what is asked for.

        ``previous`` is the last offset before them. Only the largest timestamp of a batch bounds
        those of its ``records``; where just batches are asked for, that of its first record counts
        as its earliest.
        """
        if self == Selection(limit=self.limit):
            return table
        rows = memoryview(bytearray(table.rows)).cast("q")
        kept = _rows.keep_batches(
            rows,
            previous,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            HIGHEST if records else self.last_timestamp,
            self.producer_id is not None,
            self.producer_id or 0,
        )
        return BatchTable(rows, hunted=table.hunted).first(kept)

    def records(self, table: RecordTable) -> RecordTable:
        """Those of ``table`` that are asked for, moved together in its own rows.

        Control records have no key that could be asked for.
        """
        if self.key is not None and table.batch.is_control:
            return table.first(0)
        kept = _rows.keep_records(
            table.rows,
            table.block,
            self.first_offset,
            self.last_offset,
            self.first_timestamp,
            self.last_timestamp,
            self.key,
        )
        return table.first(kept)

    def pieces(
        self, source: Source, base_offset: int, index: Path | None, *, records: bool
    ) -> Iterator[tuple[int, BatchTable | Damage]]:
        """Walk ``source`` from where the offsets can begin: bytes walked, and what is asked for.

        ``index`` is its offset index, if it has one. All damage is asked for; a table of batches
        may come out empty. Raises SourceError.
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
