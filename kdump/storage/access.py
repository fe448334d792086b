"""Opening of a path, in the file system or in a store, as a Source."""

from __future__ import annotations

import os
from pathlib import Path

from kdump.storage.object_source import READ_BYTES, ObjectSource
from kdump.storage.objects.address import RemotePath
from kdump.storage.source import (
    WINDOW_BYTES,
    MappedFile,
    PiecesOfFile,
    Source,
    WindowedFile,
    open_regular,
    source_error,
)
from kdump.storage.throttle import Pace


def open_source(
    path: Path,
    *,
    mapped: bool,
    sealed: bool = False,
    pace: Pace | None = None,
    window_bytes: int | None = None,
) -> Source:
    """Open the regular file, or the object in a store, at ``path``.

    ``window_bytes`` are held at a time; without it, what suits the way of reading. ``mapped``: map
    it; only in a forked worker, and only where nobody writes; objects never are, nor is a file of
    which only windows of ``window_bytes`` are wanted. Otherwise
    ``sealed`` says that nobody appends to the file any more, so that it is read past the page
    cache where the file system can do that. With a ``pace`` nothing is mapped, because nobody
    would know when the bytes of a map are read. Raises SourceError, VanishedError.
    """
    if isinstance(path, RemotePath):
        return ObjectSource(path, window_bytes=window_bytes or READ_BYTES, pace=pace)
    if mapped and pace is None:
        return MappedFile(path) if window_bytes is None else PiecesOfFile(path, window_bytes)
    return WindowedFile(path, sealed=sealed, window_bytes=window_bytes or WINDOW_BYTES, pace=pace)


def read_end(path: Path, most_bytes: int) -> tuple[int, bytes]:
    """Return the size of the regular file at ``path`` and its last bytes, at most ``most_bytes``.

    Raises SourceError, VanishedError.
    """
    if isinstance(path, RemotePath):
        with open_source(path, mapped=False, window_bytes=most_bytes) as source:
            start = max(source.size - most_bytes, 0)
            return source.size, bytes(source.window(start, source.size - start))
    descriptor, status = open_regular(path)
    try:
        size = status.st_size
        length = min(size, most_bytes)  # for as much as is asked for, room is made at once
        return size, os.pread(descriptor, length, size - length)
    except OSError as error:
        raise source_error(path, error) from error
    finally:
        os.close(descriptor)
