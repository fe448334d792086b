"""The hot loop that replays the events of a partition's segments, as a broker's recovery does.

It keeps producers in rows that a hash table of slots finds. Where an array is full it stops, so
that the caller can enlarge it and call again. What slots and rows of producers hold is the kernel's
own: the caller hands back what it got.

Spec: ``ProducerAppendInfo``, ``ProducerStateEntry``, ``ProducerStateManager`` (KIP-98, KIP-890);
KOD 7.
It must never make an object per batch.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    MAX_64,
    need,
    within,
)
from kdump.format.kernel.producers import (
    ABORT,
    BEGIN,
    COMMIT,
    DONE,
    E_COORDINATOR_EPOCH,
    E_KIND,
    E_OFFSET,
    E_POSITION,
    E_PRODUCER_EPOCH,
    E_PRODUCER_ID,
    E_TIMESTAMP,
    EPOCH_FALLS,
    EVENT_WIDTH,
    KINDS,
    LISTED,
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
    SEQUENCE_BREAK,
    find_slot,
    need_slots,
    need_whole,
)

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

# The places of the fields of a producer, an aborted transaction, and a violation.
_P_PRODUCER_ID = STATE_FIELDS.index("producer_id")
_P_PRODUCER_EPOCH = STATE_FIELDS.index("producer_epoch")
_P_LAST_SEQUENCE = STATE_FIELDS.index("last_sequence")
_P_LAST_OFFSET = STATE_FIELDS.index("last_offset")
_P_OFFSET_DELTA = STATE_FIELDS.index("offset_delta")
_P_TIMESTAMP = STATE_FIELDS.index("timestamp")
_P_COORDINATOR_EPOCH = STATE_FIELDS.index("coordinator_epoch")
_P_TRANSACTION_FIRST_OFFSET = STATE_FIELDS.index("transaction_first_offset")
_P_OLDER_OPEN = STATE_FIELDS.index("older_open")
_P_NEWER_OPEN = STATE_FIELDS.index("newer_open")
_P_SEGMENT = STATE_FIELDS.index("segment")
_P_POSITION = STATE_FIELDS.index("position")
_A_PRODUCER_ID = ABORTED_FIELDS.index("producer_id")
_A_FIRST_OFFSET = ABORTED_FIELDS.index("first_offset")
_A_LAST_OFFSET = ABORTED_FIELDS.index("last_offset")
_A_LAST_STABLE_OFFSET = ABORTED_FIELDS.index("last_stable_offset")
_V_KIND = VIOLATION_FIELDS.index("kind")
_V_PRODUCER_ID = VIOLATION_FIELDS.index("producer_id")
_V_PRODUCER_EPOCH = VIOLATION_FIELDS.index("producer_epoch")
_V_OFFSET = VIOLATION_FIELDS.index("offset")
_V_POSITION = VIOLATION_FIELDS.index("position")
_V_EXPECTED = VIOLATION_FIELDS.index("expected")
_V_FOUND = VIOLATION_FIELDS.index("found")
_V_PREVIOUS_OFFSET = VIOLATION_FIELDS.index("previous_offset")

_STATE = len(STATE_FIELDS)
_ABORTED = len(ABORTED_FIELDS)
_VIOLATION = len(VIOLATION_FIELDS)


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
    at: cython.Py_ssize_t = state[F_VIOLATIONS] * _VIOLATION
    if state[F_COUNTS + kind] < LISTED and at + _VIOLATION <= len(violations):
        violations[at + _V_KIND] = kind
        violations[at + _V_PRODUCER_ID] = producer_id
        violations[at + _V_PRODUCER_EPOCH] = producer_epoch
        violations[at + _V_OFFSET] = offset
        violations[at + _V_POSITION] = position
        violations[at + _V_EXPECTED] = expected
        violations[at + _V_FOUND] = found
        violations[at + _V_PREVIOUS_OFFSET] = previous_offset
        state[F_VIOLATIONS] += 1
    state[F_COUNTS + kind] += 1


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
        state[F_OLDEST] = newer
    if newer >= 0:
        producers[newer * _STATE + _P_OLDER_OPEN] = older
    else:
        state[F_NEWEST] = older
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
    need_slots(slots)
    need_whole(len(events), EVENT_WIDTH)
    need_whole(len(runs), RUN_WIDTH)
    need(0, state[F_EVENT], "a next event")
    need(0, state[F_RUN], "a next run")
    within(0, state[F_PRODUCERS], len(producers) // _STATE, "a number of producers")
    within(0, state[F_ABORTED], len(aborted) // _ABORTED, "a number of transactions")
    within(0, state[F_VIOLATIONS], KINDS * LISTED, "a number of violations")
    within(-1, state[F_OLDEST], state[F_PRODUCERS] - 1, "the row of a producer")
    within(-1, state[F_NEWEST], state[F_PRODUCERS] - 1, "the row of a producer")
    event: cython.Py_ssize_t = state[F_EVENT] * EVENT_WIDTH
    run: cython.Py_ssize_t = state[F_RUN] * RUN_WIDTH
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
        if known == room or state[F_ABORTED] == aborted_room:
            why = MORE_ROOM
            break
        # The first batch of a run may also begin a transaction: its epoch comes first.
        is_run = run < len(runs) and (
            event == len(events) or runs[run + R_FIRST_POSITION] <= events[event + E_POSITION]
        )
        if is_run:
            producer_id = runs[run + R_PRODUCER_ID]
            producer_epoch = runs[run + R_PRODUCER_EPOCH]
        else:
            producer_id = events[event + E_PRODUCER_ID]
            producer_epoch = events[event + E_PRODUCER_EPOCH]
        slot = find_slot(producer_id, producers, _STATE, slots)
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
                    EPOCH_FALLS,
                    producer_id,
                    producer_epoch,
                    runs[run + R_FIRST_OFFSET],
                    runs[run + R_FIRST_POSITION],
                    producers[at + _P_PRODUCER_EPOCH],
                    producer_epoch,
                    -1,
                )
            if (
                producer_epoch == producers[at + _P_PRODUCER_EPOCH]
                and producers[at + _P_LAST_SEQUENCE] >= 0
                and runs[run + R_FIRST_SEQUENCE] >= 0
                and runs[run + R_FIRST_SEQUENCE]
                != (producers[at + _P_LAST_SEQUENCE] + 1) & 2147483647
            ):
                _object(
                    state,
                    violations,
                    SEQUENCE_BREAK,
                    producer_id,
                    producer_epoch,
                    runs[run + R_FIRST_OFFSET],
                    runs[run + R_FIRST_POSITION],
                    (producers[at + _P_LAST_SEQUENCE] + 1) & 2147483647,
                    runs[run + R_FIRST_SEQUENCE],
                    producers[at + _P_LAST_OFFSET],
                )
            producers[at + _P_PRODUCER_EPOCH] = producer_epoch
            producers[at + _P_LAST_SEQUENCE] = runs[run + R_LAST_SEQUENCE]
            producers[at + _P_LAST_OFFSET] = runs[run + R_LAST_OFFSET]
            producers[at + _P_OFFSET_DELTA] = runs[run + R_OFFSET_DELTA]
            producers[at + _P_TIMESTAMP] = runs[run + R_TIMESTAMP]
            producers[at + _P_POSITION] = runs[run + R_LAST_POSITION]
            run += RUN_WIDTH
            continue
        kind = events[event + E_KIND]
        if kind == BEGIN:
            if producers[at + _P_TRANSACTION_FIRST_OFFSET] < 0:
                producers[at + _P_TRANSACTION_FIRST_OFFSET] = events[event + E_OFFSET]
                producers[at + _P_OLDER_OPEN] = state[F_NEWEST]
                producers[at + _P_NEWER_OPEN] = -1
                if state[F_NEWEST] >= 0:
                    producers[state[F_NEWEST] * _STATE + _P_NEWER_OPEN] = slots[slot] - 1
                else:
                    state[F_OLDEST] = slots[slot] - 1
                state[F_NEWEST] = slots[slot] - 1
        elif kind in (COMMIT, ABORT):
            if producer_epoch < producers[at + _P_PRODUCER_EPOCH]:
                _object(
                    state,
                    violations,
                    EPOCH_FALLS,
                    producer_id,
                    producer_epoch,
                    events[event + E_OFFSET],
                    events[event + E_POSITION],
                    producers[at + _P_PRODUCER_EPOCH],
                    producer_epoch,
                    -1,
                )
            if producers[at + _P_TRANSACTION_FIRST_OFFSET] >= 0:
                if kind == COMMIT:
                    state[F_COMMITTED] += 1
                else:
                    out = state[F_ABORTED] * _ABORTED
                    aborted[out + _A_PRODUCER_ID] = producer_id
                    aborted[out + _A_FIRST_OFFSET] = producers[at + _P_TRANSACTION_FIRST_OFFSET]
                    aborted[out + _A_LAST_OFFSET] = events[event + E_OFFSET]
                    # Up to the oldest transaction of another producer that is still open.
                    other = state[F_OLDEST]
                    if other == slots[slot] - 1:
                        other = producers[at + _P_NEWER_OPEN]
                    if other >= 0:
                        aborted[out + _A_LAST_STABLE_OFFSET] = producers[
                            other * _STATE + _P_TRANSACTION_FIRST_OFFSET
                        ]
                    elif events[event + E_OFFSET] < MAX_64:
                        aborted[out + _A_LAST_STABLE_OFFSET] = events[event + E_OFFSET] + 1
                    else:
                        aborted[out + _A_LAST_STABLE_OFFSET] = MAX_64
                    state[F_ABORTED] += 1
                _close(state, producers, at)
            if producer_epoch != producers[at + _P_PRODUCER_EPOCH]:
                producers[at + _P_PRODUCER_EPOCH] = producer_epoch
                producers[at + _P_LAST_SEQUENCE] = -1
                producers[at + _P_LAST_OFFSET] = -1
                producers[at + _P_OFFSET_DELTA] = 0
            producers[at + _P_COORDINATOR_EPOCH] = events[event + E_COORDINATOR_EPOCH]
            if events[event + E_POSITION] > producers[at + _P_POSITION]:
                producers[at + _P_TIMESTAMP] = events[event + E_TIMESTAMP]
        elif kind != PLAIN or producers[at + _P_TRANSACTION_FIRST_OFFSET] >= 0:
            within(0, kind, KINDS - 1, "a kind of event")
            _object(
                state,
                violations,
                kind,
                producer_id,
                producer_epoch,
                events[event + E_OFFSET],
                events[event + E_POSITION],
                -1,
                -1,
                -1,
            )
        event += EVENT_WIDTH
    state[F_WHY] = why
    state[F_PRODUCERS] = known
    state[F_EVENT] = event // EVENT_WIDTH
    state[F_RUN] = run // RUN_WIDTH


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
