"""RemotePath: an address with the status and the listing that its store gives.

Paths and entries have the methods of ``Path`` and ``os.DirEntry`` that readers use.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from kdump.errors import UsageError
from kdump.storage.objects.address import Address, is_address
from kdump.storage.objects.client import ask
from kdump.storage.objects.listings import list_prefix, listed_status
from kdump.storage.objects.status import ObjectStatus
from kdump.storage.paths import AnyPath
from kdump.values import frozen


class RemotePath(Address):
    """An address in an object store, whose status and listing come from the store."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status, as ``os.stat`` gives it; see ``status``. Raises OSError."""
        return self.stat_result(self.status())

    def entries(self) -> list[RemoteEntry]:
        """Ask the store for the objects and prefixes directly below. Raises OSError."""
        return [RemoteEntry(self / name, status) for name, status in list_prefix(self).items()]

    def status(self) -> ObjectStatus:
        """Return the status in the last listing, or else ask the store. Raises OSError."""
        if ".." in self.parts or len(self.parts) < 2:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        found = listed_status(self)
        if found is not None:
            return found
        with suppress(FileNotFoundError):  # there may be objects below
            if self.key:
                asked: ObjectStatus = ask(self, "status")
                return asked
        list_prefix(self)
        return ObjectStatus(directory=True)

    def stat_result(self, status: ObjectStatus) -> os.stat_result:
        """Return ``status`` as ``os.stat`` would give it for a file."""
        # Each version of an object has an inode of its own, like a file that was replaced.
        device, inode = _number(str(self.store)), _number(f"{self.key}\n{status.version}")
        kind = stat.S_IFDIR | 0o555 if status.directory else stat.S_IFREG | 0o444
        seconds = status.mtime_ns // 1_000_000_000
        times = (seconds, seconds, seconds)
        exact = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), status.mtime_ns)
        return os.stat_result((kind, inode, device, 1, 0, 0, status.size, *times), exact)


@frozen
class RemoteEntry:
    """An entry in the listing of a store: an object, or a prefix with objects below it."""

    path: RemotePath
    status: ObjectStatus

    @property
    def name(self) -> str:
        """Its name below the address that was listed."""
        return self.path.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there are objects below."""
        return self.status.directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is an object."""
        return not self.status.directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its status at the time of the listing."""
        return self.path.stat_result(self.status)


def as_path(text: str) -> AnyPath:
    """Return the path that a user typed, in the file system or in a store. Raises UsageError."""
    if not is_address(text):
        return Path(text)
    if None in map(importlib.util.find_spec, ("botocore", "pyarrow")):
        raise UsageError(f"{text}: expected the extra parquet: pip install 'kafka-kdump[parquet]'")
    return RemotePath.of(text)


def _number(text: str) -> int:
    """Return a number of 63 bits that identifies ``text``."""
    digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
