"""A directory that appears under its name complete, or not at all.

It is built beside its destination as ``.kdump.<name>.tmp``. A killed run leaves that directory, and
the next run removes it, unless it holds other files too. A run that fails leaves nothing.

The destination is outside of any log directory, so no broker meets the temporary name.
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

from kdump.errors import Refused, Unfinished
from kdump.format.lines.shell import operand
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_directory
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.interruption import cause_text
from kdump.storage.names import EXTENSIONS, FileKind, parse_file_name
from kdump.storage.repair_record import FOLDERS
from kdump.storage.rights import is_root

#: The kinds of files that a salvage or a conversion writes, beside the folder with its receipt.
_MADE: Final = frozenset(
    {
        *EXTENSIONS,
        FileKind.METADATA_SNAPSHOT,
        FileKind.LEADER_EPOCHS,
        FileKind.PARTITION_METADATA,
        FileKind.QUORUM_STATE,
    }
)
#: Flags that refuse a symbolic link in place of the new directory.
_OPENED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Building:
    """The directory at ``path`` while it is built; ``files`` has size and SHA-256 of each file.

    ``lock`` is the descriptor whose lock shows other processes that the directory is in use.
    """

    def __init__(self, path: Path, origin: Path, lock: int) -> None:
        self.path, self.lock = path, lock
        self.files: dict[str, tuple[int, str]] = {}
        self._device = origin.stat().st_dev
        self.like = self.attributes(origin)

    def attributes(self, origin: Path) -> Attributes:
        """Return the owner, permissions and attributes of ``origin`` that this process may set."""
        found = Attributes.of(origin)
        uid, gid = os.geteuid(), os.getegid()
        if not is_root():
            return Attributes(uid, gid, found.mode)
        # Another file system may not support the same extended attributes.
        same = self._device == self.path.stat().st_dev
        extended = tuple(
            attribute for attribute in found.extended if uid == 0 or _may_set(attribute[0])
        )
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
        """Write a file, and record its size and SHA-256; replace a file of that name."""
        digest = sha256()
        size = self.write(name, pieces, digest.update, like, mtime_ns)
        self.files[name] = size, digest.hexdigest()

    def write(
        self,
        name: str,
        pieces: Iterable[bytes],
        on_piece: Callable[[bytes], object],
        like: Attributes | None = None,
        mtime_ns: int | None = None,
    ) -> int:
        """Write a file without recording it in ``files``; return its size.

        ``on_piece`` is called with each piece.
        """
        size = 0

        def count_pieces() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                on_piece(piece)
                size += len(piece)
                yield piece

        owner = like or replace(self.like, mode=self.like.mode & 0o666, extended=())
        disk.write_file(self.path / name, count_pieces(), owner, mtime_ns)
        return size

    def remove(self, name: str) -> None:
        """Remove a file."""
        disk.unlink(self.path / name)
        del self.files[name]


def _may_set(attribute: str) -> bool:
    """Return whether the owner of a file may set this extended attribute."""
    return attribute.startswith(("user.", "system.posix_acl_"))


@contextmanager
def build_directory(destination: Path, origin: Path) -> Iterator[Building]:
    """Make the directory ``destination`` with the attributes of ``origin``; it appears at the end.

    Its parent must belong to root, or to the user whose rights this process has. That user writes
    and owns all files. Raises Refused if the destination exists, or another process makes it;
    Unfinished if the destination is complete, and an error or a signal came before its sync.
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
        new_parent = False
        try:
            if not destination.parent.exists():
                stack.enter_context(_open_for_files(destination.parent.parent))
                new_parent = True  # also if only its sync fails
                _make_with_owner(destination.parent)
            stack.enter_context(_open_for_files(destination.parent))
            _remove_leftover(path)
            disk.make_directory(path, _owner_attributes())
            with open_directory(path) as directory:
                # A second descriptor: workers close the lock, and write through the first one.
                lock = os.open(".", _OPENED, dir_fd=directory.descriptor)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    building = Building(path, origin, lock)
                    yield building
                    disk.set_directory_attributes(path, building.like)
                    _give_name(path, destination)
                finally:
                    os.close(lock)
        except BaseException:  # Ctrl-C too: no partial directory stays
            with suppress(OSError, Refused):
                if path.exists() and not _in_use(path):
                    _remove(path)
                if new_parent and destination.parent.exists():
                    disk.remove_empty(destination.parent)
            raise


def _give_name(path: Path, destination: Path) -> None:
    """Rename the complete directory at ``path``."""
    try:
        disk.rename(path, destination)
    except (OSError, KeyboardInterrupt, SystemExit) as error:
        if disk.exists(path):
            raise
        raise Unfinished(
            f"{destination}: the directory is complete, but a loss of power may remove it: "
            f"{cause_text(error)}; check it with kdump verify",
            ("kdump", "verify", operand(destination)),
        ) from error


def _make_with_owner(path: Path) -> None:
    """Make a directory that appears under its name with its owner, or not at all."""
    temporary = path.with_name(f".kdump.{path.name}.tmp")
    if os.path.lexists(temporary):  # left by a killed run
        disk.remove_empty(temporary)
    try:
        disk.make_directory(temporary, _owner_attributes())
        disk.rename(temporary, path)
    except BaseException:  # Ctrl-C too: no temporary directory stays
        with suppress(OSError):
            disk.remove_empty(temporary)
        raise


def _owner_attributes() -> Attributes:
    return Attributes(os.geteuid(), os.getegid(), 0o700)


@contextmanager
def _open_for_files(path: Path) -> Iterator[None]:
    """Open a directory to create files in it. Raises Refused if another user owns it."""
    with open_directory(path) as directory:
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
    """Remove the directory of an unfinished salvage or conversion.

    Raises Refused, and removes nothing, if it holds what neither of them writes.
    """
    with _open_for_files(path):
        _check_content(path)
        disk.remove_tree(path)


def _check_content(path: Path) -> None:
    entries = disk.list_directory(path)
    folders = disk.list_directory(path / FOLDERS) if (FOLDERS, True) in entries else []
    unexpected = [path / name for name, is_directory in entries if not _is_made(name, is_directory)]
    unexpected += [path / FOLDERS / name for name, is_directory in folders if not is_directory]
    if unexpected:
        raise Refused(
            f"{path}: expected only files of an interrupted salvage or conversion, found also "
            f"{unexpected[0]}: nothing was removed; move {path} away first"
        )
    for name, _ in folders:
        Folder(path, name).check_removable()


def _is_made(name: str, is_directory: bool) -> bool:
    file = parse_file_name(name)
    return name == FOLDERS if is_directory else file.kind in _MADE and not file.suffix


def _in_use(path: Path) -> bool:
    descriptor = os.open(path, _OPENED)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
