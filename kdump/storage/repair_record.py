"""The folders that repairs have left in a partition: backups and unfinished repairs.

Brokers ignore directories in a partition. The files of a folder are those that ``kdump.repair``
writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.objects.address import RemotePath, exists, scan
from kdump.storage.source import source_error

#: The directory in a partition that has a folder for each repair.
FOLDERS: Final = ".kdump"
PLAN: Final = "plan.json"
BEGUN: Final = "begun.json"
UNDOING: Final = "undoing"
RECEIPT: Final = "receipt.json"

_SALVAGE: Final = "salvage"

#: The largest of these files that is read: a plan names each file of its partition, once or twice.
_MOST_BYTES: Final = 64 << 20


class RepairState(Enum):
    """How far a repair has come."""

    PREPARED = "prepared"  # nothing of the partition was changed
    PENDING = "pending"  # it was interrupted: the partition may be half changed
    UNDOING = "undoing"  # taking it back was interrupted
    DONE = "done"


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """The folder of one repair, at ``path``, whose name is the plan's ``id``.

    ``command`` is None where its plan cannot be read. ``begun_ns`` is when the first change was
    made, None for unknown, and before it. ``size_bytes`` is that of all files in it. ``holes`` are
    the first and last offsets of each hole that a salvage has left. ``lossy``: records are lost.
    """

    id: str
    path: Path
    command: str | None
    state: RepairState
    begun_ns: int | None
    size_bytes: int
    holes: tuple[tuple[int, int], ...] = ()
    lossy: bool = False


def kept(partition: Path) -> tuple[RepairRecord, ...]:
    """Return the folders of the repairs of the partition directory at ``partition``.

    They ascend by when they began; those of which that is unknown come last. What is no directory
    is left out, and all behind a link. Raises SourceError where the folders cannot be listed.
    """
    found = [_folder(path) for path in _folders(partition / FOLDERS)]
    return tuple(sorted(found, key=lambda one: (one.begun_ns is None, one.begun_ns or 0, one.id)))


def is_linked(partition: Path) -> bool:
    """Whether a link stands in the place of the folders, which no repair makes."""
    path = partition / FOLDERS
    return not isinstance(path, RemotePath) and path.is_symlink()


def _folders(path: Path) -> Iterator[Path]:
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


def _folder(path: Path) -> RepairRecord:
    plan = _fields(path / PLAN)
    command = plan.get("command")
    begun = _fields(path / BEGUN).get("begun_ns")
    return RepairRecord(
        path.name,
        path,
        command if isinstance(command, str) else None,
        _state(path),
        begun if isinstance(begun, int) and not isinstance(begun, bool) else None,
        sum(_sizes(path)),
        tuple(_holes(path)) if command == _SALVAGE else (),
        _loses(plan.get("loss")),
    )


def _state(path: Path) -> RepairState:
    if not exists(path / BEGUN):  # or undone, and being cleared away
        return RepairState.PREPARED
    if exists(path / UNDOING):
        return RepairState.UNDOING
    return RepairState.DONE if exists(path / RECEIPT) else RepairState.PENDING


def _fields(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty without one, or where it cannot be read."""
    try:
        size, data = read_end(path, _MOST_BYTES)
        fields = json.loads(data) if size == len(data) else None
    except (SourceError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _loses(loss: object) -> bool:
    """Whether the loss of a plan, as JSON has it, is one of records."""
    spans = [loss.get(name) for name in ("sound", "unreadable")] if isinstance(loss, dict) else ()
    return any(
        isinstance(span, dict) and bool(span.get("count") or span.get("unbounded"))
        for span in spans
    )


def _holes(path: Path) -> Iterator[tuple[int, int]]:
    """The holes that a receipt lists, but for one without an end."""
    listed = _fields(path / RECEIPT).get("holes")
    for hole in listed if isinstance(listed, list) else ():
        if isinstance(hole, dict):
            first, last = hole.get("first_offset"), hole.get("last_offset")
            if type(first) is int and type(last) is int:
                yield first, last


def _sizes(path: Path) -> Iterator[int]:
    """The bytes of every file below ``path``, as far as they can be seen."""
    with suppress(OSError), scan(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(path / entry.name)
                continue
            with suppress(OSError):  # gone since
                yield entry.stat(follow_symlinks=False).st_size
