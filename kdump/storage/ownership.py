"""Opening of a directory component by component, with the users who could redirect the path.

As root, follow a path only if no other user can put a link into it: no directory and no link on the
way belongs to another user or is writable for others. In a directory with the sticky bit, other
users cannot replace entries of root.

Spec: ``open(2)``, ``inode(7)``.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from kdump.errors import Refused
from kdump.storage.rights import ROOT, acting, is_root

#: Flags that follow no link, and need no permission to list a directory.
_STEP: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_LINKS: Final = 40
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def open_safely(path: Path) -> Iterator[int]:
    """Open the directory at ``path``, which may be a link to it; yield its descriptor.

    Raises Refused if the directory cannot be opened, or if this process is root, root owns the
    directory, and another user can redirect the path.
    """
    with ExitStack() as stack:
        try:
            if is_root() and sys.platform == "linux":
                with acting(ROOT):
                    descriptor, weakness = stack.enter_context(_open_way(path))
            else:
                descriptor, weakness = os.open(path, _DIRECTORY), None
                stack.callback(os.close, descriptor)
        except OSError as error:
            raise Refused(f"{path}: cannot be opened: {error.strerror}") from error
        if weakness is not None and os.fstat(descriptor).st_uid == 0:
            raise Refused(
                f"{path}: expected a path that only root can change, found that {weakness}: change "
                f"the owner of {path} to the user who is to own the files, or move it"
            )
        yield descriptor


@contextmanager
def _open_way(path: Path) -> Iterator[tuple[int, str | None]]:
    """Open the directory at ``path``; yield its descriptor, and how other users can redirect it.

    The latter is None if only root can change every step of the path. Raises OSError.
    """
    at = os.open("/", _STEP)
    weakness = _weakness("/", os.fstat(at))
    try:
        links, shown = 0, Path("/")
        parts = list(reversed(path.absolute().parts[1:]))
        while parts:
            name = parts.pop()
            step = os.open(name, _STEP, dir_fd=at)
            status = os.fstat(step)
            found = _weakness(shown / name, status)
            weakness = weakness or found
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink("", dir_fd=step)
                os.close(step)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
                if target.startswith("/"):
                    os.close(at)
                    at, shown = os.open("/", _STEP), Path("/")
                parts += reversed([part for part in target.split("/") if part])
                continue
            os.close(at)
            at, shown = step, shown / name
        descriptor = os.open(".", _DIRECTORY, dir_fd=at)
    finally:
        os.close(at)
    try:
        yield descriptor, weakness
    finally:
        os.close(descriptor)


def _weakness(path: str | Path, status: os.stat_result) -> str | None:
    """Return why a user other than root could replace what is below ``path``, None if none can."""
    if status.st_uid != 0:
        return f"{path} belongs to user {status.st_uid}"
    open_to_others = status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
    if open_to_others and not stat.S_ISLNK(status.st_mode):
        return f"{path} is writable for others (mode {stat.S_IMODE(status.st_mode):o})"
    return None
