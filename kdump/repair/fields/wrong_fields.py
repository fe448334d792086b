"""wrong_fields(): base offsets, sizes, magics and leader epochs of which the log leaves one value.

The checksum of a batch covers neither of these four fields, but the number of its offsets, its
producer and its records. A wrong value is worse than none, so that all of this has to hold:

- The *size* and the *magic* are right if the checksum matches with them (``mended_header``). A
  magic of no release is 2 only between batches of message format v2.
- A *base offset* has one value where the batch fills the offsets between its neighbours to the
  last, and each of them is confirmed by a batch beyond it, or by the name of a segment. The leader
  epoch has to fit there, and the sequence number, and no other batch has the offset in the file.
- A *leader epoch* has one value where ``leader-epoch-checkpoint`` gives it for the offset, it fits
  between the neighbours, and the one in the file is of no line.
- Both differ from what is in the file in one byte, as a flipped bit makes it. A batch that was
  written to the wrong place, or is left from an older log, differs in more.

Spec: ``DefaultRecordBatch``, ``UnifiedLog.append``, ``LeaderEpochFileCache`` (KIP-101); KOD 3.2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from kdump.errors import Refused
from kdump.format.batch import LOG_OVERHEAD, MAX_OFFSET_DELTA, BatchTable, RecordBatch, sequence_at
from kdump.format.checkpoint import EpochEntry
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.mended_header import MAGIC_POSITION, SIZE_POSITION, mended_header
from kdump.storage.walk import Damage, walk
from kdump.values import frozen

_EPOCH_POSITION: Final = 12
_OFFSET_BYTES: Final = 8
_EPOCH_BYTES: Final = 4
_MAGIC: Final = 2
#: The most batches that may be wrong. More of them are no flipped bits.
_MOST: Final = 1_000


class NoField(Refused):
    """There is no field of which the log leaves one value."""


@frozen
class WrongField:
    """A field of the batch at ``position`` of the log of ``segment``: its bytes are at ``at``.

    ``found`` is its value, ``right`` the one that the log leaves it, ``content`` its bytes. ``crc``
    is the checksum of the batch.
    """

    segment: Segment
    position: int
    crc: int
    at: int
    name: str
    found: int
    right: int
    content: bytes


@frozen
class Neighbours:
    """A batch of ``segment`` and those beside it, None where there is none without a doubt.

    ``first``: the batch begins its segment. Then ``before`` is of the segment before.
    """

    segment: Segment
    batch: RecordBatch
    before: RecordBatch | None
    after: RecordBatch | None
    first: bool


Witness = Callable[[Neighbours], RecordBatch | None]
"""Returns the batch that all replicas have between the same neighbours, with the same bytes."""


@frozen
class _Piece:
    """A batch, or neighbouring batches that follow each other, of segment ``number``.

    ``head`` and ``tail`` are the first and the last of them. ``single``: they are the same. Batches
    that follow each other confirm each other.
    """

    number: int
    head: RecordBatch
    tail: RecordBatch
    single: bool

    @property
    def first(self) -> int:
        """The first offset."""
        return self.head.base_offset

    @property
    def last(self) -> int:
        """The last offset."""
        return self.tail.last_offset

    @property
    def starts(self) -> bool:
        """Whether it begins its segment."""
        return self.head.position == 0


_Element = _Piece | None
"""None stands for what is no batch, or does not have its offsets in its header."""


@frozen
class _Window:
    """A single batch amid the two elements before it and the two after it."""

    far: _Element
    before: _Element
    piece: _Piece
    after: _Element
    beyond: _Element

    @property
    def batch(self) -> RecordBatch:
        """The batch."""
        return self.piece.head

    @property
    def previous(self) -> RecordBatch | None:
        """The batch before it."""
        return None if self.before is None else self.before.tail

    @property
    def following(self) -> RecordBatch | None:
        """The batch after it."""
        return None if self.after is None else self.after.head

    def takes_epoch(self, epoch: int) -> bool:
        """Return whether a leader epoch fits between those of its neighbours."""
        low = -1 if self.previous is None else self.previous.leader_epoch
        return low <= epoch and (self.following is None or epoch <= self.following.leader_epoch)


def wrong_fields(
    segments: Sequence[Segment],
    *,
    epochs: Sequence[EpochEntry],
    end: int | None,
    witness: Witness | None = None,
) -> Iterator[WrongField]:
    """Yield the wrong fields of a log of which it leaves one value, in any order.

    ``segments`` are all of the log. ``epochs`` are the lines of leader-epoch-checkpoint, empty if
    it cannot be read. ``end`` is the offset at which the log ends, None unless another file proves
    it. ``witness`` is asked where the log leaves more than one value. Reads the logs. Raises
    NoField if too many batches may be wrong, SourceError.
    """
    log = _Log(segments, epochs, end)
    fields: list[WrongField] = []
    suspects: list[Neighbours] = []
    for window in _windows(_elements(segments, fields)):
        fields += log.magic(window)
        found = [*log.offset(window), *log.epoch(window)]
        fields += found
        if not found and log.breaks_order(window):
            suspects.append(log.neighbours(window))
        if len(fields) > _MOST or len(suspects) > _MOST:
            path = segments[0].log.parent
            raise NoField(f"{path}: expected single batches with wrong fields, found too many")
    if witness is not None:
        for suspect in suspects:
            right = witness(suspect)
            if right is not None:
                fields += log.shown(suspect, right)
    doubles = log.doubles(fields)
    yield from (field for field in fields if field not in doubles)


def _field(
    segment: Segment, batch: RecordBatch, inside: int, name: str, values: tuple[int, int], size: int
) -> WrongField:
    """Return a field of ``size`` bytes; ``values`` are the one in the file and the right one."""
    found, right = values
    content = right.to_bytes(size, "big", signed=True)
    at = batch.position + inside
    return WrongField(segment, batch.position, batch.crc, at, name, found, right, content)


def _offset_field(segment: Segment, batch: RecordBatch, right: int) -> Iterator[WrongField]:
    if _one_byte(batch.base_offset, right, _OFFSET_BYTES):
        values = batch.base_offset, right
        yield _field(segment, batch, 0, "base offset", values, _OFFSET_BYTES)


def _epoch_field(segment: Segment, batch: RecordBatch, right: int) -> Iterator[WrongField]:
    if _one_byte(batch.leader_epoch, right, _EPOCH_BYTES):
        values = batch.leader_epoch, right
        yield _field(segment, batch, _EPOCH_POSITION, "leader epoch", values, _EPOCH_BYTES)


def _one_byte(value: int, other: int, size: int) -> bool:
    """Return whether two numbers of ``size`` bytes differ in exactly one byte."""
    one, two = value.to_bytes(size, "big", signed=True), other.to_bytes(size, "big", signed=True)
    return sum(a != b for a, b in zip(one, two, strict=True)) == 1


# --- the batches of all segments, in order


def _elements(segments: Sequence[Segment], fields: list[WrongField]) -> Iterator[_Element]:
    """Yield the batches; ``fields`` gets the wrong sizes and magics of corrupt ones."""
    for number, segment in enumerate(segments):
        doubtful = False  # what a search finds after corrupt bytes may lie in a record's value
        with open_source(segment.log, mapped=False, sealed=True) as source:
            for piece in walk(source, segment.base_offset):
                if isinstance(piece, Damage):
                    batch = None if doubtful else mended_header(source, piece)
                    doubtful = doubtful or batch is None
                    if batch is None:
                        yield None
                        continue
                    magic = source.window(batch.position + MAGIC_POSITION)[0]
                    fields += _header_fields(segment, piece, batch, magic)
                    yield _single(number, batch)
                elif piece.hunted and doubtful:
                    yield None
                else:
                    yield from _of_table(number, piece)


def _header_fields(
    segment: Segment, damage: Damage, batch: RecordBatch, magic: int
) -> Iterator[WrongField]:
    """Yield the size and the magic of a corrupt batch that differ from the right ones."""
    claimed = damage.claimed_bytes
    if claimed is not None and claimed != batch.size:
        sizes = claimed - LOG_OVERHEAD, batch.size - LOG_OVERHEAD
        yield _field(segment, batch, SIZE_POSITION, "size", sizes, 4)
    if magic != batch.magic:
        yield _field(segment, batch, MAGIC_POSITION, "magic", (magic, batch.magic), 1)


def _of_table(number: int, table: BatchTable) -> Iterator[_Element]:
    if table.usual is not None and len(table) > 1:
        yield _Piece(number, table[0], table[len(table) - 1], single=False)
    else:
        yield from (_single(number, batch) for batch in table)


def _single(number: int, batch: RecordBatch) -> _Element:
    if batch.magic < _MAGIC or not 0 <= batch.last_offset - batch.base_offset <= MAX_OFFSET_DELTA:
        return None
    return _Piece(number, batch, batch, single=True)


def _windows(elements: Iterable[_Element]) -> Iterator[_Window]:
    """Yield each single batch with its neighbours."""
    kept = deque[_Element]([None, None], maxlen=5)
    for element in chain(elements, [None, None]):
        kept.append(element)
        if len(kept) == kept.maxlen:
            far, before, piece, after, beyond = kept
            if piece is not None and piece.single:
                yield _Window(far, before, piece, after, beyond)


# --- what the log shows


class _Log:
    """What a log and the files beside it show of its batches."""

    def __init__(
        self, segments: Sequence[Segment], epochs: Sequence[EpochEntry], end: int | None
    ) -> None:
        self._segments, self._epochs, self._end = segments, epochs, end
        self._bases = [segment.base_offset for segment in segments]

    def magic(self, window: _Window) -> Iterator[WrongField]:
        """Yield a magic above 2, whose batch matches its checksum in message format v2."""
        batch = window.batch
        beside = [each.magic for each in (window.previous, window.following) if each is not None]
        if batch.magic > _MAGIC and beside and all(magic == _MAGIC for magic in beside):
            values, segment = (batch.magic, _MAGIC), self._segments[window.piece.number]
            yield _field(segment, batch, MAGIC_POSITION, "magic", values, 1)

    def offset(self, window: _Window) -> Iterator[WrongField]:
        """Yield a wrong base offset, if confirmed neighbours leave the batch one place."""
        piece, batch = window.piece, window.batch
        left = self._left(window)
        if left is None or piece.first == left:
            return
        if left + piece.last - piece.first + 1 != self._right(window):
            return
        goes_on = _continues(window.previous, batch) and _continues(batch, window.following)
        if goes_on and window.takes_epoch(batch.leader_epoch):
            yield from _offset_field(self._segments[piece.number], batch, left)

    def _left(self, window: _Window) -> int | None:
        """Return the offset that follows the batch before, None unless that is confirmed."""
        far, before, number = window.far, window.before, window.piece.number
        if window.piece.starts:
            return self._bases[number]
        if before is None or before.number != number:
            return None
        confirmed = (
            not before.single
            or (before.starts and before.first == self._bases[number])
            or (far is not None and far.number == number and far.last + 1 == before.first)
        )
        return before.last + 1 if confirmed else None

    def _right(self, window: _Window) -> int | None:
        """Return the offset of the batch after, None unless that is confirmed."""
        after, beyond, number = window.after, window.beyond, window.piece.number
        following = self._bases[number + 1 : number + 2]
        end = following[0] if following else self._end
        if after is None:
            # The end of the log, or bytes that are no batch.
            return end if self._is_last(window.piece) else None
        if after.number != number:
            return end
        confirmed = (
            not after.single
            or (beyond is not None and beyond.number == number and after.last + 1 == beyond.first)
            or (after.last + 1 == end and self._is_last(after))
        )
        return after.first if confirmed else None

    def _is_last(self, piece: _Piece) -> bool:
        """Return whether a segment ends with a piece."""
        with open_source(
            self._segments[piece.number].log, mapped=False, window_bytes=1 << 12, sealed=True
        ) as source:
            return piece.tail.position + piece.tail.size == source.size

    def epoch(self, window: _Window) -> Iterator[WrongField]:
        """Yield a wrong leader epoch, of which leader-epoch-checkpoint has the right one."""
        batch, before = window.batch, window.before
        if before is None or window.after is None or before.last + 1 != window.piece.first:
            return
        found, right = batch.leader_epoch, self._epoch_at(batch.base_offset)
        if right is None or found == -1 or self._has_line(found) or window.takes_epoch(found):
            return  # -1 is what the cleaner leaves; convert sets it
        if window.takes_epoch(right):
            yield from _epoch_field(self._segments[window.piece.number], batch, right)

    def _has_line(self, epoch: int) -> bool:
        return any(entry.epoch == epoch for entry in self._epochs)

    def _epoch_at(self, offset: int) -> int | None:
        """Return the epoch that leader-epoch-checkpoint has for an offset."""
        epochs = [entry.epoch for entry in self._epochs if entry.start_offset <= offset]
        return max(epochs, default=None)

    def doubles(self, fields: Iterable[WrongField]) -> set[WrongField]:
        """Return the base offsets of batches that are in the file twice, as they are.

        Then one was written in the place of another, which is lost.
        """
        claimed: dict[int, list[WrongField]] = {}
        for field in fields:
            if field.name == "base offset" and field.found >= self._bases[0]:
                claimed.setdefault(field.found, []).append(field)
        numbers = {bisect_right(self._bases, offset) - 1 for offset in claimed}
        return {
            field
            for segment in (self._segments[number] for number in numbers)
            for base, position, crc in _rows(segment)
            for field in claimed.get(base, ())
            if field.crc == crc and (field.segment, field.position) != (segment, position)
        }

    # --- what a replica shows

    def breaks_order(self, window: _Window) -> bool:
        """Return whether a batch does not fit between its neighbours, of which one may be wrong."""
        number = window.piece.number
        base, following = self._bases[number], self._bases[number + 1 : number + 2]
        above = min([base + MAX_OFFSET_DELTA + 1, *following])
        below = base - 1
        if window.before is not None:
            below = max(below, window.before.last)
        if window.after is not None:
            above = min(above, window.after.first)
        in_order = below < window.piece.first and window.piece.last < above
        return not (in_order and window.takes_epoch(window.batch.leader_epoch))

    def neighbours(self, window: _Window) -> Neighbours:
        """Return a batch with its neighbours."""
        segment = self._segments[window.piece.number]
        return Neighbours(
            segment, window.batch, window.previous, window.following, window.piece.starts
        )

    def shown(self, suspect: Neighbours, right: RecordBatch) -> Iterator[WrongField]:
        """Yield the fields of a batch that replicas have with other values."""
        segment, batch = suspect.segment, suspect.batch
        if right.base_offset != batch.base_offset and right.leader_epoch == batch.leader_epoch:
            yield from _offset_field(segment, batch, right.base_offset)
        elif right.base_offset == batch.base_offset and right.leader_epoch != batch.leader_epoch:
            own = self._epoch_at(batch.base_offset)
            if not self._has_line(batch.leader_epoch) and own in (None, right.leader_epoch):
                yield from _epoch_field(segment, batch, right.leader_epoch)


def _rows(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """Yield base offset, position and checksum of each valid batch. Raises SourceError."""
    names = ("base_offset", "position", "crc")
    with open_source(segment.log, mapped=False, sealed=True) as source:
        for piece in walk(source, segment.base_offset):
            if isinstance(piece, BatchTable):
                yield from zip(*map(piece.column, names), strict=True)


def _continues(batch: RecordBatch | None, following: RecordBatch | None) -> bool:
    """Return whether two neighbouring batches of one producer have consecutive sequences."""
    if batch is None or following is None:
        return True
    same = batch.producer_id == following.producer_id >= 0
    if not same or batch.producer_epoch != following.producer_epoch:
        return True
    if min(batch.base_sequence, following.base_sequence) < 0:
        return True  # a marker
    count = batch.last_offset - batch.base_offset + 1
    return sequence_at(batch.base_sequence, count) == following.base_sequence
