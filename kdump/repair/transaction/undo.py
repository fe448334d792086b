"""undo(): takes the newest repair back; discard(): deletes its backup."""

from __future__ import annotations

from pathlib import Path

from kdump.errors import Refused
from kdump.repair.transaction.directories import owned
from kdump.repair.transaction.folder import Begun, Folder
from kdump.repair.transaction.interruption import report_interruption
from kdump.repair.transaction.lock import check_changeable, check_others, check_readers, held
from kdump.repair.transaction.plan import Plan, located
from kdump.repair.transaction.states import Progress, States
from kdump.repair.transaction.steps import clear, flush
from kdump.repair.transaction.steps import undo as undo_step
from kdump.storage.repair_record import RepairRecord, RepairState, kept


def undoable(partition: Path) -> RepairRecord | None:
    """The repair of a partition that can be taken back first, None without one."""
    found = [one for one in kept(partition) if one.state is not RepairState.PREPARED]
    return found[-1] if found else None


def refusal(one: RepairRecord, partition: Path, log_directory: Path | None) -> Refused | None:
    """Why a repair cannot be taken back, running brokers aside; None where it can."""
    folder = Folder(partition, one.id)
    try:
        plan = located(folder.plan(), partition, log_directory)
        _check(one, plan, folder)
    except Refused as refused:
        return refused
    return None


def undo(
    one: RepairRecord, partition: Path, log_directory: Path | None, *, assume_stopped: bool
) -> Plan:
    """Take a repair back, finished or not; its folder is gone then. Returns its plan.

    Raises Refused where nothing was changed, Unfinished where something was, SourceError.
    """
    folder = Folder(partition, one.id)
    plan = located(folder.plan(), partition, log_directory)
    _check_steps(plan)
    with held(partition, log_directory, assume_stopped=assume_stopped):
        check_readers(plan)
        begun = _check(one, plan, folder)
        check_changeable(plan, undoing=True)
        folder.check_removable()
        with report_interruption(plan, folder, undoing=True):
            if one.state is not RepairState.DONE:
                flush(plan, folder)
            folder.undo()
            states = States(plan, folder, begun, undoing=True)
            for step in reversed(plan.steps):
                if states.of(step) is not Progress.TODO:
                    undo_step(plan, step, folder, begun)
            clear(plan)
            _forget(folder)
    return plan


def _check(one: RepairRecord, plan: Plan, folder: Folder) -> Begun:
    """Raise Refused unless a repair can be taken back; returns the steps that were begun."""
    _check_steps(plan)
    newest = undoable(plan.partition)
    if newest is None or newest.id != one.id:
        newer = "none" if newest is None else newest.id
        raise Refused(
            f"{plan.partition}: expected {one.id} to be the newest repair, found {newer}: undo "
            "that repair first"
        )
    check_others(plan.partition, plan.log_directory)
    begun = folder.begun(plan)
    States(plan, folder, begun, undoing=one.state is RepairState.UNDOING).check()
    return begun


def _check_steps(plan: Plan) -> None:
    if not plan.steps:
        raise Refused(
            f"{plan.partition}: expected a repair that changed something, found kdump "
            f"{plan.command}, which has made this directory: to undo it, remove the directory"
        )


def discard(one: RepairRecord, partition: Path) -> None:
    """Remove the backup of a repair, which can then no longer be taken back. Raises Refused."""
    if one.state in (RepairState.PENDING, RepairState.UNDOING):
        raise Refused(
            f"{one.path}: expected a finished repair, found an interrupted repair: finish or undo "
            "it"
        )
    folder = Folder(partition, one.id)
    with owned(partition):
        try:
            folder.remove()
        except OSError as error:
            raise Refused(f"{one.path}: cannot be removed: {error}") from error


def _forget(folder: Folder) -> None:
    """Remove the folder of a repair that was taken back. Raises OSError if it still says so."""
    try:
        folder.remove()
    except OSError:
        # What is left otherwise is no backup any more, and can be discarded.
        if folder.has_begun:
            raise
