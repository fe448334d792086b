"""walk(): a segment as sound batches and damage. It tells a torn tail, a bad checksum, an
impossible size and zeros of preallocation apart.

Every byte of the file lies in exactly one batch or one ``Damage``. A batch is *sound* if the
recovery of a broker accepts it: it has a possible size and a matching checksum, whatever its magic
(KOD 3.6). This module does not check offsets, records and magic numbers.

After damage the walk first tries the end that the header claims. If no sound batch starts there, it
*hunts*: it searches the bytes for the next sound batch.

Spec: ``FileLogInputStream.nextBatch``, ``DefaultRecordBatch.ensureValid``, ``LogSegment.recover``.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from kdump.errors import LimitError
from kdump.format.batch import (
    CHECKSUM_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAX_OFFSET_DELTA,
    MIN_OFFSET,
    BatchTable,
    RecordBatch,
    Usual,
    read_header,
)
from kdump.format.codecs import DEFAULT_LIMIT
from kdump.format.kernel import headers as _headers
from kdump.storage.source import Closing, Source, data_from
from kdump.values import frozen

if TYPE_CHECKING:  # as in codecs
    from zlib import crc32
else:
    try:
        from isal.isal_zlib import crc32
    except ImportError:
        from zlib import crc32

#: The largest piece of a batch that a checksum takes from the source at once.
WINDOW_BYTES: Final = 1 << 20
#: The most bytes that hunting checksums: a multiple of the bytes walked, plus a constant for small
#: files.
HUNTING_BOUND: Final = 4
HUNTING_FLOOR: Final = 1 << 18
#: The largest batch that a size field can give, overhead included, in bytes.
LARGEST_BATCH: Final = 2**31 - 1 + LOG_OVERHEAD

_MAX_OFFSET = 2**63 - 1
_ROWS = 8_192
_FIRST_ROWS = 64
#: How many batches the first scan after damage takes, as more damage may follow; then the count
#: doubles from scan to scan.
_FEW_ROWS = 16
_SIZE = _headers.BATCH_FIELDS.index("size")
_LAST_OFFSET = _headers.BATCH_FIELDS.index("last_offset")
_MAGIC = _headers.BATCH_FIELDS.index("magic")
_CRC = _headers.BATCH_FIELDS.index("crc")
_LEGACY_CHECKSUM_START = 16
_ZERO_BYTES = bytes(1 << 16)
#: The cost of a candidate in bytes, beside its own, which bounds the number of small candidates.
_CANDIDATE_COST = 1024


class Reason(Enum):
    """Why a range of a segment is not a sound batch."""

    TORN_TAIL = "torn-tail"  # the file ends inside a batch: its writer died, or is writing
    PREALLOCATED = "preallocated"  # zeros up to the end of the file
    BAD_CHECKSUM = "bad-checksum"
    IMPOSSIBLE_SIZE = "impossible-size"  # too small, or beyond the end though sound batches follow

    @property
    def words(self) -> str:
        """The reason in two words."""
        return "preallocated zeros" if self is Reason.PREALLOCATED else self.value.replace("-", " ")

    @property
    def phrase(self) -> str:
        """The reason as a clause."""
        return _PHRASES[self]


_PHRASES: Final = {
    Reason.TORN_TAIL: "the file ends inside a batch",
    Reason.PREALLOCATED: "zeros up to the end of the file",
    Reason.BAD_CHECKSUM: "a batch does not match its checksum",
    Reason.IMPOSSIBLE_SIZE: "a batch has an impossible size",
}


@frozen
class Damage:
    """A range of the file at whose start the recovery of a broker truncates it.

    ``claimed_bytes`` is the size that the header at ``position`` gives, None if too few bytes are
    left for a size. Only damage by a bad checksum has ``stored_crc`` and ``computed_crc``.
    """

    position: int
    size: int
    reason: Reason
    claimed_bytes: int | None = None
    stored_crc: int | None = None
    computed_crc: int | None = None

    @property
    def empty(self) -> bool:
        """Whether no batch was ever written here."""
        return self.reason is Reason.PREALLOCATED

    @property
    def torn(self) -> bool:
        """Whether the file ends inside a batch."""
        return self.reason is Reason.TORN_TAIL

    @property
    def is_tail(self) -> bool:
        """Whether writers leave this at the end of a log: a torn write, or room for batches.

        At the end of the last segment it hides no record that was acknowledged: recovery removes
        it. Anywhere else it is corruption as any other.
        """
        return self.torn or self.empty

    def is_tail_of(self, source: Source) -> bool:
        """Whether it is a tail that reaches the end of the log ``source``."""
        return self.is_tail and self.position + self.size == source.size

    def may_be_written(self, *, live: bool) -> bool:
        """Whether a running broker may go on to write here; only the last segment is asked about.

        While a broker is running (``live``), a torn write may be one that is not yet complete.
        """
        return self.empty or (self.torn and live)


class WalkedLog(Closing):
    """A Source of a log that was walked before, and whose records are not there.

    Its windows begin where batches or damage begin, and have the headers there and what is known of
    control batches. Any other window is a SourceError. ``header_digest`` is that of the log, as
    ``audit.survey.header_digest`` makes it.
    """

    header_digest: bytes

    @abstractmethod
    def pieces(self, start: int) -> Iterator[BatchTable | Damage]:
        """Yield what ``walk`` yields from position ``start`` on. Raises SourceError."""

    @abstractmethod
    def sound_batch(self, position: int) -> RecordBatch | None:
        """Return the sound batch at ``position``, whatever its offsets. Raises SourceError."""

    @abstractmethod
    def first_batch(self) -> RecordBatch | None:
        """Return what ``first_batch`` returns. Raises SourceError."""

    @abstractmethod
    def first_offset(self, wrapper: RecordBatch) -> int | None:
        """Return the first offset in a compressed message of magic 0 or 1, None if unreadable.

        Raises SourceError.
        """

    @abstractmethod
    def ends_with_zeros(self) -> bool:
        """Return whether the damage at the end of the log ends with zeros. Raises SourceError."""


def walk(source: Source, base_offset: int, start: int = 0) -> Iterator[BatchTable | Damage]:
    """Yield batches and damage that cover ``source`` from ``start`` to its last byte, in order.

    ``base_offset`` is the one in the name of the segment. ``start`` is 0, or the position of a
    batch. While a table is the newest piece, ``source.window()`` at the positions of its batches
    reads nothing again, unless a batch is larger than a window.

    Raises SourceError if the file cannot be read.
    """
    if isinstance(source, WalkedLog):
        return source.pieces(start)
    return _Walk(source, base_offset, start).pieces()


def sound_batch(source: Source, base_offset: int, position: int) -> RecordBatch | None:
    """Return the sound batch at ``position`` of a segment.

    None if there is none, or if its offsets do not fit the ``base_offset`` of the segment. Raises
    SourceError if the file cannot be read.
    """
    if not 0 <= position < source.size:
        return None
    if isinstance(source, WalkedLog):
        batch, lowest, highest = source.sound_batch(position), *offset_range(base_offset)
        fits = batch and lowest < batch.base_offset <= batch.last_offset <= highest
        return batch if fits else None
    walk_here = _Walk(source, base_offset, position)
    end = walk_here.sound_at(position, walk_here.lowest)
    return None if end is None else RecordBatch(*walk_here.probe)


def first_batch(source: Source, base_offset: int) -> RecordBatch | None:
    """Return the batch at the start of a segment, without a comparison of its checksum.

    None if there is no plausible header, or if neither one nor the end of the file follows the
    batch. So two pages are read of the log, however large the batch is. Raises SourceError if the
    file cannot be read.
    """
    if isinstance(source, WalkedLog):
        return source.first_batch()
    walk_here = _Walk(source, base_offset, 0)
    if not walk_here.plausible_at(0):
        return None
    batch = read_header(source.window(0, HEADER_BYTES), 0)
    if batch is None:
        return None
    walk_here.last_offset = batch.last_offset
    return batch if batch.size == source.size or walk_here.plausible_at(batch.size) else None


def batch_bytes(source: Source, batch: RecordBatch, limit: int = DEFAULT_LIMIT) -> memoryview:
    """Return all bytes of ``batch``, valid until the next call of ``source.window``.

    Raises LimitError if they are more than ``limit``, SourceError.
    """
    if batch.size > limit:
        raise LimitError(
            f"expected a batch of at most {limit} bytes at position {batch.position}, found "
            f"{batch.size} bytes: its records are not read"
        )
    return source.window(batch.position, batch.size)[: batch.size]


def checksum_of(source: Source, position: int, size: int, magic: int) -> int:
    """Return the checksum over the batch of ``size`` bytes at ``position``. Raises SourceError."""
    checksum, start = (crc32c, CHECKSUM_START) if magic > 1 else (crc32, _LEGACY_CHECKSUM_START)
    at, end, value = position + start, position + size, 0
    while at < end:
        piece = source.window(at)[: min(end - at, WINDOW_BYTES)]
        value = checksum(piece, value)
        at += len(piece)
    return value


class _Walk:
    """The state of one walk: where it is, which offsets fit, and the work left for hunting."""

    def __init__(self, source: Source, base_offset: int, start: int) -> None:
        self.source = source
        self.position = start
        self.lowest, self.highest = offset_range(base_offset)
        self.last_offset = self.lowest
        self.hunted = False
        self.data_seen = -1  # a position with a byte that is not zero
        self.work_left = HUNTING_BOUND * (source.size - start) + HUNTING_FLOOR
        # Most segments are small: clearing all rows would take longer than the walk.
        self.rows = _zeros(BatchTable.WIDTH * _FIRST_ROWS)
        self.pending = _zeros(_FIRST_ROWS)
        self.probe = _zeros(BatchTable.WIDTH)
        self.usual = _zeros(_headers.USUAL_FIELDS)
        self.room = _ROWS

    def pieces(self) -> Iterator[BatchTable | Damage]:
        at_least = HEADER_BYTES
        while self.position < self.source.size:
            view = self.source.window(self.position, at_least)
            n, waiting, why = _headers.scan_headers(
                view,
                self.position,
                self.source.size,
                self.rows,
                self.pending[: self.room],
                self.usual,
            )
            self.room = min(2 * self.room, _ROWS)
            if n == len(self.pending) < _ROWS:  # at most once, in a segment of many batches
                self.rows, self.pending = _zeros(BatchTable.WIDTH * _ROWS), _zeros(_ROWS)
                continue
            at_least = HEADER_BYTES
            if n and len(view) < self.rows[_SIZE] <= WINDOW_BYTES:
                at_least = self.rows[_SIZE]  # the first batch lies across the view's end
                continue
            sound = self._first_mismatch(view, waiting, n)
            if sound:
                table = self._table(sound, complete=sound == n)
                self.position = table.end
                self.last_offset = table.rows[(sound - 1) * BatchTable.WIDTH + _LAST_OFFSET]
                yield table
            if sound < n:
                yield self._damage(_headers.BAD_CRC)
            elif why in (_headers.TORN, _headers.BAD_SIZE, _headers.BAD_CRC):
                yield self._damage(why)

    def _first_mismatch(self, view: memoryview, waiting: int, n: int) -> int:
        """Return the first row whose checksum does not match, ``n`` if all match.

        Only the first ``waiting`` rows in ``pending`` are checked: the kernel has checked others.
        """
        pending, index = self.pending[:waiting], 0
        rows = self.rows[: n * BatchTable.WIDTH]
        while (index := _headers.skip_sound(view, rows, pending, index, crc32c, crc32)) < waiting:
            row = pending[index]
            at = row * BatchTable.WIDTH
            computed = checksum_of(self.source, rows[at], rows[at + _SIZE], rows[at + _MAGIC])
            if computed != rows[at + _CRC]:
                return row
            index += 1
        return n

    def _table(self, n: int, *, complete: bool) -> BatchTable:
        """Return the first ``n`` scanned batches; ``complete``: the scan found no more."""
        rows = memoryview(self.rows[: n * BatchTable.WIDTH].tobytes()).cast("q")
        usual = Usual.of(self.usual) if complete else None
        return BatchTable(rows, hunted=self.hunted, usual=usual)

    def _damage(self, why: int) -> Damage:
        """Return the damage that starts at the current position, and move to its end."""
        position, left = self.position, self.source.size - self.position
        if self._is_zero(position):
            self.position = self.source.size
            return Damage(position, left, Reason.PREALLOCATED)
        head = bytes(self.source.window(position, HEADER_BYTES)[:HEADER_BYTES])
        claimed = None
        if len(head) >= LOG_OVERHEAD:
            claimed = int.from_bytes(head[8:12], "big", signed=True) + LOG_OVERHEAD
        stored = computed = None
        if why == _headers.BAD_CRC and claimed is not None:
            magic = int.from_bytes(head[16:17], "big", signed=True)
            at = 17 if magic > 1 else LOG_OVERHEAD
            stored = int.from_bytes(head[at : at + 4], "big")
            computed = checksum_of(self.source, position, claimed, magic)
        reason = {
            _headers.BAD_CRC: Reason.BAD_CHECKSUM,
            _headers.BAD_SIZE: Reason.IMPOSSIBLE_SIZE,
            _headers.TORN: Reason.TORN_TAIL,
        }[why]
        end = self._end_of_damage(position, claimed, why)
        if reason is Reason.TORN_TAIL and end < self.source.size:
            reason = Reason.IMPOSSIBLE_SIZE  # its size leads beyond the end, but batches follow
        if computed is not None and claimed is not None:
            # A checksum over a wrong size counts as work without progress.
            self.work_left -= max(claimed - (end - position), 0)
        self.position = end
        self.room = _FEW_ROWS
        return Damage(position, end - position, reason, claimed, stored, computed)

    def _end_of_damage(self, position: int, claimed: int | None, why: int) -> int:
        """Return where the next sound batch starts: the claimed end if one starts there, else hunt.

        ``claimed`` is the size that the header at ``position`` gives, ``why`` what is wrong there.
        """
        size = self.source.size
        if claimed is not None and claimed > 0 and position + claimed <= size:
            end = position + claimed
            # A record ends with its headers, so a batch inside a value cannot end with the file.
            # Offsets may go backwards here, as between batches without damage: otherwise one
            # flipped base offset before, which no checksum covers, would hide all that follows.
            if end == size or self.sound_at(end, self.lowest) is not None:
                return end
        # A batch before the zeros of preallocation may be inside the last record of this one.
        outside = position if claimed is None or why == _headers.BAD_SIZE else position + claimed
        end = self._hunt(position + 1, outside)
        self.hunted = self.hunted or end < size
        return end

    def _hunt(self, start: int, outside: int) -> int:
        """Return the position of the next sound batch that a plausible header or the end follows.

        The file need not hold the batch of that header whole. From position ``outside`` on, zeros
        up to the end of the file count as its end. The end of the file if there is no such batch,
        or if the work left does not suffice.
        """
        position, size = start, self.source.size
        while position < size and self.work_left > 0:
            # A header may begin with zeros, but the size in it is none.
            position = max(position, data_from(self.source, position) - HEADER_BYTES)
            view = self.source.window(position, HEADER_BYTES)
            at: int = _headers.next_candidate(
                view, 0, len(view), size - position, self.last_offset, self.highest
            )
            if at < 0:
                if position + len(view) >= size:
                    break
                position += len(view) - HEADER_BYTES + 1
                continue
            position += at
            end = self.sound_at(position, self.last_offset)
            if end is not None:
                room = position >= outside and self._is_zero(end)
                if room or end == size or self.plausible_at(end, LARGEST_BATCH):
                    return position
                self._charge(end - position)
            position += 1
        return size

    def sound_at(self, position: int, below: int) -> int | None:
        """Return the end of the sound batch at ``position``, or None without one.

        Its offsets lie above ``below`` and within the range of the segment.
        """
        view = self.source.window(position, HEADER_BYTES)
        n, waiting, why = _headers.scan_headers(
            view, position, self.source.size, self.probe, self.pending, self.usual
        )
        if n == 0 and why != _headers.BAD_CRC:
            return None
        row = RecordBatch(*self.probe)
        if (
            n
            and below < row.base_offset <= row.last_offset <= self.highest
            and row.size <= self.work_left
            and (not waiting or checksum_of(self.source, position, row.size, row.magic) == row.crc)
        ):
            return position + row.size  # progress costs nothing: only work without it is bounded
        self._charge(row.size)
        return None

    def _charge(self, size: int) -> None:
        self.work_left -= size + _CANDIDATE_COST

    def plausible_at(self, position: int, largest: int | None = None) -> bool:
        """Return whether a plausible header is there, with offsets above the last ones.

        Its batch has at most ``largest`` bytes, by default those up to the end of the file.
        """
        view = self.source.window(position, HEADER_BYTES)
        left = self.source.size - position if largest is None else largest
        at: int = _headers.next_candidate(view, 0, 1, left, self.last_offset, self.highest)
        return at == 0

    def _is_zero(self, position: int) -> bool:
        """Return whether all bytes from ``position`` to the end of the file are zero."""
        if position <= self.data_seen:
            return False
        while (position := data_from(self.source, position)) < self.source.size:
            # Views are compared byte by byte, bytes objects eight and more at a time.
            piece = bytes(self.source.window(position)[: len(_ZERO_BYTES)])
            if piece != _ZERO_BYTES[: len(piece)]:
                # No zeros are read twice, however many candidates a hunt finds before them.
                self.data_seen = position + len(piece.rstrip(b"\0")) - 1
                return False
            position += len(piece)
        return True


def offset_range(base_offset: int) -> tuple[int, int]:
    """Return the offset below all of a segment, and the highest that its index can hold."""
    # A file name may hold any number.
    return max(base_offset - 1, MIN_OFFSET), min(base_offset + MAX_OFFSET_DELTA, _MAX_OFFSET)


def ends_with_zeros(source: Source) -> bool:
    """Return whether the last 61 bytes, the size of a header, are zeros. Raises SourceError."""
    if isinstance(source, WalkedLog):
        return source.ends_with_zeros()
    return not any(source.window(max(source.size - HEADER_BYTES, 0)))


def _zeros(count: int) -> memoryview:
    return memoryview(array("q", (0,)) * count)
