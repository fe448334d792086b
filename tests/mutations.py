"""Damages files for tests: every case follows from its seed, and says what was done to which file.

Must never import kdump, nor write a file.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import forge
from crc32c import crc32c
from fixtures_loader import ROOT

HEADER_BYTES = 61
PAGE_BYTES = 512  # of the fixtures' small files one of 4096 would be all

#: Bytes that mean something somewhere: numbers at the edges of their width, and bits of text.
TOKENS = (
    *(struct.pack(">i", number) for number in (0, 1, -1, 2**31 - 1, -(2**31))),
    *(struct.pack(">q", number) for number in (-1, 2**63 - 1, -(2**63))),
    *(b"\xff", b"\x02", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11),
    *(b"\n", b"\r", b" ", b"-1", b"99999999999999999999", b"\xd9\xa3", b"\\", b"\\u12", b"#"),
    *(b'"', b"{", b"[" * 5000, b"1" * 5000, b"1e999", b"null", b"\xed\xa0\x80"),
)

#: Position and width of the fields of a header of magic 2, but for its size and checksum.
FIELDS = (
    *((0, 8), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4)),
    (57, 4),
)


@dataclass(frozen=True, slots=True)
class Case:
    """What a file has become: ``recipe`` says how, ``path`` is the fixture's, below ``fixtures/``.

    ``resealed`` says that changes inside a batch were given a right checksum.
    """

    seed: int
    path: Path
    data: bytes
    recipe: str
    resealed: bool

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.path}: {self.recipe}"


# --- on any bytes: (random numbers, bytes, bytes of another file) -> bytes


def _flip(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return forge.flip(data, rng.randrange(len(data)), 1 << rng.randrange(8)) if data else data


def _cut(rng: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _stretch(rng, data)
    return rng.choice((data[:start], data[start:], data[:start] + data[end:]))


def _insert(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 4, 61, 1000))) + data[at:]


def _token(rng: random.Random, data: bytes, _: bytes) -> bytes:
    token, at = rng.choice(TOKENS), rng.randrange(len(data) + 1)
    over = at + len(token) if rng.random() < 0.5 else at
    return data[:at] + token + data[over:]


def _duplicate(rng: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _stretch(rng, data)
    at = rng.choice((end, rng.randrange(len(data) + 1)))
    return data[:at] + data[start:end] + data[at:]


def _swap(rng: random.Random, data: bytes, _: bytes) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _zero(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1) // PAGE_BYTES * PAGE_BYTES
    return data[:at] + bytes(PAGE_BYTES) + data[at + PAGE_BYTES :]


def _zero_tail(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return data + bytes(rng.choice((1, 11, 12, 17, PAGE_BYTES, 5000)))


def _splice(rng: random.Random, data: bytes, donor: bytes) -> bytes:
    start, end = _stretch(rng, donor)
    at = rng.randrange(len(data) + 1)
    over = at + end - start if rng.random() < 0.5 else at
    return data[:at] + donor[start:end] + data[over:]


def _stretch(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 8, 34, 61, 500, len(data))))


Mutation = Callable[[random.Random, bytes, bytes], bytes]
ANYWHERE: Sequence[Mutation] = (
    *(_flip, _flip, _cut, _insert, _token, _duplicate, _swap, _zero, _zero_tail, _splice),
)


# --- inside a batch, whose checksum is made right again


def _resealed(rng: random.Random, data: bytes, donor: bytes) -> bytes:
    """Change one batch of magic 2: a field of its header, or its records, compressed or not."""
    places = batch_places(data)
    if not places:
        return data
    start, end = rng.choice(places)
    head, body = data[start : start + HEADER_BYTES], data[start + HEADER_BYTES : end]
    kind = rng.choice(("header", "records", "records", "block"))
    if kind == "header":
        at, width = rng.choice(FIELDS)
        edge = rng.choice((0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))))
        head = head[:at] + edge.to_bytes(width, "big", signed=True) + head[at + width :]
    elif kind == "records" or head[22] & 7:
        body = rng.choice(ANYWHERE)(rng, body, donor)
    else:
        body = rng.choice(ANYWHERE)(rng, body, donor)
        codec = rng.randrange(1, len(forge.CODECS))
        head = head[:22] + bytes([head[22] | codec]) + head[23:]
        body = forge.compressed(forge.CODECS[codec], body)
    checked = head[21:] + body
    size = struct.pack(">i", 9 + len(checked))
    sealed = head[:8] + size + head[12:17] + struct.pack(">I", crc32c(checked)) + checked
    return data[:start] + sealed + data[end:]


def batch_places(data: bytes) -> list[tuple[int, int]]:
    """Start and end of the whole batches of magic 2 from the start of ``data`` on."""
    places: list[tuple[int, int]] = []
    position = 0
    while position + HEADER_BYTES <= len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if data[position + 16] != 2 or not position + HEADER_BYTES <= end <= len(data):
            break
        places.append((position, end))
        position = end
    return places


# --- cases


@cache
def corpus() -> dict[str, list[Path]]:
    """The stored files of all fixtures by kind: the end of the name from its first dot on."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "brokers").rglob("*")):
        if path.is_file():
            kind = path.suffix if path.name[0].isdigit() else path.name
            kinds.setdefault(kind, []).append(path)
    return {kind: paths for kind, paths in kinds.items() if not kind.endswith(".json")}


def case(seed: int, kinds: Sequence[str] | None = None) -> Case:
    """The case of a seed: a file of one of ``kinds`` (default any) with one to four changes."""
    rng = random.Random(seed)
    kind = rng.choice(list(kinds or corpus()))
    path = rng.choice(corpus()[kind])
    data, steps, resealed = path.read_bytes(), [], False
    has_batches = kind in (".log", ".checkpoint")
    for _ in range(rng.choice((1, 1, 2, 4))):
        donor = rng.choice(rng.choice(list(corpus().values())))
        reseal = has_batches and rng.random() < 0.5
        mutation = _resealed if reseal else rng.choice(ANYWHERE)
        data = mutation(rng, data, donor.read_bytes())
        resealed = resealed or reseal
        steps.append(f"{mutation.__name__.lstrip('_')} -> {len(data)} bytes")
    return Case(seed, path.relative_to(ROOT), data, ", ".join(steps), resealed)
