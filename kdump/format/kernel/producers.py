"""What the loops over producers share: the rows of events and runs, their kinds, and the slots.

The build pastes the body of this module, like the prelude, into the modules that use it. Python
code uses the lists of fields and the numbers.

Spec: ``ProducerStateEntry``, ``EndTransactionMarker`` (KIP-98, KIP-890); KOD 7.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

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

# Why a loop stopped.
DONE = 0
MORE_ROOM = 1  # one of the arrays is full
MORE_BYTES = 2  # a control batch is not whole in what was given of the file

EVENT_WIDTH = len(EVENT_FIELDS)
RUN_WIDTH = len(RUN_FIELDS)

# The places of the fields of an event, and of a run.
E_KIND = EVENT_FIELDS.index("kind")
E_PRODUCER_ID = EVENT_FIELDS.index("producer_id")
E_PRODUCER_EPOCH = EVENT_FIELDS.index("producer_epoch")
E_OFFSET = EVENT_FIELDS.index("offset")
E_POSITION = EVENT_FIELDS.index("position")
E_COORDINATOR_EPOCH = EVENT_FIELDS.index("coordinator_epoch")
E_TIMESTAMP = EVENT_FIELDS.index("timestamp")
R_PRODUCER_ID = RUN_FIELDS.index("producer_id")
R_PRODUCER_EPOCH = RUN_FIELDS.index("producer_epoch")
R_FIRST_OFFSET = RUN_FIELDS.index("first_offset")
R_FIRST_POSITION = RUN_FIELDS.index("first_position")
R_FIRST_SEQUENCE = RUN_FIELDS.index("first_sequence")
R_LAST_OFFSET = RUN_FIELDS.index("last_offset")
R_LAST_POSITION = RUN_FIELDS.index("last_position")
R_LAST_SEQUENCE = RUN_FIELDS.index("last_sequence")
R_OFFSET_DELTA = RUN_FIELDS.index("offset_delta")
R_TIMESTAMP = RUN_FIELDS.index("timestamp")

_MIX = cython.declare(cython.longlong, 2654435761)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def find_slot(
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
def need_slots(slots: cython.const[cython.longlong][::1]) -> cython.int:
    """Raise ValueError for slots that are not a power of two, or none."""
    if len(slots) & (len(slots) - 1):
        raise ValueError(f"expected a power of two as the number of slots, found {len(slots)}")
    return 0


@cython.cfunc
@cython.exceptval(-1)
def need_whole(length: cython.Py_ssize_t, width: cython.Py_ssize_t) -> cython.int:
    """Raise ValueError for a view that ends inside a row."""
    if length % width:
        raise ValueError(f"expected rows of {width} numbers, found {length} numbers")
    return 0
