"""Paths of the data source: globs, and directories that hold log directories.

Spec: ``Path`` of Hadoop, as which Spark writes the location of a table: ``file:/srv/kafka/data``.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kdump.errors import UsageError
from kdump.storage.logdir import is_log_directory
from kdump.storage.names import META_PROPERTIES
from kdump.storage.objects.address import is_address
from kdump.storage.objects.remote_path import as_path
from kdump.storage.paths import AnyPath, scan
from kdump.storage.source import source_error

#: The directory of a file system that only root may search.
_OF_FILE_SYSTEM: Final = "lost+found"
_LOCAL: Final = re.compile(r"file:(//)?(?=/)")


def expand_paths(texts: Iterable[str], *, manifests: bool = False) -> Iterator[AnyPath]:
    """Yield what ``texts`` lead to; of a directory of log directories, these log directories.

    A text with ``*``, ``?`` or ``[`` is a pattern, unless a file has that name. With ``manifests``
    it leads to any file, else to directories and segments. In a store there are no patterns. Raise
    UsageError for a pattern without a match.
    """
    for text in texts:
        for path in _matches(text, manifests=manifests):
            yield from _log_directories(path) or (path,)


def _matches(text: str, *, manifests: bool) -> list[AnyPath]:
    if is_address(text):
        return [as_path(text)]
    local = _LOCAL.sub("", text)
    if not glob.has_magic(local) or Path(local).exists():
        return [Path(local)]
    # Of the files that match, segments alone have records: others lie beside partitions.
    matches = [Path(name) for name in sorted(glob.glob(local))]  # noqa: PTH207 - as a shell does
    paths: list[AnyPath] = [
        path for path in matches if manifests or path.suffix == ".log" or path.is_dir()
    ]
    if not paths:
        raise UsageError(f"{local}: expected a pattern that some directory or segment matches")
    return paths


def _log_directories(path: AnyPath) -> list[AnyPath]:
    """Return the log directories directly below ``path``, none if it is itself one.

    Raise SourceError for a directory below that cannot be searched: it may be one.
    """
    try:
        if not path.is_dir() or is_log_directory(path):
            return []
        with scan(path) as entries:
            below = sorted(
                path / entry.name
                for entry in entries
                if entry.is_dir() and entry.name != _OF_FILE_SYSTEM
            )
    except OSError:  # the listing of targets reports it
        return []
    found = [directory for directory in below if is_log_directory(directory)]
    if found:
        for directory in below:
            _check_search(directory)
    return found


def _check_search(directory: AnyPath) -> None:
    try:
        (directory / META_PROPERTIES).stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise source_error(directory, error) from error
