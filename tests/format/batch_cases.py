"""Single batches by seed, sound and odd, whose checksums are right.

Half of them have one number that no writer of Kafka's writes; some are changed once more at random.
Imports nothing of kdump.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from support import forge
from support.forge import TIMESTAMP, batch, message, uvarint, varint
from support.resealing import resealed

EDGES = (0, 1, -1, -2, -3, -1000, 63, 64, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
#: The fields of a record, in their order; ``body`` is its length.
PLACES = ("body", "time", "offset", "key", "value", "headers", "header key", "header value")
WRAPPED = ("gzip", "snappy", "lz4")


def case(seed: int) -> bytes:
    """One batch, or one message or wrapper of magic 0 or 1."""
    rng = random.Random(seed)
    data = _batch(rng) if rng.random() < 0.55 else _legacy(rng)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        data = resealed(rng, data, _batch(rng))
    return data


def _bytes(rng: random.Random) -> bytes | None:
    return rng.choice((None, b"", b"k", b"value", rng.randbytes(rng.randrange(90))))


# --- magic 2


def _batch(rng: random.Random) -> bytes:
    count = rng.choice((0, 1, 1, 2, 3, 5))
    odd = rng.randrange(count) if count and rng.random() < 0.5 else None
    records = [_record(rng, place, odd=place == odd) for place in range(count)]
    changes: dict[str, Any] = {}
    if rng.random() < 0.1:
        changes = rng.choice(
            (
                {"count": count + rng.choice((-1, 1, -9, 1 << 20))},
                {"last_offset_delta": rng.choice((-1, 0, 9))},
                {"base_timestamp": -1},
                {"max_timestamp": rng.choice((-1, 5))},
                {"control": True},
                {"transactional": True, "producer_id": 7, "producer_epoch": 0, "base_sequence": 3},
            )
        )
    return batch(
        rng.choice((0, 0, 7, 2**40, 2**63 - 2)),
        records,
        codec=rng.choice(("none", *forge.CODECS)),
        timestamp_type=rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        **changes,
    )


def _record(rng: random.Random, place: int, *, odd: bool) -> bytes:
    """One record; if ``odd``, one of its numbers is at an edge, or longer than it has to be."""
    headers = [(_bytes(rng) or b"", _bytes(rng)) for _ in range(rng.choice((0, 0, 1, 3)))]
    changed = rng.choice(PLACES) if odd else ""
    number = rng.choice(EDGES)
    long = rng.choice((0, 0, 1, 4, 9))

    def put(name: str, right: int) -> bytes:
        nonlocal changed
        if name != changed:
            return varint(right)
        changed = ""
        near = rng.choice((number, number, right - 1, right + 1, right))
        return _padded(near, long)

    def field(name: str, content: bytes | None) -> bytes:
        # A null that is said by another number has no bytes behind it, most of the time.
        size = put(name, -1 if content is None else len(content))
        negative = size[0] & 1 and rng.random() < 0.8
        return size if negative else size + (content or b"")

    inner = bytes([rng.choice((0, 0, 0, 255))])
    inner += put("time", rng.choice((0, 1, 1000)))
    inner += put("offset", place) + field("key", _bytes(rng)) + field("value", _bytes(rng))
    inner += put("headers", len(headers))
    for key, value in headers:
        inner += field("header key", key) + field("header value", value)
    if odd and rng.random() < 0.1:
        inner += rng.randbytes(2)
    return put("body", len(inner)) + inner


def _padded(number: int, more: int) -> bytes:
    """A varint of ``more`` bytes more than it takes: zeros at its upper end."""
    plain = varint(number)
    return plain if not more else uvarint_padded(plain, more)


def uvarint_padded(plain: bytes, more: int) -> bytes:
    """The varint ``plain`` with ``more`` groups of zeros behind its highest one."""
    return plain[:-1] + bytes([plain[-1] | 128]) + b"\x80" * (more - 1) + uvarint(0)


# --- magic 0 and 1


def _legacy(rng: random.Random) -> bytes:
    magic = rng.choice((0, 1, 1))
    if rng.random() < 0.4:
        return _message(rng, rng.choice((0, 7, 2**63 - 1)), magic, odd=rng.random() < 0.5)
    count = rng.choice((0, 1, 2, 2, 3, 4))
    odd = rng.randrange(count) if count and rng.random() < 0.4 else None
    absolute = 7 if magic == 0 or rng.random() < 0.1 else 0
    run = b"".join(
        _message(rng, absolute + place, magic, odd=place == odd, inside=True)
        for place in range(count)
    )
    if rng.random() < 0.2:
        run = run[: len(run) - rng.randrange(1, 40)]
    if rng.random() < 0.05:
        run += rng.randbytes(rng.choice((1, 11, 12, 30)))
    last = rng.choice((count - 1, 7 + count - 1, 100, 0, 1, -1, 2**63 - 1))
    attributes = rng.choice((0, 0, 8))
    value = forge.compressed(rng.choice(WRAPPED), b"")
    codec = rng.choice(WRAPPED)
    value = _lz4_of_magic_0(run) if codec == "lz4" and magic == 0 else forge.compressed(codec, run)
    key = rng.choice((None, None, None, None, b"key"))
    return message(last, value, key, magic=magic, attributes=attributes | forge.CODECS.index(codec))


def _lz4_of_magic_0(run: bytes) -> bytes:
    # Readers do not look at the checksum of this header.
    frame = forge.compressed("lz4", run)
    return frame[:6] + b"\0" + frame[7:]


def _message(
    rng: random.Random, offset: int, magic: int, *, odd: bool, inside: bool = False
) -> bytes:
    """A message, perhaps one that no writer writes; its checksum is wrong only ``inside``."""
    changed = rng.choice(("key", "value", "magic", "attributes", "size", "crc", "tail", "time"))
    if not odd or (not inside and changed in ("magic", "size", "crc")):
        changed = changed if odd and changed not in ("magic", "size", "crc") else ""
    own = rng.choice((0, 1, 2, -1)) if changed == "magic" else magic
    attributes = rng.randrange(256) if changed == "attributes" else rng.choice((0, 0, 8))
    if not inside:
        attributes &= ~7
    body = struct.pack(">bB", own, attributes)
    if own != 0:
        stamp = rng.choice(EDGES) if changed == "time" else TIMESTAMP + offset % 1000
        body += struct.pack(">q", stamp)
    for name in ("key", "value"):
        content = _bytes(rng)
        size = -1 if content is None else len(content)
        if name == changed:
            size = rng.choice((*EDGES[:10], size - 1, size + 1))
            if size < 0 and rng.random() < 0.8:
                content = None
        body += struct.pack(">i", size) + (content or b"")
    if changed == "tail":
        body += rng.randbytes(5)
    crc = zlib.crc32(body) ^ (changed == "crc")
    size = 4 + len(body)
    if changed == "size":
        size = rng.choice((*EDGES[:10], 13, 14, 20, size - 1, size + 1))
    return struct.pack(">qiI", offset, size, crc) + body


def kinds(batches: Sequence[bytes]) -> set[tuple[int, int]]:
    """The magics and codecs that come up."""
    return {(data[16], data[22 if data[16] == 2 else 17] & 7) for data in batches if len(data) > 22}
