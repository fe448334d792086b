"""The hot loop that finds the events of a segment: producers, transactions and leader epochs.

It keeps producers in rows that a hash table of slots finds. Where an array is full it stops, so
that the caller can enlarge it and call again. What slots and rows of producers hold is the kernel's
own: the caller hands back what it got.

Spec: ``ProducerAppendInfo``, ``EndTransactionMarker`` (KIP-98, KIP-890); KOD 7.
It must never make an object per batch, nor decompress anything.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_WIDTH,
    CODEC_MASK,
    CONTROL,
    COUNT,
    DELETE_HORIZON,
    HEADER_BYTES,
    KEY,
    KEY_SIZE,
    LAST_OFFSET,
    LEADER_EPOCH,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_64,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_WIDTH,
    SIZE,
    TIMESTAMP,
    TRANSACTIONAL,
    VALUE,
    VALUE_SIZE,
    i32,
    need,
    within,
)
from kdump.format.kernel.producers import (
    ABORT,
    BEGIN,
    COMMIT,
    CONTROL_CUT,
    CONTROL_FATAL,
    CONTROL_ODD,
    DONE,
    E_COORDINATOR_EPOCH,
    E_KIND,
    E_OFFSET,
    E_POSITION,
    E_PRODUCER_EPOCH,
    E_PRODUCER_ID,
    E_TIMESTAMP,
    EVENT_WIDTH,
    LISTED,
    MORE_BYTES,
    MORE_ROOM,
    PLAIN,
    R_FIRST_OFFSET,
    R_FIRST_POSITION,
    R_FIRST_SEQUENCE,
    R_LAST_OFFSET,
    R_LAST_POSITION,
    R_LAST_SEQUENCE,
    R_OFFSET_DELTA,
    R_PRODUCER_EPOCH,
    R_PRODUCER_ID,
    R_TIMESTAMP,
    RUN_WIDTH,
    find_slot,
    need_slots,
)
from kdump.format.kernel.records import READ, read_records

#: Neighbouring batches under one leader epoch, -1 for none.
EPOCH_FIELDS = ("epoch", "first_offset", "first_position", "last_offset")
#: A data batch whose sequence does not follow that of the batch before it in its run, which ends at
#: the previous offset.
BREAK_FIELDS = (
    "producer_id", "producer_epoch", "offset", "position", "expected", "found", "previous_offset",
)  # fmt: skip

# The state of gather(), carried from one table of a segment to the next.
G_WHY = 0  # why it stopped
G_PRODUCERS = 1  # rows in use
G_RUNS = 2
G_EVENTS = 3
G_EPOCHS = 4
G_BREAKS = 5  # all of them
G_LAST = 6  # row of the producer of the batch before, -1 at first
G_HORIZONS = 7  # batches with a delete horizon
G_LOWEST_HORIZON = 8
G_HIGHEST_HORIZON = 9
G_HORIZON_AT = 10  # position of the first of them
G_GAPS = 11  # damages before the batches to come
GATHER_FIELDS = 12

#: What gather() keeps of a producer: its id, its run in this segment (-1 none), its transaction,
#: which is unknown again once there are more damages than these ``gaps``.
SEEN_FIELDS = ("producer_id", "run", "transaction", "gaps")

# The places of the fields of an epoch, a break, and what gather() keeps of a producer.
_L_EPOCH = EPOCH_FIELDS.index("epoch")
_L_FIRST_OFFSET = EPOCH_FIELDS.index("first_offset")
_L_FIRST_POSITION = EPOCH_FIELDS.index("first_position")
_L_LAST_OFFSET = EPOCH_FIELDS.index("last_offset")
_B_PRODUCER_ID = BREAK_FIELDS.index("producer_id")
_B_PRODUCER_EPOCH = BREAK_FIELDS.index("producer_epoch")
_B_OFFSET = BREAK_FIELDS.index("offset")
_B_POSITION = BREAK_FIELDS.index("position")
_B_EXPECTED = BREAK_FIELDS.index("expected")
_B_FOUND = BREAK_FIELDS.index("found")
_B_PREVIOUS_OFFSET = BREAK_FIELDS.index("previous_offset")
_S_PRODUCER_ID = SEEN_FIELDS.index("producer_id")
_S_RUN = SEEN_FIELDS.index("run")
_S_TRANSACTION = SEEN_FIELDS.index("transaction")
_S_GAPS = SEEN_FIELDS.index("gaps")

_EPOCH = len(EPOCH_FIELDS)
_BREAK = len(BREAK_FIELDS)
_SEEN = len(SEEN_FIELDS)

# What read_marker() says of a marker.
_MARKER_KIND = 0
_MARKER_EPOCH = 1  # of the coordinator
_MARKER_TIMESTAMP = 2

# A producer's transaction as far as this segment tells: nothing yet, open, none open.
_UNKNOWN = 0
_OPEN = 1
_CLOSED = 2
_MIXED = 3  # a batch outside of it was noted already

#: A batch of just one marker, with nothing unusual in it.
_MARKER = 78
#: How much of a control batch must be there; no marker is longer.
CONTROL_BYTES = 65536


def hash_producers(
    rows: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    slots: cython.longlong[::1],
) -> None:
    """Write the first ``count`` of ``rows``, all of other producers, into empty ``slots``."""
    need(1, width, "a width")
    within(0, count, len(rows) // width, "a count of rows")
    need_slots(slots)
    need(count + 1, len(slots), "a number of slots")
    row: cython.Py_ssize_t
    for row in range(count):
        slots[find_slot(rows[row * width], rows, width, slots)] = row + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _delta(first: cython.longlong, last: cython.longlong) -> cython.longlong:
    """Return ``last - first`` where ``last`` is ``first`` plus 32 bits, wrapped to 64."""
    if first > 0 and last < 0 and first > MAX_64 + last:
        return (last + MAX_64 + 1) + (MAX_64 - first) + 1
    if first < 0 and last > 0 and last > MAX_64 + first:
        return -((first + MAX_64 + 1) + (MAX_64 - last) + 1)
    return last - first


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _usual_marker(
    view: cython.const[cython.uchar][::1],
    p: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    marker: cython.longlong[::1],
) -> cython.bint:
    """Read the 17 bytes of a marker as brokers write it; return False for anything else."""
    if (
        view[p] != 32  # its length: 16
        or view[p + 2] != 0  # timestamp delta
        or view[p + 3] != 0  # offset delta
        or view[p + 4] != 8  # length of the key: 4
        or view[p + 5] != 0  # version of the key
        or view[p + 6] != 0
        or view[p + 7] != 0
        or view[p + 8] > 1
        or view[p + 9] != 12  # length of the value: 6
        or view[p + 10] != 0  # its version
        or view[p + 11] != 0
        or view[p + 16] != 0  # headers
    ):
        return False
    marker[_MARKER_KIND] = COMMIT if view[p + 8] else ABORT
    marker[_MARKER_EPOCH] = i32(view, p + 12)
    marker[_MARKER_TIMESTAMP] = base_timestamp
    return True


def read_marker(
    data: Any,
    rows: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    record: cython.longlong[::1],
    marker: cython.longlong[::1],
) -> None:
    """Write kind, coordinator epoch and timestamp of the control batch in ``data[start:stop]``.

    ``row`` is where its row starts in ``rows``; ``record`` is room for one record. What a broker
    makes of one that it cannot read depends on the exception: see the kinds.
    """
    need(RECORD_WIDTH, len(record), "room for a record")
    need(3, len(marker), "room for a marker")
    within(0, row, len(rows) - BATCH_WIDTH, "the start of a row")
    need(0, start, "a start")
    view: cython.const[cython.uchar][::1] = data
    p: cython.Py_ssize_t = start + HEADER_BYTES
    need(stop, len(view), "a view")
    kind: cython.longlong
    n: cython.longlong
    ending: cython.longlong
    reached: cython.Py_ssize_t
    key: cython.Py_ssize_t
    value: cython.Py_ssize_t
    marker[_MARKER_KIND] = CONTROL_FATAL
    marker[_MARKER_EPOCH] = -1
    marker[_MARKER_TIMESTAMP] = -1
    if rows[row + COUNT] < 0:
        marker[_MARKER_KIND] = CONTROL_CUT
        return
    if rows[row + ATTRIBUTES] & CODEC_MASK:
        return  # no broker compresses a marker
    n = 0
    while n < 5 and p + n < stop and view[p + n] > 127:
        n += 1
    if n == 5:
        return
    n, reached, ending, *_ = read_records(
        data[p:stop],
        0,
        1,
        0,
        rows[row + BASE_TIMESTAMP],
        rows[row + ATTRIBUTES] & LOG_APPEND_TIME,
        rows[row + MAX_TIMESTAMP],
        -1,
        record,
    )
    if ending != READ or (rows[row + COUNT] == 1 and p + reached != stop):
        marker[_MARKER_KIND] = CONTROL_CUT
        return
    if record[KEY_SIZE] < 0:
        return
    key = p + record[KEY]
    if record[KEY_SIZE] < 4 or view[key] > 127:
        marker[_MARKER_KIND] = CONTROL_CUT
        return
    kind = view[key + 2] << 8 | view[key + 3]
    if kind > 1 or record[VALUE_SIZE] < 2:
        return
    value = p + record[VALUE]
    if view[value] > 127:
        marker[_MARKER_KIND] = CONTROL_CUT
        return
    if record[VALUE_SIZE] < 6:
        return
    marker[_MARKER_KIND] = COMMIT if kind else ABORT
    marker[_MARKER_EPOCH] = i32(view, value + 2)
    marker[_MARKER_TIMESTAMP] = record[TIMESTAMP]


def gather(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    data: Any,
    origin: cython.longlong,
    state: cython.longlong[::1],
    producers: cython.longlong[::1],
    slots: cython.longlong[::1],
    runs: cython.longlong[::1],
    events: cython.longlong[::1],
    epochs: cython.longlong[::1],
    breaks: cython.longlong[::1],
    scratch: cython.longlong[::1],
) -> int:
    """Add the events of the batches in ``rows``, from number ``first`` on, to the arrays.

    ``data`` are bytes of the file from position ``origin`` on, of which only control batches are
    looked at. ``producers`` has rows of ``SEEN_FIELDS``, ``breaks`` room for ``LISTED`` of them,
    ``scratch`` for one record and three numbers. ``state`` is of ``GATHER_FIELDS``.

    Return the number of the batch where it stopped; ``state[G_WHY]`` says why.
    """
    need(0, first, "a first row")
    need(GATHER_FIELDS, len(state), "a state")
    need(LISTED * _BREAK, len(breaks), "room for breaks")
    need(3 + RECORD_WIDTH, len(scratch), "scratch room")
    need_slots(slots)
    within(0, state[G_PRODUCERS], len(producers) // _SEEN, "a number of producers")
    within(0, state[G_RUNS], len(runs) // RUN_WIDTH, "a number of runs")
    within(0, state[G_EVENTS], len(events) // EVENT_WIDTH, "a number of events")
    within(0, state[G_EPOCHS], len(epochs) // _EPOCH, "a number of epochs")
    within(-1, state[G_LAST], state[G_PRODUCERS] - 1, "the row of a producer")
    need(0, state[G_BREAKS], "a number of breaks")
    view: cython.const[cython.uchar][::1] = data
    marker: cython.longlong[::1] = scratch[:3]
    record: cython.longlong[::1] = scratch[3:]
    stop: cython.Py_ssize_t = len(view)
    n: cython.Py_ssize_t = len(rows) // BATCH_WIDTH
    number: cython.Py_ssize_t
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    size: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    seen: cython.Py_ssize_t = state[G_LAST] * _SEEN
    run: cython.Py_ssize_t
    at: cython.Py_ssize_t
    known: cython.longlong = state[G_PRODUCERS]
    gaps: cython.longlong = state[G_GAPS]
    run_count: cython.longlong = state[G_RUNS]
    event_count: cython.longlong = state[G_EVENTS]
    epoch_at: cython.Py_ssize_t = (state[G_EPOCHS] - 1) * _EPOCH
    epoch: cython.longlong = epochs[epoch_at + _L_EPOCH] if epoch_at >= 0 else 0
    last_offset: cython.longlong = epochs[epoch_at + _L_LAST_OFFSET] if epoch_at >= 0 else 0
    producer_room: cython.Py_ssize_t = len(producers) // _SEEN
    run_room: cython.Py_ssize_t = len(runs) // RUN_WIDTH
    event_room: cython.Py_ssize_t = len(events) // EVENT_WIDTH - 1
    producer_id: cython.longlong
    attributes: cython.longlong
    expected: cython.longlong
    is_marker: cython.bint
    why: cython.int = DONE
    # A slot for every producer, and some that stay empty.
    if producer_room > len(slots) // 2:
        producer_room = len(slots) // 2
    number = first
    while number < n:
        row = number * BATCH_WIDTH
        if rows[row + LEADER_EPOCH] != epoch or epoch_at < 0:
            if epoch_at + 2 * _EPOCH > len(epochs):
                why = MORE_ROOM
                break
            if epoch_at >= 0:
                epochs[epoch_at + _L_LAST_OFFSET] = last_offset
            epoch_at += _EPOCH
            epoch = epochs[epoch_at + _L_EPOCH] = rows[row + LEADER_EPOCH]
            epochs[epoch_at + _L_FIRST_OFFSET] = rows[row + BASE_OFFSET]
            epochs[epoch_at + _L_FIRST_POSITION] = rows[row + POSITION]
        last_offset = rows[row + LAST_OFFSET]
        attributes = rows[row + ATTRIBUTES] if rows[row + MAGIC] > 1 else 0
        producer_id = rows[row + PRODUCER_ID]
        if producer_id >= 0 and not (attributes & CONTROL and rows[row + COUNT] == 0):
            if known == producer_room or run_count == run_room or event_count >= event_room:
                why = MORE_ROOM
                break
            start = rows[row + POSITION] - origin
            if attributes & CONTROL:
                size = rows[row + SIZE]
                if size > CONTROL_BYTES:
                    size = CONTROL_BYTES
                if start < 0 or start + size > stop:
                    why = MORE_BYTES
                    break
            if seen < 0 or producers[seen + _S_PRODUCER_ID] != producer_id:
                slot = find_slot(producer_id, producers, _SEEN, slots)
                if slots[slot] == 0:
                    known += 1
                    slots[slot] = known
                    seen = (known - 1) * _SEEN
                    producers[seen + _S_PRODUCER_ID] = producer_id
                    producers[seen + _S_RUN] = -1
                    producers[seen + _S_TRANSACTION] = _UNKNOWN
                    producers[seen + _S_GAPS] = gaps
                seen = (slots[slot] - 1) * _SEEN
            if producers[seen + _S_GAPS] != gaps:
                producers[seen + _S_TRANSACTION] = _UNKNOWN
                producers[seen + _S_GAPS] = gaps
            run = producers[seen + _S_RUN] * RUN_WIDTH
            if attributes & CONTROL:
                if (
                    size != _MARKER
                    or rows[row + COUNT] != 1
                    or attributes & (LOG_APPEND_TIME | CODEC_MASK)
                    or not _usual_marker(
                        view, start + HEADER_BYTES, rows[row + BASE_TIMESTAMP], marker
                    )
                ):
                    read_marker(data, rows, row, start, start + size, record, marker)
                at = event_count * EVENT_WIDTH
                is_marker = marker[_MARKER_KIND] in (COMMIT, ABORT)
                if is_marker and (
                    rows[row + COUNT] > 1
                    or not attributes & TRANSACTIONAL
                    or rows[row + BASE_SEQUENCE] != -1
                ):
                    _note(events, at, CONTROL_ODD, rows, row)
                    event_count += 1
                    at += EVENT_WIDTH
                _note(events, at, marker[_MARKER_KIND], rows, row)
                events[at + E_COORDINATOR_EPOCH] = marker[_MARKER_EPOCH]
                events[at + E_TIMESTAMP] = marker[_MARKER_TIMESTAMP]
                event_count += 1
                if is_marker:
                    producers[seen + _S_TRANSACTION] = _CLOSED
                    if run >= 0 and runs[run + R_PRODUCER_EPOCH] != rows[row + PRODUCER_EPOCH]:
                        producers[seen + _S_RUN] = -1
            else:
                if attributes & TRANSACTIONAL:
                    if (
                        producers[seen + _S_TRANSACTION] != _OPEN
                        and producers[seen + _S_TRANSACTION] != _MIXED
                    ):
                        _note(events, event_count * EVENT_WIDTH, BEGIN, rows, row)
                        event_count += 1
                        producers[seen + _S_TRANSACTION] = _OPEN
                elif (
                    producers[seen + _S_TRANSACTION] == _UNKNOWN
                    or producers[seen + _S_TRANSACTION] == _OPEN
                ):
                    _note(events, event_count * EVENT_WIDTH, PLAIN, rows, row)
                    event_count += 1
                    producers[seen + _S_TRANSACTION] = (
                        _CLOSED if producers[seen + _S_TRANSACTION] == _UNKNOWN else _MIXED
                    )
                if run < 0 or runs[run + R_PRODUCER_EPOCH] != rows[row + PRODUCER_EPOCH]:
                    producers[seen + _S_RUN] = run_count
                    run = run_count * RUN_WIDTH
                    run_count += 1
                    runs[run + R_PRODUCER_ID] = producer_id
                    runs[run + R_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
                    runs[run + R_FIRST_OFFSET] = rows[row + BASE_OFFSET]
                    runs[run + R_FIRST_POSITION] = rows[row + POSITION]
                    runs[run + R_FIRST_SEQUENCE] = rows[row + BASE_SEQUENCE]
                elif runs[run + R_LAST_SEQUENCE] >= 0 and rows[row + BASE_SEQUENCE] >= 0:
                    expected = (runs[run + R_LAST_SEQUENCE] + 1) & 2147483647
                    if rows[row + BASE_SEQUENCE] != expected:
                        if state[G_BREAKS] < LISTED:
                            at = state[G_BREAKS] * _BREAK
                            breaks[at + _B_PRODUCER_ID] = producer_id
                            breaks[at + _B_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
                            breaks[at + _B_OFFSET] = rows[row + BASE_OFFSET]
                            breaks[at + _B_POSITION] = rows[row + POSITION]
                            breaks[at + _B_EXPECTED] = expected
                            breaks[at + _B_FOUND] = rows[row + BASE_SEQUENCE]
                            breaks[at + _B_PREVIOUS_OFFSET] = runs[run + R_LAST_OFFSET]
                        state[G_BREAKS] += 1
                runs[run + R_LAST_OFFSET] = rows[row + LAST_OFFSET]
                runs[run + R_LAST_POSITION] = rows[row + POSITION]
                runs[run + R_OFFSET_DELTA] = _delta(
                    rows[row + BASE_OFFSET], rows[row + LAST_OFFSET]
                )
                runs[run + R_LAST_SEQUENCE] = -1
                if rows[row + BASE_SEQUENCE] >= 0:
                    runs[run + R_LAST_SEQUENCE] = (
                        rows[row + BASE_SEQUENCE] + runs[run + R_OFFSET_DELTA]
                    ) & 2147483647
                runs[run + R_TIMESTAMP] = rows[row + MAX_TIMESTAMP]
        if attributes & DELETE_HORIZON:
            _horizon(state, rows, row)
        number += 1
    state[G_WHY] = why
    state[G_PRODUCERS] = known
    state[G_RUNS] = run_count
    state[G_EVENTS] = event_count
    if epoch_at >= 0:
        epochs[epoch_at + _L_LAST_OFFSET] = last_offset
    state[G_EPOCHS] = epoch_at // _EPOCH + 1
    state[G_LAST] = seen // _SEEN if seen >= 0 else -1
    return number


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _note(
    events: cython.longlong[::1],
    at: cython.Py_ssize_t,
    kind: cython.longlong,
    rows: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
) -> cython.void:
    """Write an event that the batch in ``row`` stands for into the row at ``at``."""
    events[at + E_KIND] = kind
    events[at + E_PRODUCER_ID] = rows[row + PRODUCER_ID]
    events[at + E_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
    events[at + E_OFFSET] = rows[row + BASE_OFFSET]
    events[at + E_POSITION] = rows[row + POSITION]
    events[at + E_COORDINATOR_EPOCH] = -1
    events[at + E_TIMESTAMP] = rows[row + MAX_TIMESTAMP]


@cython.cfunc
@cython.exceptval(check=False)
def _horizon(
    state: cython.longlong[::1],
    rows: cython.const[cython.longlong][::1],
    row: cython.Py_ssize_t,
) -> cython.void:
    """Add the delete horizon of a batch, which is what stands for its base timestamp."""
    horizon: cython.longlong = rows[row + BASE_TIMESTAMP]
    if state[G_HORIZONS] == 0:
        state[G_HORIZON_AT] = rows[row + POSITION]
    if state[G_HORIZONS] == 0 or horizon < state[G_LOWEST_HORIZON]:
        state[G_LOWEST_HORIZON] = horizon
    if state[G_HORIZONS] == 0 or horizon > state[G_HIGHEST_HORIZON]:
        state[G_HIGHEST_HORIZON] = horizon
    state[G_HORIZONS] += 1
