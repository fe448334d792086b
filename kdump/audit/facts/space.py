"""The free space of the file system that holds a log directory.

Spec: statvfs(3). Quotas of users are not in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The smallest unit in which file systems hand out space, as far as is known without asking.
BLOCK_BYTES: Final = 4096


@frozen
class Space:
    """The size of a file system, and its free space for users other than root.

    ``device`` is its number in stat(2). ``free_files`` are free inodes, None where the file system
    makes them as they are needed.
    """

    device: int
    total_bytes: int
    free_bytes: int
    free_files: int | None


def read_space(path: AnyPath) -> Space | None:
    """Return the space of the file system at ``path``.

    None in an object store or a manifest, and where the file system does not tell.
    """
    if not isinstance(path, Path):
        return None
    try:
        status, found = path.stat(), os.statvfs(path)
    except OSError:
        return None
    if not found.f_blocks:
        return None
    # Not f_bfree, for root either: ext4 counts blocks there that no user gets.
    return Space(
        status.st_dev,
        found.f_blocks * found.f_frsize,
        found.f_bavail * found.f_frsize,
        found.f_favail if found.f_files else None,
    )


def allocated_bytes(path: AnyPath | None) -> int | None:
    """Return the bytes that a file takes on its file system: 0 without a file, None if unknown."""
    if path is None:
        return 0
    if not isinstance(path, Path):
        return None
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return None
