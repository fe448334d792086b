"""Logs: the blocks of a log, what recovery sees of it, and what stands at odd positions.

Spec: kdump-manifest-format(5), section 4.
"""

from __future__ import annotations

import struct
from typing import Final

from kdump.format.batch import HEADER_BYTES
from kdump.format.manifest.blocks import BATCHES
from kdump.format.manifest.cursor import SectionCursor, pack_count, pack_data
from kdump.values import frozen

#: The most excerpts of a log.
EXCERPTS: Final = 4_096
#: The largest size of a log: what a signed number of 64 bits can hold, with room for sums.
_LARGEST: Final = 1 << 62
_HEAD: Final = struct.Struct(">qB16s")
_BLOCK: Final = struct.Struct(">qIQ16s")
_POSITION: Final = struct.Struct(">q")
_PLAUSIBLE: Final = 1


@frozen
class BlockEntry:
    """A block of a log: from ``position`` up to ``end``; ``section`` is its place in the file."""

    position: int
    end: int
    batches: int
    section: int
    digest: bytes


@frozen
class StoredLog:
    """The blocks of a log of ``size`` bytes.

    ``plausible``: at its start a plausible header stands, and another one or the end behind that
    batch. ``digest`` is that of all headers and damage. ``excerpts`` are (position, bytes).
    """

    size: int
    plausible: bool
    digest: bytes
    blocks: tuple[BlockEntry, ...]
    excerpts: tuple[tuple[int, bytes], ...]

    @property
    def batches(self) -> int:
        """The number of sound batches."""
        return sum(block.batches for block in self.blocks)


def encode_log(log: StoredLog) -> bytes:
    """Return the payload of a log."""
    parts = [_HEAD.pack(log.size, log.plausible * _PLAUSIBLE, log.digest)]
    parts.append(pack_count(len(log.blocks)))
    parts += (
        _BLOCK.pack(block.end, block.batches, block.section, block.digest) for block in log.blocks
    )
    parts.append(pack_count(len(log.excerpts)))
    for position, data in log.excerpts:
        parts += (_POSITION.pack(position), pack_data(data))
    return b"".join(parts)


def decode_log(payload: bytes) -> StoredLog:
    """Return the log of a payload. Raises DecodeError."""
    cursor = SectionCursor(payload, "log")
    size, flags, digest = cursor.unpack(_HEAD)
    if not 0 <= size <= _LARGEST or flags > _PLAUSIBLE:
        raise cursor.error("a log", f"{size} bytes and flags {flags}")
    blocks: list[BlockEntry] = []
    position = 0
    for _ in range(cursor.count(_BLOCK.size)):
        end, batches, section, block_digest = cursor.unpack(_BLOCK)
        if not position < end <= size or batches > BATCHES:
            raise cursor.error(
                f"a block behind {position} within {size} bytes", f"{batches} batches up to {end}"
            )
        blocks.append(BlockEntry(position, end, batches, section, block_digest))
        position = end
    if position != size:
        raise cursor.error(f"blocks of {size} bytes", f"{position}")
    return StoredLog(size, bool(flags), digest, tuple(blocks), _read_excerpts(cursor, size))


def _read_excerpts(cursor: SectionCursor, size: int) -> tuple[tuple[int, bytes], ...]:
    count = cursor.count(_POSITION.size)
    if count > EXCERPTS:
        raise cursor.error(f"at most {EXCERPTS} excerpts", f"{count}")
    excerpts: list[tuple[int, bytes]] = []
    before = -1
    for _ in range(count):
        (position,) = cursor.unpack(_POSITION)
        data = cursor.data()
        if not before < position < size or len(data) > min(HEADER_BYTES, size - position):
            raise cursor.error("an excerpt of the log", f"{len(data)} bytes at {position}")
        excerpts.append((position, data))
        before = position
    cursor.end()
    return tuple(excerpts)
