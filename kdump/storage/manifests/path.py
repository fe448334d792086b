"""ManifestPath: a path in a manifest, below the path of its file.

``host.kdm/data1/orders-0`` is the directory ``data1/orders-0`` of the manifest ``host.kdm``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar, Final, Self

from kdump.errors import SourceError
from kdump.format.manifest.directories import StoredEntry, StoredStatus
from kdump.storage.manifests.file import ManifestFile, is_manifest, open_manifest
from kdump.storage.paths import AnyPath, StoredPath
from kdump.storage.source import Identity
from kdump.values import frozen

#: Stands for a slash in the first part, which is the path of the file: no path has this character.
_SLASH: Final = "\0"
_DIRECTORY_MODE: Final = stat.S_IFDIR | 0o555


class ManifestPath(StoredPath):
    """A path in a manifest. Its first part is the path of the file, with NUL for each slash."""

    KIND: ClassVar = "the path in a manifest"

    @classmethod
    def of(cls, file: Path, inner: str = "") -> Self:
        """Return the path ``inner`` of the manifest in ``file``."""
        return cls(str(file).replace("/", _SLASH), inner)

    @property
    def file(self) -> Path:
        """The file of the manifest."""
        return Path(self._file)

    @property
    def _file(self) -> str:
        return self.parts[0].replace(_SLASH, "/")

    @property
    def inner(self) -> bytes:
        """The path below the origin of the manifest."""
        return os.fsencode("/".join(self.parts[1:]))

    def __str__(self) -> str:
        return "/".join(self.parts).replace(_SLASH, "/")

    def on_host(self) -> Path | None:
        """Return the path that it had on its host; None if it is not recorded.

        An anonymous manifest does not have it. Raises SourceError.
        """
        origin = Path(os.fsdecode(self.manifest().contents.origin))
        return origin / os.fsdecode(self.inner) if origin.is_absolute() else None

    def manifest(self) -> ManifestFile:
        """Return the open manifest. Raises SourceError."""
        return open_manifest(self._file)

    def entry(self) -> StoredEntry:
        """Return the file or directory here. Raises OSError."""
        return self.located()[1]

    def located(self) -> tuple[ManifestFile, StoredEntry]:
        """Return the open manifest, and the file or directory here. Raises OSError."""
        if ".." in self.parts:
            raise self._missing()
        try:
            manifest = self.manifest()
            inner = self.inner
            above, _, name = inner.rpartition(b"/")
            directory = manifest.directories.get(inner)
            if directory is not None:
                return manifest, StoredEntry(name, directory.status, error=directory.error)
            parent = manifest.directories.get(above)
            if inner and parent is not None:
                found = manifest.entries(parent).get(name)
                if found is not None:
                    return manifest, found
            if inner in manifest.above:
                status = StoredStatus(_DIRECTORY_MODE, 0, 0, _number(inner), 0, 0)
                return manifest, StoredEntry(name, status)
        except SourceError as error:
            raise self._unread(error) from error
        raise self._missing()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status that the file had. Raises OSError."""
        return self.stat_result(self.entry().status)

    def entries(self) -> list[ManifestEntry]:
        """List what is directly below. Raises OSError."""
        manifest, here = self.located()
        if not stat.S_ISDIR(here.status.mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self))
        if here.error:
            raise OSError(errno.EIO, here.error, str(self))
        try:
            return list(self._entries(manifest))
        except SourceError as error:
            raise self._unread(error) from error

    def stat_result(self, status: StoredStatus) -> os.stat_result:
        """Return ``status`` as ``os.stat`` would give it for a file of a device of its own."""
        device = _device(self._file)
        seconds = status.mtime_ns // 1_000_000_000
        exact = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), status.mtime_ns)
        fields = (status.mode, status.inode, device, 1, status.uid, status.gid, status.size)
        return os.stat_result((*fields, seconds, seconds, seconds), exact)

    def identity(self, status: StoredStatus) -> Identity:
        """Return the identity of a file with this status, as ``stat`` gives it."""
        return Identity(_device(self._file), status.inode, status.size, status.mtime_ns)

    def _is(self, kind: Callable[[int], bool]) -> bool:
        # Whatever is in a damaged section is not there; to open or list it is an error.
        with suppress(OSError):
            return super()._is(kind)
        return False

    def _entries(self, manifest: ManifestFile) -> Iterator[ManifestEntry]:
        inner = self.inner
        directory = manifest.directories.get(inner)
        listed = {} if directory is None else manifest.entries(directory)
        for stored in {*listed, *manifest.above.get(inner, ())}:
            name, entry = os.fsdecode(stored), listed.get(stored)
            status = (self / name).entry().status if entry is None else entry.status
            yield ManifestEntry(self, name, status)

    def _missing(self) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

    def _unread(self, error: SourceError) -> OSError:
        text = str(error).removeprefix(f"{self.file}: ")
        return OSError(errno.EIO, text, str(self))


@frozen
class ManifestEntry:
    """An entry in the listing of a directory of a manifest, ``name`` is its name there."""

    directory: ManifestPath
    name: str
    status: StoredStatus

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory."""
        return stat.S_ISDIR(self.status.mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a regular file."""
        return stat.S_ISREG(self.status.mode)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status that it had."""
        return self.directory.stat_result(self.status)


def paths_in(path: AnyPath) -> tuple[AnyPath, ...]:
    """Return the paths that ``path`` stands for: those that were named, if it is a manifest.

    A path below a manifest is a ``ManifestPath``; any other is returned as it is. Raises
    SourceError for a damaged manifest.
    """
    if not isinstance(path, Path):
        return (path,)
    for file in (path, *path.parents):
        if is_manifest(file):
            inner = path.relative_to(file)
            if inner.parts:
                return (ManifestPath.of(file, str(inner)),)
            roots = open_manifest(str(file)).contents.roots
            return tuple(ManifestPath.of(file, os.fsdecode(root.path)) for root in roots)
        if os.path.isdir(file):  # noqa: PTH112 - it raises nothing
            break
    return (path,)


@lru_cache(maxsize=64)
def _device(file: str) -> int:
    """Return the number of the device that the paths in a manifest are on."""
    return _number(os.fsencode(file))


def _number(text: bytes) -> int:
    """Return a number of 63 bits that identifies ``text``."""
    return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 1
