"""wrong_fields(): base offsets, sizes, magics and leader epochs of which the log leaves one value.

The checksum of a batch covers neither of these four fields, but the number of its offsets, its
producer and its records. So a batch whose checksum matches is the batch that was written, and only
its place is in doubt:

- The *size* and the *magic* are right if the checksum matches with them (``mended_header``).
- A *base offset* is confirmed if it follows the batch before it, or if the batch after it follows.
  Where batches that are not confirmed fill the offsets between two confirmed ones to the last, each
  of them has one place, in a compacted log too.
- A *leader epoch* never falls. Between two batches of one epoch there is no other one; between two
  epochs the line of ``leader-epoch-checkpoint`` decides.

Spec: ``DefaultRecordBatch``, ``UnifiedLog.append``, ``LeaderEpochFileCache`` (KIP-101); KOD 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final

from kdump.audit.survey.survey import Survey
from kdump.format.batch import MAX_OFFSET_DELTA, BatchTable, RecordBatch
from kdump.format.checkpoint import EpochEntry
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.mended_header import MAGIC_POSITION, SIZE_OVERHEAD, SIZE_POSITION
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

_EPOCH_POSITION: Final = 12
_MAGIC: Final = 2
#: The most neighbouring batches whose base offsets are in doubt. More of them are no flipped bits.
_MOST: Final = 64


@frozen
class WrongField:
    """A field of the batch at ``position`` of ``log``: its bytes are at ``at``.

    ``found`` is its value, ``right`` the one that the log leaves it, ``content`` its bytes.
    """

    segment: Segment
    position: int
    at: int
    name: str
    found: int
    right: int
    content: bytes


@frozen
class _Piece:
    """A batch, or neighbouring batches that follow each other, of segment ``number``.

    ``batch`` is the batch itself, None for more than one: their offsets confirm each other.
    ``final`` is the last of them. ``epochs`` are the leader epochs of the first and the last.
    """

    number: int
    first: int
    last: int
    epochs: tuple[int, int]
    final: RecordBatch
    batch: RecordBatch | None = None

    @property
    def span(self) -> int:
        """The number of its offsets."""
        return self.last - self.first + 1


_Element = _Piece | None
"""None stands for what is no batch, or does not have its offsets in its header."""


Witness = Callable[[Segment, RecordBatch | None, RecordBatch], RecordBatch | None]
"""Returns the batch that a replica has in the place of one, with the same bytes but for the fields.

Its arguments are the segment, the batch before it there (None for the first one), and the batch.
"""


def wrong_fields(
    surveys: Sequence[Survey],
    *,
    epochs: Sequence[EpochEntry],
    ends: Collection[int],
    witness: Witness | None = None,
) -> Iterator[WrongField]:
    """Yield the wrong fields of a log of which it leaves one value, in any order.

    ``surveys`` are of all its segments. ``epochs`` are the lines of leader-epoch-checkpoint,
    ``ends`` offsets at which other files say that the log ended. ``witness`` is asked where the log
    leaves more than one value. Reads the logs. Raises SourceError.
    """
    for survey in surveys:
        for gap in survey.gaps:
            if gap.mended is not None:
                yield from _header_fields(survey.segment, gap.damage, gap.mended)
    segments = [survey.segment for survey in surveys]
    offsets = _Offsets(segments, ends)
    leaders = _Epochs(segments, epochs)
    suspects: list[_Suspect] = []
    found: list[WrongField] = []
    for before, element, after in _with_neighbours(_elements(surveys)):
        if element is not None and element.batch is not None:
            yield from _magic(segments[element.number], element.batch)
            suspect = _Suspect(element, before, after)
            if len(suspects) < _MOST and suspect.breaks_order(segments):
                suspects.append(suspect)
        found += offsets.add(before, element, after)
        found += leaders.add(before, element, after)
    found += offsets.finish()
    yield from found
    if witness is not None:
        known = {(field.segment.base_offset, field.position) for field in found}
        for suspect in suspects:
            yield from suspect.by(witness, segments, known)


def _header_fields(segment: Segment, damage: Damage, batch: RecordBatch) -> Iterator[WrongField]:
    """Yield the size and the magic of a corrupt batch that differ from the right ones."""
    claimed = damage.claimed_bytes
    if claimed != batch.size:
        content = (batch.size - SIZE_OVERHEAD).to_bytes(4, "big")
        found = 0 if claimed is None else claimed
        yield _field(segment, batch, SIZE_POSITION, "size", found, batch.size, content)
    with open_source(segment.log, mapped=False, sealed=True) as source:
        magic = source.window(batch.position + MAGIC_POSITION)[0]
    if magic != batch.magic:
        content = bytes([batch.magic])
        yield _field(segment, batch, MAGIC_POSITION, "magic", magic, batch.magic, content)


def _magic(segment: Segment, batch: RecordBatch) -> Iterator[WrongField]:
    """Yield a magic above 2: the checksum of the batch matches in message format v2."""
    if batch.magic > _MAGIC:
        content = bytes([_MAGIC])
        yield _field(segment, batch, MAGIC_POSITION, "magic", batch.magic, _MAGIC, content)


def _field(
    segment: Segment,
    batch: RecordBatch,
    inside: int,
    name: str,
    found: int,
    right: int,
    content: bytes,
) -> WrongField:
    position = batch.position
    return WrongField(segment, position, position + inside, name, found, right, content)


# --- the batches of all segments, in order


def _elements(surveys: Sequence[Survey]) -> Iterator[_Element]:
    for number, survey in enumerate(surveys):
        mended = {gap.damage.position: gap.mended for gap in survey.gaps}
        doubtful = False  # what a search finds after corrupt bytes may lie in a record's value
        with open_source(survey.segment.log, mapped=False, sealed=True) as source:
            for piece in walk(source, survey.segment.base_offset):
                if isinstance(piece, Damage):
                    batch = mended.get(piece.position)
                    doubtful = doubtful or batch is None
                    yield None if batch is None else _single(number, batch)
                elif piece.hunted and doubtful:
                    yield None
                else:
                    yield from _of_table(number, piece)


def _of_table(number: int, table: BatchTable) -> Iterator[_Element]:
    usual = table.usual
    if usual is not None and len(table) > 1:
        epochs = usual.leader_epoch, usual.leader_epoch
        final = table[len(table) - 1]
        yield _Piece(number, usual.first_offset, usual.last_offset, epochs, final)
    else:
        yield from (_single(number, batch) for batch in table)


def _single(number: int, batch: RecordBatch) -> _Element:
    if batch.magic < _MAGIC or not 0 <= batch.last_offset - batch.base_offset <= MAX_OFFSET_DELTA:
        return None
    epochs = batch.leader_epoch, batch.leader_epoch
    return _Piece(number, batch.base_offset, batch.last_offset, epochs, batch, batch)


def _with_neighbours(
    elements: Iterable[_Element],
) -> Iterator[tuple[_Element, _Element, _Element]]:
    """Yield each element with the one before it and the one after it."""
    pairs = pairwise(chain([None], elements, [None]))
    before, element = next(pairs)
    for _, after in pairs:
        yield before, element, after
        before, element = element, after


# --- what a replica shows


@frozen
class _Suspect:
    """A batch that does not fit between its neighbours, of which one may be the wrong one."""

    element: _Piece
    before: _Element
    after: _Element

    def breaks_order(self, segments: Sequence[Segment]) -> bool:
        """Return whether its offsets or its leader epoch do not fit there."""
        element, base = self.element, segments[self.element.number].base_offset
        following = segments[element.number + 1 :]
        below = base - 1 if self.before is None else max(self.before.last, base - 1)
        above = base + MAX_OFFSET_DELTA + 1
        if following:
            above = min(above, following[0].base_offset)
        return not self._fits(element.first, element.last, element.epochs[0], below, above)

    def _fits(self, first: int, last: int, epoch: int, below: int, above: int) -> bool:
        low = -1 if self.before is None else self.before.epochs[1]
        high = epoch if self.after is None else self.after.epochs[0]
        if self.after is not None:
            above = min(above, self.after.first)
        return below < first and last < above and low <= epoch <= high

    def by(
        self, witness: Witness, segments: Sequence[Segment], known: Collection[tuple[int, int]]
    ) -> Iterator[WrongField]:
        """Yield the fields that a replica has with other values, which fit; none of ``known``."""
        segment, batch = segments[self.element.number], self.element.final
        if (segment.base_offset, batch.position) in known:
            return
        before = self.before
        starts = before is None or before.number != self.element.number
        right = witness(segment, None if starts or before is None else before.final, batch)
        below = segment.base_offset - 1 if before is None else before.last
        above = segment.base_offset + MAX_OFFSET_DELTA + 1
        if right is None or not self._fits(
            right.base_offset, right.last_offset, right.leader_epoch, below, above
        ):
            return
        if right.base_offset != batch.base_offset:
            content = right.base_offset.to_bytes(8, "big", signed=True)
            yield _field(
                segment, batch, 0, "base offset", batch.base_offset, right.base_offset, content
            )
        if right.leader_epoch != batch.leader_epoch:
            content = right.leader_epoch.to_bytes(4, "big", signed=True)
            found, epoch = batch.leader_epoch, right.leader_epoch
            yield _field(segment, batch, _EPOCH_POSITION, "leader epoch", found, epoch, content)


# --- base offsets


class _Offsets:
    """Finds the base offsets of batches that are not confirmed, in the order of the log.

    ``_left`` is the offset after the last confirmed batch, None where it is unknown.
    """

    def __init__(self, segments: Sequence[Segment], ends: Collection[int]) -> None:
        self._segments, self._ends = segments, ends
        self._left: int | None = None
        self._doubtful: list[_Piece] = []
        self._number = -1

    def add(self, before: _Element, element: _Element, after: _Element) -> Iterator[WrongField]:
        """Yield the wrong base offsets before ``element``, if that shows them."""
        if element is None:
            self._left, self._doubtful = None, []
            return
        starts = element.number != self._number
        if starts:
            base = self._segments[element.number].base_offset
            yield from self._resolve(base)
            self._number, self._left = element.number, base
        if self._is_confirmed(before, element, after, starts=starts):
            yield from self._resolve(element.first)
            self._left = element.last + 1
        elif len(self._doubtful) < _MOST:
            self._doubtful.append(element)
        else:
            self._left = None

    def finish(self) -> Iterator[WrongField]:
        """Yield those at the end of the log."""
        end = self._end_of(self._number)
        if end is not None:
            yield from self._resolve(end)

    def _is_confirmed(
        self, before: _Element, element: _Piece, after: _Element, *, starts: bool
    ) -> bool:
        if element.batch is None:
            return True
        if starts:
            follows = element.first == self._segments[element.number].base_offset
        else:
            follows = before is not None and element.first == before.last + 1
        if after is not None and after.number == element.number:
            return follows or after.first == element.last + 1
        return follows or self._end_of(element.number) == element.last + 1

    def _end_of(self, number: int) -> int | None:
        """Return the offset at which a segment ends, as far as names and other files show it."""
        following = self._segments[number + 1 :]
        return following[0].base_offset if following else max(self._ends, default=None)

    def _resolve(self, right: int) -> Iterator[WrongField]:
        """Yield the base offsets of doubtful batches that fill the offsets up to ``right``."""
        doubtful, offset, self._doubtful = self._doubtful, self._left, []
        if offset is None or offset + sum(piece.span for piece in doubtful) != right:
            return
        for piece in doubtful:
            assert piece.batch is not None
            if piece.first != offset:
                segment = self._segments[piece.number]
                content = offset.to_bytes(8, "big", signed=True)
                yield _field(segment, piece.batch, 0, "base offset", piece.first, offset, content)
            offset += piece.span


# --- leader epochs


class _Epochs:
    """Finds the leader epochs of single batches that do not fit between their neighbours."""

    def __init__(self, segments: Sequence[Segment], entries: Sequence[EpochEntry]) -> None:
        self._segments, self._entries = segments, entries

    def add(self, before: _Element, element: _Element, after: _Element) -> Iterator[WrongField]:
        """Yield the wrong leader epoch of ``element``, if its neighbours show it."""
        if element is None or element.batch is None or before is None or after is None:
            return
        found, low, high = element.epochs[0], before.epochs[1], after.epochs[0]
        follows = before.last + 1 == element.first
        if found == -1 or not 0 <= low <= high or low <= found <= high:
            return  # -1 is what the cleaner leaves; convert sets it
        right: int | None = low
        if low != high:
            right = self._by_checkpoint(element.first, low, high) if follows else None
        if right is not None:
            content = right.to_bytes(4, "big", signed=True)
            segment = self._segments[element.number]
            yield _field(
                segment, element.batch, _EPOCH_POSITION, "leader epoch", found, right, content
            )

    def _by_checkpoint(self, offset: int, low: int, high: int) -> int | None:
        """Return the epoch that leader-epoch-checkpoint has for an offset, if it fits there."""
        known = [entry for entry in self._entries if entry.start_offset <= offset]
        epoch = known[-1].epoch if known else -1
        return epoch if low <= epoch <= high else None
