"""What no reader of a segment can beat: checksums over its bytes, and the codecs' libraries alone.

Spec: the libraries' own functions, called with everything that a reader has to find out first.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lz4.block
import snappy
import zstandard
from crc32c import crc32c

from kdump.format.batch import CHECKSUM_START, HEADER_BYTES, BatchTable
from kdump.format.codecs import Codec, decompress
from kdump.storage.access import open_source
from kdump.storage.walk import walk

try:
    from isal import isal_zlib as zlib
except ImportError:
    import zlib  # type: ignore[no-redef]

_LEGACY_CHECKSUM_START = 16
#: Of a wrapper of magic 1: its header, the size of a null key, and that of its value.
_WRAPPER_HEADER = 26 + 4 + 4
_XERIAL_HEADER = 16
_LZ4_HEADER = 7
_LZ4_BLOCK_BYTES = 64 * 1024
_zstd = zstandard.ZstdDecompressor()


@dataclass(frozen=True, slots=True)
class Piece:
    """What one call decompresses: a stretch of the file, and the size of its content."""

    start: int
    stop: int
    content_bytes: int


@dataclass(frozen=True, slots=True)
class Compressed:
    """A batch: the stretch that its checksum covers, and the pieces of its block."""

    start: int
    stop: int
    pieces: tuple[Piece, ...]


def checksum(path: Path) -> None:
    """Map the file and compute one crc32c over all of it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        crc32c(mapped)


def checksum_and_decompress(path: Path, codec: Codec, batches: list[Compressed]) -> None:
    """Map the file; compute each batch's checksum and decompress its pieces."""
    content = _CONTENT[codec]
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as view,
    ):
        for batch in batches:
            crc32c(view[batch.start : batch.stop])
            for piece in batch.pieces:
                content(view[piece.start : piece.stop], piece.content_bytes)


def decompress_and_compress(path: Path, codec: Codec, batches: list[Compressed]) -> None:
    """Map the file; decompress the pieces of each batch, and compress what was in them again."""
    content, compressed = _CONTENT[codec], _COMPRESSED[codec]
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped,
        memoryview(mapped) as view,
    ):
        for batch in batches:
            for piece in batch.pieces:
                compressed(content(view[piece.start : piece.stop], piece.content_bytes))


def find_pieces(path: Path, codec: Codec) -> list[Compressed]:
    """What the functions above are told in advance; the log must be whole, of magic 1 or 2."""
    found = []
    with open_source(path, mapped=True) as source:
        for table in walk(source, 0):
            assert isinstance(table, BatchTable)
            for batch in table:
                legacy, stop = batch.magic < 2, batch.position + batch.size
                start = batch.position + (_WRAPPER_HEADER if legacy else HEADER_BYTES)
                checked = _LEGACY_CHECKSUM_START if legacy else CHECKSUM_START
                block = bytes(source.window(start)[: stop - start])
                pieces = tuple(
                    Piece(start + one.start, start + one.stop, one.content_bytes)
                    for one in _pieces(codec, block)
                )
                found.append(Compressed(batch.position + checked, stop, pieces))
    return found


def _pieces(codec: Codec, block: bytes) -> list[Piece]:
    """The pieces of one block; those of lz4 and snappy are framed in it."""
    if codec is Codec.LZ4:
        return _framed(block, _LZ4_HEADER, "little", lambda data: _lz4(data, _LZ4_BLOCK_BYTES))
    if codec is Codec.SNAPPY:
        return _framed(block, _XERIAL_HEADER, "big", snappy.decompress)
    return [Piece(0, len(block), len(decompress(codec, block)))]


def _framed(
    block: bytes, start: int, order: Literal["little", "big"], content: Callable[[bytes], bytes]
) -> list[Piece]:
    """Pieces with their sizes in four bytes before them; the size 0 ends them."""
    pieces = []
    while size := int.from_bytes(block[start : start + 4], order):
        start += 4
        pieces.append(Piece(start, start + size, len(content(block[start : start + size]))))
        start += size
    return pieces


def _lz4(data: bytes | memoryview, content_bytes: int) -> bytes:
    content: bytes = lz4.block.decompress(data, uncompressed_size=content_bytes)
    return content


_CONTENT: dict[Codec, Callable[[memoryview, int], bytes]] = {
    Codec.GZIP: lambda data, size: zlib.decompress(data, 31, size),
    Codec.SNAPPY: lambda data, _: snappy.decompress(data),
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data, size: _zstd.decompress(data, size),
}
# Each as kdump calls it for a new batch, but for what frames the pieces of lz4 and snappy.
_COMPRESSED: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.GZIP: lambda data: zlib.compress(data, wbits=31),
    Codec.SNAPPY: snappy.compress,
    Codec.LZ4: lambda data: lz4.block.compress(data, store_size=False),
}
