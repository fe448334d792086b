"""The files of an export against its manifest.

Of each file the size, the digest, and the records of each log with their offsets are compared. What
readers of the directory would take for a file of the export must be in the manifest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from zstandard import ZstdDecompressor, ZstdError

from kdump.commands.export.files import Ledger
from kdump.commands.export.manifest import FileEntry, Lack, decode_manifest
from kdump.commands.export.output import FileFormat
from kdump.errors import DecodeError, SourceError, VanishedError
from kdump.output.destination import LOCK, MANIFEST
from kdump.storage.access import open_source, read_end
from kdump.storage.logdir import open_path
from kdump.storage.paths import AnyPath, StoredPath, as_local
from kdump.storage.source import Source, source_error, status_of
from kdump.values import frozen

#: The largest manifest, the largest line of JSON, and the deepest directory that are read.
_MANIFEST_BYTES: Final = 1 << 30
_LINE_BYTES: Final = 1 << 30
_DEPTH: Final = 8
_PART_BYTES: Final = 4 << 20
#: What readers of a directory ignore, by the begin of its name.
_IGNORED: Final = ("_", ".")
_UNFINISHED: Final = f"no {MANIFEST}: it was not finished"


class FileFault(Enum):
    """How a file differs from the manifest."""

    MISSING = "missing"
    SIZE = "size-differs"
    DIGEST = "digest-differs"
    RECORDS = "records-differ"
    EXTRA = "not-in-manifest"
    UNREAD = "unreadable"


@frozen
class FileDifference:
    """How the file at ``path`` below the export differs from the manifest."""

    kind: FileFault
    path: str
    expected: str
    found: str


@frozen
class Export:
    """An export: its directory or prefix, the files in its manifest, and what these lack."""

    path: AnyPath
    files: tuple[FileEntry, ...]
    lacks: tuple[Lack, ...] = ()

    @property
    def records(self) -> int:
        """The number of records by the manifest."""
        return sum(file.records for file in self.files)


def read_export(path: AnyPath) -> Export:
    """Read the manifest at ``path``, or in the directory at ``path``. Raise SourceError."""
    try:
        directory = path.is_dir()
    except OSError as error:
        raise source_error(path, error) from error
    file = path / MANIFEST if directory else path
    try:
        size = status_of(file).st_size
        if size > _MANIFEST_BYTES:
            raise SourceError(
                file, f"{file}: expected at most {_MANIFEST_BYTES} bytes, found {size}"
            )
        _, data = read_end(file, _MANIFEST_BYTES)
        return Export(file.parent, *decode_manifest(data))
    except VanishedError as error:
        if not directory:
            raise
        raise VanishedError(file, f"{path}: expected an export, found {_instead(path)}") from error
    except DecodeError as error:
        raise SourceError(file, f"{file}: {error}") from error


def is_log(path: AnyPath) -> bool:
    """Return whether ``path`` leads to what a broker wrote, and not to an export."""
    try:
        if any((path / name).exists() for name in (MANIFEST, LOCK)):
            return False
        open_path(path)
    except (SourceError, OSError):
        return False
    return True


def _instead(path: AnyPath) -> str:
    """Return what a directory without a manifest is."""
    if (path / LOCK).exists():
        return f"{_UNFINISHED}; it still runs, or the same kdump export command begins it again"
    return _UNFINISHED


def check_file(
    export: AnyPath, file: FileEntry, report: Callable[[int], None]
) -> FileDifference | None:
    """Return the first difference between a file and its entry, None without one.

    ``report`` gets counts of bytes that were compared.
    """
    path = export / file.path
    try:
        with open_source(path, mapped=False, sealed=True) as source:
            if source.size != file.bytes:
                return FileDifference(
                    FileFault.SIZE, file.path, f"{file.bytes} bytes", f"{source.size} bytes"
                )
            digest = _digest(source, report)
            if digest != file.sha256:
                return FileDifference(
                    FileFault.DIGEST, file.path, f"sha256 {file.sha256}", f"sha256 {digest}"
                )
            for expected, found in _compare(file, _read_logs(file.path, source)):
                return FileDifference(FileFault.RECORDS, file.path, expected, found)
    except VanishedError:
        return FileDifference(
            FileFault.MISSING, file.path, f"a file of {file.bytes} bytes", "nothing"
        )
    except (SourceError, DecodeError) as error:
        return FileDifference(FileFault.UNREAD, file.path, f"{file.records} records", str(error))
    return None


def extra_files(export: Export) -> Iterator[FileDifference]:
    """Yield the files below the export that are not in the manifest. Raise SourceError."""
    known = {file.path for file in export.files}
    for name in _listing(export.path, "", _DEPTH):
        if name not in known:
            yield FileDifference(
                FileFault.EXTRA, name, "only files of the manifest", "another file"
            )


def _listing(directory: AnyPath, prefix: str, depth: int) -> Iterator[str]:
    """Yield the names of all files that readers of ``directory`` would find."""
    try:
        if isinstance(directory, StoredPath):
            entries = [(entry.name, entry.is_dir()) for entry in directory.entries()]
        else:
            with os.scandir(as_local(directory)) as scanned:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scanned]
    except OSError as error:
        raise source_error(directory, error) from error
    for name, is_directory in sorted(entries):
        if name.startswith(_IGNORED):
            continue
        if is_directory and depth:
            yield from _listing(directory / name, f"{prefix}{name}/", depth - 1)
        else:
            yield prefix + name


def _digest(source: Source, report: Callable[[int], None]) -> str:
    digest, position = hashlib.sha256(), 0
    while position < source.size:
        part = source.window(position)[:_PART_BYTES]
        digest.update(part)
        position += len(part)
        report(len(part))
    return digest.hexdigest()


#: The records of a log in a file: count, lowest and highest offset.
_Found = tuple[int, int, int]
#: By source file and partition.
_Logs = dict[tuple[str, int | None], _Found]


def _compare(file: FileEntry, found: _Logs) -> Iterator[tuple[str, str]]:
    expected: _Logs = {}
    for log in file.logs:
        _add(expected, _key(log), (log.records, log.first_offset, log.last_offset))
    for key in sorted(expected.keys() | found.keys(), key=str):
        if expected.get(key) != found.get(key):
            yield _text(key[0], expected.get(key)), _text(key[0], found.get(key))


def _key(log: Ledger) -> tuple[str, int | None]:
    return log.path, log.partition


def _text(path: str, found: _Found | None) -> str:
    if found is None:
        return f"no records of {path}"
    count, first, last = found
    return f"{count} records of {path} at offsets {first} to {last}"


def _add(logs: _Logs, key: tuple[str, int | None], more: _Found) -> None:
    known = logs.get(key)
    if known is None:
        logs[key] = more
    else:
        logs[key] = (known[0] + more[0], min(known[1], more[1]), max(known[2], more[2]))


def _read_logs(name: str, source: Source) -> _Logs:
    """Return what a file holds of each log. Raise SourceError and DecodeError."""
    logs: _Logs = {}
    read = _read_parquet if name.endswith(FileFormat.PARQUET.value) else _read_lines
    for key, found in read(source):
        _add(logs, key, found)
    return logs


def _read_parquet(source: Source) -> Iterator[tuple[tuple[str, int | None], _Found]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["source_file", "partition", "offset"]
    sums = [("offset", "count"), ("offset", "min"), ("offset", "max")]
    try:
        with pq.ParquetFile(_File(source)) as file:
            for batch in file.iter_batches(columns=columns, use_threads=False):
                # Of dictionaries no groups are made.
                plain = [
                    batch.column("source_file").cast(pa.string()),
                    *map(batch.column, columns[1:]),
                ]
                table = pa.table(plain, names=columns)
                groups = table.group_by(columns[:2], use_threads=False).aggregate(sums)
                for row in groups.to_pylist():
                    counted = (row["offset_count"], row["offset_min"], row["offset_max"])
                    yield _checked((row["source_file"], row["partition"]), counted)
    except (pa.ArrowException, KeyError, TypeError, OSError) as error:
        raise DecodeError(f"expected a file of Parquet, found: {error}") from error


def _read_lines(source: Source) -> Iterator[tuple[tuple[str, int | None], _Found]]:
    # Any: zstandard's types ask for a whole IO, of which it calls read() alone.
    file: Any = _File(source)
    stream: Any = ZstdDecompressor().stream_reader(file, read_across_frames=True)
    lines = io.BufferedReader(stream)
    try:
        while line := lines.readline(_LINE_BYTES):
            fields = json.loads(line.decode())
            offset = fields["offset"]
            yield _checked((fields["source_file"], fields["partition"]), (1, offset, offset))
    except (ZstdError, ValueError, KeyError, TypeError) as error:
        raise DecodeError(f"expected lines of JSON compressed by zstd, found: {error}") from error


def _checked(key: tuple[Any, Any], found: tuple[Any, ...]) -> tuple[tuple[str, int | None], _Found]:
    """Return what a file says, if its types are those of an export. Raise TypeError."""
    path, partition = key
    if not isinstance(path, str) or not all(isinstance(number, int) for number in found):
        raise TypeError("a record without source_file or offset")
    if partition is not None and not isinstance(partition, int):
        raise TypeError("a partition that is no number")
    count, first, last = found
    return (path, partition), (count, first, last)


class _File(io.RawIOBase):
    """A Source with the methods of a file."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}
        self._position = start[whence] + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer).cast("B")
        part = self._source.window(self._position, max(len(room), 1))[: len(room)]
        room[: len(part)] = part
        self._position += len(part)
        return len(part)
