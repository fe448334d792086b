"""Encoding of records as batches of magic 2, and the conversion of old messages to them.

Spec: ``DefaultRecordBatch``, ``MemoryRecords.buildRetainedRecordsInto`` for what such a batch says
of its records (KOD 6).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from kdump.errors import DecodeError, LimitError
from kdump.format import _encode
from kdump.format.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MIN_OFFSET,
    RecordTable,
    TimestampType,
    seal,
)
from kdump.format.checkpoint import EpochEntry
from kdump.format.codecs import Codec

NO_EPOCH: Final = -1
#: No log is larger.
MAX_BATCH_BYTES: Final = 2**31 - 1
_FIRST_ROOM_BYTES: Final = 64 * 1024
#: The most that a record takes beside its key and value: five numbers of 5 bytes, one of 10, two
#: bytes, less the number of headers, which is 0.
_MOST_BESIDE_BYTES: Final = 32


class BatchWriter:
    """Records of magic 0 and 1 as batches of magic 2, one after the other; one is open at a time.

    Offsets must rise from each record to the next, from batch to batch too. ``epochs`` rise, and
    give the leader epoch of each batch: that of the last entry that starts at its first offset or
    before, -1 below all of them.
    """

    __slots__ = ("_attributes", "_block", "_epoch", "_epochs", "_least_epoch", "_state")

    def __init__(self, epochs: Sequence[EpochEntry] = ()) -> None:
        self._epochs = epochs
        self._epoch = self._least_epoch = NO_EPOCH
        self._block = bytearray(_FIRST_ROOM_BYTES)
        self._state = array("q", bytes(8 * _encode.STATE_FIELDS))
        self._state[_encode.E_LAST_OFFSET] = MIN_OFFSET
        self._attributes = 0

    def add(
        self,
        block: memoryview,
        rows: memoryview,
        first: int,
        codec: Codec,
        timestamp_type: TimestampType,
        limit_bytes: int | None,
    ) -> int:
        """Take records from row ``first`` on into the open batch; the row behind the last taken.

        ``rows`` and ``block`` are those of a ``RecordTable`` or ``RecordRun``. It ends before one
        that would make the batch, uncompressed and with its header, larger than ``limit_bytes``
        (None: no limit), though an empty batch takes one in any case; and before one that needs
        another batch: for its codec, type, append time or leader epoch, or for being too far from
        the first. Then ``finish`` is to be called. Raises DecodeError before an offset that does
        not rise, LimitError before a record that no batch can hold.
        """
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        attributes = codec | (LOG_APPEND_TIME if log_append else 0)
        state = self._state
        if first * RecordTable.WIDTH == len(rows):
            return first
        epoch, rows = self._under_one_epoch(rows, first)
        if state[_encode.E_COUNT] == 0:
            self._attributes, self._epoch = attributes, epoch
        elif (attributes, epoch) != (self._attributes, self._epoch):
            return first
        limit = (MAX_BATCH_BYTES if limit_bytes is None else limit_bytes) - HEADER_BYTES
        while True:
            first, why = _encode.encode_records(
                block, rows, first, log_append, limit, state, self._block
            )
            if why == _encode.DISORDER:
                raise DecodeError(
                    f"expected an offset above {state[_encode.E_LAST_OFFSET]}, that of the record "
                    f"before, found {rows[first * RecordTable.WIDTH]}"
                )
            if why != _encode.NO_ROOM:
                return first
            self._make_room(rows, first)

    def finish(self) -> bytes | None:
        """The open batch, whole; None if there is none. The next record begins another."""
        size, count, base_offset, last_offset, base_timestamp, max_timestamp = self._state
        if count == 0:
            return None
        self._state[_encode.E_SIZE] = self._state[_encode.E_COUNT] = 0
        with memoryview(self._block) as room, room[:size] as block:
            return seal(
                block,
                attributes=self._attributes,
                base_offset=base_offset,
                last_offset=last_offset,
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                count=count,
                leader_epoch=self._epoch,
            )

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of a batch that begins at ``offset``."""
        behind = bisect_right(self._epochs, offset, key=_start_offset)
        epoch = self._epochs[behind - 1].epoch if behind else NO_EPOCH
        return max(epoch, self._least_epoch)

    def raise_epoch(self, epoch: int) -> None:
        """Give batches that begin from now on this leader epoch at least."""
        self._least_epoch = max(self._least_epoch, epoch)

    def _under_one_epoch(self, rows: memoryview, first: int) -> tuple[int, memoryview]:
        """The leader epoch of the record in row ``first``; the rows up to the end of that epoch."""
        epochs, width = self._epochs, RecordTable.WIDTH
        offset = rows[first * width]
        behind = bisect_right(epochs, offset, key=_start_offset)
        if behind < len(epochs) and rows[-width] >= epochs[behind].start_offset:
            every = range(len(rows) // width)
            stop = bisect_left(
                every, epochs[behind].start_offset, first + 1, key=lambda row: rows[row * width]
            )
            rows = rows[: stop * width]
        return self.epoch_at(offset), rows

    def _make_room(self, rows: memoryview, row: int) -> None:
        """For the record at ``row`` at least."""
        at = row * RecordTable.WIDTH
        key_size, value_size = rows[at + 3], rows[at + 5]
        needed = _MOST_BESIDE_BYTES + max(key_size, 0) + max(value_size, 0)
        size = self._state[_encode.E_SIZE] + needed
        if size > MAX_BATCH_BYTES - HEADER_BYTES:
            raise LimitError(
                f"expected records that fit into a batch of {MAX_BATCH_BYTES} bytes, found a "
                f"record of {needed} bytes at offset {rows[at]}"
            )
        self._block += bytes(max(needed, len(self._block) // 2))


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
