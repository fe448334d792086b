"""Builds any file of a partition directory for tests, good or bad, byte by byte.

It shares no code with ``kdump.format``: what one writes and the other reads was written twice.
Every field can be overridden; what is not given is what Kafka would write. Bytes come out, and
``write_partition`` alone touches the disk.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import crc32c
import lz4.frame
import snappy
import zstandard

TIMESTAMP = 1_700_000_000_000
TOPIC_ID = "AAAAAAAAQACAAAAAAAAAAQ"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(
    7
)

Header = tuple[bytes, bytes | None]


# --- primitives


def uvarint(number: int) -> bytes:
    """Unsigned varint: 7 bits a byte, low group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    """Zigzag varint, for ints and longs alike."""
    return uvarint(number * 2 if number >= 0 else -number * 2 - 1)


def compressed(codec: str, block: bytes) -> bytes:
    """``block`` as a producer of that codec would send it."""
    if codec == "gzip":
        return gzip.compress(block, mtime=0)
    if codec == "snappy":
        return xerial(block)
    if codec == "lz4":
        frame: bytes = lz4.frame.compress(
            block, block_size=4, block_linked=False, store_size=False, content_checksum=False
        )
        return frame
    if codec == "zstd":
        return bytes(zstandard.ZstdCompressor(write_content_size=False).compress(block))
    return block


def xerial(block: bytes, chunk_bytes: int = 32768) -> bytes:
    """snappy-java's stream: a header, then length and raw block in turns."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(block), chunk_bytes):
        chunk = snappy.compress(block[start : start + chunk_bytes])
        out += struct.pack(">i", len(chunk)) + chunk
    return out


def flip(data: bytes, position: int, mask: int = 0x01) -> bytes:
    """``data`` with the bits of ``mask`` turned over at ``position`` (from the end if negative)."""
    out = bytearray(data)
    out[position] ^= mask
    return bytes(out)


# --- magic 2


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a magic 2 batch; see ``record``."""

    value: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    timestamp: int | None
    offset_delta: int | None
    timestamp_delta: int | None
    attributes: int
    length: int | None
    key_length: int | None
    value_length: int | None
    header_count: int | None
    tail: bytes

    def encode(self, place: int, base_timestamp: int) -> bytes:
        stamp = self.timestamp_delta
        if stamp is None:
            stamp = 0 if self.timestamp is None else self.timestamp - base_timestamp
        body = struct.pack(">b", self.attributes) + varint(stamp)
        body += varint(place if self.offset_delta is None else self.offset_delta)
        body += _field(self.key, self.key_length) + _field(self.value, self.value_length)
        body += varint(len(self.headers) if self.header_count is None else self.header_count)
        for name, content in self.headers:
            body += _field(name) + _field(content)
        body += self.tail
        return varint(len(body) if self.length is None else self.length) + body


def record(
    value: bytes | None = b"value",
    key: bytes | None = None,
    headers: Iterable[Header] = (),
    *,
    timestamp: int | None = None,
    offset_delta: int | None = None,
    timestamp_delta: int | None = None,
    attributes: int = 0,
    length: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
    header_count: int | None = None,
    tail: bytes = b"",
) -> Record:
    """A record for ``batch``. Its offset delta is its place there, its timestamp the batch's.

    ``timestamp`` is absolute. ``tail`` is put at its end, inside its length.
    """
    return Record(
        value,
        key,
        tuple(headers),
        timestamp,
        offset_delta,
        timestamp_delta,
        attributes,
        length,
        key_length,
        value_length,
        header_count,
        tail,
    )


def _field(content: bytes | None, length: int | None = None) -> bytes:
    if length is None:
        length = -1 if content is None else len(content)
    return varint(length) + (content or b"")


def batch(
    base_offset: int,
    records: Sequence[Record | bytes] = (),
    *,
    codec: str = "none",
    base_timestamp: int = TIMESTAMP,
    max_timestamp: int | None = None,
    timestamp_type: str = "CreateTime",
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
    last_offset_delta: int | None = None,
    count: int | None = None,
    magic: int = 2,
    attributes: int | None = None,
    block: bytes | None = None,
    length: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A magic 2 batch. Records given as bytes are taken as they are.

    ``block`` replaces the record block as it stands on disk, compressed or not. With
    ``delete_horizon`` the base timestamp is the horizon.
    """
    if attributes is None:
        attributes = (
            CODECS.index(codec)
            | (timestamp_type == "LogAppendTime") << 3
            | transactional << 4
            | control << 5
            | delete_horizon << 6
        )
    encoded = [
        item if isinstance(item, bytes) else item.encode(place, base_timestamp)
        for place, item in enumerate(records)
    ]
    if block is None:
        block = compressed(codec, b"".join(encoded))
    if last_offset_delta is None:
        deltas = [item.offset_delta for item in records if isinstance(item, Record)]
        last = deltas[-1] if deltas else None
        last_offset_delta = max(len(records) - 1, 0) if last is None else last
    if max_timestamp is None:
        max_timestamp = max(
            (
                base_timestamp if item.timestamp is None else item.timestamp
                for item in records
                if isinstance(item, Record)
            ),
            default=base_timestamp,
        )
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    checked += block
    return (
        struct.pack(
            ">qiibI",
            base_offset,
            9 + len(checked) if length is None else length,
            leader_epoch,
            magic,
            crc32c.crc32c(checked) if crc is None else crc,
        )
        + checked
    )


def control_batch(
    offset: int,
    kind: int,
    value: bytes,
    *,
    timestamp: int = TIMESTAMP,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """A control batch of one record: ``kind`` is its type, such as ``LEADER_CHANGE``."""
    return batch(
        offset,
        [record(value, struct.pack(">hh", 0, kind))],
        base_timestamp=timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def marker(
    offset: int,
    producer_id: int,
    producer_epoch: int = 0,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    timestamp: int = TIMESTAMP,
    leader_epoch: int = 0,
) -> bytes:
    """The batch that ends a transaction (78 bytes)."""
    return control_batch(
        offset,
        COMMIT if commit else ABORT,
        struct.pack(">hi", 0, coordinator_epoch),
        timestamp=timestamp,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


# --- magic 0 and 1


def message(
    offset: int,
    value: bytes | None = b"value",
    key: bytes | None = None,
    *,
    magic: int = 1,
    timestamp: int = TIMESTAMP,
    attributes: int = 0,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    """A message of magic 0 (which has no timestamp) or 1."""
    body = struct.pack(">bb", magic, attributes)
    if magic > 0:
        body += struct.pack(">q", timestamp)
    for content in (key, value):
        body += struct.pack(">i", -1 if content is None else len(content)) + (content or b"")
    body = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", offset, len(body) if size is None else size) + body


def null_message(offset: int, size: int = -2) -> bytes:
    """A message of magic 1 whose key and value are nulls of this size."""
    body = struct.pack(">bbqii", 1, 0, TIMESTAMP, size, size)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(
    offset: int,
    messages: Sequence[bytes],
    *,
    codec: str,
    magic: int = 1,
    timestamp: int = TIMESTAMP,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """Messages compressed into one; ``offset`` is that of the last one, absolute."""
    return message(
        offset,
        compressed(codec, b"".join(messages)),
        magic=magic,
        timestamp=timestamp,
        attributes=attributes | CODECS.index(codec),
        crc=crc,
    )


# --- files


def segment(batches: Iterable[bytes]) -> bytes:
    return b"".join(batches)


def offset_index(entries: Iterable[tuple[int, int]], base: int = 0, *, slots: int = 0) -> bytes:
    """``entries`` are (offset, position); zeros fill it up to ``slots`` entries."""
    data = b"".join(struct.pack(">iI", offset - base, position) for offset, position in entries)
    return data.ljust(8 * slots, b"\0")


def time_index(entries: Iterable[tuple[int, int]], base: int = 0, *, slots: int = 0) -> bytes:
    """``entries`` are (timestamp, offset); zeros fill it up to ``slots`` entries."""
    data = b"".join(struct.pack(">qi", stamp, offset - base) for stamp, offset in entries)
    return data.ljust(12 * slots, b"\0")


def txn_index(entries: Iterable[tuple[int, int, int, int]], *, version: int = 0) -> bytes:
    """``entries`` are (producer id, first offset, last offset, last stable offset)."""
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


def snapshot(
    entries: Sequence[tuple[int, int, int, int, int, int, int, int]] = (),
    *,
    version: int = 1,
    crc: int | None = None,
    count: int | None = None,
) -> bytes:
    """A producer snapshot. ``entries`` are (producer id, epoch, last sequence, last offset, offset
    delta, timestamp, coordinator epoch, current transaction's first offset).
    """
    body = struct.pack(">i", len(entries) if count is None else count)
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", version, crc32c.crc32c(body) if crc is None else crc) + body


def checkpoint(
    rows: Sequence[tuple[object, ...]], *, version: int = 0, count: int | None = None
) -> bytes:
    """A counted text file: rows of (topic, partition, offset), or of (epoch, start offset)."""
    lines = [str(version), str(len(rows) if count is None else count)]
    lines += [" ".join(str(field) for field in row) for row in rows]
    return "".join(f"{line}\n" for line in lines).encode()


def partition_metadata(topic_id: str = TOPIC_ID, *, version: int = 0) -> bytes:
    return f"version: {version}\ntopic_id: {topic_id}".encode()


def index_entries(
    batches: Sequence[bytes], base: int, interval: int = 4096
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The (offset, position) and (timestamp, offset) entries that recovery writes."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    newest = (-1, base)
    written = (-1, base)
    position = indexed = 0
    for data in batches:
        last, stamp = _last(data)
        if stamp > newest[0]:
            newest = (stamp, last)
        if position - indexed > interval:
            offsets.append((last, position))
            if newest[0] > written[0]:
                times.append(newest)
                written = newest
            indexed = position
        position += len(data)
    if newest[0] > written[0]:
        times.append(newest)
    return offsets, times


def _last(data: bytes) -> tuple[int, int]:
    """The last offset and the largest timestamp of a batch, a message or a wrapper."""
    (offset,) = struct.unpack_from(">q", data)
    if data[16] == 0:
        return offset, -1
    if data[16] == 1:
        return (offset, *struct.unpack_from(">q", data, 18))
    (delta,) = struct.unpack_from(">i", data, 23)
    return (offset + delta, *struct.unpack_from(">q", data, 35))


def epoch_rows(batches: Iterable[bytes]) -> list[tuple[int, int]]:
    """The (epoch, start offset) rows of ``leader-epoch-checkpoint`` that batches imply."""
    rows: list[tuple[int, int]] = []
    for data in batches:
        (base_offset, epoch) = struct.unpack_from(">q4xi", data)
        if data[16] > 1 and epoch >= 0 and (not rows or epoch > rows[-1][0]):
            rows.append((epoch, base_offset))
    return rows


def write_partition(
    log_directory: Path,
    topic: str,
    partition: int,
    segments: Mapping[int, Sequence[bytes]],
    *,
    interval: int = 4096,
    files: Mapping[str, bytes | None] | None = None,
) -> Path:
    """Write ``<log_directory>/<topic>-<partition>`` and return it.

    ``segments`` maps base offsets to batches or messages. Indexes, the epoch file and
    ``partition.metadata`` are made to fit; ``files`` adds or replaces files by name, and leaves out
    those that it maps to None. No producer snapshots and transaction indexes but through ``files``.
    """
    content: dict[str, bytes | None] = {
        "leader-epoch-checkpoint": checkpoint(
            epoch_rows(data for base in sorted(segments) for data in segments[base])
        ),
        "partition.metadata": partition_metadata(),
    }
    for base, batches in segments.items():
        offsets, times = index_entries(batches, base, interval)
        content[f"{base:020d}.log"] = segment(batches)
        content[f"{base:020d}.index"] = offset_index(offsets, base)
        content[f"{base:020d}.timeindex"] = time_index(times, base)
    content |= files or {}
    directory = log_directory / f"{topic}-{partition}"
    directory.mkdir(parents=True)
    for name, data in content.items():
        if data is not None:
            (directory / name).write_bytes(data)
    return directory
