"""The files of a log directory that the broker's user may not open.

A restore by root, or one start of the broker as root, leaves such files. kdump as root can read
them, so that nothing else shows them.

Spec: ``path_resolution(7)``, ``acl(5)``; ``LogLoader.removeTempFilesAndCollectSwapFiles``,
``FileRecords.open``, ``AbstractIndex``, ``FileLock``.
"""

from __future__ import annotations

import grp
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from kdump.storage.logdir import EntryType, LogDirectory, Partition
from kdump.storage.names import FileKind
from kdump.storage.paths import AnyPath, StoredPath
from kdump.storage.rights import Rights
from kdump.storage.source import user_name
from kdump.values import frozen

#: An access control list, which may allow more than the mode does.
_ACCESS_LIST: Final = "system.posix_acl_access"
_READ: Final = os.R_OK
_READ_WRITE: Final = os.R_OK | os.W_OK
_CHANGE: Final = os.R_OK | os.W_OK | os.X_OK
_ACCESS: Final = {
    _READ: "read",
    _READ_WRITE: "read and write",
    _CHANGE: "read, write and search",
}
#: The files at the top that a broker reads; to write them, it replaces them.
_READ_AT_TOP: Final = frozenset(
    {FileKind.OFFSET_CHECKPOINT, FileKind.META_PROPERTIES, FileKind.BOOTSTRAP_SNAPSHOT}
)


@frozen
class DeniedFile:
    """A file or directory, the access that a broker needs, and what its mode allows.

    ``user`` is the broker's user, as ``chown`` takes it; ``owned`` says whether it owns the file.
    """

    path: AnyPath
    user: str
    owned: bool
    expected: str
    found: str


def broker_rights(directory: LogDirectory) -> Rights | None:
    """Return the ids of the broker's user: the owner of most partition directories.

    None if there are no partitions, if no user owns most of them, and if that user is root, whom
    no mode stops. None for directories in an object store.
    """
    statuses = [
        status for path in directory.partition_paths if (status := _status(path)) is not None
    ]
    owners = Counter(status.st_uid for status in statuses)
    for uid, count in owners.most_common(1):
        if uid != 0 and 2 * count > len(statuses):
            return Rights.of_owner(next(status for status in statuses if status.st_uid == uid))
    return None


def denied_in_partition(partition: Partition, rights: Rights | None) -> tuple[DeniedFile, ...]:
    """Return the partition directory and those of its files that ``rights`` may not open."""
    return () if rights is None else tuple(_denied(rights, _partition_files(partition)))


def is_unwritable(
    partition: Partition, rights: Rights | None, denied: Sequence[DeniedFile]
) -> bool:
    """Return whether ``rights`` may open all files of a partition, but not make or remove one.

    ``denied`` are the files of ``denied_in_partition``.
    """
    if rights is None or [file.path for file in denied] != [partition.path]:
        return False
    status = _status(partition.path)
    return status is not None and rights.allow(status, os.R_OK | os.X_OK)


def denied_at_top(directory: LogDirectory, rights: Rights | None) -> tuple[DeniedFile, ...]:
    """Return the log directory and those files at its top that ``rights`` may not open."""
    return () if rights is None else tuple(_denied(rights, _top_files(directory)))


def _top_files(directory: LogDirectory) -> Iterator[tuple[AnyPath, int]]:
    yield directory.path, _CHANGE
    for entry in directory.entries:
        if entry.type is EntryType.FILE and entry.name.kind is FileKind.LOCK:
            yield entry.path, _READ_WRITE
        elif entry.type is EntryType.FILE and entry.name.kind in _READ_AT_TOP:
            yield entry.path, _READ


def _partition_files(partition: Partition) -> Iterator[tuple[AnyPath, int]]:
    """Yield the directory and its files: a broker that loads a log must be able to read them all.

    It opens the logs and indexes of segments for writing; other files it replaces.
    """
    yield partition.path, _CHANGE
    for segment in (*partition.segments, *partition.transient):
        access = _READ if segment.suffix else _READ_WRITE
        for path in (segment.log, segment.index, segment.time_index, segment.txn_index):
            if path is not None:
                yield path, access
        if segment.snapshot is not None:
            yield segment.snapshot, _READ
    for entry in partition.entries:
        if entry.type is EntryType.FILE:
            yield entry.path, _READ


def _denied(rights: Rights, files: Iterable[tuple[AnyPath, int]]) -> Iterator[DeniedFile]:
    for path, access in files:
        status = _status(path)
        if status is None or rights.allow(status, access) or _has_access_list(path):
            continue
        user, mode = user_name(rights.uid), stat.S_IMODE(status.st_mode)
        owner, group = user_name(status.st_uid), _group_name(status.st_gid)
        yield DeniedFile(
            path,
            user.removeprefix("#"),
            status.st_uid == rights.uid,
            f"user {user} to be allowed to {_ACCESS[access]}",
            f"mode {mode:04o} with owner {owner} and group {group}",
        )


def _status(path: AnyPath) -> os.stat_result | None:
    if not isinstance(path, StoredPath):
        with suppress(OSError):  # a file that vanished or cannot be reached has other findings
            return path.stat()
    return None


def _has_access_list(path: AnyPath) -> bool:
    with suppress(OSError):
        return _ACCESS_LIST in os.listxattr(str(path))
    return False


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
