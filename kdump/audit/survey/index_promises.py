"""The promises of existing index entries, checked while the batches pass.

Spec: ``AbstractIndex``, ``OffsetIndex``, ``TimeIndex``; KOD 4.3, checks 9 to 14.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final, Generic, TypeVar

from kdump.errors import SourceError
from kdump.format import _entries
from kdump.format.batch import BatchTable
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.throttle import Pace

Index = TypeVar("Index", OffsetIndex, TimeIndex)

#: How many entries that break one promise are listed; all are counted.
LISTED: Final = _entries.LISTED

#: Lengths of new and active indexes with the default ``segment.index.bytes``.
_FULL_LENGTHS: Final = frozenset({10_485_760, 10_485_756})
#: The largest index that is read: an entry for every 256 bytes of the largest segment.
_INDEX_BYTES: Final = 64 << 20
#: Above every magic.
_NO_MAGIC: Final = 128


class EntryKind(Enum):
    """How an entry of an index breaks its promise."""

    MISPLACED = _entries.MISPLACED  # its position is not the start of a batch
    SKIPS = _entries.SKIPS  # what it answers for begins before the place that it leads to
    UNMATCHED = _entries.UNMATCHED  # no batch up to its own has a timestamp that large
    BEYOND = _entries.BEYOND  # its position lies at or behind the end of the log


#: The state ends with counts, and the last of them are of these kinds.
_FIRST_COUNT: Final = _entries.J_COUNTS + min(kind.value for kind in EntryKind)


@dataclass(frozen=True, slots=True)
class EntryFault:
    """An entry that breaks its promise, as (offset, position) or (timestamp, offset).

    ``reference`` is what it was compared with: the position of the batch that it leads into
    (MISPLACED), the last offset before its position or the latest timestamp of records before its
    batch (SKIPS), the largest timestamp up to there (UNMATCHED), the size of the log (BEYOND).
    """

    kind: EntryKind
    number: int
    entry: tuple[int, int]
    reference: int


#: Of an index whose entries break no promise, as of nearly all.
_NO_COUNTS: Final[Counter[EntryKind]] = Counter()


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What an index file looks like, and what the batches of its log say of its entries.

    ``padding`` counts the zero slots behind the entries, ``remainder`` the bytes of a slot that is
    cut off. ``disorder`` counts entries that break the order; ``first_disorder`` is (number of the
    entry, entry before, entry), entries as (offset, position) or (timestamp, offset). Entries in
    front of that are judged: ``counts`` has how many break which promise, ``faults`` the first few
    of each kind. ``last`` is the last entry, judged or not. With ``room`` for more entries, behind
    the valid ones stale ones may follow: none was read.
    """

    path: Path
    size: int
    entry_bytes: int
    remainder: int
    padding: int
    disorder: int
    first_disorder: tuple[int, tuple[int, int], tuple[int, int]] | None
    room: bool = False
    last: tuple[int, int] | None = None
    counts: Counter[EntryKind] = field(default_factory=lambda: _NO_COUNTS)
    faults: tuple[EntryFault, ...] = ()


class IndexPass:
    """Reads the indexes of a segment at once, and judges them as its log is walked.

    ``errors`` are of the files that could not be read.
    """

    def __init__(
        self, segment: Segment, *, mapped: bool, sealed: bool, pace: Pace | None = None
    ) -> None:
        self.errors: list[tuple[Path, SourceError]] = []
        self._base_offset = segment.base_offset
        self._offsets = self._open_check(OffsetIndex, segment.index, mapped, sealed, pace)
        self._times = self._open_check(TimeIndex, segment.time_index, mapped, sealed, pace)
        state = self._times.state
        state[_entries.J_MAX_TIMESTAMP] = state[_entries.J_RECORD_TIMESTAMP] = -1
        state[_entries.J_LOWEST_MAGIC] = _NO_MAGIC
        state[_entries.J_HIGHEST_MAGIC] = -_NO_MAGIC

    def add(self, table: BatchTable) -> None:
        """Judge the entries that speak of the next batches of the log."""
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
        """Pass over what speaks of a stretch of the log, up to ``end``, that is not sound."""
        offsets = self._offsets
        _entries.pass_over(offsets.index.positions, end, offsets.state, offsets.found)
        self._times.state[_entries.J_DAMAGED] = 1

    def finish(self, log_size: int) -> None:
        """Judge the entries that lead behind the log; for one that was read to its end."""
        self._offsets.add_beyond(log_size)

    @property
    def index(self) -> IndexFacts | None:
        """What the ``.index`` is like; None if there is none, or it could not be read."""
        return self._offsets.result()

    @property
    def time_index(self) -> IndexFacts | None:
        """What the ``.timeindex`` is like; None if there is none, or it could not be read."""
        return self._times.result()

    @property
    def record_timestamp(self) -> int:
        """The latest timestamp of a batch that holds records, in ms; -1 if there is none."""
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
        path: Path | None,
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
    """An index, and how far it is judged; ``facts`` is None where there is no file to speak of."""

    def __init__(self, index: Index, facts: IndexFacts | None) -> None:
        self.index: Index = index
        self.facts = facts
        self.state = array("q", bytes(8 * _entries.STATE_FIELDS))
        self.found = array("q", bytes(8 * _entries.FOUND_NUMBERS))
        self.state[_entries.J_PREVIOUS] = index.base_offset - 1
        self.state[_entries.J_STOP] = len(index)
        if facts is not None and facts.first_disorder is not None:
            # Of the two that do not follow each other nobody knows which one is wrong.
            self.state[_entries.J_STOP] = facts.first_disorder[0] - 1

    def add_beyond(self, log_size: int) -> None:
        """Take what is left to judge for entries that lead behind the log."""
        first, stop = self.state[_entries.J_NEXT], self.state[_entries.J_STOP]
        self.state[_entries.J_COUNTS + _entries.BEYOND] = stop - first
        for listed, number in enumerate(range(first, min(stop, first + LISTED))):
            index = 2 * (_entries.BEYOND * LISTED + listed)
            self.found[index] = number
            self.found[index + 1] = log_size

    def result(self) -> IndexFacts | None:
        """Return the facts, with what became of the entries."""
        if self.facts is None or not any(self.state[_FIRST_COUNT:]):
            return self.facts
        counts = Counter(
            {
                kind: count
                for kind in EntryKind
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
    path: Path,
    base_offset: int,
    mapped: bool,
    sealed: bool,
    pace: Pace | None,
) -> _EntryCheck[Index]:
    """Return the index to be judged, and what it looks like by itself; raises SourceError."""
    with open_source(path, mapped=mapped, sealed=sealed, pace=pace) as source:
        size, slot = source.size, kind.ENTRY_BYTES
        if not sealed and size >= slot:
            last = size // slot * slot - slot
            # With room for more entries it may hold stale ones too, which nobody reads: whatever
            # stands in it is no sign of damage, and most of its megabytes are a hole.
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
