"""Encoding of records as batches of magic 2, and the conversion of old messages to them.

Spec: ``DefaultRecordBatch``; ``MemoryRecords.buildRetainedRecordsInto`` for the header fields that
follow from the records (KOD 6).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from kdump.errors import DecodeError, LimitError
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
from kdump.format.kernel import encode as _encode

NO_EPOCH: Final = -1
#: The largest batch, as no log is larger.
MAX_BATCH_BYTES: Final = 2**31 - 1
_FIRST_ROOM_BYTES: Final = 64 * 1024
#: The most bytes of a record without its key and value: four numbers of 5 bytes, one of 10, and two
#: bytes for the attributes and the count of headers, which is 0.
_MAX_OVERHEAD_BYTES: Final = 32


class BatchWriter:
    """Encodes records of magic 0 and 1 as batches of magic 2. One batch is open at a time.

    Offsets rise from each record to the next, also from batch to batch. The leader epoch of a batch
    is that of the last entry of ``epochs`` that starts at its first offset or before, or -1 without
    such an entry. ``epochs`` are ascending.
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
        """Add records from row ``first`` on to the open batch; return the row after the last added.

        ``rows`` and ``block`` are those of a ``RecordTable`` or ``RecordRun``. If rows are left,
        call ``finish`` and add them to the next batch. They are left

        - before a record that would make the batch larger than ``limit_bytes``, uncompressed and
          with its header (None: no limit); an empty batch takes a record of any size;
        - before a record that needs another batch, by its codec, timestamp type, append time or
          leader epoch, or because its offset is too far from that of the first record.

        Raises DecodeError at an offset that does not rise, LimitError at a record that no batch can
        hold.
        """
        log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
        attributes = codec | (LOG_APPEND_TIME if log_append else 0)
        state = self._state
        if first * RecordTable.WIDTH == len(rows):
            return first
        epoch, rows = self._with_same_epoch(rows, first)
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
        """Return the open batch and close it; None if there is no open batch."""
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
        """Return the leader epoch of a batch that begins at ``offset``."""
        following = bisect_right(self._epochs, offset, key=_start_offset)
        epoch = self._epochs[following - 1].epoch if following else NO_EPOCH
        return max(epoch, self._least_epoch)

    def raise_epoch(self, epoch: int) -> None:
        """Give all later batches a leader epoch of at least ``epoch``."""
        self._least_epoch = max(self._least_epoch, epoch)

    def _with_same_epoch(self, rows: memoryview, first: int) -> tuple[int, memoryview]:
        """Return the leader epoch of the record in row ``first``, and the rows up to its end."""
        epochs, width = self._epochs, RecordTable.WIDTH
        offset = rows[first * width]
        following = bisect_right(epochs, offset, key=_start_offset)
        if following < len(epochs) and rows[-width] >= epochs[following].start_offset:
            stop = bisect_left(
                range(len(rows) // width),
                epochs[following].start_offset,
                first + 1,
                key=lambda row: rows[row * width],
            )
            rows = rows[: stop * width]
        return self.epoch_at(offset), rows

    def _make_room(self, rows: memoryview, row: int) -> None:
        """Enlarge the block by the size of the record in ``row`` at least. Raises LimitError."""
        at = row * RecordTable.WIDTH
        key_size, value_size = rows[at + 3], rows[at + 5]
        needed = _MAX_OVERHEAD_BYTES + max(key_size, 0) + max(value_size, 0)
        size = self._state[_encode.E_SIZE] + needed
        if size > MAX_BATCH_BYTES - HEADER_BYTES:
            raise LimitError(
                f"expected records that fit into a batch of {MAX_BATCH_BYTES} bytes, found a "
                f"record of {needed} bytes at offset {rows[at]}"
            )
        self._block += bytes(max(needed, len(self._block) // 2))


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
