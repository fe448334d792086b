"""The extents of a file that it shares with other files: clones (reflinks), snapshots of btrfs.

To delete the file does not free them. Snapshots of a volume below the file system do not show.

Spec: ``ioctl_fiemap`` of Linux; statfs(2) for the types of file systems.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

from kdump.errors import SourceError
from kdump.storage.source import open_regular

#: f_type of XFS and btrfs. Others share no extents, or do not tell.
_CLONING: Final = frozenset({0x58465342, 0x9123683E})
_FIEMAP: Final = 0xC020660B
#: start, length, flags, and counts: mapped extents, room for extents; 4 bytes are reserved.
_HEAD: Final = struct.Struct("=QQIII4x")
#: Logical position, physical position, length, and flags.
_EXTENT: Final = struct.Struct("=QQQ16xI12x")
_LAST: Final = 0x1
_SHARED: Final = 0x2000
_ROOM: Final = 32
#: After as many calls, what is left of a file counts as its own.
_MOST_CALLS: Final = 1024


def may_share_extents(path: Path) -> bool:
    """Return whether the file system of ``path`` shares extents between files, and tells of it."""
    if sys.platform != "linux":
        return False
    # statfs has f_type as its first word; os.statvfs leaves it out.
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).statfs(os.fsencode(path), buffer) != 0:
        return False
    return buffer[0] & 0xFFFFFFFF in _CLONING


def shared_bytes(path: Path) -> int:
    """Return the bytes in shared extents of a file; 0 if it cannot be opened, or asked."""
    try:
        descriptor, _ = open_regular(path)
    except SourceError:
        return 0
    try:
        return _shared(descriptor)
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def _shared(descriptor: int) -> int:
    """Raise OSError."""
    start = found = 0
    for _ in range(_MOST_CALLS):
        buffer = bytearray(_HEAD.size + _ROOM * _EXTENT.size)
        _HEAD.pack_into(buffer, 0, start, 2**64 - 1 - start, 0, 0, _ROOM)
        fcntl.ioctl(descriptor, _FIEMAP, buffer)
        count = _HEAD.unpack_from(buffer)[3]
        flags = _LAST
        for number in range(count):
            logical, _, length, flags = _EXTENT.unpack_from(
                buffer, _HEAD.size + number * _EXTENT.size
            )
            found += length if flags & _SHARED else 0
            start = logical + length
        if flags & _LAST:
            return found
    return found
