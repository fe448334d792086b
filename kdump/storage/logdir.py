"""Listing of a log directory: partitions, segments and other files.

Spec: LogManager.loadLogs, LogLoader.loadSegmentFiles. The listing reads names and file types, each
directory once. It reads no sizes and no contents.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final

from kdump.errors import ForeignDirectoryError, ForeignFileError, SourceError, VanishedError
from kdump.storage.names import (
    CLEAN_MARKER,
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    EXTENSIONS,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    DirectoryName,
    FileKind,
    FileName,
    Suffix,
    format_file_name,
    is_aside_name,
    parse_directory_name,
    parse_file_name,
)
from kdump.storage.paths import AnyPath, ScanEntry, scan
from kdump.storage.source import source_error
from kdump.values import frozen

#: The size of the largest ``.log`` that a broker loads (``FileRecords``).
MAX_LOG_BYTES: Final = 2**31 - 1

_INDEX_KINDS = frozenset({FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
# Brokers write these files at the top of a log directory, and nowhere else.
_LOG_DIRECTORY_FILES = (
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
# The kinds of a partition's files: with an offset in the name, and by the name alone.
_NUMBERED_KINDS = {*EXTENSIONS, FileKind.METADATA_SNAPSHOT}
_NAMED_KINDS = {FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE}
_REPAIRS = ".kdump"
_EXPECTED = "expected a segment, a partition directory or a log directory"
#: The errors at a symbolic link to nothing, in a circle, or to a path below a file.
_LEADS_NOWHERE: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
#: The levels below a directory in which log directories are searched: mounts, and their folders.
_LEVELS: Final = 2
_SEARCHED: Final = 200  # directories that a search opens
_READ_NAMES: Final = 1000  # names that it reads in each
#: The levels above a directory in which the log directory or partition is searched that it is in.
_LEVELS_ABOVE: Final = 3
#: The number of paths that an error names.
_NAMED: Final = 3


class EntryType(Enum):
    """The file type of a directory entry, symbolic links followed; the value is its name."""

    FILE = "a file"
    DIRECTORY = "a directory"
    LINK = "a symbolic link to nothing"  # or in a circle
    OTHER = "a special file"  # a FIFO, a socket, a device, or a link that may not be followed


@frozen
class DirectoryEntry:
    """An entry of ``directory`` that is not part of a segment."""

    directory: AnyPath
    name: FileName
    type: EntryType

    @property
    def path(self) -> AnyPath:
        """The path. It is not stored, as a partition may have more than 100,000 files."""
        return self.directory / self.name.name


@frozen
class Segment:
    """A ``.log`` file and its companions of the same base offset and suffix.

    ``suffix`` is empty for a segment that a broker would load. ``snapshot`` is the state of the
    producers before ``base_offset``. A companion that does not exist is None.
    """

    base_offset: int
    log: AnyPath
    index: AnyPath | None
    time_index: AnyPath | None
    txn_index: AnyPath | None
    snapshot: AnyPath | None
    suffix: Suffix


@frozen
class Partition:
    """The listing of a partition directory.

    ``name`` is None if the name of the directory is not one of a partition. A broker loads
    ``segments``; ``transient`` are those with a suffix (``.deleted``, ``.cleaned``, ``.swap``).
    Both ascend by base offset. ``entries`` are all other entries, by name: orphaned indexes,
    snapshots at offsets where no segment begins, checkpoints, and entries unknown to a broker.
    """

    path: AnyPath
    name: DirectoryName | None
    segments: tuple[Segment, ...]
    transient: tuple[Segment, ...]
    entries: tuple[DirectoryEntry, ...]

    @property
    def orphans(self) -> tuple[DirectoryEntry, ...]:
        """Index files without their ``.log``; a broker deletes them at its start."""
        return tuple(
            entry
            for entry in self.entries
            if entry.name.kind in _INDEX_KINDS
            and entry.name.suffix == ""
            and entry.type is EntryType.FILE
        )


@frozen
class LogDirectory:
    """The listing of a log directory. ``partitions()`` lists its partitions.

    ``partition_paths`` ascend by topic and partition. ``entries`` are all other entries, by name.
    """

    path: AnyPath
    partition_paths: Sequence[AnyPath]
    entries: tuple[DirectoryEntry, ...]

    @property
    def refused_directories(self) -> tuple[DirectoryEntry, ...]:
        """Directories whose name is not one of a partition: they stop a broker's start.

        The one with the name of the clean shutdown marker is removed before, or stops it by itself.
        """
        passed_over = (REMOTE_INDEX_CACHE, CLEAN_MARKER)
        return tuple(
            entry
            for entry in self.entries
            if entry.type is EntryType.DIRECTORY
            and entry.name.name not in passed_over
            and not is_aside_name(entry.name.name)
        )

    @property
    def set_aside(self) -> tuple[AnyPath, ...]:
        """Directories that ``kdump move`` has set aside: copies that are not finished, backups."""
        return tuple(
            entry.path
            for entry in self.entries
            if entry.type is EntryType.DIRECTORY and is_aside_name(entry.name.name)
        )

    def partitions(self) -> Iterator[Partition | SourceError]:
        """Yield the listing of each partition, in order, or the error of listing it."""
        return map(list_partition, self.partition_paths)


PathContent = LogDirectory | Partition | Segment | DirectoryEntry
"""What a path can lead to."""


def open_paths(paths: Iterable[AnyPath]) -> Iterator[PathContent | SourceError]:
    """Yield the content of each path, in order, or the error of opening it."""
    for path in paths:
        try:
            yield open_path(path)
        except SourceError as error:
            yield error


def open_path(path: AnyPath) -> PathContent:
    """Return what ``path`` leads to.

    A log directory has ``meta.properties`` or a checkpoint at its top, or holds partition
    directories and few others. A partition directory holds a file of a partition, or has the name
    of one and lies in a log directory. A file of a segment gives that segment, any other file of a
    broker a ``DirectoryEntry``. Raises SourceError if ``path`` cannot be read or is none of these;
    the error names the path that was perhaps meant.
    """
    try:
        if not path.is_dir():
            path.stat()
            return _open_file(path)
    except OSError as error:
        raise _unopened(path, error) from error
    children = _list(path)
    if is_log_directory(path):
        return _log_directory(path, children)
    if any(map(_is_of_partition, children)):
        return _partition(path, children)
    below = _look_below(children)
    if below.directories or below.mostly_foreign:
        inside = directory_name(path) is not None and enclosing_log_directory(path) is not None
        if inside and not below.directories:
            return _partition(path, children)
        raise ForeignDirectoryError(path, f"{path}: {_foreign_text(path, children, below)}")
    return _log_directory(path, children)


def read_partition(path: AnyPath) -> Partition:
    """List the partition directory at ``path``, whatever its name. Raises SourceError."""
    return _partition(path, _list(path))


def list_partition(path: AnyPath) -> Partition | SourceError:
    """Return the listing of the partition directory at ``path``, or the error of listing it."""
    try:
        return read_partition(path)
    except SourceError as error:
        return error


def directory_name(path: AnyPath) -> DirectoryName | None:
    """Parse the name of the directory at ``path``; return None if a broker would refuse it."""
    # "." and ".." have no name of their own. They are resolved by spelling, not through links.
    spelled = _spelled(path) if isinstance(path, Path) and path.name in ("", "..") else path
    return parse_directory_name(spelled.name)


def _spelled(path: Path) -> Path:
    """Return the absolute path by its spelling, without links resolved. Raises SourceError."""
    try:
        return Path(os.path.normpath(Path.cwd() / path))
    except OSError as error:  # the current directory was removed
        raise source_error(path, error) from error


def has_lines(path: AnyPath) -> bool:
    """Return whether a broker writes checkpoint lines for the partition directory at ``path``."""
    name = directory_name(path)
    return name is not None and name.suffix == "" and name.topic != CLUSTER_METADATA_TOPIC


def is_metadata_log(partition: Partition) -> bool:
    """Return whether ``partition`` is the metadata log of a KRaft cluster, by its name."""
    return partition.name is not None and partition.name.topic == CLUSTER_METADATA_TOPIC


def holds_entries(path: AnyPath) -> bool:
    """Return whether the directory at ``path`` certainly holds an entry: it cannot be removed."""
    try:
        with scan(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def is_special(entry: DirectoryEntry) -> bool:
    """Return whether an entry is certainly a FIFO, a socket or a device, or a link to one."""
    try:
        mode = entry.path.stat().st_mode if entry.type is EntryType.OTHER else stat.S_IFREG
    except OSError:
        return False
    return not stat.S_ISREG(mode)


def creates_target(entry: DirectoryEntry) -> bool:
    """Return whether a broker that opens a link to nothing creates the file that it leads to."""
    if entry.type is not EntryType.LINK or is_circle(entry):
        return False
    try:
        return Path(os.path.realpath(entry.path)).parent.is_dir()
    except OSError:
        return False


def is_circle(entry: DirectoryEntry) -> bool:
    """Return whether an entry is a symbolic link that leads to itself, through others or not."""
    return entry.type is EntryType.LINK and _is_link(Path(os.path.realpath(entry.path)))


def is_log_directory(path: AnyPath) -> bool:
    """Return whether ``path`` has one of the files that mark the top of a log directory.

    False if this process may not search it.
    """
    try:
        return any((path / name).is_file() for name in _LOG_DIRECTORY_FILES)
    except OSError:
        return False


def enclosing_log_directory(path: AnyPath) -> AnyPath | None:
    """Return the log directory at ``path``, or the one that holds this partition or file."""
    directory = path if path.is_dir() else path.parent
    # By spelling first: a broker reaches a partition directory that is a link through its parent.
    for candidate in (directory, directory.parent, directory / ".."):
        if is_log_directory(candidate):
            return candidate
    return None


def ancestors(path: AnyPath) -> Iterator[AnyPath]:
    """Yield the directory ``path`` and all above it: first as spelled, then with links resolved.

    Raises SourceError if a link is removed while it is resolved.
    """
    spelled = Path(os.path.normpath(Path.cwd() / path))
    yield from (spelled, *spelled.parents)
    try:
        real = Path(os.path.realpath(path))
    except OSError as error:
        raise source_error(path, error) from error
    yield from (real, *real.parents)


@frozen
class _Below:
    """What lies below a directory that is not itself one of a broker.

    ``directories`` are log directories, ``partitions`` directories with a file of a partition.
    ``mostly_foreign``: directly below are more other directories than such partitions, or none.
    """

    directories: Sequence[AnyPath]
    partitions: Sequence[AnyPath]
    mostly_foreign: bool


def _look_below(children: Sequence[DirectoryEntry]) -> _Below:
    """Search ``_LEVELS`` levels from ``children`` on. No link is followed but to a partition."""
    named = {child.path for child in children if _partition_name(child) is not None}
    others = sum(child.type is EntryType.DIRECTORY for child in children) - len(named)
    directories: list[AnyPath] = []
    partitions: list[AnyPath] = []
    level = [
        child.path
        for child in children
        if child.type is EntryType.DIRECTORY and (child.path in named or not _is_link(child.path))
    ]
    left = _SEARCHED
    for _ in range(_LEVELS):
        following: list[AnyPath] = []
        for path in level[:left]:
            inner, linked = _peek(path), _is_link(path)
            if not linked and is_log_directory(path):
                directories.append(path)
            elif inner is None:  # unknown: reading it reports why
                partitions += [path] if path in named else []
            elif any(map(_is_of_partition, inner)):
                partitions.append(path)
            elif not linked:
                following += (entry.path for entry in inner if entry.type is EntryType.DIRECTORY)
        left = max(left - len(level), 0)
        level = following
    own = sum(path in named for path in partitions)
    return _Below(directories, partitions, mostly_foreign=own == 0 or others > own)


def _peek(path: AnyPath) -> list[DirectoryEntry] | None:
    """Return some entries of a directory, links aside; None if it cannot be listed."""
    try:
        with scan(path) as entries:
            return [
                DirectoryEntry(path, parse_file_name(entry.name), _type(path, entry, follow=False))
                for entry in islice(entries, _READ_NAMES)
            ]
    except OSError:
        return None


def _is_link(path: AnyPath) -> bool:
    return isinstance(path, Path) and os.path.islink(path)  # noqa: PTH114 - raises no error


def _is_of_partition(child: DirectoryEntry) -> bool:
    """Return whether a broker, or a repair, makes such an entry in partition directories."""
    name = child.name
    if child.type is EntryType.DIRECTORY:
        return name.name == _REPAIRS
    if name.kind in _NUMBERED_KINDS:
        return name.base_offset is not None
    return name.kind in _NAMED_KINDS


def _foreign_text(path: AnyPath, children: Sequence[DirectoryEntry], below: _Below) -> str:
    """Return what was found in place of a directory of a broker, and what was perhaps meant."""
    if below.directories:
        inside = _instead_of(("a log directory", "log directories"), below.directories)
        return f"expected a log directory, found a directory that holds {inside}"
    names = [child.name.name for child in children]
    empty = not names or names == ["lost+found"]
    if empty:
        text = f"{_EXPECTED}, found an empty {'file system' if names else 'directory'}"
    else:
        count = f"{len(names)} {'entries' if names[1:] else 'entry'}"
        text = f"{_EXPECTED}, found a directory with {count} and none of a broker's files in it"
    if below.partitions:
        what = "a partition directory", "partition directories"
        return f"{text}, but below {_instead_of(what, below.partitions)}"
    above = _owner(path)
    if above is not None:
        return f"{text}: it lies in {above}, name that instead"
    if empty:
        return f"{text}: is the disk mounted?"
    return f"{text}: log.dirs in server.properties names the log directories of a broker"


def _instead_of(what: tuple[str, str], paths: Sequence[AnyPath]) -> str:
    """Return ``paths`` as what a user should name; ``what`` they are, as one and as several."""
    names = ", ".join(map(str, paths[:_NAMED])) + (", ..." if paths[_NAMED:] else "")
    return f"{what[len(paths) > 1]} ({names}): name {'these' if paths[1:] else 'it'} instead"


def _owner(path: AnyPath) -> AnyPath | None:
    """Return the partition or log directory that a directory lies in, None without one."""
    if not isinstance(path, Path):
        return None
    for above in islice(_spelled(path).parents, _LEVELS_ABOVE):
        if is_log_directory(above) or any(map(_is_of_partition, _peek(above) or ())):
            return above
    return None


def _unopened(path: AnyPath, error: OSError) -> SourceError:
    """Return the error of a path that cannot be opened; of a missing one, with what is there."""
    found = source_error(path, error)
    if isinstance(error, NotADirectoryError):
        return ForeignFileError(path, str(found))
    if not isinstance(found, VanishedError) or not isinstance(path, Path):
        return found
    if _is_link(path):
        return VanishedError(path, f"{found}: it is a link")
    missing = path
    for above in path.parents:
        if os.path.lexists(above):
            return VanishedError(path, f"{found}{_near(above, missing.name)}")
        missing = above
    return found


def _near(above: Path, missing: str) -> str:
    """Return what an error says of the directory ``above``, which does not have ``missing``."""
    close: Sequence[str] = ()
    if parse_file_name(missing).base_offset is None:  # all offsets look alike
        from difflib import get_close_matches

        close = get_close_matches(missing, [entry.name.name for entry in _peek(above) or ()], n=1)
    if close:
        return f": did you mean {above / close[0]}?"
    return f": {_spelled(above)} has no {missing}"


def _list(path: AnyPath) -> list[DirectoryEntry]:
    """List a directory by name."""
    try:
        with scan(path) as entries:
            children = [
                DirectoryEntry(path, parse_file_name(entry.name), _type(path, entry))
                for entry in entries
            ]
    except OSError as error:
        raise source_error(path, error) from error
    children.sort(key=lambda child: child.name.name)
    return children


def _type(path: AnyPath, entry: ScanEntry, *, follow: bool = True) -> EntryType:
    try:
        if entry.is_file(follow_symlinks=follow):
            return EntryType.FILE
        if entry.is_dir(follow_symlinks=follow):
            return EntryType.DIRECTORY
        entry.stat(follow_symlinks=follow)
    except OSError as error:
        if error.errno in _LEADS_NOWHERE and _is_link(path / entry.name):  # it has not just gone
            return EntryType.LINK
    return EntryType.OTHER


def _open_file(path: AnyPath) -> PathContent:
    name = parse_file_name(path.name)
    if name.canonical and name.kind in EXTENSIONS and name.base_offset is not None:
        paths = {
            kind: path.with_name(format_file_name(kind, name.base_offset, name.suffix))
            for kind in EXTENSIONS
        }
        existing = {kind: file for kind, file in paths.items() if file.is_file()}
        if FileKind.LOG in existing:
            return _segment(name.base_offset, name.suffix, existing)
    if name.kind is FileKind.UNKNOWN:
        raise ForeignFileError(path, f"{path}: {_EXPECTED}, found a file that no broker writes")
    return DirectoryEntry(path.parent, name, EntryType.FILE if path.is_file() else EntryType.OTHER)


def _log_directory(path: AnyPath, children: list[DirectoryEntry]) -> LogDirectory:
    partitions: list[tuple[DirectoryName, AnyPath]] = []
    entries: list[DirectoryEntry] = []
    for child in children:
        name = _partition_name(child)
        if name is None:
            entries.append(child)
        else:
            partitions.append((name, child.path))
    partitions.sort(key=lambda pair: (pair[0].topic, pair[0].partition, pair[0].suffix, pair[1]))
    return LogDirectory(path, tuple(child for _, child in partitions), tuple(entries))


def _partition_name(child: DirectoryEntry) -> DirectoryName | None:
    if child.type is not EntryType.DIRECTORY or is_aside_name(child.name.name):
        return None
    return parse_directory_name(child.name.name)


def _partition(path: AnyPath, children: list[DirectoryEntry]) -> Partition:
    segment_files: dict[tuple[int, Suffix], dict[FileKind, DirectoryEntry]] = {}
    entries: list[DirectoryEntry] = []
    for child in children:
        name = child.name
        if (
            name.base_offset is not None
            and name.kind in EXTENSIONS
            and child.type is EntryType.FILE
            and name.canonical
        ):
            segment_files.setdefault((name.base_offset, name.suffix), {})[name.kind] = child
        else:
            entries.append(child)
    segments: list[Segment] = []
    transient: list[Segment] = []
    for (base_offset, suffix), files in sorted(segment_files.items()):
        if FileKind.LOG in files:
            paths = {kind: child.path for kind, child in files.items()}
            (transient if suffix else segments).append(_segment(base_offset, suffix, paths))
        else:
            entries.extend(files.values())
    entries.sort(key=lambda child: child.name.name)
    return Partition(path, directory_name(path), tuple(segments), tuple(transient), tuple(entries))


def _segment(base_offset: int, suffix: Suffix, paths: dict[FileKind, AnyPath]) -> Segment:
    return Segment(
        base_offset,
        paths[FileKind.LOG],
        paths.get(FileKind.INDEX),
        paths.get(FileKind.TIME_INDEX),
        paths.get(FileKind.TXN_INDEX),
        paths.get(FileKind.SNAPSHOT),
        suffix,
    )
