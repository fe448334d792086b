"""ManifestFile: the sections of a manifest, read when they are needed.

Little of it is in memory: the contents, and of all manifests together the entries of the last few
directories, and the last few logs and blocks.
"""

from __future__ import annotations

import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
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
    SectionKind,
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
#: The work that a manifest may ask for: a number of batches and entries of indexes, and more of
#: them for each byte of the file. A batch has a checksum of four bytes that hardly compresses. An
#: index costs its entries, and once more the batches of its log. So a log with two indexes asks for
#: at most 5 for 4 bytes. The first number is for small manifests of batches that are all alike.
_WORK: Final = 1 << 20
_WORK_OF_BYTE: Final = 2
#: The zeros behind the entries of indexes: a partition without records has two indexes with room
#: for 10 MiB each, and takes more than 340 bytes.
_ZEROS: Final = 1 << 28
_ZEROS_OF_BYTE: Final = 1 << 16
#: The directories and files without a section that a manifest may have: a number, and one for some
#: bytes of the file. Each takes at least as many for its time and its inode.
_BARE: Final = 4_096
_BYTES_OF_BARE: Final = 8
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


class _Sections:
    """A set of sections of a manifest, in a bit for each place where one can begin."""

    def __init__(self, end: int) -> None:
        self._bits = bytearray(end // SECTION_BYTES // 8 + 1)

    def __contains__(self, position: int) -> bool:
        number, bit = divmod(position // SECTION_BYTES, 8)
        return number < len(self._bits) and bool(self._bits[number] >> bit & 1)

    def add(self, position: int) -> None:
        """Add the section at ``position``; nothing is a section outside of the file."""
        number, bit = divmod(position // SECTION_BYTES, 8)
        if number < len(self._bits):
            self._bits[number] |= 1 << bit


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
        self._owned = _Sections(self._end)
        self._met = _Sections(self._end)
        self._unfolded = _Sections(self._end)
        self._work_left = _WORK + _WORK_OF_BYTE * self.identity.size
        self._zeros_left = _ZEROS + _ZEROS_OF_BYTE * self.identity.size
        self._bare_left = _BARE + self.identity.size // _BYTES_OF_BARE
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
            entries = decode_directory(self.section(SectionKind.DIRECTORY, directory.section))
            if directory.section not in self._met:
                self._own(entry.section for entry in entries)
                self._met.add(directory.section)
            if len(entries) > _LARGE_DIRECTORY:
                _directories.clear()
            return {entry.name: entry for entry in entries}

        return self._remember(_directories, directory.path, _DIRECTORIES, read)

    def log(self, position: int) -> StoredLog:
        """Return the log at ``position``. Raises SourceError."""

        def read() -> StoredLog:
            log = decode_log(self.section(SectionKind.LOG, position))
            if position not in self._met:
                self._spend(log.batches)
                self._own(block.section for block in log.blocks)
                self._met.add(position)
            return log

        return self._remember(_logs, position, _LOGS, read)

    def spend_on_index(self, position: int, entries: int) -> None:
        """Count the entries of the index at ``position`` as work, but once. Raises SourceError."""
        self._spend_once(self._met, position, entries)

    def spend_on_unfolding(self, position: int, batches: int, zeros: int) -> None:
        """Count what the bytes of the index at ``position`` are made of, but once.

        Raises SourceError.
        """
        if position not in self._unfolded:
            self._zeros_left -= zeros
        if self._zeros_left < 0:
            raise SourceError(
                self.path,
                f"{self.path}: expected at most {_ZEROS:,} zeros behind the entries of indexes, "
                f"and {_ZEROS_OF_BYTE:,} for each of the {self.identity.size:,} bytes of a "
                "manifest, found more",
            )
        self._spend_once(self._unfolded, position, batches)

    def _spend_once(self, met: _Sections, position: int, work: int) -> None:
        try:
            self._spend(0 if position in met else work)
        except DecodeError as error:
            raise self.error(error) from error
        met.add(position)

    def _spend(self, work: int) -> None:
        self._work_left -= work
        if self._work_left < 0:
            raise DecodeError(
                f"expected at most {_WORK:,} batches and index entries, and {_WORK_OF_BYTE} for "
                f"each of the {self.identity.size:,} bytes of a manifest, found more"
            )

    def block(self, entry: BlockEntry) -> Block:
        """Return a block of a log. Raises SourceError."""

        def read() -> Block:
            payload = self.section(SectionKind.BLOCK, entry.section)
            block = decode_block(payload, entry.position, entry.end)
            if len(block) != entry.batches:
                raise DecodeError(
                    f"block of a manifest: expected {entry.batches} batches, found {len(block)}"
                )
            return block

        return self._remember(_blocks, entry.section, _BLOCKS, read)

    def section(self, kind: SectionKind, position: int) -> bytes:
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

    def check_work(self) -> None:
        """Raise SourceError if it has asked for too much work."""
        try:
            self._spend(0)
        except DecodeError as error:
            raise self.error(error) from error

    def error(self, error: DecodeError) -> SourceError:
        """Return the error for bytes of this file that do not follow the format."""
        return SourceError(self.path, f"{self.path}: {error}")

    def _read_contents(self) -> Contents:
        try:
            check_header(self._read(0, HEADER_BYTES))
            trailer = self._read(self._end, TRAILER_BYTES)
            contents = decode_contents(self.section(SectionKind.CONTENTS, unpack_trailer(trailer)))
            self._own(directory.section for directory in contents.directories)
            return contents
        except DecodeError as error:
            raise self.error(error) from error

    def _own(self, sections: Iterable[int]) -> None:
        """Note the sections of one directory or log. Raises DecodeError if another has one too.

        Otherwise few bytes could ask for any amount of work. A section at 0 is none.
        """
        for section in sections:
            if not section:
                self._bare_left -= 1
                if self._bare_left < 0:
                    raise DecodeError(
                        f"expected at most {_BARE:,} files and directories without content, and "
                        f"one for {_BYTES_OF_BARE} bytes of a manifest, found more"
                    )
            elif section in self._owned:
                raise DecodeError(
                    f"expected a section of a manifest in one place, found the one at {section} in "
                    "two"
                )
            else:
                self._owned.add(section)

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
