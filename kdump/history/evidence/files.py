"""The files of a state, in the file system or in a store.

A file appears whole, under a name that no other one had: a task that is killed leaves nothing that
counts, and two runs at once lose at most evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from kdump.errors import SourceError, StateError
from kdump.output import upload
from kdump.output.destination import discard
from kdump.output.files import make_directory, replace_file
from kdump.storage.access import read_end
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath, as_local, scan
from kdump.storage.rights import Rights, acting

_SUFFIX: Final = ".parquet"
_MODE: Final = 0o644
#: Base offsets are numbers modulo this.
_OFFSETS: Final = 2**64
#: The largest file that is read. A segment takes some KB.
_MOST_BYTES: Final = 1 << 30


def new_name(first: int, last: int) -> str:
    """Return the name of a new file with the evidence of segments, by their base offsets."""
    return f"{first % _OFFSETS:020d}-{last % _OFFSETS:020d}-{uuid4().hex}{_SUFFIX}"


def may_hold(path: AnyPath, base: int) -> bool:
    """Return whether a file of that name may have the segment with this base offset."""
    first, _, rest = path.name.partition("-")
    return first <= f"{base % _OFFSETS:020d}" <= rest.partition("-")[0]


def list_files(folder: AnyPath, rights: Rights | None) -> list[AnyPath]:
    """Return the files with evidence in ``folder``, none without the folder. Raises StateError."""
    try:
        with acting(rights), scan(folder) as entries:
            names = sorted(entry.name for entry in entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{folder}: cannot be listed: {error.strerror or error}") from error
    return [folder / name for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]


def read_file(path: AnyPath, rights: Rights | None) -> bytes:
    """Return the content of a file. Raises SourceError."""
    with acting(rights):
        size, content = read_end(path, _MOST_BYTES)
    if size > _MOST_BYTES:
        raise SourceError(path, f"{path}: expected at most {_MOST_BYTES} bytes, found {size}")
    return content


def write_file(path: AnyPath, content: bytes, rights: Rights | None) -> None:
    """Write a file, and the directories that it needs. Raises StateError."""
    if isinstance(path, RemotePath):
        try:
            upload.put(path, content)
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror or error}") from error
        return
    local = as_local(path)
    make_directory(local.parent, rights)
    replace_file(local, content, _MODE, rights)


def remove_files(paths: Iterable[AnyPath], rights: Rights | None) -> None:
    """Remove files; one that another run has removed is no error. Raises StateError."""
    for path in paths:
        try:
            discard(path, rights)
        except OSError as error:
            raise StateError(f"{path}: cannot be removed: {error.strerror}") from error
