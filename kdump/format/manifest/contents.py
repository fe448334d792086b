"""Contents: when a manifest was made, of what, and where each directory is in it.

Spec: kdump-manifest-format(5), section 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kdump.format.manifest.cursor import SectionCursor, pack_count, pack_data
from kdump.format.manifest.directories import StoredStatus
from kdump.values import frozen

#: The states of a root by their number (``kdump.storage.liveness.State``).
STATES: Final = ("live", "stopped", "unknown")
_HEAD: Final = struct.Struct(">qqB")
_STATE: Final = struct.Struct(">B")
_DIRECTORY: Final = struct.Struct(">IIIQqqQ")
_ANONYMOUS: Final = 1
#: The longest path, in bytes and in names.
_PATH_BYTES: Final = 4_096
_PATH_NAMES: Final = 64


@frozen
class StoredRoot:
    """A path that was named; ``state`` is one of ``STATES``."""

    path: bytes
    state: str
    reason: str


@frozen
class StoredDirectory:
    """A directory, and where its entries are; ``error`` says why it could not be listed."""

    path: bytes
    status: StoredStatus
    section: int
    error: str = ""


@frozen
class Contents:
    """The contents of a manifest; times are in nanoseconds since 1970."""

    begun_ns: int
    finished_ns: int
    anonymous: bool
    made_by: str
    origin: bytes
    roots: tuple[StoredRoot, ...]
    directories: tuple[StoredDirectory, ...]


def encode_contents(contents: Contents) -> bytes:
    """Return the payload of the contents."""
    parts = [
        _HEAD.pack(contents.begun_ns, contents.finished_ns, contents.anonymous * _ANONYMOUS),
        pack_data(_encode(contents.made_by)),
        pack_data(contents.origin),
        pack_count(len(contents.roots)),
    ]
    for root in contents.roots:
        state = _STATE.pack(STATES.index(root.state))
        parts += (pack_data(root.path), state, pack_data(_encode(root.reason)))
    directories = sorted(contents.directories, key=lambda directory: directory.path)
    parts.append(pack_count(len(directories)))
    for directory in directories:
        status = directory.status
        fields = (
            status.mode,
            status.uid,
            status.gid,
            status.inode,
            status.size,
            status.mtime_ns,
            directory.section,
        )
        parts += (pack_data(directory.path), _DIRECTORY.pack(*fields))
        parts.append(pack_data(_encode(directory.error)))
    return b"".join(parts)


def decode_contents(payload: bytes) -> Contents:
    """Return the contents of a payload. Raises DecodeError."""
    cursor = SectionCursor(payload, "contents")
    begun, finished, flags = cursor.unpack(_HEAD)
    made_by = cursor.data().decode(errors="replace")
    origin = cursor.data()
    if flags > _ANONYMOUS:
        raise cursor.error("known flags", f"{flags}")
    roots = tuple(_roots(cursor))
    if not roots:
        raise cursor.error("a path that was named", "none")
    directories = tuple(_directories(cursor))
    cursor.end()
    return Contents(begun, finished, bool(flags), made_by, origin, roots, directories)


def _roots(cursor: SectionCursor) -> Iterator[StoredRoot]:
    for _ in range(cursor.count(5)):
        path = _path(cursor)
        (state,) = cursor.unpack(_STATE)
        if state >= len(STATES):
            raise cursor.error(f"a state below {len(STATES)}", f"{state}")
        yield StoredRoot(path, STATES[state], cursor.data().decode(errors="replace"))


def _directories(cursor: SectionCursor) -> Iterator[StoredDirectory]:
    before: bytes | None = None
    for _ in range(cursor.count(_DIRECTORY.size)):
        path = _path(cursor)
        *status, section = cursor.unpack(_DIRECTORY)
        if before is not None and path <= before:
            raise cursor.error("directories in order", repr(path))
        error = cursor.data().decode(errors="replace")
        yield StoredDirectory(path, StoredStatus(*status), section, error)
        before = path


def _path(cursor: SectionCursor) -> bytes:
    path = cursor.data()
    if len(path) > _PATH_BYTES or path.count(b"/") >= _PATH_NAMES:
        raise cursor.error(
            f"a path of at most {_PATH_BYTES} bytes and {_PATH_NAMES} names", f"{len(path)} bytes"
        )
    if (path and any(name in (b"", b".", b"..") for name in path.split(b"/"))) or b"\0" in path:
        raise cursor.error("a path below the origin", repr(path[:255]))
    return path


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogateescape")[:10_000]
