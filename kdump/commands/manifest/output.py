"""Output: a new manifest, section by section.

It is written into a file beside its place, and then renamed. As root it is written with the rights
of the owner of the directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

from kdump.errors import StateError, UsageError
from kdump.format.manifest.sections import SectionKind, pack_header, pack_section, pack_trailer
from kdump.output.files import writing_rights
from kdump.storage.manifests.file import is_manifest
from kdump.storage.paths import AnyPath
from kdump.storage.rights import acting

#: The mode of a manifest that holds the records of the metadata log, with its secrets, and of one
#: that holds no records.
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


class ManifestOutput:
    """A manifest that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._position = 0
        self._sections = 0
        self._write(pack_header())

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        return self._position

    def add(self, section: bytes) -> int:
        """Write a section, and return its position."""
        position = self._position
        self._write(section)
        self._sections += 1
        return position

    def put(self, kind: SectionKind, payload: bytes) -> int:
        """Write a payload as a section, and return its position."""
        return self.add(pack_section(kind, payload))

    def finish(self, contents: int) -> None:
        """Write the trailer of a manifest whose contents are at this position."""
        self._write(pack_trailer(contents, self._sections))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._position += len(data)


@contextmanager
def new_manifest(
    path: Path, read: Iterable[AnyPath], *, anonymous: bool
) -> Iterator[ManifestOutput]:
    """Yield the output for the file ``path``; it is there after the block ends without an error.

    ``read`` are the directories that are read. Raises UsageError if ``path`` is in one of these or
    in a log directory, or is a file of another kind. Raises StateError if it cannot be written.
    """
    rights = writing_rights("--to", path, read)
    with acting(rights):
        if os.path.lexists(path) and not is_manifest(path):
            raise UsageError(
                f"--to {path}: expected a new file, or a manifest to replace, found another file"
            )
        try:
            with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
                written = Path(file.name)
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        # Files are read with the rights of this process, so it opens the new file again for itself.
        with written.open("wb") as stream:
            yield ManifestOutput(stream)
            stream.flush()
            os.fchmod(stream.fileno(), _PUBLIC if anonymous else _PRIVATE)
        with acting(rights):
            written.replace(path)
    except OSError as error:
        _remove(written)
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error
    except BaseException:  # Ctrl-C too: no part of a manifest stays
        _remove(written)
        raise


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
