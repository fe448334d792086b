"""The end that a loader finds in a segment that it does not recover.

Spec: ``LogSegment.readNextOffset``, ``AbstractIndex.indexSlotRangeFor``,
``FileRecords.searchForOffset*``; KOD 5, step 5.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from kdump.errors import DecodeError, LimitError
from kdump.format.batch import HEADER_BYTES, RecordBatch, read_header
from kdump.format.index import OffsetIndex
from kdump.format.kernel import recovery as _recovery
from kdump.format.legacy import first_offset, is_wrapper
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.source import Source
from kdump.storage.walk import WalkedLog, batch_bytes
from kdump.values import frozen

#: Small, because most reads are single headers.
_WINDOW_BYTES: Final = 16 << 10
#: The number of last index entries that are searched first (``AbstractIndex.warmEntries``).
_WARM_ENTRIES: Final = 8192 // OffsetIndex.ENTRY_BYTES
_REACHED: Final = _recovery.FOLLOW_FIELDS.index("reached")
_PASSED: Final = _recovery.FOLLOW_FIELDS.index("passed")


@frozen
class LogEnd:
    """The end of a log by a loader that trusts the index; None if the loader stops the broker.

    ``searched_offset`` is for releases that search for the end by base offsets (4.3, 4.4). To
    search past the end, these read all wrappers from the last index entry on: ``readable`` says
    whether they can.
    """

    next_offset: int | None
    searched_offset: int | None
    readable: bool = True


@frozen
class Search:
    """Whether the search for an offset in a log that was not recovered stops the broker.

    ``by_base_stops`` is for releases that search by base offsets (4.3, 4.4).
    """

    stops: bool
    by_base_stops: bool


@frozen
class _HeaderChain:
    """The result of following headers from a position on.

    ``found``: a search by base offsets, which reads wrappers, succeeds. ``readable``: all wrappers
    can be read. ``corrupt``: the headers end at a size that readers cannot pass.
    """

    begun: bool
    next_offset: int
    reached: bool
    passed: bool
    found: bool
    readable: bool
    corrupt: bool


def read_end(segment: Segment) -> LogEnd:
    """Return the end of a log as a loader without recovery finds it: from the last index entry.

    Reads only batch headers from there on. Raises SourceError.
    """
    base_offset = segment.base_offset
    target, position = base_offset, 0
    if segment.index is not None:
        with _open(segment.index) as index:
            target, position = _entry(index, base_offset, None)
    with _open(segment.log) as source:
        chain = _follow_headers(source, target, position, to_end=True)
    if chain.corrupt:
        return LogEnd(None, None)
    if not chain.begun:
        return LogEnd(base_offset, base_offset)
    searched = chain.next_offset if chain.passed or chain.next_offset > target else base_offset
    end = chain.next_offset if chain.reached else base_offset
    return LogEnd(end, searched if chain.found else None, chain.readable)


def search(segment: Segment, offset: int) -> Search:
    """Search for ``offset`` as a broker does, by the index and the headers from there on.

    Raises SourceError.
    """
    position = 0
    if segment.index is not None:
        with _open(segment.index) as index:
            _, position = _entry(index, segment.base_offset, offset)
    with _open(segment.log) as source:
        chain = _follow_headers(source, offset, position, to_end=False)
    corrupt = chain.corrupt
    return Search(corrupt and not chain.reached, (corrupt and not chain.passed) or not chain.found)


def _open(path: AnyPath) -> Source:
    return open_source(path, mapped=False, window_bytes=_WINDOW_BYTES)


def _follow_headers(source: Source, target: int, position: int, *, to_end: bool) -> _HeaderChain:
    state = memoryview(array("q", [target, *bytes(len(_recovery.FOLLOW_FIELDS) - 1)]))
    readable = found = True
    status = _recovery.SHORT
    while position < source.size and status not in (_recovery.CORRUPT, _recovery.END):
        if state[_REACHED] and state[_PASSED] and not to_end:
            break
        view = source.window(position, HEADER_BYTES)
        moved, status = _recovery.follow(view, position, source.size, state)
        position += moved
        if status == _recovery.WRAPPER:
            batch = read_header(source.window(position, HEADER_BYTES), position)
            if batch is None:
                status = _recovery.CORRUPT
                break
            first = first_offset_of(source, batch)
            readable = readable and first is not None
            found = found and (first is not None or bool(state[_PASSED]))
            _recovery.take(state, batch.last_offset if first is None else first, batch.last_offset)
            position += batch.size
    _, begun, next_offset, reached, passed = state
    corrupt = status == _recovery.CORRUPT
    return _HeaderChain(
        bool(begun), next_offset, bool(reached), bool(passed), found, readable, corrupt
    )


def _entry(index: Source, base_offset: int, offset: int | None) -> tuple[int, int]:
    """Return ``offset``, for None that of the last slot, and the position of its lookup."""
    entries = index.size // OffsetIndex.ENTRY_BYTES

    def slot(number: int) -> tuple[int, int]:
        view = index.window(number * OffsetIndex.ENTRY_BYTES, OffsetIndex.ENTRY_BYTES)
        return (
            int.from_bytes(view[:4], "big", signed=True),
            int.from_bytes(view[4:8], "big", signed=True),
        )

    if not entries:
        return base_offset if offset is None else offset, 0
    relative = slot(entries - 1)[0] if offset is None else offset - base_offset
    number = lower_bound(lambda number: slot(number)[0], entries, relative)
    # A slot may hold a negative position.
    return _wrap(base_offset + relative), 0 if number is None else max(slot(number)[1], 0)


def _wrap(offset: int) -> int:
    """Return a sum of offsets wrapped to 64 bits, as in Java."""
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def lower_bound(key: Callable[[int], int], entries: int, target: int) -> int | None:
    """Return the slot that a broker's binary search finds as the last one not above ``target``.

    ``key`` returns the key of each of the ``entries`` slots. If keys do not rise, the search may
    find another slot. Return None if the search finds all keys above ``target``.
    """
    warm = max(0, entries - 1 - _WARM_ENTRIES)
    if key(warm) < target:
        low, high = warm, entries - 1
    elif key(0) > target:
        return None
    else:
        low, high = 0, warm
    while low < high:
        middle = (low + high + 1) // 2
        found = key(middle)
        if found == target:
            return middle
        if found > target:
            high = middle - 1
        else:
            low = middle
    return low


def first_offset_of(source: Source, batch: RecordBatch) -> int | None:
    """Return the offset of a batch's first record, None if it is an unreadable wrapper.

    Raises SourceError.
    """
    if not is_wrapper(batch):
        return batch.base_offset
    if isinstance(source, WalkedLog):
        return source.first_offset(batch)
    try:
        return first_offset(batch, batch_bytes(source, batch))
    except DecodeError:
        return None
    except LimitError:
        return batch.base_offset
