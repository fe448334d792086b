"""The offset and time index that recovery writes. The rule that adds an entry, after more than
``index.interval.bytes``, is in ``format/kernel/recovery.py``.

``Rebuild`` takes the pieces of a walk and returns ``RebuiltIndexes``. It continues where recovery
would stop: damage has no entries, and batches after it have entries like those before it.

Spec: ``LogSegment.recover``, ``OffsetIndex.append``, ``TimeIndex.maybeAppend``; KOD 4.2.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import sha256
from typing import Final, NamedTuple

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.recovery import initial_state
from kdump.format.batch import BatchTable
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kernel import recovery as _recovery
from kdump.storage.walk import Damage
from kdump.values import frozen

_INDEX_ENTRIES: Final = _recovery.RECOVERY_FIELDS.index("index_entries")
_TIME_ENTRIES: Final = _recovery.RECOVERY_FIELDS.index("time_entries")
_OUTCOME: Final = _recovery.RECOVERY_FIELDS.index("outcome")
#: The last position that an entry can hold, which is past the end of any log of a broker.
_LAST_POSITION: Final = 2**31 - 1


@frozen
class RebuiltFile:
    """A rebuilt index: its size in bytes, its SHA-256, and its content if there was room."""

    size: int
    sha256: str
    content: bytes | None


@frozen
class RebuiltIndexes:
    """The rebuilt ``.index`` and ``.timeindex`` of a segment.

    ``damaged``: its log is damaged. ``disorder`` counts batches whose entries were left out because
    they would not rise, or because no entry can hold their position. ``doubtful``: batches were
    left out that may lie in a record's value. ``full``: an index has no room for all entries, so
    that some are missing.
    """

    index: RebuiltFile
    time_index: RebuiltFile
    damaged: bool = False
    disorder: int = 0
    doubtful: bool = False
    full: bool = False


class Rebuild:
    """The indexes of one segment, rebuilt during the walk over its log.

    Their content is held as long as both together have at most ``room`` bytes.
    """

    def __init__(self, base_offset: int, settings: TopicSettings, *, room: int) -> None:
        self._base_offset = base_offset
        self._room = room
        self._state = initial_state(base_offset, settings)
        self._index, self._times = _File(), _File()
        self._damaged = self._doubtful = self._full = False
        self._disorder = 0
        self._before: _Mark | None = None
        self._index_numbers = self._time_numbers = memoryview(array("q"))

    def add(self, piece: BatchTable | Damage) -> None:
        """Add the next piece of the walk."""
        if isinstance(piece, Damage):
            self._damaged = True
            # A batch inside a value is followed by the rest of its record.
            if self._before is not None and not piece.empty:
                self._rewind(self._before)
                self._before, self._doubtful = None, True
            return
        if piece.hunted and self._before is None:
            self._before = self._mark()
        if piece.end > _LAST_POSITION:
            addressable = bisect_right(piece.column("position"), _LAST_POSITION)
            self._disorder += len(piece) - addressable
            piece = piece.first(addressable)
        if not self._full:
            self._batches(piece)

    def finish(self) -> RebuiltIndexes:
        """Return the indexes, after the last piece."""
        if not self._full:
            self._close()
        return RebuiltIndexes(
            self._index.file(),
            self._times.file(),
            self._damaged,
            self._disorder,
            self._doubtful,
            self._full,
        )

    def _batches(self, table: BatchTable) -> None:
        if len(self._index_numbers) < 2 * len(table):
            self._index_numbers, self._time_numbers = _numbers(len(table)), _numbers(len(table))
        state, row = self._state, 0
        while row < len(table):
            offsets, times = state[_INDEX_ENTRIES], state[_TIME_ENTRIES]
            row = _recovery.recover(table.rows, row, state, self._index_numbers, self._time_numbers)
            self._write(state[_INDEX_ENTRIES] - offsets, state[_TIME_ENTRIES] - times)
            if state[_OUTCOME] == _recovery.FULL:
                self._full = True
                return
            if state[_OUTCOME] != _recovery.GOING:
                self._disorder += 1
                row += 1

    def _close(self) -> None:
        if not len(self._time_numbers):
            return
        times = self._state[_TIME_ENTRIES]
        if not _recovery.close_times(self._state, self._time_numbers):
            self._disorder += 1
        self._write(0, self._state[_TIME_ENTRIES] - times)

    def _write(self, offsets: int, times: int) -> None:
        """Append the given numbers of new entries to the indexes."""
        if offsets:
            numbers = self._index_numbers[: 2 * offsets]
            columns = array("i", numbers[0::2]), array("i", numbers[1::2])
            self._index.add(OffsetIndex(self._base_offset, *columns).encode())
        if times:
            numbers = self._time_numbers[: 2 * times]
            stamps, relative = array("q", numbers[0::2]), array("i", numbers[1::2])
            self._times.add(TimeIndex(self._base_offset, stamps, relative).encode())
        if self._index.size + self._times.size > self._room:
            self._index.content = self._times.content = None

    def _mark(self) -> _Mark:
        state = array("q", self._state)
        return _Mark(state, self._index.mark(), self._times.mark(), self._disorder, self._full)

    def _rewind(self, mark: _Mark) -> None:
        self._state = mark.state
        self._index.rewind(mark.index_file)
        self._times.rewind(mark.time_file)
        self._disorder, self._full = mark.disorder, mark.full


class _File:
    """A growing file."""

    def __init__(self) -> None:
        self.size = 0
        self.digest = sha256()
        self.content: bytearray | None = bytearray()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        self.digest.update(data)
        if self.content is not None:
            self.content += data

    def mark(self) -> _File:
        """Return a copy without the content."""
        mark = _File()
        mark.size, mark.digest = self.size, self.digest.copy()
        return mark

    def rewind(self, mark: _File) -> None:
        self.size, self.digest = mark.size, mark.digest
        if self.content is not None:
            del self.content[self.size :]

    def file(self) -> RebuiltFile:
        content = None if self.content is None else bytes(self.content)
        return RebuiltFile(self.size, self.digest.hexdigest(), content)


class _Mark(NamedTuple):
    """The state before batches that may lie in a record's value."""

    state: array[int]
    index_file: _File
    time_file: _File
    disorder: int
    full: bool


def _numbers(rows: int) -> memoryview:
    return memoryview(array("q", bytes(16 * rows)))
