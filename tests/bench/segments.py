"""Makes the segments that are measured: large, realistic, and the same every time.

A few megabytes of distinct batches are encoded; the file repeats them with other base offsets,
which no checksum covers. Values are JSON events as services log them, from a seed.

Spec: ``DefaultRecordBatch``; sizes as ``batch.size`` counts them, compressed. Of magic 1, which
``LegacyRecord`` describes, are messages of their own, or wrappers of such sizes.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kdump.format.batch import Record
from kdump.format.codecs import Codec
from support.legacy_messages import encode_message, encode_wrapper
from support.modern_batches import encode_batch

KIB = 1024
MIB = 1024 * KIB

_STOCK_BYTES = 4 * MIB
_TIMESTAMP_MS = 1_700_000_000_000
_BASE_OFFSET = struct.Struct(">q")
_WORDS = ("account", "basket", "catalog", "delivery", "invoice", "login", "order", "search", "user")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a segment is made of; with ``batch_bytes`` 0 every batch holds one record.

    ``magic`` is 2 or 1; of 1, batches of more than one record have a codec.
    """

    value_bytes: int
    batch_bytes: int
    codec: Codec = Codec.NONE
    magic: int = 2

    @property
    def name(self) -> str:
        """Such as ``100b-16k-zstd``, ``1k-1m``, ``100b-one`` or ``200b-one-v1``."""
        batch = _short(self.batch_bytes) if self.batch_bytes else "one"
        codec = "" if self.codec is Codec.NONE else f"-{self.codec.label}"
        magic = "" if self.magic == 2 else f"-v{self.magic}"
        return f"{_short(self.value_bytes)}-{batch}{codec}{magic}"


SHAPES = tuple(
    Shape(value_bytes, batch_bytes, codec)
    for value_bytes in (100, KIB)
    for batch_bytes, codecs in ((16 * KIB, tuple(Codec)), (MIB, (Codec.NONE,)), (0, (Codec.NONE,)))
    for codec in codecs
)


@dataclass(frozen=True, slots=True)
class Made:
    """A segment's log on disk, its pages in the cache and clean."""

    shape: Shape
    path: Path
    size: int
    batches: int
    records: int


def write(shape: Shape, directory: Path, size_bytes: int, base_offset: int = 0) -> Made:
    """Write a log of about ``size_bytes`` to ``directory``, named after ``base_offset``."""
    stock = list(_batches(shape, min(_STOCK_BYTES, size_bytes)))
    data = bytearray().join(batch for batch, _ in stock)
    places, position, offset = [], 0, 0
    for batch, count in stock:
        # A wrapper has the offset of the last message inside.
        places.append((position, offset if shape.magic > 1 else offset + count - 1))
        position += len(batch)
        offset += count
    repeats = max(1, round(size_bytes / len(data)))
    path = directory / f"{base_offset:020d}.log"
    with path.open("wb") as file:
        for repeat in range(repeats):
            for place, delta in places:
                _BASE_OFFSET.pack_into(data, place, base_offset + repeat * offset + delta)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Made(shape, path, repeats * len(data), repeats * len(stock), repeats * offset)


def _batches(shape: Shape, stock_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Distinct batches, each with its number of records, ``stock_bytes`` in all, or one."""
    rng = random.Random(shape.name)
    count = 1
    if shape.batch_bytes:
        # Twice, because what is repeated in a batch compresses better the more there is of it.
        count = shape.batch_bytes // shape.value_bytes
        for _ in range(2):
            count = count * shape.batch_bytes // len(_batch(shape, rng, count))
    left = stock_bytes
    while left > 0:
        batch = _batch(shape, rng, count)
        left -= len(batch)
        yield batch, count


def _batch(shape: Shape, rng: random.Random, count: int) -> bytes:
    records = [
        Record(offset, _TIMESTAMP_MS + 3 * offset, None, _value(rng, shape.value_bytes))
        for offset in range(count)
    ]
    if shape.magic > 1:
        return encode_batch(records, leader_epoch=3, codec=shape.codec)
    if shape.codec is Codec.NONE:
        (record,) = records
        return encode_message(record, shape.magic)
    return encode_wrapper(records, shape.magic, shape.codec)


def _value(rng: random.Random, size: int) -> bytes:
    """JSON events, cut at ``size``."""
    events = bytearray()
    while len(events) < size:
        events += (
            b'{"id":"%016x","event":"%s.%s","user":%d,"status":%d,"took_ms":%d}\n'
            % (
                rng.getrandbits(64),
                rng.choice(_WORDS).encode(),
                rng.choice(_WORDS).encode(),
                rng.randrange(100_000),
                rng.choice((200, 200, 200, 404, 500)),
                rng.randrange(1000),
            )
        ).replace(b"\n", b" ")
    return bytes(events[:size])


def _short(count_bytes: int) -> str:
    for unit, name in ((MIB, "m"), (KIB, "k")):
        if count_bytes >= unit:
            return f"{count_bytes // unit}{name}"
    return f"{count_bytes}b"
