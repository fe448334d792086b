"""SmallFiles: the small files of a manifest, and why others are not in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kdump.commands.manifest.log_folding import FileOutcome, status_of_file
from kdump.commands.manifest.names import Names
from kdump.commands.manifest.output import ManifestOutput
from kdump.commands.manifest.tree import ListedEntry, has_stored_bytes
from kdump.errors import DeniedError, SourceError
from kdump.format.manifest.directories import (
    PART_BYTES,
    FileContent,
    StoredEntry,
    StoredStatus,
    encode_parts,
)
from kdump.format.manifest.sections import SectionKind
from kdump.storage.access import open_source
from kdump.storage.names import FileKind
from kdump.storage.source import Source

#: The largest small file that is stored, as checks read no larger ones.
_SMALL_BYTES: Final = 64 << 20


class SmallFiles:
    """Reads small files into ``output``; ``unread`` says what could not be read."""

    def __init__(self, names: Names, output: ManifestOutput) -> None:
        self.names, self.output = names, output
        self.unread: list[str] = []

    def from_parts(self, entry: StoredEntry, parts: Sequence[int]) -> StoredEntry:
        """Return an entry whose bytes are in these DATA sections."""
        if entry.status.size <= PART_BYTES:
            section = parts[0] if parts else self.output.put(SectionKind.DATA, b"")
            return entry._replace(content=FileContent.DATA, section=section)
        section = self.output.put(SectionKind.PARTS, encode_parts(parts))
        return entry._replace(content=FileContent.PARTS, section=section)

    def failed(self, path: object, entry: StoredEntry, outcome: FileOutcome) -> StoredEntry:
        """Return the entry of a log or index that a worker could not read."""
        self.unread.append(f"{path}: {outcome.error}")
        content = FileContent.DENIED if outcome.denied else FileContent.ERROR
        return entry._replace(content=content, error=self.reason(outcome.error))

    def reason(self, text: str) -> str:
        """Return why a file could not be read, without names in an anonymous manifest."""
        return "cannot be read" if self.names.anonymous else text

    def note(self, error: SourceError) -> None:
        """Note that something could not be read."""
        self.unread.append(str(error))

    def entry(self, file: ListedEntry) -> StoredEntry:
        """Return the entry of a file that is read without a worker."""
        name = self.names.file(file.name).encode(errors="surrogateescape")
        entry = StoredEntry(name, file.status)
        if not has_stored_bytes(file):
            return entry
        return self.read(file, entry)

    def read(self, file: ListedEntry, entry: StoredEntry) -> StoredEntry:
        """Return the entry of a file whose bytes are stored."""
        limited = file.name.kind is not FileKind.METADATA_SNAPSHOT
        try:
            with open_source(file.path, mapped=False) as source:
                entry = entry._replace(status=status_of_file(source.identity, file.status))
                if limited and source.size > _SMALL_BYTES:
                    text = f"expected at most {_SMALL_BYTES} bytes, found {source.size}"
                    return entry._replace(content=FileContent.ERROR, error=text)
                if self.names.anonymous and file.name.kind is FileKind.OFFSET_CHECKPOINT:
                    data = self.names.offsets(bytes(source.window(0, source.size)[: source.size]))
                    return self._rewritten(entry, data)
                return self.from_parts(entry, list(self._put_parts(source)))
        except SourceError as error:
            self.note(error)
            failed = _failed(entry.name, file.status, file.path, error)
            return failed._replace(error=self.reason(failed.error))

    def _put_parts(self, source: Source) -> Iterator[int]:
        for start in range(0, source.size, PART_BYTES):
            length = min(PART_BYTES, source.size - start)
            yield self.output.put(SectionKind.DATA, bytes(source.window(start, length)[:length]))

    def _rewritten(self, entry: StoredEntry, data: bytes) -> StoredEntry:
        parts = [
            self.output.put(SectionKind.DATA, data[start : start + PART_BYTES])
            for start in range(0, len(data), PART_BYTES)
        ]
        return self.from_parts(entry._replace(status=entry.status._replace(size=len(data))), parts)


def _failed(name: bytes, status: StoredStatus, path: Path, error: SourceError) -> StoredEntry:
    text = str(error).removeprefix(f"{path}: ")
    content = FileContent.DENIED if isinstance(error, DeniedError) else FileContent.ERROR
    return StoredEntry(name, status, content, error=text)
