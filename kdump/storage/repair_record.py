"""The folders that repairs have left in a partition: backups and unfinished repairs.

Brokers ignore directories in a partition. ``kdump.repair`` writes the files of these folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeGuard

from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.names import format_aside_name
from kdump.storage.paths import AnyPath, StoredPath, exists, scan
from kdump.storage.source import source_error
from kdump.values import frozen

#: The directory in a partition that holds a folder for each repair.
FOLDERS: Final = ".kdump"
PLAN: Final = "plan.json"
BEGUN: Final = "begun.json"
UNDOING: Final = "undoing"
RECEIPT: Final = "receipt.json"

#: The commands that leave gaps on purpose, which their receipts list.
_LEAVING: Final = frozenset({"salvage", "repair"})
#: The command whose repairs move the partition: their plans have other fields.
MOVE: Final = "move"

#: The size of the largest file that is read: a plan names each file of its partition, even twice.
_MOST_BYTES: Final = 64 << 20


class RepairState(Enum):
    """The state of a repair."""

    PREPARED = "prepared"  # it has changed nothing in the partition
    PENDING = "pending"  # it was interrupted: the partition may be half changed
    UNDOING = "undoing"  # its undo was interrupted
    DONE = "done"


#: The states in which a partition may be half changed.
OPEN: Final = frozenset({RepairState.PENDING, RepairState.UNDOING})


@frozen
class RepairRecord:
    """The folder of one repair, at ``path``. Its name is the ``id`` of the plan.

    ``command`` is None if the plan cannot be read. ``begun_ns`` is the time of the first change in
    nanoseconds since the epoch, None before it or if it is unknown. ``size_bytes`` is the size of
    all files in the folder, and of the directory that a move has set aside. ``gaps`` are the first
    and last offsets of each gap that a salvage or a repair has left. ``lossy``: the repair lost
    records. ``target`` is the log directory that a move goes to, and ``moved`` the name of the
    partition directory; None for other repairs.
    """

    id: str
    path: AnyPath
    command: str | None
    state: RepairState
    begun_ns: int | None
    size_bytes: int
    gaps: tuple[tuple[int, int], ...] = ()
    lossy: bool = False
    target: str | None = None
    moved: str | None = None


def repair_records(partition: AnyPath) -> tuple[RepairRecord, ...]:
    """Return the records of the repairs of the partition directory at ``partition``.

    They ascend by the time at which the repairs began; those of unknown time come last. Entries
    that are not directories are left out. There are no records if ``.kdump`` is a link. Raises
    SourceError if the folders cannot be listed.
    """
    records = [_record(path) for path in _folders(partition / FOLDERS)]

    def order(record: RepairRecord) -> tuple[bool, int, str]:
        return record.begun_ns is None, record.begun_ns or 0, record.id

    return tuple(sorted(records, key=order))


def interrupted_moves(
    set_aside: Iterable[AnyPath],
) -> Iterator[tuple[AnyPath, RepairRecord]]:
    """Yield each copy of a move that was interrupted before the copy got its name, and its record.

    ``set_aside`` are the directories that moves have set aside. Raises SourceError.
    """
    for path in set_aside:
        for record in repair_records(path):
            if record.command == MOVE and record.state in OPEN:
                yield path, record


def is_linked(partition: AnyPath) -> bool:
    """Return whether ``.kdump`` in the partition is a link, which no repair creates.

    It counts as none in a directory that may not be searched.
    """
    if isinstance(partition, StoredPath):
        return False
    with suppress(PermissionError):
        return (partition / FOLDERS).is_symlink()
    return False


def _folders(path: AnyPath) -> Iterator[AnyPath]:
    if is_linked(path.parent):
        return
    try:
        with scan(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield path / entry.name
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise source_error(path, error) from error


def _record(path: AnyPath) -> RepairRecord:
    plan = _fields(path / PLAN)
    command = plan.get("command")
    begun = _fields(path / BEGUN).get("begun_ns")
    target, name = plan.get("target"), plan.get("name")
    return RepairRecord(
        path.name,
        path,
        command if isinstance(command, str) else None,
        _state(path),
        begun if isinstance(begun, int) and not isinstance(begun, bool) else None,
        sum(_sizes(path)) + _set_aside_bytes(path, plan),
        tuple(_gaps(path)) if command in _LEAVING else (),
        _loses(plan.get("loss")),
        target if command == MOVE and is_absolute_path(target) else None,
        name if command == MOVE and is_file_name(name) else None,
    )


def _state(path: AnyPath) -> RepairState:
    if not exists(path / BEGUN):  # also while an undone repair is being removed
        return RepairState.PREPARED
    if exists(path / UNDOING):
        return RepairState.UNDOING
    return RepairState.DONE if exists(path / RECEIPT) else RepairState.PENDING


def _fields(path: AnyPath) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is none or it cannot be read."""
    try:
        size, data = read_end(path, _MOST_BYTES)
        fields = json.loads(data) if size == len(data) else None
    except (SourceError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _loses(loss: object) -> bool:
    """Return whether ``loss``, the JSON object of a plan's loss, includes records."""
    spans = [loss.get(name) for name in ("sound", "unreadable")] if isinstance(loss, dict) else ()
    return any(
        isinstance(span, dict) and bool(span.get("count") or span.get("unbounded"))
        for span in spans
    )


def _gaps(path: AnyPath) -> Iterator[tuple[int, int]]:
    """Yield the first and last offsets of the gaps in a receipt; skip one without an end."""
    gaps = _fields(path / RECEIPT).get("holes")
    for gap in gaps if isinstance(gaps, list) else ():
        if isinstance(gap, dict):
            first, last = gap.get("first_offset"), gap.get("last_offset")
            if type(first) is int and type(last) is int:
                yield first, last


def _set_aside_bytes(path: AnyPath, plan: dict[str, Any]) -> int:
    """Return the size of the directory that a move has set aside, 0 without one on this machine."""
    source, name = plan.get("source"), plan.get("name")
    if not (isinstance(path, Path) and plan.get("command") == MOVE):
        return 0
    if not (is_absolute_path(source) and is_file_name(name)):
        return 0
    return sum(_sizes(Path(source) / format_aside_name(path.name, name)))


def is_absolute_path(value: object) -> TypeGuard[str]:
    """Return whether a JSON value is an absolute path that a file can have."""
    return isinstance(value, str) and value.startswith("/") and _is_encodable(value)


def is_file_name(value: object) -> TypeGuard[str]:
    """Return whether a JSON value is the name of a file in a directory."""
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and "/" not in value
        and _is_encodable(value)
    )


def is_argument(value: object) -> TypeGuard[str]:
    """Return whether a JSON value is a word that a command can get."""
    return isinstance(value, str) and _is_encodable(value)


def _is_encodable(text: str) -> bool:
    with suppress(UnicodeEncodeError):
        return b"\0" not in os.fsencode(text)
    return False


def _sizes(path: AnyPath) -> Iterator[int]:
    """Yield the size of every file below ``path`` that can be read."""
    directories = [path]
    while directories:
        directory = directories.pop()
        with suppress(OSError), scan(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(directory / entry.name)
                    continue
                with suppress(OSError):  # removed since
                    yield entry.stat(follow_symlinks=False).st_size
