"""LogInManifest: a log in a manifest as a Source, whose pieces are stored."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from kdump.errors import SourceError
from kdump.format.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchTable,
    RecordBatch,
    read_header,
)
from kdump.format.kernel.events import CONTROL_BYTES
from kdump.format.manifest.blocks import Block, StoredDamage
from kdump.format.manifest.directories import StoredEntry
from kdump.format.manifest.logs import StoredLog
from kdump.storage.manifests.file import ManifestFile
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.walk import Damage, Reason, WalkedLog

_V2: Final = struct.Struct(">qiibIhiqqqhii")
_LEGACY: Final = struct.Struct(">qiIbBq")
_WIDTH: Final = BatchTable.WIDTH


class LogInManifest(WalkedLog):
    """A Source of a log in a manifest; see ``WalkedLog``."""

    def __init__(self, path: ManifestPath, manifest: ManifestFile, entry: StoredEntry) -> None:
        self.path = path
        self.identity = path.identity(entry.status)
        self._manifest = manifest
        self._log = self._manifest.log(entry.section)
        self.size = entry.status.size
        self.header_digest = self._log.digest
        if self._log.size != self.size:
            raise SourceError(
                path, f"{path}: expected {self.size} bytes, found a log of {self._log.size}"
            )
        self._ends = [block.end for block in self._log.blocks]
        self._number = -1
        self._opened: _OpenBlock | None = None

    @property
    def stored(self) -> StoredLog:
        """The blocks of the log, with their digests."""
        return self._log

    def close(self) -> None:
        """See ``Source.close``."""
        self._number, self._opened = -1, None

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return what is known of the log from ``position`` on; see ``WalkedLog``."""
        if position >= self.size:
            return memoryview(b"")
        known = self._known(position) if position >= 0 else None
        # A header of magic 0 or 1 is shorter than the one that callers ask for.
        if known is None or at_least > max(len(known), HEADER_BYTES):
            raise SourceError(
                self.path,
                f"{self.path}: expected a directory for the bytes at position {position}, found a "
                "manifest, which holds no records",
            )
        return memoryview(known)

    def pieces(self, start: int) -> Iterator[BatchTable | Damage]:
        """Yield the stored batches and damage from ``start`` on."""
        position, hunted = start, False
        for number in range(bisect_right(self._ends, start), len(self._ends)):
            for piece in self._block(number).pieces:
                if isinstance(piece, _DamageAt):
                    if piece.position < position:
                        continue
                    damage = piece.damage
                    yield _damage(piece.position, damage)
                    position = piece.position + damage.size
                    hunted = hunted or damage.claimed_bytes != damage.size
                    continue
                table = piece
                if table.end <= position:
                    continue
                row = 0
                if table.position < position:
                    row = bisect_left(table.column("position"), position)
                if row < len(table) and table[row].position == position:
                    position = table.end
                    yield BatchTable(table.rows[row * _WIDTH :], hunted=hunted)
        if position != self.size:
            raise SourceError(
                self.path,
                f"{self.path}: expected a batch at position {start} of a log in a manifest, found "
                "none",
            )

    def sound_batch(self, position: int) -> RecordBatch | None:
        """Return the batch that begins at ``position``."""
        block = self._block_at(position)
        row = None if block is None else block.row_at(position)
        return None if block is None or row is None else RecordBatch(*block.row(row))

    def first_batch(self) -> RecordBatch | None:
        """Return the first header of a log that begins with a plausible one."""
        if not self._log.plausible:
            return None
        known = self._known(0)
        return None if known is None else read_header(memoryview(known), 0)

    def first_offset(self, wrapper: RecordBatch) -> int | None:
        """Return the stored offset of the first message in a compressed one."""
        block = self._block_at(wrapper.position)
        row = None if block is None else block.row_at(wrapper.position)
        if block is None or row is None:
            self.window(wrapper.position, wrapper.size)  # raises
            return None
        below = block.wrapper(row)
        return None if below < 0 else wrapper.base_offset - below

    def ends_with_zeros(self) -> bool:
        """Return whether the damage at the end ends with zeros."""
        if not self._ends:
            return False
        damages = self._block(len(self._ends) - 1).block.damages
        return bool(damages) and damages[-1].zeros

    def _known(self, position: int) -> bytes | None:
        """Return what is known from ``position`` on, None for nothing."""
        block = self._block_at(position)
        if block is not None:
            row = block.row_at(position)
            if row is not None:
                return block.header(row)
            for damage in block.damages:
                if damage.position == position:
                    return damage.damage.head
        excerpts = self._log.excerpts
        place = bisect_left(excerpts, position, key=lambda excerpt: excerpt[0])
        if place < len(excerpts) and excerpts[place][0] == position:
            return excerpts[place][1]
        return None

    def _block_at(self, position: int) -> _OpenBlock | None:
        number = bisect_right(self._ends, position)
        return self._block(number) if 0 <= position < self.size else None

    def _block(self, number: int) -> _OpenBlock:
        if self._number != number or self._opened is None:
            entry = self._log.blocks[number]
            self._opened = _OpenBlock(self._manifest.block(entry), entry.position)
            self._number = number
        return self._opened


class _DamageAt:
    """A damage and its position in the log."""

    __slots__ = ("damage", "position")

    def __init__(self, position: int, damage: StoredDamage) -> None:
        self.position = position
        self.damage = damage


class _OpenBlock:
    """A block, with its pieces and with the places of control batches and wrappers."""

    def __init__(self, block: Block, position: int) -> None:
        self.block = block
        self.pieces: list[BatchTable | _DamageAt] = []
        self.damages: list[_DamageAt] = []
        self._table = BatchTable(block.rows)
        self._positions = self._table.column("position")
        self._control: dict[int, tuple[int, int]] | None = None
        self._wrappers: dict[int, int] | None = None
        first = 0
        for damage in block.damages:
            position = self._add_table(first, damage.row, position)
            first = damage.row
            self.damages.append(_DamageAt(position, damage))
            self.pieces.append(self.damages[-1])
            position += damage.size
        self._add_table(first, len(block), position)

    def row_at(self, position: int) -> int | None:
        """Return the number of the batch that begins at ``position``."""
        row = bisect_left(self._positions, position)
        return row if row < len(self._positions) and self._positions[row] == position else None

    def row(self, row: int) -> memoryview:
        """Return the numbers of a batch."""
        return self.block.rows[row * _WIDTH : (row + 1) * _WIDTH]

    def header(self, row: int) -> bytes:
        """Return the bytes of a header; of a control batch also what is known of its records."""
        batch = RecordBatch(*self.row(row))
        header = header_bytes(batch)
        if not batch.is_control:
            return header
        if self._control is None:
            self._control = self._places_of_control()
        start, length = self._control[row]
        return header + self.block.control[start : start + length]

    def wrapper(self, row: int) -> int:
        """Return how far the first offset of a wrapper lies below its own, -1 for unreadable."""
        if self._wrappers is None:
            self._wrappers = {}
            magics, attributes = self._table.column("magic"), self._table.column("attributes")
            for number in range(len(self._table)):
                if magics[number] < 2 and attributes[number] & CODEC_MASK:
                    self._wrappers[number] = self.block.wrappers[len(self._wrappers)]
        return self._wrappers.get(row, 0)

    def _places_of_control(self) -> dict[int, tuple[int, int]]:
        places, start = {}, 0
        for number, batch in enumerate(self._table):
            if batch.is_control:
                length = min(batch.size, CONTROL_BYTES) - HEADER_BYTES
                places[number] = start, length
                start += length
        return places

    def _add_table(self, first: int, stop: int, position: int) -> int:
        """Add a table as a piece, and return where it ends: at ``position`` without batches."""
        if first == stop:
            return position
        table = self._table.part(first, stop)
        self.pieces.append(table)
        return table.end


def header_bytes(batch: RecordBatch) -> bytes:
    """Return the bytes of a header: 61 bytes, and 26 before magic 2.

    Of magic 0 the last 8 of these are zeros: they belong to its record.
    """
    size = batch.size - LOG_OVERHEAD
    if batch.magic > 1:
        delta = (batch.last_offset - batch.base_offset + (1 << 63)) % (1 << 64) - (1 << 63)
        fields = (
            batch.base_offset,
            size,
            batch.leader_epoch,
            batch.magic,
            batch.crc,
            batch.attributes,
            delta,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.count,
        )
        return _V2.pack(*fields)
    timestamp = batch.max_timestamp if batch.magic else 0
    return _LEGACY.pack(
        batch.base_offset, size, batch.crc, batch.magic, batch.attributes, timestamp
    )


def _damage(position: int, damage: StoredDamage) -> Damage:
    return Damage(
        position,
        damage.size,
        Reason(damage.reason),
        damage.claimed_bytes,
        damage.stored_crc,
        damage.computed_crc,
    )
