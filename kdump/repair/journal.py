"""The journal of a repair of a log directory: the plans of its partitions.

It is written before the first change, before each further plan, and at the end. A plan that it
names may not have begun; the folder in its partition says that.

Spec: ``LogManager.loadLogs``, which passes over plain files.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.errors import KdumpError, Refused, SourceError
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_as_owner
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.lock import HeldLock, hold_log_directory
from kdump.repair.transaction.shared_files import beside_path, write_beside
from kdump.repair.transaction.undo import discard, undo
from kdump.storage.paths import as_local
from kdump.storage.repair_journal import REPAIR, SCHEMA, JournaledCure, RepairJournal, read_journal
from kdump.storage.repair_record import FOLDERS, RepairRecord, RepairState, repair_records

_MODE: Final = 0o600
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def encode(journal: RepairJournal) -> bytes:
    """Return the bytes of a journal."""
    fields = {
        "schema": SCHEMA,
        "command": REPAIR,
        "id": journal.id,
        "arguments": list(journal.arguments),
        "lossy": journal.lossy,
        "begun_ns": journal.begun_ns,
        "done": journal.done,
        "left": list(journal.left),
        "examined": journal.examined,
        "cures": [
            {
                "partition": cure.partition,
                "cure": cure.cure,
                "plan": cure.plan_id,
                "applied": list(cure.applied),
            }
            for cure in journal.cures
        ],
    }
    # Without indentation, since it is written once for each partition: with it Python, not C, makes
    # the text.
    return json.dumps(fields).encode() + b"\n"


def write_journal(journal: RepairJournal) -> None:
    """Write a journal, which appears whole or not at all. Raises Refused, OSError."""
    path = as_local(journal.path)
    with open_as_owner(path.parent):
        owner = Attributes.of(path.parent)
        like = Attributes(owner.uid, owner.gid, _MODE)
        write_beside(path, encode(journal), like, journal.id)


def begin(journals: Sequence[RepairJournal]) -> None:
    """Write the journals of a repair, before its first change: all of them, or none.

    Raises Refused.
    """
    try:
        for journal in journals:
            write_journal(journal)
    except BaseException as error:
        for journal in journals:
            with suppress(OSError, Refused):
                remove_journal(journal)
        if isinstance(error, OSError):
            place = as_local(journals[0].path).parent
            text = f"{place}: expected to write the journal of the repair, found: {error}"
            raise Refused(f"{text}: nothing was changed") from error
        raise


def has_begun(journals: Sequence[RepairJournal]) -> bool:
    """Return whether a repair may have changed something; all of its journals are there then."""
    return any(cure.applied for journal in journals for cure in journal.cures)


def remove_journal(journal: RepairJournal) -> None:
    """Remove a journal. Raises Refused, OSError."""
    path = as_local(journal.path)
    with open_as_owner(path.parent):
        beside = beside_path(path, journal.id)
        if disk.exists(beside):  # of a write that was killed
            disk.unlink(beside)
        if disk.exists(path):
            disk.unlink(path)


def own_journal(path: Path) -> RepairJournal:
    """Read a journal that the owner of its directory alone can have written.

    Raises Refused, SourceError.
    """
    return of_owner(read_journal(path))


def of_owner(journal: RepairJournal) -> RepairJournal:
    """Return a journal that the owner of its directory alone can have written, else raise Refused.

    Raise OSError if it is gone.
    """
    path = as_local(journal.path)
    status, uid = path.lstat(), path.parent.stat().st_uid
    if status.st_uid != uid or status.st_mode & _OTHERS_WRITE:
        raise Refused(
            f"{path}: expected a file of user {uid} that no other user can write, found a file of "
            f"user {status.st_uid} with mode {stat.S_IMODE(status.st_mode):o}: move it away"
        )
    return journal


def note_plan(path: Path, partition: str, plan_id: str) -> None:
    """Add a plan that is begun next in a partition to the journal at ``path``.

    What another process has added since stays. Raises Refused, SourceError, OSError.
    """
    journal = own_journal(path)
    cures = tuple(
        replace(cure, applied=(*cure.applied, plan_id))
        if cure.partition == partition and plan_id not in cure.applied
        else cure
        for cure in journal.cures
    )
    write_journal(replace(journal, cures=cures))


def finish(path: Path) -> None:
    """Write into the journal at ``path`` that nothing is left to do.

    Without a change there is nothing to undo, and it goes. Raises Refused, SourceError, OSError.
    """
    journal = own_journal(path)
    if is_over(journal):
        remove_journal(journal)
    else:
        write_journal(replace(journal, done=True))


def records_of(
    directory: Path, cure: JournaledCure, *, prepared: bool = False
) -> Sequence[RepairRecord]:
    """Return the repairs of a partition that a journal names and that have begun, oldest first.

    ``prepared``: also one that has not begun. Raises SourceError.
    """
    found = {record.id: record for record in repair_records(directory / cure.partition)}
    records = (found[plan_id] for plan_id in cure.applied if plan_id in found)
    return [each for each in records if prepared or each.state is not RepairState.PREPARED]


def is_over(journal: RepairJournal) -> bool:
    """Return whether no repair of a journal is left: all were undone, or their backups removed.

    Raises SourceError.
    """
    directory = as_local(journal.path).parent
    return not any(records_of(directory, cure) for cure in journal.cures)


def take_back(
    journal: RepairJournal, *, assume_stopped: bool, discarding: bool = False
) -> Iterator[tuple[Path, RepairRecord, KdumpError | None]]:
    """Undo all repairs of a journal, the last one first; ``discarding``: remove their backups.

    ``journal`` may have some of its cures alone. Yields the partition and the repair, with the
    error that has kept it as it is, None for none. The journal goes once no repair of all of its
    cures is left. The log directory stays locked from the first undo on. Raises Unfinished where an
    undo was interrupted; Refused, SourceError, OSError.
    """
    directory = as_local(journal.path).parent
    held: HeldLock | None = None
    with ExitStack() as stack:
        for cure in reversed(journal.cures):
            partition = directory / cure.partition
            for record in reversed(records_of(directory, cure, prepared=True)):
                undoing = not discarding and record.state is not RepairState.PREPARED
                if undoing and held is None:
                    holding = hold_log_directory(directory, assume_stopped=assume_stopped)
                    held = stack.enter_context(holding)
                try:
                    if undoing:
                        undo(record, partition, directory, assume_stopped=assume_stopped, held=held)
                    else:
                        discard(record, partition)
                except (Refused, SourceError) as error:
                    yield partition, record, error
                    break  # an earlier repair of this partition cannot be undone before this one
                if record.state is not RepairState.PREPARED:  # that one has changed nothing
                    yield partition, record, None
            _remove_empty_folder(partition)
        if is_over(read_journal(journal.path)):
            remove_journal(journal)


def _remove_empty_folder(partition: Path) -> None:
    """Remove the directory for the folders of repairs, if a kill has left it empty."""
    folders = partition / FOLDERS
    if folders.is_dir() and not folders.is_symlink():
        with open_as_owner(partition):
            disk.remove_empty(folders)
