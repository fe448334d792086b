"""Opening of a path, in the file system, in a store or in a manifest, as a Source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kdump.storage.manifests.opening import open_in_manifest
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.object_source import READ_BYTES, ObjectSource
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath, StoredPath, as_local
from kdump.storage.source import (
    WINDOW_BYTES,
    MappedFile,
    PiecesOfFile,
    Source,
    WindowedFile,
    allocated_bytes,
    open_regular,
    source_error,
)
from kdump.storage.throttle import Pace

#: The window of a file that is read at a rate, mostly beside a running broker. The system copies or
#: maps a window in one go, during which a thread of the broker may wait for its CPU.
PACED_WINDOW_BYTES: Final = 256 << 10


def open_source(
    path: AnyPath,
    *,
    mapped: bool,
    sealed: bool = False,
    pace: Pace | None = None,
    window_bytes: int | None = None,
) -> Source:
    """Open the regular file, the object in a store, or the file in a manifest, at ``path``.

    ``mapped`` allows a map of the file. It is for forked workers alone, and for files that no
    process writes. An object is not mapped, nor is a file with ``window_bytes`` or ``pace``: the
    time at which a process reads the pages of a map is unknown. A file with holes is not mapped
    either: on tmpfs, a read of a map fills them.

    ``window_bytes`` is the size of the window that the source holds; the default suits the way of
    reading, which for objects begins at their start. ``sealed`` says that no process appends to the
    file: it is then read past the page cache where the file system supports that. ``pace`` is the
    rate of reads.

    Raises SourceError, VanishedError.
    """
    if isinstance(path, ManifestPath):
        return open_in_manifest(path)
    if isinstance(path, RemotePath):
        remote = ObjectSource(path, window_bytes=window_bytes or READ_BYTES, pace=pace)
        if window_bytes is None:
            remote.begin()
        return remote
    local = as_local(path)
    if mapped and pace is None:
        if window_bytes is not None:
            return PiecesOfFile(local, window_bytes)
        if not _has_holes(local):
            return MappedFile(local)
    own = WINDOW_BYTES if pace is None else PACED_WINDOW_BYTES
    return WindowedFile(local, sealed=sealed, window_bytes=window_bytes or own, pace=pace)


def _has_holes(path: Path) -> bool:
    """Return whether parts of the file at ``path`` take no space; False if it cannot be told."""
    try:
        status = path.stat()
    except OSError:  # opening says why
        return False
    return allocated_bytes(status) < status.st_size


def read_end(path: AnyPath, most_bytes: int) -> tuple[int, bytes]:
    """Return the size of the regular file at ``path`` and its last bytes, at most ``most_bytes``.

    Raises SourceError, VanishedError.
    """
    if isinstance(path, StoredPath):
        with open_source(path, mapped=False, window_bytes=most_bytes) as source:
            start = max(source.size - most_bytes, 0)
            return source.size, bytes(source.window(start, source.size - start))
    descriptor, status = open_regular(as_local(path))
    try:
        size = status.st_size
        length = min(size, most_bytes)  # pread allocates the requested length
        return size, os.pread(descriptor, length, size - length)
    except OSError as error:
        raise source_error(path, error) from error
    finally:
        os.close(descriptor)
