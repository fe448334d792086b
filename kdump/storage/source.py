"""Source: the bytes of one regular file, mapped or through a reused window.

Spec: the reading part of org.apache.kafka.common.record.FileRecords. Only regular files are opened,
and only for reading. A symbolic link is followed, because a broker follows it too.

Access to a map of a file that was truncated underneath kills the process with SIGBUS. Use
``MappedFile`` in a forked worker (``kdump.storage.workers``), and ``WindowedFile`` for files that a
broker may be using.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import pwd
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from kdump.errors import DeniedError, SourceError, VanishedError
from kdump.storage.page_cache import absent_runs
from kdump.storage.paths import AnyPath, StoredPath
from kdump.storage.throttle import Pace
from kdump.values import frozen

WINDOW_BYTES = 4 * 1024 * 1024
"""The size of a window, unless the caller needs more."""

_STATUS_BLOCK_BYTES = 512  # of st_blocks, whatever the file system
_ZEROS = memoryview(bytes(1 << 20))
_SMALL_BYTES = 256 * 1024  # reading as much is faster than mapping it
_RESIDENT_BYTES = 16 * 1024 * 1024  # of a map, read before its pages are given back
_ALIGNMENT = max(4096, mmap.PAGESIZE)  # of positions, lengths and memory: suits O_DIRECT anywhere

# Only Linux has these. Without them reading works too, and costs page cache or an atime.
_O_DIRECT: int = getattr(os, "O_DIRECT", 0)
_O_NOATIME: int = getattr(os, "O_NOATIME", 0)
_RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
# Of Linux 6.14; Python has no name for it yet.
_RWF_DONTCACHE = 0x80 if sys.platform == "linux" else 0

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@frozen
class Identity:
    """The identity and state of a file: enough to detect a replacement or a change.

    ``size`` is in bytes, ``mtime_ns`` in nanoseconds since the epoch.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """Return the identity of the file with this ``stat`` result."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Source(Protocol):
    """A regular file as it was at open; a context manager."""

    @property
    def path(self) -> AnyPath:
        """The path as it was typed."""

    @property
    def size(self) -> int:
        """The size at open, in bytes. Data that is appended later is not visible."""

    @property
    def identity(self) -> Identity:
        """The device, inode, size and mtime at open."""

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return the bytes from ``position`` on, read-only, valid until the next call.

        It holds at least ``at_least`` bytes, fewer only where the file ends, and none at or beyond
        its end. Raises SourceError if the file cannot be read, VanishedError if it became shorter.
        """

    def close(self) -> None:
        """Release the file and the memory. Windows are not valid after that."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Closing(ABC):
    """A context manager that closes itself at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """Release the file and the memory."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def source_error(path: AnyPath, error: OSError) -> SourceError:
    """Return the SourceError for an OSError about ``path``.

    It is a VanishedError if the path does not exist, a DeniedError if only another user may read
    it.
    """
    text = f"{path}: cannot be read: {error.strerror}"
    if error.errno in (errno.ENOENT, errno.ESTALE):
        return VanishedError(path, text)
    if error.errno in (errno.EACCES, errno.EPERM):
        owner = _owner(path)
        if owner is not None and owner != os.geteuid():
            return DeniedError(path, f"{text}: run kdump as its owner, {user_name(owner)}")
    return SourceError(path, text)


def status_of(path: AnyPath) -> os.stat_result:
    """Return the ``stat`` result of a file or directory. Raises SourceError."""
    try:
        return path.stat()
    except OSError as error:
        raise source_error(path, error) from error


def user_name(uid: int) -> str:
    """Return the name of a user as ``sudo -u`` takes it: ``#`` and the id without an entry."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


def _owner(path: AnyPath) -> int | None:
    """Return the user id of the owner of ``path``, or of its nearest parent that ``stat`` reaches.

    None for a path outside of the file system.
    """
    for candidate in () if isinstance(path, StoredPath) else (path, *path.parents):
        with suppress(OSError):
            return candidate.stat().st_uid
    return None


def open_regular(path: Path) -> tuple[int, os.stat_result]:
    """Open a regular file for reading; return its descriptor, which the caller closes, and status.

    Raises SourceError, also if the path is not a regular file, and VanishedError.
    """
    try:
        _refuse_irregular(path, path.stat())  # before open, which has effects on FIFOs and devices
        try:
            descriptor = os.open(path, _OPEN | _O_NOATIME)
        except PermissionError:  # O_NOATIME is for the owner of the file and for root
            descriptor = os.open(path, _OPEN)
    except OSError as error:
        raise source_error(path, error) from error
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(path, status)
    except BaseException:  # also on Ctrl-C: the caller does not have the descriptor yet
        os.close(descriptor)
        raise
    return descriptor, status


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        found = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise SourceError(path, f"{path}: expected a regular file, found {found}")


def _add_flag(descriptor: int, flag: int) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | flag)


def _release(view: memoryview, memory: mmap.mmap | None) -> None:
    # A map cannot be closed while a view of it exists; it is then freed with the last view.
    with suppress(BufferError):
        view.release()
        if memory is not None:
            memory.close()


def _round_up(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def hole_end(descriptor: int, position: int, size: int) -> int:
    """Return the end of the hole of a file that is at ``position``, which is its own without one.

    ``size`` is that of the file, as it was at open. A hole is zeros that take no space.
    """
    if position >= size or _SEEK_DATA is None:
        return position
    try:
        return min(os.lseek(descriptor, position, _SEEK_DATA), size)
    except OSError as error:
        # No data up to the end, unless the file was truncated. Some file systems have no holes.
        whole = error.errno == errno.ENXIO and os.fstat(descriptor).st_size >= size
        return size if whole else position


def allocated_bytes(status: os.stat_result) -> int:
    """Return the bytes of a file that take space: less than its size where it has holes."""
    return min(status.st_size, status.st_blocks * _STATUS_BLOCK_BYTES)


class _OpenFile(Closing):
    """The common part of all files: an open descriptor, and the state of the file at open."""

    def __init__(self, path: Path) -> None:
        self._descriptor, status = open_regular(path)
        self.path = path
        self.identity = Identity.of(status)
        self.size = status.st_size
        self._sparse = allocated_bytes(status) < self.size

    def data_from(self, position: int) -> int:
        """See the function ``data_from``."""
        return hole_end(self._descriptor, position, self.size) if self._sparse else position

    def _cut_to(self, found_bytes: int) -> VanishedError:
        return VanishedError(
            self.path,
            f"{self.path}: expected {self.size} bytes as at open, found only {found_bytes}: the "
            "file was truncated during the read",
        )

    def _stop_readahead(self) -> None:
        if sys.platform == "linux":
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class MappedFile(_OpenFile):
    """A Source over a read-only map, or over a copy of a small file.

    Raises SourceError if the file system cannot map. Windows are of limited size, and pages far
    before the last one are given back to the system: a walk over many gigabytes uses little memory,
    and finds recent pages in the caches of the processor.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._sparse = False  # whoever opens it does not map a file with holes
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")
        self._resident_from = 0
        try:
            if self.size <= _SMALL_BYTES:
                data = os.pread(self._descriptor, self.size, 0)
                if len(data) < self.size:
                    raise self._cut_to(len(data))
                self._view = memoryview(data)
            else:
                self._map = mmap.mmap(self._descriptor, self.size, mmap.MAP_PRIVATE, mmap.PROT_READ)
                self._view = memoryview(self._map)
        except OSError as error:
            raise source_error(path, error) from error
        except ValueError as error:  # mmap raises it for a file that became shorter
            raise self._cut_to(os.fstat(self._descriptor).st_size) from error
        finally:
            super().close()  # the map has a descriptor of its own

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return a part of the map; see ``Source.window``."""
        if not self._resident_from <= position < self._resident_from + _RESIDENT_BYTES:
            self._give_back(position)
        return self._view[position : position + max(at_least, WINDOW_BYTES)]

    def _give_back(self, position: int) -> None:
        page = min(position, self.size) // mmap.PAGESIZE * mmap.PAGESIZE
        if self._map is not None and page > self._resident_from:
            length = page - self._resident_from
            self._map.madvise(mmap.MADV_DONTNEED, self._resident_from, length)
        self._resident_from = page

    def close(self) -> None:
        """See ``Source.close``."""
        _release(self._view, self._map)


def data_from(source: Source, position: int) -> int:
    """Return where data begins from ``position`` on: the end of the hole that is there, if any.

    A hole of a sparse file is zeros that need not be read. At its end begins what may be no zero,
    or the file ends. Only local files tell holes.
    """
    return source.data_from(position) if isinstance(source, _OpenFile) else position


def stretch(source: Source, position: int, end: int) -> Iterator[memoryview]:
    """Yield the bytes from ``position`` to ``end``, each view valid until the next one.

    The zeros of holes are not read. Raises SourceError.
    """
    while position < end:
        hole = min(data_from(source, position), end) - position
        view = (
            _ZEROS[:hole] if hole else source.window(position)[: min(end - position, len(_ZEROS))]
        )
        yield view
        position += len(view)


class PiecesOfFile(_OpenFile):
    """A Source that holds one piece at a time, for callers that need a few pieces of a file.

    It costs less than ``MappedFile``, and less than ``WindowedFile``, which preserves the page
    cache. The system reads no more than the pieces.
    """

    def __init__(self, path: Path, window_bytes: int) -> None:
        super().__init__(path)
        self._stop_readahead()
        self._window_bytes = window_bytes
        self._start = 0
        self._view = memoryview(b"")

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return a piece from ``position`` on; see ``Source.window``."""
        wanted = min(at_least, self.size - position)
        if wanted <= 0:
            return memoryview(b"")
        if not self._start <= position <= self._start + len(self._view) - wanted:
            length = min(max(wanted, self._window_bytes), self.size - position)
            try:
                data = os.pread(self._descriptor, length, position)
            except OSError as error:
                raise source_error(self.path, error) from error
            if len(data) < length:
                raise self._cut_to(position + len(data))
            self._start, self._view = position, memoryview(data)
        return self._view[position - self._start :]


class WindowedFile(_OpenFile):
    """A Source over one reused buffer, filled by preadv: safe whatever happens to the file.

    A request inside the buffer reads nothing. The buffer holds ``window_bytes``, and more after a
    request for a larger piece. ``sealed`` tries O_DIRECT. Without O_DIRECT, pages that the reads
    brought into the page cache are given back, and pages that were cached before stay. Reads keep
    to the rate of ``pace``.
    """

    def __init__(
        self,
        path: Path,
        *,
        sealed: bool = False,
        window_bytes: int = WINDOW_BYTES,
        pace: Pace | None = None,
    ) -> None:
        super().__init__(path)
        self._window_bytes = window_bytes
        self._pace = pace
        self._buffer: mmap.mmap | None = None  # anonymous memory: aligned, and free until touched
        self._memory = memoryview(b"")
        self._start = 0  # the position in the file of the buffer's first byte
        self._filled = 0  # bytes of the file in the buffer
        self._handed = memoryview(b"")
        self._direct = sealed and self._switch_to_direct()
        self._flags = {flag for flag in (_RWF_DONTCACHE, _RWF_NOWAIT) if flag}
        self._brought: list[tuple[int, int]] = []  # the pages that the last read brought in
        if not self._direct:
            # Pages that readahead brings in look like pages that were cached before.
            self._stop_readahead()

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return the content of the buffer from ``position`` on; see ``Source.window``."""
        wanted = min(at_least, self.size - position)
        if wanted <= 0:
            return memoryview(b"")
        if not self._start <= position <= self._start + self._filled - wanted:
            self._fill(position, wanted)
        offset = position - self._start
        self._handed = self._memory[offset : self._filled].toreadonly()
        return self._handed

    def close(self) -> None:
        """See ``Source.close``."""
        _release(self._memory, self._buffer)
        self._give_back()
        super().close()

    def _fill(self, position: int, wanted: int) -> None:
        """Fill the buffer from ``position`` on, up to the end of the file."""
        self._handed.release()  # a late use of the window fails instead of reading other bytes
        start = position // _ALIGNMENT * _ALIGNMENT
        room = _round_up(position - start + max(wanted, min(self._window_bytes, self.size)))
        if room > len(self._memory):
            self._grow(room)
        self._start, self._filled = start, 0  # an error from here on leaves an empty buffer
        needed = min(len(self._memory), self.size - start)
        filled = 0
        while filled < needed:
            count = self._read(filled)
            if self._pace is not None:
                self._pace.spend(count)
            reached = filled + count
            # A direct read starts aligned: after a short one some bytes are read again.
            advanced = reached // _ALIGNMENT * _ALIGNMENT if self._direct else reached
            if reached < needed and advanced <= filled:
                raise self._cut_to(start + reached)
            filled = reached if reached >= needed else advanced
        self._filled = needed

    def _grow(self, room: int) -> None:
        _release(self._memory, self._buffer)
        self._buffer = mmap.mmap(-1, room)
        self._memory = memoryview(self._buffer)

    def _read(self, filled: int) -> int:
        """Read once into the buffer after ``filled`` bytes; return the count, 0 at the end."""
        target, position = self._memory[filled:], self._start + filled
        self._give_back()  # a page that the system held for a moment stayed the first time
        try:
            if self._direct:
                try:
                    return os.preadv(self._descriptor, [target], position)
                except OSError as error:
                    if error.errno != errno.EINVAL:
                        raise
                    self._switch_to_cached()
            absent, count = self._absent(position, len(target)), 0
            if absent is None:
                count = self._read_with(_RWF_DONTCACHE, target, position)
                if count:
                    return count
                count = self._read_with(_RWF_NOWAIT, target, position)
                if count == min(len(target), self.size - position):
                    return count
                # That attempt may have started to read the rest into the cache, so the rest counts
                # as absent. On the fastest disks, pages that arrived during the attempt do not.
                absent = [(position + count, len(target) - count)]
            count += os.preadv(self._descriptor, [target[count:]], position + count)
        except OSError as error:
            raise source_error(self.path, error) from error
        self._brought = absent
        self._give_back()
        return count

    def _give_back(self) -> None:
        if sys.platform == "linux":
            for start, length in self._brought:
                os.posix_fadvise(self._descriptor, start, length, os.POSIX_FADV_DONTNEED)

    def _absent(self, position: int, length: int) -> list[tuple[int, int]] | None:
        """Return the pages from ``position`` on that are not in the page cache, None for unknown.

        See ``absent_runs``.
        """
        start = position // mmap.PAGESIZE * mmap.PAGESIZE
        return absent_runs(self._descriptor, start, position + length - start)

    def _read_with(self, flag: int, target: memoryview, position: int) -> int:
        """Read with a flag that not all systems have; return the count, 0 if nothing was read."""
        if flag not in self._flags:
            return 0
        try:
            return os.preadv(self._descriptor, [target], position, flag)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
            self._flags.remove(flag)
            return 0

    def _switch_to_direct(self) -> bool:
        if not _O_DIRECT:
            return False
        try:
            _add_flag(self._descriptor, _O_DIRECT)
        except OSError:  # EINVAL where the file system has no direct reads
            return False
        return True

    def _switch_to_cached(self) -> None:
        # Some file systems grant the flag and then refuse to read.
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags & ~_O_DIRECT)
        self._direct = False
        self._stop_readahead()
