"""Addresses such as ``s3://bucket/prefix``, joined and split as paths are.

An address is no ``Path``: it has no method that touches the file system. Neither has a path in a
manifest; both are a ``StoredPath``. ``AnyPath`` is any of these. What reads takes ``AnyPath``, what
writes takes a ``Path``, which ``as_local`` makes sure of.

Spec: ``pyarrow.fs``; the spelling is that of its URIs.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import ClassVar, Final, Protocol, Self
from urllib.parse import parse_qsl, urlencode

from kdump.errors import UsageError
from kdump.storage.objects.client import ObjectStatus, ask
from kdump.storage.objects.listings import list_prefix, listed_status
from kdump.values import frozen

#: Tests cover ``s3`` alone.
SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
#: Other names for a scheme: Hadoop's for its client of S3.
_SAME_AS: Final = {"s3a": "s3"}
#: The options that may follow the ``?`` of an address of ``s3``.
S3_OPTIONS: Final = ("endpoint_override", "scheme", "region", "anonymous")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


class StoredPath(PurePosixPath):
    """A path outside of the file system; it has the methods of ``Path`` that readers use.

    A subclass holds all of its place in its parts, so that any of its paths can be joined, split
    and sent to a worker. ``KIND`` says in errors what was found instead of a path.
    """

    KIND: ClassVar = "a path outside of the file system"

    def __fspath__(self) -> str:
        """Raise TypeError: the functions of ``os`` would take it for a file beside them."""
        raise TypeError(f"expected a path in the file system, found {self.KIND} {self}")

    def __reduce__(self) -> tuple[type[Self], tuple[str, ...]]:
        return type(self), self.parts

    def is_absolute(self) -> bool:
        """Return True: there is no current directory here."""
        return True

    def absolute(self) -> Self:
        """Return the path itself."""
        return self

    def resolve(self, strict: bool = False) -> Self:
        """Return the path itself: there are no links here."""
        return self

    @abstractmethod
    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status, as ``os.stat`` gives it. Raises OSError."""

    @abstractmethod
    def entries(self) -> Sequence[ScanEntry]:
        """List what is directly below. Raises OSError."""

    def lstat(self) -> os.stat_result:
        """Do the same as ``stat``: there are no links here."""
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is something here. Raises OSError where that is unknown."""
        return self._is(lambda _: True)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a directory. Raises OSError where that is unknown."""
        return self._is(stat.S_ISDIR)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether there is a file. Raises OSError where that is unknown."""
        return self._is(stat.S_ISREG)

    def _is(self, kind: Callable[[int], bool]) -> bool:
        try:
            return kind(self.stat().st_mode)
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise


class RemotePath(StoredPath):
    """An address in an object store.

    Its first part is the scheme with a colon, then the options if there are any. Its second part is
    the bucket, or the host.
    """

    KIND: ClassVar = "the address"

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the address that a user typed. Raises UsageError."""
        address, _, query = text.partition("?")
        scheme, _, rest = address.partition("://")
        scheme = _SAME_AS.get(scheme, scheme)
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
        """The options after the question mark, by name."""
        return dict(parse_qsl(self.parts[0].partition("?")[2], keep_blank_values=True))

    @property
    def store(self) -> RemotePath:
        """The address of the bucket or host."""
        return type(self)(*self.parts[:2])

    @property
    def endpoint(self) -> str | None:
        """The URL of the endpoint that the address or the environment names, None for AWS's."""
        options = self.options
        named = options.get("endpoint_override")
        if named is None:
            named = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
        if not named:
            return None
        scheme, separator, host = named.rpartition("://")
        return f"{options.get('scheme') or (scheme if separator else 'https')}://{host}"

    @property
    def key(self) -> str:
        """The name in the bucket, without a slash at either end."""
        return "/".join(self.parts[2:])

    def __str__(self) -> str:
        first, *rest = self.parts or (":",)  # the parents above a bucket
        scheme, _, query = first.partition("?")
        return f"{scheme}//{'/'.join(rest)}" + (f"?{query}" if query else "")

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


AnyPath = Path | StoredPath
"""A path in the file system, an address in a store, or a path in a manifest."""


def typed_text(path: AnyPath) -> str:
    """Return the text of which ``as_path`` makes the absolute ``path``, options included."""
    if isinstance(path, Path):
        return os.fspath(path.absolute())
    _, _, query = path.parts[0].partition("?")
    return f"{path}?{query}" if query else str(path)


class ScanEntry(Protocol):
    """An entry in the listing of a directory; ``os.DirEntry`` has this interface."""

    @property
    def name(self) -> str:
        """Its name in the directory."""

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a directory."""

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether it is a regular file."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return its status, as ``os.stat`` gives it."""


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


def as_local(path: AnyPath) -> Path:
    """Return a path in the file system as such. Raises UsageError for any other."""
    if isinstance(path, Path):
        return path
    raise UsageError(f"{path}: expected a path in the file system, found {path.KIND}")


def is_address(text: str) -> bool:
    """Return whether ``text`` is an address with one of ``SCHEMES``."""
    return text.partition("://")[0] in SCHEMES and "://" in text


def scan(path: AnyPath) -> AbstractContextManager[Iterator[ScanEntry]]:
    """List a directory, as ``os.scandir`` does. Raises OSError."""
    if isinstance(path, StoredPath):
        return nullcontext(iter(path.entries()))
    return os.scandir(path)


def exists(path: AnyPath) -> bool:
    """Return whether something is at ``path``; a link to nowhere counts."""
    return path.exists() if isinstance(path, StoredPath) else os.path.lexists(path)


def _number(text: str) -> int:
    """Return a number of 63 bits that identifies ``text``."""
    digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
