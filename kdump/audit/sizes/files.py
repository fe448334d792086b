"""The bytes that files take on their file system.

A file with other hard links counts apart: to delete it frees nothing. So does the target of a link,
which is elsewhere, and what a file has in extents that other files share. In manifests and object
stores, a file takes its size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kdump.errors import SourceError
from kdump.storage.extents import may_share_extents, shared_bytes
from kdump.storage.names import FileKind, parse_file_name
from kdump.storage.paths import AnyPath, scan
from kdump.storage.source import source_error
from kdump.values import frozen

#: The unit of ``st_blocks``.
_BLOCK_BYTES: Final = 512
#: The least bytes of a file of which shared extents are asked for.
_LEAST_SHARED: Final = 1 << 20
#: The directories of a tree that are listed, at most.
_MOST_DIRECTORIES: Final = 100_000


@frozen
class FileSpace:
    """A file: the bytes that deleting it frees, those that it shares, its size and mtime."""

    bytes: int
    linked: int
    size: int
    written_ms: int


@dataclass(slots=True)
class TreeSpace:
    """The bytes of all files below a directory; ``segments``: one of them is a segment's log."""

    bytes: int = 0
    linked: int = 0
    segments: bool = False
    errors: list[SourceError] = field(default_factory=list)


def file_space(status: os.stat_result, *, link: bool) -> FileSpace:
    """Return the space of a file with this status; ``link``: it is the target of a link."""
    blocks: int | None = status.st_blocks  # None in a manifest and in a store
    allocated = status.st_size if blocks is None else blocks * _BLOCK_BYTES
    shared = link or status.st_nlink > 1
    return FileSpace(
        0 if shared else allocated,
        allocated if shared else 0,
        status.st_size,
        status.st_mtime_ns // 1_000_000,
    )


def _without_shared(space: FileSpace, path: Path) -> FileSpace:
    """Return ``space`` less what the file at ``path`` shares; of small files that is not asked."""
    if space.bytes < _LEAST_SHARED:
        return space
    shared = min(shared_bytes(path), space.bytes)
    return replace(space, bytes=space.bytes - shared, linked=space.linked + shared)


def files_in(path: AnyPath) -> dict[str, FileSpace]:
    """Return the files of a directory by name, links followed as by a broker. Raise SourceError."""
    found: dict[str, FileSpace] = {}
    cloning = path if isinstance(path, Path) and may_share_extents(path) else None
    try:
        with scan(path) as entries:
            for entry in entries:
                try:
                    if entry.is_file():
                        link = not entry.is_file(follow_symlinks=False)
                        space = file_space(entry.stat(), link=link)
                        if cloning is not None:
                            space = _without_shared(space, cloning / entry.name)
                        found[entry.name] = space
                except FileNotFoundError:
                    continue  # a running broker has deleted it
    except OSError as error:
        raise source_error(path, error) from error
    return found


def tree_space(top: AnyPath, others: Collection[tuple[int, int]] = ()) -> TreeSpace:
    """Return the space of all files below ``top``, which is no link.

    Other file systems are left out, and the directories ``others``, by device and inode.
    """
    found = TreeSpace()
    if not isinstance(top, Path):
        return found
    device: int | None = None
    following = [top]
    for _ in range(_MOST_DIRECTORIES):
        if not following:
            return found
        path = following.pop()
        try:
            status = path.lstat()
            device = status.st_dev if device is None else device
            if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
                continue
            if (status.st_dev, status.st_ino) not in others:
                _add_directory(found, path, following)
        except FileNotFoundError:
            continue
        except OSError as error:
            found.errors.append(source_error(path, error))
    text = f"{top}: expected at most {_MOST_DIRECTORIES} directories, found more"
    found.errors.append(SourceError(top, text))
    return found


def _add_directory(found: TreeSpace, path: Path, following: list[Path]) -> None:
    """Add the files of a directory, and its directories to ``following``. Raise OSError."""
    sharing = may_share_extents(path)
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                following.append(path / entry.name)
            elif stat.S_ISREG(status.st_mode):
                space = file_space(status, link=False)
                if sharing:
                    space = _without_shared(space, path / entry.name)
                found.bytes += space.bytes
                found.linked += space.linked
                name = parse_file_name(entry.name)
                found.segments |= name.kind is FileKind.LOG and name.base_offset is not None
