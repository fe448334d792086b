"""Damages a manifest at random, mostly so that its checksums match again.

What is damaged is written without compression, so that a payload keeps its place.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from xxhash import xxh3_64_intdigest

from kdump.format.manifest import sections
from kdump.format.manifest.sections import HEADER_BYTES, SECTION_BYTES, TRAILER_BYTES
from support.manifests import make
from support.mutations import ANYWHERE

#: Numbers at the edges of what fields can hold, of 1, 2, 4 and 8 bytes.
_EDGES = (0, 1, 2, 60, 61, 62, 255, 8191, 8192, 8193, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
_FIELDS = (">B", ">H", ">I", ">Q")
_MOST_BYTES = 1 << 20


def plain_manifest(file: Path, *paths: Path) -> bytes:
    """The bytes of a manifest of ``paths`` whose sections are not compressed."""
    with patch.object(sections, "compress", lambda _, data: data):
        make(file, *paths)
    return file.read_bytes()


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A damaged copy of a manifest without compression."""
    if rng.random() < 0.15:
        return rng.choice(ANYWHERE)(rng, data, data)[:_MOST_BYTES]
    changed = bytearray(data)
    places = list(_sections(data))
    by_kind: dict[int, list[tuple[int, int]]] = {}
    for place in places:
        by_kind.setdefault(data[place[0]], []).append(place)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start, end = rng.choice(by_kind[rng.choice(list(by_kind))])
        if rng.random() < 0.1:
            _change(rng, changed, start, start + 10)  # kind, coding and lengths
        else:
            for _ in range(rng.choice((1, 1, 2, 4))):
                _change(rng, changed, start + SECTION_BYTES, end)
        _seal(changed, start, end)
    if rng.random() < 0.05:
        trailer = len(changed) - TRAILER_BYTES
        _change(rng, changed, trailer, trailer + 16)
        struct.pack_into(
            ">Q", changed, trailer + 24, xxh3_64_intdigest(bytes(changed[trailer : trailer + 24]))
        )
    return bytes(changed)


def _sections(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each section."""
    at = HEADER_BYTES
    while at < len(data) - TRAILER_BYTES:
        (length,) = struct.unpack_from(">I", data, at + 6)
        yield at, at + SECTION_BYTES + length
        at += SECTION_BYTES + length


def _seal(data: bytearray, start: int, end: int) -> None:
    """Make the checksum of a section right."""
    fields = bytes(data[start : start + 10]) + bytes(data[start + SECTION_BYTES : end])
    struct.pack_into(">Q", data, start + 10, xxh3_64_intdigest(fields))


def _change(rng: random.Random, data: bytearray, start: int, end: int) -> None:
    """Change bytes from ``start`` up to ``end``, which keep their number."""
    if start >= end:
        return
    at = rng.randrange(start, end)
    match rng.randrange(6):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.randrange(256)
        case 2:
            field = rng.choice(_FIELDS)
            size = struct.calcsize(field)
            number = rng.choice(_EDGES) % (1 << 8 * size)
            if rng.random() < 0.3:
                number = (1 << 8 * size) - 1 - number
            if at + size <= end:
                struct.pack_into(field, data, at, number)
        case 3:
            stop = min(end, at + rng.choice((1, 4, 16, 200)))
            data[at:stop] = bytes(stop - at)
        case 4:
            stop = min(end, at + rng.choice((1, 2, 8, 40)))  # what follows moves down
            rest = bytes(data[stop:end])
            data[at:end] = rest + bytes(end - at - len(rest))
        case _:
            other = rng.randrange(start, end)
            size = min(rng.choice((1, 4, 8, 44)), end - max(at, other))
            data[at : at + size] = bytes(data[other : other + size])
