"""Producer, transaction and leader epoch events of a segment, in offset order.

Events, not states: only ``audit.replay`` has the state before a segment. They are stored as rows of
numbers. The number of rows grows with producers and transactions, not with batches.

Spec: ``ProducerAppendInfo``, ``LeaderEpochFileCache.assign`` (KIP-98, KIP-101); KOD 7.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import field
from typing import Final, NamedTuple

from kdump.format.batch import BatchTable, Usual
from kdump.format.kernel import events as _events
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import records as _records
from kdump.storage.source import Source
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)
_RUN: Final = len(_producers.RUN_FIELDS)
_EPOCH: Final = len(_events.EPOCH_FIELDS)
_EPOCH_LAST: Final = _events.EPOCH_FIELDS.index("last_offset")
_BREAK: Final = len(_events.BREAK_FIELDS)
_SEEN: Final = len(_events.SEEN_FIELDS)
_POSITION: Final = _headers.BATCH_FIELDS.index("position")
_SIZE: Final = _headers.BATCH_FIELDS.index("size")
_NOTHING: Final = memoryview(b"")


class EpochRun(NamedTuple):
    """Neighbouring batches under one leader epoch, -1 for none; offsets are inclusive."""

    epoch: int
    first_offset: int
    first_position: int
    last_offset: int


class SequenceBreak(NamedTuple):
    """A data batch whose first sequence does not follow its producer's last sequence.

    ``previous_offset`` is the last offset of the producer's previous batch.
    """

    producer_id: int
    producer_epoch: int
    offset: int
    position: int
    expected: int
    found: int
    previous_offset: int


class ProducerRun(NamedTuple):
    """The first and the last data batch of a producer epoch in a segment.

    A sequence is -1 for none; ``timestamp`` is that of the last batch, in ms.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_position: int
    first_sequence: int
    last_offset: int
    last_position: int
    last_sequence: int
    offset_delta: int
    timestamp: int


class Marker(NamedTuple):
    """A control batch that ends a transaction; ``timestamp`` is from the broker's clock, in ms."""

    commit: bool
    producer_id: int
    producer_epoch: int
    offset: int
    position: int
    coordinator_epoch: int
    timestamp: int


@frozen
class Horizons:
    """The batches with a delete horizon: their number, and the position of the first.

    The lowest and the highest horizon are in ms.
    """

    count: int = 0
    position: int = 0
    lowest_ms: int = 0
    highest_ms: int = 0


@frozen
class Events:
    """The producers, transactions and leader epochs in the batches of one segment.

    ``rows`` are flat rows of ``_producers.EVENT_FIELDS`` in the order of the file, ``runs`` of
    ``RUN_FIELDS``, ``epoch_rows`` of ``EPOCH_FIELDS``. ``breaks`` lists the first few of
    ``break_count`` sequence breaks inside runs.
    """

    rows: array[int] = field(default_factory=lambda: array("q"))
    runs: array[int] = field(default_factory=lambda: array("q"))
    epoch_rows: array[int] = field(default_factory=lambda: array("q"))
    breaks: tuple[SequenceBreak, ...] = ()
    break_count: int = 0
    horizons: Horizons = Horizons()

    def epochs(self) -> Iterator[EpochRun]:
        """Yield the runs of leader epochs in the order of the file."""
        rows = self.epoch_rows
        return (EpochRun(*rows[at : at + _EPOCH]) for at in range(0, len(rows), _EPOCH))

    def producer_runs(self) -> Iterator[ProducerRun]:
        """Yield the runs of producer epochs by their first batch."""
        rows = self.runs
        return (ProducerRun(*rows[at : at + _RUN]) for at in range(0, len(rows), _RUN))

    def markers(self) -> Iterator[Marker]:
        """Yield the markers in the order of the file."""
        for at in range(0, len(self.rows), _EVENT):
            kind = self.rows[at]
            if kind in (_producers.COMMIT, _producers.ABORT):
                yield Marker(kind == _producers.COMMIT, *self.rows[at + 1 : at + _EVENT])


#: The events of a segment without any, shared because there may be very many such segments.
NO_EVENTS: Final = Events()
#: The fields of the state that count rows.
_COUNTS: Final = (
    _events.G_EVENTS,
    _events.G_RUNS,
    _events.G_EPOCHS,
    _events.G_BREAKS,
    _events.G_HORIZONS,
)


class Gathering:
    """The events of one segment, collected table by table."""

    def __init__(self) -> None:
        self.state = array("q", bytes(8 * _events.GATHER_FIELDS))
        self.state[_events.G_LAST] = -1
        self.producers = _zeros(_SEEN)
        self.runs = _zeros(_RUN)
        self.rows = _zeros(_EVENT)
        self.epoch_rows = _zeros(_EPOCH)
        self.breaks = _zeros(_BREAK, _producers.LISTED)
        self.slots = _zeros(1, 8)
        self.scratch = _zeros(len(_records.RECORD_FIELDS) + 3, 1)

    def add(self, table: BatchTable, source: Source) -> None:
        """Add the events of ``table``, the newest piece of a walk over ``source``.

        Raises SourceError if a control batch cannot be read.
        """
        if self._extend_epoch(table.usual):
            return
        first, data, origin = 0, _NOTHING, 0
        while True:
            first = _events.gather(
                table.rows,
                first,
                data,
                origin,
                self.state,
                self.producers,
                self.slots,
                self.runs,
                self.rows,
                self.epoch_rows,
                self.breaks,
                self.scratch,
            )
            match self.state[_events.G_WHY]:
                case _producers.MORE_BYTES:
                    at = first * BatchTable.WIDTH
                    origin = table.rows[at + _POSITION]
                    size = min(table.rows[at + _SIZE], _events.CONTROL_BYTES)
                    data = source.window(origin, size)
                case _producers.MORE_ROOM:
                    self._grow()
                case _:
                    return

    def add_damage(self) -> None:
        """Treat a producer's next batch as a possible begin of a transaction."""
        self.state[_events.G_GAPS] += 1

    def events(self) -> Events:
        """Return the collected events; no table can be added afterwards."""
        state = self.state
        if not any(state[count] for count in _COUNTS):
            return NO_EVENTS
        return Events(
            _truncate(self.rows, state[_events.G_EVENTS] * _EVENT),
            _truncate(self.runs, state[_events.G_RUNS] * _RUN),
            _truncate(self.epoch_rows, state[_events.G_EPOCHS] * _EPOCH),
            tuple(
                SequenceBreak(*self.breaks[number * _BREAK : (number + 1) * _BREAK])
                for number in range(min(state[_events.G_BREAKS], _producers.LISTED))
            ),
            state[_events.G_BREAKS],
            Horizons(
                state[_events.G_HORIZONS],
                state[_events.G_HORIZON_AT],
                state[_events.G_LOWEST_HORIZON],
                state[_events.G_HIGHEST_HORIZON],
            ),
        )

    def _extend_epoch(self, usual: Usual | None) -> bool:
        """Add batches that only continue the last leader epoch; return whether they do."""
        at = (self.state[_events.G_EPOCHS] - 1) * _EPOCH
        if usual is None or usual.producers or at < 0 or self.epoch_rows[at] != usual.leader_epoch:
            return False
        self.epoch_rows[at + _EPOCH_LAST] = usual.last_offset
        return True

    def _grow(self) -> None:
        """Extend the arrays that are nearly full."""
        state, used = self.state, {}
        used[_events.G_PRODUCERS] = self.producers, _SEEN
        used[_events.G_RUNS] = self.runs, _RUN
        used[_events.G_EVENTS] = self.rows, _EVENT
        used[_events.G_EPOCHS] = self.epoch_rows, _EPOCH
        for count, (rows, width) in used.items():
            if state[count] + 2 > len(rows) // width:
                rows.extend(rows)
        if len(self.slots) < 2 * (len(self.producers) // _SEEN):
            self.slots = _zeros(1, 2 * len(self.slots))
            _events.hash_producers(self.producers, _SEEN, state[_events.G_PRODUCERS], self.slots)


def _truncate(rows: array[int], length: int) -> array[int]:
    # In place: there may be millions of events, too many for a copy.
    del rows[length:]
    return rows


def _zeros(width: int, rows: int = 4) -> array[int]:
    return array("q", bytes(8 * width * rows))
