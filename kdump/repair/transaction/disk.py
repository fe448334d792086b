"""The durable file operations; all other modules change files through them.

Each function returns when its change survives a loss of power. A file appears under its name whole
or not at all. A failed sync is not repeated, because the state on disk is then unknown; its error
is raised. ``SYSTEM`` makes the system calls, one a method; tests replace it. Each path must lie
below a directory of ``directories.open_directory``; calls start from its descriptor.

Spec: ``openat(2)``, ``fsync(2)``, ``renameat(2)``, ``ioctl_ficlone(2)``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdump.repair.transaction.directories import descriptor_of, forget_directory, parent_of
from kdump.storage.source import allocated_bytes, hole_end
from kdump.values import frozen

_FICLONE: Final = 0x40049409
_PIECE_BYTES: Final = 1 << 20
_PERMISSIONS: Final = 0o7777
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
#: Errors of a file system, or of a quota, that is full.
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
#: Errors of a file system that cannot clone or copy between two files.
_CANNOT_COPY: Final = frozenset(
    {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM}
)


class System:
    """The system calls that change files. Each method makes one call, and raises OSError."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """Open a file, and create it if ``flags`` say so. Return its descriptor."""
        with parent_of(path) as (directory, name):
            return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=directory)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write at the current position; return the number of bytes written."""
        return os.write(descriptor, data)

    def pwrite(self, descriptor: int, data: memoryview, position: int) -> int:
        """Write at ``position``; return the number of bytes written."""
        return os.pwrite(descriptor, data, position)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut an open file."""
        os.ftruncate(descriptor, size)

    def clone(self, target: int, source: int) -> None:
        """Make an empty file share all blocks of another."""
        fcntl.ioctl(target, _FICLONE, source)

    def copy(self, source: int, target: int, count: int, position: int) -> int:
        """Copy from ``position`` to the current position of the target; return the bytes copied."""
        return os.copy_file_range(source, target, count, position)

    def chown(self, descriptor: int, uid: int, gid: int) -> None:
        """Set the owner and group of an open file."""
        os.fchown(descriptor, uid, gid)

    def chmod(self, descriptor: int, mode: int) -> None:
        """Set the permissions of an open file."""
        os.fchmod(descriptor, mode)

    def set_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Set an extended attribute of an open file."""
        os.setxattr(descriptor, name, value)

    def set_times(self, descriptor: int, mtime_ns: int) -> None:
        """Set the modification and access time of an open file."""
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def sync(self, descriptor: int) -> None:
        """Wait until a file, or the names in a directory, are on disk."""
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file; replace the file that has the new name."""
        with parent_of(source) as (above, name), parent_of(target) as (directory, new):
            os.rename(name, new, src_dir_fd=above, dst_dir_fd=directory)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name."""
        with parent_of(source) as (above, name), parent_of(target) as (directory, new):
            os.link(name, new, src_dir_fd=above, dst_dir_fd=directory, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Remove the name of a file."""
        with parent_of(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def make_directory(self, path: Path, mode: int) -> None:
        """Make a directory."""
        with parent_of(path) as (directory, name):
            os.mkdir(name, mode, dir_fd=directory)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        with parent_of(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)


#: Makes all system calls; only tests replace it.
SYSTEM = System()


@frozen
class Attributes:
    """The owner, permissions and extended attributes of a file, labels and ACLs included."""

    uid: int
    gid: int
    mode: int
    extended: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, path: Path) -> Attributes:
        """Return the attributes of the file or directory at ``path``. Raises OSError."""
        status = path.stat()
        extended = []
        try:
            for name in os.listxattr(path):
                with suppress(FileNotFoundError):
                    extended.append((name, os.getxattr(path, name)))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
        return cls(status.st_uid, status.st_gid, status.st_mode & _PERMISSIONS, tuple(extended))


def write_file(
    path: Path, pieces: Iterable[bytes], like: Attributes, mtime_ns: int | None = None
) -> None:
    """Write a new file; replace the partial file of an interrupted repair.

    A loss of power can lose its name until its directory is synced.
    """
    descriptor = _create(path)
    try:
        for piece in pieces:
            _write(descriptor, piece)
        _finish(descriptor, like, mtime_ns)
    finally:
        os.close(descriptor)


def copy_file(source: Path, path: Path, size: int, like: Attributes, mtime_ns: int) -> None:
    """Write the first ``size`` bytes of ``source`` to a new file; clone them where possible."""
    origin = _open(source)
    try:
        descriptor = _create(path)
        try:
            if _try_clone(descriptor, origin):
                SYSTEM.truncate(descriptor, size)
            else:
                _copy(origin, descriptor, 0, size)
            _finish(descriptor, like, mtime_ns)
        finally:
            os.close(descriptor)
    finally:
        os.close(origin)


def save_tail(source: Path, start: int, path: Path, like: Attributes) -> int:
    """Save the bytes of ``source`` from ``start`` on; return the position of the first saved byte.

    That is 0 where the whole file could be cloned, which takes neither time nor space.
    """
    origin = _open(source)
    try:
        descriptor = _create(path)
        try:
            if _try_clone(descriptor, origin):
                start = 0
            else:
                _copy(origin, descriptor, start, os.fstat(origin).st_size)
            _finish(descriptor, like, None)
        finally:
            os.close(descriptor)
    finally:
        os.close(origin)
    return start


def cut(path: Path, size: int, mtime_ns: int) -> None:
    """Cut a log to ``size`` bytes, and set its modification time to ``mtime_ns``."""
    descriptor = SYSTEM.open(path, os.O_RDWR)
    try:
        SYSTEM.truncate(descriptor, size)
        SYSTEM.set_times(descriptor, mtime_ns)
        SYSTEM.sync(descriptor)
    finally:
        os.close(descriptor)


def restore_tail(path: Path, position: int, saved: Path, start: int, mtime_ns: int) -> None:
    """Undo ``cut``: write the bytes of ``saved`` from ``start`` on to ``position`` of the log."""
    origin = _open(saved)
    try:
        descriptor = SYSTEM.open(path, os.O_RDWR)
        try:
            status = os.fstat(origin)
            sparse = allocated_bytes(status) < status.st_size
            while start < status.st_size:
                if sparse and (hole := hole_end(origin, start, status.st_size) - start):
                    start += hole
                    position += hole
                    if start == status.st_size:
                        SYSTEM.truncate(descriptor, position)
                    continue
                piece = os.pread(origin, _PIECE_BYTES, start)
                if not piece:
                    raise OSError(errno.EIO, f"the file ends at {start}")
                _write_at(descriptor, piece, position)
                start += len(piece)
                position += len(piece)
            # The time marks the log as complete, so it is set only after the bytes are on disk.
            SYSTEM.sync(descriptor)
            SYSTEM.set_times(descriptor, mtime_ns)
            SYSTEM.sync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        os.close(origin)


def rename(source: Path, target: Path) -> None:
    """Move a file, replace its target, and sync both directories."""
    SYSTEM.rename(source, target)
    sync_directory(target.parent)
    if source.parent != target.parent:
        sync_directory(source.parent)


def link(source: Path, target: Path) -> None:
    """Give a file a second name, unless it already has that name."""
    try:
        SYSTEM.link(source, target)
    except FileExistsError:
        if not os.path.samestat(source.lstat(), target.lstat()):
            raise
    sync_directory(target.parent)


def unlink(path: Path) -> None:
    """Remove the name of a file, if it exists."""
    with suppress(FileNotFoundError):
        SYSTEM.unlink(path)
    sync_directory(path.parent)


def unlink_all(paths: Sequence[Path], gone: Callable[[Path], None] = lambda _: None) -> None:
    """Remove the names of files in one directory, and sync the directory once.

    ``gone`` is called after each.
    """
    for path in paths:
        SYSTEM.unlink(path)
        gone(path)
    if paths:
        sync_directory(paths[0].parent)


def make_directory(path: Path, like: Attributes) -> None:
    """Make a directory for the owner of ``like`` alone, unless it exists.

    An existing directory keeps its owner. It is synced too, because the process that made it may
    have been killed before its sync.
    """
    try:
        SYSTEM.make_directory(path, 0o700)
        is_new = True
    except FileExistsError:
        is_new = False
    with parent_of(path) as (directory, name):
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            if is_new:
                _set_owner(descriptor, like)
            SYSTEM.sync(descriptor)
        finally:
            os.close(descriptor)
    sync_directory(path.parent)


def set_directory_attributes(path: Path, like: Attributes) -> None:
    """Set the owner, the permissions and the extended attributes of a directory."""
    _finish(descriptor_of(path), like, None)


def remove_tree(path: Path) -> None:
    """Remove a directory and its content; do not follow symbolic links."""
    stack = [(path, iter(list_directory(path)))]  # no recursion: directories may nest deeply
    while stack:
        directory, entries = stack[-1]
        for name, is_directory in entries:
            if is_directory:
                stack.append((directory / name, iter(list_directory(directory / name))))
                break
            SYSTEM.unlink(directory / name)
        else:
            SYSTEM.remove_directory(directory)
            forget_directory(directory)
            sync_directory(directory.parent)
            stack.pop()


def remove_empty(path: Path) -> None:
    """Remove a directory if it is empty."""
    try:
        SYSTEM.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return
    forget_directory(path)
    sync_directory(path.parent)


def list_directory(path: Path) -> list[tuple[str, bool]]:
    """Return the sorted names in a directory, each with whether it is a directory and no link.

    Raises OSError.
    """
    with os.scandir(descriptor_of(path)) as entries:
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)


def exists(path: Path) -> bool:
    """Return whether the name exists, also as a dangling link. Raises OSError."""
    try:
        with parent_of(path) as (directory, name):
            os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def open_lock(path: Path) -> int:
    """Open a lock file for locking; create it if it is missing. Return its descriptor.

    A new lock file belongs to the owner of its directory, with whose rights it is created. Files
    that are not regular are opened too.
    """
    flags = os.O_RDWR | os.O_NONBLOCK
    with suppress(FileExistsError):
        return SYSTEM.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
    return SYSTEM.open(path, flags)


def sync_file(path: Path) -> None:
    """Wait until the current content of a file is on disk, also if another process wrote it."""
    descriptor = _open(path)
    try:
        SYSTEM.sync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on disk."""
    SYSTEM.sync(descriptor_of(path))


def _open(path: Path) -> int:
    with parent_of(path) as (directory, name):
        return os.open(name, _READ, dir_fd=directory)


def _create(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        return SYSTEM.open(path, flags)
    except FileExistsError:
        SYSTEM.unlink(path)
        return SYSTEM.open(path, flags)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[SYSTEM.write(descriptor, view) :]


def _write_at(descriptor: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        taken = SYSTEM.pwrite(descriptor, view, position)
        view, position = view[taken:], position + taken


def _try_clone(target: int, source: int) -> bool:
    try:
        SYSTEM.clone(target, source)
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
        return False
    return True


def _copy(source: int, target: int, start: int, stop: int) -> None:
    """Append bytes of a file; the holes of a sparse file become holes."""
    space, status = os.fstatvfs(target), os.fstat(source)
    needed = min(stop - start, allocated_bytes(status))
    if needed > space.f_bavail * space.f_frsize:
        raise OSError(errno.ENOSPC, f"{needed} bytes are to be copied")
    sparse = allocated_bytes(status) < status.st_size
    by_kernel = True
    while start < stop:
        if sparse and (hole := min(hole_end(source, start, stop), stop) - start):
            start += hole
            if start == stop:
                SYSTEM.truncate(target, os.lseek(target, 0, os.SEEK_CUR) + hole)
            else:
                os.lseek(target, hole, os.SEEK_CUR)
            continue
        count = min(_PIECE_BYTES, stop - start)
        if by_kernel:
            try:
                taken = SYSTEM.copy(source, target, count, start)
            except OSError as error:
                if error.errno not in _CANNOT_COPY:
                    raise
                by_kernel = False
                continue
        else:
            piece = os.pread(source, count, start)
            taken = len(piece)
            _write(target, piece)
        if not taken:
            raise OSError(errno.EIO, f"the file ends at {start}, before {stop}")
        start += taken


def _set_owner(descriptor: int, like: Attributes) -> None:
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (like.uid, like.gid):
        SYSTEM.chown(descriptor, like.uid, like.gid)


def _finish(descriptor: int, like: Attributes, mtime_ns: int | None) -> None:
    _set_owner(descriptor, like)
    SYSTEM.chmod(descriptor, like.mode)
    have = set(os.listxattr(descriptor)) if like.extended else set()
    for name, value in like.extended:
        if name not in have or os.getxattr(descriptor, name) != value:
            SYSTEM.set_attribute(descriptor, name, value)
    if mtime_ns is not None:
        SYSTEM.set_times(descriptor, mtime_ns)
    SYSTEM.sync(descriptor)
