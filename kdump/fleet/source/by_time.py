"""The first offset at or after a timestamp, as a broker answers it to consumers.

Time indexes tell which segments end before the timestamp. An index may be damaged: it counts if its
entries are in order, the batch of the last one has its timestamp, and no later batch has a larger
one. Otherwise the segment is read.

Spec: ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment.findOffsetByTimestamp``.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.targets.target import Target
from kdump.errors import SourceError
from kdump.format.index import TimeIndex
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.selection import Selection, entry_position
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk

#: The size of the largest index that is read: an entry for every 256 bytes of the largest segment.
_INDEX_BYTES: Final = 96 << 20
#: Damage that may have held batches with any timestamp.
_WITH_BATCHES: Final = (Reason.BAD_CHECKSUM, Reason.IMPOSSIBLE_SIZE)
#: Small: mostly one batch is read to check an index.
_WINDOW_BYTES: Final = 64 << 10


def first_offset_since(
    target: Target, timestamp: int, first_offset: int, *, strict: bool
) -> int | None:
    """Return the first offset from ``first_offset`` on whose record is of ``timestamp`` or later.

    ``target`` is listed. Return None without such a record. What cannot be read may have such a
    record: it counts as one if that is ``strict``, so that a read from there on begins with it.
    Raise SourceError.
    """
    wanted = Selection(first_offset=first_offset, first_timestamp=timestamp)
    for segment in wanted.segments(target.segments):
        index = None
        if target.is_sealed(segment):
            index = _sound_index(segment)
            if index is not None and index[-1][0] < timestamp:
                continue
        found = _first_offset(segment, wanted, index, strict=strict)
        if found is not None:
            return found
    return None


def _first_offset(
    segment: Segment, wanted: Selection, index: TimeIndex | None, *, strict: bool
) -> int | None:
    """Return the first offset of a record of ``segment`` that is ``wanted``, or may be."""
    start, base_offset = wanted.first_offset, segment.base_offset
    if index is not None:
        # No batch before that of the last earlier entry has a later timestamp than this entry.
        start = max(start, index.lookup(wanted.first_timestamp - 1)[1])
    reader = RecordReader()
    with open_source(segment.log, mapped=False) as source:
        position, previous = _position(source, segment, start), base_offset - 1
        for piece in walk(source, base_offset, position):
            if isinstance(piece, Damage):
                if strict and piece.reason in _WITH_BATCHES:
                    return max(previous + 1, wanted.first_offset)
                continue
            table = wanted.batches(piece, previous, records=True)
            previous = piece.column("last_offset")[-1]
            for run in record_runs(table, source, reader):
                if isinstance(run, Unread):
                    if strict:
                        return max(run.batch.base_offset, wanted.first_offset)
                    continue
                for number in range(len(run)):
                    records = wanted.records(run.table(number))
                    if len(records):
                        return records[0].offset
    return None


def _sound_index(segment: Segment) -> TimeIndex | None:
    """Return the time index of a segment that gets no more batches, None without a sound one."""
    if segment.time_index is None:
        return None
    try:
        with open_source(segment.time_index, mapped=False, window_bytes=_WINDOW_BYTES) as file:
            if file.size > _INDEX_BYTES:
                return None
            index = TimeIndex.decode(file.window(0, file.size), segment.base_offset)
        if not len(index) or index.remainder or index.order_violations().count:
            return None
        return index if _is_largest(segment, *index[-1]) else None
    except SourceError:
        return None


def _is_largest(segment: Segment, timestamp: int, offset: int) -> bool:
    """Return whether the batch at ``offset`` has ``timestamp``, and no later batch a larger one."""
    found = False
    with open_source(segment.log, mapped=False, window_bytes=_WINDOW_BYTES) as source:
        for piece in walk(source, segment.base_offset, _position(source, segment, offset)):
            if isinstance(piece, Damage):
                return False
            for last_offset, largest in zip(
                piece.column("last_offset"), piece.column("max_timestamp"), strict=True
            ):
                if last_offset < offset:
                    continue
                if largest > timestamp or (not found and largest != timestamp):
                    return False
                found = True
    return found


def _position(source: Source, segment: Segment, offset: int) -> int:
    if offset <= segment.base_offset:
        return 0
    return entry_position(source, segment.index, segment.base_offset, offset)
