"""A directory that appears under its name complete, or not at all.

It grows beside its place as ``.kdump.<name>.tmp``, which a try that was killed leaves and the next
one removes. What goes wrong on the way leaves nothing.

A broker stops at no name here, since none of this is in a log directory.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from kdump.errors import Refused
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import opened
from kdump.repair.transaction.disk import Attributes
from kdump.storage.rights import is_root

#: What a link leads to is not what was made here.
_OPENED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Building:
    """The directory at ``path`` while it grows; ``files`` has the size and SHA-256 of each file.

    ``lock`` is the descriptor that says to others that somebody is at work.
    """

    def __init__(self, path: Path, origin: Path, lock: int) -> None:
        self.path, self.lock = path, lock
        self.files: dict[str, tuple[int, str]] = {}
        self._device = origin.stat().st_dev
        self.like = self.attributes(origin)

    def attributes(self, origin: Path) -> Attributes:
        """The owner, permissions and attributes of ``origin``, as far as they can be given."""
        found = Attributes.of(origin)
        uid, gid = os.geteuid(), os.getegid()
        if not is_root():
            return Attributes(uid, gid, found.mode)
        # Of another file system nobody knows which attributes it takes.
        same = self._device == self.path.stat().st_dev
        extended = tuple(each for each in found.extended if uid == 0 or _is_open(each[0]))
        if uid != 0:
            found = replace(found, uid=uid, gid=found.gid if found.gid in os.getgroups() else gid)
        return replace(found, extended=extended if same else ())

    def put(
        self,
        name: str,
        pieces: Iterable[bytes],
        like: Attributes | None = None,
        mtime_ns: int | None = None,
    ) -> None:
        """Write a file, in the place of one that was put before."""
        digest = sha256()
        size = self.write(name, pieces, digest.update, like, mtime_ns)
        self.files[name] = size, digest.hexdigest()

    def write(
        self,
        name: str,
        pieces: Iterable[bytes],
        told: Callable[[bytes], object],
        like: Attributes | None = None,
        mtime_ns: int | None = None,
    ) -> int:
        """Write a file that is read back for ``files``; returns its size.

        ``told`` is called with each piece.
        """
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                told(piece)
                size += len(piece)
                yield piece

        owner = like or replace(self.like, mode=self.like.mode & 0o666, extended=())
        disk.write_file(self.path / name, counted(), owner, mtime_ns)
        return size

    def remove(self, name: str) -> None:
        """Take a file away again."""
        disk.unlink(self.path / name)
        del self.files[name]


def _is_open(attribute: str) -> bool:
    """Whether the owner of a file may set an extended attribute of it."""
    return attribute.startswith(("user.", "system.posix_acl_"))


@contextmanager
def building(destination: Path, origin: Path) -> Iterator[Building]:
    """Make the directory ``destination`` after ``origin``; it appears when the block ends.

    The directory that it is made in belongs to root, or to the user whose rights this process has:
    he makes all that is in it, and gets it. Raises Refused where it is there, or another process
    is making it.
    """
    if os.path.lexists(destination):
        raise Refused(
            f"{destination}: expected no file or directory of this name, found something: nothing "
            "is overwritten"
        )
    path = destination.with_name(f".kdump.{destination.name}.tmp")
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise Refused(
            f"{path}: expected nothing, or the rest of an interrupted run, found something else: "
            "move it away first"
        )
    with ExitStack() as stack:
        made = False
        try:
            if not destination.parent.exists():
                stack.enter_context(_opened(destination.parent.parent))
                _make_with_owner(destination.parent)
                made = True
            stack.enter_context(_opened(destination.parent))
            _remove_leftover(path)
            disk.make_directory(path, _own())
            with opened(path) as grown:
                # Of its own: workers close it, and write into the directory through the other.
                lock = os.open(".", _OPENED, dir_fd=grown.descriptor)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    one = Building(path, origin, lock)
                    yield one
                    disk.own_directory(path, one.like)
                    disk.rename(path, destination)
                finally:
                    os.close(lock)
        except BaseException:  # whatever ends it, Ctrl-C too: nothing half made is left
            with suppress(OSError, Refused):
                if path.exists() and not _in_use(path):
                    _remove(path)
                if made and destination.parent.exists():
                    disk.remove_empty(destination.parent)
            raise


def _make_with_owner(path: Path) -> None:
    """Make a directory that appears under its name with its owner, or not at all."""
    grown = path.with_name(f".kdump.{path.name}.tmp")
    if os.path.lexists(grown):  # of a try that was killed
        disk.remove_empty(grown)
    try:
        disk.make_directory(grown, _own())
        disk.rename(grown, path)
    except BaseException:
        with suppress(OSError):
            disk.remove_empty(grown)
        raise


def _own() -> Attributes:
    return Attributes(os.geteuid(), os.getegid(), 0o700)


@contextmanager
def _opened(path: Path) -> Iterator[None]:
    """Open a directory to make something in it. Raises Refused where another user could do more."""
    with opened(path) as directory:
        uid = directory.rights.uid
        if is_root() and uid not in (0, os.geteuid()):
            raise Refused(
                f"{path}: expected a directory of root, or of user {os.geteuid()}, who owns the "
                f"source, found a directory of user {uid}: use a directory of these users, or run "
                f"as user {uid}"
            )
        yield


def _remove_leftover(path: Path) -> None:
    if not path.exists():
        return
    if _in_use(path):
        raise Refused(
            f"{path}: expected no other kdump at work there, found a lock of another kdump: wait "
            "until it has ended"
        )
    _remove(path)


def _remove(path: Path) -> None:
    """Remove a directory that a salvage or a conversion has not finished."""
    with _opened(path):
        disk.remove_tree(path)


def _in_use(path: Path) -> bool:
    descriptor = os.open(path, _OPENED)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
