"""A digest of a segment's batch headers and damage, which stands for every byte of its log.

The header of a batch holds the checksum of the rest of it. So the digest of the headers changes
with every byte, also with base offsets, leader epochs and the order of batches, which no checksum
covers. It costs no more reading than the walk.

The digest is XXH3 of 128 bits over the pieces of the walk, in the order of the file. It detects
accidents, not forgeries.

Spec: kdump-manifest-format(5), section 4.
"""

from __future__ import annotations

import struct
from typing import Final

from xxhash import xxh3_128

from kdump.format.batch import HEADER_BYTES, BatchTable
from kdump.format.kernel import digest as _digest
from kdump.storage.logdir import MAX_LOG_BYTES
from kdump.storage.source import Source, stretch
from kdump.storage.walk import Damage

#: The form of the digest: it increases when other bytes are hashed for the same log.
DIGEST_FORM: Final = 1

#: The headers of a full table take 500 kB.
_ROOM_BYTES: Final = 64 * 1024
#: What comes before the bytes of a damage: a word, and the size.
_DAMAGE: Final = struct.Struct(">6sq")


class HeaderDigest:
    """The digest of the pieces of one walk, in the order of their addition."""

    def __init__(self) -> None:
        self._hash = xxh3_128()
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def add(self, piece: BatchTable | Damage, source: Source) -> None:
        """Add the newest piece of a walk over ``source``: the first 61 bytes of each batch.

        That are 26 bytes before magic 2. Of damage all bytes are added that a broker can address,
        but of preallocated zeros only their number. Raises SourceError.
        """
        if isinstance(piece, Damage):
            self._add_damage(piece, source)
            return
        positions, row = piece.column("position"), 0
        while row < len(piece):
            position = positions[row]
            view = source.window(position, HEADER_BYTES)
            row, size = _digest.copy_headers(view, position, piece.rows, row, self._room)
            self._hash.update(self._room[:size])

    def digest(self) -> bytes:
        """Return the 16 bytes of the digest."""
        return self._hash.digest()

    def _add_damage(self, damage: Damage, source: Source) -> None:
        self._hash.update(_DAMAGE.pack(b"damage", damage.size))
        if damage.empty:
            return
        # A hole in a file that no broker loads may have terabytes.
        end = min(damage.position + damage.size, MAX_LOG_BYTES)
        for piece in stretch(source, damage.position, end):
            self._hash.update(piece)
