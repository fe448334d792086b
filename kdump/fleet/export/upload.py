"""New objects in a store, visible once closed.

What begins with ``do_`` is done by the child process that talks to stores, which finds it by its
name: readers have nothing that writes.

Spec: ``pyarrow.fs``.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kdump.storage.objects.address import RemotePath
from kdump.storage.objects.client import ask

if TYPE_CHECKING:
    from pyarrow import NativeFile

    from kdump.storage.objects.server import Stores

#: What is sent to the child at once.
_PART_BYTES: Final = 8 << 20
#: A store copies so many objects at a time, and the child answers after so many.
_COPIES: Final = 16
_COPIES_ASKED: Final = 64

#: In the child: what is being written.
_written: dict[RemotePath, NativeFile] = {}


class Upload:
    """As much of a file as is written from its start to its end. Methods raise OSError."""

    def __init__(self, path: RemotePath) -> None:
        self.closed = False
        self._path = path
        self._held = bytearray()
        ask(path, do_begin)

    def write(self, data: Any, /) -> int:
        """Take ``data``, which is sent on when there is enough of it."""
        self._held += data
        if len(self._held) >= _PART_BYTES:
            self.flush()
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Send on what is held."""
        if self._held:
            data, self._held = self._held, bytearray()
            ask(self._path, do_write, bytes(data))

    def close(self) -> None:
        """Have the object be there."""
        if not self.closed:
            self.closed = True
            self.flush()
            ask(self._path, do_end)


def abandon(path: RemotePath) -> None:
    """Have nothing at ``path``, which was not or only partly written, if the store can be asked."""
    with suppress(OSError):
        ask(path, do_abandon)


def put(path: RemotePath, data: bytes) -> None:
    """Write a small object. Raises OSError."""
    upload = Upload(path)
    upload.write(data)
    upload.close()


def copy(store: RemotePath, pairs: Sequence[tuple[RemotePath, RemotePath]]) -> None:
    """Have the ``store`` copy the first of each pair to the second. Raises OSError."""
    for start in range(0, len(pairs), _COPIES_ASKED):
        ask(store, do_copy, pairs[start : start + _COPIES_ASKED])


def remove(path: RemotePath) -> None:
    """Remove all objects below ``path``. Raises OSError."""
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
    """Finish an object and delete it: parts of one that is not finished would stay, unseen."""
    file = _written.pop(path, None)
    if file is not None:
        file.close()
    system, name = stores.system(path)
    system.delete_file(name)


def do_copy(stores: Stores, _: RemotePath, pairs: Sequence[tuple[RemotePath, RemotePath]]) -> None:
    """Copy objects within the store."""

    def one(pair: tuple[RemotePath, RemotePath]) -> None:
        (system, source), (_, target) = map(stores.system, pair)
        system.copy_file(source, target)

    with ThreadPoolExecutor(_COPIES) as threads:
        list(threads.map(one, pairs))


def do_remove(stores: Stores, path: RemotePath) -> None:
    """Delete all below a prefix."""
    system, name = stores.system(path)
    system.delete_dir(name)
