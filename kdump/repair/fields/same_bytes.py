"""SameBytes: the batch that all replicas have between the same neighbours.

The checksum and the size of both are the same: so are all bytes but those of the fields that no
checksum covers. The batches before and after them are the same in both logs, with their offsets and
leader epochs.

Spec: ``DefaultRecordBatch.computeChecksum``; ``ReplicaFetcherThread``, which appends the bytes of
the leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kdump.errors import SourceError
from kdump.format.batch import RecordBatch
from kdump.repair.fields.wrong_fields import Neighbours
from kdump.repair.healing.copies import PartitionCopy
from kdump.repair.healing.reading import Place, find, is_same, pieces_from, place_of_segment
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

    def __call__(self, beside: Neighbours) -> RecordBatch | None:
        """Return the batch that all copies have there that have one; see Witness.

        None without a batch after it: nothing shows then that it is the same place.
        """
        found: list[RecordBatch] = []
        for copy in self._copies:
            try:
                batch = _between(copy, beside)
            except SourceError as error:
                self._unread[f"{copy.path} could not be read: {error}"] = None
                return None
            if batch is not None:
                found.append(batch)
        fields = {(batch.base_offset, batch.leader_epoch) for batch in found}
        return found[0] if len(fields) == 1 else None


def _between(copy: PartitionCopy, beside: Neighbours) -> RecordBatch | None:
    """Return the batch of a copy between the neighbours of a batch, if it has the same bytes."""
    if beside.after is None:
        return None
    if beside.first:
        place = place_of_segment(copy, beside.segment.base_offset)
    else:
        place = None if beside.before is None else find(copy, beside.before).after
    if place is None:
        return None
    pair = list(islice(_batches(copy, place), 2))
    if len(pair) < 2 or not is_same(pair[1], beside.after):
        return None
    same = (pair[0].crc, pair[0].size) == (beside.batch.crc, beside.batch.size)
    return pair[0] if same else None


def _batches(copy: PartitionCopy, place: Place) -> Iterator[RecordBatch]:
    """Yield the batches of a copy from ``place`` on, up to its first corrupt one."""
    for _, piece in pieces_from(copy, place):
        if isinstance(piece, Damage):
            return
        yield from piece
