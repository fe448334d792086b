"""The directories of a repair, opened once as descriptors that follow no link.

Each path to change lies below one of these directories. It is reached from the descriptor, name by
name, without following links. If another process renames or links a directory, the change
is made in the opened directory or not at all.

The open directories belong to the process, as its working directory and its effective ids do.

Spec: ``openat(2)``.
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
from kdump.repair.transaction.plan import changed_since
from kdump.storage.ownership import open_safely
from kdump.storage.rights import Rights, acting, is_root

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Directory:
    """The directory at ``path`` and the directories below it, by their descriptors."""

    def __init__(self, path: Path, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self.path, self.descriptor = path, descriptor
        self.rights = Rights.of_owner(status)
        self.identity = status.st_dev, status.st_ino
        self._below: dict[tuple[str, ...], int] = {}

    def below(self, parts: tuple[str, ...]) -> int:
        """Return the descriptor of a directory below it.

        Raises Refused unless it is a directory that its owner alone can write; OSError.
        """
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
        """Close all descriptors below it."""
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
def open_directory(path: Path) -> Iterator[Directory]:
    """Open the directory at ``path``, so that files below it can be changed.

    As root, changes are made with the rights of its owner. Other users must not be able to replace
    a directory that root owns. Raises Refused.
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
def open_as_owner(path: Path, identity: tuple[int, int] | None = None) -> Iterator[Directory]:
    """Open a directory, and act with its owner's rights.

    Raises Refused if its device and inode are not ``identity``.
    """
    with open_directory(path) as directory:
        if identity not in (None, directory.identity):
            raise changed_since(path, "another directory")
        with acting(directory.rights):
            _check_reach(directory)
            yield directory


@contextmanager
def read_as_owner(path: Path) -> Iterator[None]:
    """Act with the rights of the owner of ``path``, to read files below it."""
    with open_safely(path) as descriptor:
        directory = Directory(path, descriptor)
    with acting(directory.rights):
        _check_reach(directory)
        yield


@contextmanager
def parent_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the descriptor of the directory of ``path``, and its name there.

    The block runs with the rights of the owner of the opened directory. Raises Refused, OSError.
    """
    directory, parts = _holder(path.parent)
    with acting(directory.rights):
        yield directory.below(parts), path.name


def descriptor_of(path: Path) -> int:
    """Return the descriptor of an opened directory, or of a directory below it.

    Raises Refused, OSError.
    """
    directory, parts = _holder(path)
    with acting(directory.rights):
        return directory.below(parts)


def forget_directory(path: Path) -> None:
    """Close the descriptor of a removed directory, so that its name can be used again."""
    directory, parts = _holder(path)
    directory.forget(parts)


def check_own_directory(path: Path, uid: int) -> None:
    """Raise Refused unless ``path`` is missing, or a directory that only user ``uid`` can write."""
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
    """Raise Refused unless this process, with its current rights, reaches it by its path."""
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
    """Return the nearest opened directory at or above ``path``, and the names below it."""
    holders = [directory for directory in _opened if path.is_relative_to(directory.path)]
    if not holders:
        raise ValueError(f"expected a directory that was opened for changes, found {path}")
    directory = max(holders, key=lambda directory: len(directory.path.parts))
    parts = path.relative_to(directory.path).parts
    if ".." in parts:
        raise ValueError(f"expected a path below {directory.path}, found {path}")
    return directory, parts
