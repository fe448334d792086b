"""undo(): reverts the newest repair; discard(): deletes its backup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kdump.audit.commands import undo_command
from kdump.errors import Refused, Unfinished
from kdump.repair.transaction import disk
from kdump.repair.transaction.directories import open_as_owner
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.interruption import cause_text, report_interruption
from kdump.repair.transaction.lock import (
    HeldLock,
    OpenRepairs,
    check_changeable,
    check_readers,
    hold_lock,
)
from kdump.repair.transaction.plan import Plan, PutMarker, with_paths
from kdump.repair.transaction.repair import Repair, StepState
from kdump.repair.transaction.shared_files import marker_path
from kdump.storage.repair_record import RepairRecord, RepairState, repair_records


def newest_repair(partition: Path) -> RepairRecord | None:
    """Return the newest repair of a partition that may have changed it, None without one."""
    records = repair_records(partition)
    begun = [record for record in records if record.state is not RepairState.PREPARED]
    return begun[-1] if begun else None


def refusal(record: RepairRecord, partition: Path, log_directory: Path | None) -> Refused | None:
    """Return why a repair cannot be undone, None if it can. Running brokers are not checked."""
    folder = Folder(partition, record.id)
    try:
        plan = with_paths(folder.plan(), partition, log_directory)
        others = None if log_directory is None else OpenRepairs(log_directory)
        _check(record, plan, folder, others)
    except Refused as refused:
        return refused
    return None


def undo(
    record: RepairRecord,
    partition: Path,
    log_directory: Path | None,
    *,
    assume_stopped: bool,
    held: HeldLock | None = None,
) -> Plan:
    """Undo a repair, finished or not, and remove its folder; return its plan.

    ``held`` is as for ``hold_lock``. Raises Refused if nothing was changed, Unfinished if something
    was changed; SourceError.
    """
    folder = Folder(partition, record.id)
    plan = with_paths(folder.plan(), partition, log_directory)
    _check_steps(plan)
    done = record.state is RepairState.DONE
    # As in resume(), the files count, not the device and the inode of their directory.
    with hold_lock(
        partition, log_directory, assume_stopped=assume_stopped, interrupted=not done, held=held
    ) as lock:
        check_readers(plan.partition, plan.changed_files)
        repair = _check(record, plan, folder, None if lock is None else lock.open_repairs)
        check_changeable(plan, undoing=True)
        folder.check_removable()
        leaves = _leaves_marker(record, plan, folder)
        with report_interruption(plan, folder, undoing=True):
            if not done:
                repair.flush()
            folder.undo_repair(leaves_marker=leaves)
            start = replace(repair.start, marker=None) if leaves else repair.start
            repair = Repair(plan, folder, start, undoing=True)
            for step in reversed(plan.steps):
                if repair.state(step) is not StepState.PENDING:
                    repair.undo(step)
            repair.clear()
            _remove_folder(folder)
    return plan


def _leaves_marker(record: RepairRecord, plan: Plan, folder: Folder) -> bool:
    """Return whether the clean shutdown marker stays away, since another process has taken it.

    The repair has put it back. Then a broker took it, or a move brought a log that needs recovery.
    """
    if record.state is RepairState.UNDOING:
        return folder.leaves_marker()
    put_back = any(isinstance(step, PutMarker) for step in plan.steps)
    return record.state is RepairState.DONE and put_back and not marker_path(plan).exists()


def _check(record: RepairRecord, plan: Plan, folder: Folder, others: OpenRepairs | None) -> Repair:
    """Return a repair that can be undone, else raise Refused; ``others`` are in its directory."""
    _check_steps(plan)
    newest = newest_repair(plan.partition)
    if newest is None or newest.id != record.id:
        newer = "none" if newest is None else newest.id
        raise Refused(
            f"{plan.partition}: expected {record.id} to be the newest repair, found {newer}: undo "
            "that repair first"
        )
    if others is not None:
        others.check(plan.partition)
    undoing = record.state is RepairState.UNDOING
    repair = Repair(plan, folder, folder.start_record(plan), undoing=undoing)
    repair.check()
    return repair


def _check_steps(plan: Plan) -> None:
    if not plan.steps:
        raise Refused(
            f"{plan.partition}: expected a repair that changed something, found kdump "
            f"{plan.command}, which has made this directory: to undo it, remove the directory"
        )


def discard(record: RepairRecord, partition: Path) -> None:
    """Remove the backup of a repair, which can then no longer be undone.

    Raises Refused if nothing was removed, Unfinished if something was removed.
    """
    if record.state in (RepairState.PENDING, RepairState.UNDOING):
        raise Refused(
            f"{record.path}: expected a finished repair, found an interrupted repair: finish or "
            "undo it"
        )
    folder = Folder(partition, record.id)
    with open_as_owner(partition):
        try:
            folder.remove()
        except (OSError, KeyboardInterrupt, SystemExit) as error:
            if not folder.has_begun:
                raise _stopped_removal(folder, error) from error
            if isinstance(error, OSError):
                raise Refused(f"{record.path}: cannot be removed: {error}") from error
            raise


def _stopped_removal(folder: Folder, error: BaseException) -> Unfinished:
    """Return what to raise for an error or a signal after the removal of ``begun.json``."""
    undo_it = undo_command(folder.partition, folder.path.name)
    if disk.exists(folder.path):
        command = *undo_it[:-1], "--discard"
        end = "only part of the backup is left: run the command again"
    else:
        command, end = undo_it[:3], "the backup is removed"
    cause = cause_text(error)
    return Unfinished(f"{folder.path}: the removal was interrupted: {cause}; {end}", command)


def _remove_folder(folder: Folder) -> None:
    """Remove the folder of an undone repair. Raises OSError if ``begun.json`` is still there."""
    try:
        folder.remove()
    except OSError:
        # Without begun.json the rest is not a backup, and can be discarded.
        if folder.has_begun:
            raise
