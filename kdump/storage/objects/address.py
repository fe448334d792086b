"""Addresses such as ``s3://bucket/prefix``, with the interface of a path.

Joining them, their parents and pickling keep them what they are. What asks the file system of paths
has no answer of them; ``scan``, ``exists`` and the methods here do.

Spec: ``pyarrow.fs``; the spelling is that of its URIs.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PosixPath
from typing import Final, Protocol, Self
from urllib.parse import parse_qsl, urlencode

from kdump.errors import UsageError
from kdump.storage.objects.client import Listed, Status, ask

#: Tests have ``s3`` alone.
SCHEMES: Final = ("s3", "gs", "abfs", "abfss", "hdfs")
#: What may stand behind the ``?`` of an address of ``s3``.
S3_OPTIONS: Final = ("endpoint_override", "scheme", "region", "anonymous")
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


class RemotePath(PosixPath):
    """An address in an object store.

    Its first part is the scheme with a colon, and the options behind that if there are any; its
    second is the bucket, or the host.
    """

    @classmethod
    def of(cls, text: str) -> Self:
        """Take apart what somebody typed; raises UsageError."""
        address, _, query = text.partition("?")
        scheme, _, rest = address.partition("://")
        host = rest.partition("/")[0]
        if not host:
            raise UsageError(f"{text}: expected an address such as {scheme}://BUCKET/PREFIX")
        if ":" in host.rpartition("@")[0]:
            raise UsageError(
                f"{scheme}://...@{host.rpartition('@')[2]}: expected an address without a "
                "password: give it in the environment, such as AWS_SECRET_ACCESS_KEY"
            )
        options = parse_qsl(query, keep_blank_values=True)
        for name, _ in options:
            if scheme == "s3" and name not in S3_OPTIONS:
                raise UsageError(
                    f"{address}: expected the options {', '.join(S3_OPTIONS)}, found {name}"
                )
        return cls(f"{scheme}:" + (f"?{urlencode(options)}" if options else ""), rest)

    @property
    def scheme(self) -> str:
        """The scheme, such as ``s3``."""
        return self.parts[0].partition(":")[0]

    @property
    def options(self) -> dict[str, str]:
        """What stood behind the question mark."""
        return dict(parse_qsl(self.parts[0].partition("?")[2], keep_blank_values=True))

    @property
    def store(self) -> RemotePath:
        """The address of the bucket or host that this one is in."""
        return type(self)(*self.parts[:2])

    @property
    def key(self) -> str:
        """The name in the bucket, without a slash at either end."""
        return "/".join(self.parts[2:])

    def __str__(self) -> str:
        first, *rest = self.parts or (":",)  # the parents above a bucket
        scheme, _, query = first.partition("?")
        return f"{scheme}//{'/'.join(rest)}" + (f"?{query}" if query else "")

    def __reduce__(self) -> tuple[type[Self], tuple[str, ...]]:
        return type(self), self.parts

    def is_absolute(self) -> bool:
        """Always."""
        return True

    def absolute(self) -> Self:
        """Return the same, as there is no other spelling."""
        return self

    def resolve(self, strict: bool = False) -> Self:
        """Return the same, as there are no links."""
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Ask the store. Raises OSError."""
        return self.stat_result(self.status())

    def lstat(self) -> os.stat_result:
        """The same: there are no links."""
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object, or one below; raises OSError where nobody can say."""
        return self._is(None)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there are objects below; raises OSError where nobody can say."""
        return self._is(True)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object; raises OSError where nobody can say."""
        return self._is(False)

    def entries(self) -> list[RemoteEntry]:
        """List what is right below. Raises OSError."""
        found: list[Listed] = ask(self, "entries")
        return [RemoteEntry(self / one.name, one.status) for one in found]

    def status(self) -> Status:
        """Ask the store. Raises OSError."""
        if ".." in self.parts or len(self.parts) < 2:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        found: Status = ask(self, "status")
        return found

    def stat_result(self, status: Status) -> os.stat_result:
        """Return ``status`` in the words of the file system."""
        # A version of an object is what a file with its inode is elsewhere.
        device, inode = _number(str(self.store)), _number(f"{self.key}\n{status.version}")
        kind = stat.S_IFDIR | 0o555 if status.directory else stat.S_IFREG | 0o444
        seconds = status.mtime_ns // 1_000_000_000
        times = (seconds, seconds, seconds)
        exact = dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), status.mtime_ns)
        return os.stat_result((kind, inode, device, 1, 0, 0, status.size, *times), exact)

    def _is(self, directory: bool | None) -> bool:
        try:
            return directory in (None, self.status().directory)
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise


class ScanEntry(Protocol):
    """What a listing says of something in a directory; ``os.DirEntry`` is one."""

    @property
    def name(self) -> str:
        """Its name in the directory."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """What ``os.stat`` says."""


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """Something that a listing of a store has."""

    path: RemotePath
    status: Status

    @property
    def name(self) -> str:
        """Its name below what was listed."""
        return self.path.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there are objects below."""
        return self.status.directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is an object."""
        return not self.status.directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """The same as when it was listed."""
        return self.path.stat_result(self.status)


def as_path(text: str) -> Path:
    """Return the path that somebody typed, in the file system or a store; raises UsageError."""
    if not is_address(text):
        return Path(text)
    if importlib.util.find_spec("pyarrow") is None:
        raise UsageError(f"{text}: expected the extra spark: pip install 'kafka-kdump[spark]'")
    return RemotePath.of(text)


def is_address(text: str) -> bool:
    """Whether it is an address in a store of a known kind."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def scan(path: Path) -> AbstractContextManager[Iterator[ScanEntry]]:
    """List a directory, as ``os.scandir`` does. Raises OSError."""
    if isinstance(path, RemotePath):
        return nullcontext(iter(path.entries()))
    return os.scandir(path)


def exists(path: Path) -> bool:
    """Whether something is at ``path``, be it a link to nowhere."""
    return path.exists() if isinstance(path, RemotePath) else os.path.lexists(path)


def _number(text: str) -> int:
    """A number of 63 bits that stands for ``text``."""
    digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
