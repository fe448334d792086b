"""All that reading a directory must leave as it was."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

State = dict[str, tuple[object, ...]]


def digest_of(path: Path) -> str:
    """The digest of a file's data and where it stands; the holes of preallocated files are not."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        position = 0
        while position < path.stat().st_size:
            try:
                start = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                assert error.errno == errno.ENXIO, "only a hole is left"
                break
            position = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            digest.update(b"%d %d " % (start, position))
            digest.update(os.pread(file.fileno(), position - start, start))
    return digest.hexdigest()


def state(top: Path) -> State:
    """What is below ``top``: kind and owner, size, times of change in ns, and digest, by path."""
    found: State = {}
    for path in [top, *sorted(top.rglob("*"))]:
        was = path.lstat()
        digest = digest_of(path) if path.is_file() else None
        found[path.relative_to(top).as_posix()] = (
            *(was.st_mode, was.st_nlink, was.st_uid, was.st_gid, was.st_ino, was.st_size),
            *(was.st_mtime_ns, was.st_ctime_ns, digest),
        )
    return found
