"""fold_log(): reads a log and its indexes once, and emits them as sections.

The indexes are read first: their entries are then not newer than the log, which a broker may
extend.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from kdump.audit.survey.header_digest import HeaderDigest
from kdump.audit.survey.log_end import first_offset_of
from kdump.errors import DeniedError, SourceError, VanishedError
from kdump.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchTable,
    is_marker,
    read_header,
)
from kdump.format.index import OffsetIndex
from kdump.format.kernel.events import CONTROL_BYTES as _KEPT_OF_CONTROL
from kdump.format.manifest.blocks import BATCHES, CONTROL_BYTES, DAMAGES, StoredDamage, encode_block
from kdump.format.manifest.directories import PART_BYTES, StoredStatus
from kdump.format.manifest.indexes import INDEX_BYTES, IndexFold, encode_index
from kdump.format.manifest.logs import EXCERPTS
from kdump.format.manifest.sections import SectionKind, pack_section
from kdump.storage.access import open_source
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity, Source
from kdump.storage.throttle import Pace
from kdump.storage.walk import Damage, first_batch, walk
from kdump.values import frozen

#: What the key of a control record ends at, at the latest, behind the header of its batch.
_KEY_END: Final = 24
#: The bytes of a header up to the magic.
_PREFIX_BYTES: Final = 17
_LEAST_SIZE: Final = 14
_REPORT_BYTES: Final = 8 << 20
#: The most sizes that are followed from one position: those in other bytes than headers end soon.
_HOPS: Final = 16


class Slot(IntEnum):
    """What a section that a worker emits belongs to."""

    BLOCKS = 0
    LOG_BYTES = 1
    INDEX_BYTES = 2
    TIME_INDEX_BYTES = 3


@frozen
class Emitted:
    """A section of the log task with this ``number``, in the order of its slot."""

    number: int
    slot: Slot
    section: bytes


Emit = Callable[[int | Emitted], None]
"""Takes a count of bytes that were read, or a section."""


@frozen
class FoldingTask:
    """A log to be read, with its indexes.

    ``whole``: its bytes are stored. ``anonymous``: no bytes are stored in which names may be.
    """

    number: int
    log: AnyPath
    base_offset: int
    index: AnyPath | None
    time_index: AnyPath | None
    mapped: bool
    sealed: bool
    whole: bool
    anonymous: bool


@frozen
class FileOutcome:
    """A file that was read: its status, or why it was not.

    ``folded`` is the payload of an index that is stored by its batches.
    """

    identity: Identity | None
    error: str = ""
    denied: bool = False
    folded: bytes | None = None


@frozen
class LogOutcome:
    """A log that was read: its blocks (end, batches, digest) in the order of their sections.

    ``changed``: a file vanished or was replaced while it was read.
    """

    log: FileOutcome
    index: FileOutcome | None
    time_index: FileOutcome | None
    changed: bool
    plausible: bool = False
    digest: bytes = bytes(16)
    blocks: tuple[tuple[int, int, bytes], ...] = ()
    excerpts: tuple[tuple[int, bytes], ...] = ()
    damages: int = 0


def status_of_file(identity: Identity, listed: StoredStatus) -> StoredStatus:
    """Return the status of a file as it was when it was opened."""
    return StoredStatus(
        listed.mode, listed.uid, listed.gid, identity.inode, identity.size, identity.mtime_ns
    )


def fold_log(task: FoldingTask, emit: Emit, *, pace: Pace | None) -> LogOutcome:
    """Read a log and its indexes; ``emit`` gets their sections and counts of bytes."""
    indexes = [
        None if path is None else _Index(task, path, slot, pace)
        for path, slot in (
            (task.index, Slot.INDEX_BYTES),
            (task.time_index, Slot.TIME_INDEX_BYTES),
        )
    ]
    present = [index for index in indexes if index is not None]
    folder = _Folder(task, emit, [index.fold for index in present if index.fold is not None])
    vanished = any(index.vanished for index in present)
    outcome = FileOutcome(None)
    try:
        with open_source(task.log, mapped=task.mapped, sealed=task.sealed, pace=pace) as source:
            outcome = FileOutcome(source.identity)
            if task.whole:
                _emit_bytes(task.number, Slot.LOG_BYTES, source, emit)
            else:
                folder.read(source, [index.data for index in present[:1] if task.index])
    except SourceError as error:
        vanished = vanished or isinstance(error, VanishedError)
        outcome = _failure(task.log, error)
    read = outcome.identity is not None
    outcomes = [None if index is None else index.finish(emit, log_read=read) for index in indexes]
    return LogOutcome(
        outcome,
        outcomes[0],
        outcomes[1],
        vanished or not all(index.same_file() for index in present),
        folder.plausible,
        folder.digest.digest(),
        tuple(folder.ends),
        tuple(sorted(folder.excerpts.items())),
        folder.damages,
    )


class _Index:
    """An index that was read before its log."""

    def __init__(self, task: FoldingTask, path: AnyPath, slot: Slot, pace: Pace | None) -> None:
        self._number, self._path, self._slot = task.number, path, slot
        self.data = b""
        self.fold: IndexFold | None = None
        self.vanished = False
        try:
            with open_source(path, mapped=False, sealed=task.sealed, pace=pace) as source:
                self._outcome = FileOutcome(source.identity)
                if source.size <= INDEX_BYTES:
                    self.data = bytes(source.window(0, source.size)[: source.size])
                else:
                    self._outcome = FileOutcome(
                        source.identity,
                        f"expected an index of at most {INDEX_BYTES} bytes, found {source.size} "
                        "bytes",
                    )
        except SourceError as error:
            self.vanished = isinstance(error, VanishedError)
            self._outcome = _failure(path, error)
            return
        if not task.whole and not self._outcome.error:
            times = slot is Slot.TIME_INDEX_BYTES
            self.fold = IndexFold(self.data, task.base_offset, times=times)

    def same_file(self) -> bool:
        """Return whether the file that was read is still there."""
        identity = self._outcome.identity
        try:
            return identity is None or self._path.stat().st_ino == identity.inode
        except OSError:
            return False

    def finish(self, emit: Emit, *, log_read: bool) -> FileOutcome:
        """Return the outcome; emit the bytes of an index that is not stored by its batches."""
        outcome = self._outcome
        folded = None if self.fold is None or not log_read else self.fold.finish(0)
        if folded is not None:
            return FileOutcome(outcome.identity, folded=encode_index(folded))
        if not outcome.error:
            for start in range(0, len(self.data), PART_BYTES):
                part = self.data[start : start + PART_BYTES]
                emit(Emitted(self._number, self._slot, pack_section(SectionKind.DATA, part)))
        return outcome


def _failure(path: AnyPath, error: SourceError) -> FileOutcome:
    text = str(error).removeprefix(f"{path}: ")
    return FileOutcome(None, text, isinstance(error, DeniedError))


def _emit_bytes(number: int, slot: Slot, source: Source, emit: Emit) -> None:
    position = 0
    while position < source.size:
        length = min(PART_BYTES, source.size - position)
        part = bytes(source.window(position, length)[:length])
        emit(Emitted(number, slot, pack_section(SectionKind.DATA, part)))
        emit(len(part))
        position += length


@dataclass(slots=True)
class _Open:
    """The block that is being filled."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    damages: list[StoredDamage] = field(default_factory=list)
    wrappers: array[int] = field(default_factory=lambda: array("q"))
    control: bytearray = field(default_factory=bytearray)
    digest: HeaderDigest = field(default_factory=HeaderDigest)

    @property
    def batches(self) -> int:
        """The number of batches so far."""
        return len(self.rows) // BatchTable.WIDTH


class _Folder:
    """Turns the pieces of a walk into blocks."""

    def __init__(self, task: FoldingTask, emit: Emit, folds: list[IndexFold]) -> None:
        self._task, self._emit, self._folds = task, emit, folds
        self._block = _Open()
        self._end = self._reported = 0
        self.plausible = False
        self.digest = HeaderDigest()
        self.ends: list[tuple[int, int, bytes]] = []
        self.excerpts: dict[int, bytes] = {}
        self.damages = 0
        self._starts = _Starts()

    def read(self, source: Source, indexes: list[bytes]) -> None:
        """Walk the whole log; ``indexes`` has its offset index, if it has one."""
        self._starts.expect(indexes)
        self.plausible = first_batch(source, self._task.base_offset) is not None
        for piece in walk(source, self._task.base_offset):
            self.digest.add(piece, source)
            if isinstance(piece, Damage):
                self._add_damage(piece, source)
            else:
                self._add_table(piece, source)
            if self._end - self._reported >= _REPORT_BYTES:
                self._emit(self._end - self._reported)
                self._reported = self._end
        self._flush()
        if self._end > self._reported:
            self._emit(self._end - self._reported)
        if not self._task.anonymous:
            for position in self._starts.odd():
                self._follow(source, position)

    def _add_table(self, table: BatchTable, source: Source) -> None:
        for fold in self._folds:
            fold.add(table.rows)
        self._starts.pass_batches(table)
        first = 0
        while first < len(table):
            stop = min(len(table), first + BATCHES - self._block.batches)
            part = table.part(first, stop)
            block = self._block
            block.rows.frombytes(part.rows.cast("B"))
            block.digest.add(part, source)
            self._end = part.end
            if table.usual is None:
                self._add_odd(part, source)
            if self._block.batches == BATCHES or len(block.control) > CONTROL_BYTES // 2:
                self._flush()
            first = stop

    def _add_odd(self, table: BatchTable, source: Source) -> None:
        """Add what control batches and compressed messages of old magic have inside."""
        magics, attributes = table.column("magic"), table.column("attributes")
        for row, (magic, bits) in enumerate(zip(magics, attributes, strict=True)):
            if magic > 1 and bits & CONTROL:
                batch = table[row]
                size = min(batch.size, _KEPT_OF_CONTROL)
                data = bytes(source.window(batch.position, size)[HEADER_BYTES:size])
                if self._task.anonymous and not is_marker(
                    source.window(batch.position, HEADER_BYTES)
                ):
                    data = data[:_KEY_END] + bytes(len(data[_KEY_END:]))
                self._block.control += data
            elif magic < 2 and bits & CODEC_MASK:
                batch = table[row]
                first = first_offset_of(source, batch)
                below = -1 if first is None else batch.base_offset - first
                self._block.wrappers.append(below if 0 <= below < 1 << 62 else -1)

    def _add_damage(self, damage: Damage, source: Source) -> None:
        end = damage.position + damage.size
        self.damages += 1
        self._starts.pass_damage(damage)
        head = bytes(source.window(damage.position, HEADER_BYTES)[:HEADER_BYTES])[: damage.size]
        at_end = end == source.size and damage.size > HEADER_BYTES
        zeros = at_end and not any(source.window(source.size - HEADER_BYTES))
        self._block.damages.append(
            StoredDamage(
                self._block.batches,
                damage.size,
                damage.reason.value,
                damage.claimed_bytes,
                damage.stored_crc,
                damage.computed_crc,
                _header_alone(head) if self._task.anonymous else head,
                zeros,
            )
        )
        self._block.digest.add(damage, source)
        self._end = end
        if len(self._block.damages) == DAMAGES:
            self._flush()

    def _flush(self) -> None:
        block = self._block
        if block.rows or block.damages:
            rows = memoryview(block.rows)
            payload = encode_block(rows, block.damages, block.wrappers, bytes(block.control))
            section = pack_section(SectionKind.BLOCK, payload, compressed=False)
            self._emit(Emitted(self._task.number, Slot.BLOCKS, section))
            self.ends.append((self._end, block.batches, block.digest.digest()))
            self._block = _Open()

    def _follow(self, source: Source, position: int) -> None:
        """Keep what a loader reads that begins at ``position`` and follows sizes."""
        for _ in range(_HOPS):
            full = len(self.excerpts) == EXCERPTS
            if position >= source.size or position in self.excerpts or full:
                return
            data = bytes(source.window(position, HEADER_BYTES)[:HEADER_BYTES])
            self.excerpts[position] = data
            size = int.from_bytes(data[8:12], "big", signed=True)
            if len(data) < _PREFIX_BYTES or size < _LEAST_SIZE:
                return
            position += LOG_OVERHEAD + size


class _Starts:
    """Positions that are read although no batch of the walk begins there.

    An index may point there, or the size in a damaged header may lead there.
    """

    def __init__(self) -> None:
        self._wanted: array[int] = array("q")
        self._next = 0
        self._odd: list[int] = []
        self._claimed: set[int] = set()

    def expect(self, indexes: list[bytes]) -> None:
        """Take the positions in offset indexes."""
        found: set[int] = set()
        for data in indexes:
            index = OffsetIndex.decode(data, 0)
            found.update(position for position in index.positions if position > 0)
        self._wanted = array("q", sorted(found))

    def pass_batches(self, table: BatchTable) -> None:
        """Take the next batches of the walk."""
        positions, end = table.column("position"), table.end
        while self._next < len(self._wanted) and self._wanted[self._next] < end:
            position = self._wanted[self._next]
            row = bisect_left(positions, position)
            if row == len(positions) or positions[row] != position:
                self._odd.append(position)
            self._next += 1
        if self._claimed:
            self._claimed.difference_update(positions)

    def pass_damage(self, damage: Damage) -> None:
        """Take the next damage of the walk."""
        end = damage.position + damage.size
        while self._next < len(self._wanted) and self._wanted[self._next] < end:
            if self._wanted[self._next] != damage.position:
                self._odd.append(self._wanted[self._next])
            self._next += 1
        self._claimed.discard(damage.position)
        claimed = damage.claimed_bytes
        if damage.empty or claimed is None:
            return
        if claimed >= LOG_OVERHEAD + _LEAST_SIZE and len(self._claimed) < EXCERPTS:
            self._claimed.add(damage.position + claimed)

    def odd(self) -> Iterator[int]:
        """Yield the positions that are no starts of batches or damage."""
        yield from self._odd[:EXCERPTS]
        yield from sorted(self._claimed)


def _header_alone(head: bytes) -> bytes:
    """Return a damaged header without bytes that may be of a record."""
    header = read_header(memoryview(head), 0)
    if header is None:
        return head[:_PREFIX_BYTES]
    return head if header.magic == 2 else head[:_PREFIX_BYTES]
