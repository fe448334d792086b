"""The hot loops over producers: the events of a segment, and their replay over a partition.

Both passes keep producers in rows that a hash table of slots finds; where an array is full they
stop, so that the caller can enlarge it and call again. What slots and rows of producers hold is the
kernel's own: the caller hands back what it got.

Spec: ``ProducerAppendInfo``, ``ProducerStateEntry``, ``ProducerStateManager``,
``EndTransactionMarker`` (KIP-98, KIP-890); KOD 7.
It must never make an object per batch, nor decompress anything.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from kdump.format.kernel import nocython as cython

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
from kdump.format.kernel.records import READ, read_records

#: An event, in the order of the file. Coordinator epoch and timestamp are a marker's.
EVENT_FIELDS = (
    "kind", "producer_id", "producer_epoch", "offset", "position", "coordinator_epoch", "timestamp",
)  # fmt: skip
#: Neighbouring data batches of one producer under one epoch; the order is that of the first ones.
#: A marker of another epoch ends a run. Offset and sequence of the last are its last record's.
RUN_FIELDS = (
    "producer_id", "producer_epoch", "first_offset", "first_position", "first_sequence",
    "last_offset", "last_position", "last_sequence", "offset_delta", "timestamp",
)  # fmt: skip
#: Neighbouring batches under one leader epoch, -1 for none.
EPOCH_FIELDS = ("epoch", "first_offset", "first_position", "last_offset")
#: A data batch whose sequence does not follow that of the batch before it in its run, which ends at
#: the previous offset.
BREAK_FIELDS = (
    "producer_id", "producer_epoch", "offset", "position", "expected", "found", "previous_offset",
)  # fmt: skip
#: What replay knows of a producer: the fields of a snapshot's entry, and what it works with.
STATE_FIELDS = (
    "producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "timestamp",
    "coordinator_epoch", "transaction_first_offset", "older_open", "newer_open", "segment",
    "position",
)  # fmt: skip
#: The fields of an entry of a transaction index, without its version.
ABORTED_FIELDS = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
#: What replay objects to; what it expected and found is an epoch or a sequence. The previous offset
#: is where the producer's batch before it ends, -1 for what is no break of a sequence.
VIOLATION_FIELDS = (
    "kind", "producer_id", "producer_epoch", "offset", "position", "expected", "found",
    "previous_offset",
)  # fmt: skip

# Kinds of events.
BEGIN = 0  # the first transactional data batch since the producer's last marker in this segment
COMMIT = 1
ABORT = 2
PLAIN = 3  # a data batch outside of transactions where the producer's may be open
CONTROL_CUT = 4  # no record can be read: recovery ends the log behind this batch, then fails
CONTROL_FATAL = 5  # the record is no marker: recovery fails
CONTROL_ODD = 6  # a marker in a batch that no broker writes so
EPOCH_FALLS = 7  # of violations alone: a producer's epoch is below an earlier one
SEQUENCE_BREAK = 8  # of violations alone: a run goes on from another sequence than the one before
KINDS = 9
#: How many violations of a kind, or breaks, are listed in a segment; all are counted.
LISTED = 8

# The state of gather(), carried from one table of a segment to the next.
G_WHY = 0  # why it stopped: one of the four below
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

DONE = 0
MORE_ROOM = 1  # one of the arrays is full
MORE_BYTES = 2  # a control batch is not whole in what was given of the file

#: What gather() keeps of a producer: its id, its run in this segment (-1 none), its transaction,
#: which is unknown again once there are more damages than these ``gaps``.
SEEN_FIELDS = ("producer_id", "run", "transaction", "gaps")

# The state of fold(), carried on over the segments of a partition.
F_WHY = 0
F_PRODUCERS = 1  # rows in use
F_EVENT = 2  # the next event and run of this segment
F_RUN = 3
F_ABORTED = 4  # rows in use, of this segment
F_COMMITTED = 5  # transactions, of this segment
F_VIOLATIONS = 6  # rows in use, of this segment
F_OLDEST = 7  # row of the producer whose open transaction began first, -1 none
F_NEWEST = 8
F_COUNTS = 9  # for each kind its violations, in this segment
FOLD_FIELDS = 18

# The same as C integers.
_BEGIN = cython.declare(cython.longlong, BEGIN)
_COMMIT = cython.declare(cython.longlong, COMMIT)
_ABORT = cython.declare(cython.longlong, ABORT)
_PLAIN = cython.declare(cython.longlong, PLAIN)
_CONTROL_CUT = cython.declare(cython.longlong, CONTROL_CUT)
_CONTROL_FATAL = cython.declare(cython.longlong, CONTROL_FATAL)
_CONTROL_ODD = cython.declare(cython.longlong, CONTROL_ODD)
_EPOCH_FALLS = cython.declare(cython.longlong, EPOCH_FALLS)
_SEQUENCE_BREAK = cython.declare(cython.longlong, SEQUENCE_BREAK)
_F_ABORTED = cython.declare(cython.int, F_ABORTED)
_F_COMMITTED = cython.declare(cython.int, F_COMMITTED)
_F_VIOLATIONS = cython.declare(cython.int, F_VIOLATIONS)
_F_OLDEST = cython.declare(cython.int, F_OLDEST)
_F_NEWEST = cython.declare(cython.int, F_NEWEST)
_F_COUNTS = cython.declare(cython.int, F_COUNTS)
_EVENT = cython.declare(cython.int, len(EVENT_FIELDS))
_RUN = cython.declare(cython.int, len(RUN_FIELDS))
_EPOCH = cython.declare(cython.int, len(EPOCH_FIELDS))
_BREAK = cython.declare(cython.int, len(BREAK_FIELDS))
_STATE = cython.declare(cython.int, len(STATE_FIELDS))
_SEEN = cython.declare(cython.int, len(SEEN_FIELDS))
_ABORTED = cython.declare(cython.int, len(ABORTED_FIELDS))
_VIOLATION = cython.declare(cython.int, len(VIOLATION_FIELDS))
_LISTED = cython.declare(cython.int, LISTED)

# The places of the fields: of an event, a run, an epoch, a break, what gather() keeps of a producer
# (_S), what fold() keeps of one (_P), an aborted transaction, a violation.
_E_KIND = cython.declare(cython.int, EVENT_FIELDS.index("kind"))
_E_PRODUCER_ID = cython.declare(cython.int, EVENT_FIELDS.index("producer_id"))
_E_PRODUCER_EPOCH = cython.declare(cython.int, EVENT_FIELDS.index("producer_epoch"))
_E_OFFSET = cython.declare(cython.int, EVENT_FIELDS.index("offset"))
_E_POSITION = cython.declare(cython.int, EVENT_FIELDS.index("position"))
_E_COORDINATOR_EPOCH = cython.declare(cython.int, EVENT_FIELDS.index("coordinator_epoch"))
_E_TIMESTAMP = cython.declare(cython.int, EVENT_FIELDS.index("timestamp"))
_R_PRODUCER_ID = cython.declare(cython.int, RUN_FIELDS.index("producer_id"))
_R_PRODUCER_EPOCH = cython.declare(cython.int, RUN_FIELDS.index("producer_epoch"))
_R_FIRST_OFFSET = cython.declare(cython.int, RUN_FIELDS.index("first_offset"))
_R_FIRST_POSITION = cython.declare(cython.int, RUN_FIELDS.index("first_position"))
_R_FIRST_SEQUENCE = cython.declare(cython.int, RUN_FIELDS.index("first_sequence"))
_R_LAST_OFFSET = cython.declare(cython.int, RUN_FIELDS.index("last_offset"))
_R_LAST_POSITION = cython.declare(cython.int, RUN_FIELDS.index("last_position"))
_R_LAST_SEQUENCE = cython.declare(cython.int, RUN_FIELDS.index("last_sequence"))
_R_OFFSET_DELTA = cython.declare(cython.int, RUN_FIELDS.index("offset_delta"))
_R_TIMESTAMP = cython.declare(cython.int, RUN_FIELDS.index("timestamp"))
_L_EPOCH = cython.declare(cython.int, EPOCH_FIELDS.index("epoch"))
_L_FIRST_OFFSET = cython.declare(cython.int, EPOCH_FIELDS.index("first_offset"))
_L_FIRST_POSITION = cython.declare(cython.int, EPOCH_FIELDS.index("first_position"))
_L_LAST_OFFSET = cython.declare(cython.int, EPOCH_FIELDS.index("last_offset"))
_B_PRODUCER_ID = cython.declare(cython.int, BREAK_FIELDS.index("producer_id"))
_B_PRODUCER_EPOCH = cython.declare(cython.int, BREAK_FIELDS.index("producer_epoch"))
_B_OFFSET = cython.declare(cython.int, BREAK_FIELDS.index("offset"))
_B_POSITION = cython.declare(cython.int, BREAK_FIELDS.index("position"))
_B_EXPECTED = cython.declare(cython.int, BREAK_FIELDS.index("expected"))
_B_FOUND = cython.declare(cython.int, BREAK_FIELDS.index("found"))
_B_PREVIOUS_OFFSET = cython.declare(cython.int, BREAK_FIELDS.index("previous_offset"))
_S_PRODUCER_ID = cython.declare(cython.int, SEEN_FIELDS.index("producer_id"))
_S_RUN = cython.declare(cython.int, SEEN_FIELDS.index("run"))
_S_TRANSACTION = cython.declare(cython.int, SEEN_FIELDS.index("transaction"))
_S_GAPS = cython.declare(cython.int, SEEN_FIELDS.index("gaps"))
_P_PRODUCER_ID = cython.declare(cython.int, STATE_FIELDS.index("producer_id"))
_P_PRODUCER_EPOCH = cython.declare(cython.int, STATE_FIELDS.index("producer_epoch"))
_P_LAST_SEQUENCE = cython.declare(cython.int, STATE_FIELDS.index("last_sequence"))
_P_LAST_OFFSET = cython.declare(cython.int, STATE_FIELDS.index("last_offset"))
_P_OFFSET_DELTA = cython.declare(cython.int, STATE_FIELDS.index("offset_delta"))
_P_TIMESTAMP = cython.declare(cython.int, STATE_FIELDS.index("timestamp"))
_P_COORDINATOR_EPOCH = cython.declare(cython.int, STATE_FIELDS.index("coordinator_epoch"))
_P_TRANSACTION_FIRST_OFFSET = cython.declare(
    cython.int, STATE_FIELDS.index("transaction_first_offset")
)
_P_OLDER_OPEN = cython.declare(cython.int, STATE_FIELDS.index("older_open"))
_P_NEWER_OPEN = cython.declare(cython.int, STATE_FIELDS.index("newer_open"))
_P_SEGMENT = cython.declare(cython.int, STATE_FIELDS.index("segment"))
_P_POSITION = cython.declare(cython.int, STATE_FIELDS.index("position"))
_A_PRODUCER_ID = cython.declare(cython.int, ABORTED_FIELDS.index("producer_id"))
_A_FIRST_OFFSET = cython.declare(cython.int, ABORTED_FIELDS.index("first_offset"))
_A_LAST_OFFSET = cython.declare(cython.int, ABORTED_FIELDS.index("last_offset"))
_A_LAST_STABLE_OFFSET = cython.declare(cython.int, ABORTED_FIELDS.index("last_stable_offset"))
_V_KIND = cython.declare(cython.int, VIOLATION_FIELDS.index("kind"))
_V_PRODUCER_ID = cython.declare(cython.int, VIOLATION_FIELDS.index("producer_id"))
_V_PRODUCER_EPOCH = cython.declare(cython.int, VIOLATION_FIELDS.index("producer_epoch"))
_V_OFFSET = cython.declare(cython.int, VIOLATION_FIELDS.index("offset"))
_V_POSITION = cython.declare(cython.int, VIOLATION_FIELDS.index("position"))
_V_EXPECTED = cython.declare(cython.int, VIOLATION_FIELDS.index("expected"))
_V_FOUND = cython.declare(cython.int, VIOLATION_FIELDS.index("found"))
_V_PREVIOUS_OFFSET = cython.declare(cython.int, VIOLATION_FIELDS.index("previous_offset"))
# What read_marker() says of a marker.
_MARKER_KIND = cython.declare(cython.int, 0)
_MARKER_EPOCH = cython.declare(cython.int, 1)  # of the coordinator
_MARKER_TIMESTAMP = cython.declare(cython.int, 2)

# A producer's transaction as far as this segment tells: nothing yet, open, none open.
_UNKNOWN = cython.declare(cython.int, 0)
_OPEN = cython.declare(cython.int, 1)
_CLOSED = cython.declare(cython.int, 2)
_MIXED = cython.declare(cython.int, 3)  # a batch outside of it was noted already

#: A batch of just one marker, with nothing unusual in it.
_MARKER = cython.declare(cython.int, 78)
#: How much of a control batch must be there; no marker is longer.
CONTROL_BYTES = 65536
_CONTROL_BYTES = cython.declare(cython.longlong, CONTROL_BYTES)
_MIX = cython.declare(cython.longlong, 2654435761)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(
    producer_id: cython.longlong,
    rows: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    slots: cython.const[cython.longlong][::1],
) -> cython.Py_ssize_t:
    """Return the slot of a producer, or the empty one where it belongs.

    A slot holds the number of a row plus one. There are a power of two of them, and some are empty.
    """
    mask: cython.Py_ssize_t = len(slots) - 1
    mixed: cython.longlong = (producer_id ^ (producer_id >> 31)) & 2147483647
    slot: cython.Py_ssize_t = ((mixed * _MIX) >> 15) & mask
    while slots[slot] and rows[(slots[slot] - 1) * width] != producer_id:
        slot = (slot + 1) & mask
    return slot


@cython.cfunc
@cython.exceptval(-1)
def _need_slots(slots: cython.const[cython.longlong][::1]) -> cython.int:
    """Raise ValueError for slots that are not a power of two, or none."""
    if len(slots) & (len(slots) - 1):
        raise ValueError(f"expected a power of two as the number of slots, found {len(slots)}")
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _need_whole(length: cython.Py_ssize_t, width: cython.Py_ssize_t) -> cython.int:
    """Raise ValueError for a view that ends inside a row."""
    if length % width:
        raise ValueError(f"expected rows of {width} numbers, found {length} numbers")
    return 0


def hash_producers(
    rows: cython.const[cython.longlong][::1],
    width: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    slots: cython.longlong[::1],
) -> None:
    """Write the first ``count`` of ``rows``, all of other producers, into empty ``slots``."""
    need(1, width, "a width")
    within(0, count, len(rows) // width, "a count of rows")
    _need_slots(slots)
    need(count + 1, len(slots), "a number of slots")
    row: cython.Py_ssize_t
    for row in range(count):
        slots[_slot(rows[row * width], rows, width, slots)] = row + 1


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
    marker[_MARKER_KIND] = _COMMIT if view[p + 8] else _ABORT
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
    marker[_MARKER_KIND] = _CONTROL_FATAL
    marker[_MARKER_EPOCH] = -1
    marker[_MARKER_TIMESTAMP] = -1
    if rows[row + COUNT] < 0:
        marker[_MARKER_KIND] = _CONTROL_CUT
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
        marker[_MARKER_KIND] = _CONTROL_CUT
        return
    if record[KEY_SIZE] < 0:
        return
    key = p + record[KEY]
    if record[KEY_SIZE] < 4 or view[key] > 127:
        marker[_MARKER_KIND] = _CONTROL_CUT
        return
    kind = view[key + 2] << 8 | view[key + 3]
    if kind > 1 or record[VALUE_SIZE] < 2:
        return
    value = p + record[VALUE]
    if view[value] > 127:
        marker[_MARKER_KIND] = _CONTROL_CUT
        return
    if record[VALUE_SIZE] < 6:
        return
    marker[_MARKER_KIND] = _COMMIT if kind else _ABORT
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
    _need_slots(slots)
    within(0, state[G_PRODUCERS], len(producers) // _SEEN, "a number of producers")
    within(0, state[G_RUNS], len(runs) // _RUN, "a number of runs")
    within(0, state[G_EVENTS], len(events) // _EVENT, "a number of events")
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
    run_room: cython.Py_ssize_t = len(runs) // _RUN
    event_room: cython.Py_ssize_t = len(events) // _EVENT - 1
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
                if size > _CONTROL_BYTES:
                    size = _CONTROL_BYTES
                if start < 0 or start + size > stop:
                    why = MORE_BYTES
                    break
            if seen < 0 or producers[seen + _S_PRODUCER_ID] != producer_id:
                slot = _slot(producer_id, producers, _SEEN, slots)
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
            run = producers[seen + _S_RUN] * _RUN
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
                at = event_count * _EVENT
                is_marker = marker[_MARKER_KIND] in (_COMMIT, _ABORT)
                if is_marker and (
                    rows[row + COUNT] > 1
                    or not attributes & TRANSACTIONAL
                    or rows[row + BASE_SEQUENCE] != -1
                ):
                    _note(events, at, _CONTROL_ODD, rows, row)
                    event_count += 1
                    at += _EVENT
                _note(events, at, marker[_MARKER_KIND], rows, row)
                events[at + _E_COORDINATOR_EPOCH] = marker[_MARKER_EPOCH]
                events[at + _E_TIMESTAMP] = marker[_MARKER_TIMESTAMP]
                event_count += 1
                if is_marker:
                    producers[seen + _S_TRANSACTION] = _CLOSED
                    if run >= 0 and runs[run + _R_PRODUCER_EPOCH] != rows[row + PRODUCER_EPOCH]:
                        producers[seen + _S_RUN] = -1
            else:
                if attributes & TRANSACTIONAL:
                    if (
                        producers[seen + _S_TRANSACTION] != _OPEN
                        and producers[seen + _S_TRANSACTION] != _MIXED
                    ):
                        _note(events, event_count * _EVENT, _BEGIN, rows, row)
                        event_count += 1
                        producers[seen + _S_TRANSACTION] = _OPEN
                elif (
                    producers[seen + _S_TRANSACTION] == _UNKNOWN
                    or producers[seen + _S_TRANSACTION] == _OPEN
                ):
                    _note(events, event_count * _EVENT, _PLAIN, rows, row)
                    event_count += 1
                    producers[seen + _S_TRANSACTION] = (
                        _CLOSED if producers[seen + _S_TRANSACTION] == _UNKNOWN else _MIXED
                    )
                if run < 0 or runs[run + _R_PRODUCER_EPOCH] != rows[row + PRODUCER_EPOCH]:
                    producers[seen + _S_RUN] = run_count
                    run = run_count * _RUN
                    run_count += 1
                    runs[run + _R_PRODUCER_ID] = producer_id
                    runs[run + _R_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
                    runs[run + _R_FIRST_OFFSET] = rows[row + BASE_OFFSET]
                    runs[run + _R_FIRST_POSITION] = rows[row + POSITION]
                    runs[run + _R_FIRST_SEQUENCE] = rows[row + BASE_SEQUENCE]
                elif runs[run + _R_LAST_SEQUENCE] >= 0 and rows[row + BASE_SEQUENCE] >= 0:
                    expected = (runs[run + _R_LAST_SEQUENCE] + 1) & 2147483647
                    if rows[row + BASE_SEQUENCE] != expected:
                        if state[G_BREAKS] < _LISTED:
                            at = state[G_BREAKS] * _BREAK
                            breaks[at + _B_PRODUCER_ID] = producer_id
                            breaks[at + _B_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
                            breaks[at + _B_OFFSET] = rows[row + BASE_OFFSET]
                            breaks[at + _B_POSITION] = rows[row + POSITION]
                            breaks[at + _B_EXPECTED] = expected
                            breaks[at + _B_FOUND] = rows[row + BASE_SEQUENCE]
                            breaks[at + _B_PREVIOUS_OFFSET] = runs[run + _R_LAST_OFFSET]
                        state[G_BREAKS] += 1
                runs[run + _R_LAST_OFFSET] = rows[row + LAST_OFFSET]
                runs[run + _R_LAST_POSITION] = rows[row + POSITION]
                runs[run + _R_OFFSET_DELTA] = _delta(
                    rows[row + BASE_OFFSET], rows[row + LAST_OFFSET]
                )
                runs[run + _R_LAST_SEQUENCE] = -1
                if rows[row + BASE_SEQUENCE] >= 0:
                    runs[run + _R_LAST_SEQUENCE] = (
                        rows[row + BASE_SEQUENCE] + runs[run + _R_OFFSET_DELTA]
                    ) & 2147483647
                runs[run + _R_TIMESTAMP] = rows[row + MAX_TIMESTAMP]
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
    events[at + _E_KIND] = kind
    events[at + _E_PRODUCER_ID] = rows[row + PRODUCER_ID]
    events[at + _E_PRODUCER_EPOCH] = rows[row + PRODUCER_EPOCH]
    events[at + _E_OFFSET] = rows[row + BASE_OFFSET]
    events[at + _E_POSITION] = rows[row + POSITION]
    events[at + _E_COORDINATOR_EPOCH] = -1
    events[at + _E_TIMESTAMP] = rows[row + MAX_TIMESTAMP]


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


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _object(
    state: cython.longlong[::1],
    violations: cython.longlong[::1],
    kind: cython.longlong,
    producer_id: cython.longlong,
    producer_epoch: cython.longlong,
    offset: cython.longlong,
    position: cython.longlong,
    expected: cython.longlong,
    found: cython.longlong,
    previous_offset: cython.longlong,
) -> cython.void:
    """Count a violation, and list it if it is among the first of its kind in this segment."""
    at: cython.Py_ssize_t = state[_F_VIOLATIONS] * _VIOLATION
    if state[_F_COUNTS + kind] < _LISTED and at + _VIOLATION <= len(violations):
        violations[at + _V_KIND] = kind
        violations[at + _V_PRODUCER_ID] = producer_id
        violations[at + _V_PRODUCER_EPOCH] = producer_epoch
        violations[at + _V_OFFSET] = offset
        violations[at + _V_POSITION] = position
        violations[at + _V_EXPECTED] = expected
        violations[at + _V_FOUND] = found
        violations[at + _V_PREVIOUS_OFFSET] = previous_offset
        state[_F_VIOLATIONS] += 1
    state[_F_COUNTS + kind] += 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _close(
    state: cython.longlong[::1], producers: cython.longlong[::1], at: cython.Py_ssize_t
) -> cython.void:
    """Take the producer whose row is at ``at`` from the chain of those with open transactions."""
    older: cython.longlong = producers[at + _P_OLDER_OPEN]
    newer: cython.longlong = producers[at + _P_NEWER_OPEN]
    if older >= 0:
        producers[older * _STATE + _P_NEWER_OPEN] = newer
    else:
        state[_F_OLDEST] = newer
    if newer >= 0:
        producers[newer * _STATE + _P_OLDER_OPEN] = older
    else:
        state[_F_NEWEST] = older
    producers[at + _P_TRANSACTION_FIRST_OFFSET] = -1


def fold(
    events: cython.const[cython.longlong][::1],
    runs: cython.const[cython.longlong][::1],
    segment: cython.longlong,
    state: cython.longlong[::1],
    producers: cython.longlong[::1],
    slots: cython.longlong[::1],
    aborted: cython.longlong[::1],
    violations: cython.longlong[::1],
) -> None:
    """Replay a segment's events and runs as a broker's recovery does, from where it stopped.

    ``segment`` numbers the segments of the partition. ``producers`` has rows of ``STATE_FIELDS``,
    ``violations`` room for ``LISTED`` of each kind. ``state`` is of ``FOLD_FIELDS``; its
    ``F_WHY`` says whether the segment is done.
    """
    need(FOLD_FIELDS, len(state), "a state")
    need(KINDS * LISTED * _VIOLATION, len(violations), "room for violations")
    _need_slots(slots)
    _need_whole(len(events), _EVENT)
    _need_whole(len(runs), _RUN)
    need(0, state[F_EVENT], "a next event")
    need(0, state[F_RUN], "a next run")
    within(0, state[F_PRODUCERS], len(producers) // _STATE, "a number of producers")
    within(0, state[F_ABORTED], len(aborted) // _ABORTED, "a number of transactions")
    within(0, state[F_VIOLATIONS], KINDS * LISTED, "a number of violations")
    within(-1, state[F_OLDEST], state[F_PRODUCERS] - 1, "the row of a producer")
    within(-1, state[F_NEWEST], state[F_PRODUCERS] - 1, "the row of a producer")
    event: cython.Py_ssize_t = state[F_EVENT] * _EVENT
    run: cython.Py_ssize_t = state[F_RUN] * _RUN
    known: cython.longlong = state[F_PRODUCERS]
    room: cython.Py_ssize_t = len(producers) // _STATE
    aborted_room: cython.Py_ssize_t = len(aborted) // _ABORTED
    slot: cython.Py_ssize_t
    at: cython.Py_ssize_t
    out: cython.Py_ssize_t
    is_run: cython.bint
    kind: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.longlong
    other: cython.longlong
    why: cython.int = DONE
    if room > len(slots) // 2:
        room = len(slots) // 2
    while event < len(events) or run < len(runs):
        if known == room or state[_F_ABORTED] == aborted_room:
            why = MORE_ROOM
            break
        # The first batch of a run may also begin a transaction: its epoch comes first.
        is_run = run < len(runs) and (
            event == len(events) or runs[run + _R_FIRST_POSITION] <= events[event + _E_POSITION]
        )
        if is_run:
            producer_id = runs[run + _R_PRODUCER_ID]
            producer_epoch = runs[run + _R_PRODUCER_EPOCH]
        else:
            producer_id = events[event + _E_PRODUCER_ID]
            producer_epoch = events[event + _E_PRODUCER_EPOCH]
        slot = _slot(producer_id, producers, _STATE, slots)
        if slots[slot] == 0:
            at = known * _STATE
            known += 1
            slots[slot] = known
            producers[at + _P_PRODUCER_ID] = producer_id
            producers[at + _P_PRODUCER_EPOCH] = -1
            producers[at + _P_LAST_SEQUENCE] = -1
            producers[at + _P_LAST_OFFSET] = -1
            producers[at + _P_OFFSET_DELTA] = 0
            producers[at + _P_TIMESTAMP] = -1
            producers[at + _P_COORDINATOR_EPOCH] = -1
            producers[at + _P_TRANSACTION_FIRST_OFFSET] = -1
            producers[at + _P_SEGMENT] = -1
        at = (slots[slot] - 1) * _STATE
        if producers[at + _P_SEGMENT] != segment:
            producers[at + _P_SEGMENT] = segment
            producers[at + _P_POSITION] = -1
        if is_run:
            if producer_epoch < producers[at + _P_PRODUCER_EPOCH]:
                _object(
                    state,
                    violations,
                    _EPOCH_FALLS,
                    producer_id,
                    producer_epoch,
                    runs[run + _R_FIRST_OFFSET],
                    runs[run + _R_FIRST_POSITION],
                    producers[at + _P_PRODUCER_EPOCH],
                    producer_epoch,
                    -1,
                )
            if (
                producer_epoch == producers[at + _P_PRODUCER_EPOCH]
                and producers[at + _P_LAST_SEQUENCE] >= 0
                and runs[run + _R_FIRST_SEQUENCE] >= 0
                and runs[run + _R_FIRST_SEQUENCE]
                != (producers[at + _P_LAST_SEQUENCE] + 1) & 2147483647
            ):
                _object(
                    state,
                    violations,
                    _SEQUENCE_BREAK,
                    producer_id,
                    producer_epoch,
                    runs[run + _R_FIRST_OFFSET],
                    runs[run + _R_FIRST_POSITION],
                    (producers[at + _P_LAST_SEQUENCE] + 1) & 2147483647,
                    runs[run + _R_FIRST_SEQUENCE],
                    producers[at + _P_LAST_OFFSET],
                )
            producers[at + _P_PRODUCER_EPOCH] = producer_epoch
            producers[at + _P_LAST_SEQUENCE] = runs[run + _R_LAST_SEQUENCE]
            producers[at + _P_LAST_OFFSET] = runs[run + _R_LAST_OFFSET]
            producers[at + _P_OFFSET_DELTA] = runs[run + _R_OFFSET_DELTA]
            producers[at + _P_TIMESTAMP] = runs[run + _R_TIMESTAMP]
            producers[at + _P_POSITION] = runs[run + _R_LAST_POSITION]
            run += _RUN
            continue
        kind = events[event + _E_KIND]
        if kind == _BEGIN:
            if producers[at + _P_TRANSACTION_FIRST_OFFSET] < 0:
                producers[at + _P_TRANSACTION_FIRST_OFFSET] = events[event + _E_OFFSET]
                producers[at + _P_OLDER_OPEN] = state[_F_NEWEST]
                producers[at + _P_NEWER_OPEN] = -1
                if state[_F_NEWEST] >= 0:
                    producers[state[_F_NEWEST] * _STATE + _P_NEWER_OPEN] = slots[slot] - 1
                else:
                    state[_F_OLDEST] = slots[slot] - 1
                state[_F_NEWEST] = slots[slot] - 1
        elif kind in (_COMMIT, _ABORT):
            if producer_epoch < producers[at + _P_PRODUCER_EPOCH]:
                _object(
                    state,
                    violations,
                    _EPOCH_FALLS,
                    producer_id,
                    producer_epoch,
                    events[event + _E_OFFSET],
                    events[event + _E_POSITION],
                    producers[at + _P_PRODUCER_EPOCH],
                    producer_epoch,
                    -1,
                )
            if producers[at + _P_TRANSACTION_FIRST_OFFSET] >= 0:
                if kind == _COMMIT:
                    state[_F_COMMITTED] += 1
                else:
                    out = state[_F_ABORTED] * _ABORTED
                    aborted[out + _A_PRODUCER_ID] = producer_id
                    aborted[out + _A_FIRST_OFFSET] = producers[at + _P_TRANSACTION_FIRST_OFFSET]
                    aborted[out + _A_LAST_OFFSET] = events[event + _E_OFFSET]
                    # Up to the oldest transaction of another producer that is still open.
                    other = state[_F_OLDEST]
                    if other == slots[slot] - 1:
                        other = producers[at + _P_NEWER_OPEN]
                    if other >= 0:
                        aborted[out + _A_LAST_STABLE_OFFSET] = producers[
                            other * _STATE + _P_TRANSACTION_FIRST_OFFSET
                        ]
                    elif events[event + _E_OFFSET] < MAX_64:
                        aborted[out + _A_LAST_STABLE_OFFSET] = events[event + _E_OFFSET] + 1
                    else:
                        aborted[out + _A_LAST_STABLE_OFFSET] = MAX_64
                    state[_F_ABORTED] += 1
                _close(state, producers, at)
            if producer_epoch != producers[at + _P_PRODUCER_EPOCH]:
                producers[at + _P_PRODUCER_EPOCH] = producer_epoch
                producers[at + _P_LAST_SEQUENCE] = -1
                producers[at + _P_LAST_OFFSET] = -1
                producers[at + _P_OFFSET_DELTA] = 0
            producers[at + _P_COORDINATOR_EPOCH] = events[event + _E_COORDINATOR_EPOCH]
            if events[event + _E_POSITION] > producers[at + _P_POSITION]:
                producers[at + _P_TIMESTAMP] = events[event + _E_TIMESTAMP]
        elif kind != _PLAIN or producers[at + _P_TRANSACTION_FIRST_OFFSET] >= 0:
            within(0, kind, KINDS - 1, "a kind of event")
            _object(
                state,
                violations,
                kind,
                producer_id,
                producer_epoch,
                events[event + _E_OFFSET],
                events[event + _E_POSITION],
                -1,
                -1,
                -1,
            )
        event += _EVENT
    state[F_WHY] = why
    state[F_PRODUCERS] = known
    state[F_EVENT] = event // _EVENT
    state[F_RUN] = run // _RUN


def touched(
    producers: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    segment: cython.longlong,
    found: cython.longlong[::1],
) -> int:
    """Copy the rows of the producers that ``segment`` says something of to ``found``.

    Return how many they are; only as many are copied as there is room for.
    """
    within(0, count, len(producers) // _STATE, "a number of producers")
    row: cython.Py_ssize_t
    field: cython.Py_ssize_t
    n: cython.Py_ssize_t = 0
    room: cython.Py_ssize_t = len(found) // _STATE
    for row in range(count):
        if producers[row * _STATE + _P_SEGMENT] == segment:
            if n < room:
                for field in range(_STATE):
                    found[n * _STATE + field] = producers[row * _STATE + field]
            n += 1
    return n
