"""Ranges of a log whose records cannot be read, and their reports to the caller.

A range is reported when the batch after it is known, before any record after it is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kdump.audit.survey.anomalies import FaultKind, HeaderFaults
from kdump.audit.survey.compaction import Compaction, compaction_evidence
from kdump.errors import CutError, DecodeError, LimitError
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.kernel import headers as _headers
from kdump.format.legacy import is_wrapper
from kdump.storage.selection import HIGHEST
from kdump.storage.walk import Damage
from kdump.tables.logs import Log
from kdump.values import frozen

#: Reasons beside those of ``walk``: offsets without bytes, offsets of a file that was removed,
#: those of a partition whose directory is gone, or of which a future log alone is left, offsets in
#: remote storage only, records that do not follow their format, a message that is cut off at the
#: end of its wrapper, a batch of more bytes than kdump decompresses, and a transaction whose marker
#: may be lost. Where segments are gone, the finding of that name is the reason.
MISSING: Final = "missing-offsets"
VANISHED: Final = "vanished"
NO_PARTITION: Final = "partition-missing"
FUTURE: Final = "in-future-log"
REMOTE: Final = "in-remote-storage"
RECORDS: Final = "records-unreadable"
CUT_OFF: Final = "records-cut-off"
LIMIT: Final = "limit"
MARKER: Final = "transaction-end-lost"


@frozen
class CorruptRange:
    """Offsets of a log that cannot be read.

    ``position`` and ``size`` are None for offsets that no bytes of the file have, ``last_offset``
    if nothing says where the range ends. ``path`` is that of the log, or of the partition; None if
    no directory of the partition is left.
    """

    path: str | None
    topic: str | None
    partition: int | None
    position: int | None
    size: int | None
    first_offset: int
    last_offset: int | None
    reason: str
    detail: str | None = None

    @property
    def fields(self) -> dict[str, str | int | None]:
        """The range as an object in JSON."""
        return {
            "path": self.path,
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "size": self.size,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "reason": self.reason,
            "detail": self.detail,
        }

    def __str__(self) -> str:
        last = self.last_offset
        offsets = f"offset {self.first_offset} and later"
        if last is not None:
            offsets = f"offsets {self.first_offset} to {last}"
        where = "" if self.position is None else f" at position {self.position}, {self.size} bytes"
        name = "" if self.topic is None else f"{self.topic}-{self.partition}: "
        detail = "" if self.detail is None else f" ({self.detail})"
        path = "" if self.path is None else f"{self.path}: "
        return f"{name}{offsets} cannot be read: {path}{self.reason}{where}{detail}"

    def error(self, way_out: str) -> DecodeError | LimitError:
        """Return the error of a read that ends here; ``way_out`` says how to go on."""
        kind = LimitError if self.reason == LIMIT else DecodeError
        return kind(f"{self}; {way_out}")


def rest_of(log: Log, first_offset: int) -> CorruptRange | None:
    """Return the selected offsets of a removed log from ``first_offset`` on, None without any."""
    selected, origin = log.selection, log.origin
    first = max(first_offset, selected.first_offset)
    following = HIGHEST + 1 if log.following is None else log.following
    last = min(following - 1, selected.last_offset)
    if first > last:
        return None
    end = None if last == HIGHEST else last
    return CorruptRange(
        origin.source_file, origin.topic, origin.partition, None, None, first, end, VANISHED
    )


OnCorruption = Callable[[CorruptRange], None]
"""Is called with each range; it raises if the read ends there."""


class Continuity:
    """Reports the ranges that a log lacks, from the pieces of a walk in their order.

    Offsets that no bytes have are reported only where the settings exclude compaction. A torn tail
    of a log that a broker may be appending to is its end. So are zeros of preallocation in the last
    segment. But a log does not end below the end that its checkpoints show.
    """

    def __init__(self, log: Log, report: OnCorruption, *, from_start: bool) -> None:
        self._log = log
        self._report = report
        self._headers = HeaderFaults(log.base_offset, cleaned=log.compacted is not False)
        self._last: int | None = log.base_offset - 1 if from_start else None
        self._damage: list[Damage] = []

    def add(self, piece: BatchTable | Damage) -> int:
        """Add the next piece; return the last offset before it."""
        if isinstance(piece, Damage):
            self._damage.append(piece)
            self._headers.add_damage()
            return self._before
        first, before = piece[0], self._before
        if self._damage:
            self._report_damage(first.base_offset - 1)
        elif self._last == self._log.base_offset - 1 and not is_wrapper(first):
            self._report_missing(self._log.base_offset, first.base_offset - 1)
        for fault in self._headers.add(piece):
            if fault.kind is FaultKind.GAP:
                self._report_missing(fault.reference + 1, fault.batch.base_offset - 1)
        self._last = piece.column("last_offset")[-1]
        return before

    def end(self) -> None:
        """Note that the file has no more pieces."""
        log, next_offset = self._log, self._before + 1
        if log.following is None:
            self._damage = [damage for damage in self._damage if not self._is_end(damage)]
            if self._damage:
                self._report_damage(None)
            elif next_offset < log.known_end:
                detail = f"by its checkpoints the log ends at {log.known_end} or later"
                self._report_range(None, next_offset, log.known_end - 1, MISSING, detail)
            return
        if next_offset >= log.following and all(damage.empty for damage in self._damage):
            return
        if self._damage:
            self._report_damage(log.following - 1)
        else:
            self._report_missing(next_offset, log.following - 1)

    @property
    def unsure(self) -> bool:
        """Whether offsets may be missing without a report, though the settings exclude compaction.

        Batches show compaction all the same, or are compressed and of message format v0 or v1: the
        header of such a batch does not tell its first offset.
        """
        state = self._headers.state
        doubtful = state[_headers.T_MISCOUNTED] or state[_headers.T_WRAPPERS]
        return self._log.compacted is False and bool(doubtful)

    def interrupt(self) -> None:
        """Note that the rest of the file cannot be read: nothing says what it holds."""
        if self._damage:
            self._report_damage(None)

    def unread(self, batch: RecordBatch, error: DecodeError | LimitError) -> None:
        """Report a batch whose records cannot be read, or not all of them."""
        reason = LIMIT if isinstance(error, LimitError) else RECORDS
        if isinstance(error, CutError):
            reason = CUT_OFF
        first = min(batch.base_offset, batch.last_offset)
        self._report_range(batch, first, batch.last_offset, reason, str(error))

    @property
    def _before(self) -> int:
        return self._log.base_offset - 1 if self._last is None else self._last

    def _is_end(self, damage: Damage) -> bool:
        """Return whether damage at the end of the last segment is nothing but its end."""
        return damage.may_be_written(live=not self._log.stopped)

    def _report_damage(self, last_offset: int | None) -> None:
        first_offset = self._before + 1
        if last_offset is not None:
            last_offset = max(first_offset, last_offset)
        for damage in self._damage:
            self._report_range(damage, first_offset, last_offset, damage.reason.value)
        self._damage = []

    def _report_missing(self, first_offset: int, last_offset: int) -> None:
        if first_offset <= last_offset and self._never_compacted():
            self._report_range(None, first_offset, last_offset, MISSING)

    def _never_compacted(self) -> bool:
        state = self._headers.state
        gaps, cleaned = state[_headers.T_HOLES], state[_headers.T_MISCOUNTED] > 0
        found = compaction_evidence(self._log.compacted, gaps=gaps, cleaned=cleaned)
        return found is Compaction.EXCLUDED

    def _report_range(
        self,
        where: Damage | RecordBatch | None,
        first_offset: int,
        last_offset: int | None,
        reason: str,
        detail: str | None = None,
    ) -> None:
        """Report a range, if it may have selected offsets."""
        selected, origin = self._log.selection, self._log.origin
        if first_offset > selected.last_offset:
            return
        if last_offset is not None and last_offset < selected.first_offset:
            return
        self._report(
            CorruptRange(
                origin.source_file,
                origin.topic,
                origin.partition,
                None if where is None else where.position,
                None if where is None else where.size,
                first_offset,
                last_offset,
                reason,
                detail,
            )
        )
