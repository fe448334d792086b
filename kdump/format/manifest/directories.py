"""Directories: the entries of a directory, their status, and where their content is.

Spec: kdump-manifest-format(5), section 3.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kdump.format.manifest.cursor import SectionCursor, pack_count, pack_data

#: The bytes of each DATA section of a larger file, but of the last.
PART_BYTES: Final = 1 << 20
_ENTRY: Final = struct.Struct(">BIIIQqqQ")
_PART: Final = struct.Struct(">Q")
#: The longest name of a file.
_NAME_BYTES: Final = 255


class FileContent(IntEnum):
    """What a manifest has of a file."""

    NONE = 0  # its status alone
    DATA = 1
    PARTS = 2
    LOG = 3
    INDEX = 4
    ERROR = 5  # it could not be read
    DENIED = 6  # only another user may read it


class StoredStatus(NamedTuple):
    """The status of a file or directory, as ``os.stat`` gives it."""

    mode: int
    uid: int
    gid: int
    inode: int
    size: int
    mtime_ns: int


class StoredEntry(NamedTuple):
    """An entry of a directory; ``section`` is the place of its content in the manifest."""

    name: bytes
    status: StoredStatus
    content: FileContent = FileContent.NONE
    section: int = 0
    error: str = ""


def encode_directory(entries: Iterable[StoredEntry]) -> bytes:
    """Return the payload of a directory."""
    ordered = sorted(entries, key=lambda entry: entry.name)
    return pack_count(len(ordered)) + b"".join(map(_pack_entry, ordered))


def decode_directory(payload: bytes) -> tuple[StoredEntry, ...]:
    """Return the entries of a payload, by name. Raises DecodeError."""
    cursor = SectionCursor(payload, "directory")
    entries = []
    before = b""
    for _ in range(cursor.count(_ENTRY.size)):
        name = cursor.data()
        content, *status, section = cursor.unpack(_ENTRY)
        error = cursor.data()
        if not before < name or len(name) > _NAME_BYTES or b"/" in name or b"\0" in name:
            raise cursor.error("names of files in order", repr(name[:_NAME_BYTES]))
        if name in (b".", b"..") or content >= len(FileContent) or status[4] < 0:
            raise cursor.error("a file", f"{name!r} with content {content} of {status[4]} bytes")
        text = error.decode(errors="replace")
        stored = StoredStatus(*status)
        entries.append(StoredEntry(name, stored, FileContent(content), section, text))
        before = name
    cursor.end()
    return tuple(entries)


def encode_parts(positions: Sequence[int]) -> bytes:
    """Return the payload of the parts of a file."""
    return b"".join(map(_PART.pack, positions))


def decode_parts(payload: bytes, size: int) -> array[int]:
    """Return the positions of the parts of a file of ``size`` bytes. Raises DecodeError."""
    cursor = SectionCursor(payload, "parts of a file")
    count = -(-size // PART_BYTES)
    if len(payload) != count * _PART.size:
        raise cursor.error(f"{count} parts of {size} bytes", f"{len(payload) / _PART.size:g}")
    return array("Q", (position for (position,) in _PART.iter_unpack(payload)))


def _pack_entry(entry: StoredEntry) -> bytes:
    status = entry.status
    return (
        pack_data(entry.name)
        + _ENTRY.pack(
            entry.content,
            status.mode,
            status.uid,
            status.gid,
            status.inode,
            status.size,
            status.mtime_ns,
            entry.section,
        )
        + pack_data(entry.error.encode(errors="surrogateescape")[:1_000])
    )
