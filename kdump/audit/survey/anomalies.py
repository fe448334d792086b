"""Oddities in headers of batches that a broker accepts.

Spec: ``RecordBatch``, ``CompressionType``, ``LogValidator.validateBatch``; KOD 9: 3, 4, 6, 31.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kdump.audit.survey.compaction import Compaction, compaction_evidence
from kdump.format import _kernel
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.legacy import is_wrapper

#: The largest number of a codec: lz4 up to magic 1, zstd since.
_LEGACY_CODEC: Final = 3
_CODEC: Final = 4
#: The bits that mean nothing in the attributes of a legacy message, and of a batch.
_LEGACY_UNUSED: Final = 0xF0
_UNUSED: Final = ~0x7F
_MAGIC: Final = 2
_ALWAYS: Final = (_kernel.T_BACKWARDS, _kernel.T_INVERTED, _kernel.T_ODD)
_CLEANED: Final = (Compaction.SHOWN, Compaction.POSSIBLE)
_NEVER_CLEANED: Final = (*_ALWAYS, _kernel.T_HOLES, _kernel.T_MISCOUNTED)


class FaultKind(Enum):
    """What is odd about a batch that is sound to a broker."""

    BACKWARDS = "backwards"  # it does not begin behind the end of the batch before
    INVERTED = "inverted"  # its last offset lies below its base offset
    MAGIC = "magic"  # its magic is one that no release writes
    CODEC = "codec"  # its records are compressed by nothing that is known
    BITS = "bits"  # bits of its attributes are set that mean nothing
    GAP = "gap"  # offsets are missing before it, without damage
    MISCOUNTED = "miscounted"  # it has not as many records as offsets
    UNREADABLE = "unreadable"  # its records do not follow their format
    DISORDER = "disorder"  # its records' offsets do not rise, or leave its range
    LATE = "late"  # a record's timestamp exceeds its largest
    LIMIT = "limit"  # its records are too many bytes to be read at once


#: Batches of which the offsets do not rise from one to the next, or inside.
OUT_OF_ORDER: Final = (FaultKind.BACKWARDS, FaultKind.INVERTED)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something odd about ``batch``.

    ``reference`` is what to compare it with: the last offset before (BACKWARDS, GAP), the last
    record's offset (DISORDER), the largest timestamp of a record in ms (LATE). ``text`` is the
    reader's sentence where it gave up (UNREADABLE, LIMIT).
    """

    kind: FaultKind
    batch: RecordBatch
    reference: int = 0
    text: str = ""


class HeaderFaults:
    """The sums over the headers of a segment, and the faults that they show, as tables come by.

    ``cleaned`` says whether the cleaner may have been there: holes and batches with fewer records
    than offsets are no faults then. None for unknown: they are faults up to the first table that
    shows compaction.
    """

    def __init__(self, base_offset: int, *, cleaned: bool | None) -> None:
        self.state = array("q", bytes(8 * _kernel.TALLY_FIELDS))
        self.state[_kernel.T_PREVIOUS] = base_offset - 1
        self.state[_kernel.T_MAX_TIMESTAMP] = -1
        self._never_cleaned, self._unknown = not cleaned, cleaned is None
        self._counted = _ALWAYS if cleaned else _NEVER_CLEANED

    @property
    def previous(self) -> int:
        """The last offset so far; one below the segment's base at first."""
        return self.state[_kernel.T_PREVIOUS]

    def add_damage(self) -> None:
        """Take in that something else stands before the next table."""
        self.state[_kernel.T_JOINED] = 0

    def add(self, table: BatchTable) -> Iterator[Fault]:
        """Add the batches of a table; yields their faults."""
        state = self.state
        if self._add_usual(table):
            return
        before, previous, joined = self._count(), self.previous, state[_kernel.T_JOINED]
        _kernel.tally(table.rows, state)
        if self._count() == before:
            return
        for batch in table:
            if batch.base_offset <= previous:
                yield Fault(FaultKind.BACKWARDS, batch, previous)
            elif self._never_cleaned and joined and _skips_offsets(batch, previous + 1):
                yield Fault(FaultKind.GAP, batch, previous)
            yield from _header_faults(batch, never_cleaned=self._never_cleaned)
            previous, joined = batch.last_offset, 1
        gaps, cleaned = state[_kernel.T_HOLES], state[_kernel.T_MISCOUNTED] > 0
        if self._unknown and compaction_evidence(None, gaps=gaps, cleaned=cleaned) in _CLEANED:
            # Else each table of a compacted log would be looked at batch by batch.
            self._never_cleaned, self._counted = False, _ALWAYS

    def _add_usual(self, table: BatchTable) -> bool:
        """Add a table that goes on with the offsets so far, and has no faults; False for others."""
        state, usual = self.state, table.usual
        if usual is None or usual.first_offset != self.previous + 1:
            return False
        if not state[_kernel.T_BATCHES]:
            state[_kernel.T_FIRST_OFFSET] = usual.first_offset
        state[_kernel.T_BATCHES] += len(table)
        state[_kernel.T_RECORDS] += usual.records
        state[_kernel.T_BYTES] += table.end - table.position
        state[_kernel.T_PREVIOUS] = usual.last_offset
        timestamp = max(state[_kernel.T_MAX_TIMESTAMP], usual.highest_timestamp)
        state[_kernel.T_MAX_TIMESTAMP] = timestamp
        state[_kernel.T_JOINED] = 1
        return True

    def _count(self) -> int:
        return sum(self.state[field] for field in self._counted)


def is_known_codec(batch: RecordBatch) -> bool:
    """Return whether there is such a codec as the batch names."""
    return batch.codec_id <= (_CODEC if batch.magic > 1 else _LEGACY_CODEC)


def _skips_offsets(batch: RecordBatch, offset: int) -> bool:
    # A wrapper's header does not say where it begins.
    return batch.base_offset != offset and not is_wrapper(batch)


def _is_miscounted(batch: RecordBatch) -> bool:
    if batch.magic < 2 or batch.is_control or batch.base_offset < 0:
        return False
    return batch.last_offset - batch.base_offset + 1 != batch.count


def _header_faults(batch: RecordBatch, *, never_cleaned: bool) -> Iterator[Fault]:
    """What is odd about a header whatever stands before it."""
    if batch.last_offset < batch.base_offset:
        yield Fault(FaultKind.INVERTED, batch)
    elif never_cleaned and _is_miscounted(batch):
        yield Fault(FaultKind.MISCOUNTED, batch)
    if not 0 <= batch.magic <= _MAGIC:
        # What its other fields mean nobody knows.
        yield Fault(FaultKind.MAGIC, batch)
        return
    if not is_known_codec(batch):
        yield Fault(FaultKind.CODEC, batch)
    if batch.attributes & (_UNUSED if batch.magic > 1 else _LEGACY_UNUSED):
        yield Fault(FaultKind.BITS, batch)
