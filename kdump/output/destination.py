"""The directory or prefix that new files appear in: a new one of an export, or one that grows.

What writes files writes into a folder that readers ignore. Files that belong to the export, or to
the run that adds some, get their final names here, and one file is the last: the manifest of an
export, the file of the table of runs. An object store cannot rename objects, so that it copies
them.

An export holds the lock of a file in its directory, and removes the file after the manifest is
there. A directory with this file and without a manifest is the rest of an export that was killed,
unless the lock is held. The next export to the directory removes the rest and begins again. Nothing
tells of objects whether their export still runs: they are left to the user.

As root, kdump creates all files with the rights of the owner of the parent directory, also on
executors.

Names follow Hadoop's ``FileOutputCommitter``, whose readers ignore names that begin with ``_`` or
``.``.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from kdump.audit.targets.target import identity
from kdump.errors import Refused, SourceError, UsageError
from kdump.output import upload
from kdump.output.files import try_lock
from kdump.output.upload import Upload
from kdump.storage.logdir import ancestors, is_log_directory
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.ownership import open_safely
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.rights import Rights, acting

MANIFEST: Final = "_manifest.json"
#: The file whose lock an export to a directory holds while it runs.
LOCK: Final = "_kdump.lock"
_TEMPORARY: Final = "_temporary"
#: The object that claims a prefix, because a store has no directories to create.
_BEGUN: Final = "begun"
_BUFFER_BYTES: Final = 1 << 20
#: How the names of the directories and files of an export begin; the first one is at the top.
_FOLDERS: Final = ("topic=", "date=", "hour=")
_FILE: Final = "part-"
#: In the temporary directory: the folders of exports, and the files in them.
_FOLDER_OF_TASKS: Final = re.compile("[0-9a-f]{32}")
_FILE_OF_TASKS: Final = re.compile(rf"[0-9a-f]{{32}}\.[a-z.]+|{re.escape(MANIFEST)}")
#: The attempts to remove a directory into which tasks still write, and the pause between them.
_TRIES: Final = 50
_PAUSE_SECONDS: Final = 0.1


class Sink(Protocol):
    """A new file that is written sequentially."""

    def write(self, data: Any, /) -> int:
        """Append ``data``, and return its size in bytes."""

    def flush(self) -> None:
        """Write the buffered bytes."""

    def close(self) -> None:
        """Finish the file, which makes it visible."""

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""


class Destination(Protocol):
    """The directory or prefix of an export, or of tables that grow."""

    @property
    def folder(self) -> AnyPath:
        """The folder below the directory that files are written into."""

    @property
    def rights(self) -> Rights | None:
        """The rights that tasks write with; None if the process cannot choose them."""

    @property
    def replaces(self) -> bool:
        """Whether the rest of an export that was killed was removed here."""

    def begin(self) -> None:
        """Create the directory. Raise SourceError, and UsageError for a path that cannot be it."""

    def take(self, file: AnyPath, name: str) -> None:
        """Give a ``file`` in the folder its final name below the directory."""

    def finish(self, content: bytes, name: str = MANIFEST) -> None:
        """Remove files that were not taken, and write the last one."""

    def discard(self) -> None:
        """Remove what was created, but no file of others and none that grows."""


def check_outside(path: AnyPath, read: Iterable[AnyPath]) -> None:
    """Raise UsageError if ``path`` lies inside one of the directories ``read``."""
    inside = (
        [] if isinstance(path, RemotePath) else [identity(parent) for parent in ancestors(path)]
    )
    for directory in read:
        same = identity(directory)
        if same is not None and same in inside:
            raise UsageError(
                f"--to {path}: expected a place outside of the directories that are read, found a "
                f"place inside {directory}"
            )


@contextmanager
def create_destination(path: AnyPath) -> Iterator[Destination]:
    """Create a directory or prefix at ``path``, and yield it; an exception removes it again.

    Raise UsageError if the path exists and is not the rest of an export that was killed, Refused if
    an export to it still runs, SourceError if it cannot be created.
    """
    destination: Destination
    destination = _Prefix(path) if isinstance(path, RemotePath) else _Directory(as_local(path))
    with _discarding(destination):
        yield destination


@contextmanager
def extend_destination(path: AnyPath, run: str) -> Iterator[Destination]:
    """Yield the directory or prefix at ``path``, to which a run adds files; it may be new.

    ``run`` is the name of the run's folder. An exception leaves no file of the run. Raise
    UsageError for a path in a log directory, and SourceError.
    """
    destination: Destination
    if isinstance(path, RemotePath):
        destination = _GrowingPrefix(path, run)
    else:
        destination = _GrowingDirectory(as_local(path), run)
    with _discarding(destination):
        yield destination


@contextmanager
def _discarding(destination: Destination) -> Iterator[None]:
    """Begin the destination, and discard it if the block raises."""
    try:
        destination.begin()
        yield
    except BaseException:  # Ctrl-C too: no partial export stays
        destination.discard()
        raise


def open_sink(file: AnyPath, rights: Rights | None) -> Sink:
    """Create a file for a task, as root with ``rights``. It and the methods raise OSError."""
    if isinstance(file, RemotePath):
        return Upload(file)
    with acting(rights):
        return as_local(file).open("xb", buffering=_BUFFER_BYTES)


def discard(file: AnyPath, rights: Rights | None) -> None:
    """Remove the file of a task, if it exists."""
    if isinstance(file, RemotePath):
        upload.abandon(file)
    else:
        with acting(rights):
            as_local(file).unlink(missing_ok=True)


def write_error(path: AnyPath, error: OSError) -> SourceError:
    """Return the SourceError for an OSError that writing to ``path`` raised."""
    return SourceError(path, f"{path}: cannot be written: {error.strerror or error}")


class _Directory:
    def __init__(self, path: Path) -> None:
        # A task that outlives a killed export on some host does not find the folder of the next.
        self.folder = path / _TEMPORARY / uuid4().hex
        self.rights: Rights | None = None
        self.replaces = False
        self._path = path
        self._ours = False
        self._lock = -1

    def begin(self) -> None:
        path = self._path
        _refuse_log_directory(path)
        self.rights = _rights_in(path, path.parent)
        with self._writing():
            try:
                path.mkdir()
            except FileExistsError:
                self._lock = _take_over(path)
                self.replaces = True
            else:
                self._ours = True
                self._lock = _create_lock(path / LOCK)
            self._ours = True
            self.folder.mkdir(parents=True)

    def take(self, file: AnyPath, name: str) -> None:
        target = self._path / name
        with self._writing():
            target.parent.mkdir(parents=True, exist_ok=True)
            as_local(file).rename(target)

    def finish(self, content: bytes, name: str = MANIFEST) -> None:
        temporary = self._path / f".{name}"
        with self._writing():
            _clear(self.folder.parent)
            _write_durably(temporary, content)
            temporary.rename(self._path / name)
            (self._path / LOCK).unlink()
        self._unlock()

    def discard(self) -> None:
        if self._ours:
            with acting(self.rights):
                _clear(self._path)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Act with the owner's rights in the block. Raise SourceError for an OSError."""
        with acting(self.rights):
            try:
                yield
            except OSError as error:
                raise write_error(self._path, error) from error


class _GrowingDirectory(_Directory):
    """A directory whose files appear whole, also after a loss of power."""

    def __init__(self, path: Path, run: str) -> None:
        super().__init__(path)
        self.folder = path / _TEMPORARY / run
        self._new = False
        self._taken: list[Path] = []

    def begin(self) -> None:
        path = self._path
        _refuse_log_directory(path)
        with self._writing():
            self._new = not path.exists()
            if not path.is_dir() and os.path.lexists(path):
                raise UsageError(
                    f"--to {path}: expected a directory, or a free name, found neither"
                )
        self.rights = _rights_in(path, path.parent if self._new else path)
        with self._writing():
            path.mkdir(exist_ok=True)
            self.folder.mkdir(parents=True)
            self._ours = True

    def take(self, file: AnyPath, name: str) -> None:
        with self._writing(), as_local(file).open("rb") as written:
            os.fsync(written.fileno())
        self._taken.append(self._path / name)
        super().take(file, name)

    def finish(self, content: bytes, name: str = MANIFEST) -> None:
        temporary = self.folder / MANIFEST
        with self._writing():
            _write_durably(temporary, content)
        super().take(temporary, name)
        self._taken.clear()
        with acting(self.rights):
            _clear(self.folder)

    def discard(self) -> None:
        if self._ours:
            with acting(self.rights):
                for path in self._taken:
                    path.unlink(missing_ok=True)
                _clear(self.folder)
                if self._new:
                    with suppress(OSError):  # another run may have begun here
                        self.folder.parent.rmdir()
                        self._path.rmdir()


def _create_lock(path: Path) -> int:
    """Create the file at ``path`` and lock it; return its descriptor. Raise OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    # Without the lock, on a file system that has none, no later export takes the directory over.
    with suppress(OSError):
        try_lock(descriptor)
    return descriptor


def _take_over(path: Path) -> int:
    """Remove the rest of a killed export at ``path``; return the descriptor of its locked file.

    Raise UsageError if something else is there, Refused if the export still runs, OSError.
    """
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise _name_taken(path)
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _name_taken(path) from error
    try:
        try:
            locked = try_lock(descriptor)
        except OSError as error:
            raise _name_taken(
                path,
                "an export that was not finished; kdump cannot determine whether it still runs "
                f"({error.strerror}): remove the directory if it does not",
            ) from error
        if not locked:
            raise Refused(
                f"--to {path}: another export writes there: wait for its end, or name another "
                "directory"
            )
        if (path / MANIFEST).exists() or not (path / LOCK).exists():
            raise _name_taken(path)  # the export ended after its lock file was opened
        for other in _not_made_by_export(path):
            raise _name_taken(
                path, f"beside the rest of an export that was killed also {other}: move it away"
            )
        _clear_rest(path)
    except BaseException:  # Ctrl-C too: the caller does not have the descriptor yet
        os.close(descriptor)
        raise
    return descriptor


def _not_made_by_export(directory: Path, *, top: bool = True) -> Iterator[Path]:
    """Yield what no export makes in its directory, or in one of a topic or an hour."""
    for entry in directory.iterdir():
        mode, name = entry.lstat().st_mode, entry.name
        if stat.S_ISDIR(mode) and name.startswith(_FOLDERS[:1] if top else _FOLDERS[1:]):
            yield from _not_made_by_export(entry, top=False)
        elif stat.S_ISDIR(mode) and top and name == _TEMPORARY:
            yield from _not_made_by_tasks(entry, _FOLDER_OF_TASKS)
        elif not stat.S_ISREG(mode) or not (
            name in (LOCK, f".{MANIFEST}") if top else name.startswith(_FILE)
        ):
            yield entry


def _not_made_by_tasks(
    directory: Path, name: re.Pattern[str], *, top: bool = True
) -> Iterator[Path]:
    """Yield what no task makes: else than a folder for each export, with files in it."""
    for entry in directory.iterdir():
        mode = entry.lstat().st_mode
        made = bool(name.fullmatch(entry.name))
        if top and made and stat.S_ISDIR(mode):
            yield from _not_made_by_tasks(entry, _FILE_OF_TASKS, top=False)
        elif top or not (made and stat.S_ISREG(mode)):
            yield entry


def _clear_rest(path: Path) -> None:
    """Remove all but the lock from the directory of a killed export. Raise OSError."""
    for entry in path.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _refuse_log_directory(path: Path) -> None:
    """Raise UsageError if ``path`` is or lies in a log directory."""
    for parent in ancestors(path):
        if is_log_directory(parent):
            raise UsageError(
                f"--to {path}: expected a place outside of log directories, found that "
                f"{parent} is a log directory: a broker would refuse to start because of the "
                "new files"
            )


def _rights_in(path: Path, directory: Path) -> Rights:
    """Return the rights of the owner of ``directory``. Raise Refused, which names ``path``."""
    try:
        with open_safely(directory) as descriptor:
            return Rights.of_owner(os.fstat(descriptor))
    except Refused as refused:
        raise Refused(f"--to {path}: {refused}") from refused


def _clear(path: AnyPath) -> None:
    """Remove a directory. A cancelled attempt at a task may still create files in it."""
    for _ in range(_TRIES):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_PAUSE_SECONDS)


class _Prefix:
    def __init__(self, path: RemotePath) -> None:
        self.rights = None
        self.replaces = False
        self._path = path
        self._run = uuid4().hex
        self.folder = path / _TEMPORARY / self._run
        self._renames: list[tuple[RemotePath, RemotePath]] = []
        self._ours: RemotePath | None = None  # what ``discard`` removes

    def begin(self) -> None:
        path = self._path
        try:
            if path.exists():
                names = {entry.name for entry in path.entries()}
                if _TEMPORARY not in names or MANIFEST in names:
                    raise _name_taken(path)
                raise _name_taken(
                    path,
                    "an export that still runs, or the rest of one that was killed: if none runs, "
                    f"remove all objects below {path}, and repeat the command",
                )
            self._ours = self.folder
            upload.put(self.folder / _BEGUN, b"")
            # Of two runs that begin at the same time, at least one sees the other here.
            alone = [entry.name for entry in path.entries()] == [_TEMPORARY] and [
                entry.name for entry in (path / _TEMPORARY).entries()
            ] == [self._run]
        except OSError as error:
            raise write_error(path, error) from error
        if not alone:
            raise _name_taken(path)
        self._ours = path

    def take(self, file: AnyPath, name: str) -> None:
        assert isinstance(file, RemotePath)
        self._renames.append((file, self._path / name))

    def finish(self, content: bytes, name: str = MANIFEST) -> None:
        try:
            upload.copy(self._path, self._renames)
            upload.remove(self._path / _TEMPORARY)
            upload.put(self._path / name, content)
        except OSError as error:
            raise write_error(self._path, error) from error

    def discard(self) -> None:
        if self._ours is not None:
            with suppress(OSError):  # a store that does not answer keeps its objects
                upload.remove(self._ours)


class _GrowingPrefix(_Prefix):
    def __init__(self, path: RemotePath, run: str) -> None:
        super().__init__(path)
        self.folder = path / _TEMPORARY / run

    def begin(self) -> None:
        # Says before anything is read whether the store takes objects.
        try:
            upload.put(self.folder / _BEGUN, b"")
        except OSError as error:
            raise write_error(self._path, error) from error
        self._ours = self.folder

    def finish(self, content: bytes, name: str = MANIFEST) -> None:
        try:
            upload.copy(self._path, self._renames)
            upload.put(self._path / name, content)
        except OSError as error:
            raise write_error(self._path, error) from error
        self.discard()


def _name_taken(path: AnyPath, found: str = "it taken") -> UsageError:
    return UsageError(f"--to {path}: expected a name that is free, found {found}")
