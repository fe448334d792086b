"""Cursor: fields out of bytes, one after the other."""

from __future__ import annotations

import struct
from typing import Any, Final

from kdump.errors import DecodeError

_LENGTH: Final = struct.Struct(">H")
_COUNT: Final = struct.Struct(">I")


class Cursor:
    """A place in the bytes of a section; ``what`` names the section in errors."""

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self._data = memoryview(data)
        self._what = what
        self._at = 0

    def take(self, size: int) -> memoryview:
        """Return the next ``size`` bytes. Raises DecodeError if there are fewer."""
        left = len(self._data) - self._at
        if size > left:
            raise self.error(f"{size} more bytes", f"{left}")
        self._at += size
        return self._data[self._at - size : self._at]

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Return the next fields. Raises DecodeError."""
        return fields.unpack(self.take(fields.size))

    def count(self, least_bytes: int) -> int:
        """Return the next count of things of at least ``least_bytes`` each. Raises DecodeError."""
        (count,) = self.unpack(_COUNT)
        left = (len(self._data) - self._at) // max(least_bytes, 1)
        if count > left:
            raise self.error(f"at most {left} entries", f"{count}")
        return int(count)

    def data(self) -> bytes:
        """Return the next bytes behind their length. Raises DecodeError."""
        (length,) = self.unpack(_LENGTH)
        return bytes(self.take(length))

    def rest(self) -> memoryview:
        """Return all bytes that are left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raise DecodeError if bytes are left."""
        if self._at < len(self._data):
            raise self.error("its end", f"{len(self._data) - self._at} more bytes")

    def error(self, expected: str, found: str) -> DecodeError:
        """Return the error for what stands here."""
        return DecodeError(
            f"{self._what} of a manifest: expected {expected} at byte {self._at}, found {found}"
        )


def pack_data(data: bytes) -> bytes:
    """Return bytes behind their length, as ``Cursor.data`` takes them.

    Raises ValueError for more than 65,535 bytes.
    """
    if len(data) > 0xFFFF:
        raise ValueError(f"expected at most 65535 bytes, found {len(data)}")
    return _LENGTH.pack(len(data)) + data


def pack_count(count: int) -> bytes:
    """Return a count, as ``Cursor.count`` takes it."""
    return _COUNT.pack(count)
