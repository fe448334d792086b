"""undo(): reverts the newest repair; discard(): deletes its backup."""

from __future__ import annotations

from pathlib import Path

from kdump.errors import Refused
from kdump.repair.transaction.directories import open_as_owner
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.interruption import report_interruption
from kdump.repair.transaction.lock import (
    check_changeable,
    check_other_partitions,
    check_readers,
    hold_lock,
)
from kdump.repair.transaction.plan import Plan, with_paths
from kdump.repair.transaction.states import States, StepState
from kdump.repair.transaction.steps import clear, flush
from kdump.repair.transaction.steps import undo as undo_step
from kdump.storage.repair_record import RepairRecord, RepairState, repair_records


def newest_repair(partition: Path) -> RepairRecord | None:
    """Return the newest repair of a partition that may have changed it, None without one."""
    repairs = [
        repair for repair in repair_records(partition) if repair.state is not RepairState.PREPARED
    ]
    return repairs[-1] if repairs else None


def refusal(repair: RepairRecord, partition: Path, log_directory: Path | None) -> Refused | None:
    """Return why a repair cannot be undone, None if it can. Running brokers are not checked."""
    folder = Folder(partition, repair.id)
    try:
        plan = with_paths(folder.plan(), partition, log_directory)
        _check(repair, plan, folder)
    except Refused as refused:
        return refused
    return None


def undo(
    repair: RepairRecord, partition: Path, log_directory: Path | None, *, assume_stopped: bool
) -> Plan:
    """Undo a repair, finished or not, and remove its folder; return its plan.

    Raises Refused if nothing was changed, Unfinished if something was changed; SourceError.
    """
    folder = Folder(partition, repair.id)
    plan = with_paths(folder.plan(), partition, log_directory)
    _check_steps(plan)
    with hold_lock(partition, log_directory, assume_stopped=assume_stopped):
        check_readers(plan)
        start_record = _check(repair, plan, folder)
        check_changeable(plan, undoing=True)
        folder.check_removable()
        with report_interruption(plan, folder, undoing=True):
            if repair.state is not RepairState.DONE:
                flush(plan, folder)
            folder.undo()
            states = States(plan, folder, start_record, undoing=True)
            for step in reversed(plan.steps):
                if states.of(step) is not StepState.PENDING:
                    undo_step(plan, step, folder, start_record)
            clear(plan)
            _remove_folder(folder)
    return plan


def _check(repair: RepairRecord, plan: Plan, folder: Folder) -> StartRecord:
    """Raise Refused unless a repair can be undone; return the content of its ``begun.json``."""
    _check_steps(plan)
    newest = newest_repair(plan.partition)
    if newest is None or newest.id != repair.id:
        newer = "none" if newest is None else newest.id
        raise Refused(
            f"{plan.partition}: expected {repair.id} to be the newest repair, found {newer}: undo "
            "that repair first"
        )
    check_other_partitions(plan.partition, plan.log_directory)
    start_record = folder.start_record(plan)
    States(plan, folder, start_record, undoing=repair.state is RepairState.UNDOING).check()
    return start_record


def _check_steps(plan: Plan) -> None:
    if not plan.steps:
        raise Refused(
            f"{plan.partition}: expected a repair that changed something, found kdump "
            f"{plan.command}, which has made this directory: to undo it, remove the directory"
        )


def discard(repair: RepairRecord, partition: Path) -> None:
    """Remove the backup of a repair, which can then no longer be undone. Raises Refused."""
    if repair.state in (RepairState.PENDING, RepairState.UNDOING):
        raise Refused(
            f"{repair.path}: expected a finished repair, found an interrupted repair: finish or "
            "undo it"
        )
    folder = Folder(partition, repair.id)
    with open_as_owner(partition):
        try:
            folder.remove()
        except OSError as error:
            raise Refused(f"{repair.path}: cannot be removed: {error}") from error


def _remove_folder(folder: Folder) -> None:
    """Remove the folder of an undone repair. Raises OSError if ``begun.json`` is still there."""
    try:
        folder.remove()
    except OSError:
        # Without begun.json the rest is not a backup, and can be discarded.
        if folder.has_begun:
            raise
