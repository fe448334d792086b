"""Two logs side by side, batch by batch, where their digests differ.

Followers append the leader's batches as they are, so that copies of one lineage have the same
batches. The cleaner of each broker works on its own: copies of a compacted topic have the same
records at the offsets that both still hold.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import chain, dropwhile, pairwise, zip_longest
from typing import Final, NamedTuple

from kdump.copies.copy import Copy, OffsetRange, SegmentExtent
from kdump.errors import DecodeError, LimitError
from kdump.format.batch import BatchTable, Record, RecordBatch
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.source import Source
from kdump.storage.throttle import Pace
from kdump.storage.walk import WalkedLog, batch_bytes, walk
from kdump.values import frozen

#: The columns that are the same in all copies. Checksums do not cover base offset and epoch.
_COLUMNS: Final = ("base_offset", "last_offset", "leader_epoch", "crc")
_EXTENT: Final = ("base_offset", "last_offset", "count")
_HEADER: Final = ("base_offset", "last_offset", "leader_epoch", "size", "crc")
_NO_END: Final = 1 << 63
#: How many batches are compared at once after a difference; the number doubles while they agree.
_FEW: Final = 16


@frozen
class ContentDifference:
    """The first ``offset`` at which two logs of one lineage hold different batches or records."""

    offset: int
    detail: str


@frozen
class Content:
    """The content of two logs beside each other.

    ``difference`` is the first one, None without any. ``uncompared`` counts the pairs of batches
    whose records a cleaner may have changed and could not be read: a manifest has none.
    """

    difference: ContentDifference | None
    uncompared: int = 0


def compare_content(copy: Copy, other: Copy, end: int, pace: Pace | None = None) -> Content:
    """Compare the content of two copies below offset ``end``.

    Only segments are read whose digests differ, at ``pace``. Offsets that one copy has lost, or
    that lie before its start, are left out, and what the cleaner may have removed. Raises
    SourceError.
    """
    start = max(copy.start, other.start)
    known = {_identity(segment) for segment in other.segments}
    same = {_identity(segment) for segment in copy.segments if segment.digest is not None} & known
    logs = [_Log(each, same, OffsetRange(start, end), pace) for each in (copy, other)]
    with closing(logs[0]), closing(logs[1]):
        comparison = _Comparison(*logs)
        return Content(comparison.first_difference(), comparison.uncompared)


def count_records(copy: Copy, offsets: OffsetRange, pace: Pace | None = None) -> int:
    """Return the records of a copy at ``offsets``, by the headers of its batches.

    Of a batch that reaches beyond the offsets, each offset inside them counts as a record. Segments
    are read at ``pace``. Raises SourceError.
    """
    count = 0
    for segment in copy.segments:
        if segment.first is None or segment.end <= offsets.first or segment.first >= offsets.end:
            continue
        if offsets.first <= segment.first and segment.end <= offsets.end:
            count += segment.records
            continue
        with open_source(segment.log, mapped=False, pace=pace) as source:
            for table in _tables(source, segment):
                count += sum(map(offsets.share, *map(table.column, _EXTENT)))
    return count


def parting_of(
    copy: Copy, other: Copy, offset: int, pace: Pace | None = None, since: int = 0
) -> int | None:
    """Return where to truncate a copy whose batches have wrong offsets or leader epochs.

    No checksum covers these. ``other`` has right ones: the same batches before that place, and all
    that follow it in the log of ``copy``, in their order. None if it has not. ``offset`` is the
    first at which the two are known to differ; batches before ``since`` are not compared. A
    truncation removes the first batch that ends at its offset or later, and all that follow
    (``LogSegment.truncateTo``). Segments are read at ``pace``. Raises SourceError.
    """
    if not (copy.segments and other.segments):
        return None
    bases = [_segments_from(each, offset)[0].base_offset for each in (copy, other)]
    first = max([since, *bases])
    logs = [_batches(each, offset, pace) for each in (copy, other)]
    with closing(logs[0]), closing(logs[1]):
        own, others = (dropwhile(lambda batch: batch.base < first, log) for log in logs)
        agreed = None
        for batch, found in zip_longest(own, others):
            if batch is not None and batch == found:
                agreed = batch
                continue
            if agreed is None or batch is None:
                return None
            rest = chain([] if found is None else [found], others)
            if not _has_all(rest, agreed, chain([batch], own)):
                return None
            # The batch goes even if its offset is too low; what lies before ``first`` stays.
            place = min(agreed.last + 1, batch.last)
            return place if place >= first else None
    return None


def _has_all(others: Iterator[_Batch], before: _Batch, own: Iterator[_Batch]) -> bool:
    """Return whether ``others`` have all batches of ``own``, which follow ``before``, in order."""
    for batch, after in pairwise(chain(own, [None])):
        assert batch is not None
        fits = after is not None and _in_order(before, batch) and _in_order(batch, after)
        matches = (each for each in others if (each == batch if fits else _is_same(each, batch)))
        found = next(matches, None)
        if found is None:
            return False
        before = found
    return True


def _in_order(batch: _Batch, following: _Batch) -> bool:
    return batch.last < following.base and batch.epoch <= following.epoch


def _is_same(batch: _Batch, other: _Batch) -> bool:
    """Return whether two batches are the same, offsets and leader epochs aside."""
    return (batch.size, batch.crc) == (other.size, other.crc)


class _Batch(NamedTuple):
    base: int
    last: int
    epoch: int
    size: int
    crc: int


def _batches(copy: Copy, offset: int, pace: Pace | None) -> Generator[_Batch, None, None]:
    """Yield the batches from the segment on that begins last before ``offset``."""
    for segment in _segments_from(copy, offset):
        with open_source(segment.log, mapped=False, pace=pace) as source:
            for table in _tables(source, segment):
                yield from map(_Batch, *map(table.column, _HEADER))


def _segments_from(copy: Copy, offset: int) -> Sequence[SegmentExtent]:
    """Return the segments from the one on that begins last before ``offset``."""
    bases = [segment.base_offset for segment in copy.segments]
    return copy.segments[max(bisect_left(bases, offset) - 1, 0) :]


def _identity(segment: SegmentExtent) -> tuple[object, ...]:
    return segment.base_offset, segment.first, segment.end, segment.size, segment.digest


def _tables(source: Source, segment: SegmentExtent) -> Iterator[BatchTable]:
    pieces = walk(source, segment.base_offset)
    return (piece for piece in pieces if isinstance(piece, BatchTable))


class _Log:
    """The batches of a copy in a range of offsets, without those of segments that are the same."""

    def __init__(
        self,
        copy: Copy,
        same: set[tuple[object, ...]],
        offsets: OffsetRange,
        pace: Pace | None,
    ) -> None:
        self.copy = copy
        self._pace = pace
        self.offsets = offsets
        self.row = 0
        self.table = BatchTable(memoryview(b"").cast("q"))
        self.columns: list[memoryview] = []
        self._lost = [
            OffsetRange(lost.first, _NO_END if lost.end is None else lost.end) for lost in copy.lost
        ]
        self._reader: RecordReader | None = None
        self._source: Source | None = None
        self._pieces = self._read(
            [segment for segment in copy.segments if _identity(segment) not in same]
        )
        self.advance(0)

    def close(self) -> None:
        """Close the log that is open."""
        self._pieces.close()

    @property
    def left(self) -> int:
        """The batches of this table that were not compared yet; 0 at the end of the log."""
        return len(self.table) - self.row

    def advance(self, count: int) -> None:
        """Go on by ``count`` batches of this table, to the next one at its end."""
        self.row += count
        while not self.left:
            table = next(self._pieces, None)
            if table is None:
                return
            self._take(table)

    @property
    def has_records(self) -> bool:
        """Whether the log that is open has records."""
        return not isinstance(self._source, WalkedLog)

    def batch(self) -> RecordBatch:
        """Return the next batch."""
        return self.table[self.row]

    def records(self) -> Iterator[Record]:
        """Yield the records of the next batch. Raises DecodeError, LimitError, SourceError."""
        assert self._source is not None
        if self._reader is None:  # it has large buffers, and most logs need none
            self._reader = RecordReader()
        batch = self.batch()
        tables = self._reader.tables(batch, batch_bytes(self._source, batch))
        return chain.from_iterable(tables)

    def may_lack(self, batch: RecordBatch) -> bool:
        """Return whether this copy rightly has no batch at the offsets of ``batch``."""
        copy, base = self.copy, batch.base_offset
        if not copy.start <= base < copy.end_offset:
            return True
        index = bisect_right(self._lost, (base, _NO_END)) - 1
        if index >= 0 and batch.last_offset < self._lost[index].end:
            return True
        return self.may_be_cleaned(base)

    def may_be_cleaned(self, offset: int) -> bool:
        """Return whether the cleaner of this copy may have removed the record at ``offset``.

        A run that was aborted has cleaned segments beyond the offset in its checkpoint, and never
        the last segment (``LogCleaner.cleanLog``).
        """
        copy = self.copy
        cleaned = copy.cleaner_offset
        return copy.compacted and (
            cleaned is None or offset < max(cleaned, copy.segments[-1].base_offset)
        )

    def _take(self, table: BatchTable) -> None:
        bases, lasts = (table.column(name) for name in ("base_offset", "last_offset"))
        first, stop = 0, len(table)
        while first < stop and lasts[first] < self.offsets.first:
            first += 1
        while stop > first and lasts[stop - 1] >= self.offsets.end and bases[stop - 1] >= 0:
            stop -= 1
        self.table, self.row = table.part(first, stop), 0
        self.columns = [
            memoryview(self.table.column(name).tobytes()).cast("q") for name in _COLUMNS
        ]

    def _read(self, segments: Sequence[SegmentExtent]) -> Generator[BatchTable, None, None]:
        for segment in segments:
            first = segment.base_offset if segment.first is None else segment.first
            if segment.end <= self.offsets.first or first >= self.offsets.end:
                continue
            with open_source(segment.log, mapped=False, pace=self._pace) as self._source:
                yield from _tables(self._source, segment)


class _Comparison:
    """Two logs in lockstep."""

    def __init__(self, log: _Log, other: _Log) -> None:
        self.log = log
        self.other = other
        self.uncompared = 0

    def first_difference(self) -> ContentDifference | None:
        """Return the first difference, None if there is none."""
        log, other, count = self.log, self.other, _FEW
        while log.left and other.left:
            count = min(count, log.left, other.left)
            if self._agree(count):
                log.advance(count)
                other.advance(count)
                count *= 2
            elif count > 1:
                count //= 2
            else:
                found = self._compare_batches()
                if found is not None:
                    return found
                count = _FEW
        for longer, shorter in ((log, other), (other, log)):
            while longer.left:
                if not shorter.may_lack(longer.batch()):
                    return _missing(longer, shorter)
                longer.advance(1)
        return None

    def _agree(self, count: int) -> bool:
        """Return whether the next ``count`` batches of both are the same."""
        log, other = self.log, self.other
        return all(
            a[log.row : log.row + count] == b[other.row : other.row + count]
            for a, b in zip(log.columns, other.columns, strict=True)
        )

    def _compare_batches(self) -> ContentDifference | None:
        """Compare the next batch of each, which differ, and go on; return the difference."""
        log, other = self.log, self.other
        batch, beside = log.batch(), other.batch()
        if batch.base_offset != beside.base_offset:
            has, lacks = (log, other) if batch.base_offset < beside.base_offset else (other, log)
            if not lacks.may_lack(has.batch()):
                return _missing(has, lacks)
            has.advance(1)
            return None
        found = self._difference(batch, beside)
        log.advance(1)
        other.advance(1)
        return found

    def _difference(self, batch: RecordBatch, beside: RecordBatch) -> ContentDifference | None:
        base = batch.base_offset
        if batch.leader_epoch != beside.leader_epoch:
            return ContentDifference(
                base, f"leader epochs {batch.leader_epoch} and {beside.leader_epoch} in the batch"
            )
        if not (self.log.may_be_cleaned(base) or self.other.may_be_cleaned(base)):
            if batch.last_offset != beside.last_offset:
                return ContentDifference(
                    base, f"last offsets {batch.last_offset} and {beside.last_offset} of the batch"
                )
            return ContentDifference(
                base, f"checksums {batch.crc:08x} and {beside.crc:08x} of the batch"
            )
        return self._compare_records()

    def _compare_records(self) -> ContentDifference | None:
        """Compare the records of two batches that a cleaner may have written again."""
        if not (self.log.has_records and self.other.has_records):
            self.uncompared += 1
            return None
        (records, whole), (besides, whole_beside) = (
            _readable(each.records()) for each in (self.log, self.other)
        )
        for offset in sorted(records.keys() & besides.keys()):
            if records[offset] != besides[offset]:
                return ContentDifference(offset, "different records of one offset")
        if not (whole and whole_beside):
            self.uncompared += 1
        return None


def _readable(records: Iterator[Record]) -> tuple[dict[int, Record], bool]:
    """Return records by their offset, up to the first that cannot be read, and if all could be."""
    found: dict[int, Record] = {}
    try:
        for record in records:
            found[record.offset] = record
    except (DecodeError, LimitError):
        return found, False
    return found, True


def _missing(has: _Log, lacks: _Log) -> ContentDifference:
    batch = has.batch()
    return ContentDifference(
        batch.base_offset,
        f"offsets {batch.base_offset}..{batch.last_offset} are not in {lacks.copy.path}",
    )
