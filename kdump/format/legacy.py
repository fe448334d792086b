"""Messages of magic 0 and 1, alone or compressed into the value of a wrapper message.

A message is its own batch: an offset, a size, and a checksum over the rest. A wrapper is a message
without a key whose value is a compressed run of messages. Its offset is that of the last message.

Spec: ``LegacyRecord``, ``AbstractLegacyRecordBatch.DeepRecordsIterator`` (KIP-31, KIP-32; KOD 3.1).
As there, a size below zero is null, and bytes after the value are ignored. For kafka-python 3.0 a
key or value of another such size than -1 is empty; aiokafka 0.14 raises an error, and librdkafka
2.16 stops in front of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kdump.errors import CutError, DecodeError
from kdump.format.batch import (
    CODEC_MASK,
    MIN_OFFSET,
    Chunk,
    RecordBatch,
    TimestampType,
)
from kdump.format.codecs import DEFAULT_LIMIT, Codec, decompress
from kdump.format.kernel import records as _records

_SIZE = struct.Struct(">i")
_SIZES = struct.Struct(">ii")
#: The position of the attributes in a message of magic 0 and 1.
_ATTRIBUTES_AT: Final = 17
#: The position of the key's size in a message of magic 0 and 1.
_KEY_AT: Final = (18, 26)
_ENDINGS = {
    _records.BAD_LENGTH: "a size that no message has",
    _records.BAD_FIELD: "a key or value that does not fit into its message",
    _records.NESTED: "a compressed message, which no wrapper may hold",
}


def is_wrapper(batch: RecordBatch) -> bool:
    """Return whether ``batch`` is a wrapper: a message that holds other messages."""
    return batch.magic < 2 and batch.codec_id != Codec.NONE


def record_block(batch: RecordBatch, data: memoryview, limit: int = DEFAULT_LIMIT) -> memoryview:
    """Return the messages in ``batch``: decompressed from a wrapper, else ``data`` itself.

    ``data`` is the whole message or wrapper. Raises DecodeError, or LimitError beyond ``limit``
    bytes.
    """
    if batch.codec is Codec.NONE:
        return data
    if batch.codec is Codec.ZSTD or batch.magic < 0:
        raise DecodeError(
            "expected gzip, snappy or lz4 in a wrapper of magic 0 or 1, found "
            f"{batch.codec.label} with magic {batch.magic} in the wrapper at position "
            f"{batch.position}"
        )
    value = _field(batch, data, _field(batch, data, _KEY_AT[batch.magic])[1])[0]
    if value is None:
        raise DecodeError(
            f"expected messages in the wrapper at position {batch.position}, found a null value"
        )
    return memoryview(decompress(batch.codec, value, limit, batch.magic))


def wrapper_content(magic: int, codec: int, data: memoryview) -> memoryview | None:
    """Return the compressed messages in a wrapper; ``data`` is the whole wrapper.

    None for a wrapper with a key, which no client writes, or with a magic or codec that no wrapper
    has.
    """
    if magic < 0 or codec == Codec.ZSTD:
        return None
    if len(data) >= _KEY_AT[magic] + _SIZES.size:
        start = _KEY_AT[magic] + _SIZES.size
        key_size, size = _SIZES.unpack_from(data, _KEY_AT[magic])
        if key_size < 0 <= size <= len(data) - start:
            return data[start : start + size]
    return None


def first_offset(batch: RecordBatch, data: memoryview, limit: int = DEFAULT_LIMIT) -> int:
    """Return the offset of the first message in the wrapper ``batch``; ``data`` is all of it.

    Raises DecodeError where a broker cannot read that offset either, or LimitError.
    """
    block = record_block(batch, data, limit)
    base = _base_offset(batch, block)
    if block[_ATTRIBUTES_AT] & CODEC_MASK:
        raise DecodeError(
            f"expected no compressed message in the wrapper at position {batch.position}"
        )
    return base + int.from_bytes(block[:8], "big", signed=True)


def _field(batch: RecordBatch, data: memoryview, position: int) -> tuple[memoryview | None, int]:
    """Return the key or value whose size is at ``position``, and the position of its end."""
    start = position + _SIZE.size
    if start <= len(data):
        (size,) = _SIZE.unpack_from(data, position)
        if size < 0:
            return None, start
        if size <= len(data) - start:
            return data[start : start + size], start + size
    raise DecodeError(
        f"expected a key and a value that fit into the {batch.size} bytes of the wrapper at "
        f"position {batch.position}, found others"
    )


def read_chunks(batch: RecordBatch, block: memoryview, rows: memoryview) -> Iterator[Chunk]:
    """Read the messages of ``block`` into ``rows``; yield a chunk for each fill.

    Each fill overwrites the rows of the one before. The header columns hold the position of the
    message, and -1 if the message does not match its own checksum. A chunk ends where the magic
    changes, as the cleaner of 0.10.0 could leave it (KAFKA-4298).

    Raises DecodeError after the last message that can be read. If messages do not match their
    checksums, raises it after the last one: consumers that check them stop at the first. If the
    last message is cut off, raises its subclass CutError: Kafka's readers end the wrapper in front
    of it without an error.
    """
    wrapped = is_wrapper(batch)
    base = _base_offset(batch, block) if wrapped else 0
    log_append = wrapped and batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    position, previous, mismatched = 0, MIN_OFFSET, 0
    while position < len(block):
        n, position, ending, magic, previous, largest, disorder, nulls, mismatches = (
            _records.read_messages(
                block, position, wrapped, base, log_append, batch.max_timestamp, previous, rows
            )
        )
        if n:
            yield Chunk(n, magic, previous, largest, disorder, nulls)
        mismatched += mismatches
        if ending == _records.CUT:
            break
        if ending != _records.READ:
            raise DecodeError(
                f"expected messages up to the end, found {_ENDINGS[ending]}, in the batch at "
                f"position {batch.position}, byte {position} of its {len(block)} bytes of messages"
            )
    if mismatched:
        raise DecodeError(
            f"expected the messages in the wrapper at position {batch.position} to match their "
            f"checksums, found {mismatched} that do not"
        )
    if position < len(block):
        raise CutError(
            f"expected messages up to the end of the wrapper at position {batch.position}, found "
            f"{len(block) - position} bytes of a message that is cut off, which Java clients skip "
            "without an error"
        )


def _base_offset(batch: RecordBatch, block: memoryview) -> int:
    """Return the offset that the offsets inside a wrapper are relative to, 0 for absolute ones.

    Raises DecodeError if it cannot be computed.
    """
    count, last_offset, position, ending = _records.count_messages(block)
    if count == 0 or ending == _records.BAD_LENGTH:
        raise DecodeError(
            f"expected a run of messages in the wrapper at position {batch.position}, found "
            f"{count} and then {len(block) - position} bytes of something else"
        )
    # Old releases of librdkafka left the offset of the wrapper at 0, and brokers accepted it.
    if batch.magic == 0 or batch.last_offset == 0:
        return 0
    if batch.last_offset < last_offset:
        raise DecodeError(
            f"expected an offset of {last_offset} or more, that of the last message inside, in the "
            f"wrapper at position {batch.position}, found {batch.last_offset}"
        )
    # The bytes may hold an offset below 0: the difference wraps to 64 bits, as in Java.
    return int((batch.last_offset - last_offset - MIN_OFFSET) % 2**64 + MIN_OFFSET)
