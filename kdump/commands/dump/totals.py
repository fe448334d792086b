"""Sums over batches: counts, sizes, compression, producers, transactions.

Headers are added up many at a time. Only compressed batches, for their true size, and markers are
read.

Spec: ``DefaultRecordBatch``, ``EndTransactionMarker``; KOD 7.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import starmap
from typing import Final

from kdump.audit.survey.statistics import BatchSums, CodecTotals
from kdump.errors import DecodeError, LimitError
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchTable,
    Record,
    RecordBatch,
    record_block,
)
from kdump.format.control import ControlType, decode_control
from kdump.format.kernel import select as _select
from kdump.format.records import RecordReader
from kdump.storage.source import Source
from kdump.storage.walk import Damage, batch_bytes
from kdump.values import frozen

_NO_PRODUCER: Final = -1


@frozen
class PendingTransaction:
    """A transaction without a marker, and the base offset of its first batch."""

    producer_id: int
    first_offset: int


@frozen
class Totals:
    """The sums of some files of batches. Fields without a value are None; times are in ms.

    ``bytes`` is the size of sound batches. ``first_timestamp`` is the lowest of a batch's first
    record. At least half of the batches are smaller than ``half_below_bytes``, a power of two.
    ``committed`` and ``aborted`` count markers. ``unreadable`` and ``over_limit`` count batches
    that had to be read and could not.
    """

    files: int
    bytes: int
    batches: int
    control_batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    last_timestamp: int | None
    smallest_batch_bytes: int | None
    half_below_bytes: int | None
    largest_batch_bytes: int | None
    codecs: tuple[CodecTotals, ...]
    producers: int
    committed: int
    aborted: int
    open_transactions: tuple[PendingTransaction, ...]
    damages: int
    damaged_bytes: int
    unreadable: int
    over_limit: int


class DumpTotals:
    """Adds up files, one after the other."""

    def __init__(self, reader: RecordReader) -> None:
        self.files = 0
        self._reader = reader
        self._sums = BatchSums()
        self._producers: set[int] = set()
        self._open: dict[int, int] = {}
        self._markers: Counter[ControlType | None] = Counter()
        self._damages = self._damaged_bytes = self._unreadable = self._over_limit = 0

    def damage(self, damage: Damage) -> None:
        """Add a ``Damage``."""
        self._damages += 1
        self._damaged_bytes += damage.size

    def add(self, table: BatchTable, source: Source) -> None:
        """Add the batches of ``table``, the newest piece of a walk over ``source``."""
        compressed, transactional = self._sums.compressed, self._sums.transactional
        self._sums.add(table)
        self._producers.update(table.column("producer_id"))
        if self._sums.compressed > compressed:
            for row, attributes in enumerate(table.column("attributes")):
                if attributes & CODEC_MASK:
                    self._read(table[row], source, self._unpack)
        if self._sums.transactional > transactional:
            self._transactions(table, source)

    def totals(self) -> Totals:
        """Return the sums so far."""
        sums, state = self._sums, self._sums.state
        found = sums.batches > 0
        last_offset = state[_select.S_LAST_OFFSET]
        first_timestamp, last_timestamp = sums.timestamps or (None, None)
        smallest, half_below, largest = sums.batch_bytes or (None, None, None)
        return Totals(
            files=self.files,
            bytes=state[_select.S_BYTES],
            batches=sums.batches,
            control_batches=state[_select.S_CONTROL],
            records=sums.records,
            first_offset=min(state[_select.S_FIRST_OFFSET], last_offset) if found else None,
            last_offset=last_offset if found else None,
            first_timestamp=first_timestamp,
            last_timestamp=last_timestamp,
            smallest_batch_bytes=smallest,
            half_below_bytes=half_below,
            largest_batch_bytes=largest,
            codecs=tuple(sums.codecs()),
            producers=len(self._producers - {_NO_PRODUCER}),
            committed=self._markers[ControlType.COMMIT],
            aborted=self._markers[ControlType.ABORT],
            open_transactions=tuple(starmap(PendingTransaction, self._open.items())),
            damages=self._damages,
            damaged_bytes=self._damaged_bytes,
            unreadable=self._unreadable,
            over_limit=self._over_limit,
        )

    def _read(
        self, batch: RecordBatch, source: Source, take: Callable[[RecordBatch, memoryview], None]
    ) -> None:
        """Pass ``batch`` and its bytes to ``take``; count the batch if it cannot be decoded."""
        try:
            take(batch, batch_bytes(source, batch))
        except DecodeError:
            self._unreadable += 1
        except LimitError:
            self._over_limit += 1

    def _unpack(self, batch: RecordBatch, data: memoryview) -> None:
        """Add the uncompressed size of a batch, and of a wrapper also the records in it."""
        codec = batch.codec_id
        if batch.magic > 1:
            self._sums.blocks.add(codec, batch.size - HEADER_BYTES, len(record_block(batch, data)))
            return
        for number, table in enumerate(self._reader.tables(batch, data)):
            if number == 0:
                self._sums.blocks.add(codec, batch.size, len(table.block))
                self._add_first(table[0])
            self._sums.wrapped[codec] += len(table)

    def _add_first(self, record: Record) -> None:
        """Add the offset and timestamp of the first message in a wrapper."""
        state = self._sums.state
        state[_select.S_FIRST_OFFSET] = min(state[_select.S_FIRST_OFFSET], record.offset)
        if record.timestamp >= 0:
            first_timestamp = min(state[_select.S_FIRST_TIMESTAMP], record.timestamp)
            state[_select.S_FIRST_TIMESTAMP] = first_timestamp

    def _transactions(self, table: BatchTable, source: Source) -> None:
        """Follow the transactions of producers, in the order of the file."""
        rows = zip(
            table.column("attributes"),
            table.column("producer_id"),
            table.column("base_offset"),
            strict=True,
        )
        for row, (attributes, producer_id, offset) in enumerate(rows):
            if attributes & TRANSACTIONAL and producer_id > _NO_PRODUCER:
                if attributes & CONTROL:
                    self._read(table[row], source, self._end_transaction)
                else:
                    self._open.setdefault(producer_id, offset)

    def _end_transaction(self, batch: RecordBatch, data: memoryview) -> None:
        for table in self._reader.tables(batch, data):
            for record in table:
                self._markers[decode_control(record.key, record.value).type] += 1
                self._open.pop(batch.producer_id, None)
