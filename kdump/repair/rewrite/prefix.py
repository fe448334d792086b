"""PrefixSource: a Source that ends at a given position of another."""

from __future__ import annotations

from pathlib import Path

from kdump.storage.paths import as_local
from kdump.storage.source import Closing, Identity, Source


class PrefixSource(Closing):
    """The first ``size`` bytes of ``source``, or all of it if it is shorter.

    ``close`` does nothing: the caller that has opened ``source`` closes it.
    """

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.size = min(size, source.size)

    @property
    def path(self) -> Path:
        """The path of the whole file."""
        return as_local(self._source.path)

    @property
    def identity(self) -> Identity:
        """The identity of the whole file."""
        return self._source.identity

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """See ``Source.window``."""
        left = self.size - position
        if left <= 0:
            return memoryview(b"")
        return self._source.window(position, min(at_least, left))[:left]

    def close(self) -> None:
        """See ``Source.close``."""
