"""ManifestFile: the sections of a manifest, read when they are needed.

Little of it is in memory: the contents, and of all manifests together the entries of the last few
directories, and the last few logs and blocks.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from kdump.errors import DecodeError, SourceError
from kdump.format.manifest.blocks import Block, decode_block
from kdump.format.manifest.contents import Contents, StoredDirectory, decode_contents
from kdump.format.manifest.directories import StoredEntry, decode_directory
from kdump.format.manifest.logs import BlockEntry, StoredLog, decode_log
from kdump.format.manifest.sections import (
    HEADER_BYTES,
    MAGIC,
    SECTION_BYTES,
    TRAILER_BYTES,
    Kind,
    check_header,
    section_length,
    unpack_section,
    unpack_trailer,
)
from kdump.storage.source import Identity, open_regular, source_error
from kdump.values import frozen

K = TypeVar("K", bytes, int)
T = TypeVar("T")

#: The most manifests that are open. Of more than a few the contents have at most this number of
#: directories together, as each takes up to a kilobyte.
_OPEN: Final = 256
_FEW: Final = 16
_OPEN_DIRECTORIES: Final = 40_000
#: The most directories, logs and blocks in memory. A block takes up to a megabyte. Of large
#: directories only the last one stays.
_DIRECTORIES: Final = 16
_LARGE_DIRECTORY: Final = 20_000
_LOGS: Final = 48
_BLOCKS: Final = 48
#: What is read at once of a section; most are not longer.
_MOSTLY_BYTES: Final = 4_096

_opened: OrderedDict[str, ManifestFile] = OrderedDict()
_directories: OrderedDict[tuple[ManifestFile, bytes], dict[bytes, StoredEntry]] = OrderedDict()
_logs: OrderedDict[tuple[ManifestFile, int], StoredLog] = OrderedDict()
_blocks: OrderedDict[tuple[ManifestFile, int], Block] = OrderedDict()


def is_manifest(path: Path) -> bool:
    """Return whether a regular file begins as a manifest does; False if that cannot be read."""
    try:
        if not path.is_file():
            return False
        descriptor, _ = open_regular(path)
    except (OSError, SourceError):
        return False
    try:
        return os.pread(descriptor, len(MAGIC), 0) == MAGIC
    except OSError:
        return False
    finally:
        os.close(descriptor)


def open_manifest(path: str) -> ManifestFile:
    """Return the manifest in the file ``path``, which stays open. Raises SourceError."""
    try:
        identity = Identity.of(os.stat(path))  # noqa: PTH116 - it is called for each path in it
    except OSError as error:
        raise source_error(Path(path), error) from error
    found = _opened.get(path)
    if found is not None and found.identity == identity:
        _opened.move_to_end(path)
        return found
    _opened.pop(path, None)
    found = _opened[path] = ManifestFile(Path(path))
    while len(_opened) > _OPEN or (
        len(_opened) > _FEW
        and sum(len(each.directories) for each in _opened.values()) > _OPEN_DIRECTORIES
    ):
        _opened.popitem(last=False)
    return found


@frozen
class ManifestHead:
    """What a manifest in ``file`` says of itself; times are in nanoseconds since 1970."""

    file: Path
    begun_ns: int
    finished_ns: int
    anonymous: bool

    @property
    def time(self) -> str:
        """The time before the first read, in text."""
        seconds = self.begun_ns // 1_000_000_000
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


class ManifestFile:
    """An open manifest. ``directories`` has its directories by their path below the origin.

    ``above`` are the directories above these, each with the names below it. All of its errors are
    SourceErrors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor, status = open_regular(path)
        weakref.finalize(self, os.close, self._descriptor)
        self.identity = Identity.of(status)
        self._end = max(self.identity.size - TRAILER_BYTES, 0)
        self.contents = self._read_contents()
        self.directories: dict[bytes, StoredDirectory] = {
            directory.path: directory for directory in self.contents.directories
        }
        self.above: dict[bytes, set[bytes]] = {}
        for directory in self.directories:
            below = directory
            while below:
                below, _, name = below.rpartition(b"/")
                names = self.above.setdefault(below, set())
                if name in names:
                    break
                names.add(name)

    @property
    def head(self) -> ManifestHead:
        """What it says of itself."""
        contents = self.contents
        return ManifestHead(self.path, contents.begun_ns, contents.finished_ns, contents.anonymous)

    def entries(self, directory: StoredDirectory) -> dict[bytes, StoredEntry]:
        """Return the entries of a directory by their name. Raises SourceError."""
        if not directory.section:
            return {}

        def read() -> dict[bytes, StoredEntry]:
            entries = decode_directory(self.section(Kind.DIRECTORY, directory.section))
            if len(entries) > _LARGE_DIRECTORY:
                _directories.clear()
            return {entry.name: entry for entry in entries}

        return self._remember(_directories, directory.path, _DIRECTORIES, read)

    def log(self, position: int) -> StoredLog:
        """Return the log at ``position``. Raises SourceError."""
        return self._remember(
            _logs, position, _LOGS, lambda: decode_log(self.section(Kind.LOG, position))
        )

    def block(self, entry: BlockEntry) -> Block:
        """Return a block of a log. Raises SourceError."""

        def read() -> Block:
            payload = self.section(Kind.BLOCK, entry.section)
            block = decode_block(payload, entry.position, entry.end)
            if len(block) != entry.batches:
                raise DecodeError(
                    f"block of a manifest: expected {entry.batches} batches, found {len(block)}"
                )
            return block

        return self._remember(_blocks, entry.section, _BLOCKS, read)

    def section(self, kind: Kind, position: int) -> bytes:
        """Return the payload of the section at ``position``. Raises SourceError."""
        try:
            if not HEADER_BYTES <= position <= self._end - SECTION_BYTES:
                raise DecodeError(
                    f"expected a section of a manifest of {self.identity.size} bytes, found one at "
                    f"{position}"
                )
            left = self._end - position
            data = self._read(position, min(_MOSTLY_BYTES, left))
            length = section_length(data)
            if length > left:
                raise DecodeError(
                    f"expected a section of {length} bytes at {position} of a manifest, found its "
                    f"end after {left}"
                )
            if length > len(data):
                data = self._read(position, length)
            return unpack_section(kind, data[:length])
        except DecodeError as error:
            raise self.error(error) from error

    def error(self, error: DecodeError) -> SourceError:
        """Return the error for bytes of this file that do not follow the format."""
        return SourceError(self.path, f"{self.path}: {error}")

    def _read_contents(self) -> Contents:
        try:
            check_header(self._read(0, HEADER_BYTES))
            trailer = self._read(self._end, TRAILER_BYTES)
            return decode_contents(self.section(Kind.CONTENTS, unpack_trailer(trailer)))
        except DecodeError as error:
            raise self.error(error) from error

    def _read(self, position: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, position)
        except OSError as error:
            raise source_error(self.path, error) from error

    def _remember(
        self,
        known: OrderedDict[tuple[ManifestFile, K], T],
        key: K,
        most: int,
        read: Callable[[], T],
    ) -> T:
        found = known.get((self, key))
        if found is not None:
            known.move_to_end((self, key))
            return found
        try:
            found = read()
        except DecodeError as error:
            raise self.error(error) from error
        known[self, key] = found
        if len(known) > most:
            known.popitem(last=False)
        return found
