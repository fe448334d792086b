"""The directories of a manifest: what is listed, and the files whose bytes are stored."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from kdump.errors import SourceError
from kdump.format.manifest.directories import StoredStatus
from kdump.storage.logdir import enclosing_log_directory
from kdump.storage.names import (
    CLUSTER_METADATA_TOPIC,
    TRANSACTION_TOPIC,
    FileKind,
    FileName,
    parse_directory_name,
    parse_file_name,
)
from kdump.storage.paths import AnyPath, as_local, scan
from kdump.storage.repair_record import BEGUN, FOLDERS, PLAN, RECEIPT, UNDOING
from kdump.storage.source import source_error
from kdump.values import frozen

#: The largest log of transactions that is stored whole: the checks of open transactions read it.
_TRANSACTION_BYTES: Final = 64 << 20
#: The largest file of a repair that is stored.
_REPAIR_BYTES: Final = 16 << 20
_NEVER: Final = frozenset(
    {FileKind.UNKNOWN, FileKind.CLEAN_MARKER, FileKind.LOCK, FileKind.KDUMP, FileKind.LOG}
)
#: The topics whose records a check of other partitions needs.
_CONTEXT: Final = frozenset({CLUSTER_METADATA_TOPIC, TRANSACTION_TOPIC})


@frozen
class ListedEntry:
    """An entry of a directory as it was listed, with its status."""

    name: FileName
    path: Path
    status: StoredStatus

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, links followed."""
        return stat.S_ISREG(self.status.mode)

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory, links followed."""
        return stat.S_ISDIR(self.status.mode)


@frozen
class Base:
    """A directory of the manifest with its place, and the partitions that were named in it.

    ``partitions`` are their names, None for all.
    """

    path: Path
    place: str
    partitions: frozenset[str] | None


def bases_of(paths: Collection[AnyPath], *, anonymous: bool) -> tuple[Path, tuple[Base, ...]]:
    """Return the origin of the paths, and the directories that hold them, in order.

    A partition is listed in its log directory. Raises SourceError.
    """
    named: dict[Path, set[str] | None] = {}
    for path in paths:
        real, above = locate(path)
        if above is None:
            named[real] = None
        elif (partitions := named.setdefault(above, set())) is not None:
            partitions.add(real.name)
    origin = Path(os.path.commonpath([path.parent for path in named]))
    bases = []
    for number, (path, names) in enumerate(named.items(), start=1):
        place = f"log-directory-{number}" if anonymous else str(path.relative_to(origin))
        bases.append(Base(path, place, None if names is None else frozenset(names)))
    return origin, tuple(bases)


def locate(path: AnyPath) -> tuple[Path, Path | None]:
    """Return the absolute path of a directory, and of the log directory that it is in, if any."""
    above = enclosing_log_directory(path)
    if above is not None and above.name == "..":  # it is reached through a link
        real = Path(os.path.realpath(as_local(path)))
        return real, real.parent
    real = Path(os.path.abspath(as_local(path)))  # noqa: PTH100 - without following links
    if above is None or Path(os.path.abspath(as_local(above))) == real:  # noqa: PTH100 - as above
        return real, None
    return real, real.parent


def log_bytes(bases: Iterable[Base], *, anonymous: bool) -> int:
    """Return the size of the logs that a manifest of ``bases`` reads, as far as it is known."""
    total = 0
    for base in bases:
        with suppress(SourceError):
            top = list_files(base.path)
            total += _log_bytes(top)
            for file in top:
                if file.is_directory and belongs(base, file.name.name, anonymous=anonymous):
                    with suppress(SourceError):
                        total += _log_bytes(list_files(file.path))
    return total


def list_files(directory: Path) -> list[ListedEntry]:
    """List a directory with the status of each entry, by name. Raises SourceError."""
    try:
        with scan(directory) as entries:
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        raise source_error(directory, error) from error
    return list(_listed(directory, names))


def status_of_path(path: Path) -> StoredStatus:
    """Return the status of a path, or of the link where that leads nowhere. Raises OSError."""
    try:
        found = path.stat()
    except OSError:
        found = path.lstat()
    return stored_status(found)


def stored_status(status: os.stat_result) -> StoredStatus:
    """Return ``status`` as a manifest has it."""
    return StoredStatus(
        status.st_mode,
        status.st_uid,
        status.st_gid,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )


def belongs(base: Base, name: str, *, anonymous: bool) -> bool:
    """Return whether the manifest has the directory of this name in ``base``.

    An anonymous one has no metadata log, whose records hold names.
    """
    parts = parse_directory_name(name)
    if anonymous and parts is not None and parts.topic == CLUSTER_METADATA_TOPIC:
        return False
    if base.partitions is None or name in base.partitions:
        return True
    return parts is not None and parts.topic in _CONTEXT and not parts.suffix


def has_stored_bytes(file: ListedEntry) -> bool:
    """Return whether the bytes of a small file are stored."""
    return file.is_file and file.name.kind not in _NEVER and file.name.suffix in ("", ".swap")


def is_whole(directory: str, size: int, *, anonymous: bool) -> bool:
    """Return whether the records of a log are stored: checks of other partitions need them."""
    name = parse_directory_name(directory)
    if anonymous or name is None or name.suffix:
        return False
    if name.topic == CLUSTER_METADATA_TOPIC:
        return True
    return name.topic == TRANSACTION_TOPIC and size <= _TRANSACTION_BYTES


def repair_folders(partition: Path) -> Iterator[Path]:
    """Yield the directories of the repairs of a partition, those above before those in them."""
    top = partition / FOLDERS
    if top.is_symlink() or not top.is_dir():
        return
    pending = [top]
    while pending:
        directory = pending.pop()
        yield directory
        try:
            pending += (entry.path for entry in list_files(directory) if entry.is_directory)
        except SourceError:
            continue


def is_repair_record(file: ListedEntry) -> bool:
    """Return whether a file is the plan or receipt of a repair, or marks its state."""
    known = file.name.name in (PLAN, BEGUN, UNDOING, RECEIPT)
    return known and file.is_file and file.status.size <= _REPAIR_BYTES


def _log_bytes(files: Iterable[ListedEntry]) -> int:
    return sum(file.status.size for file in files if file.name.kind is FileKind.LOG)


def _listed(directory: Path, names: list[str]) -> Iterator[ListedEntry]:
    for name in names:
        path = directory / name
        try:
            yield ListedEntry(parse_file_name(name), path, status_of_path(path))
        except OSError:  # it has vanished since it was listed
            continue
