"""ObjectSource: the bytes of one object in a store, through a reused window."""

from __future__ import annotations

import errno
from typing import Final

from kdump.errors import SourceError, VanishedError
from kdump.storage.objects.client import Ticket, collect, drop
from kdump.storage.objects.listings import forget_listing
from kdump.storage.objects.ranges import LEAST_BYTES, Range, ask_later, read
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.source import Closing, Identity, source_error
from kdump.storage.throttle import Pace

#: The largest request.
READ_BYTES: Final = 8 << 20


class ObjectSource(Closing):
    """A Source over one reused buffer of ``window_bytes``, larger after a request for more.

    The size is that of the last listing. Where windows of ``READ_BYTES`` follow each other, the
    next one is asked for ahead. Reads keep to the rate of ``pace``.
    """

    def __init__(
        self, path: RemotePath, *, window_bytes: int = READ_BYTES, pace: Pace | None = None
    ) -> None:
        self.path = path
        self._read_status()
        self._room = max(window_bytes, LEAST_BYTES)
        self._pace = pace
        self._buffer = bytearray()
        self._start = 0  # the position in the object of the buffer's first byte
        self._filled = 0  # bytes of the object in the buffer
        self._handed = memoryview(b"")
        self._next: tuple[Range, Ticket] | None = None  # what was asked for ahead

    def begin(self) -> None:
        """Read the first window, of the present object if it was replaced since it was listed.

        Later the size must not change. Raises SourceError.
        """
        try:
            self.window(0)
        except VanishedError:
            self._read_status()
            self.window(0)

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return the content of the buffer from ``position`` on; see ``Source.window``."""
        wanted = min(at_least, self.size - position)
        if wanted <= 0:
            return memoryview(b"")
        if not self._start <= position <= self._start + self._filled - wanted:
            self._fill(position, wanted)
        offset = position - self._start
        self._handed = memoryview(self._buffer)[offset : self._filled].toreadonly()
        return self._handed

    def close(self) -> None:
        """See ``Source.close``."""
        self._handed.release()
        self._buffer = bytearray()
        self._filled = 0
        self._give_up()

    def _read_status(self) -> None:
        try:
            self._status = self.path.status()
        except OSError as error:
            raise source_error(self.path, error) from error
        if self._status.directory:
            raise SourceError(
                self.path, f"{self.path}: expected an object, found a prefix of objects"
            )
        self.size = self._status.size
        self.identity = Identity.of(self.path.stat_result(self._status))

    def _fill(self, position: int, wanted: int) -> None:
        """Fill the buffer from ``position`` on, or from before it near the end of the object."""
        self._handed.release()  # a late use of the window fails instead of reading other bytes
        end = self._start + self._filled
        goes_on = bool(self._filled) and self._start <= position <= end
        if not goes_on and position > self.size - LEAST_BYTES:
            position, wanted = max(self.size - LEAST_BYTES, 0), LEAST_BYTES
        length = min(max(wanted, self._room), self.size - position)
        buffered = b""
        if goes_on:
            # Mostly the start of a batch whose end is not in the buffer.
            buffered = bytes(self._buffer[position - self._start : self._filled][:length])
        reached = len(buffered)
        ahead = self._take(position + reached)
        if ahead is not None:
            length = max(length, reached + ahead[0].length)
        self._filled = 0  # an error from here on leaves an empty buffer
        if length > len(self._buffer):
            self._buffer = bytearray(length)
        self._buffer[:reached] = buffered
        with memoryview(self._buffer) as memory:
            while reached < length:
                count = min(length - reached, READ_BYTES) if ahead is None else ahead[0].length
                self._read(position + reached, memory[reached : reached + count], ahead)
                ahead = None
                if self._pace is not None:
                    self._pace.spend(count)
                reached += count
        self._start, self._filled = position, length
        end = position + length
        if goes_on and self._room >= READ_BYTES and end < self.size:
            following = Range(self.path, self._status, end, min(READ_BYTES, self.size - end))
            self._next = following, ask_later(following)

    def _take(self, position: int) -> tuple[Range, Ticket] | None:
        """Return what was asked for ahead, if it is from ``position`` on; give it up otherwise."""
        if self._next is not None and self._next[0].start == position:
            found, self._next = self._next, None
            return found
        self._give_up()
        return None

    def _give_up(self) -> None:
        if self._next is not None:
            drop(self._next[1])
            self._next = None

    def _read(self, position: int, memory: memoryview, ahead: tuple[Range, Ticket] | None) -> None:
        try:
            if ahead is None:
                count = read(Range(self.path, self._status, position, len(memory)), memory)
            else:
                count = collect(ahead[1], memory)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                forget_listing(self.path)
            raise source_error(self.path, error) from error
        if count != len(memory):
            raise SourceError(
                self.path,
                f"{self.path}: expected {len(memory)} bytes from {position} on, found {count}",
            )
