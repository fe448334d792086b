"""The new directory or prefix of an export, from first file to manifest.

Tasks write into a folder that readers ignore. Files that belong to the export get their final names
here, and the manifest is written last: a directory without one is from an export that was killed.
An object store cannot rename objects, so that it copies them.

As root, kdump creates all files with the rights of the owner of the parent directory, also on
executors.

Names follow Hadoop's ``FileOutputCommitter``, whose readers ignore names that begin with ``_`` or
``.``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from kdump.audit.targets.target import identity
from kdump.errors import Refused, SourceError, UsageError
from kdump.export import upload
from kdump.export.upload import Upload
from kdump.storage.logdir import ancestors, is_log_directory
from kdump.storage.objects.address import AnyPath, RemotePath, as_local
from kdump.storage.ownership import open_safely
from kdump.storage.rights import Rights, acting

MANIFEST: Final = "_manifest.json"
_TEMPORARY: Final = "_temporary"
#: The object that claims a prefix, because a store has no directories to create.
_BEGUN: Final = "begun"
_BUFFER_BYTES: Final = 1 << 20
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
    """The directory or prefix of an export."""

    @property
    def folder(self) -> AnyPath:
        """The folder below the directory that tasks write into."""

    @property
    def rights(self) -> Rights | None:
        """The rights that tasks write with; None if the process cannot choose them."""

    def begin(self) -> None:
        """Create the directory. Raise UsageError if the path exists, SourceError."""

    def take(self, file: AnyPath, name: str) -> None:
        """Give the ``file`` of a task its final name below the directory."""

    def finish(self, manifest: bytes) -> None:
        """Remove files that do not belong to the export, and write the manifest."""

    def discard(self) -> None:
        """Remove what was created, with all its content."""


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

    Raise UsageError if the path exists, SourceError if it cannot be created.
    """
    destination: Destination
    destination = _Prefix(path) if isinstance(path, RemotePath) else _Directory(as_local(path))
    try:
        destination.begin()
        yield destination
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
        self.folder: Path = path / _TEMPORARY
        self.rights: Rights | None = None
        self._path = path
        self._ours = False

    def begin(self) -> None:
        path = self._path
        for parent in ancestors(path):
            if is_log_directory(parent):
                raise UsageError(
                    f"--to {path}: expected a place outside of log directories, found that "
                    f"{parent} is a log directory: a broker would refuse to start because of the "
                    "new files"
                )
        self.rights = _rights_in(path)
        with self._writing():
            try:
                path.mkdir()
            except FileExistsError as error:
                raise _name_taken(path) from error
            self._ours = True
            self.folder.mkdir()

    def take(self, file: AnyPath, name: str) -> None:
        target = self._path / name
        with self._writing():
            target.parent.mkdir(parents=True, exist_ok=True)
            as_local(file).rename(target)

    def finish(self, manifest: bytes) -> None:
        temporary = self._path / f".{MANIFEST}"
        with self._writing():
            _clear(self.folder)
            with temporary.open("xb") as file:
                file.write(manifest)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(self._path / MANIFEST)

    def discard(self) -> None:
        if self._ours:
            with acting(self.rights):
                _clear(self._path)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Act with the owner's rights in the block. Raise SourceError for an OSError."""
        with acting(self.rights):
            try:
                yield
            except OSError as error:
                raise write_error(self._path, error) from error


def _rights_in(path: Path) -> Rights:
    """Return the rights of the owner of the parent directory of ``path``. Raise UsageError."""
    try:
        with open_safely(path.parent) as descriptor:
            return Rights.of_owner(os.fstat(descriptor))
    except Refused as refused:
        raise UsageError(f"--to {path}: {refused}") from refused


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
        self._path = path
        self._run = uuid4().hex
        self.folder = path / _TEMPORARY / self._run
        self._renames: list[tuple[RemotePath, RemotePath]] = []
        self._ours: RemotePath | None = None  # what ``discard`` removes

    def begin(self) -> None:
        path = self._path
        try:
            if path.exists():
                raise _name_taken(path)
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

    def finish(self, manifest: bytes) -> None:
        try:
            upload.copy(self._path, self._renames)
            upload.remove(self._path / _TEMPORARY)
            upload.put(self._path / MANIFEST, manifest)
        except OSError as error:
            raise write_error(self._path, error) from error

    def discard(self) -> None:
        if self._ours is not None:
            with suppress(OSError):  # a store that does not answer keeps its objects
                upload.remove(self._ours)


def _name_taken(path: AnyPath) -> UsageError:
    return UsageError(f"--to {path}: expected a name that is free, found it taken")
