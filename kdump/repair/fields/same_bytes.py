"""SameBytes: the batches that replicas have in the place of a batch with wrong fields.

The checksum and the size of both are the same: so are all bytes but those of the fields that no
checksum covers. The batch before them is the same in both logs, with its offsets and its epoch.

Spec: ``DefaultRecordBatch.computeChecksum``; ``ReplicaFetcherThread``, which appends the bytes of
the leader.
"""

from __future__ import annotations

from collections.abc import Sequence

from kdump.errors import SourceError
from kdump.format.batch import RecordBatch
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.reading import find, pieces_from, place_of_segment
from kdump.storage.logdir import Segment
from kdump.storage.walk import Damage


class SameBytes:
    """Looks batches up in ``copies``. ``notes`` name those that could not be read."""

    def __init__(self, copies: Sequence[PartitionCopy]) -> None:
        self._copies = copies
        self._unread: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each copy that could not be read."""
        return tuple(self._unread)

    def __call__(
        self, segment: Segment, before: RecordBatch | None, batch: RecordBatch
    ) -> RecordBatch | None:
        """Return the batch of the first copy that has these bytes after ``before``; see Witness."""
        for copy in self._copies:
            try:
                found = _after(copy, segment, before)
            except SourceError as error:
                self._unread[f"{copy.path} could not be read: {error}"] = None
                continue
            if found is not None and (found.crc, found.size) == (batch.crc, batch.size):
                return found
        return None


def _after(copy: PartitionCopy, segment: Segment, before: RecordBatch | None) -> RecordBatch | None:
    """Return the batch of a copy after ``before``, or at the start of the same segment."""
    if before is None:
        place = place_of_segment(copy, segment.base_offset)
    else:
        place = find(copy, before).after
    if place is None:
        return None
    for _, piece in pieces_from(copy, place):
        return None if isinstance(piece, Damage) else piece[0]
    return None
