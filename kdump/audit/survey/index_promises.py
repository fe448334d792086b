"""Whether the entries of existing indexes lead to the right batches, checked during the walk.

Spec: ``AbstractIndex``, ``OffsetIndex``, ``TimeIndex``; KOD 4.3, checks 9 to 14.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import field, replace
from enum import Enum
from typing import Final, Generic, TypeVar

from kdump.errors import SourceError
from kdump.format.batch import BatchTable
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kernel import entries as _entries
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.storage.throttle import Pace
from kdump.values import frozen

Index = TypeVar("Index", OffsetIndex, TimeIndex)

#: The most entries that are listed for one broken promise; all are counted.
LISTED: Final = _entries.LISTED

#: The sizes of new and active indexes with the default ``segment.index.bytes``.
_FULL_LENGTHS: Final = frozenset({10_485_760, 10_485_756})
#: The largest index that is read: an entry for every 256 bytes of the largest segment.
_INDEX_BYTES: Final = 64 << 20
#: Above every magic.
_NO_MAGIC: Final = 128


class BrokenPromise(Enum):
    """The ways in which an index entry breaks its promise."""

    MISPLACED = _entries.MISPLACED  # its position is not the start of a batch
    SKIPS = _entries.SKIPS  # it points past the batch that holds its offset
    UNMATCHED = _entries.UNMATCHED  # no batch up to its own has a timestamp that large
    BEYOND = _entries.BEYOND  # its position lies at or after the end of the log


#: The first of these kinds among the counts at the end of the state.
_FIRST_COUNT: Final = _entries.J_COUNTS + min(kind.value for kind in BrokenPromise)


@frozen
class EntryFault:
    """An entry that breaks its promise, as (offset, position) or (timestamp, offset).

    ``reference`` is the value it was compared with: the position of the batch that it points into
    (MISPLACED), the last offset before its position or the latest timestamp of records before its
    batch (SKIPS), the largest timestamp up to its batch (UNMATCHED), the size of the log (BEYOND).
    """

    kind: BrokenPromise
    number: int
    entry: tuple[int, int]
    reference: int


#: The counts of an index whose entries break no promise, as nearly all.
_NO_COUNTS: Final[Counter[BrokenPromise]] = Counter()


@frozen
class IndexFacts:
    """The form of an index file, and the check of its entries against the batches of its log.

    ``padding`` counts the zero slots after the entries, ``remainder`` the bytes of an incomplete
    slot. ``disorder`` counts entries that break the order; ``first_disorder`` is (number of the
    entry, previous entry, entry), entries as (offset, position) or (timestamp, offset). Entries
    before the first disorder are checked: ``counts`` has the number of entries for each broken
    promise, ``faults`` the first few of each kind. ``last`` is the last entry, checked or not. With
    ``room`` for more entries, stale entries may follow the valid ones: none was read.
    """

    path: AnyPath
    size: int
    entry_bytes: int
    remainder: int
    padding: int
    disorder: int
    first_disorder: tuple[int, tuple[int, int], tuple[int, int]] | None
    room: bool = False
    last: tuple[int, int] | None = None
    counts: Counter[BrokenPromise] = field(default_factory=lambda: _NO_COUNTS)
    faults: tuple[EntryFault, ...] = ()


class IndexPass:
    """Reads the indexes of a segment at once, and checks them during the walk over its log.

    ``errors`` has the files that could not be read.
    """

    def __init__(
        self, segment: Segment, *, mapped: bool, sealed: bool, pace: Pace | None = None
    ) -> None:
        self.errors: list[tuple[AnyPath, SourceError]] = []
        self._base_offset = segment.base_offset
        self._offsets = self._open_check(OffsetIndex, segment.index, mapped, sealed, pace)
        self._times = self._open_check(TimeIndex, segment.time_index, mapped, sealed, pace)
        state = self._times.state
        state[_entries.J_MAX_TIMESTAMP] = state[_entries.J_RECORD_TIMESTAMP] = -1
        state[_entries.J_LOWEST_MAGIC] = _NO_MAGIC
        state[_entries.J_HIGHEST_MAGIC] = -_NO_MAGIC

    def add(self, table: BatchTable) -> None:
        """Check the entries that point into the next batches of the log."""
        if table.hunted:  # they may lie inside a record's value
            self.add_damage(table.end)
            return
        offsets, times = self._offsets, self._times
        _entries.judge_offsets(
            table.rows,
            self._base_offset,
            offsets.index.relative_offsets,
            offsets.index.positions,
            offsets.state,
            offsets.found,
        )
        _entries.judge_times(
            table.rows,
            self._base_offset,
            times.index.timestamps,
            times.index.relative_offsets,
            times.state,
            times.found,
        )

    def add_damage(self, end: int) -> None:
        """Skip the entries that point into damage up to position ``end``."""
        offsets = self._offsets
        _entries.pass_over(offsets.index.positions, end, offsets.state, offsets.found)
        self._times.state[_entries.J_DAMAGED] = 1

    def finish(self, log_size: int) -> None:
        """Report the entries that point past the log, which was read to its end."""
        self._offsets.add_beyond(log_size)

    @property
    def index(self) -> IndexFacts | None:
        """The facts of the ``.index``; None if it does not exist or could not be read."""
        return self._offsets.result()

    @property
    def time_index(self) -> IndexFacts | None:
        """The facts of the ``.timeindex``; None if it does not exist or could not be read."""
        return self._times.result()

    @property
    def record_timestamp(self) -> int:
        """The latest timestamp of a batch that holds records, in ms; -1 without one."""
        return self._times.state[_entries.J_RECORD_TIMESTAMP]

    @property
    def magics(self) -> tuple[int, int] | None:
        """The lowest and the highest magic of a batch; None without one."""
        state = self._times.state
        lowest, highest = state[_entries.J_LOWEST_MAGIC], state[_entries.J_HIGHEST_MAGIC]
        return (lowest, highest) if lowest <= highest else None

    def _open_check(
        self,
        kind: type[Index],
        path: AnyPath | None,
        mapped: bool,
        sealed: bool,
        pace: Pace | None,
    ) -> _EntryCheck[Index]:
        if path is not None:
            try:
                return _read(kind, path, self._base_offset, mapped, sealed, pace)
            except SourceError as error:
                self.errors.append((path, error))
        return _EntryCheck(kind.of(self._base_offset, ()), None)


class _EntryCheck(Generic[Index]):
    """An index and the progress of its check; ``facts`` is None if no file was read."""

    def __init__(self, index: Index, facts: IndexFacts | None) -> None:
        self.index: Index = index
        self.facts = facts
        self.state = array("q", bytes(8 * _entries.STATE_FIELDS))
        self.found = array("q", bytes(8 * _entries.FOUND_NUMBERS))
        self.state[_entries.J_PREVIOUS] = index.base_offset - 1
        self.state[_entries.J_STOP] = len(index)
        if facts is not None and facts.first_disorder is not None:
            # It is unknown which of the two entries is wrong.
            self.state[_entries.J_STOP] = facts.first_disorder[0] - 1

    def add_beyond(self, log_size: int) -> None:
        """Count the unchecked entries as entries that point past the log."""
        first, stop = self.state[_entries.J_NEXT], self.state[_entries.J_STOP]
        self.state[_entries.J_COUNTS + _entries.BEYOND] = stop - first
        for listed, number in enumerate(range(first, min(stop, first + LISTED))):
            index = 2 * (_entries.BEYOND * LISTED + listed)
            self.found[index] = number
            self.found[index + 1] = log_size

    def result(self) -> IndexFacts | None:
        """Return the facts, with the broken promises."""
        if self.facts is None or not any(self.state[_FIRST_COUNT:]):
            return self.facts
        counts = Counter(
            {
                kind: count
                for kind in BrokenPromise
                if (count := self.state[_entries.J_COUNTS + kind.value])
            }
        )
        faults = []
        for kind, count in counts.items():
            start = 2 * kind.value * LISTED
            listed = self.found[start : start + 2 * min(count, LISTED)]
            for number, reference in zip(listed[0::2], listed[1::2], strict=True):
                faults.append(EntryFault(kind, number, self.index[number], reference))
        return replace(self.facts, counts=counts, faults=tuple(faults))


def _read(
    kind: type[Index],
    path: AnyPath,
    base_offset: int,
    mapped: bool,
    sealed: bool,
    pace: Pace | None,
) -> _EntryCheck[Index]:
    """Return the index to check, with the facts of its form; raises SourceError."""
    with open_source(path, mapped=mapped, sealed=sealed, pace=pace) as source:
        size, slot = source.size, kind.ENTRY_BYTES
        if not sealed and size >= slot:
            last = size // slot * slot - slot
            # An index with room for more entries may also hold stale ones, which brokers do not
            # read. Its content is not a sign of damage, and most of its megabytes are a hole.
            if size in _FULL_LENGTHS or not any(source.window(last, slot)[:slot]):
                facts = IndexFacts(path, size, slot, size % slot, 0, 0, None, room=True)
                return _EntryCheck(kind.of(base_offset, ()), facts)
        if size > _INDEX_BYTES:
            raise SourceError(
                path,
                f"{path}: expected an index of at most {_INDEX_BYTES} bytes, found {size} bytes",
            )
        index = kind.decode(source.window(0, size), base_offset)
    violations = index.order_violations()
    first = None
    if violations.first:
        number = violations.first[0]
        first = number, index[number - 1], index[number]
    last_entry = index[len(index) - 1] if len(index) else None
    remainder = len(index.remainder)
    return _EntryCheck(
        index,
        IndexFacts(
            path, size, slot, remainder, index.padding, violations.count, first, last=last_entry
        ),
    )
