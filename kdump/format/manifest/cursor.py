"""Cursor: fields out of bytes, one after the other."""

from __future__ import annotations

import struct
from typing import Any, Final

from kdump.errors import DecodeError

_LENGTH: Final = struct.Struct(">H")
_COUNT: Final = struct.Struct(">I")


class SectionCursor:
    """A place in the bytes of a section; ``what`` names the section in errors."""

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self._data = memoryview(data)
        self._what = what
        self._size = len(self._data)
        self._at = 0

    def take(self, size: int) -> memoryview:
        """Return the next ``size`` bytes. Raises DecodeError if there are fewer."""
        at, after = self._at, self._at + size
        if after > self._size:
            raise self._cut(size)
        self._at = after
        return self._data[at:after]

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Return the next fields. Raises DecodeError."""
        at, after = self._at, self._at + fields.size
        if after > self._size:
            raise self._cut(fields.size)
        self._at = after
        return fields.unpack_from(self._data, at)

    def byte(self) -> int:
        """Return the next byte as a number. Raises DecodeError."""
        at = self._at
        if at >= self._size:
            raise self._cut(1)
        self._at = at + 1
        return self._data[at]

    def count(self, least_bytes: int) -> int:
        """Return the next count of things of at least ``least_bytes`` each. Raises DecodeError."""
        (count,) = self.unpack(_COUNT)
        left = (self._size - self._at) // max(least_bytes, 1)
        if count > left:
            raise self.error(f"at most {left} entries", f"{count}")
        return int(count)

    def data(self) -> bytes:
        """Return the next bytes behind their length. Raises DecodeError."""
        (length,) = self.unpack(_LENGTH)
        return bytes(self.take(length))

    def rest(self) -> memoryview:
        """Return all bytes that are left."""
        return self.take(self._size - self._at)

    def end(self) -> None:
        """Raise DecodeError if bytes are left."""
        if self._at < self._size:
            raise self.error("its end", f"{self._size - self._at} more bytes")

    def error(self, expected: str, found: str) -> DecodeError:
        """Return the error for what stands here."""
        return DecodeError(
            f"{self._what} of a manifest: expected {expected} at byte {self._at}, found {found}"
        )

    def _cut(self, size: int) -> DecodeError:
        return self.error(f"{size} more bytes", f"{self._size - self._at}")


def pack_data(data: bytes) -> bytes:
    """Return bytes behind their length, as ``SectionCursor.data`` takes them.

    Raises ValueError for more than 65,535 bytes.
    """
    if len(data) > 0xFFFF:
        raise ValueError(f"expected at most 65535 bytes, found {len(data)}")
    return _LENGTH.pack(len(data)) + data


def pack_count(count: int) -> bytes:
    """Return a count, as ``SectionCursor.count`` takes it."""
    return _COUNT.pack(count)
