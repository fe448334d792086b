"""Messages of magic 0 and 1 as the Java client and brokers write them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

from kdump.format.batch import LOG_APPEND_TIME, Record, TimestampType
from kdump.format.codecs import _LZ4_DESCRIPTOR, Codec, _lz4_checksum, compress

#: offset, size, crc
_PREFIX = struct.Struct(">qiI")
_SIZE = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")


def encode_message(
    record: Record,
    magic: int,
    *,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return a message of magic 0, which has no timestamp, or 1; ``codec`` marks a wrapper."""
    body = bytearray((magic, codec))
    if magic > 0:
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            body[1] |= LOG_APPEND_TIME
        body += _TIMESTAMP.pack(record.timestamp)
    for field in (record.key, record.value):
        body += _SIZE.pack(-1) if field is None else _SIZE.pack(len(field)) + field
    return _PREFIX.pack(record.offset, 4 + len(body), crc32(body)) + body


def encode_wrapper(
    records: Sequence[Record],
    magic: int,
    codec: Codec,
    *,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_timestamp: int = -1,
) -> bytes:
    """Return ``records``, at least one, in a wrapper as a broker writes it.

    ``append_timestamp`` is the timestamp of the wrapper for LogAppendTime; the messages inside have
    their own.
    """
    last = records[-1].offset
    relative_to = records[0].offset if magic > 0 else 0
    run = b"".join(
        encode_message(
            replace(record, offset=record.offset - relative_to),
            magic,
            timestamp_type=timestamp_type,
        )
        for record in records
    )
    timestamp = append_timestamp
    if timestamp_type is TimestampType.CREATE_TIME:
        timestamp = max(record.timestamp for record in records)
    value = compress(codec, run)
    if codec is Codec.LZ4 and magic == 0:
        value = _lz4_of_magic_0(value)
    wrapper = Record(last, timestamp, None, value)
    return encode_message(wrapper, magic, codec=codec, timestamp_type=timestamp_type)


def _lz4_of_magic_0(frame: bytes) -> bytes:
    """Return ``frame`` with the header checksum that clients before magic 1 wrote.

    It covers the magic of the frame too. Their readers refuse the checksum of the specification;
    later readers ignore it in magic 0 (KAFKA-3160).
    """
    frame_header = frame[: _LZ4_DESCRIPTOR + 2]
    return frame_header + bytes([_lz4_checksum(frame_header)]) + frame[len(frame_header) + 1 :]
