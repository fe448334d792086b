"""The files of states: where they may be, whose rights write them, how they are replaced.

No file is written into a log directory. As root, files are written with the rights of the owner of
their directory, so that its owner cannot redirect them.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from kdump.errors import Refused, StateError, UsageError
from kdump.storage.logdir import ancestors, is_log_directory
from kdump.storage.ownership import open_safely
from kdump.storage.paths import AnyPath
from kdump.storage.rights import Rights, acting, is_root

_SYSTEM: Final = Path("/var/lib/kdump")
_NAME: Final = "scrub.db"
#: What the name of the file that holds the lock of a state ends with.
LOCK: Final = ".lock"
#: What the names of a state's files end with: its own, and those that SQLite has beside it.
_FILES: Final = ("", LOCK, "-wal", "-shm", "-journal")


def default_state() -> Path:
    """Return the path of the state without ``--state``.

    It is in the directory of the system for root, and for users who may write there or read the
    state there. Otherwise it is in the directory of the user.
    """
    system = _SYSTEM / _NAME
    if os.geteuid() == 0 or os.access(_SYSTEM, os.W_OK) or os.access(system, os.R_OK):
        return system
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = home if home.is_absolute() else Path.home() / ".local" / "state"
    return base / "kdump" / _NAME


def make_parent(path: Path) -> None:
    """Create the directory of a default state. Raises StateError."""
    try:
        make_directory(path.parent, None)
    except StateError as error:
        raise StateError(f"{error}: name a file with --state") from error


def check_metrics(path: Path, state: Path) -> None:
    """Raise UsageError if the file of the metrics would replace one of the state's."""
    names = {state.name + end for end in _FILES}
    if path.name in names and path.parent.resolve() == state.parent.resolve():
        raise UsageError(f"--prometheus {path}: expected another file than those of --state")


def writing_rights(option: str, path: Path, read: Iterable[AnyPath]) -> Rights | None:
    """Return the rights to write the file ``path`` with, None for those of this process.

    ``option`` names the file, and ``read`` are the directories that are scrubbed. Raises UsageError
    if it is in one of these or in a log directory. Raises StateError if its directory does not
    exist, and Refused if it cannot be opened, or if this process is root and another user can
    redirect the path to a directory of root.
    """
    _check_parent(option, path)
    check_outside(option, path, read)
    return _owner_rights(path)


def reading_rights(path: Path) -> Rights | None:
    """Return the rights to read the state ``path`` with, as ``writing_rights`` does."""
    _check_parent("--state", path)
    return _owner_rights(path)


def _owner_rights(path: Path) -> Rights | None:
    """Return the rights of the owner of the directory of ``path`` as root, else None.

    Raises Refused as ``writing_rights`` does.
    """
    with open_safely(path.parent) as descriptor:
        return Rights.of_owner(os.fstat(descriptor)) if is_root() else None


def _check_parent(option: str, path: Path) -> None:
    try:
        found = path.parent.is_dir()
    except OSError as error:  # one above it cannot be searched
        text = f"{option} {path}: {path.parent} cannot be read: {error.strerror}"
        raise StateError(text) from error
    if not found:
        raise StateError(f"{option} {path}: expected a directory {path.parent}, found none")


def check_owners(path: Path) -> None:
    """Raise Refused for a file of a state that another user may have put there.

    Each file has one name, and root, this user or the owner of the directory owns it.
    """
    trusted = {0, os.geteuid()}
    with suppress(OSError):  # without its directory there is no file
        trusted.add(path.parent.stat().st_uid)
    for end in _FILES:
        file = path.with_name(path.name + end)
        try:
            status = file.lstat()
        except OSError:  # what cannot be found cannot be opened either
            continue
        if stat.S_ISLNK(status.st_mode):
            found = "a link"
        elif status.st_uid not in trusted:
            found = f"one of user {status.st_uid}"
        elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            found = f"one with {status.st_nlink} names"
        else:
            continue
        raise Refused(
            f"{file}: expected a file that only root, this user or the owner of its directory can "
            f"have put there, found {found}: move it away, or name another file with --state"
        )


def check_outside(option: str, path: Path, read: Iterable[AnyPath]) -> None:
    """Raise UsageError if ``path`` is in a log directory, or in one of those ``read``."""
    scrubbed = {directory.absolute() for directory in read}
    for directory in ancestors(path.parent):
        if directory in scrubbed or is_log_directory(directory):
            raise UsageError(
                f"{option} {path}: expected a place outside of log directories, found that "
                f"{directory} is read as one"
            )


def try_lock(descriptor: int) -> bool:
    """Lock a file for this process until it closes it or ends; return False if another one has it.

    Raises OSError where the file system has no locks.
    """
    try:
        # Not flock(2), whose lock a worker would hold on after its parent was killed.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def make_directory(path: Path, rights: Rights | None) -> None:
    """Create a directory and those above it with ``rights``, where they do not exist yet.

    Raises StateError.
    """
    with acting(rights):
        try:
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"{path}: cannot be created: {error.strerror}") from error


def replace_file(path: Path, content: bytes, mode: int, rights: Rights | None) -> None:
    """Write ``content`` into a new file, which then replaces the one at ``path``.

    Raises StateError if that is impossible; no other file stays.
    """
    written = None
    with acting(rights):
        try:
            with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
                written = Path(file.name)
                file.write(content)
                os.fchmod(file.fileno(), mode)
            written.replace(path)
        except OSError as error:
            if written is not None:
                written.unlink(missing_ok=True)
            raise StateError(f"{path}: cannot be written: {error.strerror}") from error
