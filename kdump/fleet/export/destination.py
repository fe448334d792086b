"""The new directory or prefix of an export, from first file to manifest.

Tasks write into a folder that readers pass over. What counts gets its name here, and the manifest
comes last: a directory without one is of an export that was killed. In an object store, where
nothing can be renamed, the store copies what counts.

As root, all is made with the rights of the owner of the directory that it is made in, by executors
too.

Names follow Hadoop's ``FileOutputCommitter``, whose readers pass over those that begin with ``_``
or ``.``.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote
from uuid import uuid4

from kdump.audit.targets.target import identity
from kdump.errors import Refused, SourceError, UsageError
from kdump.fleet.export import upload
from kdump.fleet.export.upload import Upload
from kdump.storage.logdir import ancestors, is_log_directory
from kdump.storage.objects.address import RemotePath
from kdump.storage.ownership import open_safely
from kdump.storage.rights import Rights, acting

MANIFEST: Final = "_manifest.json"
_TEMPORARY: Final = "_temporary"
#: As Spark names the directory of what has no topic.
_NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
#: The object that says whose a prefix is, as a store has no directories to make.
_BEGUN: Final = "begun"
_BUFFER_BYTES: Final = 1 << 20
#: How often, and how far apart, what others still write into is taken away.
_TRIES: Final = 50
_PAUSE_SECONDS: Final = 0.1


class Sink(Protocol):
    """A new file that is written from its start to its end."""

    def write(self, data: Any, /) -> int:
        """Append bytes; returns how many."""

    def flush(self) -> None:
        """Hand on what is held."""

    def close(self) -> None:
        """Have the file be there."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""


class Destination(Protocol):
    """The directory of an export; ``folder`` is where tasks write."""

    @property
    def folder(self) -> Path:
        """Below it."""

    @property
    def rights(self) -> Rights | None:
        """The rights that tasks write there with; None where their process has no say."""

    def begin(self) -> None:
        """Make it. Raises UsageError where something is there already, SourceError."""

    def take(self, file: Path, topic: str | None, number: int, extension: str) -> str:
        """Give a task's ``file`` its name, which is returned as it stands below the directory."""

    def finish(self, manifest: bytes) -> None:
        """Leave out what does not count, and put the manifest there."""

    def discard(self) -> None:
        """Take away what was made, with all that is in it."""


def check_outside(path: Path, read: Iterable[Path]) -> None:
    """Raise UsageError for a new directory within one of those that are ``read``."""
    inside = [] if isinstance(path, RemotePath) else [identity(above) for above in ancestors(path)]
    for directory in read:
        same = identity(directory)
        if same is not None and same in inside:
            raise UsageError(
                f"--to {path}: expected a place outside of the directories that are read, found a "
                f"place inside {directory}"
            )


@contextmanager
def made(path: Path) -> Iterator[Destination]:
    """Make a directory, or begin a prefix, at ``path``; an exception takes it away again.

    Raises UsageError where something is there already, SourceError where none can be made.
    """
    destination: Destination
    destination = _Prefix(path) if isinstance(path, RemotePath) else _Directory(path)
    try:
        destination.begin()
        yield destination
    except BaseException:
        destination.discard()
        raise


def opened(file: Path, rights: Rights | None) -> Sink:
    """Make a file for a task, as root with ``rights``. Raises OSError, as its methods do."""
    if isinstance(file, RemotePath):
        return Upload(file)
    with acting(rights):
        return file.open("xb", buffering=_BUFFER_BYTES)


def discard(file: Path, rights: Rights | None) -> None:
    """Take a task's file away, if it is there."""
    if isinstance(file, RemotePath):
        upload.abandon(file)
    else:
        with acting(rights):
            file.unlink(missing_ok=True)


def unwritten(path: Path, error: OSError) -> SourceError:
    """Put an OSError into words that writing to ``path`` has met."""
    return SourceError(path, f"{path}: cannot be written: {error.strerror or error}")


class _Directory:
    def __init__(self, path: Path) -> None:
        self.folder: Path = path / _TEMPORARY
        self.rights: Rights | None = None
        self._path = path
        self._ours = False

    def begin(self) -> None:
        path = self._path
        for above in ancestors(path):
            if is_log_directory(above):
                raise UsageError(
                    f"--to {path}: expected a place outside of log directories, found that "
                    f"{above} is a log directory: a broker would refuse to start because of the "
                    "new files"
                )
        self.rights = _rights_in(path)
        with self._writing():
            try:
                path.mkdir()
            except FileExistsError as error:
                raise _taken(path) from error
            self._ours = True
            self.folder.mkdir()

    def take(self, file: Path, topic: str | None, number: int, extension: str) -> str:
        name = _name(topic, number, extension)
        target = self._path / name
        with self._writing():
            target.parent.mkdir(exist_ok=True)
            file.rename(target)
        return name

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
        """Have the owner's rights. Raises SourceError for an OSError."""
        with acting(self.rights):
            try:
                yield
            except OSError as error:
                raise unwritten(self._path, error) from error


def _rights_in(path: Path) -> Rights:
    """The rights of who owns the directory that ``path`` is made in. Raises UsageError."""
    try:
        with open_safely(path.parent) as descriptor:
            return Rights.of_owner(os.fstat(descriptor))
    except Refused as refused:
        raise UsageError(f"--to {path}: {refused}") from refused


def _clear(path: Path) -> None:
    """Take a directory away. An attempt at a task that was told to end may still make files."""
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
        self._taken: list[tuple[RemotePath, RemotePath]] = []
        self._ours: RemotePath | None = None  # what is to be taken away

    def begin(self) -> None:
        path = self._path
        try:
            if path.exists():
                raise _taken(path)
            self._ours = self.folder
            upload.put(self.folder / _BEGUN, b"")
            # Another run may have begun at the same time: of two, one at least sees the other here.
            alone = [one.name for one in path.entries()] == [_TEMPORARY] and [
                one.name for one in (path / _TEMPORARY).entries()
            ] == [self._run]
        except OSError as error:
            raise unwritten(path, error) from error
        if not alone:
            raise _taken(path)
        self._ours = path

    def take(self, file: Path, topic: str | None, number: int, extension: str) -> str:
        assert isinstance(file, RemotePath)
        name = _name(topic, number, extension)
        self._taken.append((file, self._path / name))
        return name

    def finish(self, manifest: bytes) -> None:
        try:
            upload.copy(self._path, self._taken)
            upload.remove(self._path / _TEMPORARY)
            upload.put(self._path / MANIFEST, manifest)
        except OSError as error:
            raise unwritten(self._path, error) from error

    def discard(self) -> None:
        if self._ours is not None:
            with suppress(OSError):  # a store that is gone keeps what it has
                upload.remove(self._ours)


def _taken(path: Path) -> UsageError:
    return UsageError(f"--to {path}: expected a name that is free, found it taken")


def _name(topic: str | None, number: int, extension: str) -> str:
    directory = _NO_TOPIC if topic is None else quote(topic, safe="")
    return f"topic={directory}/part-{number:05d}.{extension}"
