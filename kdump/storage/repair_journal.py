"""The journals of repairs of whole log directories, each a plain file at the top of one.

Brokers ignore plain files there. ``kdump.repair.journal`` writes them. The backups are in the
partitions, as those of other repairs: a journal only says which of them belong together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.paths import AnyPath, scan
from kdump.storage.repair_record import is_argument, is_file_name
from kdump.storage.source import source_error
from kdump.values import frozen

#: The command whose repairs have a journal.
REPAIR: Final = "repair"
SCHEMA: Final = 1
_NAME: Final = re.compile(r"\.kdump\.([0-9a-f]{8})", re.ASCII)
_ID: Final = re.compile(r"[0-9a-f]{8}", re.ASCII)
_MOST_BYTES: Final = 64 << 20


@frozen
class JournaledCure:
    """A partition in a journal: the name of its directory, and its cure.

    ``plan_id`` is that of its plan. ``applied`` are the plans that were begun there, in order: the
    one that was planned, and then those that rebuild what still needs it.
    """

    partition: str
    cure: str
    plan_id: str
    applied: tuple[str, ...] = ()


@frozen
class RepairJournal:
    """The journal of a repair at ``path``; its ``id`` is that of the plan.

    ``arguments`` are the options of the command, ``lossy``: records are lost, ``done``: nothing of
    it is left to do. ``begun_ns`` is the time of its begin in nanoseconds since the epoch. ``left``
    are the names of partitions that the plan leaves as they are. ``examined`` counts all partitions
    that the plan is about, in all log directories.
    """

    path: AnyPath
    id: str
    arguments: tuple[str, ...]
    lossy: bool
    begun_ns: int
    cures: tuple[JournaledCure, ...]
    left: tuple[str, ...]
    examined: int
    done: bool


def journal_path(directory: AnyPath, plan_id: str) -> AnyPath:
    """Return the path of the journal of plan ``plan_id`` in a log directory."""
    return directory / f".kdump.{plan_id}"


def repair_journals(directory: AnyPath) -> tuple[RepairJournal, ...]:
    """Return the journals in a log directory, the oldest first.

    Raises SourceError if the directory cannot be listed, or a journal cannot be read.
    """
    found = [read_journal(path) for path in _paths(directory)]
    return tuple(sorted(found, key=lambda journal: (journal.begun_ns, journal.id)))


def _paths(directory: AnyPath) -> Iterator[AnyPath]:
    try:
        with scan(directory) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    yield directory / entry.name
    except OSError as error:
        raise source_error(directory, error) from error


def read_journal(path: AnyPath) -> RepairJournal:
    """Read a journal. Raises SourceError if it cannot be read, or no repair has written it."""
    size, data = read_end(path, _MOST_BYTES)
    try:
        if size != len(data):
            raise ValueError(f"{size} bytes")
        return _decode(path, json.loads(data))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise SourceError(
            path,
            f"{path}: expected the journal of a repair, found another file ({error}): the backups "
            "are in the partitions, and kdump undo lists them: to go on, move this file away",
        ) from error


def _decode(path: AnyPath, fields: Mapping[str, Any]) -> RepairJournal:
    if fields["schema"] != SCHEMA or fields["command"] != REPAIR:
        raise ValueError(f"expected schema {SCHEMA}, found {fields['schema']}")
    named = _NAME.fullmatch(path.name)
    if named is None or fields["id"] != named[1]:
        raise ValueError(f"a journal with id {fields['id']}")
    begun_ns, lossy, done = fields["begun_ns"], fields["lossy"], fields["done"]
    examined = fields["examined"]
    if type(begun_ns) is not int or type(examined) is not int:
        raise ValueError("expected a time and a count")
    if type(lossy) is not bool or type(done) is not bool:
        raise ValueError("expected two truth values")
    arguments = tuple(fields["arguments"])
    left = tuple(fields["left"])
    if not all(map(is_argument, arguments)) or not all(map(is_file_name, left)):
        raise ValueError("expected words as arguments, and names of partition directories")
    cures = tuple(map(_decode_cure, fields["cures"]))
    return RepairJournal(
        path, fields["id"], arguments, lossy, begun_ns, cures, left, examined, done
    )


def _decode_cure(fields: Mapping[str, Any]) -> JournaledCure:
    name, cure, plan_id = fields["partition"], fields["cure"], fields["plan"]
    applied = tuple(fields["applied"])
    if not is_file_name(name) or not isinstance(cure, str):
        raise ValueError("expected the name of a partition directory and a cure")
    if not all(isinstance(each, str) and _ID.fullmatch(each) for each in (plan_id, *applied)):
        raise ValueError("expected the ids of plans")
    return JournaledCure(name, cure, plan_id, applied)
