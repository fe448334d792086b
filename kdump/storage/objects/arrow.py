"""Stores as pyarrow knows them: all that is written, and what is read from others than S3.

Spec: ``pyarrow.fs``.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from datetime import datetime
from typing import Final

from pyarrow import NativeFile
from pyarrow.fs import (
    AwsStandardS3RetryStrategy,
    FileInfo,
    FileSelector,
    FileSystem,
    FileType,
    S3FileSystem,
)

from kdump.storage.objects.address import Address
from kdump.storage.objects.status import (
    ATTEMPTS,
    CONNECT_SECONDS,
    REPLACED,
    SILENT_SECONDS,
    ListedName,
    ObjectStatus,
)

#: How many objects stay open: a segment and its indexes.
_OPEN_OBJECTS: Final = 4

Place = tuple[FileSystem, str]
"""A store, and the name of an object in it."""


class ArrowStores:
    """The stores in use, and the objects that were read last. For one thread at a time."""

    def __init__(self) -> None:
        self._systems: dict[Address, Place] = {}
        self._open: OrderedDict[Address, NativeFile] = OrderedDict()

    def status(self, path: Address) -> ObjectStatus:
        """Return the current status of ``path``. Raises OSError."""
        system, name = self.system(path)
        if path.key:
            try:
                return self._reopen(path)[1]
            except FileNotFoundError:
                pass  # there may be objects below
        if system.get_file_info(name).type is not FileType.Directory:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return ObjectStatus(directory=True)

    def entries(self, path: Address) -> list[ListedName]:
        """List the objects and prefixes directly below ``path``. Raises OSError."""
        system, name = self.system(path)
        return [
            ListedName(info.base_name, _listed_status(info))
            for info in system.get_file_info(FileSelector(name))
        ]

    def read(self, path: Address, position: int, length: int, expected: ObjectStatus) -> memoryview:
        """Return ``length`` bytes of the object from ``position`` on.

        Raises OSError, which is ESTALE if the status of the object is not the ``expected`` one.
        """
        file = self._open.get(path)
        if file is None:
            file, found = self._reopen(path)
            _check_status(found, expected)
        try:
            data = file.read_at(length, position)
        except OSError:
            _check_status(self._reopen(path)[1], expected)  # a replaced object explains the error
            raise
        _check_status(self._reopen(path)[1], expected)
        return memoryview(data)

    def _reopen(self, path: Address) -> tuple[NativeFile, ObjectStatus]:
        """Open the object at ``path``, in place of an earlier handle; return it and its status."""
        system, name = self.system(path)
        old = self._open.pop(path, None)
        if old is not None:
            old.close()
        file = system.open_input_file(name)
        self._open[path] = file
        if len(self._open) > _OPEN_OBJECTS:
            self._open.popitem(last=False)[1].close()
        metadata = file.metadata() or {}
        modified = metadata.get("Last-Modified")
        if modified is None:
            mtime_ns = system.get_file_info(name).mtime_ns or 0
        else:
            mtime_ns = int(datetime.fromisoformat(modified.decode()).timestamp()) * 1_000_000_000
        version = metadata.get("ETag", b"").decode("utf-8", "replace")
        return file, ObjectStatus(False, file.size(), mtime_ns, version)

    def system(self, path: Address) -> Place:
        """Return the store of ``path``, and the name of the object in it."""
        store = path.store
        if store not in self._systems:
            self._systems[store] = _connect(store)
        system, base = self._systems[store]
        return system, f"{base.rstrip('/')}/{path.key}" if path.key else base


def _connect(store: Address) -> Place:
    if store.scheme != "s3":
        system, base = FileSystem.from_uri(str(store))
        return system, base
    options = store.options
    scheme, _, host = (store.endpoint or "").rpartition("://")
    return (
        S3FileSystem(
            endpoint_override=host or None,
            scheme=scheme or None,
            region=options.get("region"),
            # Background writes would buffer unsent data without a bound.
            background_writes=False,
            anonymous=options.get("anonymous", "").lower() in ("true", "1"),
            connect_timeout=CONNECT_SECONDS,
            request_timeout=SILENT_SECONDS,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        ),
        store.parts[1],
    )


def _listed_status(info: FileInfo) -> ObjectStatus:
    if info.type is FileType.Directory:
        return ObjectStatus(directory=True)
    return ObjectStatus(False, info.size or 0, info.mtime_ns or 0)


def _check_status(found: ObjectStatus, expected: ObjectStatus) -> None:
    if found != expected:
        raise OSError(errno.ESTALE, REPLACED)
