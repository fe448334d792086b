"""New objects in a store, visible once closed.

The child process that talks to stores runs the functions whose names begin with ``do_``, and finds
them by name. Modules for reading thus contain no code that writes.

Spec: ``pyarrow.fs``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kdump.storage.objects.client import ask
from kdump.storage.objects.remote_path import RemotePath

if TYPE_CHECKING:
    from pyarrow import NativeFile

    from kdump.storage.objects.server import Stores

#: The size of the parts that are sent to the child.
_PART_BYTES: Final = 8 << 20
#: The number of objects that a store copies at a time, and of copies in one request to the child.
_COPIES: Final = 16
_COPIES_ASKED: Final = 64

#: In the child: the objects that are being written.
_written: dict[RemotePath, NativeFile] = {}


class Upload:
    """A new object that is written sequentially. Methods raise OSError."""

    def __init__(self, path: RemotePath) -> None:
        self.closed = False
        self._path = path
        self._buffer = bytearray()
        ask(path, do_begin)

    def write(self, data: Any, /) -> int:
        """Append ``data`` to the buffer, which is sent in parts; return the size in bytes."""
        self._buffer += data
        if len(self._buffer) >= _PART_BYTES:
            self.flush()
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Send the buffered bytes."""
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            ask(self._path, do_write, bytes(data))

    def close(self) -> None:
        """Finish the object, which makes it visible."""
        if not self.closed:
            self.closed = True
            self.flush()
            ask(self._path, do_end)


def abandon(path: RemotePath) -> None:
    """Remove an unfinished object at ``path``, if the store answers."""
    with suppress(OSError):
        ask(path, do_abandon)


def put(path: RemotePath, data: bytes) -> None:
    """Write a small object. Raise OSError."""
    upload = Upload(path)
    upload.write(data)
    upload.close()


def copy(store: RemotePath, pairs: Sequence[tuple[RemotePath, RemotePath]]) -> None:
    """Let the store copy the first path of each pair to the second. Raise OSError."""
    for start in range(0, len(pairs), _COPIES_ASKED):
        ask(store, do_copy, pairs[start : start + _COPIES_ASKED])


def remove(path: RemotePath) -> None:
    """Remove all objects below ``path``. Raise OSError."""
    ask(path, do_remove)


# --- in the child


def do_begin(stores: Stores, path: RemotePath) -> None:
    """Begin an object."""
    system, name = stores.system(path)
    _written[path] = system.open_output_stream(name, compression=None)


def do_write(_: Stores, path: RemotePath, data: bytes) -> None:
    """Append to an object."""
    if path not in _written:
        raise OSError(errno.EIO, "the process that wrote it to the store died")
    _written[path].write(data)


def do_end(_: Stores, path: RemotePath) -> None:
    """Finish an object."""
    if path not in _written:
        raise OSError(errno.EIO, "the process that wrote it to the store died")
    _written.pop(path).close()


def do_abandon(stores: Stores, path: RemotePath) -> None:
    """Finish an object and delete it: parts of an unfinished object would stay, invisible."""
    file = _written.pop(path, None)
    if file is not None:
        file.close()
    system, name = stores.system(path)
    system.delete_file(name)


def do_copy(stores: Stores, _: RemotePath, pairs: Sequence[tuple[RemotePath, RemotePath]]) -> None:
    """Copy objects within the store."""

    def copy_object(pair: tuple[RemotePath, RemotePath]) -> None:
        (system, source), (_, target) = map(stores.system, pair)
        system.copy_file(source, target)

    with ThreadPoolExecutor(_COPIES) as threads:
        list(threads.map(copy_object, pairs))


def do_remove(stores: Stores, path: RemotePath) -> None:
    """Delete all objects below a prefix."""
    system, name = stores.system(path)
    system.delete_dir(name)
