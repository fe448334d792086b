"""Values that are many and seldom read, held compressed: verdicts, forecasts, listed targets.

Measured: the verdict on a sound partition takes 1.3 KB as objects, and 7 bytes in a pack of them.
A run over a million partitions has most of them in a temporary file.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import SourceError
from kdump.storage.source import source_error
from kdump.values import frozen

T = TypeVar("T")

#: The values that are compressed together.
PACK: Final = 256
#: The packs that stay open: values are read in order, in a few places at a time.
_OPEN: Final = 16
#: The bytes of packs of one place that stay in memory.
_HELD_BYTES: Final = 1 << 20


def pack(value: object) -> bytes:
    """Return ``value`` pickled and compressed."""
    return zlib.compress(pickle.dumps(value))


class _PackFile:
    """A temporary file without a name, which goes when nothing refers to it. Raises OSError.

    It is never in the current directory, where ``tempfile`` would put it if ``/tmp`` is full.
    """

    def __init__(self) -> None:
        self.directory = Path(os.environ.get("TMPDIR") or "/tmp")
        with tempfile.TemporaryFile(dir=self.directory) as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)
        self.size = 0


@frozen
class Written:
    """A pack in a file."""

    file: _PackFile
    position: int
    length: int

    def read(self) -> bytes:
        """Return the pack. Raises SourceError."""
        path = self.file.directory
        try:
            data = os.pread(self.file.descriptor, self.length, self.position)
        except OSError as error:
            raise source_error(path, error) from error
        if len(data) < self.length:
            raise SourceError(
                path,
                f"{path}: expected {self.length} bytes in a temporary file, found {len(data)}",
            )
        return data


#: A pack in memory or in a file.
Pack = bytes | Written


def unpack(packed: Pack) -> Any:
    """Return the value that ``pack`` was given, which callers share and must not change.

    Raises SourceError for a pack in a file that cannot be read.
    """
    return _unpack(packed.read() if isinstance(packed, Written) else packed)


@lru_cache(maxsize=_OPEN)
def _unpack(packed: bytes) -> Any:
    return pickle.loads(zlib.decompress(packed))


class Packs:
    """A place for packs: the first ones stay in memory, further ones go to a temporary file.

    They stay in memory too where no file can be written.
    """

    def __init__(self) -> None:
        self._held = 0
        self._file: _PackFile | None = None
        self._full = False

    def keep(self, packed: Pack) -> Pack:
        """Return the pack as it is kept."""
        if isinstance(packed, Written):
            return packed
        if self._full or self._held < _HELD_BYTES:
            self._held += len(packed)
            return packed
        try:
            file = self._file = self._file or _PackFile()
            written = os.pwrite(file.descriptor, packed, file.size)
        except OSError:
            written = 0
        if written < len(packed):
            self._full = True
            return packed
        file.size += written
        return Written(file, file.size - written, written)


class MadeSequence(Sequence[T]):
    """A sequence that makes each value when it is asked for."""

    __slots__ = ()

    @abstractmethod
    def _make(self, number: int) -> T:
        """Return the value of a number from 0 on."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        found = range(len(self))[index]
        return self._make(found) if isinstance(found, int) else list(map(self._make, found))


class PackedList(MadeSequence[T]):
    """A list that only grows; all but the last values are in packs."""

    def __init__(self) -> None:
        self._place = Packs()
        self._packs: list[Pack] = []
        self._last: list[T] = []

    def append(self, value: T) -> None:
        """Add a value, which must not change from now on."""
        self._last.append(value)
        if len(self._last) == PACK:
            self._packs.append(self._place.keep(pack(self._last)))
            self._last = []

    def __len__(self) -> int:
        return len(self._packs) * PACK + len(self._last)

    def __iter__(self) -> Iterator[T]:
        for packed in self._packs:
            yield from unpack(packed)
        yield from self._last

    def _make(self, number: int) -> T:
        pack_number, place = divmod(number, PACK)
        packed = pack_number < len(self._packs)
        found: list[T] = unpack(self._packs[pack_number]) if packed else self._last
        return found[place]


class PackedVerdicts(MadeSequence[Verdict]):
    """Verdicts in the order in which they are added; their log directories are not compressed."""

    def __init__(self) -> None:
        self._verdicts: PackedList[tuple[Verdict, int | None]] = PackedList()
        self._directories: list[DirectoryFacts] = []

    def append(self, verdict: Verdict) -> None:
        """Add a verdict."""
        directory, number = verdict.target.directory, None
        if directory is not None:
            # Those of a directory follow each other.
            if not self._directories or self._directories[-1] is not directory:
                self._directories.append(directory)
            number = len(self._directories) - 1
        self._verdicts.append((verdict.with_directory(None), number))

    def __len__(self) -> int:
        return len(self._verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return map(self._open, self._verdicts)

    def _make(self, number: int) -> Verdict:
        return self._open(self._verdicts[number])

    def _open(self, packed: tuple[Verdict, int | None]) -> Verdict:
        verdict, number = packed
        return verdict.with_directory(None if number is None else self._directories[number])
