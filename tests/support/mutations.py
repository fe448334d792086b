"""Damages any bytes at random: what follows depends on nothing but the random numbers."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from support import forge

PAGE_BYTES = 512  # of the fixtures' small files one of 4096 would be all

#: Bytes that mean something somewhere: numbers at the edges of their width, and bits of text.
TOKENS = (
    *(struct.pack(">i", number) for number in (0, 1, -1, 2**31 - 1, -(2**31))),
    *(struct.pack(">q", number) for number in (-1, 2**63 - 1, -(2**63))),
    *(b"\xff", b"\x02", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\x80" * 11),
    *(b"\n", b"\r", b" ", b"-1", b"99999999999999999999", b"\xd9\xa3", b"\\", b"\\u12", b"#"),
    *(b'"', b"{", b"[" * 5000, b"1" * 5000, b"1e999", b"null", b"\xed\xa0\x80"),
)


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
"""(random numbers, bytes, bytes of another file) -> bytes."""

ANYWHERE: Sequence[Mutation] = (
    *(_flip, _flip, _cut, _insert, _token, _duplicate, _swap, _zero, _zero_tail, _splice),
)
