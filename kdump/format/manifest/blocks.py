"""Blocks: up to 8,192 batches of a log as columns, and the damage between them.

Spec: kdump-manifest-format(5), section 5.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final

from kdump.format.batch import HEADER_BYTES, BatchTable
from kdump.format.codecs import Codec, compress, decompress_frame
from kdump.format.kernel import digest as _digest
from kdump.format.kernel import headers as _headers
from kdump.format.manifest.cursor import SectionCursor, pack_data
from kdump.values import frozen

#: The most batches, damages and bytes of control batches in a block.
BATCHES: Final = 8_192
DAMAGES: Final = 1_024
CONTROL_BYTES: Final = 4 << 20
#: The reasons of damage by their number (``kdump.storage.walk.Reason``).
REASONS: Final = ("torn-tail", "preallocated", "bad-checksum", "impossible-size")

_HEAD: Final = struct.Struct(">IH")
_CONTROL: Final = struct.Struct(">IBI")
_LENGTH: Final = struct.Struct(">I")
_DAMAGE: Final = struct.Struct(">HBBqqII")
_CLAIMED, _SUMS, _ZEROS = 1, 2, 4
_WIDTH: Final = BatchTable.WIDTH
_PLACES: Final = tuple(_headers.BATCH_FIELDS.index(name) for name in _digest.COLUMNS)
_MAGIC: Final = _headers.BATCH_FIELDS.index("magic")
_ATTRIBUTES: Final = _headers.BATCH_FIELDS.index("attributes")
_STATE: Final = 2 * _digest.PRODUCERS + 5
_CODEC_MASK: Final = 7
_MOST_PLANES: Final = 8
_CONSTANT, _PLAIN, _FRAME = range(3)


@frozen
class StoredDamage:
    """A damage: ``row`` is the number of batches before it in its block.

    The other fields are as in ``kdump.storage.walk.Damage``. ``head`` has its first bytes.
    ``zeros``: its last 61 bytes are zeros.
    """

    row: int
    size: int
    reason: str
    claimed_bytes: int | None
    stored_crc: int | None
    computed_crc: int | None
    head: bytes
    zeros: bool


@frozen
class Block:
    """Consecutive batches of a log and the damage between them.

    ``rows`` are those of the kernel, ``first_offsets`` the offset of the first message in each
    compressed message of magic 0 and 1, None for an unreadable one. ``control`` are the bytes
    behind the headers of control batches.
    """

    rows: memoryview
    damages: tuple[StoredDamage, ...]
    wrappers: array[int]
    control: bytes

    def __len__(self) -> int:
        return len(self.rows) // _WIDTH


def encode_block(
    rows: memoryview, damages: Sequence[StoredDamage], wrappers: array[int], control: bytes
) -> bytes:
    """Return the payload of a block; ``rows`` are at most ``BATCHES``, in rows of the kernel."""
    n = len(rows) // _WIDTH
    differences = array("q", bytes(8 * len(rows)))
    _digest.subtract_expected(rows, differences, array("q", bytes(16 * _digest.PRODUCERS)))
    planes = memoryview(bytearray(8 * n))
    parts = [_HEAD.pack(n, len(damages))]
    parts += (pack_column(differences, place, _WIDTH, planes) for place in _PLACES)
    squeezed = compress(Codec.ZSTD, control) if control else b""
    coding = int(len(squeezed) < len(control))
    stored = squeezed if coding else control
    parts += (_CONTROL.pack(len(stored), coding, len(control)), stored)
    parts += map(_pack_damage, damages)
    parts.append(pack_column(wrappers, 0, 1, memoryview(bytearray(8 * len(wrappers)))))
    return b"".join(parts)


def decode_block(payload: bytes, position: int, end: int) -> Block:
    """Return the block whose first batch or damage stands at ``position`` of its log.

    It ends at ``end``. Raises DecodeError, also if no log can hold these numbers.
    """
    cursor = SectionCursor(payload, "block")
    n, damage_count = cursor.unpack(_HEAD)
    if n > BATCHES or damage_count > DAMAGES:
        raise cursor.error(
            f"at most {BATCHES} batches and {DAMAGES} damages", f"{n} and {damage_count}"
        )
    rows = array("q", bytes(8 * n * _WIDTH))
    for place in _PLACES:
        read_column(cursor, n, place, _WIDTH, rows)
    stored, coding, raw = cursor.unpack(_CONTROL)
    if raw > CONTROL_BYTES or coding > 1:
        raise cursor.error(f"at most {CONTROL_BYTES} bytes of control batches", f"{raw}")
    control = bytes(cursor.take(stored))
    if coding:
        control = decompress_frame(control, raw)
    if len(control) != raw:
        raise cursor.error(f"{raw} bytes of control batches", f"{len(control)}")
    damages = tuple(_read_damage(cursor) for _ in range(damage_count))
    _place_batches(rows, n, damages, position, end, cursor)
    view = memoryview(rows.tobytes()).cast("q")
    wrappers = array("q", bytes(8 * count_wrappers(view)))
    read_column(cursor, len(wrappers), 0, 1, wrappers)
    cursor.end()
    return Block(view, damages, wrappers, control)


def count_wrappers(rows: memoryview) -> int:
    """Return how many of ``rows`` are compressed messages of magic 0 or 1."""
    if not len(rows) or min(rows[_MAGIC::_WIDTH]) > 1:
        return 0
    return sum(
        magic < 2 and bool(attributes & _CODEC_MASK)
        for magic, attributes in zip(rows[_MAGIC::_WIDTH], rows[_ATTRIBUTES::_WIDTH], strict=True)
    )


def _place_batches(
    rows: array[int],
    n: int,
    damages: Sequence[StoredDamage],
    position: int,
    end: int,
    cursor: SectionCursor,
) -> None:
    """Turn the differences in ``rows`` into headers, whose positions leave room for damages."""
    state = array("q", bytes(8 * _STATE))
    first = 0
    for damage in (*damages, None):
        stop = n if damage is None else damage.row
        if not first <= stop <= n:
            raise cursor.error(f"a damage behind {first} to {n} batches", f"one behind {stop}")
        reached = _digest.add_expected(rows, first, stop, position, end, state)
        if reached < stop:
            raise cursor.error("headers that a log can hold", f"another as number {reached}")
        if stop > first:
            row = (stop - 1) * _WIDTH
            position = rows[row] + rows[row + 1]
        first = stop
        if damage is not None:
            if not 0 < damage.size <= end - position:
                raise cursor.error(f"a damage within {end - position} bytes", f"{damage.size}")
            position += damage.size
    if position != end:
        raise cursor.error(f"batches and damage up to position {end}", f"an end at {position}")


def pack_column(numbers: array[int], place: int, width: int, planes: memoryview) -> bytes:
    """Return the column at ``place`` of rows of ``width`` numbers.

    ``planes`` has room for 8 bytes a row.
    """
    n = len(numbers) // width
    count = _digest.put_planes(numbers, place, width, planes) if n else 0
    return bytes((count,)) + b"".join(
        _pack_plane(bytes(planes[k * n : (k + 1) * n])) for k in range(count)
    )


def _pack_plane(plane: bytes) -> bytes:
    if plane == plane[:1] * len(plane):
        return bytes((_CONSTANT,)) + plane[:1]
    block = compress(Codec.ZSTD, plane)
    if len(block) + _LENGTH.size < len(plane):
        return bytes((_FRAME,)) + _LENGTH.pack(len(block)) + block
    return bytes((_PLAIN,)) + plane


def read_column(cursor: SectionCursor, n: int, place: int, width: int, numbers: array[int]) -> None:
    """Read a column of ``n`` numbers into its place in ``numbers``, which holds 0 there."""
    count = cursor.byte()
    if count > _MOST_PLANES:
        raise cursor.error(f"at most {_MOST_PLANES} planes", f"{count}")
    planes = [_read_plane(cursor, n) for _ in range(count)]
    for k in (*range(1, count), 0)[:count]:
        _digest.add_plane(planes[k], k, place, width, numbers)


def _read_plane(cursor: SectionCursor, n: int) -> bytes:
    coding = cursor.byte()
    if coding == _CONSTANT:
        return bytes(cursor.take(1)) * n
    if coding == _PLAIN:
        return bytes(cursor.take(n))
    if coding != _FRAME:
        raise cursor.error(f"a coding of a plane up to {_FRAME}", f"{coding}")
    (length,) = cursor.unpack(_LENGTH)
    plane = decompress_frame(bytes(cursor.take(length)), n)
    if len(plane) != n:
        raise cursor.error(f"a plane of {n} bytes", f"{len(plane)}")
    return plane


def _pack_damage(damage: StoredDamage) -> bytes:
    claimed, sums = damage.claimed_bytes is not None, damage.stored_crc is not None
    flags = claimed * _CLAIMED + sums * _SUMS + damage.zeros * _ZEROS
    return _DAMAGE.pack(
        damage.row,
        REASONS.index(damage.reason),
        flags,
        damage.size,
        damage.claimed_bytes or 0,
        damage.stored_crc or 0,
        damage.computed_crc or 0,
    ) + pack_data(damage.head)


def _read_damage(cursor: SectionCursor) -> StoredDamage:
    row, reason, flags, size, claimed, stored, computed = cursor.unpack(_DAMAGE)
    head = cursor.data()
    if reason >= len(REASONS) or flags > 7 or len(head) > min(HEADER_BYTES, max(size, 0)):
        raise cursor.error("a damage", f"reason {reason}, flags {flags}, {len(head)} bytes")
    sums = bool(flags & _SUMS)
    return StoredDamage(
        row,
        size,
        REASONS[reason],
        claimed if flags & _CLAIMED else None,
        stored if sums else None,
        computed if sums else None,
        head,
        bool(flags & _ZEROS),
    )
