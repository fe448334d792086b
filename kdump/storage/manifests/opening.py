"""Opening of a path in a manifest, as a Source."""

from __future__ import annotations

import stat
from array import array
from collections.abc import Iterator

from kdump.errors import DecodeError, DeniedError, SourceError
from kdump.format.manifest.directories import PART_BYTES, FileContent, StoredEntry, decode_parts
from kdump.format.manifest.indexes import StoredIndex, decode_index, unfold
from kdump.format.manifest.sections import SectionKind
from kdump.storage.manifests.file import ManifestFile
from kdump.storage.manifests.log import LogInManifest
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.source import Closing, Source, source_error


class BytesInManifest(Closing):
    """A Source of a file whose bytes are in a manifest, in parts of 1 MiB."""

    def __init__(self, path: ManifestPath, manifest: ManifestFile, entry: StoredEntry) -> None:
        self.path = path
        self.size = entry.status.size
        self.identity = path.identity(entry.status)
        self._manifest = manifest
        self._parts = array("Q", (entry.section,) if self.size <= PART_BYTES else ())
        if entry.content is FileContent.PARTS:
            try:
                payload = self._manifest.section(SectionKind.PARTS, entry.section)
                self._parts = decode_parts(payload, self.size)
            except DecodeError as error:
                raise SourceError(path, f"{path}: {error}") from error
        self._start = 0
        self._view = memoryview(b"")

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return the bytes of the file from ``position`` on; see ``Source.window``."""
        wanted = min(at_least, self.size - position)
        if wanted <= 0:
            return memoryview(b"")
        if not self._start <= position <= self._start + len(self._view) - wanted:
            first, last = position // PART_BYTES, (position + wanted - 1) // PART_BYTES
            parts = b"".join(self._part(number) for number in range(first, last + 1))
            self._start, self._view = first * PART_BYTES, memoryview(parts)
        return self._view[position - self._start :]

    def close(self) -> None:
        """See ``Source.close``."""
        self._view = memoryview(b"")

    def _part(self, number: int) -> bytes:
        expected = min(PART_BYTES, self.size - number * PART_BYTES)
        part = b""
        if number < len(self._parts):
            part = self._manifest.section(SectionKind.DATA, self._parts[number])
        if len(part) != expected:
            raise SourceError(
                self.path,
                f"{self.path}: expected {expected} bytes in the manifest, found {len(part)}",
            )
        return part


class IndexInManifest(Closing):
    """A Source of an index that is stored by the batches of its log."""

    def __init__(self, path: ManifestPath, manifest: ManifestFile, entry: StoredEntry) -> None:
        self.path = path
        self.identity = path.identity(entry.status)
        self._manifest = manifest
        self._section = entry.section
        manifest.check_work()
        try:
            self._index = decode_index(self._manifest.section(SectionKind.INDEX, entry.section))
        except DecodeError as error:
            raise SourceError(path, f"{path}: {error}") from error
        manifest.spend_on_index(entry.section, len(self._index.folded) // 2)
        self.size = entry.status.size
        if self._index.size != self.size:
            raise SourceError(
                path, f"{path}: expected {self.size} bytes, found an index of {self._index.size}"
            )
        self._view: memoryview | None = None

    def window(self, position: int, at_least: int = 1) -> memoryview:
        """Return the bytes of the index from ``position`` on; see ``Source.window``."""
        end = self._index.end
        if self._view is None and position >= self.size - len(end):
            return memoryview(end)[position - (self.size - len(end)) :]
        if self._view is None:
            self._view = memoryview(self._unfold(self._index)).toreadonly()
        return self._view[position:]

    def close(self) -> None:
        """See ``Source.close``."""
        self._view = None

    def _unfold(self, index: StoredIndex) -> bytearray:
        log = self._manifest.log(index.log)
        self._manifest.spend_on_unfolding(self._section, log.batches, index.zeros)

        def tables() -> Iterator[memoryview]:
            return (self._manifest.block(block).rows for block in log.blocks)

        try:
            return unfold(index, tables())
        except DecodeError as error:
            raise SourceError(self.path, f"{self.path}: {error}") from error


def open_in_manifest(path: ManifestPath) -> Source:
    """Return the file at ``path`` as a Source.

    Raises SourceError, also for a file that could not be read when the manifest was made, and for
    one whose content the manifest has not.
    """
    try:
        manifest, entry = path.located()
    except OSError as error:
        raise source_error(path, error) from error
    if not stat.S_ISREG(entry.status.mode):
        raise SourceError(path, f"{path}: expected a regular file, found something else")
    match entry.content:
        case FileContent.LOG:
            return LogInManifest(path, manifest, entry)
        case FileContent.INDEX:
            return IndexInManifest(path, manifest, entry)
        case FileContent.DATA | FileContent.PARTS:
            return BytesInManifest(path, manifest, entry)
        case FileContent.ERROR:
            raise SourceError(path, f"{path}: {entry.error}")
        case FileContent.DENIED:
            raise DeniedError(path, f"{path}: {entry.error}")
        case FileContent.NONE:
            raise SourceError(
                path, f"{path}: expected the content of a file, found a manifest without it"
            )
