"""Changes a batch or message inside, at random, and makes its checksum right again.

So the damage gets past the checksum: to headers that contradict themselves, to decompression, and
to the records. Imports nothing of kdump.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Sequence

import crc32c
import lz4.frame
import snappy
import zstandard

from support import forge
from support.mutations import ANYWHERE

HEADER_BYTES = 61
#: Of a message of magic 0 and 1, and of a batch of magic 2.
LEAST_BYTES = (26, 34, HEADER_BYTES)
#: Position and width of the fields of a header of magic 2, but for its size and checksum.
BATCH_FIELDS = (
    *((0, 8), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4)),
    (57, 4),
)
#: Those of a message of magic 0 and 1; the last is the size of its key.
MESSAGE_FIELDS = (
    ((0, 8), (16, 1), (17, 1), (18, 4)),
    ((0, 8), (16, 1), (17, 1), (18, 8), (26, 4)),
)
XERIAL_BYTES = 16
#: More than any fixture's batch holds.
MOST_BYTES = 1 << 20


def resealed(rng: random.Random, data: bytes, donor: bytes) -> bytes:
    """Change one of the whole batches and messages that ``data`` begins with, if there are any."""
    found = places(data)
    if not found:
        return data
    start, end = rng.choice(found)
    one = data[start:end]
    change = _message if one[16] < 2 else _batch
    return data[:start] + change(rng, one, donor) + data[end:]


def places(data: bytes) -> list[tuple[int, int]]:
    """Start and end of the whole batches and messages from the start of ``data`` on."""
    found: list[tuple[int, int]] = []
    position = 0
    while position + LEAST_BYTES[0] <= len(data):
        magic = data[position + 16]
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if magic > 2 or not LEAST_BYTES[magic] <= size <= len(data) - position:
            break
        end = position + size
        found.append((position, end))
        position = end
    return found


def _anywhere(rng: random.Random, data: bytes, donor: bytes) -> bytes:
    return rng.choice(ANYWHERE)(rng, data, donor)


def _edge(rng: random.Random, data: bytes, fields: Sequence[tuple[int, int]]) -> bytes:
    """``data`` with one of its fields set to a number at an edge."""
    at, width = rng.choice(fields)
    edge = rng.choice((0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))))
    return data[:at] + edge.to_bytes(width, "big", signed=True) + data[at + width :]


# --- magic 2


def _batch(rng: random.Random, one: bytes, donor: bytes) -> bytes:
    head, body = one[:HEADER_BYTES], one[HEADER_BYTES:]
    kind = rng.choice(("header", "stored", "inside", "inside", "other codec"))
    codec = head[22] & 7
    content = unpacked(codec, body)
    if kind == "header":
        head = _edge(rng, head, BATCH_FIELDS)
    elif kind == "stored" or content is None:
        body = _anywhere(rng, body, donor)
    else:
        if kind == "other codec":
            codec = rng.randrange(len(forge.CODECS))
            head = head[:22] + bytes([head[22] & ~7 | codec]) + head[23:]
        body = forge.compressed(forge.CODECS[codec], _anywhere(rng, content, donor))
    checked = head[21:] + body
    prefix = head[:8] + struct.pack(">i", 9 + len(checked)) + head[12:17]
    return prefix + struct.pack(">I", crc32c.crc32c(checked)) + checked


# --- magic 0 and 1


def _message(rng: random.Random, one: bytes, donor: bytes) -> bytes:
    magic, attributes = one[16:18]
    value_at, value = _value(one)
    codec = attributes & 7
    run = unpacked(codec, value, magic) if codec and value is not None else None
    kind = rng.choice(("header", "stored", "inside", "inside", "wrapped"))
    if kind == "header":
        one = _edge(rng, one, MESSAGE_FIELDS[magic])
    elif kind == "wrapped" or (kind == "inside" and run is not None):
        if kind == "wrapped" or run is None:
            codec, run = rng.randrange(1, len(forge.CODECS)), one
        else:
            run = rng.choice((_anywhere, resealed, resealed))(rng, run, donor)
        value = forge.compressed(forge.CODECS[codec], run)
        head = one[:17] + bytes([attributes & ~7 | codec]) + one[18 : 18 + 8 * magic]
        one = head + struct.pack(">ii", -1, len(value)) + value
    else:
        one = one[:value_at] + _anywhere(rng, one[value_at:], donor)
    checked = one[16:]
    prefix = one[:8] + struct.pack(">i", 4 + len(checked))
    return prefix + struct.pack(">I", zlib.crc32(checked)) + checked


def _value(one: bytes) -> tuple[int, bytes | None]:
    """Where a message's value begins (its key, if that does not fit), and the value if any."""
    key_at = 18 + 8 * one[16]
    (key_size,) = struct.unpack_from(">i", one, key_at)
    at = key_at + 4 + max(key_size, 0)
    if at + 4 > len(one):
        return key_at, None
    (size,) = struct.unpack_from(">i", one, at)
    return at + 4, one[at + 4 : at + 4 + size] if size >= 0 else None


# --- codecs


def unpacked(codec: int, block: bytes, magic: int = 2) -> bytes | None:
    """The content of a compressed block, None where it cannot be read."""
    try:
        match forge.CODECS[codec]:
            case "gzip":
                return gzip.decompress(block)
            case "snappy":
                return _xerial(block)
            case "lz4":
                frame = _checked(block) if magic == 0 else block
                return bytes(lz4.frame.LZ4FrameDecompressor().decompress(frame, MOST_BYTES))
            case "zstd":
                return zstandard.ZstdDecompressor().decompressobj().decompress(block)
            case _:
                return block
    except (OSError, EOFError, zlib.error, snappy.UncompressError, RuntimeError):
        return None
    except (zstandard.ZstdError, struct.error, IndexError):
        return None


def _xerial(block: bytes) -> bytes:
    """What a stream of snappy-java holds; without its header it is one raw block."""
    if not block.startswith(b"\x82SNAPPY\0"):
        return _raw_snappy(block)
    content, position = b"", XERIAL_BYTES
    while position < len(block):
        (size,) = struct.unpack_from(">i", block, position)
        content += _raw_snappy(block[position + 4 : position + 4 + size])
        position += 4 + size
    return content


def _raw_snappy(block: bytes) -> bytes:
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > MOST_BYTES:  # the library believes it, and aborts where there is no such memory
        raise snappy.UncompressError(f"expected at most {MOST_BYTES} bytes, found {length}")
    return bytes(snappy.decompress(block))


def _checked(frame: bytes) -> bytes:
    """An lz4 frame of magic 0 with the checksum that its header should have."""
    descriptor = frame[4:6]
    xxh32: bytes = lz4.frame.compress(descriptor, content_checksum=True)[-4:]
    return frame[:6] + xxh32[1:2] + frame[7:]
