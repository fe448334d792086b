"""The directories of a repair, opened once as descriptors that follow no link.

All that is changed is named by a path below one of them, and reached from its descriptor, step by
step and through no link: whatever is renamed or linked around it in between, the change is made
there or not at all.

Spec: ``openat(2)``. What this process has open here is a property of the process, as its working
directory and its effective ids are.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kdump.errors import Refused
from kdump.storage.ownership import open_safely
from kdump.storage.rights import Rights, acting, is_root

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Directory:
    """The directory at ``path``, and those below it, by their descriptors."""

    def __init__(self, path: Path, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.path, self.descriptor = path, descriptor
        self.rights = Rights.of_owner(status)
        self.identity = status.st_dev, status.st_ino
        self._below: dict[tuple[str, ...], int] = {}

    def below(self, parts: tuple[str, ...]) -> int:
        """The descriptor of a directory in it. Raises Refused for what is none of kdump's."""
        if not parts:
            return self.descriptor
        if parts not in self._below:
            self._below[parts] = self._open(parts)
        return self._below[parts]

    def forget(self, parts: tuple[str, ...]) -> None:
        """Close the descriptor of a directory that was removed."""
        if parts in self._below:
            os.close(self._below.pop(parts))

    def close(self) -> None:
        """Close all that was opened below it."""
        for parts in list(self._below):
            self.forget(parts)

    def _open(self, parts: tuple[str, ...]) -> int:
        path, above = self.path.joinpath(*parts), self.below(parts[:-1])
        try:
            descriptor = os.open(parts[-1], _DIRECTORY, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                check_own_directory(path, self.rights.uid)
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        try:
            _check_own(path, os.fstat(descriptor), self.rights.uid)
        except Refused:
            os.close(descriptor)
            raise
        return descriptor


_opened: Final[list[Directory]] = []


@contextmanager
def opened(path: Path) -> Iterator[Directory]:
    """Open the directory at ``path``, so that files below it can be changed.

    As root: with the rights of its owner; one of root's own must be out of reach of all others.
    Raises Refused.
    """
    with open_safely(path) as descriptor:
        directory = Directory(path, descriptor)
        _opened.append(directory)
        try:
            yield directory
        finally:
            _opened.remove(directory)
            directory.close()


@contextmanager
def owned(path: Path, identity: tuple[int, int] | None = None) -> Iterator[Directory]:
    """Open a directory, and have its owner's rights. Raises Refused if it is not ``identity``."""
    with opened(path) as directory:
        if identity not in (None, directory.identity):
            raise Refused(
                f"{path}: expected the files that the plan was made for, found other files "
                "(another directory): plan again"
            )
        with acting(directory.rights):
            _check_reach(directory)
            yield directory


@contextmanager
def read_as_owner(path: Path) -> Iterator[None]:
    """Read what is below ``path``, and change nothing there, with the rights of its owner."""
    with open_safely(path) as descriptor:
        directory = Directory(path, descriptor)
    with acting(directory.rights):
        _check_reach(directory)
        yield


@contextmanager
def parent_of(path: Path) -> Iterator[tuple[int, str]]:
    """Where a file is changed: the descriptor of its directory, and its name there.

    It is done with the rights of who owns the directory that was opened. Raises Refused, OSError.
    """
    directory, parts = _holder(path.parent)
    with acting(directory.rights):
        yield directory.below(parts), path.name


def descriptor_of(path: Path) -> int:
    """The descriptor of a directory that was opened, or of one below. Raises Refused, OSError."""
    directory, parts = _holder(path)
    with acting(directory.rights):
        return directory.below(parts)


def removed(path: Path) -> None:
    """Note that a directory is gone: another one may be made under its name."""
    directory, parts = _holder(path)
    directory.forget(parts)


def check_own_directory(path: Path, uid: int) -> None:
    """Raise Refused unless ``path`` is missing, or a directory that user ``uid`` alone writes."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise Refused(f"{path}: cannot be examined: {error.strerror}") from error
    _check_own(path, status, uid)


def _check_own(path: Path, status: os.stat_result, uid: int) -> None:
    expected = f"{path}: expected a directory of user {uid} that no other user can write"
    if stat.S_ISLNK(status.st_mode):
        raise Refused(
            f"{expected}, found a symbolic link: backups must stay on the file system of their "
            "partition: remove the link"
        )
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{expected}, found something else: move it away")
    if status.st_uid != uid:
        raise Refused(f"{expected}, found a directory of user {status.st_uid}: move it away")
    if status.st_mode & _OTHERS_WRITE and (is_root() or os.geteuid() == uid):
        mode = stat.S_IMODE(status.st_mode)
        raise Refused(
            f"{expected}, found mode {mode:o}: other users can change its content, move it away"
        )


def _check_reach(directory: Directory) -> None:
    """Raise Refused unless its path leads to it with the rights that this process has now."""
    path = directory.path
    try:
        status = path.stat()
    except OSError as error:
        raise Refused(
            f"{path}: expected user {os.geteuid()}, who owns it, to reach it, found: "
            f"{error.strerror}: a repair has the rights of the owner only; give the owner search "
            "permission on all directories above, or change the owner"
        ) from error
    if (status.st_dev, status.st_ino) != directory.identity:
        raise Refused(
            f"{path}: expected the directory to stay, found that it was replaced: try again"
        )


def _holder(path: Path) -> tuple[Directory, tuple[str, ...]]:
    """The nearest directory that was opened at or above ``path``, and the way down from it."""
    holders = [one for one in _opened if path.is_relative_to(one.path)]
    if not holders:
        raise ValueError(f"expected a directory that was opened for changes, found {path}")
    directory = max(holders, key=lambda one: len(one.path.parts))
    parts = path.relative_to(directory.path).parts
    if ".." in parts:
        raise ValueError(f"expected a path below {directory.path}, found {path}")
    return directory, parts
