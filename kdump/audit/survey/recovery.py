"""The effect of recovery on one segment: what it cuts, retains and reads.

``Recovery`` takes the pieces of a walk and returns a ``RecoveryResult``. It covers one segment
alone; ``startup.loader`` derives the effect on the partition.

Spec: ``LogSegment.recover``, ``truncateTo``, ``hasOverflow``, ``readNextOffset``,
``LocalLog.splitOverflowedSegment``; KOD 4.2, 5.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.log_end import first_offset_of
from kdump.format.batch import (
    HEADER_BYTES,
    MAX_OFFSET_DELTA,
    MIN_OFFSET,
    BatchTable,
    RecordBatch,
    read_header,
)
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.format.kernel import recovery as _recovery
from kdump.format.kernel.headers import BATCH_FIELDS
from kdump.format.legacy import is_wrapper
from kdump.storage.source import Source
from kdump.storage.walk import Damage, Reason, walk
from kdump.values import frozen

_LAST_OFFSET: Final = BATCH_FIELDS.index("last_offset")
_ORIGIN: Final = _recovery.RECOVERY_FIELDS.index("origin")
_TIME_ENTRIES: Final = _recovery.RECOVERY_FIELDS.index("time_entries")
_LAST: Final = _recovery.COUNT_FIELDS.index("last")
_LEGACY: Final = _recovery.COUNT_FIELDS.index("legacy")
#: The most parts of a split that are followed; a split into more parts is assumed to fail.
_PARTS: Final = 16
#: A batch that claims fewer bytes, overhead included, stops a reader.
_LEAST_BYTES: Final = 26
#: The smallest size of a record of magic 2: its length and seven fields, some of them empty.
_RECORD_BYTES: Final = 7
_NOTHING: Final = memoryview(array("q"))


class RecoveryEnding(Enum):
    """The ways in which the recovery of a segment ends."""

    WHOLE = "whole"  # nothing is cut
    CUT = "cut"  # at the first batch that is not valid
    EMPTIED = "emptied"  # an index entry was not above the previous one: all of the log is cut
    SPLIT = "split"  # its end overflows the index: it becomes two segments, which are recovered
    OVERFLOW = "overflow"  # a batch inside overflows the index: the broker stops
    FULL = "full"  # the entries do not fit into segment.index.bytes: the broker stops


@frozen
class Span:
    """A number of records, the offsets they span, and their timestamps in ms; None for unknown.

    ``unbounded`` says that there may be more records, in an unknown number.
    """

    count: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    unbounded: bool = False

    def __bool__(self) -> bool:
        return self.count > 0 or self.unbounded

    def __add__(self, other: Span) -> Span:
        return Span(
            self.count + other.count,
            _min(self.first_offset, other.first_offset),
            _max(self.last_offset, other.last_offset),
            _min(self.first_timestamp, other.first_timestamp),
            _max(self.last_timestamp, other.last_timestamp),
            self.unbounded or other.unbounded,
        )


NO_RECORDS: Final = Span()


@frozen
class Records:
    """Records in sound batches, and records that damage makes unreadable.

    A count is an upper bound if headers do not have it: the count of unreadable records is that of
    the offsets missing between their sound neighbours.
    """

    sound: Span = NO_RECORDS
    unreadable: Span = NO_RECORDS

    def __add__(self, other: Records) -> Records:
        return Records(self.sound + other.sound, self.unreadable + other.unreadable)


NO_LATER_RECORDS: Final = Records()


@frozen
class Tail:
    """The damage at the end of a log: ``first_offset`` is the first offset that it may have held.

    ``end`` is the offset after the last one, if the damage is one batch with a credible header.
    ``torn``: the file ends inside that batch, as after a torn write.
    """

    first_offset: int
    end: int | None
    torn: bool


@frozen
class RecoveryResult:
    """The effect of recovery on a segment, or on the part of a split that becomes a segment.

    ``position`` is its start in the file, ``size`` its bytes, ``valid_bytes`` the bytes that
    remain, ``passed_bytes`` the bytes that recovery read: more than remain if it empties the log.
    ``index_entries`` and ``time_entries`` are those that recovery writes into the two indexes.
    ``next_offset`` is where the log continues; ``searched_offset`` is the same in releases that
    search for the end by base offsets (4.3, 4.4). ``valid_records`` are those in the valid bytes,
    ``later_records`` those after them; ``tail`` is the damage at the end, whose records are in
    neither. ``head_unreadable`` and ``tail_unreadable`` say that a wrapper which these releases
    read is unreadable: the first batch, and one from the last index entry on. ``legacy``: none of
    the batches is of magic 2. ``breaks``: readers that follow batch sizes cannot pass the damage.
    ``rest`` is the next part of a split.
    """

    base_offset: int
    position: int
    size: int
    valid_bytes: int
    passed_bytes: int
    ending: RecoveryEnding
    next_offset: int
    searched_offset: int
    valid_records: Span
    later_records: Records
    tail: Tail | None = None
    head_unreadable: bool = False
    tail_unreadable: bool = False
    legacy: bool = False
    breaks: bool = False
    rest: RecoveryResult | None = None
    index_entries: int = 0
    time_entries: int = 0

    @property
    def disordered(self) -> bool:
        """Whether recovery drops sound records, or stops, because of the order of offsets."""
        return self.ending in (RecoveryEnding.EMPTIED, RecoveryEnding.OVERFLOW)

    @property
    def sound(self) -> Span:
        """All readable records, whether recovery retains them or not."""
        return self.valid_records + self.later_records.sound


class _State(NamedTuple):
    """The fields of the kernel's ``RECOVERY_FIELDS``."""

    base: int
    origin: int
    interval: int
    index_room: int
    time_room: int
    valid_bytes: int = 0
    last_offset: int = 0
    indexed_at: int = 0
    indexed_offset: int = 0
    index_entries: int = 0
    time_entries: int = 0
    time_timestamp: int = -1
    time_offset: int = 0
    max_timestamp: int = -1
    max_offset: int = 0
    found: int = 0
    outcome: int = _recovery.GOING


class Recovery:
    """The recovery of one segment, from the pieces of its walk in order.

    ``position`` is its start, ``part`` its number in a split, 0 without a split. ``stop`` is a
    position where recovery ends although the batch there is sound.
    """

    def __init__(
        self,
        base_offset: int,
        settings: TopicSettings,
        *,
        position: int = 0,
        part: int = 0,
        stop: int | None = None,
    ) -> None:
        self._settings = settings
        self._part = part
        self._stop = stop
        self._state = initial_state(base_offset, settings, position)
        self._valid_counter = _counter(base_offset)
        self._later_counter = _counter(base_offset)
        self._unreadable = NO_RECORDS
        self._previous = max(base_offset - 1, MIN_OFFSET)
        self._gap: tuple[Damage, int] | None = None
        self._damaged = self._breaks = False
        self._rest: Recovery | None = None

    def add(self, piece: BatchTable | Damage) -> None:
        """Add the next piece of the walk."""
        if isinstance(piece, Damage) and self._rest is not None:
            self._rest.add(piece)
        elif isinstance(piece, Damage):
            self._open_gap(piece)
            self._damaged = True
            claimed = piece.claimed_bytes
            self._breaks = self._breaks or (claimed is not None and claimed < _LEAST_BYTES)
        else:
            self._close_gap(piece[0].base_offset)
            self._batches(piece)

    def finish(self, source: Source) -> RecoveryResult:
        """Return the effect of recovery, after the last piece of ``source``.

        Raises SourceError if wrappers of old formats cannot be read back.
        """
        state = _State(*self._state)
        size = source.size - state.origin
        rest = None
        if self._rest is not None:
            rest = self._rest.finish(source)
            size = rest.position - state.origin
        ending = self._ending(state)
        valid_bytes = {RecoveryEnding.WHOLE: size, RecoveryEnding.EMPTIED: 0}.get(
            ending, state.valid_bytes
        )
        end = state.last_offset + 1 if valid_bytes else state.base
        searched = end
        if valid_bytes and not state.found and state.last_offset < state.indexed_offset:
            searched = state.base
        valid_records, later_records = _span(self._valid_counter), _span(self._later_counter)
        if ending is RecoveryEnding.EMPTIED:
            valid_records, later_records = NO_RECORDS, valid_records + later_records
        head, tail = self._wrappers(source, state)
        return RecoveryResult(
            base_offset=state.base,
            position=state.origin,
            size=size,
            valid_bytes=valid_bytes,
            passed_bytes=state.valid_bytes,
            ending=ending,
            next_offset=end,
            searched_offset=searched,
            valid_records=valid_records,
            later_records=NO_LATER_RECORDS
            if not (later_records or self._unreadable)
            else Records(later_records, self._unreadable),
            tail=self._tail(source),
            head_unreadable=head,
            tail_unreadable=tail,
            legacy=self._valid_counter[_LEGACY] == self._valid_counter[0],
            breaks=self._breaks,
            rest=rest,
            index_entries=state.index_entries,
            time_entries=self._state[_TIME_ENTRIES],  # with the one that ends a recovery
        )

    def _ending(self, state: _State) -> RecoveryEnding:
        if state.outcome == _recovery.OVERFLOW:
            # Only the first segment has to pass the test that its last batch overflows.
            overflows = self._previous - state.base > MAX_OFFSET_DELTA
            permitted = overflows or self._part > 0
            return (
                RecoveryEnding.SPLIT
                if permitted and self._rest is not None
                else RecoveryEnding.OVERFLOW
            )
        if state.outcome == _recovery.FULL:
            return RecoveryEnding.FULL
        if state.outcome == _recovery.DISORDER or not _recovery.close_times(self._state, _NOTHING):
            return RecoveryEnding.EMPTIED
        return RecoveryEnding.CUT if self._damaged else RecoveryEnding.WHOLE

    def _batches(self, table: BatchTable) -> None:
        rows, row = table.rows, 0
        if self._stop is not None and table.end > self._stop:
            self._batches_up_to(table, self._stop)
            return
        if not self._damaged and self._state[-1] == _recovery.GOING:
            row = _recovery.recover(rows, 0, self._state, _NOTHING, _NOTHING)
            _count(table, 0, row, self._valid_counter)
            if self._state[-1] == _recovery.OVERFLOW:
                self._rest = self._next_part(table[row])
        if self._rest is not None:
            self._rest.add(table.part(row, len(table)))
        elif row < len(table):
            if not self._later_counter[0]:
                self._later_counter[_LAST] = table[row - 1].last_offset if row else self._previous
            _count(table, row, len(table), self._later_counter)
        self._previous = rows[len(rows) - BatchTable.WIDTH + _LAST_OFFSET]

    def _next_part(self, first: RecordBatch) -> Recovery | None:
        """Return the recovery of the next part of a split, from ``first`` on; None if it fails."""
        is_same_part = self._part > 0 and first.position == self._state[_ORIGIN]
        if is_same_part or self._part == _PARTS:
            return None
        base, position = first.base_offset, first.position
        return Recovery(base, self._settings, position=position, part=self._part + 1)

    def _batches_up_to(self, table: BatchTable, stop: int) -> None:
        self._stop = None
        row = bisect_left(table.column("position"), stop)
        if row:
            self._batches(table.first(row))
        self._damaged = True
        if row < len(table):
            self._batches(table.part(row, len(table)))

    def _open_gap(self, damage: Damage) -> None:
        if self._gap is not None:
            damage = replace(self._gap[0], size=self._gap[0].size + damage.size)
        self._gap = damage, self._previous

    def _close_gap(self, next_offset: int) -> None:
        if self._gap is None:
            return
        _, before = self._gap
        self._gap = None
        if next_offset > before + 1:
            self._unreadable += Span(next_offset - before - 1, before + 1, next_offset - 1)

    def _tail(self, source: Source) -> Tail | None:
        if self._gap is None or self._gap[0].empty:
            return None
        damage, first_offset = self._gap[0], self._gap[1] + 1
        end = _claimed_end(source, damage, first_offset)
        return Tail(first_offset, end, damage.torn)

    def _wrappers(self, source: Source, state: _State) -> tuple[bool, bool]:
        """Return whether the first wrapper is unreadable, and one from the last index entry on."""
        stop = state.origin + state.valid_bytes
        if not self._valid_counter[_LEGACY]:
            return False, False
        head = _batch_at(source, state.origin, stop)
        tail, position = False, state.indexed_at
        while (batch := _batch_at(source, position, stop)) is not None:
            tail = tail or first_offset_of(source, batch) is None
            position += batch.size
        return head is not None and first_offset_of(source, head) is None, tail


def recover(
    source: Source, base_offset: int, settings: TopicSettings, stop: int | None = None
) -> RecoveryResult:
    """Read the whole log ``source`` and return the effect of recovery. Raises SourceError.

    ``stop`` is as for ``Recovery``.
    """
    recovery = Recovery(base_offset, settings, stop=stop)
    for piece in walk(source, base_offset):
        recovery.add(piece)
    return recovery.finish(source)


def _claimed_end(source: Source, damage: Damage, first_offset: int) -> int | None:
    """Return the offset after a damaged batch at the end of a log, None if its header is damaged.

    The header is credible if its size reaches to the end of the log and its base offset is the next
    one. Its last offset, its count and its size agree.
    """
    if damage.reason is not Reason.BAD_CHECKSUM or damage.claimed_bytes != damage.size:
        return None
    header = _batch_at(source, damage.position, source.size)
    if header is None or header.base_offset != first_offset or is_wrapper(header):
        return None
    count = header.last_offset - header.base_offset + 1
    room = damage.size - HEADER_BYTES if header.magic > 1 and not header.codec_id else None
    if count < 1 or count != header.count or (room is not None and count * _RECORD_BYTES > room):
        return None
    return header.last_offset + 1


def _batch_at(source: Source, position: int, stop: int) -> RecordBatch | None:
    if position >= stop:
        return None
    return read_header(source.window(position, HEADER_BYTES), position)


def initial_state(base_offset: int, settings: TopicSettings, position: int = 0) -> array[int]:
    """Return the kernel's ``RECOVERY_FIELDS`` for a recovery that begins at ``position``."""
    return array(
        "q",
        _State(
            base=base_offset,
            origin=position,
            interval=settings.index_interval_bytes,
            index_room=settings.segment_index_bytes // OffsetIndex.ENTRY_BYTES,
            time_room=settings.segment_index_bytes // TimeIndex.ENTRY_BYTES,
            indexed_at=position,
            indexed_offset=base_offset,
            time_offset=base_offset,
            max_offset=base_offset,
        ),
    )


def _counter(base_offset: int) -> array[int]:
    return array("q", [0, 0, 0, max(base_offset - 1, MIN_OFFSET), -1, -1, 0])


def _count(table: BatchTable, first: int, stop: int, counter: array[int]) -> None:
    """Add the batches from number ``first`` up to ``stop`` of ``table`` to ``counter``."""
    usual = table.usual
    if usual is None or stop - first < len(table):
        _recovery.count(table.rows, first, stop, counter)
        return
    batches, records, lowest, highest, first_ms, last_ms, legacy = counter
    sums = (
        batches + len(table),
        records + usual.records,
        min(lowest, usual.first_offset) if batches else usual.first_offset,
        max(highest, usual.last_offset) if batches else usual.last_offset,
        usual.lowest_timestamp if first_ms < 0 else min(first_ms, usual.lowest_timestamp),
        max(last_ms, usual.highest_timestamp),
        legacy,
    )
    counter[:] = array("q", sums)


def _span(counter: array[int]) -> Span:
    batches, records, first, last, first_timestamp, last_timestamp, _ = counter
    if not batches:
        return NO_RECORDS
    if first_timestamp < 0:
        return Span(records, first, last)
    return Span(records, first, last, first_timestamp, last_timestamp)


def _min(a: int | None, b: int | None) -> int | None:
    return min((number for number in (a, b) if number is not None), default=None)


def _max(a: int | None, b: int | None) -> int | None:
    return max((number for number in (a, b) if number is not None), default=None)
