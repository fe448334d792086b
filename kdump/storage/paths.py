"""Paths: in the file system, or outside of it, with one way to list and to ask for the status.

A path outside of the file system is no ``Path``: it has no method that touches the file system.
What reads takes ``AnyPath``, what writes takes a ``Path``, which ``as_local`` makes sure of. This
module knows no store and no manifest; their paths are subclasses of ``StoredPath``, and
``open_source`` of ``kdump.storage.access`` opens them.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final, Protocol, Self

from kdump.errors import UsageError

_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


class ScanEntry(Protocol):
    """An entry in the listing of a directory; ``os.DirEntry`` has this interface."""

    @property
    def name(self) -> str:
        """Its name in the directory."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a regular file."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its status, as ``os.stat`` gives it."""


class StoredPath(PurePosixPath):
    """A path outside of the file system; it has the methods of ``Path`` that readers use.

    A subclass holds all of its place in its parts, so that any of its paths can be joined, split
    and sent to a worker. ``KIND`` says in errors what was found instead of a path.
    """

    KIND: ClassVar = "a path outside of the file system"

    def __fspath__(self) -> str:
        """Raise TypeError: the functions of ``os`` would take it for a file beside them."""
        raise TypeError(f"expected a path in the file system, found {self.KIND} {self}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, ...]]:
        return type(self), self.parts

    def is_absolute(self) -> bool:
        """Return True: there is no current directory here."""
        return True

    def absolute(self) -> Self:
        """Return the path itself."""
        return self

    def resolve(self, strict: bool = False) -> Self:
        """Return the path itself: there are no links here."""
        return self

    @abstractmethod
    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status, as ``os.stat`` gives it. Raises OSError."""

    @abstractmethod
    def entries(self) -> Sequence[ScanEntry]:
        """List what is directly below. Raises OSError."""

    def lstat(self) -> os.stat_result:
        """Do the same as ``stat``: there are no links here."""
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is something here. Raises OSError where that is unknown."""
        return self._is(lambda _: True)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a directory. Raises OSError where that is unknown."""
        return self._is(stat.S_ISDIR)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file. Raises OSError where that is unknown."""
        return self._is(stat.S_ISREG)

    def _is(self, kind: Callable[[int], bool]) -> bool:
        try:
            return kind(self.stat().st_mode)
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise


AnyPath = Path | StoredPath
"""A path in the file system, an address in a store, or a path in a manifest."""


def typed_text(path: AnyPath) -> str:
    """Return the text of which ``as_path`` makes the absolute ``path``, options included."""
    return os.fspath(path.absolute()) if isinstance(path, Path) else str(path)


def as_local(path: AnyPath) -> Path:
    """Return a path in the file system as such. Raises UsageError for any other."""
    if isinstance(path, Path):
        return path
    raise UsageError(f"{path}: expected a path in the file system, found {path.KIND}")


def scan(path: AnyPath) -> AbstractContextManager[Iterator[ScanEntry]]:
    """List a directory, as ``os.scandir`` does. Raises OSError."""
    if isinstance(path, StoredPath):
        return nullcontext(iter(path.entries()))
    return os.scandir(path)


def exists(path: AnyPath) -> bool:
    """Return whether something is at ``path``; a link to nowhere counts."""
    return path.exists() if isinstance(path, StoredPath) else os.path.lexists(path)
