"""Oddities of batches that a broker accepts; those in headers are found here.

Spec: ``RecordBatch``, ``CompressionType``, ``LogValidator.validateBatch``; KOD 9: 3, 4, 6, 31.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import Enum
from typing import Final

from kdump.audit.survey.compaction import Compaction, compaction_evidence
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.kernel import headers as _headers
from kdump.format.legacy import is_wrapper
from kdump.values import frozen

#: The highest codec number: lz4 up to magic 1, zstd since.
_LEGACY_CODEC: Final = 3
_CODEC: Final = 4
#: The unused bits in the attributes of a legacy message, and of a batch.
_LEGACY_UNUSED: Final = 0xF0
_UNUSED: Final = ~0x7F
_MAGIC: Final = 2
_ALWAYS: Final = (_headers.T_BACKWARDS, _headers.T_INVERTED, _headers.T_ODD)
_CLEANED: Final = (Compaction.SHOWN, Compaction.POSSIBLE)
_NEVER_CLEANED: Final = (*_ALWAYS, _headers.T_HOLES, _headers.T_MISCOUNTED)


class FaultKind(Enum):
    """The oddities of a batch that a broker accepts."""

    BACKWARDS = "backwards"  # it does not begin after the end of the previous batch
    INVERTED = "inverted"  # its last offset lies below its base offset
    MAGIC = "magic"  # its magic is one that no release writes
    CODEC = "codec"  # its codec is unknown
    BITS = "bits"  # unused bits of its attributes are set
    GAP = "gap"  # offsets are missing before it, without damage
    MISCOUNTED = "miscounted"  # its record count differs from its number of offsets
    UNREADABLE = "unreadable"  # its records do not follow their format
    CUT = "cut"  # the last message in a wrapper is cut off
    NULLS = "nulls"  # it has nulls of another size than -1
    DISORDER = "disorder"  # its records' offsets do not rise, or leave its range
    LATE = "late"  # a record's timestamp exceeds the largest in its header
    UNDECODABLE = "undecodable"  # a coordinator cannot decode a record of it
    LIMIT = "limit"  # its records have too many bytes to be read at once


#: The faults of batches whose offsets do not rise, from batch to batch or inside one.
OUT_OF_ORDER: Final = (FaultKind.BACKWARDS, FaultKind.INVERTED)


@frozen
class Fault:
    """An oddity of ``batch``.

    ``reference`` is the value to compare it with: the previous offset (BACKWARDS, GAP), the last
    record's offset (DISORDER), the largest timestamp of a record in ms (LATE), the offset of the
    record (UNDECODABLE), the count of records (NULLS). ``text`` is the error message of what read
    it (UNREADABLE, CUT, UNDECODABLE, LIMIT).
    """

    kind: FaultKind
    batch: RecordBatch
    reference: int = 0
    text: str = ""


class HeaderFaults:
    """The sums over the headers of a segment, and the faults that they show, table by table.

    ``cleaned`` says whether the cleaner may have compacted the log: gaps and batches with fewer
    records than offsets are then not faults. With None, for unknown, they are faults up to the
    first table that shows compaction.
    """

    def __init__(self, base_offset: int, *, cleaned: bool | None) -> None:
        self.state = array("q", bytes(8 * _headers.TALLY_FIELDS))
        self.state[_headers.T_PREVIOUS] = base_offset - 1
        self.state[_headers.T_MAX_TIMESTAMP] = -1
        self._never_cleaned, self._unknown = not cleaned, cleaned is None
        self._counted = _ALWAYS if cleaned else _NEVER_CLEANED

    @property
    def previous(self) -> int:
        """The last offset so far; one below the segment's base at first."""
        return self.state[_headers.T_PREVIOUS]

    def add_damage(self) -> None:
        """Note that damage precedes the next table."""
        self.state[_headers.T_JOINED] = 0

    def add(self, table: BatchTable) -> Iterator[Fault]:
        """Add the batches of a table and yield their faults."""
        state = self.state
        if self._add_usual(table):
            return
        before, previous, joined = self._count(), self.previous, state[_headers.T_JOINED]
        _headers.tally(table.rows, state)
        if self._count() == before:
            return
        for batch in table:
            if batch.base_offset <= previous:
                yield Fault(FaultKind.BACKWARDS, batch, previous)
            elif self._never_cleaned and joined and _skips_offsets(batch, previous + 1):
                yield Fault(FaultKind.GAP, batch, previous)
            yield from _header_faults(batch, never_cleaned=self._never_cleaned)
            previous, joined = batch.last_offset, 1
        gaps, cleaned = state[_headers.T_HOLES], state[_headers.T_MISCOUNTED] > 0
        if self._unknown and compaction_evidence(None, gaps=gaps, cleaned=cleaned) in _CLEANED:
            # Otherwise each table of a compacted log would be checked batch by batch.
            self._never_cleaned, self._counted = False, _ALWAYS

    def _add_usual(self, table: BatchTable) -> bool:
        """Add a table that continues the offsets without faults; return False for other tables."""
        state, usual = self.state, table.usual
        if usual is None or usual.first_offset != self.previous + 1:
            return False
        if not state[_headers.T_BATCHES]:
            state[_headers.T_FIRST_OFFSET] = usual.first_offset
        state[_headers.T_BATCHES] += len(table)
        state[_headers.T_RECORDS] += usual.records
        state[_headers.T_BYTES] += table.end - table.position
        state[_headers.T_PREVIOUS] = usual.last_offset
        timestamp = max(state[_headers.T_MAX_TIMESTAMP], usual.highest_timestamp)
        state[_headers.T_MAX_TIMESTAMP] = timestamp
        state[_headers.T_JOINED] = 1
        return True

    def _count(self) -> int:
        return sum(self.state[field] for field in self._counted)


def is_known_codec(batch: RecordBatch) -> bool:
    """Return whether the codec of the batch exists."""
    return batch.codec_id <= (_CODEC if batch.magic > 1 else _LEGACY_CODEC)


def _skips_offsets(batch: RecordBatch, offset: int) -> bool:
    # A wrapper's header does not have its first offset.
    return batch.base_offset != offset and not is_wrapper(batch)


def _is_miscounted(batch: RecordBatch) -> bool:
    if batch.magic < 2 or batch.is_control or batch.base_offset < 0:
        return False
    return batch.last_offset - batch.base_offset + 1 != batch.count


def _header_faults(batch: RecordBatch, *, never_cleaned: bool) -> Iterator[Fault]:
    """Yield the faults of a header that do not depend on the previous batch."""
    if batch.last_offset < batch.base_offset:
        yield Fault(FaultKind.INVERTED, batch)
    elif never_cleaned and _is_miscounted(batch):
        yield Fault(FaultKind.MISCOUNTED, batch)
    if not 0 <= batch.magic <= _MAGIC:
        # The meaning of its other fields is unknown.
        yield Fault(FaultKind.MAGIC, batch)
        return
    if not is_known_codec(batch):
        yield Fault(FaultKind.CODEC, batch)
    if batch.attributes & (_UNUSED if batch.magic > 1 else _LEGACY_UNUSED):
        yield Fault(FaultKind.BITS, batch)
