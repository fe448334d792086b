"""ObjectSource: the bytes of one object in a store, through a reused window."""

from __future__ import annotations

from typing import Final

from kdump.errors import SourceError
from kdump.storage.objects.address import RemotePath
from kdump.storage.objects.client import ask
from kdump.storage.source import Closing, Identity, source_error
from kdump.storage.throttle import Pace

#: The largest request.
READ_BYTES: Final = 8 << 20
#: The smallest request, unless the object ends before: reading as much takes as long as a request.
_LEAST_BYTES: Final = 128 << 10


class ObjectSource(Closing):
    """A Source over one reused buffer of ``window_bytes``, larger after a request for more.

    Reads keep to the rate of ``pace``.
    """

    def __init__(
        self, path: RemotePath, *, window_bytes: int = READ_BYTES, pace: Pace | None = None
    ) -> None:
        try:
            self._status = path.status()
        except OSError as error:
            raise source_error(path, error) from error
        if self._status.directory:
            raise SourceError(path, f"{path}: expected an object, found a prefix of objects")
        self.path = path
        self.size = self._status.size
        self.identity = Identity.of(path.stat_result(self._status))
        self._room = max(window_bytes, _LEAST_BYTES)
        self._pace = pace
        self._buffer = bytearray()
        self._start = 0  # the position in the object of the buffer's first byte
        self._filled = 0  # bytes of the object in the buffer
        self._handed = memoryview(b"")

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

    def _fill(self, position: int, wanted: int) -> None:
        """Fill the buffer from ``position`` on, up to the end of the object."""
        self._handed.release()  # a late use of the window fails instead of reading other bytes
        length = min(max(wanted, self._room), self.size - position)
        buffered = b""
        if self._start <= position < self._start + self._filled:
            # Mostly the start of a batch whose end is not in the buffer.
            buffered = bytes(self._buffer[position - self._start : self._filled][:length])
        self._filled = 0  # an error from here on leaves an empty buffer
        if length > len(self._buffer):
            self._buffer = bytearray(length)
        self._buffer[: len(buffered)] = buffered
        reached = len(buffered)
        with memoryview(self._buffer) as memory:
            while reached < length:
                count = min(length - reached, READ_BYTES)
                self._read(position + reached, memory[reached : reached + count])
                if self._pace is not None:
                    self._pace.spend(count)
                reached += count
        self._start, self._filled = position, length

    def _read(self, position: int, memory: memoryview) -> None:
        try:
            count = ask(self.path, "read", position, len(memory), self._status, into=memory)
        except OSError as error:
            raise source_error(self.path, error) from error
        if count != len(memory):
            raise SourceError(
                self.path,
                f"{self.path}: expected {len(memory)} bytes from {position} on, found {count}",
            )
