"""Which offsets a log holds in batches with a good checksum, and whether its indexes lead there.

Magic 0, 1 and 2. Damage here is inside a batch, or it is all there is to the end. Imports
nothing of kdump.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator

import crc32c

_GZIP = 1


def sound_offsets(log: bytes) -> Iterator[tuple[int, int]]:
    """The position of its batch, and each offset in it."""
    for position, piece in _pieces(log):
        for offset in _modern(piece) if piece[16] == 2 else _legacy(piece):
            yield position, offset


def misleads(base: int, log: bytes, index: bytes, times: bytes) -> bool:
    """Whether an entry of the indexes is none, or leads elsewhere than to its batch."""
    if len(index) % 8 or len(times) % 12:
        return True
    found = list(sound_offsets(log))
    last = max((offset for _, offset in found), default=-1)
    offsets = {entry for entry in struct.iter_unpack(">iI", index) if entry != (0, 0)}
    return not offsets <= {(offset - base, position) for position, offset in found} or any(
        base + offset > last for _, offset in struct.iter_unpack(">qi", times)
    )


def _pieces(data: bytes) -> Iterator[tuple[int, bytes]]:
    """What the sizes in front of batches, or of messages, divide ``data`` into."""
    position = 0
    while position + 17 <= len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        stop = position + 12 + size
        if size < 14 or stop > len(data):
            return
        yield position, data[position:stop]
        position = stop


def _modern(batch: bytes) -> range:
    base, crc, delta = struct.unpack_from(">q9xI2xi", batch)
    return range(base, base + delta + 1) if crc == crc32c.crc32c(batch[21:]) else range(0)


def _legacy(message: bytes) -> list[int]:
    """The offset of a message, or of all in a wrapper: relative to the last one in magic 1."""
    (last, crc, magic, attributes) = struct.unpack_from(">q4xIbb", message)
    if crc != zlib.crc32(message[16:]):
        return []
    codec = attributes & 7
    if not codec:
        return [last]
    assert codec == _GZIP
    # Wrappers have no key; behind its size comes that of the value.
    block = gzip.decompress(message[34 if magic else 26 :])
    inner = [struct.unpack_from(">q", each)[0] for _, each in _pieces(block)]
    return [last - inner[-1] + each if magic else each for each in inner]
