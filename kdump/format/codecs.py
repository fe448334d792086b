"""Decompression and compression of a batch's record block, bounded by a limit in bytes.

Spec: ``org.apache.kafka.common.compress`` (KIP-110 for zstd). A decoder accepts the blocks that
Kafka's own reader accepts. Where that reader is laxer or stricter than the specification of the
codec, the docstring of the decoder says how. No decoder allocates memory in proportion to a size
that damaged bytes claim.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import lz4.block
import lz4.frame
import snappy
import zstandard
from xxhash import xxh32_intdigest

from kdump.errors import DecodeError, LimitError

if TYPE_CHECKING:  # isal has zlib's interface, but its stub takes the error class for an instance
    import zlib
else:
    try:
        from isal import isal_zlib as zlib
    except ImportError:  # no build of isal for this platform
        import zlib

DEFAULT_LIMIT = 64 * 1024 * 1024
"""The default for the most bytes that one block may decompress to."""


class Codec(IntEnum):
    """Compression of a batch: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name that Kafka prints and takes in ``compression.type``, such as ``"gzip"``."""
        return self.name.lower()


CODECS = tuple(Codec)
"""All codecs, by their numbers."""


def decompress(
    codec: Codec, data: bytes | memoryview, limit: int = DEFAULT_LIMIT, magic: int = 2
) -> bytes | bytearray | memoryview:
    """Return the content of one compressed block; for ``Codec.NONE`` that is ``data`` itself.

    ``magic`` is that of the batch or wrapper: lz4 of magic 0 has a header of its own.
    Raises DecodeError if Kafka could not read the block, LimitError if it holds more than ``limit``
    bytes; the bytes after the limit are not checked.
    """
    if not codec:
        return data
    return _DECODERS[codec - 1](memoryview(data), limit, magic)


def check_start(codec: Codec, data: memoryview) -> None:
    """Raise DecodeError if Kafka cannot begin to read one compressed block of magic 2.

    So much does Kafka read of the block of a batch without records, and no more.
    """
    if codec is Codec.GZIP:
        _gzip_header_end(data, 0)
    elif codec is Codec.SNAPPY and not data:
        raise DecodeError("snappy block is empty")
    elif codec is Codec.SNAPPY and not _has_xerial_header(data):
        _snappy_block(data, 0, DEFAULT_LIMIT)
    elif codec is Codec.LZ4:
        _lz4_start(data, 2)


def compress(codec: Codec, data: bytes | memoryview) -> bytes:
    """Return ``data`` as one block of the structure that Kafka's Java client writes.

    The bytes may differ from those of that client, by the version of the library.
    """
    return _ENCODERS[codec](data)


def _over(codec: Codec, limit: int) -> LimitError:
    return LimitError(f"{codec.label} block holds more than the limit of {limit} bytes")


# --- gzip: RFC 1952, java.util.zip.GZIPInputStream

_GZIP_WBITS = 31
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_FIXED = 10  # bytes of a header in front of its optional fields, which its flags name
_GZIP_CHECKED, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 0x02, 0x04, 0x08, 0x10
_GZIP_TRAILER = 8  # bytes after the content of a member: its checksum and its size
_GZIP_LEAST = 26  # as many bytes from a trailer on hold no other member, for Java
_GZIP_BUFFER = 8 * 1024  # bytes that Java reads at once, in Kafka
_GZIP_PIECE = 64 * 1024  # the library copies the bytes after a member, so pieces are small


def _gzip_decode(data: memoryview, limit: int, _: int) -> bytes:
    """Read all members. Like Java, ignore bytes after a member that start no other.

    Java does not look for another one in the last bytes, if they are in its buffer.
    """
    parts: list[bytes] = []
    position = total = buffered = 0
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        start = position
        while not member.eof:
            piece = data[position : position + _GZIP_PIECE]
            if not piece:
                raise DecodeError(
                    f"gzip member at {start} is cut off: no end in {len(data) - start} bytes"
                )
            try:
                part = member.decompress(piece, limit - total + 1)
            except zlib.error as error:
                raise DecodeError(f"gzip member at {start} is corrupt: {error}") from error
            parts.append(part)
            total += len(part)
            if total > limit:
                raise _over(Codec.GZIP, limit)
            position += len(piece) - len(member.unused_data)
        # Java fills its buffer after each header that goes beyond it, and whenever it is empty.
        buffered = max(buffered, _gzip_header_end(data, start))
        content_end = position - _GZIP_TRAILER
        fills = max(0, -(-(content_end - buffered) // _GZIP_BUFFER))
        buffered = min(len(data), buffered + fills * _GZIP_BUFFER)
        if max(buffered, position) == len(data) and buffered - content_end <= _GZIP_LEAST:
            return b"".join(parts)
        try:
            _gzip_header_end(data, position)
        except DecodeError:
            return b"".join(parts)


def _gzip_header_end(data: memoryview, start: int) -> int:
    """Return the end of the header at ``start``. Raise DecodeError if it is bad or cut off."""
    fixed = bytes(data[start : start + _GZIP_FIXED])
    if fixed[:3] != _GZIP_MAGIC or len(fixed) < _GZIP_FIXED:
        raise DecodeError(
            f"gzip header expected at {start}, found {len(data) - start} bytes of something else"
        )
    flags, end = fixed[3], start + _GZIP_FIXED
    if flags & _GZIP_EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        while flags & flag and end <= len(data):
            piece = bytes(data[end : end + _GZIP_PIECE])
            zero = piece.find(0)
            if zero >= 0:
                end += zero + 1
                break
            end += len(piece) or 1
    checked = end
    if flags & _GZIP_CHECKED:
        end += 2
    if end > len(data):
        raise DecodeError(f"gzip header at {start} is cut off after {len(data) - start} bytes")
    if flags & _GZIP_CHECKED:
        stored = int.from_bytes(data[checked:end], "little")
        if stored != zlib.crc32(data[start:checked]) & 0xFFFF:
            raise DecodeError(f"gzip header at {start} does not match its checksum {stored:04x}")
    return end


def _gzip_encode(data: bytes | memoryview) -> bytes:
    return zlib.compress(data, wbits=_GZIP_WBITS)


# --- snappy: org.xerial.snappy.SnappyInputStream

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_XERIAL_REPEAT = int.from_bytes(_XERIAL_MAGIC[:4], "big")  # a length that is a header instead
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_MOST = 22  # a copy of 3 bytes yields at most 64
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")


def _snappy_decode(data: memoryview, limit: int, _: int) -> bytes:
    """Read a stream of xerial's format or, without its magic, a raw block, as other clients write.

    Like xerial's reader, ignore a tail that is shorter than a length. A repeated header whose magic
    is wrong after its first 4 bytes ends one call of that reader, and Kafka's next call, which
    expects the end, goes on after it. That holds unless the content ends with Kafka's buffer.
    """
    if not _has_xerial_header(data):
        return _snappy_block(data, 0, limit)
    parts: list[bytes] = []
    total = 0
    goes_on = False
    position = len(_XERIAL_HEADER)
    while len(data) - position >= _U32.size:
        (size,) = _U32.unpack_from(data, position)
        if size == _XERIAL_REPEAT:
            header = data[position : position + len(_XERIAL_HEADER)]
            if len(header) < len(_XERIAL_HEADER):
                raise DecodeError(
                    f"snappy header at {position} is cut off after {len(header)} bytes"
                )
            if header[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
                if goes_on or not total:
                    break
                goes_on = True
                position += len(_XERIAL_HEADER)
                continue
            (version,) = _I32.unpack_from(header, len(_XERIAL_MAGIC))
            if version < 1:
                raise DecodeError(f"snappy header at {position} has version {version}, expected 1")
            position += len(_XERIAL_HEADER)
            continue
        position += _U32.size
        if size > len(data) - position:
            raise DecodeError(
                f"snappy block at {position} claims {size} bytes, {len(data) - position} are left"
            )
        part = _snappy_block(data[position : position + size], position, limit - total)
        parts.append(part)
        total += len(part)
        position += size
    return b"".join(parts)


def _has_xerial_header(data: memoryview) -> bool:
    return len(data) >= len(_XERIAL_HEADER) and data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC


def _snappy_block(block: memoryview, position: int, limit: int) -> bytes:
    """Decompress one raw block; check the length that it declares before allocating memory."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise DecodeError(f"snappy block at {position} does not begin with a length")
    if length > limit:
        raise LimitError(
            f"snappy block at {position} goes beyond the limit by {length - limit} bytes"
        )
    if length > _SNAPPY_MOST * len(block):
        raise DecodeError(
            f"snappy block at {position} claims {length} bytes, more than {len(block)} can yield"
        )
    try:
        content: bytes = snappy.decompress(block)
    except snappy.UncompressError as error:
        raise DecodeError(f"snappy block at {position} is corrupt: {error.__cause__}") from error
    return content


def _snappy_encode(data: bytes | memoryview) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block: bytes = snappy.compress(view[start : start + _XERIAL_BLOCK_BYTES])
        parts += (_U32.pack(len(block)), block)
    return b"".join(parts)


# --- lz4: frame format, Kafka's Lz4BlockInputStream

_LZ4_STORED = 0x8000_0000
_LZ4_HAS_CONTENT_SIZE = 0x08
_LZ4_DESCRIPTOR = 4  # after the magic: two bytes of flags, an optional content size, a checksum
_LZ4_64_KIB = lz4.frame.BLOCKSIZE_MAX64KB
_lz4_compress = lz4.frame.compress
_LE32 = struct.Struct("<I")


def _lz4_decode(data: memoryview, limit: int, magic: int) -> bytes | bytearray | memoryview:
    """Read one frame block by block; in magic 0 the checksum of its header is of another kind.

    Like Kafka, ignore the content size, the content checksum and all bytes after the end mark, and
    refuse blocks that depend on earlier ones, or that do not match a checksum of their own. A block
    without content ends the frame, too: Kafka's reader returns no bytes for it.
    """
    (block_max, checksum_size, content_checksum), position = _lz4_start(data, magic)
    parts: list[bytes | bytearray | memoryview] = []
    total = 0
    while True:
        if len(data) - position < _LE32.size:
            raise DecodeError(f"lz4 frame is cut off: no block and no end mark at {position}")
        (word,) = _LE32.unpack_from(data, position)
        position += _LE32.size
        size = word & ~_LZ4_STORED
        if size == 0:
            break
        left = len(data) - position - checksum_size
        if size > block_max or size > left:
            raise DecodeError(
                f"lz4 block at {position} has {size} bytes, expected {min(block_max, left)} at most"
            )
        block: bytes | bytearray | memoryview = data[position : position + size]
        if checksum_size:
            (stored,) = _LE32.unpack_from(data, position + size)
            if stored != xxh32_intdigest(block):
                raise DecodeError(f"lz4 block at {position} does not match its checksum")
        if not word & _LZ4_STORED:
            try:
                # As bytes, the library would copy a result that is shorter than the given size.
                block = lz4.block.decompress(
                    block, uncompressed_size=block_max, return_bytearray=True
                )
            except lz4.block.LZ4BlockError as error:
                raise DecodeError(f"lz4 block at {position} is corrupt: {error}") from error
        if not len(block):
            return b"".join(parts)
        parts.append(block)
        total += len(block)
        if total > limit:
            raise _over(Codec.LZ4, limit)
        position += size + checksum_size
    if content_checksum and len(data) - position < _LE32.size:
        raise DecodeError(f"lz4 frame is cut off: no content checksum at {position}")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _lz4_start(data: memoryview, magic: int) -> tuple[_Lz4Frame, int]:
    """Read the header of the frame; return it and its size in bytes. Raises DecodeError."""
    size = 15 if len(data) > 4 and data[4] & _LZ4_HAS_CONTENT_SIZE else 7
    return _lz4_frame(bytes(data[:size]), size, magic > 0), size


class _Lz4Frame(NamedTuple):
    """The header of a frame: sizes in bytes, and whether a content checksum ends the frame."""

    block_max: int
    checksum_size: int
    content_checksum: bool


@lru_cache(maxsize=64)  # a producer writes the same header each time
def _lz4_frame(frame_header: bytes, size: int, check_header: bool) -> _Lz4Frame:
    """Read the header of a frame, whose full length is ``size``. Raises DecodeError."""
    if not check_header and len(frame_header) == size:
        checksum = _lz4_checksum(frame_header[_LZ4_DESCRIPTOR:-1])
        frame_header = frame_header[:-1] + bytes([checksum])
    try:
        # The library checks magic, version, reserved bits and header checksum.
        frame = lz4.frame.get_frame_info(frame_header)
    except RuntimeError as error:
        raise DecodeError(f"lz4 frame header is bad: {error}") from error
    if frame["skippable"] or frame["block_linked"]:
        raise DecodeError("lz4 frame holds dependent blocks, expected independent blocks")
    checksum_size = 4 if frame["block_checksum"] else 0
    return _Lz4Frame(frame["block_size"], checksum_size, frame["content_checksum"])


def _lz4_checksum(data: bytes | bytearray) -> int:
    """Return the second byte of the xxHash-32 of ``data``.

    The library writes that hash as the content checksum of a frame.
    """
    return int(lz4.frame.compress(data, content_checksum=True)[-3])


def _lz4_encode(data: bytes | memoryview) -> bytes:
    frame: bytes = _lz4_compress(data, block_size=_LZ4_64_KIB, block_linked=False, store_size=False)
    return frame


# --- zstd: RFC 8878, com.github.luben.zstd.ZstdInputStreamNoFinalizer

_ZSTD_MAGIC = 0xFD2F_B528
_ZSTD_SKIPPABLE = 0x184D_2A50  # and the 15 numbers after it
_ZSTD_HAS_CHECKSUM = 0x04
_ZSTD_RLE = 1
_ZSTD_FIRST_READ = 64 * 1024
_ZSTD_BUFFER = 128 * 1024 + 3  # bytes that zstd-jni reads at once: a block and its header
_zstd_decompressor = zstandard.ZstdDecompressor()
_zstd_compressor = zstandard.ZstdCompressor(write_content_size=False)


def _zstd_decode(data: memoryview, limit: int, _: int) -> bytes:
    """Read all frames; refuse bytes that start no frame, and a frame that is cut off.

    zstd-jni takes the end of the block for the end of its content if a whole frame has ended since
    it last filled its buffer. So it reads a last frame that is cut off as far as it goes, if that
    lies in one of its buffers with the end of the frame before. The reader of the library here is
    bounded, but reads every frame that is cut off so. The frames are measured first for that
    reason.
    """
    position = 0
    while position < len(data):
        try:
            position = _zstd_frame_end(data, position)
        except _CutFrame:
            if not position or (position - 1) // _ZSTD_BUFFER < (len(data) - 1) // _ZSTD_BUFFER:
                raise
            break
    parts: list[bytes] = []
    total = 0
    size = max(_ZSTD_FIRST_READ, 4 * len(data))
    with _zstd_decompressor.stream_reader(data, read_across_frames=True) as reader:
        while total <= limit:
            wanted = min(size, limit - total + 1)
            try:
                part = reader.read(wanted)
            except zstandard.ZstdError as error:
                raise DecodeError(f"zstd block is corrupt: {error}") from error
            parts.append(part)
            total += len(part)
            if len(part) < wanted:
                return b"".join(parts)
            size *= 2
    raise _over(Codec.ZSTD, limit)


def decompress_frame(frame: bytes, limit: int) -> bytes:
    """Return the content of a single frame of zstd, in a fourth of the time of ``decompress``.

    Raises DecodeError, also if it holds more than ``limit`` bytes.
    """
    try:
        if (size := zstandard.frame_content_size(frame)) > limit:  # the library would believe it
            raise DecodeError(f"zstd frame of at most {limit} bytes expected, found {size}")
        return bytes(
            _zstd_decompressor.decompress(
                frame, max_output_size=max(limit, 1), allow_extra_data=False
            )
        )
    except zstandard.ZstdError as error:
        raise DecodeError(f"zstd frame is corrupt: {error}") from error


class _CutFrame(DecodeError):
    """A frame whose end is missing, however much of it there is."""


def _zstd_frame_end(data: memoryview, start: int) -> int:
    """Return the end of the frame at ``start``, by its block headers alone.

    Raises DecodeError, of the class _CutFrame if the bytes end inside the frame.
    """
    if len(data) - start >= 8:
        magic, size = (int(number) for number in struct.unpack_from("<II", data, start))
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            end = start + 8 + size
            if end <= len(data):
                return end
        elif magic != _ZSTD_MAGIC:
            raise DecodeError(f"zstd frame expected at {start}, found magic {magic:#010x}")
        else:
            return _zstd_blocks_end(data, start)
    raise _CutFrame(f"zstd frame at {start} is cut off: {len(data) - start} bytes are left")


def _zstd_blocks_end(data: memoryview, start: int) -> int:
    position = start + int(zstandard.frame_header_size(data[start:]))
    last = 0
    while not last:
        header = int.from_bytes(data[position : position + 3], "little")
        last = header & 1
        size = 1 if header >> 1 & 3 == _ZSTD_RLE else header >> 3
        position += 3 + size
        if position > len(data):
            raise _CutFrame(f"zstd frame at {start} is cut off at {len(data)}")
    if data[start + 4] & _ZSTD_HAS_CHECKSUM:
        position += 4
        if position > len(data):
            raise _CutFrame(f"zstd frame at {start} is cut off in its checksum")
    return position


def _zstd_encode(data: bytes | memoryview) -> bytes:
    frame: bytes = _zstd_compressor.compress(data)
    return frame


_DECODERS: Final[tuple[Callable[[memoryview, int, int], bytes | bytearray | memoryview], ...]] = (
    _gzip_decode,
    _snappy_decode,
    _lz4_decode,
    _zstd_decode,
)
"""Decoders by codec number, from 1 on; they take a block, the limit in bytes, and the magic."""
_ENCODERS: Final[tuple[Callable[[bytes | memoryview], bytes], ...]] = (
    bytes,
    _gzip_encode,
    _snappy_encode,
    _lz4_encode,
    _zstd_encode,
)
"""Encoders by codec number."""
