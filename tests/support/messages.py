"""Reads magic 0 and 1 from a log for tests.

Spec: KOD 3.1 and 3.4 (``LegacyRecord``, ``AbstractLegacyRecordBatch``), sound logs only.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import lz4.block
import snappy

CODEC_MASK, LOG_APPEND_TIME = 0x07, 0x08
NONE, GZIP, SNAPPY, LZ4 = range(4)

_PREFIX = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_OVERHEAD = 12

_XERIAL_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_LZ4_HEAD_BYTES = 7
_LZ4_STORED = 0x80000000
_LZ4_BLOCK_BYTES = 1 << 16


class Message(NamedTuple):
    """A message as it is stored; ``timestamp`` in ms is None in magic 0."""

    offset: int
    magic: int
    attributes: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK


class Unit(NamedTuple):
    """What a log holds side by side: a plain message, or a wrapper and the messages inside."""

    outer: Message
    inner: tuple[Message, ...]

    @property
    def relative(self) -> bool:
        """Whether the offsets inside are counted back from the wrapper's."""
        return bool(self.inner) and self.outer.magic == 1

    def records(self) -> Iterator[tuple[int, int | None, str, bytes | None, bytes | None]]:
        """Offset, timestamp, its type, key and value of each record as a consumer has them."""
        outer = self.outer
        appended = bool(outer.attributes & LOG_APPEND_TIME)
        kind = "LogAppendTime" if appended else "CreateTime"
        shift = outer.offset - self.inner[-1].offset if self.relative else 0
        for message in self.inner or (outer,):
            timestamp = outer.timestamp if appended else message.timestamp
            if timestamp is None:
                kind = "NoTimestampType"
            yield message.offset + shift, timestamp, kind, message.key, message.value


def units(content: bytes) -> Iterator[Unit]:
    """The messages and wrappers in a log, one after the other; batches of magic 2 not."""
    for outer in _messages(content):
        inner: tuple[Message, ...] = ()
        if outer.codec != NONE:
            assert outer.key is None
            assert outer.value is not None
            inner = tuple(_messages(_decompressed(outer.codec, outer.value)))
            assert inner
        yield Unit(outer, inner)


def _messages(content: bytes) -> Iterator[Message]:
    position = 0
    while position + _PREFIX.size <= len(content):
        offset, size, crc, magic, attributes = _PREFIX.unpack_from(content, position)
        if size == 0:
            return
        end = position + _OVERHEAD + size
        if magic < 2:
            assert zlib.crc32(content[position + _OVERHEAD + 4 : end]) == crc
            at = position + _PREFIX.size
            timestamp = None
            if magic == 1:
                (timestamp,) = _TIMESTAMP.unpack_from(content, at)
                at += _TIMESTAMP.size
            key, at = _bytes(content, at)
            value, at = _bytes(content, at)
            assert at == end
            yield Message(offset, magic, attributes, timestamp, key, value)
        position = end


def _bytes(content: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(content, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    return content[at : at + length], at + length


def _decompressed(codec: int, block: bytes) -> bytes:
    if codec == GZIP:
        return gzip.decompress(block)
    if codec == SNAPPY:
        assert block.startswith(_XERIAL_HEAD)
        return b"".join(map(snappy.uncompress, _chunks(block)))
    assert codec == LZ4
    return b"".join(_lz4_blocks(block))


def _chunks(block: bytes) -> Iterator[bytes]:
    at = len(_XERIAL_HEAD)
    while at < len(block):
        chunk, at = _bytes(block, at)
        assert chunk is not None
        yield chunk


def _lz4_blocks(frame: bytes) -> Iterator[bytes]:
    """The blocks of a frame; its header's checksum, wrong in magic 0, is not looked at."""
    at = _LZ4_HEAD_BYTES
    while size := int.from_bytes(frame[at : at + 4], "little"):
        at += 4
        stored, size = size & _LZ4_STORED, size & ~_LZ4_STORED
        piece = frame[at : at + size]
        yield piece if stored else lz4.block.decompress(piece, uncompressed_size=_LZ4_BLOCK_BYTES)
        at += size
